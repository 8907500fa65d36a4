//! The deadline policies: the worked example of work 002, and what must hold on random input.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

#[path = "support/deadline.rs"]
mod support;

use proptest::prelude::*;
use support::{Checked, Rng, batch, cases, exhaustive, flows_of, instance, on_time};
use weir_schedule::deadline::model::slots;
use weir_schedule::deadline::optimal::MooreHodgson;
use weir_schedule::deadline::{Decision, Flow, Kind, Peq, Place, Policy, Refused};
use weir_units::Time;

/// Size and deadline of f1 to f4 (work 002, section 1.4, figure 1.15).
const WORKED: [(u64, u64); 4] = [(10, 23), (13, 15), (4, 26), (3, 25)];

#[test]
fn the_worked_example_ends_as_printed() {
    let f = |end| Some(end);
    let ends = |kind: Kind| batch(kind.build(1).as_mut(), &WORKED);
    // f2 ends at 13 and f1 at 23; f4 and f3 are then hopeless.
    for kind in [Kind::Edf, Kind::Pdq] {
        assert_eq!(ends(kind), [f(23), f(13), None, None], "{kind}");
    }
    // f4, f3, f1 in that order; f2 finds no place.
    for kind in [Kind::Peq, Kind::PeqListing, Kind::PeqRetries] {
        assert_eq!(ends(kind), [f(17), None, f(7), f(3)], "{kind}");
    }
    for kind in [Kind::Weir, Kind::WeirFirm] {
        assert_eq!(ends(kind).iter().flatten().count(), 3, "{kind}");
    }
    let flows = flows_of(&WORKED);
    assert_eq!(exhaustive(Time::ZERO, &flows), 3);
    assert_eq!(MooreHodgson::default().select(Time::ZERO, &flows).count(), 3);
}

#[test]
fn peq_loses_what_it_never_reorders_and_weir_does_not() {
    // Specification 4.1.9: the queue [a, b] has no place for c, though b, c, a is feasible.
    let flows = [(2, 100), (5, 10), (6, 11)];
    assert_eq!(on_time(Kind::Peq, &flows), 2);
    assert_eq!(on_time(Kind::Weir, &flows), 3);
}

#[test]
fn prose_and_listing_of_peq_insert_at_different_places() {
    // Both queued flows can bear the third, which is on time at either place: the prose puts it
    // ahead of the second, the listing ahead of both.
    let flows = flows_of(&[(2, 100), (3, 100), (4, 6)]);
    let head = |place| {
        let mut decision = Decision::default();
        Peq::new(place, Refused::Discarded).decide(Time::ZERO, slots(1), &flows, &mut decision);
        decision.service
    };
    assert_eq!(head(Place::RearMost), [(0, slots(1))]);
    assert_eq!(head(Place::FrontMost), [(2, slots(1))]);
}

/// 10^5 batches of up to 10 flows, tight and loose: three ways to the optimum agree, Weir reaches
/// it when it serves, and nobody goes beyond.
#[test]
fn a_batch_is_served_optimally() {
    let mut random = Rng::new(0xB47C);
    let mut largest = MooreHodgson::default();
    for number in 0..cases(100_000) {
        let jobs = instance(&mut random, 10);
        let flows = flows_of(&jobs);
        let best = exhaustive(Time::ZERO, &flows) as usize;
        assert_eq!(largest.select(Time::ZERO, &flows).count(), best, "{jobs:?}");
        assert_eq!(on_time(Kind::Weir, &jobs), best, "{jobs:?}");
        assert_eq!(on_time(Kind::WeirFirm, &jobs), best, "{jobs:?}");
        let others = [Kind::Peq, Kind::PeqListing, Kind::PeqRetries, Kind::Pdq];
        for kind in others {
            let served = on_time(kind, &jobs);
            assert!(served <= best, "{kind} {jobs:?}");
            // Jackson: if all can be on time, the earliest deadline first makes them so.
            assert!(kind != Kind::Pdq || best < jobs.len() || served == best, "{jobs:?}");
        }
        if number % 10 == 0 {
            for kind in [Kind::Fair, Kind::D3, Kind::D3Stateful, Kind::Lst, Kind::Sjf] {
                assert!(on_time(kind, &jobs) <= best, "{kind} {jobs:?}");
            }
        }
    }
}

/// Nobody serves more than who knows the future; Weir, who does not, is near. When all flows come
/// at once, knowing the future is no help.
#[test]
fn weir_is_within_two_percent_of_the_clairvoyant_optimum() {
    let mut random = Rng::new(0xC1A1);
    let mut sums = [0, 0, 0, 0];
    for _ in 0..cases(2_000) {
        let jobs = instance(&mut random, 10);
        assert_eq!(
            support::clairvoyant(&flows_of(&jobs)),
            exhaustive(Time::ZERO, &flows_of(&jobs))
        );
        let spread = 1 + random.below(100);
        let trace: Vec<_> = jobs
            .into_iter()
            .map(|(size, due)| (random.below(spread), 4 * size, due - size))
            .collect();
        let best = support::clairvoyant(&support::arriving(&trace)) as usize;
        sums[3] += best;
        for (sum, kind) in sums.iter_mut().zip([Kind::Weir, Kind::Peq, Kind::Pdq]) {
            let ends = support::run(kind.build(1).as_mut(), &trace);
            let served = ends.iter().flatten().count();
            assert!(served <= best, "{kind} {trace:?}");
            *sum += served;
        }
    }
    let [weir, peq, pdq, best] = sums;
    println!("of {best}: weir {weir}, peq {peq}, pdq {pdq}");
    assert!(weir >= peq && weir >= pdq && weir as f64 > 0.98 * best as f64);
}

/// The H of the publication orders feasible flows exactly by (tau, -D) (specification, section 3).
#[test]
fn the_published_priority_is_shortest_first() {
    let mut random = Rng::new(7);
    for _ in 0..cases(100_000) {
        let mut feasible = || {
            let remaining = 1 + random.below(200);
            (remaining, remaining + random.below(400))
        };
        let (a, b) = (feasible(), feasible());
        // 0.6 tau + 0.4 tau / D, times 5 D_a D_b: whole numbers.
        let h = |(tau, due): (u64, u64), other: u64| (3 * tau * due + 2 * tau) * other;
        let published = h(a, b.1).cmp(&h(b, a.1));
        assert_eq!(published, (a.0, u64::MAX - a.1).cmp(&(b.0, u64::MAX - b.1)), "{a:?} {b:?}");
    }
}

/// Without newcomers every flow that PEQ queues at the start ends on time (observed by the
/// specification, not proved), and so does whatever Weir selects.
#[test]
fn a_flow_once_queued_ends_on_time_if_nobody_comes() {
    let mut random = Rng::new(0x9E0);
    for _ in 0..cases(20_000) {
        let jobs = instance(&mut random, 14);
        let flows = flows_of(&jobs);
        let mut decision = Decision::default();
        Peq::default().decide(Time::ZERO, slots(1), &flows, &mut decision);
        let queued = flows.len() - decision.discarded.len();
        assert_eq!(on_time(Kind::Peq, &jobs), queued, "{jobs:?}");
    }
}

fn traces() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let flow = (0_u64..120, 1_u64..30, 0_u64..60);
    prop::collection::vec(flow, 1..40)
}

proptest! {
    #![proptest_config(support::config(4096))]

    /// Every decision of every policy on every trace is checked by [`Checked`]: shares fit the
    /// slot and their flows, nobody is served and given up at once, and the same flows in another
    /// order get the same.
    #[test]
    fn no_policy_gives_more_than_the_link_and_order_changes_nothing(trace in traces()) {
        for kind in Kind::ALL {
            let mut checked = Checked::new(kind);
            support::run(&mut checked, &trace);
        }
    }

    /// A decision that says how long it holds is the one that would have been taken in each slot.
    #[test]
    fn passing_slots_at_once_changes_nothing(trace in traces()) {
        for kind in Kind::ALL {
            let whole = support::run(kind.build(1).as_mut(), &trace);
            let slot_by_slot = support::run(&mut support::EverySlot(kind.build(1)), &trace);
            prop_assert_eq!(whole, slot_by_slot, "{}", kind);
        }
    }

    /// A promise is kept, whoever comes later.
    #[test]
    fn a_promised_flow_is_never_late(trace in traces()) {
        let mut firm = support::Promises::default();
        let ends = support::run(&mut firm, &trace);
        for (index, end) in ends.iter().enumerate() {
            let promised = !firm.refused.contains(&(index as u32));
            prop_assert_eq!(promised, end.is_some(), "flow {}", index);
        }
    }

    /// Work conservation: whoever serves whole slots leaves none empty while somebody could use
    /// it; if all can be on time, the earliest deadline and the least slack make all on time.
    #[test]
    fn what_can_be_on_time_together_is(trace in traces()) {
        let edf = support::run(Kind::Edf.build(1).as_mut(), &trace);
        if edf.iter().all(Option::is_some) {
            for kind in [Kind::Pdq, Kind::Lst, Kind::Weir, Kind::WeirFirm] {
                let ends = support::run(kind.build(1).as_mut(), &trace);
                prop_assert!(ends.iter().all(Option::is_some), "{}", kind);
            }
        }
    }
}

#[test]
fn an_unknown_policy_is_named_with_those_there_are() {
    let error = "cfq".parse::<Kind>().unwrap_err().to_string();
    assert!(error.contains("cfq") && error.contains("weir-firm"), "{error}");
    for kind in Kind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
}

#[test]
fn nobody_there_means_nobody_served() {
    for kind in Kind::ALL {
        let mut decision = Decision::default();
        kind.build(1).decide(Time::ZERO, slots(1), &[] as &[Flow], &mut decision);
        assert!(decision.service.is_empty() && decision.discarded.is_empty(), "{kind}");
    }
}
