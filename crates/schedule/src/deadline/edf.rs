use weir_units::Time;

use super::{Decision, Flow, Policy, first_by};

/// Earliest deadline first: finishes every flow on time whenever that is possible at all
/// (Jackson 1955; preemptive with release times, Horn 1974), and collapses when it is not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edf;

impl Policy for Edf {
    fn decide(&mut self, _now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        decision.clear();
        if let Some(first) = first_by(flows, |flow| (flow.deadline, flow.id)) {
            decision.serve(first, slot, Time::MAX);
        }
    }
}
