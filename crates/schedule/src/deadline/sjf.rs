use weir_units::Time;

use super::{Decision, Flow, Policy, first_by};

/// Shortest remaining first: the least mean completion time (Schrage 1968); deadlines ignored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sjf;

impl Policy for Sjf {
    fn decide(&mut self, _now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        decision.clear();
        if let Some(first) = first_by(flows, |flow| (flow.remaining, flow.id)) {
            decision.serve(first, slot, Time::MAX);
        }
    }
}
