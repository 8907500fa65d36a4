use std::cmp::Reverse;

use weir_units::Time;

use super::optimal::MooreHodgson;
use super::{Decision, Flow, Policy};

/// Waiting work over accepted work from which newcomers are expected to displace accepted flows.
const OVERLOAD: u64 = 4;

/// Weir's own policy: of the flows that are there, a largest set that can all be on time is served
/// earliest deadline first; the others wait in case that changes.
///
/// Which set is what shortest-first acceptance with an earliest-deadline test gives (an exchange
/// argument: the next shortest acceptable flow can always take the place of one no shorter), and
/// it is found by Moore and Hodgson's algorithm. A batch is hence served optimally. Whenever a flow
/// comes or leaves the set is chosen anew from what is left of each, so a newcomer may take the
/// place of a longer flow that has begun. Serving by deadline keeps the most room for whoever
/// comes next; a flow outside the set is given up only when it is hopeless.
///
/// Under heavy overload, when four times the accepted work waits outside, a long flow is likely to
/// be displaced before it ends. Then the shortest of the set that can go first without making
/// another late is served, so that what has been sent is seldom in vain.
#[derive(Clone, Debug, Default)]
pub struct Weir {
    largest: MooreHodgson,
    accepted: Vec<usize>,
}

impl Weir {
    /// The shortest accepted flow that can be served ahead of all before it, and for how long
    /// that hurts nobody.
    fn shortest(&self, now: Time, slot: Time, flows: &[Flow]) -> Option<(usize, Time)> {
        let mut found: Option<(usize, Time)> = None;
        let (mut end, mut slack) = (now, Time::MAX);
        for &index in &self.accepted {
            let flow = &flows[index];
            if slack < slot {
                break;
            }
            if found.is_none_or(|(shortest, _)| flow.remaining < flows[shortest].remaining) {
                found = Some((index, slack));
            }
            end += flow.remaining;
            slack = slack.min(flow.deadline - end);
        }
        found
    }
}

impl Policy for Weir {
    fn decide(&mut self, now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        decision.clear();
        self.accepted.clear();
        self.accepted.extend(self.largest.select(now, flows));
        let Some(&first) = self.accepted.first() else { return };
        let sum = |sum: Time, flow: &Flow| sum.saturating_add(flow.remaining);
        let accepted = self.accepted.iter().map(|index| &flows[*index]).fold(Time::ZERO, sum);
        let waiting = flows.iter().fold(Time::ZERO, sum).saturating_sub(accepted);
        let bearable = Time::from_ns(waiting.as_ns() / OVERLOAD);
        if accepted > bearable {
            // Until service has brought the accepted work down to that.
            decision.serve(first, slot, whole_slots(accepted - bearable, slot, u64::div_ceil));
        } else if let Some((shortest, slack)) = self.shortest(now, slot, flows) {
            decision.serve(shortest, slot, whole_slots(slack, slot, u64::div_euclid));
        }
    }
}

/// A span in whole slots, rounded as told.
fn whole_slots(span: Time, slot: Time, round: fn(u64, u64) -> u64) -> Time {
    Time::from_ns(round(span.as_ns(), slot.as_ns()).saturating_mul(slot.as_ns()))
}

/// As [`Weir`], but a yes is a promise: a flow once accepted is never given up for another, and one
/// that cannot be accepted is told so at once.
///
/// Newcomers are taken shortest first and accepted if they and all accepted flows can be on time
/// together, earliest deadline first. Flows that came before would have been refused later too, as
/// room only shrinks while accepted flows are served.
#[derive(Clone, Debug, Default)]
pub struct WeirFirm {
    /// Identifiers of the accepted flows, sorted.
    promised: Vec<u64>,
    /// Deadline, identifier, what is left and position of the accepted flows, in order.
    accepted: Vec<(Time, u64, Time, usize)>,
    /// What is left, identifier and position of newcomers.
    newcomers: Vec<(Time, Reverse<Time>, u64, usize)>,
}

impl WeirFirm {
    /// Whether the newcomer's promise could be kept together with all others.
    fn fits(&self, now: Time, place: usize, newcomer: &Flow) -> bool {
        let (before, after) = self.accepted.split_at(place);
        let end = before.iter().fold(now, |end, flow| end.saturating_add(flow.2));
        let mut end = end.saturating_add(newcomer.remaining);
        end <= newcomer.deadline
            && after.iter().all(|&(deadline, _, remaining, _)| {
                end = end.saturating_add(remaining);
                end <= deadline
            })
    }

    fn sort(&mut self, flows: &[Flow]) {
        self.accepted.clear();
        self.newcomers.clear();
        for (index, flow) in flows.iter().enumerate() {
            if self.promised.binary_search(&flow.id).is_ok() {
                self.accepted.push((flow.deadline, flow.id, flow.remaining, index));
            } else {
                self.newcomers.push((flow.remaining, Reverse(flow.deadline), flow.id, index));
            }
        }
        self.accepted.sort_unstable();
        self.newcomers.sort_unstable();
    }
}

impl Policy for WeirFirm {
    fn decide(&mut self, now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        decision.clear();
        self.sort(flows);
        for newcomer in 0..self.newcomers.len() {
            let index = self.newcomers[newcomer].3;
            let flow = &flows[index];
            let entry = (flow.deadline, flow.id, flow.remaining, index);
            let place = self.accepted.partition_point(|other| *other < entry);
            if self.fits(now, place, flow) {
                self.accepted.insert(place, entry);
            } else {
                decision.discarded.push(index);
            }
        }
        self.promised.clear();
        self.promised.extend(self.accepted.iter().map(|(_, id, ..)| *id));
        self.promised.sort_unstable();
        if let Some(&(.., first)) = self.accepted.first() {
            decision.serve(first, slot, Time::MAX);
        }
    }
}
