//! Links whose capacity changes, with every policy that can serve: nothing is handed out that is
//! not there, what is planned for loses nobody a promise, and a cut loses as few as can be.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_schedule::calendar::{
    CapacityPiece, Change, Decision, FlowId, FlowState, Request, Servable, ServiceOptions, Terms,
    restore, servable, servable_policies,
};
use weir_topology::{LinkId, Network};
use weir_units::{Bytes, Rate, Time};

use support::{Step, WIDE, cases, nanobits, networks, reported_steps, request, share};

fn ms(count: u64) -> Time {
    Time::from_ms(count)
}

/// Windows that do not overlap, each with a share of the link, in thousandths of the scale's span
/// and of the link's capacity; and the share outside them.
type Windows = (Vec<(u64, u64, u64)>, u64);

fn windows(least: u64) -> impl Strategy<Value = Windows> {
    let window = (0_u64..300, 1_u64..300, least..=1000);
    (prop::collection::vec(window, 0..4), least.max(1)..=1000)
}

/// What the windows say of a link from some time on.
fn pieces(
    network: &Network,
    link: LinkId,
    now: u64,
    windows: &Windows,
) -> (Vec<CapacityPiece>, Rate) {
    let capacity = network.link(link).capacity.as_bit_per_s();
    let rate = |part: u64| Rate::from_bit_per_s(share(capacity, part));
    let mut at = now;
    let piece = |(wait, lasts, part): &(u64, u64, u64)| {
        let from = at + share(WIDE.span_ns, *wait);
        at = from + share(WIDE.span_ns, *lasts);
        CapacityPiece { from: Time::from_ns(from), to: Time::from_ns(at), rate: rate(*part) }
    };
    (windows.0.iter().map(piece).collect(), rate(windows.1))
}

/// A sender that does as told: nanobits left at a time, rate, deadline.
#[derive(Clone, Debug)]
struct Sender {
    left: i128,
    as_of: u64,
    rate: u64,
    deadline: u64,
    /// Whether it has been promised anything.
    is_promised: bool,
}

impl Sender {
    fn end(&self) -> u64 {
        let span = (self.left + i128::from(self.rate) - 1).checked_div(i128::from(self.rate));
        let span = span.and_then(|span| u64::try_from(span).ok());
        span.map_or(u64::MAX, |span| self.as_of.saturating_add(span))
    }
}

struct World {
    calendar: Box<dyn Servable>,
    senders: BTreeMap<FlowId, Sender>,
    now: u64,
}

impl World {
    fn new(network: &Arc<Network>, policy: &str, paths: usize) -> Self {
        let paths = if policy.starts_with("weir") { paths } else { 1 };
        let options = ServiceOptions { paths, ..ServiceOptions::live(ms(10_000)) };
        let calendar = servable(policy, Arc::clone(network), options).unwrap();
        Self { calendar, senders: BTreeMap::new(), now: 0 }
    }

    fn at(&self) -> Time {
        Time::from_ns(self.now)
    }

    fn tell(&mut self, changes: Vec<Change>) {
        for change in changes {
            let sender = self.senders.get_mut(&change.flow).unwrap();
            sender.left -= i128::from(sender.rate) * i128::from(self.now - sender.as_of);
            (sender.as_of, sender.rate) = (self.now, change.rate.as_bit_per_s());
        }
        for link in self.calendar.links() {
            assert!(link.allotted <= link.capacity, "{link:?} at {}", self.now);
        }
    }

    fn submit(&mut self, request: Request) {
        let decision = self.calendar.submit(self.at(), request.clone()).unwrap();
        let sender = |size, rate: Rate, is_promised| Sender {
            left: nanobits(size),
            as_of: self.now,
            rate: rate.as_bit_per_s(),
            deadline: request.deadline.as_ns(),
            is_promised,
        };
        match decision {
            Decision::Accepted(accepted) => {
                let sender = sender(accepted.size, accepted.rate, true);
                self.senders.insert(request.id, sender);
                self.tell(accepted.changes);
            }
            Decision::Waiting => {
                let sender = sender(request.size, Rate::ZERO, false);
                self.senders.insert(request.id, sender);
            }
            Decision::Refused(refused) => {
                if let Some(deadline) = refused.earliest_deadline {
                    let terms = Terms { hold: Time::ZERO, ..request.terms };
                    let again = Request { deadline, terms, ..request };
                    let decision = self.calendar.precheck(self.at(), again, None).unwrap();
                    assert!(matches!(decision, Decision::Accepted(_)), "{decision:?}");
                }
            }
        }
    }

    fn decided(&mut self, id: &FlowId, decision: &Decision) {
        match decision {
            Decision::Accepted(_) => self.senders.get_mut(id).unwrap().is_promised = true,
            Decision::Refused(_) => drop(self.senders.remove(id)),
            Decision::Waiting => panic!("{id} has waited"),
        }
    }

    fn pass(&mut self, until: u64) {
        for turn in 0.. {
            assert!(turn < 100_000, "time does not pass");
            let end = self.senders.values().map(Sender::end).min().unwrap_or(u64::MAX);
            let next = end.min(self.calendar.next_epoch().as_ns());
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            if end == next {
                let over = self.senders.iter().find(|(_, sender)| sender.end() == end);
                let id = over.unwrap().0.clone();
                self.senders.remove(&id);
                let changes = self.calendar.complete(self.at(), &id).unwrap();
                self.tell(changes);
            } else {
                let epoch = self.calendar.epoch(self.at()).unwrap();
                self.tell(epoch.changes);
                epoch.decisions.iter().for_each(|(id, decision)| self.decided(id, decision));
            }
        }
    }

    fn kept(&self) -> Vec<FlowId> {
        let flows = self.calendar.flows().into_iter();
        let kept =
            flows.filter(|flow| matches!(flow.state, FlowState::OnTime | FlowState::Finishing));
        kept.map(|flow| flow.flow).collect()
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn what_a_timetable_says_beforehand_loses_nobody_a_promise(
        network in networks(WIDE),
        policy in prop::sample::select(servable_policies()),
        paths in 1_usize..4,
        timetable in prop::collection::vec(windows(0), 1..4),
        steps in reported_steps(40),
    ) {
        let mut world = World::new(&network, &policy, paths);
        for (link, windows) in network.links().zip(&timetable) {
            let (pieces, outside) = pieces(&network, link, 0, windows);
            world.calendar.set_capacity(Time::ZERO, link, &pieces, outside).unwrap();
        }
        for (number, step) in steps.iter().enumerate() {
            match *step {
                Step::Wait(part) => world.pass(world.now + share(WIDE.span_ns / 4, part)),
                Step::Submit { source, destination, size, span, limit } => {
                    let ends = (source, destination, size, span, limit);
                    let asked = request(&network, WIDE, number, world.now, ends);
                    // Whatever may wait on trial, no promise pays for it.
                    let hold = Time::from_ns(WIDE.span_ns / 10 * (number as u64 % 2));
                    world.submit(Request { terms: Terms { hold, ..asked.terms }, ..asked });
                }
                _ => {}
            }
            for (id, sender) in world.senders.iter().filter(|(_, sender)| sender.is_promised) {
                prop_assert!(sender.deadline >= world.now, "{} is late: {:?}", id, sender);
            }
        }
        let last = world.senders.values().map(|sender| sender.deadline).max().unwrap_or(0);
        world.pass(last.max(world.now));
        prop_assert!(world.senders.is_empty(), "late: {:?}", world.senders);
    }

    #[test]
    fn whatever_links_lose_they_hold_and_a_restart_changes_nothing(
        network in networks(WIDE),
        policy in prop::sample::select(servable_policies()),
        paths in 1_usize..4,
        cuts in prop::collection::vec((any::<usize>(), windows(0)), 60),
        steps in reported_steps(60),
    ) {
        let mut world = World::new(&network, &policy, paths);
        for ((number, step), (link, windows)) in steps.iter().enumerate().zip(&cuts) {
            match *step {
                Step::Wait(part) => world.pass(world.now + share(WIDE.span_ns / 4, part)),
                Step::Submit { source, destination, size, span, limit } => {
                    let ends = (source, destination, size, span, limit);
                    let asked = request(&network, WIDE, number, world.now, ends);
                    world.submit(asked);
                }
                Step::Progress(..) => {
                    let link = network.links().nth(link % network.links().len()).unwrap();
                    let (pieces, outside) = pieces(&network, link, world.now, windows);
                    let mut copy = restore(&world.calendar.snapshot()).unwrap();
                    let changes =
                        world.calendar.set_capacity(world.at(), link, &pieces, outside).unwrap();
                    let same = copy.set_capacity(world.at(), link, &pieces, outside).unwrap();
                    prop_assert_eq!(&changes, &same);
                    world.tell(changes);
                }
                _ => {}
            }
            let text = world.calendar.snapshot();
            prop_assert_eq!(restore(&text).unwrap().snapshot(), text);
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

/// A kilobyte takes the whole link a millisecond.
fn kilobytes(network: &Network, name: &str, size: u64, deadline_ms: u64) -> Request {
    Request {
        id: FlowId::new(name),
        source: network.node("a").unwrap(),
        destination: network.node("b").unwrap(),
        size: Bytes::new(size * 1000),
        deadline: ms(deadline_ms),
        rate_max: Rate::MAX,
        terms: Terms::default(),
    }
}

/// The most of these that a link can have there in time, each (size, deadline) in milliseconds of
/// the link: every subset is tried, the earliest deadline first.
fn most_in_time(jobs: &[(f64, f64)]) -> usize {
    let mut sorted = jobs.to_vec();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    let subsets = 0_u32..1 << sorted.len();
    let is_feasible = |subset: &u32| {
        let mut at = 0.0;
        let chosen = sorted.iter().enumerate().filter(|(place, _)| subset >> place & 1 == 1);
        chosen.into_iter().all(|(_, (size, deadline))| {
            at += size;
            at <= *deadline
        })
    };
    subsets.filter(is_feasible).map(|subset| subset.count_ones() as usize).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn on_one_link_a_cut_loses_as_few_promises_as_can_be(
        policy in prop::sample::select(vec!["weir-all", "weir"]),
        jobs in prop::collection::vec((100_u64..3000, 500_u64..12_000), 1..11),
        left in 50_u64..950,
    ) {
        let network = one_link();
        let mut world = World::new(&network, policy, 1);
        for (number, (size, deadline)) in jobs.iter().enumerate() {
            world.submit(kilobytes(&network, &number.to_string(), *size, *deadline));
        }
        let admitted = world.kept().len();
        let link = network.links().next().unwrap();
        let outside = Rate::from_bit_per_s(8000 * left);
        world.calendar.set_capacity(world.at(), link, &[], outside).unwrap();
        // A millisecond of the link is a millisecond longer on what is left of it.
        let of = |id: &FlowId, more: f64| {
            let (size, deadline) = jobs[id.as_str().parse::<usize>().unwrap()];
            ((size as f64 + more) * 1000.0 / left as f64, deadline as f64)
        };
        let all = |more| -> Vec<_> { world.senders.keys().map(|id| of(id, more)).collect() };
        let (exact, rounded) = (most_in_time(&all(0.0)), most_in_time(&all(0.01)));
        let kept = world.kept();
        prop_assert!((rounded..=exact).contains(&kept.len()), "{:?} of {admitted}", kept);
        let chosen: Vec<_> = kept.iter().map(|id| of(id, 0.0)).collect();
        prop_assert_eq!(most_in_time(&chosen), kept.len(), "these cannot all be there");
    }
}

/// The most weight of these that a link can have there in time.
fn most_weight_in_time(jobs: &[(f64, f64, u32)]) -> u32 {
    let subsets = 0_u32..1 << jobs.len();
    let chosen = |subset: u32| {
        let chosen = jobs.iter().enumerate().filter(move |(place, _)| subset >> place & 1 == 1);
        chosen.map(|(_, job)| *job)
    };
    let is_feasible = |subset: &u32| {
        let all: Vec<_> = chosen(*subset).map(|(size, deadline, _)| (size, deadline)).collect();
        most_in_time(&all) == all.len()
    };
    let weight = |subset: u32| chosen(subset).map(|(_, _, weight)| weight).sum();
    subsets.filter(is_feasible).map(weight).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn on_one_link_a_cut_saves_as_much_weight_as_can_be(
        jobs in prop::collection::vec((100_u64..3000, 500_u64..12_000, 1_u32..20), 1..8),
        left in 50_u64..950,
    ) {
        let network = one_link();
        let mut world = World::new(&network, "weir-all", 1);
        for (number, (size, deadline, weight)) in jobs.iter().enumerate() {
            let plain = kilobytes(&network, &number.to_string(), *size, *deadline);
            let terms = Terms { weight: *weight, ..plain.terms };
            world.submit(Request { terms, ..plain });
        }
        let link = network.links().next().unwrap();
        let outside = Rate::from_bit_per_s(8000 * left);
        let mut copy = restore(&world.calendar.snapshot()).unwrap();
        world.calendar.set_capacity(world.at(), link, &[], outside).unwrap();
        copy.set_capacity(world.at(), link, &[], outside).unwrap();
        prop_assert_eq!(copy.snapshot(), world.calendar.snapshot());
        let of = |id: &FlowId, more: f64| {
            let (size, deadline, weight) = jobs[id.as_str().parse::<usize>().unwrap()];
            ((size as f64 + more) * 1000.0 / left as f64, deadline as f64, weight)
        };
        let all = |more| -> Vec<_> { world.senders.keys().map(|id| of(id, more)).collect() };
        let most = most_weight_in_time(&all(0.0));
        let rounded = most_weight_in_time(&all(0.01));
        let kept: Vec<_> = world.kept().iter().map(|id| of(id, 0.0)).collect();
        let saved: u32 = kept.iter().map(|(_, _, weight)| weight).sum();
        prop_assert!((rounded..=most).contains(&saved), "{saved} of {rounded} to {most}");
        let pairs: Vec<_> = kept.iter().map(|(size, deadline, _)| (*size, *deadline)).collect();
        prop_assert_eq!(most_in_time(&pairs), kept.len(), "these cannot all be there");
    }
}

#[test]
fn a_thousand_of_any_weight_are_planned_anew_at_once() {
    let network = one_link();
    let mut world = World::new(&network, "weir-all", 1);
    for number in 0..1000_u32 {
        let plain = kilobytes(&network, &number.to_string(), 1, 20_000 + u64::from(number));
        let terms = Terms { weight: 1 + number * 7919 % 1000, ..plain.terms };
        world.submit(Request { terms, ..plain });
    }
    let link = network.links().next().unwrap();
    let outside = Rate::from_bit_per_s(200_000);
    world.calendar.set_capacity(world.at(), link, &[], outside).unwrap();
    let kept = world.kept();
    // About half of them fit, and these are by far the heavier half.
    let weight = |id: &FlowId| 1 + id.as_str().parse::<u32>().unwrap() * 7919 % 1000;
    assert!((499..=526).contains(&kept.len()), "{}", kept.len());
    let saved: u32 = kept.iter().map(weight).sum();
    let mut all: Vec<u32> = world.senders.keys().map(weight).collect();
    all.sort_unstable();
    let most: u32 = all[all.len() - kept.len()..].iter().sum();
    assert!(f64::from(saved) >= 0.99 * f64::from(most), "{saved} of {most}");
}

#[test]
fn who_cannot_be_saved_is_told_the_earliest_time_left() {
    let network = one_link();
    let link = network.links().next().unwrap();
    for policy in servable_policies() {
        let mut world = World::new(&network, &policy, 1);
        world.submit(kilobytes(&network, "soon", 2000, 10_000));
        world.submit(kilobytes(&network, "late", 5000, 12_000));
        let half = Rate::from_mbit_per_s(4);
        world.calendar.set_capacity(Time::ZERO, link, &[], half).unwrap();
        assert_eq!(world.kept(), [FlowId::new("soon")], "{policy}");
        let left = world.calendar.earliest_end(&FlowId::new("late")).unwrap().unwrap();
        assert!(left >= ms(14_000), "{policy}: {left}");
        // The link comes back, and so does the promise.
        let full = Rate::from_mbit_per_s(8);
        world.calendar.set_capacity(ms(10), link, &[], full).unwrap();
        world.calendar.epoch(ms(20)).unwrap();
        assert_eq!(world.kept().len(), 2, "{policy}");
    }
}

#[test]
fn a_link_that_is_down_for_a_while_is_planned_around() {
    let network = one_link();
    let link = network.links().next().unwrap();
    let down = CapacityPiece { from: ms(2000), to: ms(4000), rate: Rate::ZERO };
    for policy in ["weir", "weir-all"] {
        let mut world = World::new(&network, policy, 1);
        let full = Rate::from_mbit_per_s(8);
        world.calendar.set_capacity(Time::ZERO, link, &[down], full).unwrap();
        let asked = kilobytes(&network, "x", 3000, 5000);
        let decision = world.calendar.precheck(Time::ZERO, asked.clone(), None).unwrap();
        assert!(matches!(decision, Decision::Accepted(_)), "{policy}: {decision:?}");
        let sooner =
            world.calendar.precheck(Time::ZERO, Request { deadline: ms(4999), ..asked }, None);
        let Decision::Refused(refused) = sooner.unwrap() else { panic!("{policy}") };
        assert_eq!(refused.earliest_deadline, Some(ms(5000)), "{policy}");
    }
}

/// What is reserved for each flow, as a snapshot has it.
fn plans(calendar: &dyn Servable) -> Vec<serde_json::Value> {
    let document: serde_json::Value = serde_json::from_str(&calendar.snapshot()).unwrap();
    let flows = document["flows"].as_array().unwrap();
    flows.iter().map(|flow| flow["plan"].clone()).collect()
}

/// What was missing of the link until now was counted as reserved beside what is to come: all was
/// laid anew, in another order, unless a restart had forgotten it.
#[test]
fn what_still_fits_stays_where_it_is_however_narrow_the_link_was_before() {
    let network = one_link();
    let link = network.links().next().unwrap();
    let mbit = Rate::from_mbit_per_s;
    let narrow = CapacityPiece { from: ms(0), to: ms(10_000), rate: mbit(2) };
    let wide = CapacityPiece { from: ms(100_000), to: ms(101_000), rate: mbit(8) };
    for policy in ["weir", "weir-all"] {
        let mut world = World::new(&network, policy, 1);
        world.calendar.set_capacity(Time::ZERO, link, &[narrow, wide], mbit(4)).unwrap();
        world.submit(kilobytes(&network, "later", 4000, 30_000));
        world.submit(kilobytes(&network, "sooner", 4000, 28_000));
        world.calendar.epoch(ms(1000)).unwrap();
        let before = plans(&*world.calendar);
        let mut copy = restore(&world.calendar.snapshot()).unwrap();
        for calendar in [&mut world.calendar, &mut copy] {
            calendar.set_capacity(ms(1000), link, &[], mbit(4)).unwrap();
            assert_eq!(plans(&**calendar), before, "{policy}");
        }
        assert_eq!(copy.snapshot(), world.calendar.snapshot(), "{policy}");
    }
}

#[test]
fn a_capacity_that_cannot_be_changes_nothing() {
    let network = one_link();
    let link = network.links().next().unwrap();
    let piece = |from, to, rate| CapacityPiece { from: ms(from), to: ms(to), rate };
    for policy in servable_policies() {
        let mut world = World::new(&network, &policy, 1);
        let before = world.calendar.snapshot();
        for (pieces, message) in [
            (vec![piece(5, 5, Rate::ZERO)], "lasts no time"),
            (vec![piece(5, 9, Rate::ZERO), piece(1, 6, Rate::ZERO)], "overlap at 5 ms"),
            (vec![piece(1, 2, Rate::MAX)], "more than any link"),
        ] {
            let error = world.calendar.set_capacity(ms(1), link, &pieces, Rate::ZERO).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
        assert_eq!(world.calendar.snapshot(), before, "{policy}");
    }
}
