//! Paths and the search for the shortest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_units::{Rate, Time};

use crate::network::{LinkId, Network, NodeId, TopologyError};
use crate::search::{Distance, Step, nearest_first};

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

    /// The `count` shortest paths without loops, fewest hops first and then in the order of
    /// [`Network::shortest`]; all there are for [`usize::MAX`], of which there may be very many.
    ///
    /// # Errors
    /// [`TopologyError::SameEnds`], [`TopologyError::Disconnected`].
    pub fn shortest_paths(
        &self,
        source: NodeId,
        destination: NodeId,
        count: usize,
    ) -> Result<Vec<Path>, TopologyError> {
        // Also refuses what has no path at all.
        let shortest = self.shortest(source, destination, Metric::Hops)?;
        let hops: Vec<_> =
            self.distances_to(destination, Metric::Hops).iter().map(|d| d.map(|d| d.1)).collect();
        let mut paths = Vec::new();
        // Best first by a bound that is exact but for loops: a prefix comes out before its
        // completions, and the first completion out is the first in order.
        let start = (shortest.links.len(), Vec::new(), Vec::new());
        let mut queue = BinaryHeap::from([Reverse(start)]);
        while let Some(Reverse((_, turns, links))) = queue.pop() {
            let at = links.last().map_or(source, |link| self.link(*link).to);
            if at == destination {
                paths.push(Path { source, destination, links });
                if paths.len() == count {
                    break;
                }
                continue;
            }
            for (turn, link) in self.outgoing[at.index()].iter().enumerate() {
                let to = self.link(*link).to;
                let is_new = to != source && links.iter().all(|passed| self.link(*passed).to != to);
                if let Some(beyond) = hops[to.index()].filter(|_| is_new) {
                    let (mut turns, mut links) = (turns.clone(), links.clone());
                    turns.push(turn);
                    links.push(*link);
                    queue.push(Reverse((links.len() + beyond as usize, turns, links)));
                }
            }
        }
        Ok(paths)
    }

    /// Dijkstra backwards from `destination`; `None` where there is no path.
    fn distances_to(&self, destination: NodeId, metric: Metric) -> Vec<Option<Distance>> {
        let mut distances = vec![None; self.nodes.len()];
        let back = |node: u32| {
            self.incoming[node as usize].iter().map(|id| {
                let (edge, to) = (id.0, self.link(*id).from.0);
                Step { edge, to, delay: self.counted(*id, metric) }
            })
        };
        nearest_first(destination.0, self.nodes.len(), back, |reached| {
            distances[reached.node as usize] = Some(reached.distance);
        });
        distances
    }

    /// What the metric counts of a link's delay.
    fn counted(&self, link: LinkId, metric: Metric) -> Time {
        match metric {
            Metric::Hops => Time::ZERO,
            Metric::Delay => self.link(link).delay,
        }
    }

    fn longer(&self, beyond: Distance, link: LinkId, metric: Metric) -> Distance {
        (beyond.0.saturating_add(self.counted(link, metric)), beyond.1 + 1)
    }
}
