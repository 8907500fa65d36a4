//! The same answers by walking over every flow, as the definitions say: what those are compared
//! with that look only where something may have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use weir_topology::{LinkId, Network};
use weir_units::{Bytes, Rate, Time};

use super::flow::Flow;
use super::replan::MOST;
use super::share::Rates;
use super::{FlowId, Request, Weir, WeirOptions, Worth};
use crate::calendar::amount::nanobits;
use crate::calendar::demand::{Due, least_span};
use crate::calendar::request::{Decision, Terms};
use crate::calendar::{Calendar, CapacityPiece};

/// What every flow sends on each path, and what that is on each link.
struct Walked {
    room: Vec<u64>,
    used: Vec<u64>,
    all: BTreeMap<u64, Vec<u64>>,
}

impl Walked {
    fn keep(&mut self, number: u64, flow: &Flow) {
        for path in 0..flow.paths.len() {
            let sends = flow.rates[path].saturating_sub(self.all[&number][path]);
            self.give(number, flow, path, sends);
        }
    }

    fn fill(&mut self, number: u64, flow: &Flow) {
        (0..flow.paths.len()).for_each(|path| self.give(number, flow, path, u64::MAX));
    }

    fn give(&mut self, number: u64, flow: &Flow, path: usize, most: u64) {
        let own = &self.all[&number];
        let limit = flow.limit - own.iter().sum::<u64>();
        let room = flow.links(path).iter().map(|link| self.room[link.index()]).min();
        let rate = most.min(limit).min(room.unwrap());
        self.take(number, flow, path, rate);
    }

    fn take(&mut self, number: u64, flow: &Flow, path: usize, rate: u64) {
        self.all.get_mut(&number).unwrap()[path] += rate;
        for link in flow.links(path) {
            self.room[link.index()] = self.room[link.index()].saturating_sub(rate);
            self.used[link.index()] += rate;
        }
    }
}

impl Weir {
    /// Reservations first; then whoever is late; then by deadlines, each once those have what they
    /// send over several paths that need not yield to it.
    fn rates_walked(&self) -> Walked {
        let mut walked = Walked {
            room: self.network.links().map(|link| self.capacity_now(link)).collect(),
            used: vec![0; self.used.len()],
            all: self.flows.iter().map(|(n, flow)| (*n, vec![0; flow.paths.len()])).collect(),
        };
        let mut by_deadline: Vec<(&u64, &Flow)> = self.flows.iter().collect();
        for (number, flow) in &by_deadline {
            for (path, rate) in flow.owed(self.clock) {
                walked.take(**number, flow, path, rate);
            }
        }
        by_deadline.retain(|(_, flow)| flow.start <= self.clock);
        by_deadline.sort_by_key(|(_, flow)| flow.deadline);
        for (number, flow) in by_deadline.iter().filter(|(_, flow)| flow.lacking() > 0) {
            walked.keep(**number, flow);
            walked.fill(**number, flow);
        }
        let mut kept = BTreeSet::new();
        for (number, flow) in &by_deadline {
            for (other, sends) in &by_deadline {
                let stays = sends.deadline <= self.stays_until(flow);
                if stays && sends.paths.len() > 1 && kept.insert(**other) {
                    walked.keep(**other, sends);
                }
            }
            walked.fill(**number, flow);
        }
        walked
    }

    /// Whoever could send more has on each of its paths a link that is full of what is owed to
    /// others, and of what those send ahead of their plans who come before it. These are the late
    /// ones, among whom the order is by deadline; and for who is not late also those that are due
    /// no later, and those that go on as before over several paths and are not due much later.
    fn nobody_waits(&self, found: &Rates) {
        let mut ahead: Vec<Vec<(&Flow, bool)>> = vec![Vec::new(); self.used.len()];
        for (number, rates) in &found.all {
            let flow = &self.flows[number];
            let mut early = rates.clone();
            flow.owed(self.clock).for_each(|(path, rate)| early[path] -= rate);
            for path in (0..flow.paths.len()).filter(|path| early[*path] > 0) {
                let goes_on = flow.paths.len() > 1 && rates[path] <= flow.rates[path];
                flow.links(path).iter().for_each(|link| ahead[link.index()].push((flow, goes_on)));
            }
        }
        for (number, flow) in self.flows.iter().filter(|(_, flow)| flow.start <= self.clock) {
            if found.all.get(number).map_or(0, |own| own.iter().sum()) >= flow.limit {
                continue;
            }
            let is_late = flow.lacking() > 0;
            let comes_before = |(other, goes_on): &(&Flow, bool)| {
                let until = if *goes_on { self.stays_until(flow) } else { flow.deadline };
                match (other.lacking() > 0, is_late) {
                    (true, true) => other.deadline <= flow.deadline,
                    (true, false) => true,
                    (false, true) => false,
                    (false, false) => other.deadline <= until,
                }
            };
            for path in flow.paths.iter() {
                let blocks = |link: &LinkId| {
                    let is_full = found.used[link.index()] >= self.capacity_now(*link);
                    is_full && ahead[link.index()].iter().all(comes_before)
                };
                assert!(path.links().iter().any(blocks), "{flow:?} waits: {ahead:?}");
            }
        }
    }

    fn next_change_walked(&self) -> u64 {
        let starts = self.flows.values().map(|flow| flow.start);
        let starts = starts.filter(|start| *start > self.clock);
        let turns = self.flows.values().map(|flow| flow.falls_behind().max(self.clock + 1));
        let others = [self.next_answer(), self.next_capacity()];
        starts.chain(turns).chain(others).min().unwrap()
    }

    fn settle_walked(&mut self) {
        for number in self.numbers(|_| true) {
            self.flows.change(number, |flow| flow.settle(self.clock, &mut self.timetable));
        }
        for flow in self.held.values_mut().filter_map(|held| held.outside.as_mut()) {
            flow.settle(self.clock, &mut self.timetable);
        }
        self.timetable.forget(self.clock);
    }

    /// Brings all flows to when they were last brought to the present, those that wait, too.
    fn touch_all(&mut self) {
        for number in self.numbers(|_| true) {
            self.flows.change(number, |flow| flow.as_of = flow.as_of.max(self.settled));
        }
    }

    fn numbers(&self, wanted: impl Fn(&Flow) -> bool) -> Vec<u64> {
        let found = self.flows.iter().filter(|(_, flow)| wanted(flow));
        found.map(|(number, _)| *number).collect()
    }

    fn in_the_way_walked(&self, flow: &Flow) -> Option<Vec<u64>> {
        let wanted: BTreeSet<LinkId> =
            flow.paths.iter().flat_map(|path| path.links()).copied().collect();
        let numbers = self
            .numbers(|other| other.lacking() == 0 && wanted.iter().any(|link| other.is_on(*link)));
        (numbers.len() <= MOST).then_some(numbers)
    }

    fn due_walked(&self, link: LinkId) -> Vec<Due> {
        let promised = self.flows.iter().filter(|(number, _)| !self.held.contains_key(number));
        let crosses = |flow: &Flow| flow.paths.iter().all(|path| path.links().contains(&link));
        let bound = promised.filter(|(_, flow)| flow.deadline > self.clock && crosses(flow));
        let due = bound.map(|(_, flow)| {
            let left = flow.remaining_at(self.clock).saturating_sub(flow.lacking());
            (flow.deadline - self.clock, left)
        });
        let mut due: Vec<Due> = due.filter(|(_, left)| *left > 0).collect();
        due.sort_unstable();
        due
    }

    /// Everything that is found by where it may have changed, as of now.
    fn compare(&self) {
        let come = |flow: &Flow| {
            flow.rate() > 0 || flow.pieces.iter().any(|piece| piece.span.start <= self.clock)
        };
        assert_eq!(self.flows.come(self.clock), self.numbers(come));
        let short: Vec<u64> = self.flows.short().collect();
        assert_eq!(short, self.numbers(|flow| flow.unplanned() > 0));
        let sending: Vec<u64> = self.flows.sending().map(|(number, _)| number).collect();
        assert_eq!(sending, self.numbers(|flow| flow.rate() > 0));
        for flow in self.flows.values() {
            assert_eq!(self.in_the_way(flow), self.in_the_way_walked(flow));
        }
        for link in self.network.links() {
            let (mut due, mut all) = (self.due(link, u64::MAX), self.due_walked(link));
            due.sort_unstable();
            assert_eq!(due, all);
            let capacity = self.timetable.most(link).max(1);
            for size in [1, 1_000_000, 100_000_000].map(|bytes| nanobits(Bytes::new(bytes))) {
                let mut in_the_way = self.due_in_the_way(link, size);
                let span = least_span(capacity, &mut in_the_way, size);
                assert_eq!(span, least_span(capacity, &mut all, size));
            }
        }
    }

    /// Before when no plan could have so much there, over the first path of one of the flows.
    fn compare_earliest(&self) {
        let Some(flow) = self.flows.values().next() else { return };
        let (source, destination) = (flow.paths[0].source(), flow.paths[0].destination());
        let mut copy = self.clone();
        let path = Arc::clone(&copy.paths(source, destination, 1).unwrap()[0]);
        for size in [1, 1_000_000, 100_000_000].map(Bytes::new) {
            let fastest = self.fastest(source, destination, u64::MAX);
            let mut span = u64::try_from(nanobits(size).div_ceil(fastest)).unwrap();
            for link in path.links() {
                let capacity = self.timetable.most(*link).max(1);
                span = span.max(least_span(capacity, &mut self.due_walked(*link), nanobits(size)));
            }
            let found = copy.earliest_by_links(source, destination, size, Rate::MAX, 1).unwrap();
            assert_eq!(found, Time::from_ns(self.clock).checked_add(Time::from_ns(span)));
        }
    }

    /// All of it after some time, and what is then sent.
    fn compare_after(&self, span: u64) {
        let mut copy = self.clone();
        copy.clock += span;
        let mut walked = copy.clone();
        copy.settle();
        walked.settle_walked();
        // Both write all as settled by now.
        walked.settled = walked.clock;
        assert_eq!(copy.snapshot(), walked.snapshot());
        for link in self.network.links() {
            let window = (copy.clock, u64::MAX);
            assert_eq!(copy.timetable.filled(link, window), walked.timetable.filled(link, window));
        }
        copy.flows.begin(copy.clock);
        copy.compare();
        copy.compare_earliest();
        let (found, all) = (copy.rates_now(), walked.rates_walked());
        copy.nobody_waits(&found);
        assert_eq!(found.used, all.used);
        let mut sent = all.all;
        sent.retain(|_, rates| rates.iter().any(|rate| *rate > 0));
        let mut found = found.all;
        found.retain(|_, rates| rates.iter().any(|rate| *rate > 0));
        assert_eq!(found, sent);
        assert_eq!(copy.next_change(), walked.next_change_walked());
    }
}

const SECOND: u64 = 1_000_000_000;

/// A ring, links of some Mbit/s each.
fn network(capacities: &[u64]) -> Arc<Network> {
    let mut builder = Network::builder();
    let nodes = capacities.len();
    let names: Vec<String> = (0..nodes).map(|node| node.to_string()).collect();
    for name in &names {
        builder.node(name).unwrap();
    }
    for (at, capacity) in capacities.iter().enumerate() {
        let rate = Rate::from_mbit_per_s(*capacity);
        let ends = [at, (at + 1) % nodes];
        for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let name = format!("{at}:{from}-{to}");
            builder.link(&name, &names[from], &names[to], rate, Time::ZERO).unwrap();
        }
    }
    Arc::new(builder.build())
}

/// What happens, in numbers that suit any network.
type Step = (u8, u64, u64, u64);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0_u8..12, 0_u64..1000, 0_u64..1000, 0_u64..1000), 1..60)
}

fn asked(calendar: &Weir, number: usize, (_, size, span, more): Step) -> Request {
    let nodes: Vec<_> = calendar.network.nodes().collect();
    let at = |number: u64| usize::try_from(number).unwrap() % nodes.len();
    let (source, step) = (at(size), 1 + usize::try_from(more).unwrap() % (nodes.len() - 1));
    let start = if more % 3 == 0 { calendar.clock + span * SECOND / 50 } else { 0 };
    let rate_max = if span % 3 == 0 { Rate::from_mbit_per_s(1 + size % 9) } else { Rate::MAX };
    let from = start.max(calendar.clock);
    Request {
        id: FlowId::new(&number.to_string()),
        source: nodes[source],
        destination: nodes[(source + step) % nodes.len()],
        size: Bytes::new(1 + size * 10_000),
        deadline: Time::from_ns(from + 1 + span * SECOND / 20),
        rate_max,
        terms: Terms {
            start: Time::from_ns(start),
            least: (size % 5 == 0).then(|| Bytes::new(1)),
            weight: 1 + u32::try_from(size % 4).unwrap(),
            hold: Time::from_ns(if span % 4 == 0 { SECOND } else { 0 }),
            paths: 1 + at(more),
            ..Terms::default()
        },
    }
}

/// Takes the step, as a world would that does as told in part.
fn take(calendar: &mut Weir, number: usize, step: Step) {
    let (what, a, b, c) = step;
    let now = Time::from_ns(calendar.clock);
    let count = calendar.by_id.len().max(1);
    let mut ids: Vec<FlowId> = calendar.by_id.keys().cloned().collect();
    ids.sort_unstable();
    let chosen = ids.get(usize::try_from(a).unwrap() % count).cloned();
    match (what, chosen) {
        (0..5, _) => {
            let asked = asked(calendar, number, step);
            let decision = calendar.submit(now, asked).unwrap();
            if let Decision::Waiting = decision {
                calendar.epoch(now).unwrap();
            }
        }
        (5 | 6, _) => {
            // To the next step of the plan, or a little longer.
            let next = calendar.next_epoch().as_ns().max(calendar.clock);
            let next = if b % 2 == 0 { next } else { calendar.clock + c * SECOND / 200 };
            calendar.epoch(Time::from_ns(next)).unwrap();
        }
        (7, Some(id)) => {
            calendar.complete(now, &id).unwrap();
        }
        (8, Some(id)) => {
            calendar.cancel(now, &id).unwrap();
        }
        (9 | 10, Some(id)) => {
            let size = calendar.find(&id).unwrap().size.count();
            calendar.progress(now, &id, Bytes::new(size * b / 1000)).unwrap();
        }
        (11, _) => {
            let links: Vec<LinkId> = calendar.network.links().collect();
            let link = links[usize::try_from(a).unwrap() % links.len()];
            let rate = |part| {
                let whole = calendar.network.link(link).capacity.as_bit_per_s();
                Rate::from_bit_per_s(whole / 1000 * part)
            };
            let (from, to) = (calendar.clock + SECOND, calendar.clock + 3 * SECOND);
            let (from, to) = (Time::from_ns(from), Time::from_ns(to));
            let piece = CapacityPiece { from, to, rate: rate(b) };
            calendar.set_capacity(now, link, &[piece], rate(c)).unwrap();
        }
        _ => {}
    }
}

fn cases() -> ProptestConfig {
    ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_is_looked_up_is_what_walking_over_all_finds(
        capacities in prop::collection::vec(1_u64..20, 3..6),
        worth in prop::sample::select(vec![Worth::Anything, Worth::Request]),
        paths in 1_usize..3,
        measured in any::<bool>(),
        steps in steps(),
    ) {
        let epoch = Time::from_ms(10_000);
        let options = WeirOptions { paths, epoch, worth, hold: Time::ZERO, measured };
        let mut calendar = Weir::new(network(&capacities), options).unwrap();
        let mut touched = calendar.clone();
        for (number, step) in steps.into_iter().enumerate() {
            take(&mut calendar, number, step);
            take(&mut touched, number, step);
            touched.touch_all();
            prop_assert_eq!(calendar.snapshot(), touched.snapshot());
            calendar.compare_after(0);
            calendar.compare_after(step.3 * SECOND / 100);
            // One more that has not been given anything yet.
            let mut copy = calendar.clone();
            copy.settle();
            let asked = asked(&copy, 1000, step);
            let paths = copy.paths(asked.source, asked.destination, asked.terms.paths).unwrap();
            let mut flow = copy.flow(&asked, &paths);
            copy.draft(&mut flow);
            let number = copy.number_for(&asked.id);
            copy.flows.insert(number, flow);
            copy.compare_after(0);
        }
    }
}
