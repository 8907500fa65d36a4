//! Weir's own calendar in a world that reports what it sees: the same answers after a restart,
//! deadlines in refusals that are accepted, and promises that hold beside senders that do not.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_schedule::calendar::{
    Calendar, Decision, FlowId, FlowState, Request, Servable, Terms, Weir, WeirOptions, Worth,
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

    /// What the step asks for: some of it ahead, of some a part is enough, some is worth more.
    fn request(&self, scale: Scale, step: &Step) -> Option<Request> {
        let Step::Submit { source, destination, size, span, limit } = *step else { return None };
        let start = self.now + if size % 3 == 0 { share(scale.span_ns, span / 4) } else { 0 };
        let ends = (source, destination, size, span, limit);
        let plain = request(self.calendar.network(), scale, self.asked, start, ends);
        let least = (size % 5 == 0).then(|| Bytes::new((plain.size.count() / 2).max(1)));
        let weight = 1 + u32::try_from(size % 4).unwrap();
        Some(Request { terms: Terms { start: Time::from_ns(start), least, weight }, ..plain })
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
                if let Decision::Accepted(accepted) = &decision {
                    self.sizes.insert(request.id, accepted.size);
                }
                self.asked += 1;
                format!("{decision:?}")
            }
            Step::Epoch => format!("{:?}", self.calendar.epoch(now).unwrap()),
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
                let bound = calendar.earliest_by_links(ends.0, ends.1, asked.size, asked.rate_max);
                let decision = calendar.submit(world.at(), asked.clone()).unwrap();
                if let Decision::Refused(refused) = decision {
                    prop_assert!(worth == Worth::Request || refused.earliest_deadline.is_some());
                    if let Some(deadline) = refused.earliest_deadline {
                        let again = Request { deadline, ..asked };
                        let decision = calendar.submit(world.at(), again).unwrap();
                        prop_assert!(matches!(decision, Decision::Accepted(_)), "{:?}", decision);
                    }
                } else if asked.terms.least.is_none() {
                    prop_assert!(bound.unwrap().unwrap() <= asked.deadline);
                }
            }
            world.step(WIDE, step);
        }
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
    let other = calendar.precheck(s(5), megabytes(&network, "other", 16, 30)).unwrap();
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
    assert!(Weir::restore(&format!("{text} ")).is_ok());
    assert!(Weir::restore(&text[1..]).is_err());
}
