//! Networks as every decision and every world of Weir sees them: named nodes, directed links with
//! a capacity and a delay, and the paths between nodes.
//!
//! [`Network`] is immutable once built; [`NetworkBuilder`] refuses what cannot be a network with a
//! [`TopologyError`] that names the item. [`Network::shortest`] finds a [`Path`];
//! [`Network::from_json`] reads one from text; [`named`] holds networks from the literature.
//! [`NextHops`] says by which link each node of a lab or of a simulation sends packets on.

mod json;
pub mod named;
mod network;
mod next_hops;
mod path;
mod search;

pub use network::{Link, LinkId, Network, NetworkBuilder, NodeId, TopologyError};
pub use next_hops::{Edge, NextHops};
pub use path::{Metric, Path};
