//! A yielding congestion control for the kernel's connections, in user space.
//!
//! Where routers do not know the lower class, a lane competes like any connection, unless its
//! congestion control yields by itself, and Linux has none that does. So the control of the
//! simulator's TCP (LEDBAT++, `weir_tcp`) is fed with what the kernel tells of the connection, many
//! times in a round trip, and its window becomes a pace: window over round-trip time. The kernel's
//! own control stays below and repairs what is lost.

use std::net::TcpStream;
use std::time::Duration;

use weir_random::Random;
use weir_tcp::congestion::{AckSample, Algorithm, CongestionControl, Signal};
use weir_units::Time;

use super::Sending;
use crate::pace::Standing;
use crate::socket::{self, Outflow};
use crate::spare;

/// Between two looks at the connections that yield.
pub(super) const LOOK: Duration = Duration::from_millis(5);
/// The path's own delay is told anew this often, for the control forgets.
const REMIND: Duration = Duration::from_secs(60);

/// The control takes the least of so many samples.
const FILTER: usize = 4;

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
            self.control.on_ack(&self.sample(now, told, acked, told.round_trip));
        }
        self.before = told;
        (self.control.window() as f64 / round_trip.as_secs_f64()) as u64
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

fn time(span: Duration) -> Time {
    Time::from_ns(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

impl Sending {
    /// The thread that paces what is in the lower class, where its control yields.
    pub(super) fn pace_lanes(&self) {
        let sockets = self.sockets().clone();
        let mut each: Vec<Option<Yielding>> = sockets.iter().map(|_| None).collect();
        while self.lanes.wait(LOOK) {
            let now = self.lanes.age();
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
}

/// The pace of one connection; none if it is gone, which its thread reports.
fn pace(yielding: &mut Option<Yielding>, now: Duration, socket: &TcpStream) -> Option<u64> {
    let told = socket::outflow(socket).ok()?;
    Some(yielding.get_or_insert_with(|| Yielding::new(now, told)).look(now, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1_448;
    const BASE: Duration = Duration::from_millis(20);

    /// A connection over a link of 100 Mbit/s with a queue, of which others fill so many
    /// milliseconds; after so many seconds of looks, its pace in Mbit/s.
    fn run(
        yielding: &mut Option<Yielding>,
        from_s: u64,
        span_s: u64,
        others_ms: u64,
        told: &mut Outflow,
    ) -> f64 {
        let mut pace = 0.0;
        for step in 1..=span_s * 200 {
            let now = Duration::from_secs(from_s) + LOOK * step as u32;
            let one = yielding.get_or_insert_with(|| Yielding::new(now, *told));
            pace = one.look(now, *told) as f64;
            // What is in flight beyond 20 ms at 100 Mbit/s waits.
            let window = pace * told.round_trip.as_secs_f64();
            let own = (window / 12.5e6 - BASE.as_secs_f64()).max(0.0);
            let round_trip = BASE + Duration::from_millis(others_ms) + Duration::from_secs_f64(own);
            told.round_trip = (told.round_trip * 3 + round_trip) / 4;
            told.least_round_trip = told.least_round_trip.min(round_trip);
            told.acked += (pace.min(12.5e6) * LOOK.as_secs_f64()) as u64;
            told.held = window as u64;
        }
        pace * 8.0 / 1e6
    }

    fn fresh() -> Outflow {
        Outflow {
            acked: 0,
            held: 10 * SEGMENT,
            round_trip: BASE,
            least_round_trip: BASE,
            segment: SEGMENT as u32,
            retransmitted: 0,
            ..Outflow::default()
        }
    }

    #[test]
    fn it_fills_what_is_idle_and_leaves_what_others_take() {
        let (mut yielding, mut told) = (None, fresh());
        let idle = run(&mut yielding, 0, 20, 0, &mut told);
        assert!(idle > 80.0, "{idle} Mbit/s of an idle link");
        let beside = run(&mut yielding, 20, 2, 150, &mut told);
        assert!(beside < 1.0, "{beside} Mbit/s where others fill the queue");
    }

    #[test]
    fn to_be_told_of_the_path_again_hides_nothing_that_waits() {
        let (mut yielding, mut told) = (None, fresh());
        run(&mut yielding, 0, 59, 0, &mut told);
        // It is told again after 60 s.
        let beside = run(&mut yielding, 59, 2, 150, &mut told);
        assert!(beside < 1.0, "{beside} Mbit/s where others fill the queue");
    }

    #[test]
    fn a_loss_halves_its_window_once_a_round_trip() {
        let (mut yielding, mut told) = (None, fresh());
        run(&mut yielding, 0, 5, 0, &mut told);
        let one = yielding.as_mut().expect("it was made");
        let (window, mut now) = (one.control.window(), Duration::from_secs(6));
        for _ in 0..3 {
            told.retransmitted += 1;
            one.look(now, told);
            now += Duration::from_millis(1);
        }
        let halved = one.control.window();
        assert!(halved.abs_diff(window / 2) <= 2 * SEGMENT, "{window} to {halved}");
    }
}
