//! New-CWV (RFC 7661) around any control that grows a window.
//!
//! A window is validated while at least half of it was used (`pipeACK`, the most acknowledged in
//! a round trip within the last three, or within a second). A window that is not stays as it is,
//! through idleness too; on congestion it falls to half of what was really used, less what had to
//! be sent again; after five minutes it is halved. Choices that the RFC leaves open: a classic echo
//! counts as congestion, with nothing sent again; while the window is not validated it is paced
//! over a round trip (section 4.4.2).

use weir_units::{Bytes, Rate, Time};

use super::max_filter::MaxFilter;
use super::{AckSample, CongestionControl, EcnUse, Signal};

/// Non-validated period (section 4.4.3).
const NONVALIDATED_LASTS: Time = Time::from_ms(300_000);
/// Least period over which `pipeACK` is the maximum (section 4.2).
const SAMPLES_LAST: Time = Time::from_ms(1_000);

/// A repair that began while the window was not validated.
#[derive(Clone, Copy, Debug)]
struct Repair {
    /// The larger of `pipeACK` and what was in flight when the loss was found.
    used: u64,
    lost: u64,
}

#[derive(Debug)]
pub(super) struct Validated {
    inner: Box<dyn CongestionControl>,
    mss: u64,
    initial_window: u64,
    pipe: MaxFilter,
    is_measured: bool,
    round_acked: u64,
    round_until: u64,
    srtt: Time,
    nonvalidated_since: Option<Time>,
    repair: Option<Repair>,
}

impl Validated {
    pub(super) fn new(inner: Box<dyn CongestionControl>, mss: u32, initial_window: u64) -> Self {
        Self {
            inner,
            mss: u64::from(mss).max(1),
            initial_window,
            pipe: MaxFilter::default(),
            is_measured: false,
            round_acked: 0,
            round_until: 0,
            srtt: Time::ZERO,
            nonvalidated_since: None,
            repair: None,
        }
    }

    fn is_validated(&self) -> bool {
        !self.is_measured || self.pipe.get() >= self.inner.window() / 2
    }

    fn forget(&mut self) {
        self.pipe = MaxFilter::default();
        self.is_measured = false;
        self.nonvalidated_since = None;
        self.round_acked = 0;
    }

    fn measure(&mut self, sample: &AckSample) {
        self.srtt = sample.srtt;
        self.round_acked = self.round_acked.saturating_add(sample.acked);
        if sample.prior_delivered < self.round_until {
            return;
        }
        let acked = std::mem::take(&mut self.round_acked);
        self.round_until = sample.delivered;
        if sample.in_recovery {
            return;
        }
        let period = Time::from_ns(sample.srtt.as_ns().saturating_mul(3)).max(SAMPLES_LAST);
        self.pipe.update(sample.now.as_ns(), acked, period.as_ns());
        self.is_measured = true;
    }

    fn note_phase(&mut self, now: Time) {
        if self.is_validated() {
            self.nonvalidated_since = None;
        } else {
            self.nonvalidated_since.get_or_insert(now);
        }
    }

    fn put(&mut self, window: u64) {
        let window = window.max(self.mss);
        self.inner.set_window(window, window);
    }
}

impl CongestionControl for Validated {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_established(&mut self, now: Time, rtt: Time) {
        self.inner.on_established(now, rtt);
    }

    fn on_send(&mut self, now: Time, size: Bytes, in_flight: u64) {
        if let Some(since) = self.nonvalidated_since
            && now.saturating_sub(since) > NONVALIDATED_LASTS
        {
            let window = self.inner.window();
            let threshold = self.inner.slow_start_threshold().max(window / 4 * 3);
            self.inner.set_window((window / 2).max(self.initial_window), threshold);
            self.nonvalidated_since = Some(now);
        }
        self.inner.on_send(now, size, in_flight);
    }

    fn on_ack(&mut self, sample: &AckSample) {
        if let Some(repair) = &mut self.repair {
            repair.lost = repair.lost.saturating_add(sample.lost);
        }
        self.measure(sample);
        let is_frozen = !self.is_validated() && !sample.is_cwnd_limited;
        let (window, threshold) = (self.inner.window(), self.inner.slow_start_threshold());
        self.inner.on_ack(sample);
        if is_frozen && self.inner.window() > window {
            self.inner.set_window(window, threshold);
        }
        self.note_phase(sample.now);
    }

    fn on_congestion(&mut self, signal: Signal, now: Time, in_flight: u64) {
        let is_validated = self.is_validated();
        let used = self.pipe.get().max(in_flight);
        let window = self.inner.window();
        self.inner.on_congestion(signal, now, in_flight);
        if signal == Signal::Timeout {
            self.repair = None;
            self.forget();
        } else if !is_validated && self.inner.window() < window {
            self.put(used / 2);
            if signal == Signal::Loss {
                self.repair = Some(Repair { used, lost: 0 });
            } else {
                self.forget();
            }
        }
    }

    fn on_recovery_exit(&mut self, now: Time) {
        self.inner.on_recovery_exit(now);
        if let Some(repair) = self.repair.take() {
            self.put(repair.used.saturating_sub(repair.lost) / 2);
            self.forget();
        }
    }

    fn on_spurious(&mut self, now: Time) {
        self.repair = None;
        self.inner.on_spurious(now);
    }

    fn on_restart(&mut self, now: Time, idle: Time) {
        self.inner.on_restart(now, idle);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn slow_start_threshold(&self) -> u64 {
        self.inner.slow_start_threshold()
    }

    fn set_window(&mut self, window: u64, slow_start_threshold: u64) {
        self.inner.set_window(window, slow_start_threshold);
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let own = self.inner.pacing_rate();
        if own.is_some() || self.srtt == Time::ZERO || self.is_validated() {
            return own;
        }
        let rate = self.inner.window() as f64 * 8e9 / self.srtt.as_ns() as f64;
        Some(Rate::from_bit_per_s((rate as u64).max(1)))
    }

    fn wants_prr(&self) -> bool {
        self.inner.wants_prr()
    }

    fn retransmits_ecn_capable(&self) -> bool {
        self.inner.retransmits_ecn_capable()
    }

    fn ecn(&self) -> EcnUse {
        self.inner.ecn()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{MSS, Pipe, Rig};
    use super::*;

    /// Writes `segments` every 100 ms for `seconds`.
    fn trickle(rig: &mut Rig, segments: u64, seconds: u64) {
        let start = rig.now;
        for step in 1..=10 * seconds {
            rig.to_send = segments * u64::from(MSS);
            rig.run_until(start + Time::from_ms(100 * step));
        }
    }

    fn limited(name: &str) -> Rig {
        let mut rig = Rig::new(name, Pipe::new(10_000, 50, 10_000));
        rig.set(100, 50);
        trickle(&mut rig, 20, 3);
        rig
    }

    #[test]
    fn a_window_that_is_not_used_neither_grows_nor_decays() {
        for name in ["reno:cwv=rfc7661", "cubic:cwv=rfc7661"] {
            let mut rig = limited(name);
            assert_eq!(rig.segments(), 100.0, "{name}");
            rig.control.on_restart(rig.now + Time::from_ms(60_000), Time::from_ms(60_000));
            assert_eq!(rig.segments(), 100.0, "{name}");
            let rate = rig.control.pacing_rate().unwrap().as_bit_per_s() as f64;
            assert!((rate / (100.0 * 1_448.0 * 8.0 / 0.05) - 1.0).abs() < 0.02, "{rate}");
        }
        // Older validation does not let it stand.
        assert!(limited("reno").segments() < 60.0);
    }

    #[test]
    fn a_loss_takes_it_to_half_of_what_was_used() {
        let mut rig = limited("reno:cwv=rfc7661");
        rig.control.on_congestion(Signal::Loss, rig.now, 5 * u64::from(MSS));
        assert_eq!(rig.segments(), 10.0, "half of 20 acknowledged in a round trip");
        rig.control.on_recovery_exit(rig.now);
        assert_eq!(rig.segments(), 10.0);
        // In flight more than was ever acknowledged in a round trip, and some of it lost.
        let mut rig = limited("reno:cwv=rfc7661");
        rig.control.on_congestion(Signal::Loss, rig.now, 30 * u64::from(MSS));
        assert_eq!(rig.segments(), 15.0);
        rig.control.on_recovery_exit(rig.now);
        assert_eq!(rig.control.slow_start_threshold(), 15 * u64::from(MSS));
        // A used window falls as the control has it.
        let mut rig = Rig::new("reno:cwv=rfc7661", Pipe::new(10_000, 50, 10_000));
        rig.set(100, 50);
        rig.run_until(Time::from_ms(500));
        let window = rig.segments();
        rig.control.on_congestion(Signal::Loss, rig.now, 0);
        assert_eq!(rig.segments(), (window / 2.0).floor());
    }

    /// Whether the window is not validated: only then Reno is paced.
    fn is_nonvalidated(rig: &Rig) -> bool {
        rig.control.pacing_rate().is_some()
    }

    #[test]
    fn half_of_the_window_validates_it() {
        // 004-spec section 4.8: pipeACK >= cwnd / 2.
        for (used, is_validated) in [(80, true), (50, true), (49, false), (5, false)] {
            let mut rig = Rig::new("reno:cwv=rfc7661", Pipe::new(10_000, 50, 10_000));
            rig.set(100, 50);
            trickle(&mut rig, used, 3);
            rig.set(100, 50);
            trickle(&mut rig, used, 3);
            assert_eq!(is_nonvalidated(&rig), !is_validated, "{used} of 100 segments");
        }
    }

    #[test]
    fn what_was_sent_again_is_taken_off_and_then_nothing_is_known() {
        // 004-spec section 14.1 test 13: (max(pipeACK, LossFlight) - R) / 2, pipeACK undefined.
        for (in_flight, lost, expected) in [(5, 0, 10.0), (5, 4, 8.0), (30, 10, 10.0), (5, 30, 1.0)]
        {
            let mut rig = limited("reno:cwv=rfc7661");
            assert!(is_nonvalidated(&rig));
            rig.control.on_congestion(Signal::Loss, rig.now, in_flight * u64::from(MSS));
            let sample = AckSample {
                now: rig.now,
                acked: 0,
                lost: lost * u64::from(MSS),
                marked: 0,
                rtt: None,
                srtt: Time::from_ms(50),
                min_rtt: Time::from_ms(50),
                prior_in_flight: 0,
                in_flight: 0,
                delivered: rig.delivered,
                prior_delivered: 0,
                delivery_rate: None,
                is_app_limited: true,
                advances: true,
                is_cwnd_limited: false,
                in_recovery: true,
            };
            rig.control.on_ack(&sample);
            rig.control.on_recovery_exit(rig.now);
            assert_eq!(rig.segments(), expected, "{in_flight} in flight, {lost} sent again");
            assert!(!is_nonvalidated(&rig), "undefined counts as validated");
        }
    }

    #[test]
    fn after_five_minutes_it_is_halved() {
        let mut rig = limited("reno:cwv=rfc7661");
        trickle(&mut rig, 10, 299);
        assert_eq!(rig.segments(), 50.0);
        assert_eq!(rig.control.slow_start_threshold(), 75 * u64::from(MSS));
    }
}
