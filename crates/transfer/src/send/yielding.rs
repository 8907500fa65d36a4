//! A yielding congestion control for the kernel's connections, in user space.
//!
//! Where routers do not know the lower class, a lane competes like any connection, unless its
//! congestion control yields by itself, and Linux has none that does. So the control of the
//! simulator's TCP (LEDBAT++, `weir_tcp`) is fed with what the kernel tells of the connection, many
//! times in a round trip, and its window becomes a pace: window over round-trip time. The kernel's
//! own control stays below and repairs what is lost.
//!
//! The mover knows of one change by itself: when less is promised to its own transfer.
//! What the promised connections sent until then goes over to those beside them at once, which
//! changes nothing for others, and is given up as any of theirs as soon as others want it.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use weir_random::Random;
use weir_tcp::congestion::{AckSample, Algorithm, CongestionControl, Signal};
use weir_units::{Rate, Time};

use super::Sending;
use crate::pace::Standing;
use crate::socket::{self, Outflow};
use crate::spare;

/// Between two looks at the connections that yield.
pub(super) const LOOK: Duration = Duration::from_millis(5);
/// The path's own delay is told anew this often, for the control forgets.
const REMIND: Duration = Duration::from_secs(60);

/// Over so long it is seen what the promised connections send.
const SPAN: Duration = Duration::from_millis(200);

/// The control takes the least of so many samples.
const FILTER: usize = 4;
/// The kernel takes one part in so many of each round trip into its smoothed one.
const SMOOTHING: f64 = 8.0;

/// The control of one connection.
pub(super) struct Yielding {
    control: Box<dyn CongestionControl>,
    before: Outflow,
    reminded: Duration,
    /// Until when what is lost belongs to the same congestion; none is under way otherwise.
    repairs_until: Option<Duration>,
}

impl Yielding {
    /// For a connection as it is `now`.
    pub(super) fn new(now: Duration, told: Outflow) -> Self {
        let algorithm: Algorithm = spare::YIELDING_CONTROL.parse().expect("a known control");
        let mss = told.segment.max(1);
        let random = Random::of_source(0, &["yielding"]);
        let control = algorithm.build(mss, 10 * u64::from(mss), time(now), random);
        let mut yielding = Self { control, before: told, reminded: now, repairs_until: None };
        yielding.remind(now, told);
        yielding
    }

    /// Takes a look; returns the pace from now on, in bytes per second.
    pub(super) fn look(&mut self, now: Duration, told: Outflow) -> u64 {
        let round_trip = told.round_trip.max(Duration::from_micros(1));
        if told.least_round_trip < self.before.least_round_trip || now - self.reminded >= REMIND {
            self.remind(now, told);
        }
        if self.repairs_until.is_some_and(|until| now >= until) {
            self.repairs_until = None;
            self.control.on_recovery_exit(time(now));
        }
        if told.retransmitted > self.before.retransmitted && self.repairs_until.is_none() {
            self.control.on_congestion(Signal::Loss, time(now), told.held);
            self.repairs_until = Some(now + round_trip);
        }
        let acked = told.acked.saturating_sub(self.before.acked);
        if acked > 0 {
            let newest = newest_round_trip(self.before, told);
            self.control.on_ack(&self.sample(now, told, acked, newest));
        }
        self.before = told;
        (self.control.window() as f64 / round_trip.as_secs_f64()) as u64
    }

    /// Takes over so many bytes per second that the transfer sent elsewhere until now.
    fn take_over(&mut self, bytes_per_s: f64) {
        let more = bytes_per_s * self.before.round_trip.as_secs_f64();
        let window = self.control.window().saturating_add(more as u64);
        let threshold = self.control.slow_start_threshold();
        // It is not in slow start afterwards: that much was on the path.
        self.control.set_window(window, threshold.min(window));
    }

    /// Tells the control of the least round trip, which the smoothed one never comes down to. It
    /// goes by the least of its newest samples, so those that follow say how long it takes now.
    fn remind(&mut self, now: Duration, told: Outflow) {
        self.reminded = now;
        self.control.on_ack(&self.sample(now, told, 0, told.least_round_trip));
        for _ in 0..FILTER {
            self.control.on_ack(&self.sample(now, told, 0, told.round_trip));
        }
    }

    fn sample(&self, now: Duration, told: Outflow, acked: u64, rtt: Duration) -> AckSample {
        let prior_in_flight = told.held + acked;
        AckSample {
            now: time(now),
            acked,
            lost: 0,
            marked: 0,
            rtt: Some(time(rtt)),
            srtt: time(told.round_trip),
            min_rtt: time(told.least_round_trip),
            prior_in_flight,
            in_flight: told.held,
            delivered: told.acked,
            prior_delivered: told.acked.saturating_sub(prior_in_flight),
            delivery_rate: None,
            is_app_limited: false,
            advances: true,
            // A window that is not used does not grow.
            is_cwnd_limited: 2 * prior_in_flight >= self.control.window(),
            in_recovery: self.repairs_until.is_some(),
        }
    }
}

/// How long what was acknowledged since the look before took, of which the kernel tells what it has
/// smoothed: too late where little is sent. It may have taken a sample for each segment, or for
/// fewer of them, so this goes as far as is certain.
fn newest_round_trip(before: Outflow, told: Outflow) -> Duration {
    let acked = told.acked.saturating_sub(before.acked);
    let samples = (acked as f64 / f64::from(told.segment.max(1))).max(1.0);
    let (old, new) = (before.round_trip.as_secs_f64(), told.round_trip.as_secs_f64());
    let taken_in = 1.0 - (1.0 - 1.0 / SMOOTHING).powf(samples);
    let newest = Duration::try_from_secs_f64(old + (new - old) / taken_in).unwrap_or_default();
    newest.max(told.least_round_trip)
}

/// What the promised connections were told to send and have sent.
#[derive(Debug, Default)]
struct Promised {
    rate: Option<Rate>,
    arrived: VecDeque<(Duration, u64)>,
}

impl Promised {
    /// Takes a look at connections that are promised such a rate, of which so many bytes have
    /// arrived; returns what they send no longer, in bytes per second.
    fn look(&mut self, now: Duration, rate: Rate, arrived: u64) -> f64 {
        self.arrived.push_back((now, arrived));
        while self.arrived.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= SPAN) {
            self.arrived.pop_front();
        }
        let before = self.rate.replace(rate).unwrap_or(rate);
        let Some((since, first)) = self.arrived.front().filter(|_| rate < before) else {
            return 0.0;
        };
        let span_s = now.saturating_sub(*since).as_secs_f64().max(LOOK.as_secs_f64());
        let sent = arrived.saturating_sub(*first) as f64 / span_s;
        (sent - rate.as_bit_per_s() as f64 / 8.0).max(0.0)
    }
}

fn time(span: Duration) -> Time {
    Time::from_ns(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

impl Sending {
    /// The thread that paces what is in the lower class, where its control yields.
    pub(super) fn pace_lanes(&self) {
        let sockets = self.sockets().clone();
        let mut each: Vec<Option<Yielding>> = sockets.iter().map(|_| None).collect();
        let mut promised = Promised::default();
        while self.lanes.wait(LOOK) {
            let now = self.lanes.age();
            let left = promised.look(now, self.promised_rate(), self.arrived(&sockets));
            if left > 0.0 {
                self.hand_over(&mut each, left);
            }
            for (index, (yielding, socket)) in each.iter_mut().zip(&sockets).enumerate() {
                if self.pace.standing(index) != Some(Standing::Lower) {
                    continue;
                }
                if let Some(pace) = pace(yielding, now, socket) {
                    self.pace.set_own_rate(index, pace);
                }
            }
        }
    }

    /// What has arrived by the promised connections.
    fn arrived(&self, sockets: &[Arc<TcpStream>]) -> u64 {
        let told = sockets[..self.promised].iter().map(|socket| socket::outflow(socket));
        // One that is gone is reported by its thread.
        told.flatten().map(|told| told.acked).sum()
    }

    /// Lets those that are in the lower class send what the promised ones leave.
    fn hand_over(&self, each: &mut [Option<Yielding>], left: f64) {
        let lower = |index: usize| self.pace.standing(index) == Some(Standing::Lower);
        let sending = each.iter_mut().enumerate().filter(|(index, _)| lower(*index));
        let mut sending: Vec<_> = sending.filter_map(|(_, one)| one.as_mut()).collect();
        let part = left / sending.len() as f64;
        sending.iter_mut().for_each(|one| one.take_over(part));
    }
}

/// The pace of one connection; none if it is gone, which its thread reports.
fn pace(yielding: &mut Option<Yielding>, now: Duration, socket: &TcpStream) -> Option<u64> {
    let told = socket::outflow(socket).ok()?;
    Some(yielding.get_or_insert_with(|| Yielding::new(now, told)).look(now, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT_PER_S: f64 = 1e6 / 8.0;

    /// A link with a FIFO, in steps of a look: what lanes and others send is carried in turn, and
    /// what finds the queue full is lost.
    struct Line {
        bytes_per_s: f64,
        /// What the queue holds, and what waits in it.
        holds: f64,
        waits: f64,
        carried: f64,
        now: Duration,
        lanes: Vec<Lane>,
    }

    /// A lane of which the kernel sends whatever it is paced at.
    struct Lane {
        yielding: Option<Yielding>,
        base: Duration,
        pace: f64,
        told: Outflow,
        /// When it is acknowledged, how much, and how long that took.
        under_way: VecDeque<(Duration, f64, Duration)>,
        acked: f64,
    }

    impl Line {
        fn new(mbit_per_s: f64, holds_ms: u64, segment: u32, bases_ms: &[u64]) -> Self {
            let bytes_per_s = mbit_per_s * MBIT_PER_S;
            Self {
                bytes_per_s,
                holds: bytes_per_s * holds_ms as f64 / 1e3,
                waits: 0.0,
                carried: 0.0,
                now: Duration::ZERO,
                lanes: bases_ms.iter().map(|&base_ms| Lane::new(base_ms, segment)).collect(),
            }
        }

        /// Goes on for so long, while others send so much by the seconds since; returns the part
        /// of the link that was in use.
        fn run(&mut self, span_s: f64, others_mbit_per_s: impl Fn(f64) -> f64) -> f64 {
            let (from, carried) = (self.now, self.carried);
            while self.now < from + Duration::from_secs_f64(span_s) {
                self.now += LOOK;
                let since_s = (self.now - from).as_secs_f64();
                self.step(others_mbit_per_s(since_s) * MBIT_PER_S);
            }
            (self.carried - carried) / self.bytes_per_s / (self.now - from).as_secs_f64()
        }

        fn step(&mut self, others: f64) {
            let span_s = LOOK.as_secs_f64();
            let paces: f64 = self.lanes.iter().map(|lane| lane.pace).sum();
            let come = self.waits + (others + paces) * span_s;
            let goes = come.min(self.bytes_per_s * span_s);
            self.carried += goes;
            let is_full = come - goes > self.holds;
            self.waits = (come - goes).min(self.holds);
            let wait = Duration::from_secs_f64(self.waits / self.bytes_per_s);
            for lane in &mut self.lanes {
                lane.step(self.now, wait, is_full);
            }
        }

        /// What the lanes are paced at, in Mbit/s.
        fn pace(&self) -> f64 {
            self.lanes.iter().map(|lane| lane.pace).sum::<f64>() / MBIT_PER_S
        }
    }

    impl Lane {
        fn new(base_ms: u64, segment: u32) -> Self {
            let base = Duration::from_millis(base_ms);
            let told = Outflow {
                held: 10 * u64::from(segment),
                round_trip: base,
                least_round_trip: base,
                segment,
                ..Outflow::default()
            };
            let under_way = VecDeque::new();
            Self { yielding: None, base, pace: 0.0, told, under_way, acked: 0.0 }
        }

        fn step(&mut self, now: Duration, wait: Duration, is_full: bool) {
            let sent = self.pace * LOOK.as_secs_f64();
            let took = self.base + wait;
            if sent > 0.0 {
                self.under_way.push_back((now + took, sent, took));
            }
            // A loss is seen a round trip later, but never missed.
            self.told.retransmitted += u32::from(is_full);
            while let Some(&(at, bytes, took)) = self.under_way.front()
                && at <= now
            {
                self.under_way.pop_front();
                self.acked += bytes;
                // Linux acknowledges every other segment, and takes an eighth of each sample.
                let samples = bytes / f64::from(self.told.segment) / 2.0;
                let old_part = 0.875_f64.powf(samples);
                let smoothed =
                    self.told.round_trip.mul_f64(old_part) + took.mul_f64(1.0 - old_part);
                self.told.round_trip = smoothed;
                self.told.least_round_trip = self.told.least_round_trip.min(took);
            }
            self.told.acked = self.acked as u64;
            let held: f64 = self.under_way.iter().map(|(_, bytes, _)| bytes).sum();
            // The kernel holds some that is unsent, too.
            self.told.held = held as u64 + 10 * u64::from(self.told.segment);
            let one = self.yielding.get_or_insert_with(|| Yielding::new(now, self.told));
            self.pace = one.look(now, self.told) as f64;
        }

        fn take_over(&mut self, mbit_per_s: f64) {
            let one = self.yielding.as_mut().expect("it has sent");
            one.take_over(mbit_per_s * MBIT_PER_S);
        }
    }

    /// A link of 100 Mbit/s and 20 ms, of which others fill so many milliseconds after a while.
    fn deep() -> Line {
        Line::new(100.0, 1_000, 1_448, &[20])
    }

    /// Fills the queue for 150 ms, and keeps it so.
    fn crowd(line: &mut Line, span_s: f64) {
        line.waits = line.bytes_per_s * 0.15;
        line.run(span_s, |_| 100.0);
    }

    #[test]
    fn it_fills_what_is_idle_and_leaves_what_others_take() {
        let mut line = deep();
        let idle = line.run(20.0, |_| 0.0);
        assert!(idle > 0.8, "{idle} of an idle link");
        crowd(&mut line, 2.0);
        assert!(line.pace() < 1.0, "{} Mbit/s where others fill the queue", line.pace());
    }

    #[test]
    fn to_be_told_of_the_path_again_hides_nothing_that_waits() {
        let mut line = deep();
        line.run(59.0, |_| 0.0);
        // It is told again after 60 s.
        crowd(&mut line, 2.0);
        assert!(line.pace() < 1.0, "{} Mbit/s where others fill the queue", line.pace());
    }

    #[test]
    fn a_loss_halves_its_window_once_a_round_trip() {
        let mut line = deep();
        line.run(5.0, |_| 0.0);
        let lane = &mut line.lanes[0];
        let (one, mut told) = (lane.yielding.as_mut().expect("it was made"), lane.told);
        let (window, mut now) = (one.control.window(), Duration::from_secs(6));
        for _ in 0..3 {
            told.retransmitted += 1;
            one.look(now, told);
            now += Duration::from_millis(1);
        }
        let halved = one.control.window();
        assert!(halved.abs_diff(window / 2) <= 2 * 1_448, "{window} to {halved}");
    }

    /// The demonstration's link behind a longer FIFO: 30 of 200 Mbit/s are others', 160 are
    /// promised, and lanes of three sources have been filling it for a while.
    fn promised() -> Line {
        let mut line = Line::new(200.0, 150, 8_948, &[18, 34, 60]);
        let full = line.run(10.0, |_| 190.0);
        assert!(full > 0.98 && line.pace() < 20.0, "{full} in use, {} Mbit/s", line.pace());
        line
    }

    /// What a connection that began so long ago sends, up to its promise.
    fn slow_start(since_s: f64) -> f64 {
        const FIRST: f64 = 10.0 * 8_948.0 / 0.06 / MBIT_PER_S;
        (FIRST * 2_f64.powf(since_s / 0.08)).min(160.0)
    }

    #[test]
    fn what_a_transfer_is_no_longer_promised_goes_over_at_once_and_to_whoever_comes_next() {
        for (taken_over, most) in [(160.0, 1.1), (0.0, 0.5)] {
            let mut line = promised();
            line.lanes[0].take_over(taken_over);
            let full = line.run(0.5, |_| 30.0);
            assert!((most - 0.2..most).contains(&full), "{full} in use");
            line.run(1.5, |since_s| 30.0 + slow_start(since_s));
            assert!(line.pace() < 20.0, "{} Mbit/s", line.pace());
        }
    }

    #[test]
    fn a_round_trip_is_seen_as_soon_as_the_kernel_takes_it_in() {
        let ms = Duration::from_millis;
        let segment = 1_000;
        let before =
            Outflow { segment, round_trip: ms(80), least_round_trip: ms(20), ..Outflow::default() };
        // One segment of 24 ms.
        let told = Outflow { acked: 1_000, round_trip: ms(73), ..before };
        assert_eq!(newest_round_trip(before, told), ms(24));
        // Two at 24 ms: 80 - 56 (1 - 49/64), in one sample or two.
        let told = Outflow { acked: 2_000, round_trip: Duration::from_micros(66_875), ..before };
        assert!(newest_round_trip(before, told).abs_diff(ms(24)) < Duration::from_micros(1));
        let told = Outflow { acked: 2_000, round_trip: ms(73), ..before };
        assert!((ms(24)..ms(73)).contains(&newest_round_trip(before, told)));
        // Never less than the path takes.
        let told = Outflow { acked: 1_000, round_trip: ms(60), ..before };
        assert_eq!(newest_round_trip(before, told), ms(20));
    }

    #[test]
    fn what_is_no_longer_promised_is_what_was_sent_until_then() {
        let promise = Rate::from_mbit_per_s(160);
        for (sent, least, left) in
            [(20e6, 0, 20e6), (5e6, 0, 5e6), (20e6, 80, 10e6), (5e6, 80, 0.0)]
        {
            let mut promised = Promised::default();
            let mut look = |ms: u64, rate| {
                let arrived = sent * ms as f64 / 1e3;
                promised.look(Duration::from_millis(ms), rate, arrived as u64)
            };
            for ms in (0..1_000).step_by(5) {
                assert_eq!(look(ms, promise), 0.0);
            }
            let leaves = look(1_000, Rate::from_mbit_per_s(least));
            assert!((leaves - left).abs() < 0.03 * sent, "{leaves} of {sent}");
            assert_eq!(look(1_005, Rate::from_mbit_per_s(least)), 0.0);
            assert_eq!(look(1_010, promise), 0.0);
        }
    }
}
