//! Compound TCP (draft-sridharan-tcpm-ctcp-02; Tan et al., INFOCOM 2006).
//!
//! The window is Reno's plus a delay window, which grows by W^(3/4) / 8 - 1 segments per round
//! trip while fewer than 30 segments are estimated to wait on the path, and gives way by as many
//! as wait otherwise. Below 41 segments it is Reno. On a loss the delay window becomes what makes
//! the whole fall by half. Departure: gamma is fixed, not tuned by the path (section 3.4's
//! "Tuning gamma" left out); the round-trip time is the mean of a round's samples.

use weir_units::Time;

use super::loss_based::{LEAST_THRESHOLD, Law};
use super::window::Window;
use super::{AckSample, Signal};

/// Segments that may wait on the path before the delay window gives way.
const GAMMA: f64 = 30.0;
/// Smallest window, in segments, that has a delay window.
const LOW_WINDOW: u64 = 41;

#[derive(Debug, Default)]
pub(super) struct Ctcp {
    /// Segments of the window that are the delay window.
    delay_window: u64,
    base_rtt: Option<Time>,
    /// Sum of this round's round-trip times in ns, and their number.
    rtts: (u64, u64),
    round_until: u64,
}

impl Ctcp {
    /// Segments more, or fewer, of delay window after a round trip of mean `rtt`.
    fn change(&self, window: u64, rtt: f64) -> f64 {
        let window = window as f64;
        let base = self.base_rtt.map_or(rtt, |base| base.as_ns() as f64);
        let waiting = window * (1.0 - base / rtt.max(1.0));
        if waiting < GAMMA {
            // W^(3/4) by square roots, which are the same on every machine.
            let power = window.sqrt() * window.sqrt().sqrt();
            (power / 8.0 - 1.0).max(0.0)
        } else {
            -waiting
        }
    }

    fn end_round(&mut self, window: &mut Window, may_grow: bool) {
        let (sum, count) = std::mem::take(&mut self.rtts);
        if count == 0 || window.in_slow_start() {
            return;
        }
        let change = self.change(window.segments(), sum as f64 / count as f64);
        let new = if window.segments() < LOW_WINDOW {
            0
        } else if change < 0.0 || may_grow {
            (self.delay_window as f64 + change).max(0.0) as u64
        } else {
            self.delay_window
        };
        let reno = window.segments().saturating_sub(self.delay_window);
        window.set_segments(reno.saturating_add(new));
        self.delay_window = new;
    }
}

impl Law for Ctcp {
    const NAME: &'static str = "ctcp";

    fn observe(&mut self, window: &mut Window, sample: &AckSample) -> Option<u64> {
        if let Some(rtt) = sample.rtt {
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
            self.rtts.0 = self.rtts.0.saturating_add(rtt.as_ns());
            self.rtts.1 += 1;
        }
        if sample.prior_delivered >= self.round_until {
            self.round_until = sample.delivered;
            if !sample.in_recovery {
                self.end_round(window, sample.is_cwnd_limited);
            }
        }
        None
    }

    fn avoid(&mut self, window: &mut Window, _sample: &AckSample, acked: u64) {
        window.grow_one_per(window.segments(), acked);
    }

    fn reduce(&mut self, window: &mut Window, _signal: Signal, _now: Time) {
        let whole = window.segments();
        let reno = whole.saturating_sub(self.delay_window) / 2;
        self.delay_window = (whole / 2).saturating_sub(reno);
        let kept = (reno + self.delay_window).max(LEAST_THRESHOLD);
        window.set_threshold(kept);
        window.set_segments(kept);
    }

    fn forget(&mut self) {
        self.delay_window = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Pipe, Rig};
    use super::*;

    #[test]
    fn the_delay_window_follows_its_law() {
        let ctcp = Ctcp { base_rtt: Some(Time::from_ms(100)), ..Ctcp::default() };
        // 10 000^(3/4) / 8 - 1 with an empty queue.
        assert!((ctcp.change(10_000, 100e6) - 124.0).abs() < 1e-9);
        assert_eq!(ctcp.change(16, 100e6), 0.0);
        // A fifth of the window waits, which is more than gamma.
        assert!((ctcp.change(200, 125e6) + 40.0).abs() < 1e-9);
        assert!(ctcp.change(140, 125e6) > 0.0);
    }

    #[test]
    fn small_windows_are_renos() {
        let run = |name| {
            let mut pipe = Pipe::new(10_000, 20, 1_000);
            pipe.lose_every = Some(500);
            let mut rig = Rig::new(name, pipe).tracing(Time::from_ms(20));
            rig.set(20, 10);
            rig.run_until(Time::from_ms(20_000));
            rig.trace.iter().map(|p| p.window).collect::<Vec<_>>()
        };
        assert!(run("ctcp") == run("reno"));
    }

    #[test]
    fn large_windows_grow_faster_than_renos_until_a_queue_builds() {
        let run = |name, pipe| {
            let mut rig = Rig::new(name, pipe);
            rig.set(400, 400);
            rig.run_until(Time::from_ms(10_000));
            (rig.segments(), rig.queue())
        };
        let (reno, _) = run("reno", Pipe::new(10_000, 100, 10_000));
        let (ctcp, _) = run("ctcp", Pipe::new(10_000, 100, 10_000));
        assert!((495.0..=505.0).contains(&reno), "{reno}");
        // dW = W^(3/4) / 8 per round trip, the Reno part included, from the second on.
        let expected = (400.0f64.powf(0.25) + 98.0 / 32.0).powi(4);
        assert!((ctcp / expected - 1.0).abs() < 0.05, "{ctcp} against {expected}");
        // Where the queue builds, it is held near gamma plus what Reno adds.
        let (_, queue) = run("ctcp", Pipe::new(100, 100, 10_000));
        assert!((10..=60).contains(&queue), "{queue} wait");
    }

    #[test]
    fn a_loss_halves_the_whole() {
        let mut ctcp = Ctcp { delay_window: 60, ..Ctcp::default() };
        let mut window = Window::new(1_448, 144_800);
        ctcp.reduce(&mut window, Signal::Loss, Time::ZERO);
        assert_eq!((window.segments(), ctcp.delay_window), (50, 30));
    }
}
