//! What must hold when the world reports what really moved, however far from the model that is:
//! no link over its capacity, no flow pushed below its minimum by another, and a flow that cannot
//! be helped is named and the reason real.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use support::{
    Scale, Shadow, Shadows, Step, capacity, cases, fits, least_rate, nanobits, networks, policies,
    reported_steps, request, scales, share,
};
use weir_schedule::calendar::{
    Calendar, Calibers, Change, Decision, FlowId, FlowState, Options, Policy, Request,
};
use weir_topology::{Metric, Network};
use weir_units::{Bytes, Time};

struct World {
    network: Arc<Network>,
    scale: Scale,
    policy: Policy,
    calendar: Calibers,
    shadows: Shadows,
    now: u64,
    submitted: usize,
}

impl World {
    fn new(network: Arc<Network>, scale: Scale, policy: Policy) -> Self {
        let options = Options::live(policy, Time::from_ns((scale.span_ns / 4).max(1)));
        let calendar = Calibers::new(Arc::clone(&network), options).unwrap();
        let shadows = Shadows::default();
        Self { network, scale, policy, calendar, shadows, now: 0, submitted: 0 }
    }

    fn time(&self) -> Time {
        Time::from_ns(self.now)
    }

    fn step(&mut self, step: &Step) {
        let at_risk = self.at_risk();
        let mut reported = None;
        match *step {
            Step::Wait(part) => {
                self.now += share(self.scale.span_ns, part).max(1);
                assert_eq!(self.calendar.advance(self.time()).unwrap(), [], "nobody reported");
            }
            Step::Submit { source, destination, size, span, limit } => {
                let ends = (source, destination, size, span, limit);
                let asked = request(&self.network, self.scale, self.submitted, self.now, ends);
                self.submitted += 1;
                self.submit(asked);
            }
            Step::Epoch => {
                let changes = self.calendar.epoch(self.time()).unwrap().changes;
                self.apply(&changes, None);
                self.shadows.0.keys().for_each(|flow| self.check_helped(flow));
            }
            Step::Cancel(index) | Step::Complete(index) => {
                let Some(flow) = self.shadows.nth(index) else { return };
                let changes = match step {
                    Step::Cancel(_) => self.calendar.cancel(self.time(), &flow),
                    _ => self.calendar.complete(self.time(), &flow),
                };
                self.shadows.0.remove(&flow);
                self.apply(&changes.unwrap(), None);
            }
            Step::Progress(index, left) => {
                let Some(flow) = self.shadows.nth(index) else { return };
                self.report(&flow, left);
                reported = Some(flow);
            }
        }
        self.check();
        let news: BTreeSet<FlowId> = self.at_risk().difference(&at_risk).cloned().collect();
        assert!(news.iter().all(|flow| Some(flow) == reported.as_ref()), "others paid: {news:?}");
    }

    fn apply(&mut self, changes: &[Change], reported: Option<&FlowId>) {
        for change in changes {
            let flow = &self.shadows.0[&change.flow];
            let told = Some(&change.flow) == reported;
            assert!(told || flow.end() > self.now, "a flow that is finishing keeps its rate");
            assert!(flow.deadline > self.now || change.rate.as_bit_per_s() >= flow.rate);
        }
        self.shadows.apply(self.now, changes);
    }

    fn submit(&mut self, asked: Request) {
        let path = self.network.shortest(asked.source, asked.destination, Metric::Hops).unwrap();
        let span = asked.deadline.as_ns() - self.now;
        let possible = span > 0 && {
            let need = least_rate(nanobits(asked.size), span);
            need <= i128::from(asked.rate_max.as_bit_per_s())
                && fits(&self.network, &self.shadows, self.policy, path.links(), need, self.now)
        };
        match self.calendar.submit(self.time(), asked.clone()).unwrap() {
            Decision::Accepted(accepted) => {
                assert!(possible);
                self.apply(&accepted.changes, None);
                let shadow = Shadow {
                    links: accepted.path.links().to_vec(),
                    size: asked.size,
                    deadline: asked.deadline.as_ns(),
                    rate_max: asked.rate_max.as_bit_per_s(),
                    rate: accepted.rate.as_bit_per_s(),
                    remaining: nanobits(asked.size),
                    as_of: self.now,
                };
                self.shadows.0.insert(asked.id, shadow);
            }
            Decision::Refused(_) => assert!(!possible),
            Decision::Waiting => panic!("requests are decided on arrival"),
        }
    }

    fn report(&mut self, flow: &FlowId, left: u64) {
        let size = self.shadows.0[flow].size;
        let remaining = Bytes::new(share(size.count(), left));
        let changes = self.calendar.progress(self.time(), flow, remaining).unwrap();
        let shadow = self.shadows.0.get_mut(flow).unwrap();
        shadow.remaining = nanobits(remaining);
        shadow.as_of = self.now;
        self.apply(&changes, Some(flow));
        self.check_helped(flow);
    }

    /// A flow that stays behind has its own limit to blame, or a link that has no more.
    fn check_helped(&self, flow: &FlowId) {
        let shadow = &self.shadows.0[flow];
        let (need, rate) = (shadow.need(self.now), i128::from(shadow.rate));
        if need <= rate || shadow.rate == shadow.rate_max {
            return;
        }
        let mut others = self.shadows.clone();
        others.0.remove(flow);
        let fits = fits(&self.network, &others, self.policy, &shadow.links, rate + 1, self.now);
        assert!(!fits, "{flow} could be given more");
    }

    fn at_risk(&self) -> BTreeSet<FlowId> {
        let flows = self.calendar.flows().into_iter();
        flows.filter(|flow| flow.state == FlowState::AtRisk).map(|flow| flow.flow).collect()
    }

    fn check(&self) {
        for flow in self.calendar.flows() {
            let shadow = &self.shadows.0[&flow.flow];
            assert_eq!(flow.rate.as_bit_per_s(), shadow.rate);
            assert_eq!(flow.completion.as_ns(), shadow.end());
            let need = shadow.need(self.now);
            let expected = if shadow.deadline <= self.now {
                FlowState::Late
            } else if shadow.end() <= self.now {
                FlowState::Finishing
            } else if need > i128::from(shadow.rate) {
                FlowState::AtRisk
            } else {
                FlowState::OnTime
            };
            assert_eq!(flow.state, expected, "{flow:?}");
            let told = i128::from(flow.rate_min.as_bit_per_s());
            assert_eq!(told, need.min(i128::from(u64::MAX)));
        }
        for link in self.calendar.links() {
            let used: i128 = self.shadows.on(link.link).map(|flow| i128::from(flow.rate)).sum();
            assert_eq!(i128::from(link.allotted.as_bit_per_s()), used);
            assert!(used <= capacity(&self.network, link.link), "a link is over its capacity");
        }
    }
}

fn worlds() -> impl Strategy<Value = (Scale, Arc<Network>)> {
    scales().prop_flat_map(|scale| (Just(scale), networks(scale)))
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn whatever_is_reported_links_hold_and_no_flow_pays_for_another(
        (scale, network) in worlds(),
        policy in policies(),
        steps in reported_steps(60),
    ) {
        let mut world = World::new(network, scale, policy);
        for step in &steps {
            world.step(step);
        }
        let text = world.calendar.snapshot();
        prop_assert_eq!(Calibers::restore(&text).unwrap().snapshot(), text);
    }
}
