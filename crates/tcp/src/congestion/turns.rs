//! One control after another on the same connection, as `setsockopt(TCP_CONGESTION)` has it.
//!
//! What Linux does then: the window stays, the control's own memory is lost, BBR takes away the
//! slow-start threshold, and a connection that was ever paced stays so: at twice the window in a
//! round trip in slow start and 1.2 times after it, or at `SO_MAX_PACING_RATE` where that is less.

use std::collections::VecDeque;

use weir_random::Random;
use weir_units::{Bytes, Rate, Time};

use super::{AckSample, Algorithm, CongestionControl, Control, EcnUse, Signal};

/// What a connection is under from some instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Since the connection began.
    pub after: Time,
    /// The control; the one in use goes on where it has the same name.
    pub algorithm: Algorithm,
    /// At most so fast; `None` is unpaced.
    pub rate: Option<Rate>,
}

/// Takes turns.
#[derive(Debug)]
pub struct Turns {
    control: Box<dyn CongestionControl>,
    /// Those to come, each with its instant.
    left: VecDeque<(Time, Turn)>,
    rate: Option<Rate>,
    is_paced: bool,
    mss: u32,
    srtt: Time,
    random: Random,
}

impl Turns {
    /// Begins with `control` at `now`; segments carry `mss` bytes, `random` is for the others.
    pub fn new(
        control: Box<dyn CongestionControl>,
        turns: &[Turn],
        mss: u32,
        now: Time,
        random: Random,
    ) -> Self {
        let left = turns.iter().map(|turn| (now.saturating_add(turn.after), *turn)).collect();
        let is_paced = control.pacing_rate().is_some();
        Self { control, left, rate: None, is_paced, mss, srtt: Time::ZERO, random }
    }

    fn turn(&mut self, now: Time) {
        while let Some(&(at, turn)) = self.left.front()
            && at <= now
        {
            self.left.pop_front();
            self.rate = turn.rate;
            self.is_paced |= turn.rate.is_some();
            if turn.algorithm.control.name() != self.control.name() {
                self.change(turn.algorithm, now);
            }
        }
    }

    fn change(&mut self, algorithm: Algorithm, now: Time) {
        let window = self.control.window();
        let has_none = matches!(algorithm.control, Control::Bbr | Control::Bbr3);
        let threshold = if has_none { u64::MAX } else { self.control.slow_start_threshold() };
        self.control = algorithm.build(self.mss, window, now, self.random.clone());
        self.control.set_window(window, threshold);
        if self.srtt > Time::ZERO {
            self.control.on_established(now, self.srtt);
        }
        self.is_paced |= has_none;
    }

    /// Linux's `tcp_update_pacing_rate`.
    fn kernels_rate(&self) -> Option<Rate> {
        if !self.is_paced || self.srtt == Time::ZERO {
            return None;
        }
        let window = self.control.window();
        let is_slow_start = window < self.control.slow_start_threshold() / 2;
        let percent = if is_slow_start { 200 } else { 120 };
        let bits = u128::from(window) * 8 * percent / 100;
        let rate = bits * 1_000_000_000 / u128::from(self.srtt.as_ns());
        Some(Rate::from_bit_per_s(u64::try_from(rate).unwrap_or(u64::MAX)))
    }
}

impl CongestionControl for Turns {
    fn name(&self) -> &'static str {
        self.control.name()
    }

    fn on_established(&mut self, now: Time, rtt: Time) {
        self.srtt = rtt;
        self.control.on_established(now, rtt);
    }

    fn on_send(&mut self, now: Time, size: Bytes, in_flight: u64) {
        self.turn(now);
        self.control.on_send(now, size, in_flight);
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.srtt = sample.srtt;
        self.turn(sample.now);
        // What a pace holds back has not filled its window.
        let is_full = sample.prior_in_flight + 2 * u64::from(self.mss) >= self.control.window();
        let is_cwnd_limited = sample.is_cwnd_limited && (is_full || !self.is_paced);
        self.control.on_ack(&AckSample { is_cwnd_limited, ..*sample });
    }

    fn on_congestion(&mut self, signal: Signal, now: Time, in_flight: u64) {
        self.turn(now);
        self.control.on_congestion(signal, now, in_flight);
    }

    fn on_recovery_exit(&mut self, now: Time) {
        self.control.on_recovery_exit(now);
    }

    fn on_spurious(&mut self, now: Time) {
        self.control.on_spurious(now);
    }

    fn on_restart(&mut self, now: Time, idle: Time) {
        self.control.on_restart(now, idle);
    }

    fn window(&self) -> u64 {
        self.control.window()
    }

    fn slow_start_threshold(&self) -> u64 {
        self.control.slow_start_threshold()
    }

    fn set_window(&mut self, window: u64, slow_start_threshold: u64) {
        self.control.set_window(window, slow_start_threshold);
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let rate = self.control.pacing_rate().or_else(|| self.kernels_rate());
        match (rate, self.rate) {
            (Some(rate), Some(most)) => Some(rate.min(most)),
            (rate, most) => rate.or(most),
        }
    }

    fn wants_prr(&self) -> bool {
        self.control.wants_prr()
    }

    fn retransmits_ecn_capable(&self) -> bool {
        self.control.retransmits_ecn_capable()
    }

    fn ecn(&self) -> EcnUse {
        self.control.ecn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64) -> AckSample {
        AckSample {
            now: Time::from_ns(at_ms * 1_000_000),
            acked: 1_000,
            lost: 0,
            marked: 0,
            rtt: Some(Time::from_ns(50_000_000)),
            srtt: Time::from_ns(50_000_000),
            min_rtt: Time::from_ns(50_000_000),
            prior_in_flight: 100_000,
            in_flight: 99_000,
            delivered: 1_000 * at_ms,
            prior_delivered: 1_000 * at_ms.saturating_sub(50),
            delivery_rate: Some(Rate::from_bit_per_s(16_000_000)),
            is_app_limited: false,
            advances: true,
            is_cwnd_limited: false,
            in_recovery: false,
        }
    }

    fn turns(list: &[(u64, &str, Option<u64>)]) -> Turns {
        let random = || Random::of_source(1, &["turns"]);
        let first = "cubic:cwv=none".parse::<Algorithm>().unwrap();
        let turns: Vec<Turn> = list
            .iter()
            .map(|&(ms, name, rate)| Turn {
                after: Time::from_ns(ms * 1_000_000),
                algorithm: name.parse().unwrap(),
                rate: rate.map(Rate::from_bit_per_s),
            })
            .collect();
        let control = first.build(1_000, 10_000, Time::ZERO, random());
        Turns::new(control, &turns, 1_000, Time::ZERO, random())
    }

    #[test]
    fn the_window_stays_and_bbr_takes_the_threshold_away() {
        let mut control = turns(&[(100, "bbr", None), (200, "cubic", None)]);
        control.on_ack(&sample(50));
        control.set_window(80_000, 60_000);
        assert_eq!((control.name(), control.pacing_rate()), ("cubic", None));
        control.on_ack(&sample(100));
        assert_eq!(control.name(), "bbr");
        assert!(control.window() >= 80_000);
        let window = control.window();
        control.on_send(Time::from_ns(200_000_000), Bytes::new(1_000), 90_000);
        assert_eq!((control.name(), control.window()), ("cubic", window));
        assert_eq!(control.slow_start_threshold(), u64::MAX);
    }

    #[test]
    fn a_window_that_a_pace_leaves_unused_does_not_grow() {
        let grown = |rate| {
            let mut control = turns(&[(100, "cubic", rate)]);
            control.set_window(300_000, 300_000);
            for ms in 100..2_000 {
                control.on_ack(&AckSample { is_cwnd_limited: true, ..sample(ms) });
            }
            control.window()
        };
        assert_eq!(grown(Some(5_000_000)), 300_000);
        assert!(grown(None) > 300_000);
    }

    #[test]
    fn who_was_paced_once_stays_so_at_what_the_kernel_paces_at() {
        let mut control = turns(&[(100, "cubic", Some(5_000_000)), (200, "cubic", None)]);
        control.set_window(50_000, 50_000);
        control.on_ack(&sample(100));
        assert_eq!(control.pacing_rate(), Some(Rate::from_bit_per_s(5_000_000)));
        control.on_ack(&sample(200));
        control.set_window(50_000, 50_000);
        // 1.2 x 50 000 bytes in 50 ms.
        assert_eq!(control.pacing_rate(), Some(Rate::from_bit_per_s(9_600_000)));
        control.set_window(50_000, 200_000);
        assert_eq!(control.pacing_rate(), Some(Rate::from_bit_per_s(16_000_000)));
    }
}
