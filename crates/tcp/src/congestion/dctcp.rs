//! DCTCP (RFC 8257): the window falls in proportion to the share of bytes that were marked.
//!
//! Section 3.3: alpha is a moving average of the marked share over windows of data, with gain
//! 1/16, and begins at 1; a mark takes alpha / 2 of the window, at most once per round trip. Growth
//! is Reno's. Three kinds of senders differ in what a loss does, and growth in the round trip of a
//! reduction may be off as in Linux: then the equilibrium is about 1.4/p instead of 2.7/p segments.
//! Windows have a fraction and alpha 20 binary places, with its remainder kept, unless whole
//! segments are asked for: then alpha has ten places and what it takes of the window is rounded
//! down, as in Linux. There a window of ten segments does not fall at all below an alpha of 0.2.

use weir_units::Time;

use super::loss_based::{LEAST_THRESHOLD, Law};
use super::reno::halve;
use super::window::Window;
use super::{AckSample, EcnUse, Signal};

/// What a lost segment does to the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DctcpLoss {
    /// RFC 8257 section 3.5, Linux since 5.1: halves it.
    #[default]
    Rfc,
    /// Linux before 5.1: the reduction by alpha serves for losses, too, so that where nothing is
    /// marked a loss changes nothing.
    Linux318,
    /// Halves it; what is sent again is not ECN-capable.
    Windows,
}

/// What may be chosen about DCTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DctcpOptions {
    /// The answer to a loss.
    pub on_loss: DctcpLoss,
    /// Whether the window also grows in the round trip after a reduction.
    pub grows_in_cwr: bool,
    /// Whether reductions are whole segments and alpha 1/1024, both rounded down as in Linux.
    pub whole_segments: bool,
}

impl Default for DctcpOptions {
    fn default() -> Self {
        Self { on_loss: DctcpLoss::Rfc, grows_in_cwr: true, whole_segments: false }
    }
}

/// Binary places of alpha.
const PLACES: u32 = 20;
/// As Linux does it.
const PLACES_IN_LINUX: u32 = 10;
/// Gain of the moving average: 1/16.
const GAIN_SHIFT: u32 = 4;

/// Moving average of the marked share.
#[derive(Debug)]
pub(super) struct Alpha {
    scaled: u64,
    /// What `scaled` is where all is marked: times 16 where the remainder is kept.
    one: u64,
    acked: u64,
    marked: u64,
}

impl Alpha {
    pub(super) fn one() -> Self {
        Self::of(1 << (PLACES + GAIN_SHIFT))
    }

    /// One that is rounded as in Linux.
    fn one_in_linux() -> Self {
        Self::of(1 << PLACES_IN_LINUX)
    }

    fn of(one: u64) -> Self {
        Self { scaled: one, one, acked: 0, marked: 0 }
    }

    pub(super) fn count(&mut self, sample: &AckSample) {
        self.acked = self.acked.saturating_add(sample.acked);
        self.marked = self.marked.saturating_add(sample.marked.min(sample.acked));
    }

    pub(super) fn end_window(&mut self) {
        let share = (self.marked as f64 / self.acked.max(1) as f64).min(1.0);
        // A sixteenth of `one`; that is a whole 1 where alpha keeps its remainder, sixteenfold.
        let share = (share * (self.one >> GAIN_SHIFT) as f64) as u64;
        let fall = match self.scaled >> GAIN_SHIFT {
            // Too little for a sixteenth of it.
            0 => self.scaled,
            fall => fall,
        };
        self.scaled = (self.scaled - fall + share).min(self.one);
        (self.acked, self.marked) = (0, 0);
    }

    /// What is left of `window` bytes after a reduction by alpha / 2.
    pub(super) fn reduced(&self, window: u64) -> u64 {
        window - (window as f64 * self.get() / 2.0) as u64
    }

    pub(super) fn get(&self) -> f64 {
        self.scaled as f64 / self.one as f64
    }
}

#[derive(Debug)]
pub(super) struct Dctcp {
    options: DctcpOptions,
    alpha: Alpha,
    window_until: u64,
}

impl Dctcp {
    pub(super) fn new(options: DctcpOptions) -> Self {
        let alpha = if options.whole_segments { Alpha::one_in_linux() } else { Alpha::one() };
        Self { options, alpha, window_until: 0 }
    }

    fn falls_by_alpha(&self, signal: Signal) -> bool {
        signal == Signal::Ecn || self.options.on_loss == DctcpLoss::Linux318
    }
}

/// Sets the window to `bytes`, at least two segments, and the threshold with it.
pub(super) fn fall_to(window: &mut Window, bytes: u64) {
    window.set_bytes(bytes.max(LEAST_THRESHOLD * window.mss()));
    window.set_threshold(window.segments());
}

impl Law for Dctcp {
    const NAME: &'static str = "dctcp";

    fn observe(&mut self, _window: &mut Window, sample: &AckSample) -> Option<u64> {
        self.alpha.count(sample);
        if sample.prior_delivered >= self.window_until {
            self.alpha.end_window();
            self.window_until = sample.delivered;
        }
        // Then not again until what is sent from now on is acknowledged (RFC 3168 section 6.1.2).
        (sample.marked > 0).then_some(sample.delivered)
    }

    fn avoid(&mut self, window: &mut Window, _sample: &AckSample, acked: u64) {
        window.grow_one_per(window.segments(), acked);
    }

    fn reduce(&mut self, window: &mut Window, signal: Signal, _now: Time) {
        if !self.falls_by_alpha(signal) {
            halve(window);
        } else if self.options.whole_segments {
            // The remaining segments are rounded up, as they would not be if bytes were counted.
            fall_to(window, self.alpha.reduced(window.segments()) * window.mss());
        } else {
            fall_to(window, self.alpha.reduced(window.bytes()));
        }
    }

    fn falls_again(&self) -> bool {
        self.options.on_loss != DctcpLoss::Linux318
    }

    fn grows_in_cwr(&self) -> bool {
        self.options.grows_in_cwr
    }

    fn keeps_credit(&self, signal: Signal) -> bool {
        self.falls_by_alpha(signal) && !self.options.whole_segments
    }

    fn ecn(&self) -> Option<EcnUse> {
        Some(EcnUse::Dctcp)
    }

    fn retransmits_ecn_capable(&self) -> bool {
        self.options.on_loss != DctcpLoss::Windows
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{MSS, Pipe, Rig};
    use super::*;

    #[test]
    fn alpha_converges_to_the_marked_share() {
        // After n windows (15/16)^n of the distance is left.
        for marked in [0u64, 10, 50, 100] {
            let mut alpha = Alpha::one();
            for window in 1..=200 {
                (alpha.acked, alpha.marked) = (100, marked);
                alpha.end_window();
                let share = marked as f64 / 100.0;
                let expected = share + (1.0 - share) * (15.0f64 / 16.0).powi(window);
                assert!((alpha.get() - expected).abs() < 1e-5, "{} {expected}", alpha.get());
            }
        }
    }

    #[test]
    fn whole_segments_are_rounded_as_linux_rounds_them() {
        // By hand, after `dctcp_update_alpha` and `dctcp_ssthresh`: a sixteenth less, rounded down,
        // and all of it once it is below sixteen.
        let mut alpha = Alpha::one_in_linux();
        let mut windows = 0;
        for expected in [960, 900, 844, 792, 743, 697, 654, 614, 576] {
            (alpha.acked, windows) = (10, windows + 1);
            alpha.end_window();
            assert_eq!((alpha.get() * 1_024.0) as u64, expected, "window {windows}");
        }
        alpha.scaled = 15;
        alpha.end_window();
        assert_eq!(alpha.get(), 0.0);
        // One of ten: 1024/160 is 6.4.
        (alpha.acked, alpha.marked) = (10, 1);
        alpha.end_window();
        assert_eq!(alpha.get(), 6.0 / 1_024.0);
        let options = DctcpOptions { whole_segments: true, ..DctcpOptions::default() };
        for (share, left) in [(1_024, 5), (410, 8), (409, 9), (205, 9), (204, 10), (0, 10)] {
            let mut dctcp = Dctcp::new(options);
            dctcp.alpha.scaled = share;
            let mut window = Window::new(1_448, 14_480);
            dctcp.reduce(&mut window, Signal::Ecn, Time::ZERO);
            assert_eq!(window.bytes(), left * 1_448, "alpha {share}/1024");
        }
    }

    fn mean_window(name: &str, mark: f64) -> f64 {
        let mut pipe = Pipe::new(10_000, 20, 10_000);
        pipe.mark = mark;
        let mut rig = Rig::new(name, pipe).tracing(Time::from_ms(7));
        rig.run_until(Time::from_ms(60_000));
        rig.mean_window(Time::from_ms(5_000))
    }

    #[test]
    fn the_window_is_two_over_the_share_of_marks() {
        // RFC 9332 appendix A, 004-spec section 4.10: x = p W = 2, with a reduction by x / 2
        // segments in each round trip. Exactly: they are as far apart as the round trip that each
        // takes and the 1 / x until the next mark, so that x / 2 = 1 + 1 / x.
        for mark in [0.02, 0.05, 0.1] {
            let product = mean_window("dctcp", mark) * mark;
            assert!((product / 2.73 - 1.0).abs() < 0.1, "p {mark}: p W = {product}");
        }
    }

    #[test]
    fn without_growth_in_the_reduced_round_the_window_is_about_half() {
        // As above, but it grows in the 1 / x alone: x / 2 = 1 / x. (The 1.05 of 004-spec section
        // 4.10 takes rounds without any mark for those in which it grows.)
        for mark in [0.02, 0.05] {
            let product = mean_window("dctcp:growth-in-cwr=off", mark) * mark;
            assert!((product / 2f64.sqrt() - 1.0).abs() < 0.1, "p {mark}: p W = {product}");
        }
    }

    #[test]
    fn the_three_kinds_differ_in_what_a_loss_does() {
        for (name, left, again) in [
            ("dctcp", 50, true),
            ("dctcp:on-loss=windows", 50, false),
            ("dctcp:on-loss=linux-3.18", 100, true),
        ] {
            let mut rig = Rig::new(name, Pipe::new(10_000, 20, 10_000));
            // Alpha comes close to zero when nothing is marked.
            rig.run_until(Time::from_ms(5_000));
            rig.set(100, 100);
            rig.control.on_congestion(Signal::Loss, rig.now, 0);
            assert_eq!(rig.control.window() / u64::from(MSS), left, "{name}");
            assert_eq!(rig.control.retransmits_ecn_capable(), again, "{name}");
            assert_eq!(rig.control.ecn(), EcnUse::Dctcp);
        }
    }

    #[test]
    fn a_step_keeps_the_queue_at_the_step() {
        // RFC 8257 section 4.2 and Alizadeh et al. (SIGCOMM 2010): the amplitude is about
        // sqrt((BDP + step) / 2) packets.
        let mut pipe = Pipe::new(100, 10, 2_000);
        pipe.step = Some(30);
        let mut rig = Rig::new("dctcp", pipe).tracing(Time::from_ms(1));
        rig.run_until(Time::from_ms(5_000));
        let queues: Vec<usize> = rig.trace.iter().skip(2_000).map(|p| p.queue).collect();
        let (least, most) = (queues.iter().min().unwrap(), queues.iter().max().unwrap());
        let amplitude = ((pipe.bdp() + 30.0) / 2.0).sqrt();
        assert!(*most as f64 <= 30.0 + 2.0 * amplitude, "most {most}");
        assert!(*least as f64 >= 30.0 - 3.0 * amplitude, "least {least}");
        assert_eq!(rig.losses, 0);
    }
}
