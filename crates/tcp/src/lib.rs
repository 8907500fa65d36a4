//! Transports without I/O or clock: how much may be in flight now, and what was lost. TCP, and
//! [`udt`] to compare with.
//!
//! The type of TCP to know is [`Connection`], one side of one connection: segments and the time go
//! in, segments and the next timer come out. What travels is a [`Segment`], in absolute stream
//! offsets and without content; what decides how much of it may be under way is a
//! [`CongestionControl`]. [`Config`] names everything that can be switched; `docs/tcp.md` says what
//! is implemented of which RFC, and where that departs from it or from Linux.

mod config;
pub mod congestion;
mod connection;
mod ecn;
mod receiver;
mod segment;
mod sender;
mod statistics;
pub mod udt;

pub use config::{
    Bundling, Config, DelayedAck, LossDetection, Nagle, ReceiveBuffer, RestartFrom, Rto, RtoRule,
    TailLossProbe,
};
pub use congestion::CongestionControl;
pub use connection::{Connection, End, State, Transmit};
pub use ecn::EcnMode;
pub use segment::{Flags, Offer, SackBlock, Segment};
pub use statistics::Statistics;
