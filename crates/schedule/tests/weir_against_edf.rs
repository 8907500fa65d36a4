//! Weir's own calendar on one link, at the epoch that the tools take by default, beside the
//! earliest deadline first, online: nothing that is preemptive on one machine serves more than what
//! that admits (M. Dertouzos, IFIP 1974; with starts ahead J. Labetoulle et al., 1984).

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_random::Random;
use weir_schedule::calendar::{
    Accepted, Calendar, Change, Decision, FlowId, Request, Terms, Weir, WeirOptions, Worth,
};
use weir_topology::Network;
use weir_units::{Bytes, Rate, Time};

const CAPACITY: u64 = 1_000_000_000;
/// What `weir calendar study` takes when nothing is said.
const EPOCH: Time = Time::from_ms(180_000);
const NS_PER_S: f64 = 1e9;

/// A transfer that is asked for, in ns and nanobits.
#[derive(Clone, Copy, Debug)]
struct Job {
    arrival: u64,
    start: u64,
    deadline: u64,
    bytes: u64,
}

impl Job {
    fn nanobits(self) -> i128 {
        i128::from(self.bytes) * 8_000_000_000
    }
}

/// Between five and forty requests, two in three of them to start at once; the link is asked for
/// up to twice what it carries.
fn jobs(seed: u64, ahead: bool) -> Vec<Job> {
    let mut random = Random::of_source(seed, &["requests"]);
    let count = 5 + random.up_to(35);
    let load = 0.5 + 1.5 * random.unit();
    let mut arrival = 0.0;
    let mut draw = |_| {
        let size = 1e7 + 7.5e9 * random.unit() * random.unit();
        arrival += 2.0 * random.unit() * 1.9e9 * 8.0 / CAPACITY as f64 / load;
        let start =
            arrival + if ahead && random.chance(1.0 / 3.0) { 200.0 * random.unit() } else { 0.0 };
        let least = size * 8.0 / CAPACITY as f64;
        let deadline = start + least * (1.01 + 20.0 * random.unit() * random.unit());
        let [arrival, start, deadline] = [arrival, start, deadline].map(|s| (s * NS_PER_S) as u64);
        Job { arrival, start, deadline, bytes: size as u64 }
    };
    (0..count).map(&mut draw).collect()
}

/// One link with the earliest deadline first, which admits what fits beside all that it admitted.
#[derive(Default)]
struct EarliestFirst {
    now: u64,
    /// Deadline, start, what is left.
    left: Vec<(u64, u64, i128)>,
}

impl EarliestFirst {
    fn run(&mut self, until: u64) {
        while self.now < until {
            let now = self.now;
            let coming = self.left.iter().map(|job| job.1).filter(|start| *start > now).min();
            let next = coming.unwrap_or(until).min(until);
            let started = self.left.iter_mut().filter(|job| job.1 <= now);
            let Some(first) = started.min_by_key(|job| job.0) else {
                self.now = next;
                continue;
            };
            let room = i128::from(CAPACITY) * i128::from(next - now);
            if first.2 > room {
                first.2 -= room;
                self.now = next;
            } else {
                self.now += u64::try_from(first.2 / i128::from(CAPACITY)).unwrap();
                let ended = *first;
                self.left.retain(|job| *job != ended);
            }
        }
    }

    fn admits(&mut self, job: Job) -> bool {
        self.left.push((job.deadline, job.start, job.nanobits()));
        let starts: Vec<u64> = self.left.iter().map(|job| job.1.max(self.now)).collect();
        let fits = |from: u64, until: u64| {
            let inside = self.left.iter().filter(|job| job.1.max(self.now) >= from);
            let asked: i128 = inside.filter(|job| job.0 <= until).map(|job| job.2).sum();
            asked <= i128::from(CAPACITY) * i128::from(until.saturating_sub(from))
        };
        let all = starts.iter().all(|from| self.left.iter().all(|job| fits(*from, job.0)));
        if !all {
            self.left.pop();
        }
        all
    }
}

/// A link whose senders do as the calendar says.
struct Link {
    calendar: Weir,
    now: u64,
    /// Deadline, what is left, the rate.
    sending: BTreeMap<FlowId, (u64, i128, i128)>,
}

impl Link {
    fn new() -> Self {
        let mut builder = Network::builder();
        builder.node("a").unwrap();
        builder.node("b").unwrap();
        builder.link("ab", "a", "b", Rate::from_bit_per_s(CAPACITY), Time::ZERO).unwrap();
        let options = WeirOptions {
            paths: 8,
            epoch: EPOCH,
            worth: Worth::Anything,
            hold: Time::ZERO,
            measured: false,
        };
        let calendar = Weir::new(Arc::new(builder.build()), options).unwrap();
        Self { calendar, now: 0, sending: BTreeMap::new() }
    }

    fn tell(&mut self, changes: Vec<Change>) {
        for change in changes {
            self.sending.get_mut(&change.flow).unwrap().2 = change.rate.as_bit_per_s().into();
        }
    }

    fn end((_, left, rate): (u64, i128, i128), now: u64) -> u64 {
        if rate == 0 { u64::MAX } else { now + u64::try_from((left + rate - 1) / rate).unwrap() }
    }

    fn run(&mut self, until: u64) {
        loop {
            let ends = self.sending.iter().map(|(id, flow)| (Self::end(*flow, self.now), id));
            let (end, id) =
                ends.min().map_or((u64::MAX, None), |(end, id)| (end, Some(id.clone())));
            let epoch = self.calendar.next_epoch().as_ns();
            let next = end.min(epoch).min(until);
            for flow in self.sending.values_mut() {
                flow.1 -= flow.2 * i128::from(next - self.now);
            }
            self.now = next;
            let at = Time::from_ns(next);
            let changes = match id.filter(|_| end == next) {
                Some(id) => {
                    let (deadline, ..) = self.sending.remove(&id).unwrap();
                    assert!(next <= deadline, "{id} is late");
                    self.calendar.complete(at, &id).unwrap()
                }
                None if epoch == next => self.calendar.epoch(at).unwrap().changes,
                None => return,
            };
            self.tell(changes);
        }
    }

    fn admits(&mut self, number: usize, job: Job) -> bool {
        let id = FlowId::new(&number.to_string());
        let network = self.calendar.network();
        let request = Request {
            id: id.clone(),
            source: network.node("a").unwrap(),
            destination: network.node("b").unwrap(),
            size: Bytes::new(job.bytes),
            deadline: Time::from_ns(job.deadline),
            rate_max: Rate::MAX,
            terms: Terms { start: Time::from_ns(job.start), ..Terms::default() },
        };
        match self.calendar.submit(Time::from_ns(self.now), request).unwrap() {
            Decision::Accepted(Accepted { rate, changes, .. }) => {
                self.tell(changes);
                let rate = rate.as_bit_per_s().into();
                self.sending.insert(id, (job.deadline, job.nanobits(), rate));
                true
            }
            _ => false,
        }
    }
}

/// How many are admitted, by the calendar and by the earliest deadline first.
fn admitted(jobs: &[Job]) -> (usize, usize) {
    let (mut link, mut oracle) = (Link::new(), EarliestFirst::default());
    let mut counts = (0, 0);
    for (number, job) in jobs.iter().enumerate() {
        link.run(job.arrival);
        oracle.run(job.arrival);
        counts.0 += usize::from(link.admits(number, *job));
        counts.1 += usize::from(oracle.admits(*job));
    }
    link.run(jobs.iter().map(|job| job.deadline).max().unwrap_or(0));
    assert!(link.sending.is_empty(), "all that was admitted is there by its deadline");
    counts
}

fn never_fewer(ahead: bool) {
    let mut refused = 0;
    for seed in 0..1000 {
        let jobs = jobs(seed, ahead);
        let (ours, oracle) = admitted(&jobs);
        assert!(ours >= oracle, "seed {seed}: {ours}, by the earliest deadline first {oracle}");
        refused += jobs.len() - oracle;
    }
    assert!(refused > 500, "the link is asked for more than it carries: {refused}");
}

#[test]
fn no_fewer_are_admitted_than_by_the_earliest_deadline_first() {
    never_fewer(false);
}

#[test]
fn no_fewer_are_admitted_with_starts_ahead() {
    never_fewer(true);
}
