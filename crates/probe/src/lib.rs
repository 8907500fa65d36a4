//! Asks a host how long the path to it and back takes, again and again, on time.
//!
//! [`Prober`] is the type to start with: a thread that sends the requests of a [`Plan`] through an
//! [`Echo`] and hands over [`Sample`]s. What it does when is decided by a [`Sampler`], which reads
//! no clock and opens no socket: time and replies come in, requests and samples go out.

mod echo;
mod message;
mod plan;
mod prober;
mod sampler;
mod system;

pub use echo::{Echo, Framing, Reply, UnknownFraming};
pub use plan::{Period, Plan, SPACING};
pub use prober::Prober;
pub use sampler::{Sample, Sampler, Step};
