//! The calendar of Calibers: five policies around one exact state.
//!
//! The rules are the corrected pseudocode of 000-spec section 4.5.3 (F. Alali, dissertation 2019,
//! chapter 4; INDIS 2017), with the readings of AMB-16 to AMB-26. Rates are whole bit/s, a minimum
//! rate is rounded up, and what remains of a flow is carried exactly; so a link is never over its
//! capacity by a single bit/s and an admitted deadline is never missed by a nanosecond.
//!
//! A measured report may contradict the model. A flow that is behind is treated as if its
//! remainder were submitted again: it is given what is free or what others can spare. If that is
//! not enough it is at risk, holds what could be had, and is tried again at every report and
//! epoch; others never pay for it with their own deadlines.

mod book;
mod capacity;
mod fixed;
mod flow;
mod pace;
mod policy;
mod reshape;
mod snapshot;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use weir_topology::{LinkId, Metric, Network, NodeId, Path};
use weir_units::{Bytes, Rate, Time};

use self::book::{Book, Slot};
use self::capacity::Capacities;
use self::flow::{Flow, Parts, rate_needed, span_needed};
use self::pace::Marks;
pub use self::policy::{Admission, Completions, Options, Order, Policy, ReshapeKey, Scope};
use super::amount::{NANOBITS_PER_BYTE, Nanobits, nanobits};
use super::demand::{Due, least_span};
use super::request::{
    Accepted, CalendarError, Change, Completion, Decision, Epoch, FlowId, FlowView, LinkView,
    Reason, Refused, Request,
};

/// A calendar with one of the five policies of Calibers.
#[derive(Clone, Debug)]
pub struct Calibers {
    network: Arc<Network>,
    options: Options,
    book: Book,
    /// What links can carry where it is not always the same.
    capacities: Capacities,
    /// The time of the last call.
    clock: u64,
    /// The last multiple of the epoch length that an epoch was held at or after.
    last_epoch: u64,
    /// Links that a flow has left since the last redistribution.
    freed: BTreeSet<LinkId>,
    /// Requests for the next epoch.
    waiting: Vec<Request>,
    waiting_ids: HashSet<FlowId>,
    /// Ended by the model and not yet told.
    ended: Vec<Completion>,
    paths: HashMap<(NodeId, NodeId), Arc<Path>>,
    marks: Marks,
}

impl Calibers {
    /// An empty calendar at time zero.
    ///
    /// # Errors
    /// An epoch of zero.
    pub fn new(network: Arc<Network>, options: Options) -> Result<Self, CalendarError> {
        if options.epoch == Time::ZERO {
            return Err(CalendarError::ZeroEpoch);
        }
        let book = Book::new(&network, options.completions == Completions::Modelled);
        Ok(Self {
            network,
            options,
            book,
            capacities: Capacities::default(),
            clock: 0,
            last_epoch: 0,
            freed: BTreeSet::new(),
            waiting: Vec::new(),
            waiting_ids: HashSet::new(),
            ended: Vec::new(),
            paths: HashMap::new(),
            marks: Marks::default(),
        })
    }

    /// The same with these paths between their ends, instead of the shortest. A snapshot has those
    /// of its flows only.
    #[must_use]
    pub fn with_paths(mut self, paths: impl IntoIterator<Item = Path>) -> Self {
        let by_ends = |path: Path| ((path.source(), path.destination()), Arc::new(path));
        self.paths.extend(paths.into_iter().map(by_ends));
        self
    }

    /// How it works.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The time of the last call.
    pub fn clock(&self) -> Time {
        Time::from_ns(self.clock)
    }

    /// The earliest deadline, as of the last call, that the links of a path could keep for one
    /// transfer more with every promise kept, whoever decides: no policy promises an earlier one.
    /// On a path of one link, without limits of end points, somebody could promise this very one;
    /// otherwise the truth may be later. `None` if it is beyond all time.
    ///
    /// # Errors
    /// Ends that are equal or without a path between them.
    pub fn earliest_by_links(
        &mut self,
        source: NodeId,
        destination: NodeId,
        size: Bytes,
        rate_max: Rate,
    ) -> Result<Option<Time>, CalendarError> {
        let path = self.path(source, destination)?;
        let size = nanobits(size);
        let mut span = span_needed(size, rate_max.as_bit_per_s().max(1));
        let of_link = |link: &LinkId| (self.book.link(*link), self.most(*link));
        let mut books: Vec<_> = path.links().iter().map(of_link).collect();
        books.sort_by_key(|(book, _)| book.residual());
        for (book, most) in books {
            // Where what is free carries it in that time, the link says nothing new.
            if size > Nanobits::from(book.residual()) * Nanobits::from(span) {
                let mut due: Vec<Due> = book.flows().filter_map(|slot| self.due(slot)).collect();
                span = span.max(least_span(most.max(1), &mut due, size));
            }
        }
        Ok(Time::from_ns(self.clock).checked_add(Time::from_ns(span)))
    }

    /// The earliest time, as of the last call, by which what remains of a flow could be there with
    /// every other at its least rate; `None` if that is beyond all time.
    ///
    /// # Errors
    /// An unknown flow.
    pub fn earliest_end(&mut self, flow: &FlowId) -> Result<Option<Time>, CalendarError> {
        let flow = self.book.flow(self.slot(flow)?);
        let others = self.available(&flow.path).1.saturating_sub(flow.slack(self.clock));
        let rate = flow.rate.saturating_add(others).min(flow.rate_max).max(1);
        let span = Time::from_ns(span_needed(flow.remaining_at(self.clock), rate));
        Ok(Time::from_ns(self.clock).checked_add(span))
    }

    /// What a flow's promise demands of its links; of one that is behind, what it can still have.
    fn due(&self, slot: Slot) -> Option<Due> {
        let flow = self.book.flow(slot);
        let span = flow.deadline.checked_sub(self.clock).filter(|span| *span > 0)?;
        let movable = Nanobits::from(flow.rate) * Nanobits::from(span);
        Some((span, flow.remaining_at(self.clock).min(movable)))
    }

    /// Moves the clock and takes out what has ended by the model.
    fn enter(&mut self, now: Time) -> Result<(), CalendarError> {
        if now.as_ns() < self.clock {
            return Err(CalendarError::TimeWentBack { last: self.clock(), now });
        }
        self.clock = now.as_ns();
        while let Some(flow) = self.book.pop_ended(self.clock) {
            self.freed.extend(flow.path.links());
            let at = Time::from_ns(flow.completion());
            self.ended.push(Completion { deadline: flow.deadline(), flow: flow.id, at });
        }
        Ok(())
    }

    /// A flow as it stands, if it is there.
    pub fn flow_view(&self, id: &FlowId) -> Option<FlowView> {
        self.book.find(id).map(|slot| self.view(slot))
    }

    fn view(&self, slot: Slot) -> FlowView {
        let flow = self.book.flow(slot);
        FlowView {
            flow: flow.id.clone(),
            path: Arc::clone(&flow.path),
            size: flow.size,
            remaining: flow.remaining_bytes_at(self.clock),
            start: Time::ZERO,
            deadline: flow.deadline(),
            rate: Rate::from_bit_per_s(flow.rate),
            split: Vec::new(),
            rate_min: Rate::from_bit_per_s(flow.minimum(self.clock)),
            rate_max: flow.rate_max(),
            completion: Time::from_ns(flow.completion()),
            state: flow.state(self.clock),
        }
    }

    fn slot(&self, flow: &FlowId) -> Result<Slot, CalendarError> {
        let found = self.book.find(flow);
        found.ok_or_else(|| CalendarError::UnknownFlow { flow: flow.clone() })
    }

    /// Refuses what cannot be right and finds the path.
    fn check(&mut self, request: &Request) -> Result<Arc<Path>, CalendarError> {
        let flow = || request.id.clone();
        if request.id.as_str().is_empty() {
            return Err(CalendarError::EmptyId);
        }
        if self.book.find(&request.id).is_some() || self.waiting_ids.contains(&request.id) {
            return Err(CalendarError::DuplicateFlow { flow: flow() });
        }
        if request.size == Bytes::ZERO {
            return Err(CalendarError::ZeroSize { flow: flow() });
        }
        if request.rate_max == Rate::ZERO {
            return Err(CalendarError::ZeroRateMax { flow: flow() });
        }
        if request.terms.start.as_ns() > self.clock {
            return Err(CalendarError::StartAhead { flow: flow() });
        }
        request.check_terms()?;
        self.path(request.source, request.destination)
    }

    fn path(&mut self, source: NodeId, destination: NodeId) -> Result<Arc<Path>, CalendarError> {
        if let Some(path) = self.paths.get(&(source, destination)) {
            return Ok(Arc::clone(path));
        }
        let path = Arc::new(self.network.shortest(source, destination, Metric::Hops)?);
        self.paths.insert((source, destination), Arc::clone(&path));
        Ok(path)
    }

    fn decide(&mut self, mut request: Request, path: Arc<Path>) -> Decision {
        let deadline = request.deadline.as_ns();
        if deadline <= self.clock {
            let reason = Reason::DeadlinePassed { deadline: request.deadline };
            return self.refuse(&request, &path, |_, _| reason);
        }
        if let Some(part) = self.part(&request, &path) {
            request.size = part;
        }
        let needed = rate_needed(nanobits(request.size), deadline - self.clock);
        if needed > request.rate_max.as_bit_per_s() {
            let (needed, limit) = (Rate::from_bit_per_s(needed), request.rate_max);
            return self.refuse(&request, &path, |_, _| Reason::RateLimit { needed, limit });
        }
        let has_lasting_room = self.lasts(&path, deadline, needed);
        let limit = request.rate_max.as_bit_per_s();
        match has_lasting_room.then(|| self.room(&path, needed, limit)).flatten() {
            Some(room) => self.admit(request, path, room),
            None => {
                let needed = Rate::from_bit_per_s(needed);
                self.refuse(&request, &path, |link, available| Reason::Link {
                    link,
                    needed,
                    available: Rate::from_bit_per_s(available),
                })
            }
        }
    }

    /// How much of it could be there in time, where that is less than all of it and enough.
    fn part(&self, request: &Request, path: &Path) -> Option<Bytes> {
        let least = request.terms.least?;
        let rate = self.available_until(path, request.deadline.as_ns()).1;
        let rate = rate.min(request.rate_max.as_bit_per_s());
        let span = request.deadline.as_ns() - self.clock;
        let movable = Nanobits::from(rate) * Nanobits::from(span);
        let bytes = u64::try_from(movable / Nanobits::from(NANOBITS_PER_BYTE)).unwrap_or(u64::MAX);
        let part = Bytes::new(bytes);
        (least..request.size).contains(&part).then_some(part)
    }

    fn admit(&mut self, request: Request, path: Arc<Path>, room: Room) -> Decision {
        let changes = self.slow_down(room.taken);
        let size = request.size;
        let flow = Flow::new(Parts {
            id: request.id,
            sequence: self.book.next_sequence(),
            path: Arc::clone(&path),
            size: request.size,
            deadline: request.deadline.as_ns(),
            rate_max: request.rate_max.as_bit_per_s(),
            rate: room.rate,
            remaining: nanobits(request.size),
            as_of: self.clock,
        });
        self.book.insert(flow);
        let (rate, split) = (Rate::from_bit_per_s(room.rate), Vec::new());
        let lanes = vec![(Arc::clone(&path), rate)];
        Decision::Accepted(Accepted { rate, path, split, lanes, size, changes })
    }

    fn refuse(
        &self,
        request: &Request,
        path: &Path,
        reason: impl FnOnce(LinkId, u64) -> Reason,
    ) -> Decision {
        let (link, available) = self.available_until(path, request.deadline.as_ns());
        let earliest_deadline = match self.capacities.is_on(path) {
            true => self.earliest(request, path),
            false => self.end_at(request, available),
        };
        Decision::Refused(Refused { reason: reason(link, available), earliest_deadline })
    }

    /// The most that the policy could give to one more flow on the path, and the link that sets it.
    /// A request is accepted exactly when it needs no more than this and its own limit.
    fn available(&self, path: &Path) -> (LinkId, u64) {
        match self.options.policy {
            Policy::Fixed => fixed::available(&self.book, path),
            Policy::Dynamic { .. } => pace::available(&self.book, path, self.clock),
        }
    }

    /// The earliest deadline with which a request would be accepted now, where links change.
    fn earliest(&self, request: &Request, path: &Path) -> Option<Time> {
        let changes = self.capacities.changes(path, self.clock);
        changes.into_iter().chain([u64::MAX]).find_map(|until| {
            let end = self.end_at(request, self.available_until(path, until).1)?;
            (end.as_ns() <= until).then_some(end)
        })
    }

    /// When a request would end at what there is, or at its own limit.
    fn end_at(&self, request: &Request, available: u64) -> Option<Time> {
        let rate = available.min(request.rate_max.as_bit_per_s());
        let span = Time::from_ns(span_needed(nanobits(request.size), rate));
        Time::from_ns(self.clock).checked_add(span).filter(|_| rate > 0)
    }

    /// At least `needed` and at most `limit` along the path; `None` when there is too little.
    fn room(&mut self, path: &Path, needed: u64, limit: u64) -> Option<Room> {
        let free = self.book.residual(path);
        match self.options.policy {
            Policy::Fixed => (free >= needed).then(|| Room { rate: needed, taken: Vec::new() }),
            Policy::Dynamic { .. } if free >= needed => {
                Some(Room { rate: free.min(limit), taken: Vec::new() })
            }
            Policy::Dynamic { order, .. } => {
                let plan =
                    pace::plan(&self.book, &mut self.marks, path, needed, order, self.clock)?;
                Some(Room { rate: plan.rate.min(limit), taken: plan.taken })
            }
        }
    }

    fn slow_down(&mut self, taken: Vec<(Slot, u64)>) -> Vec<Change> {
        let lower = |(slot, slack)| {
            let rate = self.book.flow(slot).rate - slack;
            self.set_rate(slot, rate)
        };
        taken.into_iter().map(lower).collect()
    }

    fn set_rate(&mut self, slot: Slot, rate: u64) -> Change {
        self.book.set_rate(slot, self.clock, rate);
        let flow = self.book.flow(slot).id.clone();
        Change { flow, rate: Rate::from_bit_per_s(rate), split: Vec::new() }
    }

    /// Gives a flow that is behind what it needs, or as much of it as there is.
    fn catch_up(&mut self, slot: Slot) -> Vec<Change> {
        let flow = self.book.flow(slot);
        if !flow.is_behind(self.clock) {
            return Vec::new();
        }
        let (rate, path, limit) = (flow.rate, Arc::clone(&flow.path), flow.rate_max - flow.rate);
        let needed = flow.minimum(self.clock).min(flow.rate_max) - rate;
        let needed = needed.min(self.available_until(&path, flow.deadline).1);
        if needed == 0 {
            return Vec::new();
        }
        let room = self.room(&path, needed, limit).expect("no more is asked than is available");
        let mut changes = self.slow_down(room.taken);
        changes.push(self.set_rate(slot, rate + room.rate));
        changes
    }

    fn remove(&mut self, slot: Slot) {
        let flow = self.book.remove(slot);
        self.freed.extend(flow.path.links());
    }

    fn redistribute(&mut self) -> Vec<Change> {
        let now = self.clock;
        let mut changes = self.take_up_capacities();
        let behind = self.book.behind(now);
        changes.extend(behind.into_iter().flat_map(|slot| self.catch_up(slot)));
        let freed = std::mem::take(&mut self.freed);
        if let Policy::Dynamic { scope, order } = self.options.policy {
            let key = self.options.reshape_key;
            let mut shares =
                reshape::reshape(&self.network, &self.book, &freed, scope, order, key, now);
            // Lowered rates first, so that no link is over its capacity in between.
            shares.sort_by_key(|(slot, rate)| *rate > self.book.flow(*slot).rate);
            changes.extend(shares.into_iter().map(|(slot, rate)| self.set_rate(slot, rate)));
        }
        last_of_each(changes)
    }
}

/// A rate for a flow, and the slack of others that makes room for it.
struct Room {
    rate: u64,
    taken: Vec<(Slot, u64)>,
}

/// Only the last change of every flow, in the order of these.
fn last_of_each(mut changes: Vec<Change>) -> Vec<Change> {
    let mut seen = HashSet::new();
    changes.reverse();
    changes.retain(|change| seen.insert(change.flow.clone()));
    changes.reverse();
    changes
}

impl super::Calendar for Calibers {
    fn network(&self) -> &Network {
        &self.network
    }

    fn submit(&mut self, now: Time, request: Request) -> Result<Decision, CalendarError> {
        self.enter(now)?;
        let path = self.check(&request)?;
        match self.options.admission {
            Admission::OnArrival => Ok(self.decide(request, path)),
            Admission::AtEpoch => {
                self.waiting_ids.insert(request.id.clone());
                self.waiting.push(request);
                Ok(Decision::Waiting)
            }
        }
    }

    fn progress(
        &mut self,
        now: Time,
        flow: &FlowId,
        remaining: Bytes,
    ) -> Result<Vec<Change>, CalendarError> {
        self.enter(now)?;
        let slot = self.slot(flow)?;
        let size = self.book.flow(slot).size;
        if remaining > size {
            let flow = flow.clone();
            return Err(CalendarError::RemainingAboveSize { flow, remaining, size });
        }
        self.book.set_remaining(slot, self.clock, nanobits(remaining));
        Ok(self.catch_up(slot))
    }

    fn complete(&mut self, now: Time, flow: &FlowId) -> Result<Vec<Change>, CalendarError> {
        self.enter(now)?;
        let slot = self.slot(flow)?;
        self.remove(slot);
        Ok(Vec::new())
    }

    fn cancel(&mut self, now: Time, flow: &FlowId) -> Result<Vec<Change>, CalendarError> {
        self.enter(now)?;
        if self.waiting_ids.remove(flow) {
            self.waiting.retain(|request| request.id != *flow);
            return Ok(Vec::new());
        }
        let slot = self.slot(flow)?;
        self.remove(slot);
        Ok(Vec::new())
    }

    fn epoch(&mut self, now: Time) -> Result<Epoch, CalendarError> {
        self.enter(now)?;
        self.last_epoch = self.clock - self.clock % self.options.epoch.as_ns();
        let changes = self.redistribute();
        self.waiting_ids.clear();
        let mut decisions = Vec::new();
        for request in std::mem::take(&mut self.waiting) {
            let path = self.path(request.source, request.destination)?;
            decisions.push((request.id.clone(), self.decide(request, path)));
        }
        Ok(Epoch { changes, decisions })
    }

    fn next_epoch(&self) -> Time {
        let next = self.last_epoch.saturating_add(self.options.epoch.as_ns());
        Time::from_ns(next.min(self.capacities.next_change()))
    }

    fn advance(&mut self, now: Time) -> Result<Vec<Completion>, CalendarError> {
        self.enter(now)?;
        Ok(std::mem::take(&mut self.ended))
    }

    fn flows(&self) -> Vec<FlowView> {
        self.book.in_order().into_iter().map(|slot| self.view(slot)).collect()
    }

    fn links(&self) -> Vec<LinkView> {
        let view = |link| {
            let book = self.book.link(link);
            LinkView {
                link,
                capacity: Rate::from_bit_per_s(book.capacity()),
                allotted: Rate::from_bit_per_s(book.used()),
                flows: book.flow_count(),
            }
        };
        self.network.links().map(view).collect()
    }
}
