//! Every shortest path between two nodes.

use std::collections::{HashMap, VecDeque};

use weir_topology::{LinkId, Network, NodeId, Path, TopologyError};

use super::MigrationError;

/// A fat-tree of 64 pods has this many between two of its pods.
const PATHS_MAX: usize = 1024;

/// Lists paths; remembers the distances to each destination asked for.
pub(super) struct Enumerator {
    /// Links out of each node, by name, which makes the listing lexicographic.
    outgoing: Vec<Vec<LinkId>>,
    incoming: Vec<Vec<LinkId>>,
    distances: HashMap<NodeId, Vec<Option<u32>>>,
}

impl Enumerator {
    pub(super) fn new(network: &Network) -> Self {
        let count = network.nodes().len();
        let (mut outgoing, mut incoming) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for id in network.links() {
            outgoing[network.link(id).from.index()].push(id);
            incoming[network.link(id).to.index()].push(id);
        }
        for list in &mut outgoing {
            list.sort_by_key(|id: &LinkId| &network.link(*id).name);
        }
        Self { outgoing, incoming, distances: HashMap::new() }
    }

    /// All paths of the fewest links, in lexicographic order of their links' names.
    pub(super) fn shortest(
        &mut self,
        network: &Network,
        vm: &str,
        ends: (NodeId, NodeId),
    ) -> Result<Vec<Path>, MigrationError> {
        let (source, destination) = ends;
        let name = |node| network.node_name(node).to_owned();
        let about = |error| MigrationError::Vm { vm: vm.to_owned(), error };
        if source == destination {
            return Err(about(TopologyError::SameEnds { node: name(source) }));
        }
        let incoming = &self.incoming;
        let distance = self
            .distances
            .entry(destination)
            .or_insert_with(|| distances(network, incoming, destination));
        if distance[source.index()].is_none() {
            let (from, to) = (name(source), name(destination));
            return Err(about(TopologyError::Disconnected { from, to }));
        }
        let mut found = Vec::new();
        let mut partial = vec![Vec::new()];
        while let Some(links) = partial.pop() {
            let at = links.last().map_or(source, |last| network.link(*last).to);
            if at == destination {
                found.push(Path::new(network, links).map_err(about)?);
                if found.len() > PATHS_MAX {
                    let limit = PATHS_MAX;
                    return Err(MigrationError::TooManyPaths { vm: vm.to_owned(), limit });
                }
                continue;
            }
            // The last pushed is looked at first.
            for link in self.outgoing[at.index()].iter().rev() {
                let beyond = distance[network.link(*link).to.index()];
                if beyond.map(|hops| hops + 1) == distance[at.index()] {
                    partial.push([links.as_slice(), &[*link]].concat());
                }
            }
        }
        Ok(found)
    }
}

fn distances(network: &Network, incoming: &[Vec<LinkId>], destination: NodeId) -> Vec<Option<u32>> {
    let mut distance = vec![None; incoming.len()];
    distance[destination.index()] = Some(0);
    let mut queue = VecDeque::from([(destination, 0)]);
    while let Some((node, hops)) = queue.pop_front() {
        for link in &incoming[node.index()] {
            let from = network.link(*link).from;
            if distance[from.index()].is_none() {
                distance[from.index()] = Some(hops + 1);
                queue.push_back((from, hops + 1));
            }
        }
    }
    distance
}
