use weir_units::Time;

use super::{Decision, Flow, Policy, first_by};

/// PDQ on one link (Hong, Caesar, Godfrey, SIGCOMM 2012, as modelled in work 002, section 2.2):
/// earliest deadline first, of equal ones the shorter, preemptive. Its early termination is the
/// world's removal of hopeless flows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pdq;

impl Policy for Pdq {
    fn decide(&mut self, _now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        decision.clear();
        if let Some(first) = first_by(flows, |flow| (flow.deadline, flow.remaining, flow.id)) {
            decision.serve(first, slot, Time::MAX);
        }
    }
}
