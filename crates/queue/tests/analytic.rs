//! Waiting times against closed forms of queueing theory.

mod common;

use common::link::Link;
use common::{TestPacket, build_at, mean_waits, poisson};
use weir_queue::{Fifo, Limit, Priority, Random};
use weir_units::{Rate, Time};

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
fn m_m_1_waits_as_erlang_says() {
    for load in [0.5, 0.8] {
        let mut random = Random::of_source(3, &["m/m/1"]);
        // The link takes its time by the size of the packet, which is exponential.
        let rate = Rate::from_mbit_per_s(8);
        let mut at = 0.0;
        let arrivals = (0..1_000_000).map(|number| {
            let size = (-(1.0 - random.unit()).ln() * 10_000.0).round().max(1.0) as u64;
            at -= (1.0 - random.unit()).ln() * 0.010 / load;
            TestPacket { arrived: Time::from_s(at), ..TestPacket::new(number, size) }
        });
        let mut link = Link::new(build_at(r#"{"discipline": "fifo"}"#, rate), rate);
        let mut waited = 0.0;
        link.run(arrivals, |packet, _, now| waited += (now - packet.arrived).as_s());
        assert_close(waited / 1e6, load * SERVICE_S / (1.0 - load), &format!("load {load}"));
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
