//! Next hops, worked out before the first packet.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_units::Time;

const NONE: u32 = u32::MAX;

/// A direction of a link as routing sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) delay: Time,
    pub(crate) mtu: u32,
}

/// For every node, the direction that leads to each other node.
#[derive(Debug)]
pub(crate) struct Routes {
    next: Vec<u32>,
    nodes: usize,
}

impl Routes {
    /// Least delay, then fewest links, then the edge that stands first: as the lab routes
    /// (`weir/lab/plan.py`). Only nodes that `forwards` are passed through.
    pub(crate) fn new(forwards: &[bool], edges: &[Edge]) -> Self {
        let nodes = forwards.len();
        let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); nodes];
        for (index, edge) in edges.iter().enumerate() {
            leaving[edge.from].push(index);
        }
        let mut next = vec![NONE; nodes * nodes];
        for start in 0..nodes {
            let row = &mut next[start * nodes..(start + 1) * nodes];
            shortest(start, row, forwards, edges, &leaving);
        }
        Self { next, nodes }
    }

    /// The direction by which a packet for `to` leaves `at`; `None` where no path leads there.
    pub(crate) fn next(&self, at: usize, to: usize) -> Option<usize> {
        let edge = self.next[at * self.nodes + to];
        (edge != NONE).then_some(edge as usize)
    }
}

/// Dijkstra from `start`; fills in the first edge to every node.
fn shortest(
    start: usize,
    first: &mut [u32],
    forwards: &[bool],
    edges: &[Edge],
    leaving: &[Vec<usize>],
) {
    let mut done = vec![false; forwards.len()];
    let mut order = 0u64;
    let mut heap = BinaryHeap::from([Reverse((Time::ZERO, 0u32, order, start, NONE))]);
    while let Some(Reverse((delay, hops, _, here, via))) = heap.pop() {
        if std::mem::replace(&mut done[here], true) {
            continue;
        }
        if here != start {
            first[here] = via;
            if !forwards[here] {
                continue;
            }
        }
        for &index in &leaving[here] {
            let edge = edges[index];
            order += 1;
            let via = if via == NONE { index as u32 } else { via };
            let beyond = delay.saturating_add(edge.delay);
            heap.push(Reverse((beyond, hops + 1, order, edge.to, via)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: usize, to: usize, ms: u64) -> Edge {
        Edge { from, to, delay: Time::from_ms(ms), mtu: 1500 }
    }

    #[test]
    fn the_least_delay_wins_then_the_fewest_links_then_the_first() {
        // 0 to 3: by 1 (2 + 2 ms), by 2 (1 + 2 ms), direct (4 ms, listed twice).
        let edges = [
            edge(0, 1, 2),
            edge(1, 3, 2),
            edge(0, 2, 1),
            edge(2, 3, 2),
            edge(0, 3, 4),
            edge(0, 3, 4),
        ];
        let all = [true; 4];
        assert_eq!(Routes::new(&all, &edges).next(0, 3), Some(2));
        let slower = [edges[0], edges[1], edge(0, 2, 3), edges[3], edges[4], edges[5]];
        assert_eq!(Routes::new(&all, &slower).next(0, 3), Some(4), "one link against two");
        assert_eq!(Routes::new(&all, &edges).next(3, 0), None);
    }

    #[test]
    fn a_host_is_not_passed_through() {
        let edges = [edge(0, 1, 1), edge(1, 2, 1), edge(0, 2, 9)];
        assert_eq!(Routes::new(&[true, true, true], &edges).next(0, 2), Some(0));
        assert_eq!(Routes::new(&[true, false, true], &edges).next(0, 2), Some(2));
    }
}
