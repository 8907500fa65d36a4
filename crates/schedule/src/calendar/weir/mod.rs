//! Weir's own calendar: plans as late as possible, sends as early as possible.
//!
//! Every admitted transfer holds reservations that bring it there in time: a rate plan, piecewise
//! constant, over one or several paths. They lie **as late as possible**, so that what is near in
//! time, the only capacity that an urgent request can use, is kept free until the last moment. On
//! one link this is exact: the data reserved before any time is the least that the admitted
//! deadlines allow (a latest free slot for each unit, in any order; the classical rule for unit
//! jobs with deadlines, R. Graham et al. 1979), so a request is refused only if no schedule could
//! serve it beside the others. On a network it is a plan on the time-expanded graph with fixed
//! candidate paths, and a refused request is tried once more with the reservations in its way
//! planned anew around it.
//!
//! What is reserved later is **sent now** wherever links are idle, by those first whose deadlines
//! come first, unless somebody else sends there already (see `share`); what was sent early is taken
//! off the earliest reservations. So links do not idle while somebody could use them, and no
//! promise is at risk: whoever sends ahead of plan yields at once to whoever has a reservation. In
//! this sense transfers are preempted, and admitted deadlines are not.
//!
//! Kin: RCD and DCRoute reserve as late as possible on one path (M. Noormohammadpour et al.,
//! HotCloud 2016, HiPC 2016); Amoeba re-plans on several (H. Zhang et al., EuroSys 2015).

mod capacity;
mod cushions;
mod flow;
mod flows;
mod held;
mod lately;
mod live;
mod offers;
mod price;
mod replan;
mod share;
mod snapshot;
mod trial;
#[cfg(test)]
mod walked;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use weir_topology::{LinkId, Network, NodeId, Path};
use weir_units::{Bytes, Rate, Time};

use self::flow::{Flow, Paths};
use self::flows::Flows;
use self::held::Held;
pub use self::price::Worth;
use self::price::{Prices, Wanted};
use super::amount::{Nanobits, nanobits, promised};
use super::capacity::Capacity;
use super::profile::{Own, Profile, Span, Timetable};
use super::request::{
    Accepted, CalendarError, Change, Completion, Decision, Epoch, FlowId, FlowView, LinkView,
    Reason, Refused, Request, Split,
};

/// How a [`Weir`] calendar works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeirOptions {
    /// How many candidate paths a transfer has, the shortest ones; at least one.
    pub paths: usize,
    /// The span between redistributions; not zero.
    pub epoch: Time,
    /// What is worth admitting when not everything can be.
    pub worth: Worth,
    /// The longest that the answer to any request may take, also to those that do not say that
    /// theirs may ([`Terms::hold`](super::Terms::hold)); zero for answers at once to these.
    pub hold: Time,
    /// Whether reports say what really moved. Room is then kept for all that was not reported as
    /// moved, and for a little more where there is any, and who falls behind is planned anew;
    /// otherwise everybody is taken to do exactly as told.
    pub measured: bool,
}

/// A calendar with Weir's own policy.
#[derive(Clone, Debug)]
pub struct Weir {
    network: Arc<Network>,
    options: WeirOptions,
    timetable: Timetable,
    /// What links can carry where it is not always the same.
    capacities: BTreeMap<LinkId, Capacity>,
    prices: Prices,
    flows: Flows,
    /// When all flows were last brought to the present. Those that neither sent nor had anything
    /// reserved by then are as they were before.
    settled: u64,
    /// Requests that are not answered yet.
    held: BTreeMap<u64, Held>,
    /// Which of them lost their place since rates were last told.
    stopped: Vec<FlowId>,
    by_id: HashMap<FlowId, u64>,
    next_number: u64,
    clock: u64,
    last_epoch: u64,
    /// When a flow would fall behind its reservations, or may start.
    next_step: u64,
    /// How often reservations were laid later by time alone, since the last call that told more.
    postponed: usize,
    /// What is sent over each link now, in bit/s.
    used: Vec<u64>,
    /// All candidate paths between two nodes, and each number of them that was asked for.
    candidates: HashMap<(NodeId, NodeId), Arc<[Arc<Path>]>>,
    paths: HashMap<(NodeId, NodeId, usize), Paths>,
}

impl Weir {
    /// An empty calendar at time zero.
    ///
    /// # Errors
    /// An epoch of zero.
    pub fn new(network: Arc<Network>, options: WeirOptions) -> Result<Self, CalendarError> {
        if options.epoch == Time::ZERO {
            return Err(CalendarError::ZeroEpoch);
        }
        Ok(Self {
            timetable: Timetable::new(&network),
            capacities: BTreeMap::new(),
            prices: Prices::new(&network, options.worth),
            used: vec![0; network.links().len()],
            network,
            options,
            flows: Flows::default(),
            settled: 0,
            held: BTreeMap::new(),
            stopped: Vec::new(),
            by_id: HashMap::new(),
            next_number: 0,
            clock: 0,
            last_epoch: 0,
            next_step: u64::MAX,
            postponed: 0,
            candidates: HashMap::new(),
            paths: HashMap::new(),
        })
    }

    /// Takes a call that tells what time alone does not.
    fn enter(&mut self, now: Time) -> Result<(), CalendarError> {
        self.postponed = 0;
        self.pass(now)
    }

    fn pass(&mut self, now: Time) -> Result<(), CalendarError> {
        let last = Time::from_ns(self.clock);
        if now < last {
            return Err(CalendarError::TimeWentBack { last, now });
        }
        self.clock = now.as_ns();
        Ok(())
    }

    /// Brings every flow and the timetable to the present.
    fn settle(&mut self) {
        for number in self.flows.moved(self.clock) {
            self.flows.change(number, |flow| flow.settle(self.clock, &mut self.timetable));
        }
        self.settled = self.clock;
        for flow in self.held.values_mut().filter_map(|held| held.outside.as_mut()) {
            flow.settle(self.clock, &mut self.timetable);
        }
        self.timetable.forget(self.clock);
    }

    /// Refuses what cannot be right and finds the paths.
    fn check(&mut self, request: &Request) -> Result<Paths, CalendarError> {
        let flow = || request.id.clone();
        if request.id.as_str().is_empty() {
            return Err(CalendarError::EmptyId);
        }
        if self.by_id.contains_key(&request.id) {
            return Err(CalendarError::DuplicateFlow { flow: flow() });
        }
        if request.size == Bytes::ZERO {
            return Err(CalendarError::ZeroSize { flow: flow() });
        }
        if request.rate_max == Rate::ZERO {
            return Err(CalendarError::ZeroRateMax { flow: flow() });
        }
        request.check_terms()?;
        self.paths(request.source, request.destination, request.terms.paths)
    }

    /// The shortest paths between two nodes, no more than `most`.
    fn paths(
        &mut self,
        source: NodeId,
        destination: NodeId,
        most: usize,
    ) -> Result<Paths, CalendarError> {
        let all = self.candidates(source, destination)?;
        let (count, set) = (most.clamp(1, all.len()), self.paths.len());
        let paths = self.paths.entry((source, destination, count));
        Ok(paths.or_insert_with(|| Paths::new(set, &all[..count])).clone())
    }

    fn candidates(
        &mut self,
        source: NodeId,
        destination: NodeId,
    ) -> Result<Arc<[Arc<Path>]>, CalendarError> {
        if let Some(known) = self.candidates.get(&(source, destination)) {
            return Ok(Arc::clone(known));
        }
        let count = self.options.paths.max(1);
        let found = self.network.shortest_paths(source, destination, count)?;
        let found: Arc<[Arc<Path>]> = found.into_iter().map(Arc::new).collect();
        self.candidates.insert((source, destination), Arc::clone(&found));
        Ok(found)
    }

    fn flow(&self, request: &Request, paths: &Paths) -> Flow {
        Flow {
            id: request.id.clone(),
            rates: vec![0; paths.len()],
            paths: paths.clone(),
            size: request.size,
            start: request.terms.start.as_ns().max(self.clock),
            deadline: request.deadline.as_ns(),
            limit: request.rate_max.as_bit_per_s(),
            weight: request.terms.weight,
            remaining: nanobits(request.size),
            measured: self.options.measured.then_some(nanobits(request.size)),
            as_of: self.clock,
            pieces: Vec::new(),
        }
    }

    fn decide(&mut self, request: &Request, mut flow: Flow) -> Decision {
        let paths = flow.paths.clone();
        let first = self.draft(&mut flow);
        let mut lacking = flow.unkept();
        if !request.terms.is_promised
            && let Some(link) = self.unworthy(request, &flow, first, lacking)
        {
            flow.release(&mut self.timetable);
            return self.refuse(request, &paths, Reason::Worth { link });
        }
        if lacking > 0 && (self.finds_more_room(&mut flow) || self.takes_place(&mut flow)) {
            lacking = 0;
        }
        if lacking > 0 && !self.has_room_for_part(&mut flow, request.terms.least) {
            flow.release(&mut self.timetable);
            let reason = self.bottleneck(request, &paths);
            return self.refuse(request, &paths, reason);
        }
        self.admit(flow)
    }

    /// Reserves what there is room for, nobody else being moved; says which path is the cheapest.
    fn draft(&mut self, flow: &mut Flow) -> usize {
        let order = self.cheapest_first(&flow.paths, flow.window(self.clock), |_| 0.0);
        flow.reserve(self.clock, flow.promised(), &order, &mut self.timetable);
        if flow.unkept() > 0 {
            // The shortest first is what earliest deadlines are told by.
            let shortest: Vec<usize> = (0..flow.paths.len()).collect();
            flow.release(&mut self.timetable);
            flow.reserve(self.clock, flow.promised(), &shortest, &mut self.timetable);
        }
        order[0]
    }

    /// What prices are asked about: what is reserved for a flow, and the rest on one of its paths.
    fn wanted<'a>(
        &self,
        request: &Request,
        flow: &'a Flow,
        path: usize,
        lacking: Nanobits,
    ) -> Wanted<'a> {
        let (from, until) = flow.window(self.clock);
        let planned = flow.pieces.iter().map(|piece| (piece.path, piece.span.volume()));
        let planned = planned.chain([(path, lacking)]);
        Wanted {
            weight: request.terms.weight,
            size: request.size,
            hops: flow.links(0).len(),
            span_s: Time::from_ns(until.saturating_sub(from)).as_s(),
            plan: planned.map(|(path, volume)| (volume as f64 / 1e9, flow.links(path))).collect(),
        }
    }

    /// If the flow is not worth what is reserved for it, and what is lacking if that had room on
    /// one of its paths: the dearest link. Prices learn from the question.
    fn unworthy(
        &mut self,
        request: &Request,
        flow: &Flow,
        path: usize,
        lacking: Nanobits,
    ) -> Option<LinkId> {
        self.prices.pass(Time::from_ns(self.clock));
        let wanted = self.wanted(request, flow, path, lacking);
        let found = self.judge(&wanted, flow, path, lacking);
        self.prices.learn(&wanted, found.is_none());
        found
    }

    /// The same without being learnt from, at a time to which prices have come.
    fn judge(
        &self,
        wanted: &Wanted<'_>,
        flow: &Flow,
        path: usize,
        lacking: Nanobits,
    ) -> Option<LinkId> {
        let window = flow.window(self.clock);
        let filled = |link| self.timetable.filled(link, window);
        let left = |link: LinkId| {
            let all = self.timetable.most(link) as f64 * wanted.span_s;
            let lacks = if flow.links(path).contains(&link) { lacking as f64 / 1e9 } else { 0.0 };
            all * (1.0 - filled(link)) - lacks
        };
        self.prices.judge(wanted, filled, left)
    }

    /// The numbers of the paths, the one to take first ahead: the sum over its links of their
    /// price and of how full they are. So few links are taken, and where there is a choice those
    /// with room, and whatever more is to be said against a link.
    fn cheapest_first(
        &self,
        paths: &Paths,
        window: (u64, u64),
        blame: impl Fn(LinkId) -> f64,
    ) -> Vec<usize> {
        if paths.len() == 1 {
            return vec![0];
        }
        // Paths share links, and what is reserved of one over time may be long.
        let mut known = vec![None; self.used.len()];
        let mut cost = |link: &LinkId| -> f64 {
            let known = &mut known[link.index()];
            *known.get_or_insert_with(|| self.fullness(*link, window) + blame(*link))
        };
        let costs: Vec<f64> = paths
            .iter()
            .map(|path| {
                self.prices.of(path.links()) + path.links().iter().map(&mut cost).sum::<f64>()
            })
            .collect();
        let mut order: Vec<usize> = (0..paths.len()).collect();
        order.sort_by(|a, b| costs[*a].total_cmp(&costs[*b]));
        order
    }

    /// e^2f, where f is the share of the link that is reserved in the window: an empty path of up
    /// to seven links is as good as a full link.
    fn fullness(&self, link: LinkId, window: (u64, u64)) -> f64 {
        (2.0 * self.timetable.filled(link, window)).exp()
    }

    fn number_for(&mut self, id: &FlowId) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.by_id.insert(id.clone(), number);
        number
    }

    fn admit(&mut self, flow: Flow) -> Decision {
        let id = flow.id.clone();
        let number = self.number_for(&id);
        self.flows.insert(number, flow);
        let mut changes = self.share();
        changes.retain(|change| change.flow != id);
        self.accepted(number, changes)
    }

    fn accepted(&self, number: u64, changes: Vec<Change>) -> Decision {
        let flow = &self.flows[&number];
        let (rate, split) = (Rate::from_bit_per_s(flow.rate()), flow.split());
        let (size, path, lanes) = (flow.size, Arc::clone(&flow.paths[0]), flow.lanes());
        Decision::Accepted(Accepted { rate, path, split, lanes, size, changes })
    }

    fn refuse(&mut self, request: &Request, paths: &Paths, reason: Reason) -> Decision {
        // In a study nobody asks again, and by room alone no deadline makes a request worth more.
        let by_worth = matches!(reason, Reason::Worth { .. });
        let earliest_deadline = match self.options.measured {
            true => self.earliest_accepted(request, paths),
            false if by_worth => None,
            false => self.earliest(request, paths),
        };
        Decision::Refused(Refused { reason, earliest_deadline })
    }

    /// The link of the first path with the least room until the deadline.
    fn bottleneck(&self, request: &Request, paths: &Paths) -> Reason {
        let start = request.terms.start.as_ns().max(self.clock);
        let span = Time::from_ns(request.deadline.as_ns() - start);
        let (until, nothing) = (request.deadline.as_ns(), Profile::default());
        let own = Own { limit: u64::MAX, sends: &nothing };
        let room = |link: &LinkId| {
            let all = Nanobits::MAX;
            let links = std::slice::from_ref(link);
            let (_, left) = self.timetable.latest(links, (start, until), all, own);
            ((all - left) / u128::from(span.as_ns()), *link)
        };
        let tightest = paths[0].links().iter().map(room).min();
        let (available, link) = tightest.expect("a path has at least one link");
        let needed = Rate::needed(request.size, span).unwrap_or(Rate::MAX);
        let available = Rate::from_bit_per_s(u64::try_from(available).unwrap_or(u64::MAX));
        Reason::Link { link, needed, available }
    }

    /// The smallest deadline that could be promised beside what is reserved.
    fn earliest(&mut self, request: &Request, paths: &Paths) -> Option<Time> {
        let size = nanobits(request.size);
        let needed = if self.options.measured { size } else { promised(size) };
        let start = request.terms.start.as_ns().max(self.clock);
        self.earliest_end_of(needed, start, request.rate_max.as_bit_per_s(), paths)
    }

    /// When so much could be there that is sent from `start` on beside what is reserved.
    fn earliest_end_of(
        &mut self,
        needed: Nanobits,
        start: u64,
        limit: u64,
        paths: &Paths,
    ) -> Option<Time> {
        let (mut sends, mut until) = (Profile::default(), u64::MAX);
        let (mut spans, mut taken): (Vec<Span>, _) = (Vec::new(), Vec::new());
        for path in 0..paths.len() {
            let own = Own { limit, sends: &sends };
            // The first path that can carry it all needs no longer than until its last span; the
            // others add all that they can in that time.
            let volume = if until == u64::MAX { needed } else { Nanobits::MAX };
            let links = paths[path].links();
            let (found, left) = self.timetable.earliest(links, (start, until), volume, own);
            if until == u64::MAX && left == 0 {
                // After the last reservation links are free for ever, so that only one with a link
                // that carries nothing, or the end of time, keeps a path from carrying it all.
                until = found.last()?.end;
            }
            for span in found {
                // Paths may share links.
                self.timetable.reserve(links, &span);
                sends.add(&span);
                spans.push(span);
                taken.push((path, span));
            }
        }
        for (path, span) in taken {
            self.timetable.release(paths[path].links(), &span);
        }
        let sent = |by: u64| -> Nanobits {
            let part = |span: &Span| {
                u128::from(span.rate) * u128::from(by.min(span.end).saturating_sub(span.start))
            };
            spans.iter().map(part).sum()
        };
        let end = spans.iter().map(|span| span.end).max().unwrap_or(start);
        let (mut low, mut high) = (start, until.min(end));
        if sent(high) < needed {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if sent(middle) >= needed { high = middle } else { low = middle + 1 }
        }
        Some(Time::from_ns(high))
    }

    /// A flow as it stands, if it is there.
    pub fn flow_view(&self, id: &FlowId) -> Option<FlowView> {
        self.find(id).map(|flow| self.view(flow))
    }

    /// What a flow sends on each of its paths, the shortest first; empty if it is not there.
    pub fn lanes(&self, id: &FlowId) -> Split {
        self.find(id).map_or_else(Vec::new, Flow::lanes)
    }

    fn find(&self, id: &FlowId) -> Option<&Flow> {
        let number = self.by_id.get(id)?;
        let outside = || self.held.get(number).and_then(|held| held.outside.as_ref());
        self.flows.get(number).or_else(outside)
    }

    fn view(&self, flow: &Flow) -> FlowView {
        let remaining = flow.remaining_bytes(self.clock);
        let span = Time::from_ns(flow.deadline.saturating_sub(self.clock));
        FlowView {
            flow: flow.id.clone(),
            path: Arc::clone(&flow.paths[0]),
            size: flow.size,
            remaining,
            start: Time::from_ns(flow.start),
            deadline: Time::from_ns(flow.deadline),
            rate: Rate::from_bit_per_s(flow.rate()),
            split: flow.split(),
            rate_min: Rate::needed(remaining, span).unwrap_or(Rate::MAX),
            rate_max: Rate::from_bit_per_s(flow.limit),
            completion: flow.completion(),
            state: flow.state(self.clock),
        }
    }

    fn number(&self, flow: &FlowId) -> Result<u64, CalendarError> {
        let found = self.by_id.get(flow).copied();
        found.ok_or_else(|| CalendarError::UnknownFlow { flow: flow.clone() })
    }

    fn remove(&mut self, id: &FlowId) -> Result<(), CalendarError> {
        let number = self.number(id)?;
        self.settle();
        self.by_id.remove(id);
        self.held.remove(&number);
        self.stopped.retain(|stopped| stopped != id);
        if let Some(mut flow) = self.flows.remove(&number) {
            flow.release(&mut self.timetable);
        }
        Ok(())
    }
}

impl super::Calendar for Weir {
    fn network(&self) -> &Network {
        &self.network
    }

    fn submit(&mut self, now: Time, request: Request) -> Result<Decision, CalendarError> {
        self.enter(now)?;
        let paths = self.check(&request)?;
        self.settle();
        let flow = self.flow(&request, &paths);
        if flow.deadline <= flow.start {
            let reason = Reason::DeadlinePassed { deadline: request.deadline };
            return Ok(self.refuse(&request, &paths, reason));
        }
        match self.wait(&request, &flow) {
            Some(wait) => Ok(self.hold(request, flow, wait)),
            None => Ok(self.decide(&request, flow)),
        }
    }

    fn progress(
        &mut self,
        now: Time,
        flow: &FlowId,
        remaining: Bytes,
    ) -> Result<Vec<Change>, CalendarError> {
        self.enter(now)?;
        self.report(flow, remaining)
    }

    fn complete(&mut self, now: Time, flow: &FlowId) -> Result<Vec<Change>, CalendarError> {
        self.enter(now)?;
        self.remove(flow)?;
        self.catch_up_all();
        Ok(self.share())
    }

    fn cancel(&mut self, now: Time, flow: &FlowId) -> Result<Vec<Change>, CalendarError> {
        self.enter(now)?;
        self.remove(flow)?;
        self.catch_up_all();
        self.let_in(&self.outside());
        Ok(self.share())
    }

    fn epoch(&mut self, now: Time) -> Result<Epoch, CalendarError> {
        self.pass(now)?;
        self.last_epoch = self.clock - self.clock % self.options.epoch.as_ns();
        self.settle();
        self.catch_up_all();
        let mut decisions = self.answers();
        let changes = self.share();
        for (id, decision) in &mut decisions {
            if let Decision::Accepted(accepted) = decision {
                let flow = &self.flows[&self.by_id[id]];
                accepted.rate = Rate::from_bit_per_s(flow.rate());
                accepted.split = flow.split();
                accepted.lanes = flow.lanes();
            }
        }
        Ok(Epoch { changes, decisions })
    }

    fn next_epoch(&self) -> Time {
        let next = self.last_epoch.saturating_add(self.options.epoch.as_ns());
        Time::from_ns(next.min(self.next_step))
    }

    fn advance(&mut self, now: Time) -> Result<Vec<Completion>, CalendarError> {
        self.enter(now)?;
        Ok(Vec::new())
    }

    fn flows(&self) -> Vec<FlowView> {
        let outside = self.held.values().filter_map(|held| held.outside.as_ref());
        self.flows.values().chain(outside).map(|flow| self.view(flow)).collect()
    }

    fn links(&self) -> Vec<LinkView> {
        let mut crossing = vec![0; self.used.len()];
        for (_, flow) in self.flows.sending() {
            for (path, _) in flow.rates.iter().enumerate().filter(|(_, rate)| **rate > 0) {
                flow.links(path).iter().for_each(|link| crossing[link.index()] += 1);
            }
        }
        let view = |link: LinkId| LinkView {
            link,
            capacity: Rate::from_bit_per_s(self.capacity_now(link)),
            allotted: Rate::from_bit_per_s(self.used[link.index()]),
            flows: crossing[link.index()],
        };
        self.network.links().map(view).collect()
    }
}
