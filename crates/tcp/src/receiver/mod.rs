//! The receiving half: what arrived, when to say so, how much more may come.

mod acks;
mod reassembly;
mod window;

pub(crate) use acks::AckPolicy;
pub(crate) use reassembly::Reassembly;
pub(crate) use window::{ReceiveWindow, scale_for};
