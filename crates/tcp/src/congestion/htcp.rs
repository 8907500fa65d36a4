//! H-TCP (Leith and Shorten, PFLDnet 2004; draft-leith-tcp-htcp-06), as in Linux.
//!
//! The increase per round trip grows with the time since the last congestion: alpha(D) = 1 for
//! the first second, then 1 + 10 (D - 1) + ((D - 1) / 2)^2; what is kept after a loss is the ratio
//! of least and greatest round-trip time within 0.5 and 0.8, and a half when the throughput
//! changed by more than a fifth since the congestion before; alpha is scaled by 2 (1 - beta) and
//! by RTT / 100 ms within 0.1 and 2, and is never below one before that. Departures from
//! Linux: alpha is not cut to a whole number; the throughput is the greatest delivery rate of the
//! epoch rather than a count of its own.

use weir_units::Time;

use super::loss_based::{LEAST_THRESHOLD, Law};
use super::window::Window;
use super::{AckSample, Signal};

/// After this time without congestion the increase begins to grow.
const LOW_SPEED: Time = Time::from_ms(1_000);
const BETA_LEAST: f64 = 0.5;
const BETA_MOST: f64 = 0.8;
/// Paths shorter than this do not adapt what is kept.
const ADAPTS_FROM: Time = Time::from_ms(10);
/// The greatest delay does not jump by more than this at once.
const JUMP: Time = Time::from_ms(20);

#[derive(Debug)]
pub(super) struct Htcp {
    beta: f64,
    last_congestion: Option<Time>,
    least_rtt: Option<Time>,
    greatest_rtt: Time,
    /// Greatest delivery rates of this epoch and of the one before, in bit/s.
    rate: u64,
    last_rate: u64,
    /// Whether an epoch without a change of throughput came before.
    settled: bool,
    credit: f64,
}

impl Default for Htcp {
    fn default() -> Self {
        Self {
            beta: BETA_LEAST,
            last_congestion: None,
            least_rtt: None,
            greatest_rtt: Time::ZERO,
            rate: 0,
            last_rate: 0,
            settled: false,
            credit: 0.0,
        }
    }
}

impl Htcp {
    /// Segments by which the window grows per round trip, `since` after the last congestion.
    fn alpha(&self, since: Time) -> f64 {
        let beyond = since.saturating_sub(LOW_SPEED).as_s();
        let factor = 1.0 + 10.0 * beyond + (beyond / 2.0) * (beyond / 2.0);
        let least = self.least_rtt.map_or(0.1, Time::as_s);
        let scaled = factor * (least / 0.1).clamp(0.1, 2.0);
        // On short paths, which the scaling would make slower than Reno, Linux stops at one.
        2.0 * (1.0 - self.beta) * scaled.max(1.0)
    }

    fn update_beta(&mut self) {
        let (rate, last) = (self.rate, self.last_rate);
        (self.last_rate, self.rate) = (rate, 0);
        if rate.saturating_mul(5) < last.saturating_mul(4)
            || rate.saturating_mul(5) > last.saturating_mul(6)
        {
            self.beta = BETA_LEAST;
            self.settled = false;
            return;
        }
        let least = self.least_rtt.unwrap_or_default();
        if self.settled && least > ADAPTS_FROM && self.greatest_rtt > Time::ZERO {
            let ratio = least.as_ns() as f64 / self.greatest_rtt.as_ns() as f64;
            self.beta = ratio.clamp(BETA_LEAST, BETA_MOST);
        } else {
            self.beta = BETA_LEAST;
            self.settled = true;
        }
    }
}

impl Law for Htcp {
    const NAME: &'static str = "htcp";

    fn observe(&mut self, _window: &mut Window, sample: &AckSample) -> Option<u64> {
        self.last_congestion.get_or_insert(sample.now);
        if let Some(rate) = sample.delivery_rate {
            self.rate = self.rate.max(rate.as_bit_per_s());
        }
        let rtt = sample.rtt?;
        let least = self.least_rtt.map_or(rtt, |least| least.min(rtt));
        self.least_rtt = Some(least);
        if !sample.in_recovery {
            self.greatest_rtt = self.greatest_rtt.max(least);
            if sample.srtt <= self.greatest_rtt.saturating_add(JUMP) {
                self.greatest_rtt = self.greatest_rtt.max(sample.srtt);
            }
        }
        None
    }

    fn avoid(&mut self, window: &mut Window, sample: &AckSample, acked: u64) {
        let start = self.last_congestion.unwrap_or(sample.now);
        let alpha = self.alpha(sample.now.saturating_sub(start));
        // At most what was acknowledged: slow start is fast enough.
        let share = (acked as f64 / window.segments() as f64).min(1.0);
        self.credit += (share * alpha).min(acked as f64);
        if self.credit >= 1.0 {
            let whole = self.credit as u64;
            self.credit -= whole as f64;
            window.set_segments(window.segments().saturating_add(whole));
        }
    }

    fn reduce(&mut self, window: &mut Window, _signal: Signal, now: Time) {
        self.last_congestion = Some(now);
        self.credit = 0.0;
        self.update_beta();
        // The greatest delay is forgotten slowly.
        if let Some(least) = self.least_rtt {
            let excess = self.greatest_rtt.saturating_sub(least).as_ns();
            self.greatest_rtt = least.saturating_add(Time::from_ns(excess / 100 * 95));
        }
        let kept = (window.segments() as f64 * self.beta) as u64;
        window.set_threshold(kept.max(LEAST_THRESHOLD));
        window.set_segments(kept.max(LEAST_THRESHOLD));
    }

    fn forget(&mut self) {
        // Linux, too, begins the round-trip times and the throughput afresh after a timeout.
        *self = Self { last_congestion: self.last_congestion, ..Self::default() };
    }

    fn after_idle(&mut self, now: Time, _idle: Time) {
        self.last_congestion = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Pipe, Rig};
    use super::*;

    #[test]
    fn the_increase_follows_the_polynomial() {
        let htcp = Htcp { least_rtt: Some(Time::from_ms(100)), ..Htcp::default() };
        // At beta 1/2 and 100 ms both factors are one.
        for (since_ms, alpha) in [(0, 1.0), (1_000, 1.0), (2_000, 11.25), (5_000, 45.0)] {
            let got = htcp.alpha(Time::from_ms(since_ms));
            assert!((got - alpha).abs() < 1e-9, "{since_ms} ms: {got}");
        }
        let htcp = Htcp { beta: 0.8, least_rtt: Some(Time::from_ms(50)), ..Htcp::default() };
        assert!((htcp.alpha(Time::from_ms(2_000)) - 11.25 * 0.4 * 0.5).abs() < 1e-9);
    }

    #[test]
    fn on_short_paths_the_increase_is_that_of_reno_at_least() {
        let htcp = Htcp { least_rtt: Some(Time::from_ms(1)), ..Htcp::default() };
        // A tenth of the polynomial, and never below one.
        for (since_ms, alpha) in [(500, 1.0), (2_000, 1.125), (5_000, 4.5)] {
            let got = htcp.alpha(Time::from_ms(since_ms));
            assert!((got - alpha).abs() < 1e-9, "{since_ms} ms: {got}");
        }
    }

    #[test]
    fn the_window_is_the_integral_of_the_increase() {
        // dW/dt = alpha(t) / RTT, from the loss on.
        let mut rig = Rig::new("htcp", Pipe::new(100_000, 100, 100_000));
        rig.set(2_000, 1_000);
        rig.control.on_congestion(Signal::Loss, Time::ZERO, 0);
        rig.run_until(Time::from_ms(6_100));
        let beyond = 5.0f64;
        let integral = 6.0 + 10.0 * beyond.powi(2) / 2.0 + beyond.powi(3) / 12.0;
        let expected = 1_000.0 + integral / 0.1;
        let window = rig.segments();
        assert!((window / expected - 1.0).abs() < 0.02, "{window} against {expected}");
    }

    #[test]
    fn what_is_kept_is_the_ratio_of_the_delays() {
        let mut htcp = Htcp {
            least_rtt: Some(Time::from_ms(60)),
            greatest_rtt: Time::from_ms(100),
            settled: true,
            rate: 100,
            last_rate: 100,
            ..Htcp::default()
        };
        let mut window = Window::new(1_448, 1_448_000);
        htcp.reduce(&mut window, Signal::Loss, Time::ZERO);
        assert_eq!(window.segments(), 600);
        // Half as much throughput as before: a half.
        htcp.rate = 50;
        htcp.reduce(&mut window, Signal::Loss, Time::ZERO);
        assert_eq!(window.segments(), 300);
    }
}
