//! How many data segments per CPU-second a pair of connections handles: a bulk transfer over a
//! fixed delay with a window of 5 000 segments, without loss and with a loss of 1 %.
//!
//! `cargo run --release -p weir-tcp --example bulk`. The wire is a queue on each side and costs
//! next to nothing; both endpoints and their acknowledgements are in the figure.

#![allow(clippy::print_stdout, reason = "the figures are the output")]

#[path = "../tests/support/mod.rs"]
mod support;

use support::{Fate, Fixed, Pair, Way, ms};
use weir_random::Random;
use weir_tcp::{Config, Connection, Nagle};
use weir_units::Time;

const WINDOW_SEGMENTS: u64 = 5_000;
const SEGMENTS: u64 = 2_000_000;

fn main() {
    for loss in [0.0, 0.0001, 0.01] {
        let config = Config { nagle: Nagle::Off, send_buffer: u64::MAX / 4, ..Config::default() };
        let fixed = || Box::new(Fixed::new(WINDOW_SEGMENTS * u64::from(config.mss)).quiet());
        let mut pair = Pair::with(
            Connection::connect(config, fixed(), Time::ZERO),
            Connection::accept(config, fixed(), Time::ZERO),
            ms(50),
        )
        .after_handshake();
        pair.is_logging = false;
        let mut random = Random::of_source(1, &["loss"]);
        pair.rule(move |way, transmit, _| {
            let is_data = way == Way::Out && transmit.segment.len > 0;
            if is_data && random.chance(loss) { Fate::Drop } else { Fate::Pass }
        });
        let total = SEGMENTS * u64::from(config.mss);
        let began = cpu_s();
        // A steady source: a write of one segment every 25 us spreads each round trip out.
        let mut written = 0;
        while written < total {
            written += pair.write(u64::from(config.mss));
            let at = pair.now + Time::from_us(25);
            pair.run_to(at);
        }
        while pair.read[1] < total {
            pair.step();
        }
        let elapsed = cpu_s() - began;
        let statistics = pair.near.statistics();
        let sent = statistics.segments_sent as f64;
        println!(
            "loss {loss}: {:.2} M data segments per CPU-second ({:.0} ns each), \
             {} retransmissions, {} timeouts",
            sent / elapsed / 1e6,
            elapsed / sent * 1e9,
            statistics.retransmissions,
            statistics.timeouts,
        );
    }
}

/// Time that this process has had a processor, in seconds (Linux).
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|field| field.parse::<f64>().ok());
    ns.expect("the kernel counts processor time") / 1e9
}
