//! Paths and the search for the shortest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_units::{Rate, Time};

use crate::network::{LinkId, Network, NodeId, TopologyError};

/// What a shortest path is shortest in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metric {
    /// Number of links.
    #[default]
    Hops,
    /// Sum of delays, then number of links.
    Delay,
}

/// Links that join up from a source to a destination; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    source: NodeId,
    destination: NodeId,
    links: Vec<LinkId>,
}

impl Path {
    /// A path of exactly these links.
    ///
    /// # Errors
    /// No links, or two neighbours that do not join.
    pub fn new(network: &Network, links: Vec<LinkId>) -> Result<Self, TopologyError> {
        let (Some(first), Some(last)) = (links.first(), links.last()) else {
            return Err(TopologyError::EmptyPath);
        };
        for pair in links.windows(2) {
            let next = network.link(pair[1]);
            if network.link(pair[0]).to != next.from {
                return Err(TopologyError::BrokenPath { link: next.name.clone() });
            }
        }
        let (source, destination) = (network.link(*first).from, network.link(*last).to);
        Ok(Self { source, destination, links })
    }

    /// The links, in the order that data crosses them.
    pub fn links(&self) -> &[LinkId] {
        &self.links
    }

    /// Where it starts.
    pub fn source(&self) -> NodeId {
        self.source
    }

    /// Where it ends.
    pub fn destination(&self) -> NodeId {
        self.destination
    }

    /// Whether it passes a node twice.
    pub fn has_loop(&self, network: &Network) -> bool {
        let mut nodes: Vec<NodeId> = self.links.iter().map(|link| network.link(*link).to).collect();
        nodes.push(self.source);
        nodes.sort_unstable();
        nodes.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// The smallest capacity on it.
    pub fn capacity(&self, network: &Network) -> Rate {
        let capacities = self.links.iter().map(|link| network.link(*link).capacity);
        capacities.min().expect("a path has at least one link")
    }
}

impl Network {
    /// The shortest path from `source` to `destination`. Of several equally short, the one whose
    /// link names come first, compared link by link from the source; so the answer does not depend
    /// on the order in which links were added.
    ///
    /// # Errors
    /// [`TopologyError::SameEnds`], [`TopologyError::Disconnected`].
    pub fn shortest(
        &self,
        source: NodeId,
        destination: NodeId,
        metric: Metric,
    ) -> Result<Path, TopologyError> {
        if source == destination {
            return Err(TopologyError::SameEnds { node: self.node_name(source).to_owned() });
        }
        let distance = self.distances_to(destination, metric);
        let mut links = Vec::new();
        let mut at = source;
        while at != destination {
            let step = self.outgoing[at.index()].iter().copied().find(|link| {
                let beyond = distance[self.link(*link).to.index()];
                let total = beyond.map(|beyond| self.longer(beyond, *link, metric));
                total.is_some() && total == distance[at.index()]
            });
            let Some(link) = step else {
                return Err(TopologyError::Disconnected {
                    from: self.node_name(source).to_owned(),
                    to: self.node_name(destination).to_owned(),
                });
            };
            links.push(link);
            at = self.link(link).to;
        }
        Ok(Path { source, destination, links })
    }

    /// Dijkstra backwards from `destination`; `None` where there is no path.
    fn distances_to(&self, destination: NodeId, metric: Metric) -> Vec<Option<Distance>> {
        let mut best: Vec<Option<Distance>> = vec![None; self.nodes.len()];
        let mut queue = BinaryHeap::from([Reverse(((Time::ZERO, 0), destination))]);
        best[destination.index()] = Some((Time::ZERO, 0));
        while let Some(Reverse((distance, node))) = queue.pop() {
            if best[node.index()] != Some(distance) {
                continue;
            }
            for link in &self.incoming[node.index()] {
                let total = self.longer(distance, *link, metric);
                let from = self.link(*link).from;
                if best[from.index()].is_none_or(|known| total < known) {
                    best[from.index()] = Some(total);
                    queue.push(Reverse((total, from)));
                }
            }
        }
        best
    }

    fn longer(&self, beyond: Distance, link: LinkId, metric: Metric) -> Distance {
        let delay = match metric {
            Metric::Hops => Time::ZERO,
            Metric::Delay => self.link(link).delay,
        };
        (beyond.0.saturating_add(delay), beyond.1 + 1)
    }
}

/// Delay, then hops. Hops make every step strictly shorter, so that the walk ends even where
/// delays are zero.
type Distance = (Time, u32);
