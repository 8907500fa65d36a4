use weir_units::Time;

use super::{Decision, Flow, Policy, first_by};

/// Least slack time first: the flow with the smallest cushion. Optimal when everything can be on
/// time, as EDF is (Mok 1983), with many more preemptions: flows of equal cushion take turns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lst;

impl Policy for Lst {
    fn decide(&mut self, now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        decision.clear();
        if let Some(first) = first_by(flows, |flow| (flow.cushion(now), flow.id)) {
            // A slot in service keeps the cushion; all others lose a slot of theirs, and one of
            // them may be smallest next.
            decision.serve(first, slot, slot);
        }
    }
}
