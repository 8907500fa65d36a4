//! Next hops: by which edge packets leave a node for another.

use weir_units::Time;

use std::cmp::Reverse;

use crate::search::{Distance, Step, nearest_first};

const NONE: u32 = u32::MAX;

/// A direction of a link between two nodes, given by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Where packets enter.
    pub from: usize,
    /// Where they leave.
    pub to: usize,
    /// One-way propagation delay.
    pub delay: Time,
}

/// How packets leave a node.
#[derive(Clone, Copy, Debug)]
enum Row {
    /// By the one edge there is, to a node that `forwards` or not.
    Only { edge: u32, to: u32, forwards: bool },
    /// By the table that begins there in `next`.
    Table(usize),
}

/// For every node, the edge that leads to each other node: by the least delay, then the fewest
/// edges, then the edge that stands first. Only nodes that forward are passed through. The lab's
/// kernels and the packet simulator route by it.
///
/// A node with one edge needs no table: memory does not grow with the square of the hosts.
#[derive(Debug)]
pub struct NextHops {
    rows: Vec<Row>,
    next: Vec<u32>,
    /// Where each edge leads.
    ends: Vec<u32>,
}

impl NextHops {
    /// The next hops between as many nodes as there are `forwards`, which says of each whether it
    /// is passed through.
    ///
    /// # Panics
    /// An edge ends at a node that is not there, or there are 2^32 nodes or edges.
    pub fn new(forwards: &[bool], edges: &[Edge]) -> Self {
        let (nodes, ends) = (forwards.len(), edges.iter().map(|edge| number(edge.to)).collect());
        let mut leaving: Vec<Vec<Step>> = vec![Vec::new(); nodes];
        for (index, edge) in edges.iter().enumerate() {
            let step = Step { edge: number(index), to: number(edge.to), delay: edge.delay };
            leaving[edge.from].push(step);
        }
        let (mut rows, mut next) = (Vec::with_capacity(nodes), Vec::new());
        for start in 0..nodes {
            if let [Step { edge, to, .. }] = leaving[start][..] {
                rows.push(Row::Only { edge, to, forwards: forwards[to as usize] });
                continue;
            }
            let begin = next.len();
            rows.push(Row::Table(begin));
            next.resize(begin + nodes, NONE);
            let onward = |node: u32| {
                let node = node as usize;
                let passes = node == start || forwards[node];
                leaving[node].iter().copied().filter(move |_| passes)
            };
            nearest_first(number(start), nodes, onward, |reached| {
                next[begin + reached.node as usize] = reached.first.unwrap_or(NONE);
            });
        }
        Self { rows, next, ends }
    }

    /// The same, but of equally short ways each node takes the one by which it reaches fewest other
    /// destinations so far, as the subnet managers of InfiniBand do: what goes to neighbours in a
    /// fat tree is spread over it. The destinations' order differs from node to node, for in one
    /// order the choices of a tier would follow from those of the tier below.
    ///
    /// # Panics
    /// As [`NextHops::new`].
    pub fn spread(forwards: &[bool], edges: &[Edge]) -> Self {
        let mut hops = Self::new(forwards, edges);
        let nodes = forwards.len();
        let mut leaving: Vec<Vec<Step>> = vec![Vec::new(); nodes];
        for (index, edge) in edges.iter().enumerate() {
            let step = Step { edge: number(index), to: number(edge.to), delay: edge.delay };
            leaving[edge.from].push(step);
        }
        let far: Vec<Vec<Option<Distance>>> =
            (0..nodes).map(|start| distances(start, forwards, &leaving)).collect();
        for start in 0..nodes {
            let Row::Table(begin) = hops.rows[start] else { continue };
            let mut order: Vec<usize> = (0..nodes).filter(|&to| to != start).collect();
            // Hosts first: theirs is the traffic.
            order.sort_by_key(|&to| (forwards[to], mixed(start, to)));
            let mut taken = vec![0u32; leaving[start].len()];
            for to in order {
                let Some(least) = far[start][to] else { continue };
                let is_shortest = |step: &Step| {
                    let on = step.to as usize;
                    let rest = if on == to { Some((Time::ZERO, 0)) } else { far[on][to] };
                    (on == to || forwards[on])
                        && rest.is_some_and(|rest| {
                            (step.delay.saturating_add(rest.0), rest.1 + 1) == least
                        })
                };
                let ways = leaving[start].iter().enumerate();
                let fewest = ways
                    .filter(|(_, step)| is_shortest(step))
                    .max_by_key(|&(way, _)| (Reverse(taken[way]), mixed(start + way, to)));
                if let Some((way, step)) = fewest {
                    taken[way] += 1;
                    hops.next[begin + to] = step.edge;
                }
            }
        }
        hops
    }

    /// The edge by which a packet for `to` leaves `at`. `None` where no path leads there; a node
    /// with one edge may not know, and leaves it to the next.
    #[inline]
    pub fn next(&self, at: usize, to: usize) -> Option<usize> {
        match self.rows[at] {
            Row::Only { edge, to: end, forwards } => {
                (forwards || end as usize == to).then_some(edge as usize)
            }
            Row::Table(begin) => {
                let edge = self.next[begin + to];
                (edge != NONE).then_some(edge as usize)
            }
        }
    }

    /// The edges of a packet's way, in the order that it crosses them; `None` where no path leads
    /// there.
    pub fn path(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let (mut at, mut path) = (from, Vec::new());
        while at != to {
            // Two nodes of one edge each would send a packet for a third to and fro.
            if path.len() > self.rows.len() {
                return None;
            }
            let edge = self.next(at, to)?;
            path.push(edge);
            at = self.ends[edge] as usize;
        }
        Some(path)
    }
}

/// How far it is from a node to each other.
fn distances(start: usize, forwards: &[bool], leaving: &[Vec<Step>]) -> Vec<Option<Distance>> {
    let mut far = vec![None; leaving.len()];
    let onward = |node: u32| {
        let node = node as usize;
        let passes = node == start || forwards[node];
        leaving[node].iter().copied().filter(move |_| passes)
    };
    nearest_first(number(start), leaving.len(), onward, |reached| {
        far[reached.node as usize] = Some(reached.distance);
    });
    far
}

/// A number that looks drawn at random for two (the last step of splitmix64).
fn mixed(one: usize, other: usize) -> u64 {
    let seed = (one as u64) << 32 ^ other as u64;
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("2^32 nodes or edges do not fit in memory")
}
