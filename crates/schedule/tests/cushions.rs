//! What is reserved on top of promises gives way to new ones: on one link, whose capacity changes
//! and where reports come late, a request is refused only if no schedule serves all. What the
//! calendar itself proposes leaves it as it is.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use std::sync::Arc;

use proptest::prelude::*;
use weir_schedule::calendar::{
    Calendar, CapacityPiece, Decision, FlowId, FlowState, Request, Terms, Weir, WeirOptions, Worth,
};
use weir_topology::Network;
use weir_units::{Bytes, Rate, Time};

const SECOND: u64 = 1_000_000_000;
/// One byte in nanobits.
const BYTE: u128 = 8_000_000_000;
/// What is reserved beyond what remains, since clocks differ, in nanobits.
const UNREPORTED: u128 = 1000 * BYTE;
/// In bit/s: a megabyte takes a second.
const FULL: u64 = 8_000_000;

fn network(links: &[(&str, &str)]) -> Arc<Network> {
    let mut builder = Network::builder();
    for node in ["a", "b", "c"] {
        builder.node(node).unwrap();
    }
    for (from, to) in links {
        let full = Rate::from_bit_per_s(FULL);
        builder.link(&format!("{from}{to}"), from, to, full, Time::ZERO).unwrap();
    }
    Arc::new(builder.build())
}

fn calendar(network: &Arc<Network>, paths: usize, worth: Worth) -> Weir {
    let epoch = Time::from_ms(10_000);
    let options = WeirOptions { paths, epoch, worth, hold: Time::ZERO, measured: true };
    Weir::new(Arc::clone(network), options).unwrap()
}

fn asked(network: &Network, name: &str, size: u64, start: u64, deadline: u64) -> Request {
    Request {
        id: FlowId::new(name),
        source: network.node("a").unwrap(),
        destination: network.node("b").unwrap(),
        size: Bytes::new(size),
        deadline: Time::from_ns(deadline),
        rate_max: Rate::MAX,
        terms: Terms { start: Time::from_ns(start), paths: 2, ..Terms::default() },
    }
}

/// What has to be sent between two times.
#[derive(Clone, Debug)]
struct Job {
    start: u64,
    deadline: u64,
    left: u128,
}

/// What a link carries outside of pieces, and in each: from when, until when, in bit/s.
type Carries = (u64, Vec<(u64, u64, u64)>);

fn volume((outside, pieces): &Carries, from: u64, until: u64) -> u128 {
    let all = u128::from(*outside) * u128::from(until - from);
    pieces.iter().fold(all, |sum, (start, end, rate)| {
        let span = u128::from((*end).min(until).saturating_sub((*start).max(from)));
        sum + span * u128::from(*rate) - span * u128::from(*outside)
    })
}

/// Whether a schedule serves them all: by maximum flow and minimum cut, on one link exactly if in
/// no interval more has to be sent than it carries.
fn fits(jobs: &[Job], carries: &Carries) -> bool {
    jobs.iter().all(|first| {
        jobs.iter().filter(|last| last.deadline > first.start).all(|last| {
            let within = |job: &&Job| job.start >= first.start && job.deadline <= last.deadline;
            let due: u128 = jobs.iter().filter(within).map(|job| job.left).sum();
            due <= volume(carries, first.start, last.deadline)
        })
    })
}

/// A request: its size in bytes, when it starts and how long it has, in tenths of a second; the
/// time until it is asked, and the part of one that is reported as moved before, in thousandths.
type Asked = (u64, u64, u64, u64, u64);

fn requests() -> impl Strategy<Value = Vec<Asked>> {
    let starts = prop_oneof![3 => Just(0_u64), 1 => 0_u64..100];
    let request = (1_u64..6_000_000, starts, 1_u64..200, 0_u64..10, 0_u64..1000);
    prop::collection::vec(request, 1..25)
}

/// The calendar's promises: those that were admitted, as they were last reported.
struct World {
    calendar: Weir,
    jobs: Vec<(FlowId, Job)>,
    now: u64,
}

impl World {
    /// What was reported as moved leaves the link; the plan knows more only by its model.
    fn report(&mut self, which: u64, part: u64) {
        let count = self.jobs.len().max(1);
        let Some((id, job)) = self.jobs.get_mut(which as usize % count) else { return };
        if job.start > self.now {
            return;
        }
        let view = self.calendar.flow_view(id).unwrap();
        let left = view.remaining.count().saturating_sub(1);
        let left = left - left * part / 4000;
        self.calendar.progress(Time::from_ns(self.now), id, Bytes::new(left)).unwrap();
        job.left = u128::from(left) * BYTE;
    }

    /// Promises that are due from now on.
    fn due(&self) -> Vec<Job> {
        let all = self.jobs.iter().map(|(_, job)| Job { start: job.start.max(self.now), ..*job });
        all.filter(|job| job.left > 0).collect()
    }
}

impl World {
    /// Everybody is reported as the model has it, at one time, and who has it all is gone.
    fn report_all(&mut self) {
        let now = Time::from_ns(self.now);
        for (id, job) in &mut self.jobs {
            // Rounded down: nobody is made to fall behind.
            let left = self.calendar.flow_view(id).unwrap().remaining.count().saturating_sub(1);
            self.calendar.progress(now, id, Bytes::new(left)).unwrap();
            job.left = u128::from(left) * BYTE;
        }
        for (id, _) in self.jobs.extract_if(.., |(_, job)| job.left == 0) {
            self.calendar.complete(now, &id).unwrap();
        }
    }

    fn pass(&mut self, span: u64) {
        let until = self.now + span;
        loop {
            let next = self.calendar.next_epoch().as_ns().max(self.now);
            if next > until {
                break;
            }
            self.now = next.max(self.now + 1);
            self.calendar.epoch(Time::from_ns(self.now)).unwrap();
        }
        self.now = self.now.max(until);
        self.calendar.epoch(Time::from_ns(self.now)).unwrap();
    }
}

fn cases(count: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").map_or(count, |cases| cases.parse().unwrap());
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn on_one_link_only_what_does_not_fit_is_refused_and_all_promises_hold(
        requests in requests(),
        outside in 1_u64..9,
        rate in 0_u64..9,
        (from, lasts) in (1_u64..150, 1_u64..60),
    ) {
        let network = network(&[("a", "b")]);
        let calendar = calendar(&network, 1, Worth::Anything);
        let mut world = World { calendar, jobs: Vec::new(), now: 0 };
        let tenth = SECOND / 10;
        let (from, until) = (from * tenth, (from + lasts) * tenth);
        let carries: Carries = (outside * 1_000_000, vec![(from, until, rate * 1_000_000)]);
        let time = Time::from_ns;
        let rate = Rate::from_mbit_per_s(rate);
        let piece = CapacityPiece { from: time(from), to: time(until), rate };
        let link = network.link_named("ab").unwrap();
        let outside = Rate::from_mbit_per_s(outside);
        world.calendar.set_capacity(Time::ZERO, link, &[piece], outside).unwrap();
        for (number, (size, ahead, span, wait, part)) in requests.into_iter().enumerate() {
            world.pass(wait * tenth);
            world.report_all();
            let start = world.now + ahead * tenth;
            let name = number.to_string();
            let asked = asked(&network, &name, size, start, start + span * tenth);
            let deadline = asked.deadline.as_ns();
            let job = Job { start, deadline, left: u128::from(size) * BYTE };
            let mut all = world.due();
            all.push(job.clone());
            let mut more = all.clone();
            more.iter_mut().for_each(|job| job.left += UNREPORTED);
            match world.calendar.submit(time(world.now), asked.clone()).unwrap() {
                Decision::Accepted(_) => {
                    prop_assert!(fits(&all, &carries), "promised what cannot be: {:?}", all);
                    world.jobs.push((asked.id, job));
                }
                Decision::Refused(refused) => {
                    prop_assert!(!fits(&more, &carries), "refused at {}: {:?}", world.now, all);
                    let told = refused.earliest_deadline;
                    if let Some(deadline) = told.filter(|_| part % 2 == 0) {
                        let again = Request { deadline, ..asked };
                        let said = world.calendar.submit(time(world.now), again.clone()).unwrap();
                        prop_assert!(matches!(said, Decision::Accepted(_)), "{:?}", said);
                        let deadline = deadline.as_ns();
                        world.jobs.push((again.id, Job { deadline, ..job }));
                    }
                }
                Decision::Waiting => panic!("decided on arrival"),
            }
            world.calendar.flows().iter().for_each(|flow| {
                assert!(matches!(flow.state, FlowState::OnTime | FlowState::Finishing), "{flow:?}");
            });
            world.report(part, part);
        }
        // All do as told to the end: nobody was promised what could not be.
        while let Some(last) = world.jobs.iter().map(|(_, job)| job.deadline).min() {
            world.pass(last.saturating_sub(world.now));
            for (id, _) in world.jobs.extract_if(.., |(_, job)| job.deadline <= last) {
                let view = world.calendar.flow_view(&id).unwrap();
                prop_assert_eq!(view.remaining, Bytes::ZERO);
                world.calendar.complete(time(world.now), &id).unwrap();
            }
            world.report_all();
        }
    }
}

/// Nothing was moved of the first one in 0.3 s of a hundred: it is on time still.
fn first_begins_late(calendar: &mut Weir) {
    let (now, first) = (Time::from_ms(300), FlowId::new("first"));
    let size = calendar.flow_view(&first).unwrap().size;
    calendar.progress(now, &first, size).unwrap();
    assert_eq!(calendar.flow_view(&first).unwrap().state, FlowState::OnTime);
}

/// Two megabytes in all, with a cushion of the first one's in the way of the second.
#[test]
fn over_two_paths_and_for_both_policies_a_cushion_is_in_nobodys_way() {
    for worth in [Worth::Anything, Worth::Request] {
        for links in [&[("a", "b")][..], &[("a", "b"), ("a", "c"), ("c", "b")]] {
            let network = network(links);
            let mut calendar = calendar(&network, 2, worth);
            let paths = if links.len() > 1 { 2 } else { 1 };
            let all = paths * 100_000_000;
            let first = asked(&network, "first", all / 2, 0, 100 * SECOND);
            let said = calendar.submit(Time::ZERO, first).unwrap();
            assert!(matches!(said, Decision::Accepted(_)), "{said:?}");
            // What is left beside it and what clocks differ by.
            let rest = all / 2 - 3000;
            let second = asked(&network, "second", rest, 0, 100 * SECOND);
            let before = calendar.precheck(Time::ZERO, second.clone(), None).unwrap();
            assert!(matches!(before, Decision::Accepted(_)), "{worth:?} {before:?}");
            let more = asked(&network, "more", rest + 10_000, 0, 100 * SECOND);
            let offer = Request { id: FlowId::new("offer"), ..more.clone() };
            let told = calendar.clone().offer(Time::ZERO, offer).unwrap().unwrap();
            // The first one's cushion is a 128th of its half.
            let beside = Time::from_ms(100_350)..Time::from_ms(100_420);
            assert!(beside.contains(&told), "{worth:?} {told}");
            let mut other = calendar.clone();
            let Decision::Refused(refused) = other.submit(Time::ZERO, more.clone()).unwrap() else {
                panic!("more than fits");
            };
            let deadline = refused.earliest_deadline.unwrap();
            assert!(beside.contains(&deadline), "{worth:?} {deadline}");
            let again = Request { deadline, ..more.clone() };
            let said = other.submit(Time::ZERO, again).unwrap();
            assert!(matches!(said, Decision::Accepted(_)), "{said:?}");
            first_begins_late(&mut other);
            // Where a part is enough, it is all that fits beside cushions.
            let terms = Terms { least: Some(Bytes::new(1)), ..more.terms };
            let part = Request { terms, ..more.clone() };
            let mut other = calendar.clone();
            let Decision::Accepted(said) = other.submit(Time::ZERO, part).unwrap() else {
                panic!("a part fits")
            };
            let beside = rest - all / 2 / 128;
            let near = Bytes::new(beside - 10_000)..Bytes::new(beside + 10_000);
            assert!(near.contains(&said.size), "{worth:?} {:?}", said.size);
            first_begins_late(&mut other);
            // If no less than all that fits is enough, that is promised.
            let terms = Terms { least: Some(Bytes::new(rest - 10_000)), ..more.terms };
            let said = calendar.clone().submit(Time::ZERO, Request { terms, ..more }).unwrap();
            assert!(matches!(said, Decision::Accepted(_)), "{said:?}");
            let said = calendar.submit(Time::ZERO, second).unwrap();
            assert!(matches!(said, Decision::Accepted(_)), "{said:?}");
            // Room that comes free again is reserved on top again.
            let snapshot = |calendar: &Weir| calendar.snapshot();
            let tight = snapshot(&calendar);
            calendar.cancel(Time::ZERO, &FlowId::new("second")).unwrap();
            assert_ne!(snapshot(&calendar), tight);
            let third = asked(&network, "third", all / 2 - 3000, 0, 100 * SECOND);
            let mut strict = calendar.clone();
            let said = strict.submit(Time::ZERO, third).unwrap();
            assert!(matches!(said, Decision::Accepted(_)), "{said:?}");
        }
    }
}
