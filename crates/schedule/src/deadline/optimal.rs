//! Which of a set of flows can be on time, at best.

use std::collections::BinaryHeap;

use weir_units::Time;

use super::Flow;

/// The algorithm of Moore and Hodgson (Moore 1968): a largest set of flows that can all be on
/// time, in O(n log n). Of the largest sets it finds one with the least to send.
///
/// Keeps its lists between calls, so that none is allocated once they have grown.
#[derive(Clone, Debug, Default)]
pub struct MooreHodgson {
    /// Deadline, what is left, identifier and position of each flow, earliest deadline first.
    order: Vec<(Time, Time, u64, usize)>,
    /// What is left of the flows kept so far, and their places in `order`.
    longest: BinaryHeap<(Time, usize)>,
    /// By place in `order`.
    kept: Vec<bool>,
}

impl MooreHodgson {
    /// The positions of the set's flows in order of their deadlines, in which they may be served.
    pub fn select(&mut self, now: Time, flows: &[Flow]) -> impl Iterator<Item = usize> {
        let keys = flows.iter().enumerate();
        let keys = keys.map(|(index, flow)| (flow.deadline, flow.remaining, flow.id, index));
        self.order.clear();
        self.order.extend(keys);
        self.order.sort_unstable();
        self.longest.clear();
        self.kept.clear();
        self.kept.resize(flows.len(), true);
        let mut end = now;
        for (place, &(deadline, remaining, ..)) in self.order.iter().enumerate() {
            self.longest.push((remaining, place));
            end = end.saturating_add(remaining);
            if end > deadline
                && let Some((remaining, dropped)) = self.longest.pop()
            {
                end -= remaining;
                self.kept[dropped] = false;
            }
        }
        let kept = self.order.iter().zip(&self.kept).filter(|(_, kept)| **kept);
        kept.map(|(&(.., index), _)| index)
    }
}
