//! Links without clock or I/O, in one or more directions.
//!
//! A wired link is one [`Pipe`] in each direction: loss, a queue, a rate, a delay. Directions that
//! affect each other share a medium: the stations of a wireless [`Channel`], the ports of a
//! lossless [`Subnet`], both behind [`SharedMedium`]. [`Medium`] is whichever of the three.
//!
//! Two worlds run pipes and channels: the emulator, on the wall clock with a kernel's packets, and
//! the packet simulator, on event time with its own. What such a link does to packets is therefore
//! the same in both. Subnets are the simulator's alone.

mod config;
mod control;
mod counters;
mod credits;
mod loss;
mod medium;
mod pipe;
mod server;
mod wlan;

pub use config::{DirectionConfig, LinkError, LossConfig};
pub use control::ControlConfig;
pub use counters::{AirCounters, AirStatistics, CreditCounters};
pub use credits::{CreditConfig, InputQueue, Subnet};
pub use loss::Loss;
pub use medium::{Medium, MediumCounters, SharedMedium};
pub use pipe::{Delay, Pipe, PipeCounters};
pub use wlan::{Channel, ChannelConfig, Standard, Stations};
