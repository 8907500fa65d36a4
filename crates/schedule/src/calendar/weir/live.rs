//! A calendar in the world: what really moved, who is behind, and what could be promised instead.

use weir_topology::{LinkId, NodeId};
use weir_units::{Bytes, Rate, Time};

use super::flow::{Flow, Paths};
use super::{CalendarError, Change, FlowId, Request, Weir};
use crate::calendar::amount::{Nanobits, nanobits};
use crate::calendar::demand::{Due, least_span};
use crate::calendar::profile::{Own, Profile};

/// So many of those that are behind, the most urgent, are planned anew with all in their way each
/// time that something may have come free: it must not hold up the answers.
const MOST_BEHIND: usize = 4;
/// How much longer spans are tried in turn for a request that is not worth its place, and how
/// often the last of these is halved.
const LONGER: u64 = 4;
const TRIES: usize = 5;
const HALVINGS: usize = 4;

impl Weir {
    /// Takes note of what is left of a flow. Links are only shared out anew where plans change.
    pub(super) fn report(
        &mut self,
        id: &FlowId,
        remaining: Bytes,
    ) -> Result<Vec<Change>, CalendarError> {
        let number = self.number(id)?;
        let outside = self.held.get_mut(&number).and_then(|held| held.outside.as_mut());
        let Some(flow) = outside.as_deref().or_else(|| self.flows.get(&number)) else {
            return Err(CalendarError::UnknownFlow { flow: id.clone() });
        };
        if remaining > flow.size {
            let (flow, size) = (id.clone(), flow.size);
            return Err(CalendarError::RemainingAboveSize { flow, remaining, size });
        }
        let was_kept = flow.lacking() == 0;
        let (clock, timetable) = (self.clock, &mut self.timetable);
        let mut take_note = |flow: &mut Flow| {
            flow.settle(clock, timetable);
            flow.correct(nanobits(remaining), timetable);
        };
        if let Some(flow) = outside {
            take_note(flow);
            return Ok(Vec::new());
        }
        self.flows.change(number, take_note);
        self.refill(number);
        let flow = &self.flows[&number];
        if flow.lacking() == 0 && was_kept {
            self.next_step = self.next_step.min(flow.falls_behind().max(self.clock + 1));
            return Ok(Vec::new());
        }
        self.settle();
        if was_kept {
            self.replan_again(number);
        }
        Ok(self.share())
    }

    /// Reserves what the plan for a flow lacks, as far as there is room.
    pub(super) fn refill(&mut self, number: u64) {
        let flow = &self.flows[&number];
        if flow.unplanned() == 0 || flow.deadline <= self.clock {
            return;
        }
        let order = self.cheapest_first(&flow.paths, flow.window(self.clock), |_| 0.0);
        self.flows.change(number, |flow| flow.refill(self.clock, &order, &mut self.timetable));
    }

    /// Tries again to keep the deadlines of those that are behind, the most urgent first. Nobody
    /// else pays for it. All are settled.
    pub(super) fn catch_up_all(&mut self) {
        if !self.options.measured {
            return;
        }
        let short = self.flows.short();
        let mut queue: Vec<(u64, u64)> =
            short.map(|number| (self.flows[&number].deadline, number)).collect();
        queue.retain(|(deadline, _)| *deadline > self.clock);
        queue.sort_unstable();
        queue.iter().for_each(|(_, number)| self.refill(*number));
        queue.retain(|(_, number)| self.flows[number].lacking() > 0);
        // Promises come first.
        queue.sort_by_key(|(_, number)| self.held.contains_key(number));
        for (_, number) in queue.into_iter().take(MOST_BEHIND) {
            // One on trial may have lost its place to one before it.
            if self.flows.contains_key(&number) {
                self.replan_again(number);
                self.takes_back(number);
            }
        }
    }

    /// The earliest deadline, as of the last call, that the links between two nodes could keep for
    /// one transfer more over so many paths with every promise kept, whoever decides. Where there
    /// are several, it is told by what leaves the source and reaches the destination alone.
    ///
    /// # Errors
    /// Ends that are equal or without a path between them.
    pub fn earliest_by_links(
        &mut self,
        source: NodeId,
        destination: NodeId,
        size: Bytes,
        rate_max: Rate,
        paths: usize,
    ) -> Result<Option<Time>, CalendarError> {
        let paths = self.paths(source, destination, paths)?;
        let size = nanobits(size);
        let links: Vec<LinkId> = match paths.as_ref() {
            [only] => only.links().to_vec(),
            _ => Vec::new(),
        };
        let fastest = self.fastest(source, destination, rate_max.as_bit_per_s());
        let mut span = u64::try_from(size.div_ceil(fastest)).unwrap_or(u64::MAX);
        let nothing = Profile::default();
        let own = Own { limit: u64::MAX, sends: &nothing };
        for link in links {
            // Where there is room for it beside all that is reserved, the link says nothing new.
            let window = (self.clock, self.clock.saturating_add(span));
            if self.timetable.earliest(&[link], window, size, own).1 == 0 {
                continue;
            }
            let capacity = self.timetable.most(link).max(1);
            span = span.max(least_span(capacity, &mut self.due_in_the_way(link, size), size));
        }
        Ok(Time::from_ns(self.clock).checked_add(Time::from_ns(span)))
    }

    /// What can leave one node and reach another, up to a limit, in bit/s; at least 1.
    pub(super) fn fastest(&self, source: NodeId, destination: NodeId, limit: u64) -> u128 {
        let leaves = self.carried(|link| link.from == source);
        let reaches = self.carried(|link| link.to == destination);
        leaves.min(reaches).min(u128::from(limit)).max(1)
    }

    /// What these links can carry together, in bit/s.
    fn carried(&self, wanted: impl Fn(&weir_topology::Link) -> bool) -> u128 {
        let wanted = self.network.links().filter(|link| wanted(self.network.link(*link)));
        wanted.map(|link| u128::from(self.timetable.most(link))).sum()
    }

    /// What promises demand of a link that they cannot avoid, without those that are due so late
    /// that the link can have carried everything by then, and `size` more.
    pub(super) fn due_in_the_way(&self, link: LinkId, size: Nanobits) -> Vec<Due> {
        // Since then nobody has been brought to the present.
        let all = self.timetable.reserved(link, self.settled).saturating_add(size);
        let span = all / Nanobits::from(self.timetable.most(link).max(1));
        let until = self.clock.saturating_add(u64::try_from(span).unwrap_or(u64::MAX));
        self.due(link, until)
    }

    /// What promises that are due by some time demand of a link and cannot avoid.
    pub(super) fn due(&self, link: LinkId, until: u64) -> Vec<Due> {
        let crosses =
            |paths: &Paths, _: &[_]| paths.iter().all(|path| path.links().contains(&link));
        let on_link = self.flows.among_due(until, crosses);
        let promised = on_link.filter(|(number, _)| !self.held.contains_key(number));
        let due = promised.map(|(_, flow)| {
            let left = flow.remaining_at(self.clock).saturating_sub(flow.lacking());
            (flow.deadline.saturating_sub(self.clock), left)
        });
        due.filter(|(span, left)| *span > 0 && *left > 0).collect()
    }

    /// Has a flow take no more than the first so many of its paths, those of its pair of nodes. It
    /// is planned anew there; if its promise can no longer be kept, it is at risk.
    ///
    /// # Errors
    /// An unknown flow; no path at all.
    pub fn narrow(
        &mut self,
        now: Time,
        id: &FlowId,
        most: usize,
    ) -> Result<Vec<Change>, CalendarError> {
        if most == 0 {
            return Err(CalendarError::ZeroPaths { flow: id.clone() });
        }
        self.enter(now)?;
        let number = self.number(id)?;
        let unknown = || CalendarError::UnknownFlow { flow: id.clone() };
        let before = self.find(id).ok_or_else(unknown)?.paths.clone();
        if before.len() <= most {
            return Ok(Vec::new());
        }
        let paths = self.paths(before[0].source(), before[0].destination(), most)?;
        self.settle();
        if let Some(held) = self.held.get_mut(&number) {
            held.request.terms.paths = most;
            if let Some(flow) = held.outside.as_mut() {
                flow.narrow(paths, &mut self.timetable);
                return Ok(Vec::new());
            }
        }
        self.flows.change(number, |flow| flow.narrow(paths, &mut self.timetable));
        self.refill(number);
        if self.flows[&number].lacking() > 0 {
            self.replan_again(number);
        }
        self.catch_up_all();
        let mut changes = self.share();
        if !changes.iter().any(|change| change.flow == *id) {
            // What it sends on the paths that are left may be the same: it has lost the others.
            let flow = &self.flows[&number];
            let rate = Rate::from_bit_per_s(flow.rate());
            changes.push(Change { flow: id.clone(), rate, split: flow.split() });
        }
        Ok(changes)
    }

    /// The earliest time by which what remains of a flow could be there beside all that is
    /// promised to others; `None` if that is beyond all time.
    ///
    /// # Errors
    /// An unknown flow.
    pub fn earliest_end(&mut self, id: &FlowId) -> Result<Option<Time>, CalendarError> {
        let number = self.number(id)?;
        self.settle();
        let Some(mut flow) = self.flows.remove(&number) else { return Ok(None) };
        let pieces = flow.pieces.clone();
        flow.release(&mut self.timetable);
        let (start, _) = flow.window(self.clock);
        let (needed, limit) = (flow.remaining, flow.limit);
        let end = self.without_cushions(&flow, |calendar, flow| {
            calendar.earliest_end_of(needed, start, limit, &flow.paths)
        });
        flow.restore(pieces, &mut self.timetable);
        self.flows.insert(number, flow);
        Ok(end)
    }

    /// A deadline with which a refused request would be accepted if it were asked for now: the
    /// earliest by room beside cushions, later if it is not worth its place until then.
    pub(super) fn earliest_accepted(&mut self, request: &Request, paths: &Paths) -> Option<Time> {
        let earliest = self.earliest(request, paths)?.max(request.deadline);
        if self.would_admit(request, paths, earliest) {
            return Some(earliest);
        }
        let start = request.terms.start.as_ns().max(self.clock);
        let mut span = earliest.as_ns() - start;
        let mut low = earliest.as_ns();
        for _ in 0..TRIES {
            span = span.checked_mul(LONGER)?;
            let mut high = start.checked_add(span)?;
            if self.would_admit(request, paths, Time::from_ns(high)) {
                for _ in 0..HALVINGS {
                    let middle = low + (high - low) / 2;
                    match self.would_admit(request, paths, Time::from_ns(middle)) {
                        true => high = middle,
                        false => low = middle,
                    }
                }
                return Some(Time::from_ns(high));
            }
            low = high;
        }
        None
    }

    /// Whether the request would be accepted with that deadline, without anybody being moved.
    fn would_admit(&mut self, request: &Request, paths: &Paths, deadline: Time) -> bool {
        let again = Request { deadline, ..request.clone() };
        let mut flow = self.flow(&again, paths);
        let first = self.draft(&mut flow);
        let lacking: Nanobits = flow.unkept();
        self.prices.pass(Time::from_ns(self.clock));
        let wanted = self.wanted(&again, &flow, first, lacking);
        let is_worthy =
            again.terms.is_promised || self.judge(&wanted, &flow, first, lacking).is_none();
        flow.release(&mut self.timetable);
        is_worthy && lacking == 0
    }
}
