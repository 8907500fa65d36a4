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

/// How packets leave a node.
#[derive(Clone, Copy, Debug)]
enum Row {
    /// By the one direction there is, to a node that `forwards` or not.
    Only { edge: u32, to: u32, forwards: bool },
    /// By the table that begins there in `next`.
    Table(usize),
}

/// For every node, the direction that leads to each other node. A node with one link needs no
/// table: memory does not grow with the square of the hosts.
#[derive(Debug)]
pub(crate) struct Routes {
    rows: Vec<Row>,
    next: Vec<u32>,
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
        let (mut rows, mut next) = (Vec::with_capacity(nodes), Vec::new());
        for start in 0..nodes {
            if let [only] = leaving[start][..] {
                let (edge, to) = (only as u32, edges[only].to);
                rows.push(Row::Only { edge, to: to as u32, forwards: forwards[to] });
                continue;
            }
            let begin = next.len();
            rows.push(Row::Table(begin));
            next.resize(begin + nodes, NONE);
            shortest(start, &mut next[begin..], forwards, edges, &leaving);
        }
        Self { rows, next }
    }

    /// The direction by which a packet for `to` leaves `at`. `None` where no path leads there; a
    /// node with one link may not know, and leaves it to the next.
    #[inline]
    pub(crate) fn next(&self, at: usize, to: usize) -> Option<usize> {
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

    /// The directions of a packet's way; `None` where no path leads there.
    pub(crate) fn path(&self, from: usize, to: usize, edges: &[Edge]) -> Option<Vec<usize>> {
        let (mut at, mut path) = (from, Vec::new());
        while at != to {
            // Two nodes of one link each would send a packet for a third to and fro.
            if path.len() > self.rows.len() {
                return None;
            }
            let edge = self.next(at, to)?;
            path.push(edge);
            at = edges[edge].to;
        }
        Some(path)
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
        // Nor by a neighbour that knows no other way.
        let chain = [edge(0, 1, 1), edge(1, 0, 1), edge(1, 2, 1), edge(2, 1, 1)];
        let path = |forwards| Routes::new(&[false, forwards, false], &chain).path(0, 2, &chain);
        assert_eq!((path(true), path(false)), (Some(vec![0, 2]), None));
    }

    #[test]
    fn an_island_is_not_reached() {
        let edges = [edge(0, 1, 1), edge(1, 0, 1)];
        assert_eq!(Routes::new(&[true; 3], &edges).path(0, 2, &edges), None);
    }
}
