//! Reno (RFC 5681) with appropriate byte counting, as in Linux.
//!
//! Slow start opens the window by what was acknowledged (RFC 3465 with L unbounded, as Linux:
//! section 3.1 of RFC 5681 would allow one segment for each acknowledgement); congestion avoidance
//! opens it by one segment per window acknowledged (equation 3); a loss or a classic mark halves
//! it. Departure from RFC 5681 equation 4, with Linux: half of the window, not half of what was in
//! flight; both are the same where the window was in use, and an unused window does not grow.

use weir_units::Time;

use super::loss_based::{LEAST_THRESHOLD, Law};
use super::window::Window;
use super::{AckSample, Signal};

#[derive(Debug, Default)]
pub(super) struct Reno;

/// Halves the window (RFC 5681 section 3.2).
pub(super) fn halve(window: &mut Window) {
    let half = (window.segments() / 2).max(LEAST_THRESHOLD);
    window.set_threshold(half);
    window.set_segments(half);
}

impl Law for Reno {
    const NAME: &'static str = "reno";

    fn avoid(&mut self, window: &mut Window, _sample: &AckSample, acked: u64) {
        window.grow_one_per(window.segments(), acked);
    }

    fn reduce(&mut self, window: &mut Window, _signal: Signal, _now: Time) {
        halve(window);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Signal;
    use super::super::rig::{Pipe, Rig};
    use super::*;

    #[test]
    fn congestion_avoidance_adds_one_segment_per_round_trip() {
        let mut rig = Rig::new("reno", Pipe::new(10_000, 50, 10_000)).tracing(Time::from_ms(51));
        rig.set(100, 50);
        rig.run_until(Time::from_ms(51 * 20));
        for point in &rig.trace {
            let round = point.at.as_ns() / 51_000_000;
            let expected = (100 + round) * 1_448;
            assert!(point.window.abs_diff(expected) <= 1_448, "round {round}: {}", point.window);
        }
    }

    #[test]
    fn slow_start_doubles_each_round_trip() {
        let mut rig = Rig::new("reno", Pipe::new(10_000, 50, 1_000)).tracing(Time::from_ms(51));
        rig.run_until(Time::from_ms(51 * 6));
        let windows: Vec<u64> = rig.trace.iter().map(|p| p.window / 1_448).collect();
        assert_eq!(windows, [10, 20, 40, 80, 160, 320, 640]);
    }

    #[test]
    fn a_loss_halves_a_timeout_leaves_one_and_undoing_restores() {
        let mut rig = Rig::new("reno", Pipe::new(10, 50, 100));
        rig.set(100, 50);
        rig.control.on_congestion(Signal::Loss, rig.now, 0);
        assert_eq!(rig.segments(), 50.0);
        // The timeout belongs to the same loss: the threshold is not halved again.
        rig.control.on_congestion(Signal::Timeout, rig.now, 0);
        assert_eq!(rig.segments(), 1.0);
        assert_eq!(rig.control.slow_start_threshold(), 50 * 1_448);
        rig.control.on_spurious(rig.now);
        assert_eq!(rig.segments(), 100.0);
        rig.set(3, 2);
        rig.control.on_congestion(Signal::Loss, rig.now, 0);
        assert_eq!(rig.segments(), 2.0);
    }

    #[test]
    fn the_mean_window_follows_the_square_root_law() {
        // One loss every n packets: W = sqrt(3 n / 2) (Mathis et al., CCR 1997).
        for every in [1_000, 5_000, 20_000] {
            let mut pipe = Pipe::new(10_000, 20, 10_000);
            pipe.lose_every = Some(every);
            let mut rig = Rig::new("reno", pipe).tracing(Time::from_ms(7));
            rig.run_until(Time::from_ms(60_000));
            let (mean, law) = (rig.mean_window(Time::from_ms(5_000)), (1.5 * every as f64).sqrt());
            assert!((mean / law - 1.0).abs() < 0.05, "n {every}: {mean} against {law}");
        }
    }

    #[test]
    fn abe_keeps_more_after_a_mark_than_after_a_loss() {
        for (name, after_mark, after_loss) in
            [("reno:abe=0.8", 80, 50), ("cubic:abe=0.85", 85, 70), ("cubic:ecn=on", 70, 70)]
        {
            let mut rig = Rig::new(name, Pipe::new(10, 50, 100));
            rig.set(100, 50);
            rig.control.on_congestion(Signal::Ecn, rig.now, 0);
            assert_eq!(rig.segments(), f64::from(after_mark), "{name}");
            let mut rig = Rig::new(name, Pipe::new(10, 50, 100));
            rig.set(100, 50);
            rig.control.on_congestion(Signal::Loss, rig.now, 0);
            assert_eq!(rig.segments(), f64::from(after_loss), "{name}");
        }
        // 004-spec section 14.1 test 12: never less than two segments.
        for signal in [Signal::Ecn, Signal::Loss] {
            let mut rig = Rig::new("reno:abe=0.8", Pipe::new(10, 50, 100));
            rig.set(2, 1);
            rig.control.on_congestion(signal, rig.now, 0);
            assert_eq!(rig.segments(), 2.0, "{signal:?}");
        }
        // Slow start is left by the standard multiplier (RFC 8511 section 4).
        let mut rig = Rig::new("reno:abe=0.8", Pipe::new(10, 50, 100));
        rig.set(100, 200);
        rig.control.on_congestion(Signal::Ecn, rig.now, 0);
        assert_eq!(rig.segments(), 50.0);
    }

    #[test]
    fn an_unused_window_shrinks_as_linux_and_the_rfcs_have_it() {
        // Idle for 5.5 timeouts of 250 ms (50 ms and Linux's 200).
        for (cwv, window, threshold) in
            [("rfc2861", 10, 240), ("rfc5681", 10, 50), ("none", 320, 50)]
        {
            let mut rig = Rig::new(&format!("reno:cwv={cwv}"), Pipe::new(10_000, 50, 1_000));
            rig.set(320, 50);
            rig.run_until(Time::from_ms(60));
            rig.set(320, 50);
            rig.control.on_restart(Time::from_ms(1_500), Time::from_ms(1_378));
            assert_eq!(rig.segments(), f64::from(window), "{cwv}");
            assert_eq!(rig.control.slow_start_threshold(), threshold * 1_448, "{cwv}");
        }
        let mut rig = Rig::new("reno", Pipe::new(10_000, 50, 1_000));
        rig.run_until(Time::from_ms(60));
        rig.set(320, 50);
        rig.control.on_restart(Time::from_ms(1_500), Time::from_ms(600));
        assert_eq!(rig.segments(), 80.0, "two timeouts halve twice");
    }
}
