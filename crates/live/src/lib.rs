//! Applications over the kernel's TCP: the very ones of the packet simulator, with real sockets
//! behind them.
//!
//! The type to start with is [`Live`]: both ends of one traffic in one thread, so that an
//! application measures with one clock. Make it, call [`listen`](Live::listen) in the network
//! namespace of the host that accepts, then [`run`](Live::run) in that of the host that opens: a
//! socket stays in the namespace in which it was made.

mod config;
mod error;
mod run;
mod sockets;

pub use config::Config;
pub use error::LiveError;
pub use run::{Live, Outcome};
