//! Weir's own calendar in a world that reports what it sees: the same answers after a restart,
//! deadlines in refusals that are accepted, and promises that hold beside senders that do not.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_schedule::calendar::{
    Calendar, Decision, FlowId, FlowState, FlowView, Request, Servable, Terms, Weir, WeirOptions,
    Worth,
};
use weir_topology::Network;
use weir_units::{Bytes, Rate, Time};

use support::{Scale, Step, WIDE, cases, networks, reported_steps, request, share};

fn options(worth: Worth, paths: usize) -> WeirOptions {
    WeirOptions { paths, epoch: Time::from_ms(10_000), worth, hold: Time::ZERO, measured: true }
}

/// A calendar and what its callers know.
#[derive(Clone)]
struct World {
    calendar: Weir,
    now: u64,
    asked: usize,
    /// The sizes promised.
    sizes: BTreeMap<FlowId, Bytes>,
    /// All that was answered.
    answers: Vec<String>,
}

impl World {
    fn new(network: &Arc<Network>, options: WeirOptions) -> Self {
        let calendar = Weir::new(Arc::clone(network), options).unwrap();
        let (sizes, answers) = (BTreeMap::new(), Vec::new());
        Self { calendar, now: 0, asked: 0, sizes, answers }
    }

    fn at(&self) -> Time {
        Time::from_ns(self.now)
    }

    fn nth(&self, index: usize) -> Option<FlowId> {
        let count = self.sizes.len().max(1);
        self.sizes.keys().nth(index % count).cloned()
    }

    /// What the step asks for: some of it ahead, of some a part is enough, some is worth more, some
    /// answers may wait.
    fn request(&self, scale: Scale, step: &Step) -> Option<Request> {
        let Step::Submit { source, destination, size, span, limit } = *step else { return None };
        let start = self.now + if size % 3 == 0 { share(scale.span_ns, span / 4) } else { 0 };
        let ends = (source, destination, size, span, limit);
        let plain = request(self.calendar.network(), scale, self.asked, start, ends);
        let least = (size % 5 == 0).then(|| Bytes::new((plain.size.count() / 2).max(1)));
        let weight = 1 + u32::try_from(size % 4).unwrap();
        let hold =
            if size % 2 == 0 { Time::from_ns(share(scale.span_ns, 100)) } else { Time::ZERO };
        let paths = 1 + usize::try_from(size % 3).unwrap();
        let start = Time::from_ns(start);
        let terms = Terms { start, least, weight, hold, paths, ..Terms::default() };
        Some(Request { terms, ..plain })
    }

    fn step(&mut self, scale: Scale, step: &Step) {
        let now = self.at();
        let answer = match step {
            Step::Wait(part) => {
                self.now += share(scale.span_ns / 4, *part).max(1);
                format!("{:?}", self.calendar.advance(self.at()))
            }
            Step::Submit { .. } => {
                let request = self.request(scale, step).unwrap();
                let decision = self.calendar.submit(now, request.clone()).unwrap();
                self.decided(request.id, request.size, &decision);
                self.asked += 1;
                format!("{decision:?}")
            }
            Step::Epoch => {
                let epoch = self.calendar.epoch(now).unwrap();
                for (flow, decision) in &epoch.decisions {
                    let size = self.sizes.remove(flow).unwrap();
                    self.decided(flow.clone(), size, decision);
                }
                format!("{epoch:?}")
            }
            Step::Cancel(index) | Step::Complete(index) => {
                let Some(flow) = self.nth(*index) else { return };
                self.sizes.remove(&flow);
                match step {
                    Step::Cancel(_) => format!("{:?}", self.calendar.cancel(now, &flow)),
                    _ => format!("{:?}", self.calendar.complete(now, &flow)),
                }
            }
            Step::Progress(index, left) => {
                let Some(flow) = self.nth(*index) else { return };
                let remaining = Bytes::new(share(self.sizes[&flow].count(), *left));
                format!("{:?}", self.calendar.progress(now, &flow, remaining))
            }
        };
        self.answers.push(answer);
    }

    fn decided(&mut self, flow: FlowId, size: Bytes, decision: &Decision) {
        match decision {
            Decision::Accepted(accepted) => self.sizes.insert(flow, accepted.size),
            Decision::Waiting => self.sizes.insert(flow, size),
            Decision::Refused(_) => None,
        };
    }

    /// No link is handed out beyond what it carries, and the states are what plans say.
    fn check(&self) {
        for link in self.calendar.links() {
            assert!(link.allotted <= link.capacity, "{link:?}");
        }
        for flow in self.calendar.flows() {
            assert!(self.sizes.contains_key(&flow.flow), "only complete and cancel end a flow");
            let is_late = flow.deadline <= self.at();
            assert_eq!(flow.state == FlowState::Late, is_late, "{flow:?}");
        }
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn a_restored_calendar_answers_as_the_first_would_have(
        network in networks(WIDE),
        worth in prop::sample::select(vec![Worth::Anything, Worth::Request]),
        paths in 1_usize..4,
        before in reported_steps(40),
        after in reported_steps(40),
    ) {
        let mut first = World::new(&network, options(worth, paths));
        for step in &before {
            first.step(WIDE, step);
            first.check();
        }
        let text = first.calendar.snapshot();
        let mut second = World { calendar: Weir::restore(&text).unwrap(), ..first.clone() };
        prop_assert_eq!(second.calendar.snapshot(), text);
        for step in &after {
            first.step(WIDE, step);
            second.step(WIDE, step);
        }
        prop_assert_eq!(&second.answers, &first.answers);
        prop_assert_eq!(second.calendar.snapshot(), first.calendar.snapshot());
        prop_assert_eq!(second.calendar.next_epoch(), first.calendar.next_epoch());
    }

    /// Whenever it is asked for, also ahead of the time at which the next call comes: the answer is
    /// that of a copy, and the calendar goes on as one of which nothing was asked.
    #[test]
    fn a_precheck_is_the_answer_and_leaves_nothing_behind(
        network in networks(WIDE),
        worth in prop::sample::select(vec![Worth::Anything, Worth::Request]),
        paths in 1_usize..4,
        steps in reported_steps(60),
        ahead in prop::collection::vec(prop_oneof![Just(0_u64), 1_u64..300], 60),
    ) {
        let mut asked_of = World::new(&network, options(worth, paths));
        let mut left_alone = asked_of.clone();
        for (step, ahead) in steps.iter().zip(ahead) {
            let plain = asked_of.request(WIDE, step);
            // One that is there already, in vain.
            let known = asked_of.nth(0).and_then(|id| asked_of.calendar.flow_view(&id));
            let known = known.as_ref().map(between_ends_of);
            for asked in plain.into_iter().chain(known) {
                let now = Time::from_ns(asked_of.now + share(WIDE.span_ns, ahead));
                let before = asked_of.calendar.snapshot();
                let links = asked_of.calendar.links();
                let next = asked_of.calendar.next_epoch();
                let mut copy = asked_of.calendar.clone();
                let said = Servable::precheck(&mut asked_of.calendar, now, asked.clone(), None);
                prop_assert_eq!(asked_of.calendar.snapshot(), before);
                prop_assert_eq!(asked_of.calendar.links(), links);
                prop_assert_eq!(asked_of.calendar.next_epoch(), next);
                prop_assert_eq!(said.ok(), copy.submit(now, asked).ok());
            }
            asked_of.step(WIDE, step);
            left_alone.step(WIDE, step);
            prop_assert_eq!(asked_of.calendar.snapshot(), left_alone.calendar.snapshot());
        }
        prop_assert_eq!(&asked_of.answers, &left_alone.answers);
    }

    #[test]
    fn the_deadline_in_a_refusal_is_accepted(
        network in networks(WIDE),
        worth in prop::sample::select(vec![Worth::Anything, Worth::Request]),
        paths in 1_usize..4,
        steps in reported_steps(60),
    ) {
        let mut world = World::new(&network, options(worth, paths));
        for step in &steps {
            if let Some(asked) = world.request(WIDE, step) {
                let mut calendar = world.calendar.clone();
                let ends = (asked.source, asked.destination);
                let (size, most, few) = (asked.size, asked.rate_max, asked.terms.paths);
                let bound = calendar.earliest_by_links(ends.0, ends.1, size, most, few);
                let decision = calendar.submit(world.at(), asked.clone()).unwrap();
                if let Decision::Refused(refused) = &decision {
                    prop_assert!(worth == Worth::Request || refused.earliest_deadline.is_some());
                    if let Some(deadline) = refused.earliest_deadline {
                        let terms = Terms { hold: Time::ZERO, ..asked.terms };
                        let again = Request { deadline, terms, ..asked };
                        let decision = calendar.submit(world.at(), again).unwrap();
                        prop_assert!(matches!(decision, Decision::Accepted(_)), "{:?}", decision);
                    }
                } else if decision != Decision::Waiting && asked.terms.least.is_none() {
                    prop_assert!(bound.unwrap().unwrap() <= asked.deadline);
                }
            }
            world.step(WIDE, step);
        }
    }
}

/// A request between the ends of a flow.
fn between_ends_of(view: &FlowView) -> Request {
    Request {
        id: view.flow.clone(),
        source: view.path.source(),
        destination: view.path.destination(),
        size: view.size,
        deadline: view.deadline,
        rate_max: view.rate_max,
        terms: Terms::default(),
    }
}

fn one_link() -> Arc<Network> {
    let mut builder = Network::builder();
    builder.node("a").unwrap();
    builder.node("b").unwrap();
    builder.link("ab", "a", "b", Rate::from_mbit_per_s(8), Time::ZERO).unwrap();
    Arc::new(builder.build())
}

/// A megabyte takes the whole link a second.
fn megabytes(network: &Network, name: &str, size: u64, deadline_s: u64) -> Request {
    Request {
        id: FlowId::new(name),
        source: network.node("a").unwrap(),
        destination: network.node("b").unwrap(),
        size: Bytes::new(size * 1_000_000),
        deadline: Time::from_ms(deadline_s * 1000),
        rate_max: Rate::MAX,
        terms: Terms::default(),
    }
}

fn state(calendar: &Weir, name: &str) -> (FlowState, u64) {
    let flow = calendar.flows().into_iter().find(|flow| flow.flow == FlowId::new(name)).unwrap();
    (flow.state, flow.rate.as_bit_per_s())
}

fn admit(calendar: &mut Weir, at_s: u64, request: Request) {
    let decision = calendar.submit(Time::from_ms(at_s * 1000), request).unwrap();
    assert!(matches!(decision, Decision::Accepted(_)), "{decision:?}");
}

#[test]
fn whoever_stands_still_keeps_its_room_until_it_cannot_be_on_time() {
    let network = one_link();
    let mut calendar = Weir::new(Arc::clone(&network), options(Worth::Anything, 1)).unwrap();
    let s = |s: u64| Time::from_ms(s * 1000);
    admit(&mut calendar, 0, megabytes(&network, "still", 10, 30));
    // By the model half of it is sent; nothing is. Its room is still there.
    let still = FlowId::new("still");
    calendar.progress(s(5), &still, Bytes::new(10_000_000)).unwrap();
    assert_eq!(state(&calendar, "still").0, FlowState::OnTime);
    // Twenty seconds are left after what it needs and its cushion.
    let other = calendar.precheck(s(5), megabytes(&network, "other", 16, 30), None).unwrap();
    assert!(matches!(other, Decision::Refused(_)), "{other:?}");
    admit(&mut calendar, 5, megabytes(&network, "other", 14, 30));
    calendar.progress(s(25), &FlowId::new("other"), Bytes::new(1_000_000)).unwrap();
    calendar.progress(s(25), &still, Bytes::new(10_000_000)).unwrap();
    assert_eq!(state(&calendar, "still").0, FlowState::AtRisk);
    assert_eq!(state(&calendar, "other").0, FlowState::OnTime, "it does not pay for that");
    // It has a second of the five; the rest comes after them.
    let earliest = calendar.earliest_end(&still).unwrap().unwrap();
    assert!(earliest >= s(36) && earliest < Time::from_ms(36_020), "{earliest}");
    calendar.complete(s(27), &FlowId::new("other")).unwrap();
    calendar.epoch(s(31)).unwrap();
    assert_eq!(state(&calendar, "still"), (FlowState::Late, 8_000_000), "late, it goes on");
    // Nor does it stand in the way of what is promised then.
    admit(&mut calendar, 31, megabytes(&network, "urgent", 2, 33));
    assert_eq!(state(&calendar, "urgent").0, FlowState::OnTime);
    calendar.epoch(calendar.next_epoch().min(s(32))).unwrap();
    assert_eq!(state(&calendar, "still").0, FlowState::Late);
    calendar.cancel(s(32), &still).unwrap();
    assert_eq!(calendar.flows().len(), 1);
}

/// Asks for what was refused with room kept for it: the deadline that was offered.
fn offered(calendar: &mut Weir, at: u64, name: &str, asked: Request, lasts: u64) -> Option<Time> {
    let (now, start) = (Time::from_ns(at), Time::from_ns(at + lasts));
    let terms = Terms { start, least: None, hold: Time::ZERO, ..asked.terms };
    calendar.offer(now, Request { id: FlowId::new(name), terms, ..asked }).unwrap()
}

proptest! {
    #![proptest_config(cases(200))]

    /// Whatever is asked for, admitted, ended and offered to others between.
    #[test]
    fn what_was_offered_is_never_refused_before_the_offer_ends(
        network in networks(WIDE),
        worth in prop::sample::select(vec![Worth::Anything, Worth::Request]),
        paths in 1_usize..4,
        steps in reported_steps(60),
    ) {
        let mut world = World::new(&network, options(worth, paths));
        let lasts = WIDE.span_ns / 20;
        let mut open: Vec<(FlowId, u64, Request)> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            // Who asks in the last moment has what was offered to him, each as all others wait.
            for (offer, until, asked) in &open {
                let at = Time::from_ns((*until).max(world.now));
                let before = world.calendar.snapshot();
                let said = world.calendar.precheck(at, asked.clone(), Some(offer)).unwrap();
                prop_assert_eq!(world.calendar.snapshot(), before);
                let mut calendar = world.calendar.clone();
                let decision = calendar.take_up(at, offer, asked.clone()).unwrap();
                prop_assert_eq!(said, decision.clone());
                prop_assert!(matches!(decision, Decision::Accepted(_)), "{:?}", decision);
            }
            if let Some(asked) = world.request(WIDE, step) {
                let asked = Request { terms: Terms { least: None, ..asked.terms }, ..asked };
                let decision = world.calendar.clone().submit(world.at(), asked.clone()).unwrap();
                if matches!(decision, Decision::Refused(_)) && asked.terms.start <= world.at() {
                    let name = format!("offer {number}");
                    let deadline =
                        offered(&mut world.calendar, world.now, &name, asked.clone(), lasts);
                    if let Some(deadline) = deadline {
                        world.sizes.insert(FlowId::new(&name), asked.size);
                        let terms = Terms { hold: Time::ZERO, ..asked.terms };
                        let id = FlowId::new(&format!("asks {number}"));
                        let asked = Request { id, deadline, terms, ..asked };
                        open.push((FlowId::new(&name), world.now + lasts, asked));
                    }
                }
            }
            if !matches!(step, Step::Complete(_) | Step::Cancel(_) | Step::Progress(..)) {
                world.step(WIDE, step);
            }
            for (offer, _, _) in open.extract_if(.., |(_, until, _)| *until <= world.now) {
                world.sizes.remove(&offer);
                world.calendar.cancel(world.at(), &offer).unwrap();
            }
        }
    }
}

#[test]
fn two_offers_are_not_of_the_same_room_and_one_that_lapses_gives_it_back() {
    let network = one_link();
    let mut calendar = Weir::new(Arc::clone(&network), options(Worth::Anything, 1)).unwrap();
    let s = |s: u64| Time::from_ms(s * 1000);
    let second = 1_000_000_000;
    admit(&mut calendar, 0, megabytes(&network, "all", 98, 100));
    let asked = |name| megabytes(&network, name, 50, 100);
    let first = offered(&mut calendar, 0, "offer/a", asked("a"), 60 * second).unwrap();
    let other = offered(&mut calendar, 0, "offer/b", asked("b"), 60 * second).unwrap();
    // What the first may send in the second that is free before is little.
    assert!(first >= s(149) && first <= s(151), "{first}");
    assert!(other >= first + s(49), "{other}");
    // Others go on as if there were none, and a restart knows them.
    assert_eq!(state(&calendar, "all").1, 8_000_000);
    assert_eq!(calendar.flow_view(&FlowId::new("offer/a")).unwrap().start, s(60));
    let mut again = Weir::restore(&calendar.snapshot()).unwrap();
    for calendar in [&mut calendar, &mut again] {
        let late = Request { deadline: first, ..asked("c") };
        let refused = calendar.submit(s(30), late).unwrap();
        assert!(matches!(refused, Decision::Refused(_)), "{refused:?}");
    }
    let more = Request { deadline: first, ..megabytes(&network, "more", 60, 100) };
    let refused = again.take_up(s(60), &FlowId::new("offer/a"), more).unwrap();
    assert!(matches!(refused, Decision::Refused(_)), "more than was offered: {refused:?}");
    let own = Request { deadline: first, ..asked("a") };
    let taken = calendar.take_up(s(60), &FlowId::new("offer/a"), own.clone()).unwrap();
    assert!(matches!(taken, Decision::Accepted(_)), "{taken:?}");
    assert!(calendar.take_up(s(60), &FlowId::new("offer/a"), own).is_err());
    calendar.cancel(s(60), &FlowId::new("offer/b")).unwrap();
    admit(&mut calendar, 60, Request { deadline: other, ..asked("c") });
}

#[test]
fn an_answer_that_may_wait_is_no_promise() {
    let network = one_link();
    let mut calendar = Weir::new(Arc::clone(&network), options(Worth::Anything, 1)).unwrap();
    let s = |s: u64| Time::from_ms(s * 1000);
    let waits = |name, size, hold_s: u64| {
        let plain = megabytes(&network, name, size, 100);
        Request { terms: Terms { hold: s(hold_s), ..plain.terms }, ..plain }
    };
    assert_eq!(calendar.submit(s(0), waits("heavy", 60, 30)), Ok(Decision::Waiting));
    assert_eq!(calendar.submit(s(0), waits("soon", 10, 5)), Ok(Decision::Waiting));
    let epoch = calendar.epoch(s(0)).unwrap();
    // Sent as if it were promised.
    assert_eq!(epoch.changes[0].rate, Rate::from_mbit_per_s(8));
    assert_eq!(calendar.next_epoch(), s(5), "the first answer");
    let mut again = Weir::restore(&calendar.snapshot()).unwrap();
    // Who is answered at once takes the place of who is heavier, and not of who is lighter.
    admit(&mut calendar, 1, megabytes(&network, "at once", 50, 100));
    assert_eq!(state(&calendar, "heavy"), (FlowState::AtRisk, 0));
    let more = calendar.submit(s(1), megabytes(&network, "more", 40, 100)).unwrap();
    assert!(matches!(more, Decision::Refused(_)), "{more:?}");
    let epoch = calendar.epoch(s(5)).unwrap();
    let [(flow, Decision::Accepted(_))] = &epoch.decisions[..] else { panic!("{epoch:?}") };
    assert_eq!(flow, &FlowId::new("soon"));
    let epoch = calendar.epoch(s(20)).unwrap();
    let [(flow, Decision::Refused(_))] = &epoch.decisions[..] else { panic!("{epoch:?}") };
    assert_eq!(flow, &FlowId::new("heavy"));
    assert!(calendar.flows().iter().all(|flow| flow.state != FlowState::AtRisk));
    // Where nothing lighter came, it is promised: a fifth of its time is over.
    assert_eq!(again.epoch(s(5)).unwrap().decisions.len(), 1);
    assert_eq!(again.next_epoch().min(s(20)), again.next_epoch());
    let epoch = again.epoch(s(20)).unwrap();
    assert!(matches!(epoch.decisions[..], [(_, Decision::Accepted(_))]), "{epoch:?}");
}

#[test]
fn a_cut_takes_from_those_on_trial_before_it_breaks_a_promise() {
    let network = one_link();
    let link = network.links().next().unwrap();
    let mut calendar = Weir::new(Arc::clone(&network), options(Worth::Anything, 1)).unwrap();
    let s = |s: u64| Time::from_ms(s * 1000);
    let trial = megabytes(&network, "trial", 30, 90);
    let terms = Terms { hold: s(10), ..trial.terms };
    assert_eq!(calendar.submit(s(0), Request { terms, ..trial }), Ok(Decision::Waiting));
    admit(&mut calendar, 0, megabytes(&network, "promised", 60, 100));
    calendar.set_capacity(s(1), link, &[], Rate::from_mbit_per_s(6)).unwrap();
    assert_eq!(state(&calendar, "promised").0, FlowState::OnTime);
    assert_eq!(state(&calendar, "trial"), (FlowState::AtRisk, 0));
    let mut behind = Weir::restore(&calendar.snapshot()).unwrap();
    assert!(matches!(behind.epoch(s(10)).unwrap().decisions[0].1, Decision::Refused(_)));
}

#[test]
fn who_falls_behind_takes_the_place_of_one_on_trial() {
    let network = one_link();
    let mut calendar = Weir::new(Arc::clone(&network), options(Worth::Anything, 1)).unwrap();
    let s = |s: u64| Time::from_ms(s * 1000);
    let trial = megabytes(&network, "trial", 45, 100);
    let terms = Terms { hold: s(60), ..trial.terms };
    assert_eq!(calendar.submit(s(0), Request { terms, ..trial }), Ok(Decision::Waiting));
    // Its reservation is before that of the other.
    admit(&mut calendar, 0, megabytes(&network, "slow", 50, 100));
    let (slow, trial) = (FlowId::new("slow"), FlowId::new("trial"));
    calendar.progress(s(15), &slow, Bytes::new(50_000_000)).unwrap();
    calendar.progress(s(15), &trial, Bytes::new(45_000_000)).unwrap();
    calendar.epoch(s(15)).unwrap();
    assert_eq!(state(&calendar, "slow").0, FlowState::OnTime);
    assert_eq!(state(&calendar, "trial").0, FlowState::AtRisk);
}

#[test]
fn what_is_through_by_the_model_waits_for_its_report() {
    let network = one_link();
    let mut calendar = Weir::new(Arc::clone(&network), options(Worth::Request, 1)).unwrap();
    admit(&mut calendar, 0, megabytes(&network, "x", 1, 60));
    let at = Time::from_ms(2000);
    assert!(calendar.advance(at).unwrap().is_empty());
    assert_eq!(state(&calendar, "x"), (FlowState::Finishing, 8_000_000));
    calendar.complete(at, &FlowId::new("x")).unwrap();
    assert!(calendar.flows().is_empty());
}

#[test]
fn what_is_edited_is_no_snapshot() {
    let network = one_link();
    let mut calendar = Weir::new(Arc::clone(&network), options(Worth::Request, 1)).unwrap();
    admit(&mut calendar, 1, megabytes(&network, "x", 10, 60));
    admit(&mut calendar, 1, megabytes(&network, "y", 10, 60));
    let text = calendar.snapshot();
    let sound: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (place, value, message) in [
        ("/version", 2.into(), "version 2 cannot be read"),
        ("/policy", "weir-held".into(), "policy: none of Weir's own"),
        ("/paths", 0.into(), "paths: none"),
        ("/epoch_ns", 0.into(), "the epoch is 0"),
        ("/last_epoch_ns", u64::MAX.into(), "last_epoch_ns: after clock_ns"),
        ("/next_number", 0.into(), "next_number: not above"),
        ("/prices/links/0", "NaN".into(), "prices: not one"),
        ("/prices/usual", "much".into(), "prices.usual: no number"),
        ("/prices/as_of_ns", u64::MAX.into(), "prices.as_of_ns: after"),
        ("/prices/asked/0/link", 1.into(), "prices.asked[0]: of no link"),
        ("/prices/asked/0/as_of_ns", u64::MAX.into(), "prices.asked[0]: of no link"),
        ("/prices/asked/0/by_burden", serde_json::json!({"1": ["2"]}), "prices.asked[0]: of no"),
        ("/flows/0/number", 7.into(), "flows[1].number: not above"),
        ("/flows/1/id", "x".into(), "already"),
        ("/flows/1/id", "".into(), "empty id"),
        ("/flows/0/source", "b".into(), "both"),
        ("/flows/0/remaining/bytes", u64::MAX.into(), "flows[0].remaining: more than"),
        ("/flows/0/measured/nanobits", u64::MAX.into(), "flows[0].measured: more than"),
        ("/flows/0/as_of_ns", u64::MAX.into(), "flows[0].as_of_ns: after"),
        ("/flows/0/rates_bps", Vec::<u64>::new().into(), "not one for each path"),
        ("/flows/0/rates_bps/0", u64::MAX.into(), "flows[0].rates_bps: a link"),
        ("/flows/1/rates_bps/0", 8_000_000.into(), "over its capacity"),
        ("/flows/0/rate_max_bps", 1.into(), "flows[0].rates_bps: above"),
        ("/flows/0/plan/0/path", 1.into(), "flows[0].plan[0]: no such path"),
        ("/flows/0/plan/0/end_ns", 0.into(), "empty"),
        ("/flows/0/plan/0/end_ns", u64::MAX.into(), "deadline"),
        ("/flows/0/plan/0/rate_bps", 8_000_001.into(), "over what it can carry"),
    ] {
        let mut edited = sound.clone();
        *edited.pointer_mut(place).unwrap() = value;
        let error = Weir::restore(&edited.to_string()).unwrap_err().to_string();
        assert!(error.contains(message), "{place}: {error}");
    }
    let waiting = |number: u64, more: &str| {
        let held = format!("{{\"number\": {number}, \"answer_by_ns\": 5{more}}}");
        text.replacen("{", &format!("{{\"held\": [{held}], "), 1)
    };
    assert!(Weir::restore(&waiting(1, "")).is_ok());
    for (document, message) in [
        (waiting(2, ""), "held[0].number: that of no flow"),
        (waiting(1, ", \"least_bytes\": 0"), "takes no less than"),
        (text.replacen("\"id\"", "\"weight\": 0, \"id\"", 1), "weight of 0"),
    ] {
        let error = Weir::restore(&document).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(Weir::restore(&format!("{text} ")).is_ok());
    assert!(Weir::restore(&text[1..]).is_err());
}

/// Two ways from a to b that share nothing: of 8 and, over another node, of 4 Mbit/s.
fn two_ways() -> Arc<Network> {
    let mut builder = Network::builder();
    for node in ["a", "b", "c"] {
        builder.node(node).unwrap();
    }
    for (name, from, to, mbit_per_s) in
        [("ab", "a", "b", 8), ("ac", "a", "c", 4), ("cb", "c", "b", 4)]
    {
        let rate = Rate::from_mbit_per_s(mbit_per_s);
        builder.link(name, from, to, rate, Time::ZERO).unwrap();
    }
    Arc::new(builder.build())
}

fn over(paths: usize, request: Request) -> Request {
    Request { terms: Terms { paths, ..request.terms }, ..request }
}

/// What each lane carries, in Mbit/s.
fn lanes(calendar: &Weir, name: &str) -> Vec<u64> {
    let lanes = calendar.lanes(&FlowId::new(name));
    lanes.iter().map(|(_, rate)| rate.as_bit_per_s() / 1_000_000).collect()
}

#[test]
fn a_request_takes_no_more_paths_than_it_may() {
    let network = two_ways();
    let mut calendar = Weir::new(Arc::clone(&network), options(Worth::Anything, 4)).unwrap();
    let fifteen = megabytes(&network, "x", 14, 10);
    let alone = calendar.submit(Time::ZERO, over(1, fifteen.clone())).unwrap();
    assert!(matches!(alone, Decision::Refused(_)), "12 Mbit/s are two paths': {alone:?}");
    let none = calendar.submit(Time::ZERO, over(0, fifteen.clone()));
    assert!(none.is_err_and(|error| error.to_string().contains("over 0 paths")));
    admit(&mut calendar, 0, over(2, fifteen));
    assert_eq!(lanes(&calendar, "x"), [8, 4]);
    admit(&mut calendar, 0, over(1, megabytes(&network, "y", 1, 100)));
    assert_eq!(lanes(&calendar, "y"), [0], "it waits for the only path that it may take");
    let again = Weir::restore(&calendar.snapshot()).unwrap();
    assert_eq!((lanes(&again, "x"), lanes(&again, "y")), (vec![8, 4], vec![0]));
}

#[test]
fn a_flow_that_is_narrowed_goes_on_over_the_first_path() {
    let network = two_ways();
    let mut calendar = Weir::new(Arc::clone(&network), options(Worth::Anything, 2)).unwrap();
    admit(&mut calendar, 0, megabytes(&network, "x", 8, 10));
    admit(&mut calendar, 0, megabytes(&network, "y", 4, 13));
    assert!(calendar.narrow(Time::ZERO, &FlowId::new("x"), 0).is_err());
    assert_eq!(calendar.narrow(Time::ZERO, &FlowId::new("x"), 2).unwrap(), []);
    let told = calendar.narrow(Time::ZERO, &FlowId::new("x"), 1).unwrap();
    let own = told.iter().find(|change| change.flow == FlowId::new("x"));
    assert_eq!(own.map(|change| change.rate), Some(Rate::from_mbit_per_s(8)));
    assert_eq!(lanes(&calendar, "x"), [8]);
    assert_eq!(lanes(&calendar, "y"), [0, 4], "what it leaves, another has");
    assert_eq!(state(&calendar, "x").0, FlowState::OnTime);
    calendar.narrow(Time::ZERO, &FlowId::new("y"), 1).unwrap();
    assert_eq!(state(&calendar, "y").0, FlowState::OnTime, "they take 12 s together");
}

#[test]
fn where_the_first_path_is_dead_the_next_one_says_what_is_possible() {
    let network = two_ways();
    let mut calendar = Weir::new(Arc::clone(&network), options(Worth::Anything, 2)).unwrap();
    admit(&mut calendar, 0, megabytes(&network, "x", 6, 10));
    let link = network.link_named("ab").unwrap();
    calendar.set_capacity(Time::ZERO, link, &[], Rate::ZERO).unwrap();
    assert_eq!((lanes(&calendar, "x"), state(&calendar, "x").0), (vec![0, 4], FlowState::AtRisk));
    // 6 MB at 4 Mbit/s.
    let end = calendar.earliest_end(&FlowId::new("x")).unwrap().unwrap();
    assert!(end >= Time::from_ms(12_000) && end < Time::from_ms(12_100), "{end}");
    let refused = calendar.submit(Time::ZERO, megabytes(&network, "y", 6, 10)).unwrap();
    let Decision::Refused(refused) = refused else { panic!("{refused:?}") };
    let again = megabytes(&network, "y", 6, 1);
    admit(&mut calendar, 0, Request { deadline: refused.earliest_deadline.unwrap(), ..again });
}
