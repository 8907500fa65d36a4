//! Cases worked by hand.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use std::sync::Arc;

use weir_schedule::calendar::{
    Accepted, Admission, Calendar, CalendarError, Calibers, Change, Decision, FlowId, FlowState,
    Options, Policy, Reason, Refused, Request, ReshapeKey, Terms,
};
use weir_topology::Network;
use weir_units::{Bytes, Rate, Time};

fn seconds(s: f64) -> Time {
    Time::from_s(s)
}

fn mbit(rate: u64) -> Rate {
    Rate::from_mbit_per_s(rate)
}

fn id(name: &str) -> FlowId {
    FlowId::new(name)
}

/// Nodes `a`, `b`, … in a row, with links `a-b`, `b-c`, … of these capacities one way.
fn row(capacities: &[Rate]) -> Arc<Network> {
    let mut builder = Network::builder();
    let names = ["a", "b", "c", "d"];
    builder.node(names[0]).unwrap();
    for (pair, capacity) in names.windows(2).zip(capacities) {
        builder.node(pair[1]).unwrap();
        let name = format!("{}-{}", pair[0], pair[1]);
        builder.link(&name, pair[0], pair[1], *capacity, Time::ZERO).unwrap();
    }
    Arc::new(builder.build())
}

/// All of it stays on one path.
fn change(flow: FlowId, rate: Rate) -> Change {
    Change { flow, rate, split: vec![] }
}

struct Desk {
    calendar: Calibers,
}

impl Desk {
    fn new(network: &Arc<Network>, options: Options) -> Self {
        Self { calendar: Calibers::new(Arc::clone(network), options).unwrap() }
    }

    fn simulated(network: &Arc<Network>, policy: &str) -> Self {
        Self::new(network, Options::simulated(policy.parse().unwrap(), seconds(180.0)))
    }

    fn live(network: &Arc<Network>, policy: &str) -> Self {
        Self::new(network, Options::live(policy.parse().unwrap(), seconds(180.0)))
    }

    fn request(&self, name: &str, ends: [&str; 2], size: Bytes, deadline: f64) -> Request {
        let [source, destination] = ends.map(|end| self.calendar.network().node(end).unwrap());
        let (deadline, rate_max) = (seconds(deadline), Rate::MAX);
        Request {
            id: id(name),
            source,
            destination,
            size,
            deadline,
            rate_max,
            terms: Terms::default(),
        }
    }

    fn accept(&mut self, now: f64, request: Request) -> Accepted {
        match self.calendar.submit(seconds(now), request).unwrap() {
            Decision::Accepted(accepted) => accepted,
            other => panic!("{other:?}"),
        }
    }

    fn refuse(&mut self, now: f64, request: Request) -> Refused {
        match self.calendar.submit(seconds(now), request).unwrap() {
            Decision::Refused(refused) => refused,
            other => panic!("{other:?}"),
        }
    }

    fn rate(&self, name: &str) -> Rate {
        self.calendar.flows().into_iter().find(|flow| flow.flow == id(name)).unwrap().rate
    }

    fn state(&self, name: &str) -> FlowState {
        self.calendar.flows().into_iter().find(|flow| flow.flow == id(name)).unwrap().state
    }
}

/// Size that a rate moves in a time.
fn volume(rate: Rate, s: f64) -> Bytes {
    rate.bytes_in(seconds(s))
}

/// 000-spec section 1 item 4 and section 10 item 12: 380 and 120 Mbit/s on a link of 500; the
/// critical transfer ends at 105.3 s, the other at 240.0 s. An equal share would end the critical
/// one at 160 s, 40 s after its deadline.
#[test]
fn the_paced_pair_ends_at_105_and_240_seconds() {
    let mut desk = Desk::simulated(&row(&[mbit(500)]), "local-ljf");
    let (critical, patient) = (Bytes::new(5_000_000_000), Bytes::new(10_000_000_000));
    let deadline = 10e9 * 8.0 / 120e6;
    let patient = desk.request("patient", ["a", "b"], patient, deadline);
    assert_eq!(desk.accept(0.0, patient).rate, mbit(500));
    let critical = desk.request("critical", ["a", "b"], critical, 120.0);
    let accepted = desk.accept(0.0, critical);
    assert_eq!(accepted.changes, [change(id("patient"), mbit(120))]);
    assert_eq!(accepted.rate, mbit(380));

    let end = desk.calendar.flows()[1].completion;
    assert!((end.as_s() - 105.263).abs() < 0.001, "{end}");
    let changes = desk.calendar.epoch(end).unwrap().changes;
    assert_eq!(changes, [change(id("patient"), mbit(500))]);
    let end = desk.calendar.flows()[0].completion;
    assert!((end.as_s() - 240.0).abs() < 0.001, "{end}");
    assert!(mbit(250).time_for(Bytes::new(5_000_000_000)) > seconds(120.0));
}

/// Two links share the flow that completes last; the one whose other flow completes later is the
/// bottleneck, whichever comes first by name (000-spec section 4.5.2, end).
#[test]
fn of_links_that_share_the_last_flow_the_one_with_later_others_is_the_bottleneck() {
    for (late, early) in [(["a", "b"], ["b", "c"]), (["b", "c"], ["a", "b"])] {
        let mut desk = Desk::simulated(&row(&[mbit(100), mbit(100)]), "local-sjf");
        share_the_last_flow(&mut desk);
        // Paces `last` down to 30 and gets what that leaves: 30, ending at 600 s.
        let other = desk.request("late", late, volume(mbit(20), 900.0), 800.0);
        assert_eq!(desk.accept(0.0, other).rate, mbit(30));
        assert_eq!(desk.rate("last"), mbit(30));
        let other = desk.request("early", early, volume(mbit(10), 300.0), 300.0);
        assert_eq!(desk.accept(0.0, other).rate, mbit(30));

        // `short` has ended at 50 s; of its 40, shortest first, all goes to the other flow there.
        let changes = desk.calendar.epoch(seconds(60.0)).unwrap().changes;
        assert_eq!(changes, [change(id("late"), mbit(70))]);
    }
}

/// Where even the averages are equal it is the link whose name comes first, however the network
/// was put together.
#[test]
fn of_equal_bottlenecks_the_first_by_name_is_taken() {
    let forwards = row(&[mbit(100), mbit(100)]);
    let mut document: serde_json::Value = serde_json::from_str(&forwards.to_json()).unwrap();
    document["links"].as_array_mut().unwrap().reverse();
    let backwards = Arc::new(Network::from_json(&document.to_string()).unwrap());
    for network in [forwards, backwards] {
        let mut desk = Desk::simulated(&network, "local-sjf");
        share_the_last_flow(&mut desk);
        for (name, ends) in [("second", ["b", "c"]), ("first", ["a", "b"])] {
            let other = desk.request(name, ends, volume(mbit(20), 900.0), 800.0);
            assert_eq!(desk.accept(0.0, other).rate, mbit(30));
        }
        let changes = desk.calendar.epoch(seconds(60.0)).unwrap().changes;
        assert_eq!(changes, [change(id("first"), mbit(70))]);
    }
}

/// `short` holds 40 of 100 on both links until 50 s, `last` the rest until at most 1000 s.
fn share_the_last_flow(desk: &mut Desk) {
    let short = Request {
        rate_max: mbit(40),
        ..desk.request("short", ["a", "c"], volume(mbit(40), 50.0), 50.0)
    };
    assert_eq!(desk.accept(0.0, short).rate, mbit(40));
    let last = desk.request("last", ["a", "c"], volume(mbit(30), 1000.0), 1000.0);
    assert_eq!(desk.accept(0.0, last).rate, mbit(60));
}

#[test]
fn what_is_completed_or_given_up_is_shared_out_at_the_next_epoch() {
    for give_up in [Calibers::complete, Calibers::cancel] {
        let mut desk = Desk::live(&row(&[mbit(100)]), "local-ljf");
        let first = desk.request("first", ["a", "b"], volume(mbit(70), 100.0), 100.0);
        desk.accept(0.0, Request { rate_max: mbit(70), ..first });
        let second = desk.request("second", ["a", "b"], volume(mbit(30), 900.0), 900.0);
        assert_eq!(desk.accept(0.0, second).rate, mbit(30));
        assert_eq!(give_up(&mut desk.calendar, seconds(10.0), &id("first")), Ok(vec![]));
        let changes = desk.calendar.epoch(seconds(180.0)).unwrap().changes;
        assert_eq!(changes, [change(id("second"), mbit(100))]);
        assert_eq!(desk.calendar.epoch(seconds(360.0)).unwrap().changes, []);
    }
}

/// Longest first paces who would end first; shortest first paces who would end last.
#[test]
fn the_order_decides_who_is_paced() {
    for (order, paced) in [("local-sjf", "long"), ("global-ljf", "short")] {
        let mut desk = Desk::simulated(&row(&[mbit(100)]), order);
        let rate_max = mbit(50);
        for (name, span) in [("short", 100.0), ("long", 1000.0)] {
            let request = desk.request(name, ["a", "b"], volume(mbit(20), span), span);
            assert_eq!(desk.accept(0.0, Request { rate_max, ..request }).rate, mbit(50));
        }
        let third = desk.request("third", ["a", "b"], volume(mbit(25), 100.0), 100.0);
        let accepted = desk.accept(0.0, third);
        assert_eq!(accepted.changes, [change(id(paced), mbit(20))]);
        assert_eq!(accepted.rate, mbit(30));
    }
}

/// By completion `wide` comes first although its deadline is later (AMB-21).
#[test]
fn redistribution_sorts_by_completion_or_by_deadline() {
    for (key, favoured) in [(ReshapeKey::Completion, "wide"), (ReshapeKey::Deadline, "narrow")] {
        let policy = "global-sjf".parse().unwrap();
        let options = Options { reshape_key: key, ..Options::simulated(policy, seconds(180.0)) };
        let mut desk = Desk::new(&row(&[mbit(100)]), options);
        let first = desk.request("first", ["a", "b"], volume(mbit(40), 10.0), 10.0);
        desk.accept(0.0, Request { rate_max: mbit(40), ..first });
        // 50 against a minimum of 10, so it would end at 200 s; the other stays at 10 until 500 s.
        let wide = desk.request("wide", ["a", "b"], volume(mbit(10), 1000.0), 1000.0);
        assert_eq!(desk.accept(0.0, Request { rate_max: mbit(50), ..wide }).rate, mbit(50));
        let narrow = desk.request("narrow", ["a", "b"], volume(mbit(10), 500.0), 500.0);
        assert_eq!(desk.accept(0.0, narrow).rate, mbit(10));
        desk.calendar.epoch(seconds(20.0)).unwrap();
        let narrow = desk.rate("narrow");
        assert_eq!(narrow > mbit(60), favoured == "narrow", "{key}: {narrow}");
    }
}

#[test]
fn at_the_epoch_requests_are_decided_together_in_order_of_submission() {
    let policy = Policy::Fixed;
    let options =
        Options { admission: Admission::AtEpoch, ..Options::simulated(policy, seconds(180.0)) };
    let mut desk = Desk::new(&row(&[mbit(100)]), options);
    let size = Bytes::new(1_000_000_000);
    for (name, deadline) in [("expired", 100.0), ("first", 280.0), ("second", 280.0)] {
        let request = desk.request(name, ["a", "b"], size, deadline);
        assert_eq!(desk.calendar.submit(seconds(1.0), request), Ok(Decision::Waiting));
    }
    let twice = desk.request("first", ["a", "b"], size, 280.0);
    let refused = desk.calendar.submit(seconds(1.0), twice);
    assert_eq!(refused, Err(CalendarError::DuplicateFlow { flow: id("first") }));
    let withdrawn = desk.request("withdrawn", ["a", "b"], size, 280.0);
    assert_eq!(desk.calendar.submit(seconds(2.0), withdrawn), Ok(Decision::Waiting));
    desk.calendar.cancel(seconds(3.0), &id("withdrawn")).unwrap();
    let mut restored = Calibers::restore(&desk.calendar.snapshot()).unwrap();

    assert_eq!(desk.calendar.next_epoch(), seconds(180.0));
    let epoch = desk.calendar.epoch(seconds(180.0)).unwrap();
    assert_eq!(restored.epoch(seconds(180.0)).unwrap(), epoch);
    let [(_, expired), (_, first), (_, second)] = &epoch.decisions[..] else {
        panic!("{:?}", epoch.decisions)
    };
    let passed = Reason::DeadlinePassed { deadline: seconds(100.0) };
    assert!(matches!(expired, Decision::Refused(Refused { reason, .. }) if *reason == passed));
    assert!(matches!(first, Decision::Accepted(Accepted { rate, .. }) if *rate == mbit(80)));
    // 20 Mbit/s are left, which move 1 GB in 400 s.
    let Decision::Refused(refused) = second else { panic!("{second:?}") };
    assert_eq!(refused.earliest_deadline, Some(seconds(580.0)));
    assert_eq!(desk.calendar.next_epoch(), seconds(360.0));
}

#[test]
fn a_request_beyond_its_own_limit_is_told_what_its_limit_allows() {
    let mut desk = Desk::simulated(&row(&[mbit(500)]), "global-sjf");
    let request = desk.request("slow", ["a", "b"], volume(mbit(100), 100.0), 50.0);
    let refused = desk.refuse(0.0, Request { rate_max: mbit(100), ..request });
    let reason = Reason::RateLimit { needed: mbit(200), limit: mbit(100) };
    assert_eq!(refused, Refused { reason, earliest_deadline: Some(seconds(100.0)) });
}

/// Nothing is free and nobody can spare anything.
#[test]
fn where_nothing_can_be_had_there_is_no_earliest_deadline() {
    let mut desk = Desk::simulated(&row(&[mbit(100)]), "fixed");
    let whole = desk.request("whole", ["a", "b"], volume(mbit(100), 100.0), 100.0);
    desk.accept(0.0, whole);
    let more = desk.request("more", ["a", "b"], Bytes::new(1), 1e6);
    assert_eq!(desk.refuse(0.0, more).earliest_deadline, None);
}

/// A flow reported behind takes what a loose one can spare, and no more than there is.
#[test]
fn a_flow_that_lags_is_helped_by_those_with_slack_and_named_when_that_is_too_little() {
    let mut desk = Desk::live(&row(&[mbit(100)]), "local-ljf");
    let steady = desk.request("steady", ["a", "b"], volume(mbit(40), 100.0), 100.0);
    assert_eq!(desk.accept(0.0, Request { rate_max: mbit(40), ..steady }).rate, mbit(40));
    let loose = desk.request("loose", ["a", "b"], volume(mbit(20), 1000.0), 1000.0);
    assert_eq!(desk.accept(0.0, loose).rate, mbit(60));
    // By the model 2 000 Mbit are left at 50 s; really 2 500, which need 50 Mbit/s; its end points
    // allow 40.
    let changes = desk.calendar.progress(seconds(50.0), &id("steady"), volume(mbit(25), 100.0));
    assert_eq!(changes, Ok(vec![]));
    assert_eq!(desk.state("steady"), FlowState::AtRisk);

    let mut desk = Desk::live(&row(&[mbit(100)]), "local-ljf");
    let loose = desk.request("loose", ["a", "b"], volume(mbit(20), 1000.0), 1000.0);
    assert_eq!(desk.accept(0.0, Request { rate_max: mbit(60), ..loose }).rate, mbit(60));
    let steady = desk.request("steady", ["a", "b"], volume(mbit(40), 100.0), 100.0);
    assert_eq!(desk.accept(0.0, steady).rate, mbit(40));
    // `loose` has 17 000 Mbit left for 950 s and keeps 17.9 Mbit/s; the rest goes to `steady`.
    let changes = desk.calendar.progress(seconds(50.0), &id("steady"), volume(mbit(25), 100.0));
    let changes = changes.unwrap();
    assert_eq!(changes.len(), 2);
    assert_eq!(changes[0].flow, id("loose"));
    let minimum = Rate::needed(volume(mbit(17), 1000.0), seconds(950.0)).unwrap();
    assert_eq!(changes[0].rate, minimum);
    assert_eq!(changes[1], change(id("steady"), mbit(100) - minimum));
    assert_eq!(desk.state("steady"), FlowState::OnTime);

    // 9 000 Mbit in 10 s are beyond the link; it keeps all there is and the other its deadline.
    let changes = desk.calendar.progress(seconds(90.0), &id("steady"), volume(mbit(40), 100.0));
    assert!(changes.unwrap().iter().all(|change| change.flow != id("loose")));
    assert_eq!(desk.state("steady"), FlowState::AtRisk);
    assert_eq!(desk.state("loose"), FlowState::OnTime);
    desk.calendar.progress(seconds(120.0), &id("steady"), volume(mbit(20), 100.0)).unwrap();
    assert_eq!(desk.state("steady"), FlowState::Late);
}

/// What was thought to have moved has not: the flow keeps its share until someone says that it is
/// over, even past the time at which the model has it done.
#[test]
fn a_live_flow_ends_when_it_is_reported_and_not_before() {
    let mut desk = Desk::live(&row(&[mbit(100)]), "global-ljf");
    let only = desk.request("only", ["a", "b"], volume(mbit(100), 100.0), 150.0);
    desk.accept(0.0, only);
    assert_eq!(desk.calendar.advance(seconds(120.0)), Ok(vec![]));
    assert_eq!(desk.state("only"), FlowState::Finishing);
    let other = desk.request("other", ["a", "b"], Bytes::new(1_000_000), 1000.0);
    let refused = desk.refuse(120.0, other.clone());
    assert_eq!(refused.earliest_deadline, None);
    desk.calendar.epoch(seconds(180.0)).unwrap();
    assert_eq!((desk.rate("only"), desk.state("only")), (mbit(100), FlowState::Late));
    assert_eq!(desk.calendar.complete(seconds(181.0), &id("only")), Ok(vec![]));
    assert_eq!(desk.accept(181.0, other).rate, mbit(100));
}

#[test]
fn a_flow_that_is_ahead_makes_room() {
    let mut desk = Desk::live(&row(&[mbit(100)]), "global-ljf");
    let ahead = desk.request("ahead", ["a", "b"], volume(mbit(100), 100.0), 100.0);
    desk.accept(0.0, ahead);
    let other = desk.request("other", ["a", "b"], volume(mbit(20), 50.0), 100.0);
    let refused = desk.refuse(50.0, other.clone());
    assert!(matches!(refused.reason, Reason::Link { available: Rate::ZERO, .. }));
    desk.calendar.progress(seconds(50.0), &id("ahead"), volume(mbit(40), 100.0)).unwrap();
    let accepted = desk.accept(50.0, other);
    assert_eq!(accepted.changes, [change(id("ahead"), mbit(80))]);
    assert_eq!(accepted.rate, mbit(20));
}

#[test]
fn a_snapshot_that_contradicts_itself_is_refused_with_the_place() {
    let mut desk = Desk::live(&row(&[mbit(100), mbit(50)]), "global-ljf");
    let flow = desk.request("x", ["a", "c"], volume(mbit(10), 100.0), 100.0);
    desk.accept(1.0, flow);
    let text = desk.calendar.snapshot();
    for (from, to, part) in [
        ("\"version\":1", "\"version\":2", "version 2"),
        ("\"rate_bps\":50000000", "\"rate_bps\":50000001", "flows[0].rate_bps: a link"),
        ("\"rate_bps\":50000000", "\"rate_bps\":0", "flows[0].rate_bps: zero"),
        ("\"rate_bps\":50000000", "\"rate_bps\":-3", "flows[0].rate_bps"),
        ("\"remaining_bytes\":125", "\"remaining_bytes\":925", "flows[0].remaining_bytes"),
        ("\"as_of_ns\":1000000000", "\"as_of_ns\":1000000001", "flows[0].as_of_ns"),
        ("[\"a-b\",\"b-c\"]", "[\"b-c\",\"a-b\"]", "flows[0]: link \"a-b\" does not start"),
        ("[\"a-b\",\"b-c\"]", "[\"a-z\"]", "\"a-z\" is not a link"),
        ("\"next_sequence\":1", "\"next_sequence\":0", "next_sequence"),
        ("\"next_sequence\":1", "\"next_sequence\":18446744073709551615", "next_sequence"),
        ("global-ljf", "round-robin", "policy"),
        ("\"epoch_ns\":180000000000", "\"epoch_ns\":0", "epoch is 0"),
        ("\"clock_ns\"", "\"clock_s\"", "clock_s"),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        let message = Calibers::restore(&text.replace(from, to)).unwrap_err().to_string();
        assert!(message.contains(part), "{to}: {message}");
    }
}
