//! One direction of a wired link without clock or I/O: loss, a queue, a rate, a delay.
//!
//! The type to know is [`Pipe`]. Two worlds run it: the emulator, on the wall clock with a kernel's
//! packets, and the packet simulator, on event time with its own. What a link does to packets is
//! therefore the same in both.

mod config;
mod loss;
mod pipe;

pub use config::{DirectionConfig, LinkError, LossConfig};
pub use loss::Loss;
pub use pipe::{Delay, Pipe, PipeCounters};
