//! How many of a set of flows can be on time at best.

use std::collections::BinaryHeap;

use weir_units::Time;

use super::Flow;

/// The largest set that [`exhaustive`] accepts.
pub const EXHAUSTIVE_MAX: usize = 22;

/// The largest number of flows that can be on time, by trying all sets (work 002, section 3.3);
/// `None` above [`EXHAUSTIVE_MAX`] flows. An oracle for tests and small figures.
pub fn exhaustive(now: Time, flows: &[Flow]) -> Option<u32> {
    if flows.len() > EXHAUSTIVE_MAX {
        return None;
    }
    let mut sorted: Vec<(Time, Time)> = flows.iter().map(|f| (f.deadline, f.remaining)).collect();
    sorted.sort_unstable();
    let on_time = |set: u32| {
        let mut end = now;
        sorted.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).all(|(_, job)| {
            end = end.saturating_add(job.1);
            end <= job.0
        })
    };
    (0..1_u32 << sorted.len()).filter(|set| on_time(*set)).map(u32::count_ones).max()
}

/// The largest number of flows that can be on time for one who knows all arrivals beforehand and
/// may interrupt any flow, by trying all sets; `None` above [`EXHAUSTIVE_MAX`] flows. Nothing of
/// them has been sent yet.
///
/// A set can be on time if between every arrival and every deadline there is room for the flows
/// that lie between them (Horn 1974).
pub fn clairvoyant(flows: &[Flow]) -> Option<u32> {
    if flows.len() > EXHAUSTIVE_MAX {
        return None;
    }
    let chosen = |set: u32| {
        flows.iter().enumerate().filter(move |(i, _)| set >> i & 1 == 1).map(|(_, flow)| flow)
    };
    let room = |set: u32, from: Time, to: Time| {
        let between = chosen(set).filter(|flow| flow.arrival >= from && flow.deadline <= to);
        let work = between.fold(Time::ZERO, |sum, flow| sum.saturating_add(flow.remaining));
        work <= to.saturating_sub(from)
    };
    let on_time = |set: u32| {
        chosen(set).all(|first| chosen(set).all(|last| room(set, first.arrival, last.deadline)))
    };
    (0..1_u32 << flows.len()).filter(|set| on_time(*set)).map(u32::count_ones).max()
}

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
