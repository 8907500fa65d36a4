//! Prague (draft-briscoe-iccrg-prague-congestion-control-04): DCTCP made fit for the Internet.
//!
//! What it adds to DCTCP: ECT(1) with accurate feedback; alpha and the reductions go by a virtual
//! round-trip time of at least 25 ms, and growth is scaled by (RTT / virtual RTT)^2, so that on
//! short paths all flows have the same rate (section 2.4.4); growth comes from unmarked
//! acknowledgements only and goes on in every round, which makes W = 2 (1 - p) / p; the window has
//! a fraction; everything is paced at the window per round-trip time, at twice that in slow start;
//! a loss halves the window as in Reno. Where the other side can only echo marks as RFC 3168 has
//! it, it becomes Reno. Departures: the detection of a classic queue that marks ECT(1) is left
//! out, as in the reference's defaults; alpha begins at 1 with the first mark; round-trip
//! independence begins 500 rounds after slow start, as in the Linux reference.

use weir_units::{Rate, Time};

use super::dctcp::{Alpha, fall_to};
use super::loss_based::Law;
use super::reno::halve;
use super::window::Window;
use super::{AckSample, EcnUse, Signal};

/// Paths shorter than this behave like one of this length.
const REFERENCE_RTT: Time = Time::from_ms(25);

#[derive(Debug)]
pub(super) struct Prague {
    alpha: Alpha,
    saw_mark: bool,
    srtt: Time,
    /// Rounds since slow start, up to `transition`.
    rounds: u32,
    /// Rounds after which short paths behave like long ones.
    transition: u32,
    round_until: u64,
    alpha_at: Time,
    reduced_at: Option<Time>,
    /// What growth is scaled by: (RTT / virtual RTT)^2.
    scale: f64,
    /// Growth not yet in the window, in bytes.
    growth: f64,
    /// The window falls for an echo of RFC 3168, and only such are to be had.
    echoed: bool,
    classic: bool,
}

impl Prague {
    pub(super) fn new(transition: u32) -> Self {
        Self {
            alpha: Alpha::one(),
            saw_mark: false,
            srtt: Time::ZERO,
            rounds: 0,
            transition,
            round_until: 0,
            alpha_at: Time::ZERO,
            reduced_at: None,
            scale: 1.0,
            growth: 0.0,
            echoed: false,
            classic: false,
        }
    }

    fn is_rtt_independent(&self) -> bool {
        self.rounds >= self.transition
    }

    /// The round-trip time by whose measure it acts.
    fn virtual_rtt(&self) -> Time {
        if self.is_rtt_independent() { self.srtt.max(REFERENCE_RTT) } else { self.srtt }
    }

    fn end_round(&mut self, window: &Window, sample: &AckSample) {
        self.round_until = sample.delivered;
        if !window.in_slow_start() && self.rounds < self.transition {
            self.rounds += 1;
        }
        if self.is_rtt_independent() {
            let ratio = self.srtt.as_ns() as f64 / self.virtual_rtt().as_ns().max(1) as f64;
            self.scale = ratio * ratio;
        }
    }
}

impl Law for Prague {
    const NAME: &'static str = "prague";
    const PACES: bool = true;

    fn observe(&mut self, window: &mut Window, sample: &AckSample) -> Option<u64> {
        self.srtt = sample.srtt;
        if std::mem::take(&mut self.echoed) {
            // An echo of RFC 3168 stands for everything that was acknowledged.
            self.classic |= sample.marked >= sample.acked;
        }
        if self.classic {
            return None;
        }
        self.saw_mark |= sample.marked > 0;
        self.alpha.count(sample);
        if sample.prior_delivered >= self.round_until {
            let since = sample.now.saturating_sub(self.alpha_at);
            if !self.saw_mark || since >= self.virtual_rtt() {
                self.alpha_at = sample.now;
                if self.saw_mark {
                    self.alpha.end_window();
                } else {
                    self.alpha = Alpha::one();
                }
            }
            self.end_round(window, sample);
        }
        let rested =
            self.reduced_at.is_none_or(|at| sample.now.saturating_sub(at) >= self.virtual_rtt());
        // The next mark counts after a round trip, real and virtual.
        (sample.marked > 0 && rested).then_some(sample.delivered.saturating_add(1))
    }

    fn avoid(&mut self, window: &mut Window, sample: &AckSample, acked: u64) {
        if self.classic {
            window.grow_one_per(window.segments(), acked);
            return;
        }
        let unmarked = sample.acked.saturating_sub(sample.marked) as f64;
        let mss = window.mss() as f64;
        // An acknowledgement of more than the window is worth one segment, however much it is.
        let share = (unmarked / window.bytes() as f64).min(1.0);
        self.growth += share * mss * self.scale;
        if self.growth >= 1.0 {
            let whole = self.growth as u64;
            self.growth -= whole as f64;
            window.add_bytes(whole);
        }
    }

    fn reduce(&mut self, window: &mut Window, signal: Signal, now: Time) {
        if signal == Signal::Ecn && !self.echoed && !self.classic {
            self.reduced_at = Some(now);
            fall_to(window, self.alpha.reduced(window.bytes()));
        } else {
            halve(window);
        }
    }

    fn on_echo(&mut self) {
        self.echoed = true;
    }

    fn falls_again(&self) -> bool {
        true
    }

    fn grows_in_cwr(&self) -> bool {
        !self.classic
    }

    fn pacing_rate(&self, window: &Window) -> Option<Rate> {
        if self.srtt == Time::ZERO {
            return None;
        }
        let rate = window.bytes() as f64 * 8e9 / self.srtt.as_ns() as f64;
        let early = window.segments() < window.threshold() / 2;
        let rate = if early { 2.0 * rate } else { rate };
        Some(Rate::from_bit_per_s((rate as u64).max(1)))
    }

    fn ecn(&self) -> Option<EcnUse> {
        Some(EcnUse::L4s)
    }

    fn retransmits_ecn_capable(&self) -> bool {
        !self.classic
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{MSS, Pipe, Rig};
    use super::*;

    fn mean_window(name: &str, rtt_ms: u64, mark: f64) -> f64 {
        let mut pipe = Pipe::new(10_000, rtt_ms, 10_000);
        pipe.mark = mark;
        let mut rig = Rig::new(name, pipe).tracing(Time::from_ms(7));
        rig.run_until(Time::from_ms(60_000));
        rig.mean_window(Time::from_ms(20_000))
    }

    /// `p W` where each reduction, by p W / 2, comes a round trip and a wait of 1 / (p W) round
    /// trips for the next mark after the one before, and what is not marked makes the window grow:
    /// x^2 / 2 = (1 - p) (x + 1). Where marks abound the wait vanishes and x is 2 (1 - p).
    fn law(mark: f64) -> f64 {
        let rest = 1.0 - mark;
        rest + (rest * rest + 2.0 * rest).sqrt()
    }

    #[test]
    fn the_window_is_in_inverse_proportion_to_the_marks() {
        for mark in [0.02, 0.05, 0.1, 0.2] {
            let product = mean_window("prague", 30, mark) * mark;
            assert!((product / law(mark) - 1.0).abs() < 0.08, "p {mark}: {product} {}", law(mark));
        }
    }

    #[test]
    fn short_paths_have_the_rate_of_the_reference() {
        // W / RTT = law / (p 25 ms), whatever the RTT: windows in proportion to it.
        for rtt in [5u32, 10] {
            let window = mean_window("prague:rtt-transition=0", u64::from(rtt), 0.02);
            let expected = law(0.02) / 0.02 * f64::from(rtt) / 25.0;
            assert!((window / expected - 1.0).abs() < 0.08, "{rtt} ms: {window} {expected}");
        }
    }

    #[test]
    fn it_paces_at_the_window_per_round_trip() {
        let mut pipe = Pipe::new(100, 30, 1_000);
        pipe.step = Some(10);
        let mut rig = Rig::new("prague", pipe).tracing(Time::from_ms(10));
        rig.run_until(Time::from_ms(10_000));
        for point in rig.trace.iter().skip(500) {
            let rate = point.pacing.unwrap().as_bit_per_s() as f64;
            let expected = point.window as f64 * 8.0 / 0.0303;
            assert!((rate / expected - 1.0).abs() < 0.05, "{rate} against {expected}");
            assert!(point.queue < 60, "{} packets wait", point.queue);
        }
        let share = rig.delivered as f64 * 8.0 / 10.0 / 100e6;
        assert!(share > 0.9, "utilisation {share}");
    }

    #[test]
    fn losses_and_classic_echoes_halve_the_window() {
        let mut rig = Rig::new("prague", Pipe::new(1_000, 30, 1_000));
        rig.set(100, 100);
        rig.control.on_congestion(Signal::Loss, rig.now, 0);
        assert_eq!(rig.control.window() / u64::from(MSS), 50);
        rig.control.on_recovery_exit(rig.now);
        rig.set(100, 100);
        rig.control.on_congestion(Signal::Ecn, rig.now, 0);
        assert_eq!(rig.control.window() / u64::from(MSS), 50);
        assert_eq!(rig.control.ecn(), EcnUse::L4s);
    }
}
