//! Queue disciplines: which packet leaves next, which is marked, which is dropped.
//!
//! The trait to know is [`QueueDiscipline`]; what it queues is any [`Packet`]. Nothing here reads
//! a clock, does I/O or starts anything: the instant comes in as `now`, randomness as a seeded
//! [`Random`]. The same code therefore queues simulated packets and a kernel's real ones.
//!
//! One file per discipline: [`Fifo`], [`Priority`].

mod counters;
mod discipline;
mod fifo;
mod histogram;
mod packet;
mod priority;

pub use counters::{Backlog, ClassCounters};
pub use discipline::{DropCause, Dropped, QueueDiscipline};
pub use fifo::{Fifo, Limit};
pub use histogram::Histogram;
pub use packet::{Dscp, Ecn, Packet};
pub use priority::Priority;
pub use weir_random::Random;
