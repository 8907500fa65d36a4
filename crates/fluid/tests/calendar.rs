//! The calendar that answers the live service, run in the fluid world: no second implementation.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use std::sync::Arc;

use weir_fluid::workload::{Arrivals, Deadlines, Distribution, Sizes, Workload};
use weir_fluid::{Fate, Flow, Outcome, Rates, Routes, Scheduler, Sharing, simulate};
use weir_schedule::calendar::{
    Admission, Calendar, Calibers, Change, Completions, Decision, FlowId, Options, Policy, Request,
    ReshapeKey, Terms,
};
use weir_topology::{Network, NodeId, named::g_scale};
use weir_units::Time;

/// A calendar whose flows are numbered instead of named.
struct Calendared {
    calendar: Calibers,
    /// Source and destination of each route.
    ends: Vec<(NodeId, NodeId)>,
}

fn id(number: usize) -> FlowId {
    FlowId::new(&number.to_string())
}

fn tell(changes: Vec<Change>, rates: &mut Rates) {
    for change in changes {
        rates.set(change.flow.as_str().parse().unwrap(), change.rate);
    }
}

fn decide(number: usize, decision: Decision, rates: &mut Rates) {
    match decision {
        Decision::Accepted(accepted) => {
            tell(accepted.changes, rates);
            rates.set(number, accepted.rate);
        }
        Decision::Refused(_) => rates.refuse(number),
        Decision::Waiting => {}
    }
}

impl Scheduler for Calendared {
    fn arrive(&mut self, now: Time, number: usize, flow: &Flow, rates: &mut Rates) {
        let (source, destination) = self.ends[flow.route.index()];
        let request = Request {
            id: id(number),
            source,
            destination,
            size: flow.size,
            deadline: flow.deadline,
            rate_max: flow.limit,
            terms: Terms::default(),
        };
        decide(number, self.calendar.submit(now, request).unwrap(), rates);
    }

    fn end(&mut self, now: Time, number: usize, rates: &mut Rates) {
        tell(self.calendar.complete(now, &id(number)).unwrap(), rates);
    }

    fn next_wake(&self) -> Option<Time> {
        Some(self.calendar.next_epoch())
    }

    fn wake(&mut self, now: Time, rates: &mut Rates) {
        let epoch = self.calendar.epoch(now).unwrap();
        tell(epoch.changes, rates);
        for (flow, decision) in epoch.decisions {
            decide(flow.as_str().parse().unwrap(), decision, rates);
        }
    }
}

/// The load of the Calibers evaluation (000-spec section 4.6) at 0.4 requests per second.
fn published(seed: u64) -> Workload {
    Workload {
        seed,
        flows: 4000,
        arrivals: Arrivals::Poisson { rate_per_s: 0.4 },
        sizes: Sizes::RateBps(Distribution::Exponential { mean: 100e6 }),
        deadlines: Deadlines::AfterS(Distribution::Exponential { mean: 3600.0 }),
        ahead_s: None,
        pairs: vec![],
    }
}

fn run(policy: Policy, admission: Admission) -> Outcome {
    let network: Arc<Network> = Arc::new(g_scale());
    let mut routes = Routes::new();
    let mut flows = published(7).draw(&network, &mut routes).unwrap();
    let nodes: Vec<NodeId> = network.nodes().collect();
    // The order in which a workload without pairs adds its routes.
    let mut ends = Vec::new();
    for from in &nodes {
        ends.extend(nodes.iter().filter(|to| *to != from).map(|to| (*from, *to)));
    }
    let options = Options {
        policy,
        epoch: Time::from_ms(180_000),
        admission,
        completions: Completions::Reported,
        reshape_key: ReshapeKey::default(),
    };
    let calendar = Calibers::new(network.clone(), options).unwrap();
    let mut scheduler = Calendared { calendar, ends };
    let sharing = Sharing::Assigned(&mut scheduler);
    simulate(&network, &routes, sharing, &mut flows, Time::MAX).unwrap()
}

#[test]
fn every_admitted_transfer_is_on_time_and_no_link_is_asked_for_too_much() {
    // The simulation itself refuses rates beyond a link's capacity.
    for policy in Policy::ALL {
        for admission in [Admission::OnArrival, Admission::AtEpoch] {
            let outcome = run(policy, admission);
            let late = |flow: &&weir_fluid::Record| {
                !matches!(flow.fate, Fate::Refused(_)) && !flow.is_on_time()
            };
            assert_eq!(outcome.flows.iter().find(late), None, "{policy:?} {admission:?}");
            let refused = outcome.reject_rate().unwrap();
            assert!((0.05..0.35).contains(&refused), "{policy:?} {admission:?}: {refused}");
        }
    }
}
