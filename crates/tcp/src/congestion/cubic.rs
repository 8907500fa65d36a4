//! CUBIC (RFC 9438) as Linux's `tcp_cubic` behaves.
//!
//! The window follows W(t) = C (t - K)^3 + `W_max` of section 4.2 in whole segments and units of
//! 1/1024 s, by opening one segment for every `cnt` acknowledged; the Reno-friendly region
//! (section 4.3) lifts it where Reno would be faster; fast convergence (section 4.7) gives way to
//! newcomers. Departures from RFC 9438, all of them Linux's: beta is 717/1024 (0.7), C is 410/1024
//! (0.4); the target is not limited to 1.5 windows (at most half the window per round trip is
//! reached because `cnt` is at least 2); the Reno estimate keeps its slope of 0.53 segments per
//! round trip even above `W_max`; the reduction starts from the window rather than from what was
//! in flight; before the first loss the window opens by a twentieth; a timeout forgets `W_max`;
//! undoing restores window and threshold but not `W_max` and K; in whole segments the curve is flat
//! for about 1.3 s on either side of K. HyStart is Linux's unless asked otherwise.

use weir_units::Time;

use super::hystart::{Conservative, Hystart, Train};
use super::loss_based::{LEAST_THRESHOLD, Law};
use super::window::Window;
use super::{AckSample, Signal};

const SCALE: u64 = 1 << 10;
/// What is kept of the window, in 1/1024.
const BETA: u64 = 717;
/// C x 1024 in segments per cubic second.
const C: u64 = 410;
/// 2^40 / C: cubing in units of 1/1024 s.
const CUBE_FACTOR: u64 = (1 << 40) / C;
/// Reno's estimate gains a segment for every `window x RENO_SLOPE / 8` acknowledged: that is
/// 3 (1 - beta) / (1 + beta) per round trip.
const RENO_SLOPE: u64 = 8 * (SCALE + BETA) / 3 / (SCALE - BETA);
/// Longest distance from K that is cubed, 256 s in units of 1/1024 s.
const MOST_OFFSET: u64 = 1 << 18;
/// How often the curve is looked at while the window stands still.
const LOOK_EVERY: Time = Time::from_ns(31_250_000);
/// Delay samples this close to the beginning of an epoch are from a queue that is still full.
const SETTLE: Time = Time::from_ms(1_000);

/// What may be chosen about `Cubic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubicOptions {
    /// How slow start ends early.
    pub hystart: Hystart,
    /// Whether a flow that did not regain its last maximum gives way (RFC 9438 section 4.7).
    pub fast_convergence: bool,
    /// Whether the window is at least Reno's (RFC 9438 section 4.3).
    pub reno_friendly: bool,
    /// Whether the curve stands still while nothing is sent (Linux since 4.4; before, the target
    /// kept growing during idleness).
    pub idle_fix: bool,
}

impl Default for CubicOptions {
    fn default() -> Self {
        Self {
            hystart: Hystart::Linux,
            fast_convergence: true,
            reno_friendly: true,
            idle_fix: true,
        }
    }
}

#[derive(Debug)]
enum Exit {
    Train(Train),
    Conservative(Conservative),
    None,
}

#[derive(Debug)]
pub(super) struct Cubic {
    options: CubicOptions,
    exit: Exit,
    curve: Curve,
}

/// The curve and the estimate of Reno's window; all zero means that nothing is known.
#[derive(Debug, Default)]
struct Curve {
    /// Window before the last reduction, after fast convergence.
    last_max: u64,
    epoch: Option<Time>,
    /// Where the curve is flat: the window there, and the time to it in 1/1024 s.
    origin: u64,
    k: u64,
    least_delay: Option<Time>,
    /// Segments acknowledged for each one that opens the window.
    per_segment: u64,
    reno: u64,
    reno_acked: u64,
    looked: Option<(Time, u64)>,
}

/// Largest integer whose cube is at most `value`.
fn cube_root(value: u64) -> u64 {
    if value == 0 {
        return 0;
    }
    // Newton from above: the start is at least the root, and the sequence falls to it.
    let mut root = 1u64 << (64 - value.leading_zeros()).div_ceil(3);
    loop {
        let next = (2 * root + value / (root * root)) / 3;
        if next >= root {
            return root;
        }
        root = next;
    }
}

/// Time in units of 1/1024 s.
fn ticks(time: Time) -> u64 {
    let ns = u128::from(time.as_ns());
    if let Ok(scaled) = u64::try_from(ns << 10) {
        return scaled / 1_000_000_000;
    }
    ((ns << 10) / 1_000_000_000) as u64
}

impl Curve {
    fn begin(&mut self, now: Time, window: u64, acked: u64) {
        self.epoch = Some(now);
        self.reno_acked = acked;
        self.reno = window;
        if self.last_max <= window {
            self.k = 0;
            self.origin = window;
        } else {
            self.k = cube_root(CUBE_FACTOR * (self.last_max - window));
            self.origin = self.last_max;
        }
    }

    /// What the window should be a round trip from now.
    fn target(&self, now: Time) -> u64 {
        let start = self.epoch.unwrap_or(now);
        let ahead = now.saturating_sub(start).saturating_add(self.least_delay.unwrap_or_default());
        let t = ticks(ahead);
        let offset = t.abs_diff(self.k).min(MOST_OFFSET);
        let delta = (C * offset * offset * offset) >> 40;
        if t < self.k { self.origin.saturating_sub(delta) } else { self.origin + delta }
    }

    /// How many acknowledged segments open the window by one, at `window` segments.
    fn update(&mut self, now: Time, window: u64, acked: u64, reno_friendly: bool) -> u64 {
        self.reno_acked = self.reno_acked.saturating_add(acked);
        let since = self.looked.filter(|_| self.epoch.is_some());
        let since = since.map(|(at, seen)| (now.saturating_sub(at), seen));
        match since {
            Some((passed, seen)) if seen == window && passed <= LOOK_EVERY => {
                return self.per_segment;
            }
            // Linux looks at the curve once a clock tick, and at Reno's estimate always.
            Some((passed, _)) if passed < Time::from_ms(1) => {}
            _ => self.look(now, window, acked),
        }
        if reno_friendly {
            self.follow_reno(window);
        }
        self.per_segment = self.per_segment.max(2);
        self.per_segment
    }

    fn look(&mut self, now: Time, window: u64, acked: u64) {
        self.looked = Some((now, window));
        if self.epoch.is_none() {
            self.begin(now, window, acked);
        }
        let target = self.target(now);
        self.per_segment = if target > window { window / (target - window) } else { 100 * window };
        // Nothing was ever lost: probe, rather than wait for a curve that knows nothing.
        if self.last_max == 0 {
            self.per_segment = self.per_segment.min(20);
        }
    }

    fn follow_reno(&mut self, window: u64) {
        let per_segment = (window * RENO_SLOPE) >> 3;
        if self.reno_acked > per_segment {
            let gained = (self.reno_acked - 1) / per_segment.max(1);
            self.reno_acked -= gained * per_segment;
            self.reno = self.reno.saturating_add(gained);
        }
        if self.reno > window {
            self.per_segment = self.per_segment.min(window / (self.reno - window));
        }
    }
}

impl Cubic {
    pub(super) fn new(options: CubicOptions) -> Self {
        let exit = match options.hystart {
            Hystart::Linux => Exit::Train(Train::default()),
            Hystart::PlusPlus => Exit::Conservative(Conservative::default()),
            Hystart::Off => Exit::None,
        };
        Self { options, exit, curve: Curve::default() }
    }
}

impl Law for Cubic {
    const NAME: &'static str = "cubic";

    fn observe(&mut self, window: &mut Window, sample: &AckSample) -> Option<u64> {
        let rtt = sample.rtt?;
        let settling = self.curve.epoch.is_some_and(|at| sample.now.saturating_sub(at) < SETTLE);
        if !settling {
            let least = self.curve.least_delay.map_or(rtt, |least| least.min(rtt));
            self.curve.least_delay = Some(least);
            if let Exit::Train(train) = &mut self.exit {
                train.observe(window, sample, least);
            }
        }
        if let Exit::Conservative(exit) = &mut self.exit {
            exit.observe(window, sample);
        }
        None
    }

    fn slow_start(&mut self, window: &mut Window, acked: u64) -> u64 {
        match &mut self.exit {
            Exit::Conservative(exit) => window.slow_start(exit.allowed(acked)),
            _ => window.slow_start(acked),
        }
    }

    fn avoid(&mut self, window: &mut Window, sample: &AckSample, acked: u64) {
        let friendly = self.options.reno_friendly;
        let per_segment = self.curve.update(sample.now, window.segments(), acked, friendly);
        window.grow_one_per(per_segment, acked);
    }

    fn reduce(&mut self, window: &mut Window, _signal: Signal, _now: Time) {
        let segments = window.segments();
        self.curve.epoch = None;
        let gives_way = self.options.fast_convergence && segments < self.curve.last_max;
        self.curve.last_max =
            if gives_way { segments * (SCALE + BETA) / (2 * SCALE) } else { segments };
        let kept = (segments * BETA / SCALE).max(LEAST_THRESHOLD);
        window.set_threshold(kept);
        window.set_segments(kept);
        if let Exit::Conservative(exit) = &mut self.exit {
            exit.end();
        }
    }

    fn forget(&mut self) {
        self.curve = Curve::default();
        if let Exit::Train(train) = &mut self.exit {
            train.reset();
        }
    }

    fn after_idle(&mut self, now: Time, idle: Time) {
        if self.options.idle_fix
            && let Some(epoch) = &mut self.curve.epoch
        {
            *epoch = epoch.saturating_add(idle).min(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rig::{Pipe, Rig};
    use super::*;

    proptest! {
        #[test]
        fn the_cube_root_is_the_largest_that_fits(value: u64) {
            let root = u128::from(cube_root(value));
            prop_assert!(root.pow(3) <= u128::from(value));
            prop_assert!((root + 1).pow(3) > u128::from(value));
        }
    }

    #[test]
    fn the_window_follows_the_curve_through_the_last_maximum() {
        // RFC 9438 equation 1, with Linux's constants.
        let (c, kept) = (410.0 / 1024.0, 717.0 / 1024.0);
        for (last, rtt) in [(1_000, 50), (2_000, 100), (500, 200)] {
            let mut rig = Rig::new("cubic:reno-friendly=off", Pipe::new(100_000, rtt, 10_000))
                .tracing(Time::from_ms(500));
            rig.set(last, last / 2);
            rig.control.on_congestion(Signal::Loss, Time::ZERO, 0);
            let k = ((1.0 - kept) * last as f64 / c).cbrt();
            rig.run_until(Time::from_s(k + 4.0));
            for point in rig.trace.iter().skip(2) {
                // The epoch begins with the first acknowledgement, and the curve is looked at a
                // round trip ahead and reached a round trip later.
                let t = point.at.as_s() - rtt as f64 / 1_000.0;
                let expected = c * (t - k).powi(3) + last as f64;
                let window = point.window as f64 / 1_448.0;
                let slope = 3.0 * c * (t - k).powi(2) * rtt as f64 / 1_000.0;
                let allowed = 2.0 + slope;
                assert!(
                    (window - expected).abs() <= allowed,
                    "last {last}, rtt {rtt} ms, t {t:.2} s: {window} against {expected:.1}"
                );
            }
        }
    }

    #[test]
    fn short_paths_are_reno_friendly() {
        // RFC 9438 section 4.3: the mean window is Reno's, sqrt(3 n / 2).
        for every in [2_000, 10_000] {
            let mut pipe = Pipe::new(10_000, 5, 10_000);
            pipe.lose_every = Some(every);
            let mut rig = Rig::new("cubic", pipe).tracing(Time::from_ms(3));
            rig.run_until(Time::from_ms(20_000));
            let (mean, law) = (rig.mean_window(Time::from_ms(2_000)), (1.5 * every as f64).sqrt());
            // The estimate is a segment or two behind, both multiplications round down, and each
            // reduction forgets up to a segment.
            assert!((mean / law - 1.0).abs() < 0.05 + 3.5 / law, "n {every}: {mean} against {law}");
        }
    }

    #[test]
    fn long_paths_follow_the_response_function() {
        // RFC 9438 equation 6: W = (C (3 + b) / (4 (1 - b)))^(1/4) RTT^(3/4) n^(3/4). The run
        // begins there: in whole segments the curve is flat for a second and more around K, and
        // any maximum that is reached on the flat piece repeats.
        let (c, b) = (0.4f64, 0.7f64);
        for (rtt, every) in [(100u32, 10_000), (200, 40_000)] {
            let mut pipe = Pipe::new(100_000, u64::from(rtt), 10_000);
            pipe.lose_every = Some(every);
            let law = (c * (3.0 + b) / (4.0 * (1.0 - b))).powf(0.25)
                * (f64::from(rtt) / 1_000.0 * every as f64).powf(0.75);
            let name = "cubic:reno-friendly=off,fast-convergence=off";
            let mut rig = Rig::new(name, pipe).tracing(Time::from_ms(31));
            rig.set((law / 0.925) as u64, (law / 2.0) as u64);
            rig.control.on_congestion(Signal::Loss, Time::ZERO, 0);
            rig.run_until(Time::from_ms(120_000));
            let mean = rig.mean_window(Time::from_ms(20_000));
            assert!((mean / law - 1.0).abs() < 0.06, "rtt {rtt}, n {every}: {mean} against {law}");
        }
    }

    #[test]
    fn hystart_leaves_slow_start_before_the_buffer_overflows() {
        for (hystart, bdps) in [("linux", 0.4..2.0), ("plus-plus", 2.0..13.0), ("off", 5.0..20.0)] {
            let pipe = Pipe::new(100, 50, 6_000);
            let mut rig = Rig::new(&format!("cubic:hystart={hystart}"), pipe);
            rig.run_until(Time::from_ms(4_000));
            assert_eq!(rig.losses > 0, hystart == "off", "{hystart}: {} lost", rig.losses);
            let left_at = rig.control.slow_start_threshold() as f64 / 1_448.0 / pipe.bdp();
            assert!(bdps.contains(&left_at), "{hystart}: left at {left_at} BDP");
        }
    }

    #[test]
    fn a_flow_that_did_not_regain_its_maximum_gives_way() {
        let mut rig = Rig::new("cubic", Pipe::new(10, 50, 100));
        rig.set(1_000, 500);
        rig.control.on_congestion(Signal::Loss, Time::ZERO, 0);
        rig.control.on_recovery_exit(Time::ZERO);
        let window = |rig: &Rig| rig.segments();
        assert_eq!(window(&rig), 700.0);
        let mut cubic = Cubic::new(CubicOptions::default());
        let mut own = Window::new(1_448, 700 * 1_448);
        cubic.curve.last_max = 1_000;
        cubic.reduce(&mut own, Signal::Loss, Time::ZERO);
        assert_eq!(cubic.curve.last_max, 595, "700 (1 + 0.7) / 2");
        assert_eq!(own.segments(), 490);
    }

    #[test]
    fn five_idle_seconds_raise_the_target_unless_the_curve_stands_still() {
        // 004-spec section 14.1 test 16.
        let window = |fix| {
            let mut rig =
                Rig::new(&format!("cubic:idle-fix={fix},cwv=none"), Pipe::new(100_000, 50, 10_000));
            rig.set(200, 100);
            rig.control.on_congestion(Signal::Loss, Time::ZERO, 0);
            rig.run_until(Time::from_ms(1_000));
            rig.to_send = 0;
            rig.run_until(Time::from_ms(6_000));
            rig.to_send = u64::MAX;
            rig.run_until(Time::from_ms(6_400));
            rig.segments()
        };
        let (off, on) = (window("off"), window("on"));
        assert!(off > 1.05 * on, "off {off}, on {on}");
    }

    #[test]
    fn the_curve_stands_still_in_idleness_unless_asked_not_to() {
        for (fix, most) in [("on", 850.0), ("off", f64::INFINITY)] {
            let name = format!("cubic:idle-fix={fix},cwv=none");
            let mut rig = Rig::new(&name, Pipe::new(100_000, 50, 10_000));
            rig.set(1_000, 500);
            rig.control.on_congestion(Signal::Loss, Time::ZERO, 0);
            rig.run_until(Time::from_ms(1_000));
            rig.to_send = 0;
            rig.run_until(Time::from_ms(31_000));
            rig.to_send = u64::MAX;
            rig.run_until(Time::from_ms(31_400));
            let window = rig.segments();
            assert!(window <= most, "fix {fix}: {window}");
            assert_eq!(window > 1_500.0, fix == "off", "fix {fix}: {window}");
        }
    }
}
