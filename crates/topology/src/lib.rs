//! Networks as every decision and every world of Weir sees them: named nodes, directed links with
//! a capacity and a delay, and the paths between nodes.
//!
//! [`Network`] is immutable once built; [`NetworkBuilder`] refuses what cannot be a network with a
//! [`TopologyError`] that names the item. [`Network::shortest`] finds a [`Path`];
//! [`Network::from_json`] reads one from text; [`named`] holds networks from the literature.

mod json;
pub mod named;
mod network;
mod path;

pub use network::{Link, LinkId, Network, NetworkBuilder, NodeId, TopologyError};
pub use path::{Metric, Path};
