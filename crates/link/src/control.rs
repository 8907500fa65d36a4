//! Congestion control of lossless subnets: congested ports mark, sources slow down, and a manager
//! turns marking on where somebody suffers who does not use the congested port.
//!
//! InfiniBand Architecture Specification, volume 1, annex A10. A switch port whose packets fill
//! more than a share of an input buffer marks packets that leave by it (FECN); where a marked one
//! arrives, word goes back to its source (BECN), which leaves a pause after each packet, a longer
//! one the more it was told of, and shortens it again as time passes.
//!
//! The manager is DCMS as far as work 000 describes it (000-spec 2.8): at regular instants it looks
//! at what ports have counted. A port that was congested since the last look, while a port that
//! leads to it waited for credits and carried something that goes elsewhere, marks all that it can
//! from then on; the victim is what goes elsewhere. It goes back to its own rate of marking when it
//! was not congested from one look to the next. The text has it go back when there is no victim any
//! more; but marking is what frees the victim, so that the two would take turns.
//!
//! Simpler than the annex: a source's port slows down as a whole (its mode of service levels, not
//! of queue pairs), word needs no packet and only the delays of the links, and the table of pauses
//! is one for all.

use serde::{Deserialize, Serialize};
use weir_units::Time;

/// How often a pause grows at most (`CCTI_Limit`).
const LIMIT: u64 = 511;
/// After how long a pause shrinks by one step (`CCTI_Timer`: 20 of its 1.024 µs). Ten
/// are too few for the network of 000-spec figure 2.1, where the victim then waits again; with
/// fifty the port idles a ninth of the time.
const STEP: Time = Time::from_ns(20_480);
/// A pause is as long as its packet takes, times the square of its step over this: at the limit a
/// 256th of the rate is left.
const UNIT: u64 = 1_024;

/// How a port marks. Keys end in their unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ControlConfig {
    /// While it is congested, how many packets it lets pass between two that it marks
    /// (`Marking_Rate`); none is marked if absent.
    #[serde(default)]
    pub marking_rate: Option<u16>,
    /// How often a manager looks, which may have it mark every packet; there is none if absent.
    #[serde(default)]
    pub manager_ns: Option<u64>,
}

/// What goes with a packet through the subnet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tag {
    /// The port where it began its way.
    pub(crate) source: usize,
    /// How long word of it takes back there.
    pub(crate) back: Time,
    /// FECN.
    pub(crate) is_marked: bool,
}

/// How much a source's port slows down.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Throttle {
    /// Which pause it makes (`CCTI`), as of `since`.
    step: u64,
    since: Time,
    /// Until when the pause after the last packet goes on.
    until: Time,
}

impl Throttle {
    pub(crate) fn may_send(&self, now: Time) -> bool {
        self.until <= now
    }

    /// Word has come of one of its packets that was marked.
    pub(crate) fn told(&mut self, now: Time) {
        self.relax(now);
        self.step = (self.step + 1).min(LIMIT);
    }

    /// A packet left from `begin` to `end`; until when the next has to wait.
    pub(crate) fn sent(&mut self, begin: Time, end: Time) -> Time {
        self.relax(begin);
        let pause = (end - begin).as_ns().saturating_mul(self.step * self.step) / UNIT;
        self.until = end.saturating_add(Time::from_ns(pause));
        self.until
    }

    fn relax(&mut self, now: Time) {
        let steps = now.saturating_sub(self.since).as_ns() / STEP.as_ns();
        self.step = self.step.saturating_sub(steps);
        // Steps are counted from the word that began a pause.
        self.since = match self.step {
            0 => now,
            _ => self.since.saturating_add(Time::from_ns(steps * STEP.as_ns())),
        };
    }
}

/// Whether a port is to mark every packet after a look, if it did so before, it was congested since
/// the last look, and somebody suffered.
pub(crate) fn marks_all(did: bool, was_congested: bool, has_victim: bool) -> bool {
    was_congested && (did || has_victim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Time = Time::from_ns(2_048);

    #[test]
    fn the_rate_is_one_over_one_and_a_1024th_of_the_steps_square() {
        for steps in [0u64, 1, 32, 45, 511, 600] {
            let mut throttle = Throttle::default();
            (0..steps).for_each(|_| throttle.told(Time::ZERO));
            let until = throttle.sent(Time::ZERO, SPAN);
            let step = steps.min(511) as f64;
            let expected = SPAN.as_ns() as f64 * (1.0 + step * step / 1024.0);
            assert!((until.as_ns() as f64 - expected).abs() < 1.0, "{steps}: {until}");
            assert!(!throttle.may_send(until - Time::from_ns(1)) && throttle.may_send(until));
        }
    }

    #[test]
    fn a_step_is_taken_back_each_20_us_however_often_one_looks() {
        let (mut seldom, mut often) = (Throttle::default(), Throttle::default());
        (0..40)
            .for_each(|_| [&mut seldom, &mut often].into_iter().for_each(|t| t.told(Time::ZERO)));
        for us in 1..500 {
            often.sent(Time::from_us(us), Time::from_us(us));
        }
        let at = Time::from_us(501);
        assert_eq!(seldom.sent(at, at + SPAN), often.sent(at, at + SPAN));
        // 501 µs are 24 steps of 20.48.
        let expected = SPAN.as_ns() + SPAN.as_ns() * 16 * 16 / 1_024;
        assert_eq!(seldom.until - at, Time::from_ns(expected));
        assert_eq!(seldom.sent(Time::from_ms(10), Time::from_ms(11)), Time::from_ms(11));
    }

    #[test]
    fn a_port_marks_for_a_victim_and_as_long_as_it_is_congested() {
        assert!(marks_all(false, true, true) && marks_all(true, true, false));
        assert!(!marks_all(false, true, false) && !marks_all(true, false, true));
    }
}
