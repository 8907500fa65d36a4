//! Many TCP connections in one, the *aggregate* (work 003, chapter 2): what it is made of, and what
//! its two ends decide. Without input and output, and without a clock: `weir-relay` has the
//! kernel's sockets around it, `weir-packet` simulated ones.
//!
//! [`frame`] and [`message`] are what goes over an aggregate, [`turns`] whose data go next,
//! [`window`] how much of a flow may be under way, [`linked_ack`] what may be acknowledged,
//! [`pulse`] whether the other end runs.

mod error;
pub mod frame;
pub mod linked_ack;
pub mod message;
pub mod pulse;
pub mod turns;
pub mod window;

pub use error::ProtocolError;
