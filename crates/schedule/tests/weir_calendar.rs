//! Weir's own calendar against what is true of any schedule: links hold no more than they can,
//! admitted data is there by its deadline, links do not idle while somebody could use them; and on
//! one link against the exact test of feasibility.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_schedule::calendar::{
    Accepted, Calendar, Change, Decision, FlowId, Reason, Request, Split, Terms, Weir, WeirOptions,
    Worth,
};
use weir_topology::{Network, Path};
use weir_units::{Bytes, Time};

use support::{Scale, WIDE, cases, nanobits, networks, request, share};

/// A transfer as its sender sees it, who only hears the calendar's answers.
#[derive(Debug)]
struct Sender {
    request: Request,
    /// 10^-9 bit left at `as_of`.
    remaining: i128,
    as_of: u64,
    rates: Split,
    /// When it asked.
    asked: u64,
    /// Whether it was told yes.
    is_promised: bool,
}

impl Sender {
    fn rate(&self) -> i128 {
        self.rates.iter().map(|(_, rate)| i128::from(rate.as_bit_per_s())).sum()
    }

    fn left(&self, now: u64) -> i128 {
        self.remaining - self.rate() * i128::from(now - self.as_of)
    }

    /// When the last bit is through.
    fn end(&self) -> u64 {
        match self.rate() {
            0 => u64::MAX,
            rate => {
                let span = (self.remaining + rate - 1).max(0) / rate;
                self.as_of.saturating_add(u64::try_from(span).unwrap_or(u64::MAX))
            }
        }
    }
}

/// A network in which everybody does as told, and time is exact.
struct World {
    calendar: Weir,
    senders: BTreeMap<FlowId, Sender>,
    now: u64,
}

impl World {
    fn new(network: &Arc<Network>, options: WeirOptions) -> Self {
        let calendar = Weir::new(Arc::clone(network), options).unwrap();
        Self { calendar, senders: BTreeMap::new(), now: 0 }
    }

    fn at(&self) -> Time {
        Time::from_ns(self.now)
    }

    fn tell(&mut self, changes: Vec<Change>) {
        for change in changes {
            let sender = self.senders.get_mut(&change.flow).expect("told of a flow that is there");
            sender.remaining = sender.left(self.now);
            (sender.as_of, sender.rates) = (self.now, change.split);
            let told: u64 = sender.rates.iter().map(|(_, rate)| rate.as_bit_per_s()).sum();
            assert_eq!(told, change.rate.as_bit_per_s());
        }
    }

    fn submit(&mut self, request: Request) -> Decision {
        let decision = self.calendar.submit(self.at(), request.clone()).unwrap();
        let mut sender = Sender {
            request: request.clone(),
            remaining: nanobits(request.size),
            as_of: self.now,
            rates: Vec::new(),
            asked: self.now,
            is_promised: false,
        };
        match decision.clone() {
            Decision::Accepted(Accepted { split, size, changes, .. }) => {
                (sender.remaining, sender.rates) = (nanobits(size), split);
                sender.is_promised = true;
                self.tell(changes);
                self.senders.insert(request.id, sender);
            }
            Decision::Waiting => {
                self.senders.insert(request.id, sender);
                self.pass(self.now);
            }
            Decision::Refused(_) => {}
        }
        self.check();
        decision
    }

    fn epoch(&mut self) {
        let epoch = self.calendar.epoch(self.at()).unwrap();
        self.tell(epoch.changes);
        for (id, decision) in epoch.decisions {
            match decision {
                Decision::Accepted(accepted) => {
                    let sender = self.senders.get_mut(&id).expect("answered while it is there");
                    assert!(!sender.is_promised, "{id} is answered twice");
                    assert!(accepted.changes.is_empty());
                    assert_eq!(accepted.split, sender.rates, "{id} was told its rates");
                    sender.is_promised = true;
                    let (least, size) = (sender.request.terms.least, sender.request.size);
                    assert!(accepted.size <= size && accepted.size >= least.unwrap_or(size));
                    sender.remaining -= nanobits(size) - nanobits(accepted.size);
                }
                Decision::Refused(_) => {
                    let sender = self.senders.remove(&id).expect("answered while it is there");
                    assert!(!sender.is_promised, "{id} was promised its deadline");
                }
                Decision::Waiting => panic!("{id} has waited"),
            }
        }
    }

    /// Lets time pass: ends are reported as they come, epochs held as they are due.
    fn pass(&mut self, until: u64) {
        for turn in 0.. {
            assert!(turn < 10_000, "time does not pass: {:?}", self.senders);
            let end = self.senders.values().map(Sender::end).min().unwrap_or(u64::MAX);
            let epoch = self.calendar.next_epoch().as_ns();
            let next = end.min(epoch);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            if end <= epoch {
                let over = self.senders.iter().find(|(_, sender)| sender.end() == end);
                let id = over.unwrap().0.clone();
                let sender = self.senders.remove(&id).unwrap();
                assert!(end <= sender.request.deadline.as_ns(), "{id} is late: {sender:?} {end}");
                let changes = self.calendar.complete(self.at(), &id).unwrap();
                self.tell(changes);
            } else {
                self.epoch();
            }
            self.check();
        }
    }

    /// Nobody sends too early or too much, and nobody could send more.
    fn check(&self) {
        let network = self.calendar.network();
        let mut free: Vec<i128> = network
            .links()
            .map(|link| i128::from(network.link(link).capacity.as_bit_per_s()))
            .collect();
        for sender in self.senders.values() {
            let request = &sender.request;
            assert!(self.now <= request.deadline.as_ns(), "{request:?} is late");
            let wait = (request.deadline.as_ns() - sender.asked) / 5;
            let answer_by = sender.asked + wait.min(HOLD.as_ns());
            assert!(sender.is_promised || self.now <= answer_by, "{request:?} waits too long");
            let may_send = request.terms.start.as_ns() <= self.now;
            assert!(sender.rate() == 0 || may_send, "before its start");
            assert!(sender.rate() <= i128::from(request.rate_max.as_bit_per_s()));
            for (path, rate) in &sender.rates {
                assert_eq!(
                    (path.source(), path.destination()),
                    (request.source, request.destination)
                );
                for link in path.links() {
                    free[link.index()] -= i128::from(rate.as_bit_per_s());
                }
            }
        }
        assert!(free.iter().all(|free| *free >= 0), "a link is asked for too much: {free:?}");
        for sender in self.senders.values() {
            let request = &sender.request;
            let has_started = request.terms.start.as_ns() <= self.now;
            // Those on trial may be without a place.
            if !sender.is_promised || !has_started || sender.left(self.now) <= 0 {
                continue;
            }
            let is_open = |path: &Path| path.links().iter().all(|link| free[link.index()] > 0);
            let shortest =
                network.shortest_paths(request.source, request.destination, PATHS).unwrap();
            let at_limit = sender.rate() == i128::from(request.rate_max.as_bit_per_s());
            assert!(at_limit || !shortest.iter().any(is_open), "idle beside {sender:?}");
        }
    }

    /// Until everything is over.
    fn finish(&mut self) {
        while !self.senders.is_empty() {
            let next = self.senders.values().map(|sender| sender.request.deadline.as_ns()).max();
            self.pass(next.unwrap());
        }
    }
}

const PATHS: usize = 3;

fn options(worth: Worth) -> WeirOptions {
    WeirOptions {
        paths: PATHS,
        epoch: Time::from_ms(10_000),
        worth,
        hold: Time::ZERO,
        measured: false,
    }
}

/// Where answers may wait.
const HOLD: Time = Time::from_ms(30_000);

/// Steps with what only this calendar knows: starts ahead and sizes that may shrink.
#[derive(Clone, Debug)]
struct Asked {
    wait: u64,
    ends: (usize, usize),
    size: u64,
    span: u64,
    limit: Option<u64>,
    ahead: u64,
    least: Option<u64>,
    cancels: bool,
}

fn asked() -> impl Strategy<Value = Asked> {
    let ahead = prop_oneof![2 => Just(0_u64), 1 => 1_u64..500];
    let ends = (any::<usize>(), any::<usize>());
    let (limit, least) =
        (prop::option::weighted(0.3, 1_u64..1000), prop::option::weighted(0.2, 1_u64..1000));
    let amounts = (1_u64..2000, 1_u64..1000);
    (0_u64..200, ends, amounts, limit, ahead, least, prop::bool::weighted(0.05)).prop_map(
        |(wait, ends, (span, size), limit, ahead, least, cancels)| Asked {
            wait,
            ends,
            size,
            span,
            limit,
            ahead,
            least,
            cancels,
        },
    )
}

fn ask(world: &World, scale: Scale, number: usize, asked: &Asked) -> Request {
    let Asked { ends: (from, to), size, span, limit, ahead, least, .. } = *asked;
    let start = world.now + share(scale.span_ns, ahead);
    let network = world.calendar.network();
    let plain = request(network, scale, number, start, (from, to, size, span, limit));
    let least = least.map(|part| Bytes::new(share(plain.size.count(), part).max(1)));
    Request { terms: Terms { start: Time::from_ns(start), least, ..Terms::default() }, ..plain }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn admitted_deadlines_hold_links_hold_and_nobody_idles(
        network in networks(WIDE),
        worth in prop::sample::select(vec![Worth::Anything, Worth::Request]),
        hold in prop::sample::select(vec![Time::ZERO, HOLD]),
        steps in prop::collection::vec(asked(), 1..40),
    ) {
        let mut world = World::new(&network, WeirOptions { hold, ..options(worth) });
        for (number, step) in steps.iter().enumerate() {
            // Where answers wait, several must be waiting for one to yield.
            let span = if hold == Time::ZERO { WIDE.span_ns } else { WIDE.span_ns / 10 };
            world.pass(world.now + share(span, step.wait));
            let request = ask(&world, WIDE, number, step);
            let (least, size) = (request.terms.least, request.size);
            match world.submit(request.clone()) {
                Decision::Accepted(accepted) => {
                    prop_assert!(accepted.size <= size);
                    prop_assert!(accepted.size >= least.unwrap_or(size));
                }
                // What is said to be possible is.
                Decision::Refused(refused) if worth == Worth::Anything && hold == Time::ZERO => {
                    let deadline = refused.earliest_deadline.unwrap();
                    prop_assert!(deadline > request.deadline);
                    let again = Request { deadline, ..request };
                    prop_assert!(matches!(
                        world.calendar.clone().submit(world.at(), again).unwrap(),
                        Decision::Accepted(_)
                    ));
                }
                Decision::Refused(_) | Decision::Waiting => {}
            }
            if step.cancels && let Some(id) = world.senders.keys().next().cloned() {
                let changes = world.calendar.cancel(world.at(), &id).unwrap();
                world.senders.remove(&id);
                world.tell(changes);
                world.check();
            }
        }
        world.finish();
        let reserved = world.calendar.links();
        prop_assert!(reserved.iter().all(|link| link.flows == 0));
    }
}

/// Whether one link can serve all of these by their deadlines, from now on: for every start and
/// every deadline, what must be sent between them fits between them (J. Labetoulle et al.,
/// "Preemptive scheduling of uniform machines subject to release dates", 1984; one machine).
fn is_feasible(capacity: i128, jobs: &[(u64, u64, i128)]) -> bool {
    let between = |start: u64, deadline: u64| -> i128 {
        let inside = jobs.iter().filter(|job| job.0 >= start && job.1 <= deadline);
        inside.map(|job| job.2).sum()
    };
    let pairs = jobs.iter().flat_map(|job| jobs.iter().map(move |other| (job.0, other.1)));
    pairs.into_iter().filter(|(start, deadline)| start < deadline).all(|(start, deadline)| {
        between(start, deadline) <= capacity * i128::from(deadline - start)
    })
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn on_one_link_a_request_is_refused_only_if_nothing_could_serve_it(
        steps in prop::collection::vec(asked(), 1..40),
    ) {
        let mut builder = Network::builder();
        builder.node("a").unwrap();
        builder.node("b").unwrap();
        builder.link("ab", "a", "b", RATE, Time::ZERO).unwrap();
        let network = Arc::new(builder.build());
        let fine = WeirOptions { epoch: Time::from_ms(1), ..options(Worth::Anything) };
        let mut world = World::new(&network, fine);
        let capacity = i128::from(RATE.as_bit_per_s());
        for (number, step) in steps.iter().enumerate() {
            let wait = share(WIDE.span_ns, step.wait);
            // Epochs of a millisecond are many: what they do here is nothing.
            world.pass(world.now + wait / 1000);
            let step = Asked { ends: (0, 0), limit: None, least: None, ..step.clone() };
            let request = ask(&world, WIDE, number, &step);
            let job = |sender: &Sender, more: i128| {
                let request = &sender.request;
                let start = request.terms.start.as_ns().max(world.now);
                (start, request.deadline.as_ns(), sender.left(world.now).max(0) + more)
            };
            let start = request.terms.start.as_ns();
            let own = |more| (start, request.deadline.as_ns(), nanobits(request.size) + more);
            let jobs = |more| -> Vec<_> {
                world.senders.values().map(|sender| job(sender, more)).chain([own(more)]).collect()
            };
            let (exact, rounded) = (jobs(0), jobs(ROUNDING));
            match world.submit(request.clone()) {
                Decision::Accepted(_) => prop_assert!(is_feasible(capacity, &exact)),
                _ => prop_assert!(!is_feasible(capacity, &rounded), "{:?}", request),
            }
        }
    }
}

const RATE: weir_units::Rate = weir_units::Rate::from_mbit_per_s(10_000);
/// What one transfer may hold beyond what it needs: 1000 bytes, and a microsecond of the link.
const ROUNDING: i128 = 8_000_000_000_000 + 10_000_000_000 * 1_010;

fn pair_of_routes() -> Arc<Network> {
    let mut builder = Network::builder();
    for node in ["a", "b", "c"] {
        builder.node(node).unwrap();
    }
    for (from, to) in [("a", "b"), ("a", "c"), ("c", "b")] {
        builder.link(&format!("{from}{to}"), from, to, RATE, Time::ZERO).unwrap();
    }
    Arc::new(builder.build())
}

/// 1.25 GB are a second of a link.
fn seconds(world: &World, name: &str, link_seconds: f64, window: (f64, f64)) -> Request {
    let network = world.calendar.network();
    Request {
        id: FlowId::new(name),
        source: network.node("a").unwrap(),
        destination: network.node("b").unwrap(),
        size: Bytes::new((link_seconds * 1.25e9) as u64),
        deadline: Time::from_s(window.1),
        rate_max: weir_units::Rate::MAX,
        terms: Terms { start: Time::from_s(window.0), ..Terms::default() },
    }
}

fn accepted(decision: Decision) -> Accepted {
    let Decision::Accepted(accepted) = decision else { panic!("refused: {decision:?}") };
    accepted
}

#[test]
fn what_no_link_can_carry_alone_takes_two_routes() {
    let mut world = World::new(&pair_of_routes(), options(Worth::Anything));
    let request = seconds(&world, "wide", 19.0, (0.0, 10.0));
    let accepted = accepted(world.submit(request));
    assert_eq!(accepted.rate, weir_units::Rate::from_mbit_per_s(20_000));
    assert_eq!(accepted.split.len(), 2);
    world.pass(9_500_000_000);
    assert!(world.senders.is_empty(), "19 s of a link take 9.5 s of two");
}

#[test]
fn whoever_sends_ahead_of_plan_yields_to_an_urgent_request_and_is_on_time() {
    let mut world = World::new(&pair_of_routes(), options(Worth::Anything));
    let patient = seconds(&world, "patient", 100.0, (0.0, 100.0));
    assert_eq!(accepted(world.submit(patient)).rate.as_bit_per_s(), 20_000_000_000);
    world.pass(1_000_000_000);
    // 98 s are left to it and 198 to the links until its deadline.
    let urgent = seconds(&world, "urgent", 19.9, (0.0, 11.0));
    accepted(world.submit(urgent));
    // Its reservations begin when a tenth of a second of one link is left beside them.
    world.pass(1_100_000_000);
    let rate = |name| world.senders[&FlowId::new(name)].rate();
    assert_eq!((rate("urgent"), rate("patient")), (20_000_000_000, 0), "the other has time");
    world.finish();
}

#[test]
fn room_booked_ahead_is_kept_and_used_by_others_until_then() {
    let mut world = World::new(&pair_of_routes(), options(Worth::Anything));
    let ahead = seconds(&world, "ahead", 20.0, (50.0, 60.1));
    assert_eq!(accepted(world.submit(ahead)).rate, weir_units::Rate::ZERO);
    let now = seconds(&world, "now", 101.0, (0.0, 60.0));
    let Decision::Refused(refused) = world.submit(now.clone()) else { panic!("110 - 20 < 101") };
    // 100 s of link until 50 s, none until 60 s, the rest after it.
    let earliest = refused.earliest_deadline.unwrap().as_s();
    assert!((60.1..60.6).contains(&earliest), "{earliest}");
    let size = Bytes::new((99.9 * 1.25e9) as u64);
    accepted(world.submit(Request { size, ..now }));
    world.finish();
}

#[test]
fn a_malleable_request_is_admitted_as_far_as_there_is_room() {
    let mut world = World::new(&pair_of_routes(), options(Worth::Anything));
    let first = seconds(&world, "first", 15.0, (0.0, 10.0));
    accepted(world.submit(first));
    let second = seconds(&world, "second", 10.0, (0.0, 10.0));
    let half = Terms { least: Some(Bytes::new(6_000_000_000)), ..second.terms };
    let more = Terms { least: Some(Bytes::new(6_300_000_000)), ..second.terms };
    let refused = world.submit(Request { terms: more, ..second.clone() });
    assert!(matches!(refused, Decision::Refused(_)));
    let size = accepted(world.submit(Request { terms: half, ..second })).size.count();
    assert!((6_249_000_000..=6_250_000_000).contains(&size), "5 s of a link: {size}");
    world.finish();
}

#[test]
fn a_request_on_trial_yields_to_a_lighter_one_until_it_is_answered() {
    let options = WeirOptions { hold: HOLD, ..options(Worth::Anything) };
    let mut world = World::new(&pair_of_routes(), options);
    let heavy = seconds(&world, "heavy", 180.0, (0.0, 100.0));
    assert_eq!(world.submit(heavy), Decision::Waiting);
    assert_eq!(world.senders[&FlowId::new("heavy")].rate(), 20_000_000_000, "it sends meanwhile");
    world.pass(10_000_000_000);
    // 160 s are left to it and 180 to the links until 100 s; this one takes 30 of them.
    let light = seconds(&world, "light", 30.0, (0.0, 100.0));
    assert_eq!(world.submit(light), Decision::Waiting);
    assert_eq!(world.senders[&FlowId::new("heavy")].rate(), 0, "it lost its place");
    // A fifth of 100 s after it asked.
    world.pass(20_000_000_000);
    assert!(!world.senders.contains_key(&FlowId::new("heavy")), "refused");
    // The light one ends before its answer is due.
    world.pass(26_000_000_000);
    assert!(world.calendar.flows().is_empty());
    let second = seconds(&world, "second", 160.0, (0.0, 120.0));
    world.submit(second);
    world.pass(45_000_000_000);
    assert!(world.senders[&FlowId::new("second")].is_promised);
    // 110 s are left to it and 150 to the links: what is answered does not yield.
    let late = seconds(&world, "late", 60.0, (0.0, 120.0));
    world.submit(late);
    world.finish();
}

#[test]
fn a_malleable_request_on_trial_is_admitted_as_far_as_there_is_room() {
    let options = WeirOptions { hold: HOLD, ..options(Worth::Anything) };
    let mut world = World::new(&pair_of_routes(), options);
    let heavy = seconds(&world, "heavy", 180.0, (0.0, 100.0));
    let least = Some(Bytes::new((150.0 * 1.25e9) as u64));
    world.submit(Request { terms: Terms { least, ..heavy.terms }, ..heavy });
    world.pass(1_000_000_000);
    let light = seconds(&world, "light", 24.0, (0.0, 100.0));
    world.submit(light);
    // 2 s of a link are sent of it; beside the other there is room for 174 of the 178 left.
    world.pass(99_000_000_000);
    let heavy = &world.senders[&FlowId::new("heavy")];
    assert!(heavy.is_promised);
    world.finish();
}

#[test]
fn what_lost_its_place_gets_it_back_when_a_lighter_one_is_cancelled() {
    let options = WeirOptions { hold: HOLD, ..options(Worth::Anything) };
    let mut world = World::new(&pair_of_routes(), options);
    for (name, size) in [("heavy", 180.0), ("light", 30.0)] {
        let request = seconds(&world, name, size, (0.0, 100.0));
        assert_eq!(world.submit(request), Decision::Waiting);
    }
    let light = FlowId::new("light");
    let changes = world.calendar.cancel(world.at(), &light).unwrap();
    world.senders.remove(&light);
    world.tell(changes);
    let heavy = &world.senders[&FlowId::new("heavy")];
    assert_eq!(heavy.rate(), 20_000_000_000, "180 s of a link fit into 200");
    world.pass(20_000_000_000);
    assert!(world.senders[&FlowId::new("heavy")].is_promised);
    world.finish();
}

/// Every second brings six seconds of a link in one request, and one in ten more; there are two
/// links. How many of 2000 small and 200 large requests are admitted, and
/// how many are not worth their place, when prices are learnt.
fn under_pressure(world: &mut World) -> (u32, u32, u32) {
    let (mut small, mut large, mut priced_out) = (0, 0, 0);
    for number in 0..1200_u32 {
        let now = f64::from(number);
        world.pass(u64::from(number) * 1_000_000_000);
        let mut is_in = |name: String, link_seconds| {
            let request = seconds(world, &name, link_seconds, (0.0, now + 20.0));
            match world.submit(request) {
                Decision::Accepted(_) => u32::from(number >= 1000),
                Decision::Refused(refused) => {
                    let by_worth = matches!(refused.reason, Reason::Worth { .. });
                    // No deadline makes it worth more.
                    assert!(!by_worth || refused.earliest_deadline.is_none());
                    priced_out += u32::from(by_worth && number >= 1000);
                    0
                }
                Decision::Waiting => panic!("requests are decided on arrival"),
            }
        };
        large += is_in(format!("large {number}"), 6.0);
        small += (0..10).map(|part| is_in(format!("small {number} {part}"), 0.1)).sum::<u32>();
    }
    (small, large, priced_out)
}

#[test]
fn under_pressure_a_request_must_be_worth_its_place() {
    let mut open = World::new(&pair_of_routes(), options(Worth::Anything));
    let mut world = World::new(&pair_of_routes(), options(Worth::Request));
    let (without, with) = (under_pressure(&mut open), under_pressure(&mut world));
    assert!(with.0 > without.0 + 50, "{with:?}, without prices {without:?}");
    assert!(with.1 < without.1, "{with:?}, without prices {without:?}");
    assert!(with.2 > 100 && without.2 == 0, "{with:?}, without prices {without:?}");
}

#[test]
fn what_cannot_be_right_is_refused_by_name() {
    let mut world = World::new(&pair_of_routes(), options(Worth::Anything));
    let request = seconds(&world, "x", 1.0, (0.0, 10.0));
    let least = |bytes| Terms { least: Some(Bytes::new(bytes)), ..Terms::default() };
    for (wrong, message) in [
        (Request { size: Bytes::ZERO, ..request.clone() }, "size 0"),
        (Request { rate_max: weir_units::Rate::ZERO, ..request.clone() }, "maximum rate of 0"),
        (
            Request { terms: Terms { weight: 0, ..Terms::default() }, ..request.clone() },
            "weight of 0",
        ),
        (Request { terms: least(0), ..request.clone() }, "no less than"),
        (Request { terms: least(u64::MAX), ..request.clone() }, "no less than"),
        (Request { id: FlowId::new(""), ..request.clone() }, "empty id"),
        (Request { source: request.destination, ..request.clone() }, "both"),
    ] {
        let error = world.calendar.submit(Time::ZERO, wrong).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(world.calendar.flows().is_empty());
    let late = Request { deadline: Time::ZERO, ..request };
    assert!(matches!(world.submit(late), Decision::Refused(_)));
}

/// Transfers of up to ten minutes of a link, due within hours: what a price is learnt from at once.
const LARGE: Scale = Scale {
    capacity_bps: 10_000_000_000,
    size_bytes: 3_750_000_000_000,
    span_ns: 20_000_000_000_000,
};

/// When each comes after the one before, how much, and its time.
type Large = (u64, u64, u64);

fn large() -> impl Strategy<Value = Vec<Large>> {
    // Small ones tell what is usual, large ones raise prices.
    let size = prop_oneof![2 => 1_u64..6, 1 => 50_u64..200];
    prop::collection::vec((0_u64..5, size, 300_u64..1000), 1..40)
}

proptest! {
    #![proptest_config(cases(100))]

    /// Until some request comes for which a link could not carry, in its time, all that was ever
    /// asked for, prices change nothing.
    #[test]
    fn no_price_refuses_anybody_while_all_that_was_asked_for_fits_on_each_link(
        steps in large(),
    ) {
        let network = pair_of_routes();
        let with = |worth| WeirOptions { epoch: Time::from_ms(180_000), ..options(worth) };
        let mut open = World::new(&network, with(Worth::Anything));
        let mut priced = World::new(&network, with(Worth::Request));
        let slowest = network.links().map(|link| network.link(link).capacity.as_bit_per_s());
        let slowest = i128::from(slowest.min().unwrap());
        let mut asked = 0;
        for (number, (wait, size, span)) in steps.into_iter().enumerate() {
            open.pass(open.now + share(LARGE.span_ns, wait));
            priced.pass(open.now);
            let given = request(&network, LARGE, number, open.now, (0, 0, size, span, None));
            let terms = Terms { start: open.at(), ..Terms::default() };
            let (source, destination) = (network.node("a").unwrap(), network.node("b").unwrap());
            let request = Request { terms, source, destination, ..given };
            // Once for what is reserved, once for what is expected; the first may lie double while
            // nothing is sent.
            asked += nanobits(request.size);
            let span = i128::from(request.deadline.as_ns() - open.now);
            if 2 * asked > slowest * span {
                break;
            }
            prop_assert_eq!(open.submit(request.clone()), priced.submit(request));
        }
    }
}

#[test]
fn large_requests_alone_are_admitted_as_long_as_they_fit() {
    let mut world = World::new(&pair_of_routes(), options(Worth::Request));
    // Two links of which each carries twelve in the time; prices are at their highest soon.
    for number in 0..24 {
        let request = seconds(&world, &number.to_string(), 3000.0, (0.0, 36_100.0));
        assert!(matches!(world.submit(request), Decision::Accepted(_)), "{number}");
    }
    let request = seconds(&world, "one more", 3000.0, (0.0, 36_100.0));
    let Decision::Refused(refused) = world.submit(request) else { panic!("no room is left") };
    assert!(matches!(refused.reason, Reason::Link { .. }), "{refused:?}");
}
