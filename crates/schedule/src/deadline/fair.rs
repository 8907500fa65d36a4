use weir_units::Time;

use super::{Decision, Flow, Policy};

/// Equal shares, as RCP and TCP strive for (work 002, section 1.3.1): what processor sharing gives
/// in each slot. Deadlines are ignored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fair;

impl Policy for Fair {
    fn decide(&mut self, _now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        decision.clear();
        decision.holds = slot;
        let Ok(count @ 1..) = u64::try_from(flows.len()) else { return };
        // Rounded down to whole nanoseconds, so that the shares never exceed the slot.
        let share = Time::from_ns(slot.as_ns() / count);
        if share == Time::ZERO {
            return;
        }
        let shares = flows.iter().map(|flow| flow.remaining.min(share));
        decision.service.extend(shares.enumerate());
    }
}
