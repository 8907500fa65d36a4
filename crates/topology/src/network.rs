//! The network itself and the builder that checks it.

use std::collections::HashMap;

use thiserror::Error;
use weir_units::{Rate, Time};

/// Rates are multiplied by times in 128 bits; this leaves the sign and one bit to spare.
pub(crate) const CAPACITY_MAX: Rate = Rate::from_bit_per_s(1 << 62);

/// A node of one [`Network`], by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// A directed link of one [`Network`], by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u32);

impl NodeId {
    /// Position among the network's nodes, in the order they were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    /// Position among the network's links, in the order they were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A directed link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Unique among the network's links.
    pub name: String,
    /// Where data enters.
    pub from: NodeId,
    /// Where data leaves.
    pub to: NodeId,
    /// What may be carried; never zero. The share of a link that is Weir's to hand out.
    pub capacity: Rate,
    /// One-way propagation delay.
    pub delay: Time,
}

/// Why something is not a network, or not in it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Two nodes of one name.
    #[error("node \"{node}\" is there twice")]
    DuplicateNode {
        /// The name.
        node: String,
    },
    /// Two links of one name.
    #[error("link \"{link}\" is there twice")]
    DuplicateLink {
        /// The name.
        link: String,
    },
    /// A node or link whose name is the empty text.
    #[error("a {kind} has an empty name")]
    EmptyName {
        /// `"node"` or `"link"`.
        kind: &'static str,
    },
    /// A link end that is not a node.
    #[error("link \"{link}\" ends at \"{node}\", which is not a node of the network")]
    UnknownEnd {
        /// The link.
        link: String,
        /// The name that is not known.
        node: String,
    },
    /// A node asked for by a name that the network does not have.
    #[error("\"{node}\" is not a node of the network")]
    UnknownNode {
        /// The name that is not known.
        node: String,
    },
    /// A link asked for by a name that the network does not have.
    #[error("\"{link}\" is not a link of the network")]
    UnknownLink {
        /// The name that is not known.
        link: String,
    },
    /// A link from a node to itself.
    #[error("link \"{link}\" leads from \"{node}\" to itself")]
    Loop {
        /// The link.
        link: String,
        /// Both its ends.
        node: String,
    },
    /// A link that carries nothing.
    #[error("link \"{link}\" has capacity 0")]
    ZeroCapacity {
        /// The link.
        link: String,
    },
    /// A capacity beyond what exact arithmetic holds.
    #[error("link \"{link}\" has capacity {capacity}, above the limit of {CAPACITY_MAX}")]
    CapacityTooLarge {
        /// The link.
        link: String,
        /// What was asked for.
        capacity: Rate,
    },
    /// Two nodes with no path between them.
    #[error("there is no path from \"{from}\" to \"{to}\"")]
    Disconnected {
        /// Where a path was to start.
        from: String,
        /// Where it was to end.
        to: String,
    },
    /// A path from a node to itself was asked for.
    #[error("source and destination are both \"{node}\"")]
    SameEnds {
        /// The node.
        node: String,
    },
    /// A list of links that does not join up.
    #[error("link \"{link}\" does not start where the link before it ends")]
    BrokenPath {
        /// The link that does not join.
        link: String,
    },
    /// A path without links.
    #[error("a path has no links")]
    EmptyPath,
    /// Text that is not the JSON form of a network.
    #[error("{place}: {reason}")]
    Json {
        /// Where in the document, as `links[3].capacity_bps`.
        place: String,
        /// What is wrong there.
        reason: String,
    },
}

/// Nodes and directed links, fixed once built.
#[derive(Clone, Debug)]
pub struct Network {
    pub(crate) nodes: Vec<String>,
    pub(crate) links: Vec<Link>,
    /// Links out of each node, by link name: the tie-break of every path search.
    pub(crate) outgoing: Vec<Vec<LinkId>>,
    /// Links into each node.
    pub(crate) incoming: Vec<Vec<LinkId>>,
    node_by_name: HashMap<String, NodeId>,
    link_by_name: HashMap<String, LinkId>,
}

/// Collects nodes and links; every method refuses at once what cannot be.
#[derive(Clone, Debug, Default)]
pub struct NetworkBuilder {
    nodes: Vec<String>,
    links: Vec<Link>,
    node_by_name: HashMap<String, NodeId>,
    link_by_name: HashMap<String, LinkId>,
}

impl NetworkBuilder {
    /// Adds a node.
    ///
    /// # Errors
    /// An empty name, or one that is taken.
    pub fn node(&mut self, name: &str) -> Result<NodeId, TopologyError> {
        if name.is_empty() {
            return Err(TopologyError::EmptyName { kind: "node" });
        }
        if self.node_by_name.contains_key(name) {
            return Err(TopologyError::DuplicateNode { node: name.to_owned() });
        }
        let id = NodeId(position(self.nodes.len()));
        self.nodes.push(name.to_owned());
        self.node_by_name.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Adds a directed link between two nodes that are there already.
    ///
    /// # Errors
    /// An empty or taken name, an unknown end, a link to itself, or a capacity of zero or above
    /// 2^62 bit/s.
    pub fn link(
        &mut self,
        name: &str,
        from: &str,
        to: &str,
        capacity: Rate,
        delay: Time,
    ) -> Result<LinkId, TopologyError> {
        let link = || name.to_owned();
        if name.is_empty() {
            return Err(TopologyError::EmptyName { kind: "link" });
        }
        if self.link_by_name.contains_key(name) {
            return Err(TopologyError::DuplicateLink { link: link() });
        }
        let end = |node: &str| {
            let known = self.node_by_name.get(node).copied();
            known.ok_or_else(|| TopologyError::UnknownEnd { link: link(), node: node.to_owned() })
        };
        let (from_id, to_id) = (end(from)?, end(to)?);
        if from_id == to_id {
            return Err(TopologyError::Loop { link: link(), node: from.to_owned() });
        }
        if capacity == Rate::ZERO {
            return Err(TopologyError::ZeroCapacity { link: link() });
        }
        if capacity > CAPACITY_MAX {
            return Err(TopologyError::CapacityTooLarge { link: link(), capacity });
        }
        let id = LinkId(position(self.links.len()));
        self.links.push(Link { name: link(), from: from_id, to: to_id, capacity, delay });
        self.link_by_name.insert(link(), id);
        Ok(id)
    }

    /// Adds a link each way, named `A-B` and `B-A`.
    ///
    /// # Errors
    /// As [`NetworkBuilder::link`].
    pub fn duplex(
        &mut self,
        a: &str,
        b: &str,
        capacity: Rate,
        delay: Time,
    ) -> Result<(), TopologyError> {
        self.link(&format!("{a}-{b}"), a, b, capacity, delay)?;
        self.link(&format!("{b}-{a}"), b, a, capacity, delay)?;
        Ok(())
    }

    /// The network of all that was added.
    pub fn build(self) -> Network {
        let mut outgoing = vec![Vec::new(); self.nodes.len()];
        let mut incoming = vec![Vec::new(); self.nodes.len()];
        for (index, link) in self.links.iter().enumerate() {
            outgoing[link.from.index()].push(LinkId(position(index)));
            incoming[link.to.index()].push(LinkId(position(index)));
        }
        for list in &mut outgoing {
            list.sort_by_key(|id: &LinkId| &self.links[id.index()].name);
        }
        let Self { nodes, links, node_by_name, link_by_name } = self;
        Network { nodes, links, outgoing, incoming, node_by_name, link_by_name }
    }
}

impl Network {
    /// A builder with nothing in it.
    pub fn builder() -> NetworkBuilder {
        NetworkBuilder::default()
    }

    /// The node of that name.
    ///
    /// # Errors
    /// [`TopologyError::UnknownNode`].
    pub fn node(&self, name: &str) -> Result<NodeId, TopologyError> {
        let known = self.node_by_name.get(name).copied();
        known.ok_or_else(|| TopologyError::UnknownNode { node: name.to_owned() })
    }

    /// The link of that name.
    ///
    /// # Errors
    /// [`TopologyError::UnknownLink`].
    pub fn link_named(&self, name: &str) -> Result<LinkId, TopologyError> {
        let known = self.link_by_name.get(name).copied();
        known.ok_or_else(|| TopologyError::UnknownLink { link: name.to_owned() })
    }

    /// A link of this network.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    /// The name of a node of this network.
    pub fn node_name(&self, id: NodeId) -> &str {
        &self.nodes[id.index()]
    }

    /// Every node, in the order added.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (0..position(self.nodes.len())).map(NodeId)
    }

    /// Every link, in the order added.
    pub fn links(&self) -> impl ExactSizeIterator<Item = LinkId> + use<> {
        (0..position(self.links.len())).map(LinkId)
    }
}

fn position(index: usize) -> u32 {
    u32::try_from(index).expect("a network of 2^32 parts does not fit in memory")
}
