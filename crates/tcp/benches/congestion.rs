//! What one acknowledgement costs each congestion control, in nanoseconds of processor time:
//! a bulk sender at 1 Gbit/s and 20 ms, one acknowledgement for every two segments, a loss every
//! 10 000 of them and a mark every 100, where the control takes marks. One line of JSON per control
//! on standard output.
//!
//! usage: cargo bench -p weir-tcp --bench congestion [-- --quick]

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]
#![allow(clippy::print_stdout, reason = "the figures are the output")]

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};
use weir_random::Random;
use weir_tcp::congestion::{AckSample, Algorithm, CongestionControl, EcnUse, Signal};
use weir_units::{Bytes, Rate, Time};

const MSS: u64 = 1_448;
const RTT: Time = Time::from_ms(20);
const RATE: Rate = Rate::from_mbit_per_s(1_000);
/// Acknowledgements of one stretch: two losses and their repairs.
const PIECE: u64 = 20_000;
const NAMES: [&str; 12] = [
    "reno",
    "cubic",
    "cubic:hystart=plus-plus",
    "cubic:cwv=rfc7661",
    "bbr",
    "bbr3",
    "dctcp",
    "prague",
    "ctcp",
    "htcp",
    "ledbat",
    "reno:abe=0.8",
];

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let pieces = if quick { 5 } else { 50 };
    for name in NAMES {
        println!("{{\"control\": \"{name}\", \"ns_per_ack\": {:.2}}}", cost_ns(name, pieces));
    }
}

/// The cheapest of `pieces` stretches: what else the machine does only adds to it.
fn cost_ns(name: &str, pieces: u64) -> f64 {
    let algorithm: Algorithm = name.parse().unwrap();
    let random = Random::of_source(1, &["bench"]);
    let mut control = algorithm.build(MSS as u32, 10 * MSS, Time::ZERO, random);
    let mut least = f64::INFINITY;
    for piece in 0..pieces {
        let start = spent_ns();
        for number in 1..=PIECE {
            one(control.as_mut(), piece * PIECE + number);
        }
        least = least.min((spent_ns() - start) / PIECE as f64);
    }
    least
}

/// Processor time of this thread.
fn spent_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Two segments leave and the acknowledgement of two comes, at the rate of the bottleneck.
fn one(control: &mut dyn CongestionControl, number: u64) {
    let step = RATE.time_for(Bytes::new(2 * MSS)).as_ns();
    let now = Time::from_ns(number * step);
    let in_flight = control.window();
    control.on_send(now, Bytes::new(MSS), in_flight);
    control.on_send(now, Bytes::new(MSS), in_flight);
    let lost = number.is_multiple_of(10_000);
    let in_recovery = number > 10_000 && number % 10_000 < 1_000;
    if lost {
        control.on_congestion(Signal::Loss, now, in_flight);
    } else if number % 10_000 == 1_000 {
        control.on_recovery_exit(now);
    }
    let marked = number.is_multiple_of(100) && control.ecn() != EcnUse::None;
    let delivered = number * 2 * MSS;
    let in_one_rtt = RATE.bytes_in(RTT).count();
    control.on_ack(&AckSample {
        now,
        acked: 2 * MSS,
        lost: if lost { MSS } else { 0 },
        marked: if marked { MSS } else { 0 },
        rtt: Some(RTT),
        srtt: RTT,
        min_rtt: RTT,
        prior_in_flight: in_flight,
        in_flight: in_flight.saturating_sub(2 * MSS),
        delivered,
        prior_delivered: delivered.saturating_sub(in_one_rtt),
        delivery_rate: Some(RATE),
        is_app_limited: false,
        advances: true,
        is_cwnd_limited: true,
        in_recovery,
    });
    black_box(control.window());
}
