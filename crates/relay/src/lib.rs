//! Many TCP connections joined into one, and split again (work 003, chapter 2).
//!
//! `weir-aggregate` decides, without input and output. [`Join`] and [`Split`] are the two ends of
//! an aggregate over the kernel's sockets, each in one thread that waits for events; [`Proxy`] is
//! one relay alone, between a client's connection and another one to the server.

mod aggregate;
mod announced;
mod control;
mod error;
mod flow;
mod hold;
mod join;
mod pipe;
mod poll;
mod proxy;
mod settings;
mod socket;
mod split;
mod status;
mod system;
mod telling;
mod words;

pub use announced::{Announced, Announcement, Offered, Stage};
pub use error::RelayError;
pub use hold::Filter;
pub use join::Join;
pub use proxy::Proxy;
pub use settings::{
    Allowed, EACH_AT_MOST, GONE_AFTER, HEARD_WITHIN, JoinSettings, LinkedAck, Network,
    ProxySettings, SplitSettings, Weights,
};
pub use split::Split;
pub use status::{FlowStatus, Status};
pub use weir_aggregate::frame::FLOWS_MAX;
