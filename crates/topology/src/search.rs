//! The one search for the shortest way (Dijkstra 1959).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_units::Time;

/// Delay, then links. Links make every step strictly longer, so that a walk along shorter and
/// shorter distances ends even where delays are zero.
pub(crate) type Distance = (Time, u32);

/// An edge that leads on from a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) edge: u32,
    pub(crate) to: u32,
    pub(crate) delay: Time,
}

/// A node as the search reaches it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    pub(crate) node: u32,
    pub(crate) distance: Distance,
    /// The first edge of its way; `None` for the start.
    pub(crate) first: Option<u32>,
}

/// Calls `reach` with every node that `steps` lead to from `start`, the nearest first. Of several
/// equally short ways to a node the one that was found first counts: that over the node reached
/// first, by the step that `steps` gives first.
pub(crate) fn nearest_first<S: Iterator<Item = Step>>(
    start: u32,
    nodes: usize,
    steps: impl Fn(u32) -> S,
    mut reach: impl FnMut(Reached),
) {
    let mut best: Vec<Option<Distance>> = vec![None; nodes];
    best[start as usize] = Some((Time::ZERO, 0));
    let mut found = 0u64;
    let mut heap = BinaryHeap::from([Reverse(((Time::ZERO, 0), found, start, None))]);
    while let Some(Reverse((distance, _, node, first))) = heap.pop() {
        if best[node as usize] != Some(distance) {
            continue; // A shorter way was found since.
        }
        reach(Reached { node, distance, first });
        for step in steps(node) {
            let beyond = (distance.0.saturating_add(step.delay), distance.1 + 1);
            let known = &mut best[step.to as usize];
            if known.is_none_or(|known| beyond < known) {
                *known = Some(beyond);
                found += 1;
                heap.push(Reverse((beyond, found, step.to, first.or(Some(step.edge)))));
            }
        }
    }
}
