//! What must hold while flows run as the fluid model says, on random networks and histories, for
//! every policy. The oracle is a shadow of the flows kept from the answers alone.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use support::{
    Scale, Shadow, Shadows, Step, capacity, cases, fits, least_rate, modelled_steps, nanobits,
    networks, policies, request, scales, share,
};
use weir_schedule::calendar::{
    Accepted, Calendar, Calibers, Decision, FlowId, Options, Policy, Reason, Refused, Request,
    Scope,
};
use weir_topology::{LinkId, Metric, Network};
use weir_units::Time;

#[derive(Clone)]
struct World {
    network: Arc<Network>,
    scale: Scale,
    policy: Policy,
    calendar: Calibers,
    shadows: Shadows,
    /// Links that a flow has left since the last epoch.
    freed: BTreeSet<LinkId>,
    now: u64,
    submitted: usize,
}

impl World {
    fn new(network: Arc<Network>, scale: Scale, policy: Policy) -> Self {
        let epoch = Time::from_ns((scale.span_ns / 4).max(1));
        let options = Options::simulated(policy, epoch);
        let calendar = Calibers::new(Arc::clone(&network), options).unwrap();
        let shadows = Shadows::default();
        let freed = BTreeSet::new();
        Self { network, scale, policy, calendar, shadows, freed, now: 0, submitted: 0 }
    }

    fn time(&self) -> Time {
        Time::from_ns(self.now)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Wait(part) => self.now += share(self.scale.span_ns, part).max(1),
            Step::Submit { source, destination, size, span, limit } => {
                let ends = (source, destination, size, span, limit);
                let number = self.submitted;
                self.submitted += 1;
                let asked = request(&self.network, self.scale, number, self.now, ends);
                self.settle();
                self.submit(asked);
            }
            Step::Epoch => {
                self.settle();
                self.epoch();
            }
            Step::Cancel(index) => {
                self.settle();
                if let Some(flow) = self.shadows.nth(index) {
                    let changes = self.calendar.cancel(self.time(), &flow).unwrap();
                    self.freed.extend(self.shadows.0.remove(&flow).unwrap().links);
                    self.shadows.apply(self.now, &changes);
                }
            }
            Step::Complete(_) | Step::Progress(..) => unreachable!("the model does not report"),
        }
        self.settle();
        self.check();
    }

    /// Both sides take out what has ended, and agree on when.
    fn settle(&mut self) {
        let ended = self.calendar.advance(self.time()).unwrap();
        for end in ended {
            let shadow = self.shadows.0.remove(&end.flow).expect("only admitted flows end");
            assert_eq!(end.at.as_ns(), shadow.end(), "{} ends when its data is through", end.flow);
            assert!(end.at.as_ns() <= shadow.deadline, "{} missed its deadline", end.flow);
            self.freed.extend(shadow.links);
        }
        for (flow, shadow) in &self.shadows.0 {
            assert!(shadow.end() > self.now, "{flow} has ended unnoticed");
        }
    }

    fn submit(&mut self, asked: Request) {
        let before = self.calendar.clone();
        let path = self.network.shortest(asked.source, asked.destination, Metric::Hops).unwrap();
        let span = asked.deadline.as_ns() - self.now;
        let possible = span > 0 && {
            let need = least_rate(nanobits(asked.size), span);
            need <= i128::from(asked.rate_max.as_bit_per_s())
                && fits(&self.network, &self.shadows, self.policy, path.links(), need, self.now)
        };
        match self.calendar.submit(self.time(), asked.clone()).unwrap() {
            Decision::Accepted(accepted) => {
                assert!(possible, "accepted what the links cannot carry");
                self.accept(&asked, &accepted);
            }
            Decision::Refused(refused) => {
                assert!(!possible, "refused what the links can carry: {:?}", refused.reason);
                assert_eq!(
                    self.calendar.snapshot(),
                    before.snapshot(),
                    "a refusal leaves no trace"
                );
                self.check_reason(&asked, &refused);
                self.check_earliest(&before, &asked, &refused);
            }
            Decision::Waiting => panic!("requests are decided on arrival"),
        }
    }

    fn accept(&mut self, asked: &Request, accepted: &Accepted) {
        for change in &accepted.changes {
            let paced = &self.shadows.0[&change.flow];
            let rate = i128::from(change.rate.as_bit_per_s());
            assert_eq!(rate, paced.need(self.now), "{} is paced to its minimum", change.flow);
        }
        if self.policy == Policy::Fixed {
            let need = least_rate(nanobits(asked.size), asked.deadline.as_ns() - self.now);
            assert_eq!(i128::from(accepted.rate.as_bit_per_s()), need);
            assert_eq!(accepted.changes, []);
        }
        self.shadows.apply(self.now, &accepted.changes);
        let shadow = Shadow {
            links: accepted.path.links().to_vec(),
            size: asked.size,
            deadline: asked.deadline.as_ns(),
            rate_max: asked.rate_max.as_bit_per_s(),
            rate: accepted.rate.as_bit_per_s(),
            remaining: nanobits(asked.size),
            as_of: self.now,
        };
        self.shadows.0.insert(asked.id.clone(), shadow);
    }

    fn check_reason(&self, asked: &Request, refused: &Refused) {
        match refused.reason {
            Reason::DeadlinePassed { .. } => assert!(asked.deadline.as_ns() <= self.now),
            Reason::RateLimit { needed, limit } => assert!(needed > limit),
            Reason::Link { link, needed, available } => {
                assert!(needed > available);
                let available = i128::from(available.as_bit_per_s());
                let fits =
                    |rate| fits(&self.network, &self.shadows, self.policy, &[link], rate, self.now);
                assert!(fits(available) && !fits(available + 1), "the link gives what it says");
            }
            Reason::Worth { .. } => panic!("Calibers does not weigh requests"),
        }
    }

    fn check_earliest(&self, before: &Calibers, asked: &Request, refused: &Refused) {
        let accepts = |deadline: Time| {
            let request = Request { deadline, ..asked.clone() };
            let decision = before.clone().submit(self.time(), request).unwrap();
            matches!(decision, Decision::Accepted(_))
        };
        match refused.earliest_deadline {
            Some(deadline) => {
                assert!(accepts(deadline), "the earliest deadline is accepted");
                assert!(!accepts(Time::from_ns(deadline.as_ns() - 1)), "1 ns before it is not");
            }
            None => assert!(!accepts(Time::MAX), "no deadline at all would do"),
        }
    }

    fn epoch(&mut self) {
        let before = self.calendar.clone();
        let epoch = self.calendar.epoch(self.time()).unwrap();
        if self.policy == Policy::Fixed {
            assert_eq!(epoch.changes, []);
        }
        self.shadows.apply(self.now, &epoch.changes);
        for change in &epoch.changes {
            let old = before.flows().into_iter().find(|flow| flow.flow == change.flow).unwrap();
            assert_ne!(old.rate, change.rate, "what does not change is not told");
        }
        if let Policy::Dynamic { scope: Scope::Global, .. } = self.policy {
            self.check_maximal();
        }
        self.freed.clear();
    }

    /// No flow that shares a link with a completed one could be given more.
    fn check_maximal(&self) {
        let full = |link| {
            let used: i128 = self.shadows.on(link).map(|flow| i128::from(flow.rate)).sum();
            used == capacity(&self.network, link)
        };
        for (flow, shadow) in &self.shadows.0 {
            if shadow.links.iter().any(|link| self.freed.contains(link)) {
                let at_limit = shadow.rate == shadow.rate_max;
                let blocked = shadow.links.iter().any(|link| full(*link));
                assert!(at_limit || blocked, "{flow} could have more");
            }
        }
    }

    fn check(&self) {
        let told = self.calendar.flows();
        assert_eq!(told.len(), self.shadows.0.len());
        for flow in told {
            let shadow = &self.shadows.0[&flow.flow];
            assert_eq!(flow.rate.as_bit_per_s(), shadow.rate, "rates are the ones told");
            assert!(shadow.rate <= shadow.rate_max);
            let need = shadow.need(self.now);
            assert!(i128::from(shadow.rate) >= need, "{} is below what it needs", flow.flow);
            assert_eq!(i128::from(flow.rate_min.as_bit_per_s()), need);
            assert_eq!(flow.completion.as_ns(), shadow.end());
        }
        for link in self.calendar.links() {
            let used: i128 = self.shadows.on(link.link).map(|flow| i128::from(flow.rate)).sum();
            assert_eq!(i128::from(link.allotted.as_bit_per_s()), used);
            assert!(used <= capacity(&self.network, link.link), "a link is over its capacity");
        }
    }

    /// Runs on until the last flow has ended.
    fn finish(&mut self) {
        while let Some(end) = self.shadows.0.values().map(Shadow::end).min() {
            self.now = end;
            self.settle();
            self.check();
        }
    }
}

fn worlds() -> impl Strategy<Value = (Scale, Arc<Network>)> {
    scales().prop_flat_map(|scale| (Just(scale), networks(scale)))
}

proptest! {
    #![proptest_config(cases(2500))]

    #[test]
    fn capacity_and_deadlines_hold_exactly_and_every_answer_is_justified(
        (scale, network) in worlds(),
        policy in policies(),
        steps in modelled_steps(60),
    ) {
        let mut world = World::new(network, scale, policy);
        for step in &steps {
            world.step(step);
        }
        world.finish();
    }

    #[test]
    fn a_restored_calendar_decides_like_the_one_that_was_written(
        (scale, network) in worlds(),
        policy in policies(),
        before in modelled_steps(40),
        after in modelled_steps(40),
    ) {
        let mut world = World::new(network, scale, policy);
        for step in &before {
            world.step(step);
        }
        let text = world.calendar.snapshot();
        let restored = Calibers::restore(&text).unwrap();
        prop_assert_eq!(restored.snapshot(), text);
        // Each goes on with its own shadow, and both come to the same state at every step.
        let mut again = World { calendar: restored, ..world.clone() };
        for step in &after {
            world.step(step);
            again.step(step);
            prop_assert_eq!(world.calendar.snapshot(), again.calendar.snapshot());
        }
    }
}

/// The same network with its lists the other way round.
fn reversed(network: &Network) -> Network {
    let mut document: serde_json::Value = serde_json::from_str(&network.to_json()).unwrap();
    for list in ["nodes", "links"] {
        document[list].as_array_mut().unwrap().reverse();
    }
    Network::from_json(&document.to_string()).unwrap()
}

/// Rates and paths, by order of admission and without the names of flows.
fn outcome(calendar: &Calibers) -> Vec<(u64, Vec<String>)> {
    let network = calendar.network();
    let links = |view: &weir_schedule::calendar::FlowView| {
        view.path.links().iter().map(|link| network.link(*link).name.clone()).collect()
    };
    calendar.flows().iter().map(|view| (view.rate.as_bit_per_s(), links(view))).collect()
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn neither_the_order_of_lists_nor_the_names_of_flows_matter(
        (scale, network) in worlds(),
        policy in policies(),
        steps in modelled_steps(60),
    ) {
        let options = Options::simulated(policy, Time::from_ns(scale.span_ns));
        let other_network = Arc::new(reversed(&network));
        let mut one = Calibers::new(Arc::clone(&network), options).unwrap();
        let mut other = Calibers::new(Arc::clone(&other_network), options).unwrap();
        let mut now = 0;
        for (number, step) in steps.iter().enumerate() {
            match *step {
                Step::Wait(part) => now += share(scale.span_ns, part),
                Step::Submit { source, destination, size, span, limit } => {
                    let ends = (source, destination, size, span, limit);
                    let asked = request(&network, scale, number, now, ends);
                    let node = |id| other_network.node(network.node_name(id)).unwrap();
                    let renamed = Request {
                        id: FlowId::new(&format!("{}", 1000 - number)),
                        source: node(asked.source),
                        destination: node(asked.destination),
                        ..asked.clone()
                    };
                    let decision = one.submit(Time::from_ns(now), asked).unwrap();
                    let again = other.submit(Time::from_ns(now), renamed).unwrap();
                    let accepted = |decision: &Decision| matches!(decision, Decision::Accepted(_));
                    prop_assert_eq!(accepted(&decision), accepted(&again));
                }
                _ => {
                    one.epoch(Time::from_ns(now)).unwrap();
                    other.epoch(Time::from_ns(now)).unwrap();
                }
            }
            prop_assert_eq!(outcome(&one), outcome(&other));
        }
    }

    #[test]
    fn a_damaged_snapshot_is_refused_or_gives_a_calendar_that_holds(
        (scale, network) in worlds(),
        policy in policies(),
        steps in modelled_steps(30),
        damage in prop::collection::vec((any::<usize>(), damaged_numbers()), 1..3),
    ) {
        let mut world = World::new(network, scale, policy);
        for step in &steps {
            world.step(step);
        }
        let mut document: serde_json::Value =
            serde_json::from_str(&world.calendar.snapshot()).unwrap();
        for (index, number) in damage {
            let mut numbers = Vec::new();
            collect_numbers(&mut document, &mut numbers);
            let count = numbers.len();
            *numbers[index % count] = number.into();
        }
        let Ok(mut calendar) = Calibers::restore(&document.to_string()) else { return Ok(()) };
        for (number, part) in [10, 400, 1000].into_iter().enumerate() {
            let start = calendar.clock().as_ns();
            let now = start.saturating_add(share(scale.span_ns, part));
            let _ = calendar.epoch(Time::from_ns(now)).unwrap();
            let ends = (0, 0, 300, 500, None);
            if now < u64::MAX / 2 {
                let asked = request(&world.network, scale, 1_000_000 + number, now, ends);
                let _ = calendar.submit(Time::from_ns(now), asked);
            }
        }
        for link in calendar.links() {
            prop_assert!(link.allotted <= link.capacity);
        }
    }
}

fn damaged_numbers() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX / 2), any::<u64>()]
}

fn collect_numbers<'a>(
    value: &'a mut serde_json::Value,
    found: &mut Vec<&'a mut serde_json::Value>,
) {
    match value {
        serde_json::Value::Number(_) => found.push(value),
        serde_json::Value::Array(list) => {
            list.iter_mut().for_each(|value| collect_numbers(value, found));
        }
        serde_json::Value::Object(entries) => {
            entries.iter_mut().for_each(|(_, value)| collect_numbers(value, found));
        }
        _ => {}
    }
}
