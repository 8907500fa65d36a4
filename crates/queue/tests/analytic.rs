//! Waiting times against closed forms of queueing theory.

mod common;

use common::{TestPacket, mean_waits, poisson};
use weir_queue::{Fifo, Limit, Priority, Random};
use weir_units::Time;

const SERVICE: Time = Time::from_ms(10);
const SERVICE_S: f64 = 0.010;

fn assert_close(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 0.03, "{what}: waited {found} s, theory {expected} s");
}

#[test]
fn d_d_1_does_not_wait_below_capacity_and_waits_linearly_above() {
    let every = |gap: Time| {
        let arrival =
            |n| TestPacket { arrived: Time::from_ns(n * gap.as_ns()), ..TestPacket::new(n, 1_000) };
        (0..1_000).map(arrival).collect::<Vec<_>>()
    };
    let wait = |gap| mean_waits(&mut Fifo::new(Limit::None), every(gap), SERVICE)[0];
    assert_eq!(wait(SERVICE), 0.0);
    // The n-th packet waits n (service − gap): in the mean over 0..999, 499.5 × 2 ms.
    assert!((wait(Time::from_ms(8)) - 499.5 * 0.002).abs() < 1e-9);
}

#[test]
fn m_d_1_waits_as_pollaczek_and_khinchine_say() {
    for load in [0.3, 0.7, 0.9] {
        let mut random = Random::of_source(1, &["m/d/1"]);
        let arrivals = poisson(load / SERVICE_S, 0.0, 1_000_000, &mut random);
        let [wait, _] = mean_waits(&mut Fifo::new(Limit::None), arrivals, SERVICE);
        assert_close(wait, load * SERVICE_S / (2.0 * (1.0 - load)), &format!("load {load}"));
    }
}

#[test]
fn m_d_1_in_two_priorities_waits_as_cobham_says() {
    // Residual service R = ρs/2; W_high = R / (1 − ρ_high), W_low = W_high / (1 − ρ).
    let (load, low) = (0.8, 0.5);
    let mut random = Random::of_source(2, &["m/d/1 priority"]);
    let arrivals = poisson(load / SERVICE_S, low, 1_000_000, &mut random);
    let [high, scavenger] = mean_waits(&mut Priority::new(Limit::None), arrivals, SERVICE);
    let expected_high = load * SERVICE_S / 2.0 / (1.0 - load * (1.0 - low));
    assert_close(high, expected_high, "high class");
    assert_close(scavenger, expected_high / (1.0 - load), "low class");
}
