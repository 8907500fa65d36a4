//! Queue disciplines: which packet leaves next, which is marked, which is dropped.
//!
//! The trait to know is [`QueueDiscipline`]; what it queues is any [`Packet`]; a
//! [`DisciplineConfig`] makes any discipline by its name. Nothing here reads a clock, does I/O or
//! starts anything: the instant comes in as `now`, randomness as a seeded [`Random`]. The same code
//! therefore queues simulated packets and a kernel's real ones.
//!
//! One file per discipline: [`Fifo`], [`Priority`].

mod class;
mod classify;
mod config;
mod counters;
mod discipline;
mod error;
mod fifo;
mod histogram;
mod limit;
mod packet;
mod priority;

pub use classify::L4sClassifier;
pub use config::DisciplineConfig;
pub use counters::{Backlog, ClassCounters};
pub use discipline::{DropCause, Dropped, QueueDiscipline};
pub use error::QueueError;
pub use fifo::{Fifo, FifoConfig};
pub use histogram::Histogram;
pub use limit::{Amount, Limit};
pub use packet::{Dscp, Ecn, Packet};
pub use priority::{Priority, PriorityConfig};
pub use weir_random::Random;
