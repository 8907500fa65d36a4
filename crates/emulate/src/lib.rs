//! Links in real time: loss, a queue, a rate, a delay, between two TUN devices, or TAP devices
//! where a switch's port is (`frame`); and wireless ones, which share a channel.
//!
//! The type to start with is [`Emulator`], built from a [`Config`]. The life of a packet: the
//! kernel hands a super-packet of up to 64 KiB to a TUN device (`tun`); it is cut, without copying,
//! into the packets that the link would carry (`offload`); each passes a [`Pipe`] on its own: loss
//! model, queue discipline, rate server, delay line; those that are due together and follow one
//! another in one TCP flow leave in one write (`coalesce`).
//!
//! [`Pipe`] owns no clock. It gives each packet a *logical* departure time, so that a thread that
//! wakes late releases late but shifts nothing that comes after; a wireless [`Channel`] likewise.
//! `thread` owns the clock. It carries what is a `Carrier`: a wired `link` with both directions, or
//! a `cell`, which is all links of a channel. `way` is what the directions of both have in common.
//!
//! [`Channel`]: weir_link::Channel

mod arena;
mod cell;
#[cfg(test)]
mod cell_tests;
mod coalesce;
mod config;
mod emulator;
mod frame;
#[cfg(test)]
mod frame_tests;
mod headers;
mod link;
mod offload;
#[cfg(test)]
mod offload_tests;
mod realtime;
mod segment;
mod statistics;
mod thread;
mod tun;
mod way;

pub use config::{Config, ConfigError};
pub use emulator::{Emulator, EmulatorError};
pub use statistics::{ClassStatistics, DirectionStatistics, Headroom, LinkStatistics, Statistics};
pub use tun::TunError;
pub use weir_link::{Delay, Loss, Pipe, PipeCounters};
