use weir_units::Time;

use super::{Decision, Flow, Policy, first_by};

/// First come, first served.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fcfs;

impl Policy for Fcfs {
    fn decide(&mut self, _now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        decision.clear();
        if let Some(first) = first_by(flows, |flow| (flow.arrival, flow.id)) {
            decision.serve(first, slot, Time::MAX);
        }
    }
}
