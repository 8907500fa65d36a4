//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-06, on RFC 6817): what a path has left.
//!
//! It fills a path until what it adds to the round-trip time comes to a target, so that whoever
//! fills queues further takes what it had. Its gain is a fraction of Reno's; above the target the
//! window falls in proportion to the excess, by a half per round trip at most; and now and then it
//! sends nearly nothing for two round trips, so that it sees the path's own delay and leaves late
//! comers their share. Departures: time for slowdowns is counted in smoothed round trips, not in
//! acknowledgements; a window that falls takes the slow-start threshold with it.
//!
//! Where a queue is too short to reach the target, nothing but losses would hold it back, and it
//! would compete like a slow Reno. With `shallow=on`, which is ours, it adds no more than half of
//! what waits when something is lost, from the first loss on; and a window that fell grows
//! back as after a slowdown once the queue is nearly empty.

use weir_units::Time;

use super::loss_based::{LEAST_THRESHOLD, Law};
use super::window::Window;
use super::{AckSample, Signal};

/// What may be chosen about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedbatOptions {
    /// What it adds to the round-trip time at most, in milliseconds (`target=60`).
    pub target_ms: u16,
    /// Whether it adds no more than half of what waits at losses (`shallow=on`).
    pub shallow: bool,
}

impl Default for LedbatOptions {
    fn default() -> Self {
        Self { target_ms: 60, shallow: false }
    }
}

/// The gain is one over this at least (section 4.2).
const LEAST_GAIN: f64 = 16.0;
/// The smallest window, in segments; also that of a slowdown.
const LEAST_WINDOW: u64 = 2;
/// What was seen is kept for so many minutes (`BASE_HISTORY` of RFC 6817).
const MINUTES: usize = 10;
const MINUTE: Time = Time::from_ms(60_000);
/// The delay is the least of so many samples (`CURRENT_FILTER`).
const FILTER: usize = 4;
/// Slowdowns take a tenth of the time at most.
const APART: u64 = 9;
/// With `shallow`, a target below this would be noise.
const LEAST_TARGET: Time = Time::from_ms(5);

/// Where it is between two slowdowns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first slow start, which ends before the target is reached.
    First,
    /// Until the next slowdown.
    Until(Time),
    /// A slowdown that began then; the window stands still until the second time, and then grows
    /// back to what it was.
    Slow(Time, Time),
}

#[derive(Debug)]
pub(super) struct Ledbat {
    options: LedbatOptions,
    /// Least round-trip times of the last minutes, the newest first.
    least: [Time; MINUTES],
    /// When the newest minute began.
    minute: Time,
    recent: [Time; FILTER],
    samples: usize,
    phase: Phase,
    /// In a slowdown, before the window grows again.
    frozen: bool,
    /// The round-trip time at losses, smoothed: that of a full queue.
    full: Option<Time>,
    /// The largest window, in segments, before it fell; zero once that is regained.
    before_fall: u64,
    srtt: Time,
    /// Parts of a byte by which the window is to change, and parts of a segment in slow start.
    carry: f64,
    credit: f64,
}

impl Ledbat {
    pub(super) fn new(options: LedbatOptions) -> Self {
        Self {
            options,
            least: [Time::MAX; MINUTES],
            minute: Time::ZERO,
            recent: [Time::MAX; FILTER],
            samples: 0,
            phase: Phase::First,
            frozen: false,
            full: None,
            before_fall: 0,
            srtt: Time::ZERO,
            carry: 0.0,
            credit: 0.0,
        }
    }

    fn base(&self) -> Option<Time> {
        self.least.iter().min().copied().filter(|&least| least < Time::MAX)
    }

    /// The least of the newest round-trip times.
    fn current(&self) -> Option<Time> {
        self.recent.iter().min().copied().filter(|&least| least < Time::MAX)
    }

    /// What is waiting on the path; none before anything was measured.
    fn delay(&self) -> Time {
        self.current().unwrap_or_default().saturating_sub(self.base().unwrap_or_default())
    }

    /// What it adds to the path's own delay at most.
    fn target(&self) -> Time {
        let target = Time::from_ms(self.options.target_ms.into());
        let Some(full) = self.full else { return target };
        let wait = full.saturating_sub(self.base().unwrap_or_default());
        Time::from_ns(wait.as_ns() / 2).max(LEAST_TARGET).min(target)
    }

    /// Takes a round-trip time into account.
    fn measure(&mut self, now: Time, rtt: Time) {
        if now.saturating_sub(self.minute) >= MINUTE {
            self.minute = now;
            self.least.rotate_right(1);
            self.least[0] = Time::MAX;
        }
        self.least[0] = self.least[0].min(rtt);
        self.recent[self.samples % FILTER] = rtt;
        self.samples = self.samples.wrapping_add(1);
    }

    /// Segments per round trip, and what an acknowledged segment adds in slow start: less on short
    /// paths, where round trips are many in the time that it takes to see what is added.
    fn gain(&self) -> f64 {
        let target_s = f64::from(self.options.target_ms) / 1e3;
        let base_s = self.base().map_or(target_s, Time::as_s).max(1e-9);
        1.0 / (2.0 * target_s / base_s).ceil().clamp(1.0, LEAST_GAIN)
    }

    fn two_round_trips(&self) -> Time {
        self.srtt.saturating_add(self.srtt)
    }

    /// Begins slowdowns and ends them.
    fn follow_phase(&mut self, window: &mut Window, now: Time) {
        match self.phase {
            Phase::First => {
                let enough = self.delay().as_ns() / 3 > self.target().as_ns() / 4;
                if window.in_slow_start() && enough {
                    window.set_threshold(window.segments());
                }
                if !window.in_slow_start() {
                    self.phase = Phase::Until(now.saturating_add(self.two_round_trips()));
                }
            }
            Phase::Until(due) if now >= due => {
                window.set_threshold(window.segments().max(LEAST_THRESHOLD));
                window.set_segments(LEAST_WINDOW);
                self.credit = 0.0;
                self.phase = Phase::Slow(now, now.saturating_add(self.two_round_trips()));
            }
            Phase::Slow(began, until) if now >= until && !window.in_slow_start() => {
                let took = now.saturating_sub(began);
                let pause = Time::from_ns(took.as_ns().saturating_mul(APART));
                self.phase = Phase::Until(now.saturating_add(pause));
            }
            Phase::Until(_) | Phase::Slow(..) => {}
        }
    }

    /// Grows or shrinks for so many segments acknowledged.
    fn grow(&mut self, window: &mut Window, acked: u64) {
        let size = window.bytes() as f64 / window.mss() as f64;
        let share = (acked as f64 / size).min(1.0);
        let (delay, target) = (self.delay(), self.target());
        let mut change = self.gain();
        if delay > target {
            let excess = delay.as_s() / target.as_s() - 1.0;
            change = (change - size * excess).max(-size / 2.0);
        }
        let bytes = (size + share * change) * window.mss() as f64 + self.carry;
        let bytes = bytes.max((LEAST_WINDOW * window.mss()) as f64);
        self.carry = bytes.fract();
        window.set_bytes(bytes as u64);
        if change < 0.0 {
            self.before_fall = self.before_fall.max(size as u64);
            window.set_threshold(window.segments().min(window.threshold()));
        } else if self.options.shallow && delay.as_ns() < target.as_ns() / 4 {
            // What filled the queue is gone, so the window may grow back as after a slowdown.
            let regained = std::mem::take(&mut self.before_fall) / 10 * 9;
            if regained > window.segments() {
                window.set_threshold(regained);
            }
        }
    }
}

impl Law for Ledbat {
    const NAME: &'static str = "ledbat";

    fn observe(&mut self, window: &mut Window, sample: &AckSample) -> Option<u64> {
        if sample.srtt > Time::ZERO {
            self.srtt = sample.srtt;
        }
        if let Some(rtt) = sample.rtt {
            self.measure(sample.now, rtt);
        }
        self.follow_phase(window, sample.now);
        self.frozen = matches!(self.phase, Phase::Slow(_, until) if sample.now < until);
        None
    }

    fn slow_start(&mut self, window: &mut Window, acked: u64) -> u64 {
        if self.frozen {
            return 0;
        }
        self.credit += self.gain() * acked as f64;
        let whole = self.credit as u64;
        self.credit -= whole as f64;
        window.slow_start(whole);
        0
    }

    fn avoid(&mut self, window: &mut Window, _sample: &AckSample, acked: u64) {
        if !self.frozen {
            self.grow(window, acked);
        }
    }

    fn reduce(&mut self, window: &mut Window, signal: Signal, _now: Time) {
        if self.options.shallow && signal == Signal::Loss {
            self.full = match (self.full, self.current()) {
                (Some(full), Some(now)) => {
                    let (full, now) = (full.as_ns() / 4 * 3, now.as_ns() / 4);
                    Some(Time::from_ns(full.saturating_add(now)))
                }
                (full, now) => full.or(now),
            };
        }
        (self.carry, self.credit) = (0.0, 0.0);
        // CUBIC would keep seven tenths.
        self.before_fall = self.before_fall.max(window.segments() / 4 * 3);
        let half = (window.segments() / 2).max(LEAST_THRESHOLD);
        window.set_threshold(half);
        window.set_segments(half);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Pipe, Rig};
    use super::*;

    #[test]
    fn it_stands_where_its_target_is_and_loses_nothing() {
        for target_ms in [30, 60] {
            let pipe = Pipe::new(20, 40, 1_000);
            let name = format!("ledbat:target={target_ms}");
            let mut rig = Rig::new(&name, pipe).tracing(Time::from_ms(100));
            rig.run_until(Time::from_ms(60_000));
            let steady = pipe.bdp() * f64::from(40 + target_ms) / 40.0;
            let mut windows: Vec<u64> = rig.trace.iter().map(|point| point.window).collect();
            windows.sort_unstable();
            let window = windows[windows.len() / 2] as f64 / 1_448.0;
            assert!((window / steady - 1.0).abs() < 0.03, "{window} segments, not {steady}");
            assert_eq!(rig.losses, 0);
        }
    }

    #[test]
    fn slow_start_grows_by_the_gain_and_ends_at_three_quarters_of_the_target() {
        // On a path of 40 ms the gain is 1 / (2 * 60 / 40).
        let mut rig = Rig::new("ledbat", Pipe::new(10_000, 40, 100_000));
        rig.run_until(Time::from_ms(418));
        let expected = 10.0 * (4.0_f64 / 3.0).powi(10);
        assert!((rig.segments() / expected - 1.0).abs() < 0.1, "{} segments", rig.segments());
        let mut rig = Rig::new("ledbat", Pipe::new(20, 40, 1_000)).tracing(Time::from_ms(5));
        rig.run_until(Time::from_ms(5_000));
        let first = rig.trace.iter().position(|point| point.window == 2 * 1_448).unwrap();
        // 45 ms at 20 Mbit/s, and what was on its way when they were seen.
        let longest = rig.trace[..first].iter().map(|point| point.queue).max().unwrap();
        assert!((77..130).contains(&longest), "{longest} packets wait before the first slowdown");
    }

    #[test]
    fn slowdowns_come_back_and_take_a_tenth_of_the_time() {
        let mut rig = Rig::new("ledbat", Pipe::new(20, 40, 1_000)).tracing(Time::from_ms(10));
        rig.run_until(Time::from_ms(60_000));
        let windows: Vec<u64> = rig.trace.iter().map(|point| point.window / 1_448).collect();
        let begun: Vec<usize> = (1..windows.len())
            .filter(|&index| windows[index] == LEAST_WINDOW && windows[index - 1] > LEAST_WINDOW)
            .collect();
        assert!(begun.len() > 3, "slowdowns at {begun:?}");
        for pair in begun.windows(2) {
            let (steady, span) = (windows[pair[1] - 1], (pair[1] - pair[0]) as f64);
            let low = windows[pair[0]..pair[1]].iter().filter(|&&window| 5 * window < 4 * steady);
            let share = low.count() as f64 / span;
            assert!((0.05..0.13).contains(&share), "{share} of the time");
        }
    }

    #[test]
    fn above_the_target_it_falls_by_a_half_a_round_trip_at_most() {
        let mut control = Ledbat::new(LedbatOptions::default());
        let mut window = Window::new(1_448, 100 * 1_448);
        window.set_threshold(100);
        control.measure(Time::ZERO, Time::from_ms(40));
        let fall = |control: &mut Ledbat, window: &mut Window, delay_ms: u64| {
            window.set_segments(100);
            (0..FILTER).for_each(|_| control.measure(Time::ZERO, Time::from_ms(40 + delay_ms)));
            control.carry = 0.0;
            control.grow(window, 100);
            window.bytes() as f64 / 1_448.0
        };
        // A third of a segment up to the target; beyond it W (delay / target - 1) down.
        for (delay_ms, expected) in [(60, 100.333), (66, 90.333), (120, 50.0), (600, 50.0)] {
            let is = fall(&mut control, &mut window, delay_ms);
            assert!((is - expected).abs() < 0.01, "{is} after {delay_ms} ms");
        }
    }

    #[test]
    fn where_losses_come_before_the_target_it_may_learn_to_stay_below_them() {
        // 40 packets at 20 Mbit/s are 23 ms.
        for (name, range) in [("ledbat", 35..42), ("ledbat:shallow=on", 12..24)] {
            let mut rig = Rig::new(name, Pipe::new(20, 40, 40)).tracing(Time::from_ms(10));
            rig.run_until(Time::from_ms(30_000));
            let last = rig.trace.iter().skip(2_000).map(|point| point.queue).max().unwrap();
            assert!(range.contains(&last), "{name}: {last} packets");
        }
    }
}
