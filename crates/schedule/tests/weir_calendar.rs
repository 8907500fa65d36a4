//! Weir's own calendar against what is true of any schedule: links hold no more than they can,
//! admitted data is there by its deadline, links do not idle while somebody could use them; and on
//! one link against the exact test of feasibility.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_schedule::calendar::{
    Accepted, Calendar, Change, Decision, FlowId, Request, Split, Terms, Weir, WeirOptions, Worth,
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
        if let Decision::Accepted(Accepted { split, size, changes, .. }) = decision.clone() {
            let (remaining, as_of) = (nanobits(size), self.now);
            let sender = Sender { request: request.clone(), remaining, as_of, rates: split };
            self.tell(changes);
            self.senders.insert(request.id, sender);
        }
        self.check();
        decision
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
                let changes = self.calendar.epoch(self.at()).unwrap().changes;
                self.tell(changes);
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
            if request.terms.start.as_ns() > self.now || sender.left(self.now) <= 0 {
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
    WeirOptions { paths: PATHS, epoch: Time::from_ms(10_000), worth }
}

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
    Request { terms: Terms { start: Time::from_ns(start), least, weight: 1 }, ..plain }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn admitted_deadlines_hold_links_hold_and_nobody_idles(
        network in networks(WIDE),
        worth in prop::sample::select(vec![Worth::Anything, Worth::Request]),
        steps in prop::collection::vec(asked(), 1..40),
    ) {
        let mut world = World::new(&network, options(worth));
        for (number, step) in steps.iter().enumerate() {
            world.pass(world.now + share(WIDE.span_ns, step.wait));
            let request = ask(&world, WIDE, number, step);
            let (least, size) = (request.terms.least, request.size);
            match world.submit(request.clone()) {
                Decision::Accepted(accepted) => {
                    prop_assert!(accepted.size <= size);
                    prop_assert!(accepted.size >= least.unwrap_or(size));
                }
                // What is said to be possible is.
                Decision::Refused(refused) if worth == Worth::Anything => {
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
