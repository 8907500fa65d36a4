//! Random flows, and policies that watch another one.

#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use std::collections::BTreeSet;

use proptest::prelude::ProptestConfig;
use weir_schedule::deadline::model::{EarlyTermination, Link, NewFlow, Trace, slots};
use weir_schedule::deadline::{Decision, Flow, Kind, Policy, WeirFirm};
use weir_units::Time;

/// `quick`, or ten times as many with WEIR_LONG_TESTS.
pub fn cases(quick: usize) -> usize {
    if std::env::var_os("WEIR_LONG_TESTS").is_some() { 10 * quick } else { quick }
}

/// The same for a property.
pub fn config(quick: u32) -> ProptestConfig {
    let cases = u32::try_from(cases(quick as usize)).unwrap_or(quick);
    ProptestConfig { cases, failure_persistence: None, ..Default::default() }
}

/// xorshift64*, so that the tests' draws are not those of the code under test.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }
}

/// Sizes and relative deadlines of a batch of up to `most` flows, of random tightness; few values,
/// so that ties are common.
pub fn instance(random: &mut Rng, most: u64) -> Vec<(u64, u64)> {
    let (count, longest, loosest) =
        (1 + random.below(most), 1 + random.below(30), 1 + random.below(120));
    (0..count)
        .map(|_| {
            let size = 1 + random.below(longest);
            (size, size + random.below(loosest))
        })
        .collect()
}

/// The same as flows that are all there at the origin.
pub fn flows_of(jobs: &[(u64, u64)]) -> Vec<Flow> {
    let flow = |(id, &(size, deadline)): (usize, &(u64, u64))| Flow {
        id: id as u64,
        source: id as u32,
        arrival: Time::ZERO,
        deadline: slots(deadline),
        remaining: slots(size),
        first_served: None,
    };
    jobs.iter().enumerate().map(flow).collect()
}

/// Flows of (arrival, size, cushion).
pub fn arriving(trace: &[(u64, u64, u64)]) -> Vec<Flow> {
    let jobs: Vec<_> =
        trace.iter().map(|&(at, size, cushion)| (size, at + size + cushion)).collect();
    let mut flows = flows_of(&jobs);
    flows.iter_mut().zip(trace).for_each(|(flow, &(at, ..))| flow.arrival = slots(at));
    flows
}

/// The slot in which each flow of a batch ends on time.
pub fn batch(policy: &mut dyn Policy, jobs: &[(u64, u64)]) -> Vec<Option<u64>> {
    let trace: Vec<_> = jobs.iter().map(|&(size, deadline)| (0, size, deadline - size)).collect();
    run(policy, &trace)
}

pub fn on_time(kind: Kind, jobs: &[(u64, u64)]) -> usize {
    batch(kind.build(1).as_mut(), jobs).iter().flatten().count()
}

/// Runs flows of (arrival, size, cushion); the slot in which each ends on time.
pub fn run(policy: &mut dyn Policy, trace: &[(u64, u64, u64)]) -> Vec<Option<u64>> {
    let flow = |(server, &(at, size, cushion)): (usize, &(u64, u64, u64))| {
        let server = server as u32;
        (at, NewFlow { server, size_slots: size, deadline_slot: at + size + cushion })
    };
    let flows: Vec<_> = trace.iter().enumerate().map(flow).collect();
    let mut source = Trace::new(&flows).unwrap();
    let report = Link::new(policy, &mut source, EarlyTermination::Hopeless).run(1 << 30);
    let ends = source.ends();
    assert_eq!(report.generated, trace.len() as u64);
    assert_eq!(report.missed + report.on_time, report.generated);
    let sent: u64 = trace.iter().zip(ends).filter_map(|(flow, end)| end.map(|_| flow.1)).sum();
    assert!(report.sent >= slots(sent) && report.sent <= slots(report.slots));
    assert_eq!(ends.iter().flatten().count() as u64, report.on_time);
    for (end, (_, flow)) in ends.iter().zip(&flows) {
        assert!(end.is_none_or(|end| end <= flow.deadline_slot));
    }
    ends.to_vec()
}

/// Asks again in every slot, whatever the policy says about how long its decision holds.
pub struct EverySlot(pub Box<dyn Policy>);

impl Policy for EverySlot {
    fn decide(&mut self, now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        self.0.decide(now, slot, flows, decision);
        decision.holds = slot;
    }
}

/// Checks each decision against the link, the flows and the decision on the same flows in another
/// order.
pub struct Checked {
    kind: Kind,
    policy: Box<dyn Policy>,
    twin: Box<dyn Policy>,
    random: Rng,
}

impl Checked {
    pub fn new(kind: Kind) -> Self {
        Self { kind, policy: kind.build(1), twin: kind.build(1), random: Rng::new(3) }
    }
}

impl Policy for Checked {
    fn decide(&mut self, now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        self.policy.decide(now, slot, flows, decision);
        let mut total = Time::ZERO;
        for &(index, share) in &decision.service {
            assert!(share > Time::ZERO && share <= flows[index].remaining, "{}", self.kind);
            assert!(!decision.discarded.contains(&index), "{}", self.kind);
            total += share;
        }
        assert!(total <= slot, "{} gives {total} of {slot}", self.kind);
        let mut shuffled = flows.to_vec();
        for last in (1..shuffled.len()).rev() {
            shuffled.swap(last, self.random.below(last as u64 + 1) as usize);
        }
        let mut other = Decision::default();
        self.twin.decide(now, slot, &shuffled, &mut other);
        assert_eq!(named(decision, flows), named(&other, &shuffled), "{}", self.kind);
        assert_eq!(decision.holds, other.holds, "{}", self.kind);
        decision.holds = slot;
    }
}

/// The same decision with flows by their identifiers.
fn named(decision: &Decision, flows: &[Flow]) -> (Vec<(u64, Time)>, BTreeSet<u64>) {
    let mut service: Vec<_> =
        decision.service.iter().map(|(index, share)| (flows[*index].id, *share)).collect();
    service.sort_unstable();
    (service, decision.discarded.iter().map(|index| flows[*index].id).collect())
}

/// Keeps note of the servers whose flows the firm policy refuses.
#[derive(Default)]
pub struct Promises {
    policy: WeirFirm,
    pub refused: BTreeSet<u32>,
}

impl Policy for Promises {
    fn decide(&mut self, now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        self.policy.decide(now, slot, flows, decision);
        self.refused.extend(decision.discarded.iter().map(|index| flows[*index].source));
    }
}

/// The largest number of flows that can be on time, by trying all sets (work 002, section 3.3);
/// few enough for that.
pub fn exhaustive(now: Time, flows: &[Flow]) -> u32 {
    let mut sorted: Vec<(Time, Time)> = flows.iter().map(|f| (f.deadline, f.remaining)).collect();
    sorted.sort_unstable();
    let on_time = |set: u32| {
        let mut end = now;
        sorted.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).all(|(_, job)| {
            end = end.saturating_add(job.1);
            end <= job.0
        })
    };
    (0..1_u32 << sorted.len()).filter(|set| on_time(*set)).map(u32::count_ones).max().unwrap_or(0)
}

/// The largest number of flows that can be on time for one who knows all arrivals beforehand and
/// may interrupt any flow, by trying all sets. Nothing of them has been sent yet.
///
/// A set can be on time if between every arrival and every deadline there is room for the flows
/// that lie between them (Horn 1974).
pub fn clairvoyant(flows: &[Flow]) -> u32 {
    let chosen = |set: u32| {
        flows.iter().enumerate().filter(move |(i, _)| set >> i & 1 == 1).map(|(_, flow)| flow)
    };
    let room = |set: u32, from: Time, to: Time| {
        let between = chosen(set).filter(|flow| flow.arrival >= from && flow.deadline <= to);
        let work = between.fold(Time::ZERO, |sum, flow| sum.saturating_add(flow.remaining));
        work <= to.saturating_sub(from)
    };
    let on_time = |set: u32| {
        chosen(set).all(|first| chosen(set).all(|last| room(set, first.arrival, last.deadline)))
    };
    (0..1_u32 << flows.len()).filter(|set| on_time(*set)).map(u32::count_ones).max().unwrap_or(0)
}
