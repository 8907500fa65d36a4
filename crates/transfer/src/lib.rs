//! The bulk mover: files over TCP, verified, paced, resumable.
//!
//! [`Transfer`] is one transfer as its owner sees it, [`Daemon`] the other end, [`keys`] what
//! they know each other by. [`wire`] is the protocol between them, free of input and output.
//!
//! Blocking threads throughout: one per data connection, one for control and one that reports at
//! each end. Content passes through a buffer that stays in the cache, or not through user space
//! at all.

// Fields of `Stat` have other types when rustix calls the C library, as it does for the tests.
#![allow(clippy::unnecessary_cast)]

mod bounds;
mod catalogue;
mod cert;
mod chunks;
mod client;
mod connection;
mod control;
mod daemon;
mod error;
mod escape;
mod guests;
mod hash;
mod journal;
pub mod keys;
mod ledger;
mod log;
mod pace;
mod progress;
mod receive;
mod remote;
mod rights;
mod room;
mod root;
mod send;
mod session;
mod socket;
mod tls;
mod transfer;
pub mod wire;

pub use catalogue::{Catalogue, Item};
pub use cert::Holder;
pub use daemon::{Access, Daemon, DaemonConfig, Export};
pub use error::{ErrorClass, FileFailure, TransferError};
pub use escape::{printable, printable_bytes};
pub use ledger::{FailedFile, SettledFile};
pub use log::{Account, Entry, Log};
pub use progress::{Progress, Snapshot};
pub use remote::Remote;
pub use rights::Grant;
pub use root::{Confinement, Root};
pub use transfer::{Direction, Ports, Settings, Transfer, TransferState};
pub use wire::HashKind;
