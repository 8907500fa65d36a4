//! Queue disciplines: which packet leaves next, which is marked, which is dropped.
//!
//! The trait to know is [`QueueDiscipline`]; what it queues is any [`Packet`]; a
//! [`DisciplineConfig`] makes any discipline by its name, as an [`AnyQueue`]. Nothing here reads a
//! clock, does I/O or starts anything: the instant comes in as `now`, randomness as a seeded
//! [`Random`]. The same code therefore queues simulated packets and a kernel's real ones.
//!
//! One file per discipline, each of which opens with what it implements and where it departs from
//! its source and from Linux. Tail drop: [`Fifo`]. Schedulers between classes: [`Priority`],
//! [`RoundRobin`] (weighted, deficit), [`Wfq`]. AQMs on one queue: [`Red`], [`Ared`], [`Pie`],
//! [`Codel`], [`CurvyRed`], [`Phantom`]. On several: [`FqCodel`], and [`DualQ`] under DualPI2 or
//! Curvy RED. By contract: [`Shaper`], [`Policer`].

mod any;
mod ared;
mod class;
mod classify;
mod codel;
mod config;
mod counters;
mod curvy_red;
mod discipline;
mod dual_curvy_red;
mod dual_pi2;
mod dualq;
mod error;
mod fifo;
mod fq_codel;
mod histogram;
mod limit;
mod ns;
mod packet;
mod parameters;
mod phantom;
mod pie;
mod priority;
mod red;
mod round_robin;
mod timer;
mod token_bucket;
mod wfq;

pub use any::AnyQueue;
pub use ared::{Ared, AredConfig};
pub use classify::{L4sClassifier, WeightedClass};
pub use codel::{Codel, CodelConfig};
pub use config::DisciplineConfig;
pub use counters::{Backlog, ClassCounters, DropCause};
pub use curvy_red::{CurvyRed, CurvyRedConfig};
pub use discipline::{Dropped, QueueDiscipline};
pub use dual_curvy_red::{CouplingInput, DualCurvyRedConfig};
pub use dual_pi2::DualPi2Config;
pub use dualq::{DualQ, DualScheduler};
pub use error::QueueError;
pub use fifo::{Fifo, FifoConfig};
pub use fq_codel::{FqCodel, FqCodelConfig};
pub use histogram::Histogram;
pub use limit::{Amount, Limit};
pub use packet::{Dscp, Ecn, Packet};
pub use parameters::parameters;
pub use phantom::{Phantom, PhantomConfig};
pub use pie::{DelayEstimate, Pie, PieConfig, PieVariant};
pub use priority::{Priority, PriorityConfig};
pub use red::{Red, RedConfig};
pub use round_robin::{DrrConfig, RoundRobin, WrrConfig};
pub use token_bucket::{Policer, Shaper, TokenBucketConfig};
pub use weir_random::Random;
pub use wfq::{Wfq, WfqConfig};
