//! Applications and datagrams over the kernel's sockets: the very ones of the packet simulator.
//!
//! The types to start with are [`Live`], both ends of one application in one thread, so that it
//! measures with one clock, and [`Datagrams`], the sending end of UDP. Of an application make it,
//! call [`listen`](Live::listen) in the network namespace of the host that accepts, then
//! [`run`](Live::run) in that of the host that opens: a socket stays in the namespace in which it
//! was made.

mod clock;
mod config;
mod datagrams;
mod error;
mod run;
mod segments;
mod sockets;

pub use config::{Config, DatagramsConfig};
pub use datagrams::{Datagrams, Sent};
pub use error::LiveError;
pub use run::{Live, Outcome};
