//! The calendar against the specification's pseudocode written down as it reads, in floating point.
//! A case ends early where the reference decides by less than its own rounding.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use support::reference::Reference;
use support::{Step, WIDE, cases, modelled_steps, networks, policies, request, share};
use weir_schedule::calendar::{Calendar, Calibers, Decision, Options, Policy, Request};
use weir_topology::{Metric, Network};
use weir_units::{Rate, Time};

/// Relative to capacities and to spans; far above what either side rounds.
const CLOSE: f64 = 1e-6;

struct Pair {
    network: Arc<Network>,
    calendar: Calibers,
    reference: Reference,
    now: u64,
    submitted: usize,
}

impl Pair {
    fn new(network: Arc<Network>, policy: Policy) -> Self {
        let capacity = |id| network.link(id).capacity.as_bit_per_s() as f64;
        let capacities = network.links().map(capacity).collect();
        let reference = Reference::new(capacities, &policy.to_string());
        let options = Options::simulated(policy, Time::from_ns(WIDE.span_ns));
        let calendar = Calibers::new(Arc::clone(&network), options).unwrap();
        Self { network, calendar, reference, now: 0, submitted: 0 }
    }

    /// Whether the two could still be compared.
    fn step(&mut self, step: &Step) -> bool {
        match *step {
            Step::Wait(part) => self.now += share(WIDE.span_ns, part),
            Step::Epoch => {
                self.calendar.epoch(Time::from_ns(self.now)).unwrap();
                self.reference.on_epoch(self.seconds());
            }
            Step::Submit { source, destination, size, span, limit } => {
                let ends = (source, destination, size, span, limit);
                let asked = request(&self.network, WIDE, self.submitted, self.now, ends);
                if !self.submit(asked) {
                    return false;
                }
                self.submitted += 1;
            }
            Step::Cancel(_) | Step::Complete(_) | Step::Progress(..) => {}
        }
        self.reference.closest > CLOSE && {
            self.compare();
            true
        }
    }

    fn seconds(&self) -> f64 {
        self.now as f64 / 1e9
    }

    fn submit(&mut self, asked: Request) -> bool {
        let path = self.network.shortest(asked.source, asked.destination, Metric::Hops).unwrap();
        let links: Vec<usize> = path.links().iter().map(|link| link.index()).collect();
        let limit = if asked.rate_max == Rate::MAX {
            f64::INFINITY
        } else {
            asked.rate_max.as_bit_per_s() as f64
        };
        let terms = (asked.size.count() as f64 * 8.0, asked.deadline.as_s(), limit);
        let decision = self.calendar.submit(Time::from_ns(self.now), asked).unwrap();
        let accepted = self.reference.on_request(self.seconds(), self.submitted, &links, terms);
        if self.reference.closest <= CLOSE {
            return false;
        }
        assert_eq!(matches!(decision, Decision::Accepted(_)), accepted);
        true
    }

    fn compare(&mut self) {
        self.calendar.advance(Time::from_ns(self.now)).unwrap();
        self.reference.release_completed(self.seconds());
        if self.reference.closest <= CLOSE {
            return;
        }
        let ours = self.calendar.flows();
        assert_eq!(ours.len(), self.reference.flows.len());
        for (ours, theirs) in ours.iter().zip(&self.reference.flows) {
            assert_eq!(ours.flow.as_str(), format!("f{}", theirs.name));
            let difference = ours.rate.as_bit_per_s() as f64 - theirs.alloc;
            assert!(
                difference.abs() < 1e-6 * WIDE.capacity_bps as f64,
                "{ours:?} {}",
                theirs.alloc
            );
        }
    }
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn every_decision_and_rate_is_that_of_the_pseudocode(
        network in networks(WIDE),
        policy in policies(),
        steps in modelled_steps(60),
    ) {
        let mut pair = Pair::new(network, policy);
        for step in &steps {
            if !pair.step(step) {
                break;
            }
        }
    }
}
