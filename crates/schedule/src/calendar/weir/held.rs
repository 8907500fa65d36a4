//! Answers that may wait: requests taken on trial, and displaced by lighter ones until answered.
//!
//! Who must answer at once cannot know what comes next, and where more is asked for than links
//! carry that costs: a large request that was told yes stands in the way of several small ones for
//! as long as it lasts. An answer that may come a little later costs the asker nothing, who sends
//! meanwhile as if it were yes, and lets the calendar choose among all that came until then
//! (commitment with delay: Y. Azar et al., "Truthful Online Scheduling with Commitments", EC 2015).
//! Until its answer is due, a request may have to yield its place to one that weighs less. It then
//! waits outside, without a place, and is tried again before it is answered. What was answered yes
//! never yields. What is to be answered at once takes places of those on trial by the same rule.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use weir_units::Time;

use super::Weir;
use super::flow::Flow;
use crate::calendar::request::{Decision, FlowId, Reason, Request};

/// An answer comes before this part of the time to the deadline is over: whoever is refused must
/// have time to go elsewhere.
const PART: u64 = 5;

/// So many of those on trial, the heaviest, are asked for their place by a promise that is behind.
const MOST_ASKED: usize = 8;

/// A request whose answer is not due yet.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) request: Request,
    pub(super) answer_by: u64,
    /// Itself while it has no place; with one it is among the calendar's flows.
    pub(super) outside: Option<Flow>,
}

/// The capacity that a flow takes, for what it is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Burden(f64);

impl Weir {
    /// How long the answer to a request waits; `None` if it comes at once.
    ///
    /// Where reports say what moves, it never comes after the start that was asked for, nor when it
    /// is too late to begin for who waits without a place.
    pub(super) fn wait(&self, request: &Request, flow: &Flow) -> Option<u64> {
        let most = self.options.hold.max(request.terms.hold);
        if most == Time::ZERO {
            return None;
        }
        let wait = most.as_ns().min((flow.deadline - self.clock) / PART);
        if !self.options.measured {
            return Some(wait);
        }
        let (source, destination) = (flow.paths[0].source(), flow.paths[0].destination());
        let fastest = self.fastest(source, destination, flow.limit);
        let sends = u64::try_from(flow.remaining.div_ceil(fastest)).unwrap_or(u64::MAX);
        let latest = flow.deadline.saturating_sub(sends).saturating_sub(self.clock);
        let starts = Some(flow.start - self.clock).filter(|ahead| *ahead > 0);
        Some(wait.min(latest).min(starts.unwrap_or(u64::MAX))).filter(|wait| *wait > 0)
    }

    /// Takes a request on trial. Its rates are told by the epoch that is due now.
    pub(super) fn hold(&mut self, request: Request, mut flow: Flow, wait: u64) -> Decision {
        let order = self.cheapest_first(&flow.paths, flow.window(self.clock), |_| 0.0);
        flow.reserve(self.clock, flow.promised(), &order, &mut self.timetable);
        let unworthy = self.unworthy(&request, &flow, order[0], flow.unkept());
        flow.release(&mut self.timetable);
        if let Some(link) = unworthy {
            return self.refuse(&request, &flow.paths, Reason::Worth { link });
        }
        let number = self.number_for(&request.id);
        let answer_by = self.clock.saturating_add(wait);
        self.held.insert(number, Held { request, answer_by, outside: Some(flow) });
        self.let_in(&[number]);
        self.next_step = self.clock;
        Decision::Waiting
    }

    /// Those without a place.
    pub(super) fn outside(&self) -> Vec<u64> {
        let outside = self.held.iter().filter(|(_, held)| held.outside.is_some());
        outside.map(|(number, _)| *number).collect()
    }

    /// When the next answer is due.
    pub(super) fn next_answer(&self) -> u64 {
        self.held.values().map(|held| held.answer_by).min().unwrap_or(u64::MAX)
    }

    /// The answers that are due, in the order of the requests. Links have not been shared anew.
    pub(super) fn answers(&mut self) -> Vec<(FlowId, Decision)> {
        let due = self.held.iter().filter(|(_, held)| held.answer_by <= self.clock);
        let due: Vec<u64> = due.map(|(number, _)| *number).collect();
        self.let_in(&due);
        due.into_iter().filter_map(|number| self.answer(number)).collect()
    }

    fn answer(&mut self, number: u64) -> Option<(FlowId, Decision)> {
        let Held { request, outside, .. } = self.held.remove(&number)?;
        let id = request.id.clone();
        if let Some(mut flow) = outside.or_else(|| self.fallen_behind(number)) {
            let is_late = flow.window(self.clock).0 >= flow.deadline;
            if !is_late {
                let window = flow.window(self.clock);
                let order = self.cheapest_first(&flow.paths, window, |_| 0.0);
                flow.reserve(self.clock, flow.promised(), &order, &mut self.timetable);
            }
            if is_late || !self.has_room_for_part(&mut flow, request.terms.least) {
                flow.release(&mut self.timetable);
                self.by_id.remove(&id);
                let reason = match is_late {
                    true => Reason::DeadlinePassed { deadline: request.deadline },
                    false => self.bottleneck(&request, &flow.paths),
                };
                return Some((id, self.refuse(&request, &flow.paths, reason)));
            }
            self.flows.insert(number, flow);
        }
        Some((id, self.accepted(number, Vec::new())))
    }

    /// Takes one that has a place out of it, if it is behind, by what was reported, and that cannot
    /// be made good: nothing is promised of it.
    fn fallen_behind(&mut self, number: u64) -> Option<Flow> {
        if self.flows[&number].lacking() > 0 {
            self.replan_again(number);
        }
        let flow = &self.flows[&number];
        if flow.lacking() == 0 {
            return None;
        }
        let mut flow = self.flows.remove(&number)?;
        flow.release(&mut self.timetable);
        flow.rates.fill(0);
        Some(flow)
    }

    /// Finds places for those of them that are outside, the lightest first, at the cost of heavier
    /// ones on trial where there are no others, and then for these.
    pub(super) fn let_in(&mut self, numbers: &[u64]) {
        let outside = numbers.iter().filter_map(|number| {
            let held = &self.held[number];
            Some((self.burden(held.outside.as_ref()?, held.request.terms.weight), *number))
        });
        let mut queue: BTreeSet<(Burden, u64)> = outside.collect();
        while let Some((burden, number)) = queue.pop_first() {
            let Some(held) = self.held.get_mut(&number) else { continue };
            let weight = held.request.terms.weight;
            let Some(mut flow) = held.outside.take() else { continue };
            let mut has_place = flow.deadline > self.clock && self.finds_room(&mut flow);
            if !has_place && flow.deadline > self.clock {
                let displaced = self.displace(&mut flow, Some((burden, weight)), usize::MAX);
                has_place = displaced.is_some();
                queue.extend(displaced);
            }
            if has_place {
                self.flows.insert(number, flow);
            } else if let Some(held) = self.held.get_mut(&number) {
                held.outside = Some(flow);
            }
        }
    }

    fn finds_room(&mut self, flow: &mut Flow) -> bool {
        let order = self.cheapest_first(&flow.paths, flow.window(self.clock), |_| 0.0);
        flow.reserve(self.clock, flow.promised(), &order, &mut self.timetable);
        let has_room = flow.unkept() == 0 || self.finds_more_room(flow);
        if !has_room {
            flow.release(&mut self.timetable);
        }
        has_room
    }

    /// Finds a place for a flow that is to be answered at once, and found none, in that of one on
    /// trial. If it does not, nothing changes.
    pub(super) fn takes_place(&mut self, flow: &mut Flow) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let pieces = flow.pieces.clone();
        flow.release(&mut self.timetable);
        let than = (self.burden(flow, flow.weight), flow.weight);
        let displaced = self.displace(flow, Some(than), usize::MAX);
        match displaced {
            Some((_, number)) => self.let_in(&[number]),
            None => flow.restore(pieces, &mut self.timetable),
        }
        displaced.is_some()
    }

    /// Finds a place for a promise that is behind in that of one on trial, of whatever weight:
    /// nothing was promised there. If it does not, nothing changes.
    pub(super) fn takes_back(&mut self, number: u64) {
        let is_promised = !self.held.contains_key(&number) && !self.held.is_empty();
        if !is_promised || self.flows[&number].lacking() == 0 {
            return;
        }
        let Some(mut flow) = self.flows.remove(&number) else { return };
        let pieces = flow.pieces.clone();
        flow.release(&mut self.timetable);
        if self.displace(&mut flow, None, MOST_ASKED).is_none() {
            flow.restore(pieces, &mut self.timetable);
        }
        self.flows.insert(number, flow);
    }

    /// Puts one outside that is on trial, not worth more, and heavier, the heaviest that makes
    /// room; says which. `than` is what it is compared with, if it is; `most` are asked.
    fn displace(
        &mut self,
        flow: &mut Flow,
        than: Option<(Burden, u32)>,
        most: usize,
    ) -> Option<(Burden, u64)> {
        let on_trial = self.held.iter().filter_map(|(number, held)| {
            let worth = held.request.terms.weight;
            let other = self.flows.get(number)?;
            let burden = self.burden(other, worth);
            let yields = |(own, weight): (Burden, u32)| worth <= weight && burden > own;
            than.is_none_or(yields).then_some((burden, *number))
        });
        let mut heavier: Vec<_> = on_trial.collect();
        heavier.sort_unstable();
        for (burden, number) in heavier.into_iter().rev().take(most) {
            let Some(mut other) = self.flows.remove(&number) else { continue };
            let pieces = other.pieces.clone();
            other.release(&mut self.timetable);
            if self.finds_room(flow) {
                self.put_outside(number, other);
                return Some((burden, number));
            }
            other.restore(pieces, &mut self.timetable);
            self.flows.insert(number, other);
        }
        None
    }

    /// Has one on trial, which has nothing reserved, wait without a place.
    pub(super) fn put_outside(&mut self, number: u64, mut flow: Flow) {
        flow.rates.fill(0);
        self.stopped.push(flow.id.clone());
        if let Some(held) = self.held.get_mut(&number) {
            held.outside = Some(flow);
        }
    }

    /// Bits times what its shortest path costs, as full as its links are in its time.
    fn burden(&self, flow: &Flow, weight: u32) -> Burden {
        let links = flow.paths[0].links().iter();
        let cost: f64 = links.map(|link| self.fullness(*link, flow.window(self.clock))).sum();
        Burden(flow.remaining as f64 * cost / f64::from(weight))
    }
}

impl Eq for Burden {}

impl Ord for Burden {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Burden {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
