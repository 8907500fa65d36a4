use weir_units::Time;

use super::{Decision, Flow, Policy};

/// Where a flow goes that does not fit behind the last one of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// The rear-most place at which it is on time and hurts nobody: the prose of work 002
    /// (section 2.1), variant V1 of its specification.
    #[default]
    RearMost,
    /// Ahead of every flow that can bear it: the listing (algorithm 1), variant V2.
    FrontMost,
}

/// What becomes of a flow for which the queue has no place; the published text is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refused {
    /// It is given up.
    #[default]
    Discarded,
    /// It asks again in the next slot, until it is hopeless.
    Retries,
}

/// Preemptive Efficient Queueing (work 002, chapter 2).
///
/// The service queue is rebuilt in every slot: flows are taken shortest first and appended if they
/// are then on time; otherwise they go ahead of flows whose cushions can absorb it, or nowhere.
/// The published order by H = 0.6 tau + 0.4 tau / D is exactly (tau ascending, D descending) for
/// feasible flows of whole packets, and so it is computed.
#[derive(Clone, Debug, Default)]
pub struct Peq {
    place: Place,
    refused: Refused,
    order: Vec<(Time, u64, Time, u64, usize)>,
    queue: Vec<Entry>,
}

/// A flow in the service queue.
#[derive(Clone, Copy, Debug)]
struct Entry {
    flow: usize,
    remaining: Time,
    deadline: Time,
    /// When it ends if the queue is served as it stands.
    end: Time,
}

impl Peq {
    /// The queue with its two open questions answered.
    pub fn new(place: Place, refused: Refused) -> Self {
        Self { place, refused, ..Self::default() }
    }

    /// Fills the queue; whether every flow was simply appended.
    fn rebuild(&mut self, now: Time, flows: &[Flow], discarded: &mut Vec<usize>) -> bool {
        self.order.clear();
        self.order.extend(flows.iter().enumerate().map(|(index, flow)| {
            (flow.remaining, u64::MAX - flow.deadline.as_ns(), flow.arrival, flow.id, index)
        }));
        self.order.sort_unstable();
        self.queue.clear();
        let mut appended = true;
        for taken in 0..self.order.len() {
            let flow = self.order[taken].4;
            let Flow { remaining, deadline, .. } = flows[flow];
            let last = self.queue.last().map_or(now, |entry| entry.end);
            let end = last.saturating_add(remaining);
            if end <= deadline {
                self.queue.push(Entry { flow, remaining, deadline, end });
                continue;
            }
            appended = false;
            match self.place_ahead(now, remaining, deadline) {
                Some(place) => self.insert(place, Entry { flow, remaining, deadline, end }),
                None if self.refused == Refused::Discarded => discarded.push(flow),
                None => {}
            }
        }
        appended
    }

    /// Walks from tail to head, so that every flow passed is known to bear the delay.
    fn place_ahead(&self, now: Time, remaining: Time, deadline: Time) -> Option<usize> {
        let mut found = None;
        for (place, entry) in self.queue.iter().enumerate().rev() {
            if entry.end.saturating_add(remaining) > entry.deadline {
                break;
            }
            let start = place.checked_sub(1).map_or(now, |before| self.queue[before].end);
            if start.saturating_add(remaining) <= deadline {
                found = Some(place);
                if self.place == Place::RearMost {
                    break;
                }
            }
        }
        found
    }

    fn insert(&mut self, place: usize, mut entry: Entry) {
        let start = self.queue[place].end - self.queue[place].remaining;
        entry.end = start + entry.remaining;
        for behind in &mut self.queue[place..] {
            behind.end += entry.remaining;
        }
        self.queue.insert(place, entry);
    }
}

impl Policy for Peq {
    fn decide(&mut self, now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        decision.clear();
        let appended = self.rebuild(now, flows, &mut decision.discarded);
        debug_assert!(self.queue.iter().all(|entry| entry.end <= entry.deadline));
        if let Some(head) = self.queue.first() {
            // A queue of appended flows alone is rebuilt the same: its head stays the shortest,
            // and every end and deadline comes nearer by the same slot.
            decision.serve(head.flow, slot, if appended { Time::MAX } else { slot });
        }
    }
}
