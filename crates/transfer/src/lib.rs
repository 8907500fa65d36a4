//! The bulk mover: files over TCP, verified, paced, resumable.
//!
//! [`Transfer`] is one transfer as its owner sees it, [`Server`] the other end, [`keys`] what
//! they know each other by. [`wire`] is the protocol between them, free of input and output.
//!
//! Blocking threads throughout: one per data connection, one for control and one that reports at
//! each end. Content passes through a buffer that stays in the cache, or not through user space
//! at all.

// Fields of `Stat` have other types when rustix calls the C library, as it does for the tests.
#![allow(clippy::unnecessary_cast)]

mod addresses;
mod bounds;
mod buffer;
mod catalogue;
mod cert;
mod chunks;
mod client;
mod connection;
mod control;
mod error;
mod escape;
mod file_version;
mod hash;
mod helper;
mod hosts;
mod interrupted;
mod journal;
pub mod keys;
mod ledger;
mod pace;
mod packet_limit;
mod progress;
mod random;
mod receive;
mod remote;
mod room;
mod root;
mod route;
mod scratch;
mod send;
mod server;
mod socket;
mod spare;
mod spool;
mod streams;
mod threads;
mod tls;
mod transfer;
pub mod wire;

pub use catalogue::{Catalogue, Item};
pub use cert::Holder;
pub use error::{ErrorClass, FileFailure, TransferError};
pub use escape::{printable, printable_bytes};
pub use hosts::{HostShare, Loss};
pub use ledger::{FailedFile, SettledFile};
pub use progress::{Progress, Snapshot};
pub use remote::Remote;
pub use root::{Confinement, Root};
pub use route::Route;
pub use server::{Access, Account, Entry, Export, Grant, Log, Server, ServerSettings};
pub use spare::{LowerClass, Spare};
pub use transfer::{Direction, Ports, Settings, Transfer, TransferState};
pub use wire::HashKind;
