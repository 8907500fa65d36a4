//! Golden tables: what each discipline did to one fixed workload, quarter second by quarter second.
//!
//! The tables in `tests/tables` are not oracles (those are in `laws.rs` and `analytic.rs`); they
//! show every change of behaviour as a difference to be read. `WEIR_WRITE_TABLES=1` writes them
//! anew.

mod common;

use std::fmt::Write as _;
use std::path::Path;

use common::link::Link;
use common::{DISCIPLINES, RATE, TestPacket, build};
use weir_queue::{Dscp, Ecn, Random};
use weir_units::Time;

const STEP: Time = Time::from_ms(250);

/// Two seconds at 1.2 times the link's rate, half a second of silence, one second at 0.8 times: two
/// Poisson streams that are not ECN-capable, one of them scavenger, one ECT(0), one CBR of ECT(1).
fn workload() -> Vec<TestPacket> {
    let mut packets = Vec::new();
    let spells = [(0.0, 2.0, 1.2), (2.5, 3.5, 0.8)];
    let streams = [(0u8, Ecn::NotEct, 0.3), (8, Ecn::NotEct, 0.1), (0, Ecn::Ect0, 0.3)];
    for (begin, end, load) in spells {
        for (flow, (dscp, ecn, share)) in (0..).zip(streams) {
            let mut random = Random::of_source(1, &["stream", &flow.to_string()]);
            let per_s = load * share * 10e6 / 8.0 / 1_000.0;
            let mut at = begin;
            while at < end {
                let dscp = Dscp::of_octet(dscp << 2);
                let arrived = Time::from_s(at);
                packets.push(TestPacket { arrived, dscp, ecn, flow, ..TestPacket::new(0, 1_000) });
                at -= (1.0 - random.unit()).ln() / per_s;
            }
        }
        let gap = 8.0 * 1_500.0 / (load * 0.3 * 10e6);
        for n in 0..((end - begin) / gap) as u64 {
            let arrived = Time::from_s(begin + n as f64 * gap);
            let packet = TestPacket { ecn: Ecn::Ect1, flow: 9, ..TestPacket::new(0, 1_500) };
            packets.push(TestPacket { arrived, ..packet });
        }
    }
    packets.sort_by_key(|packet| packet.arrived);
    (0..).zip(packets).map(|(number, packet)| TestPacket { number, ..packet }).collect()
}

fn table(json: &str) -> String {
    let mut link = Link::new(build(json), RATE);
    let mut rows = String::from(
        "   s class        in   out overflow  aqm policed overload marked waiting    p50 us \
         p99 us\n",
    );
    let mut workload = workload().into_iter().peekable();
    for step in 1..=16u64 {
        let end = Time::from_ns(STEP.as_ns() * step);
        let part: Vec<_> =
            std::iter::from_fn(|| workload.next_if(|packet| packet.arrived < end)).collect();
        link.run_until(part.into_iter(), end);
        for class in link.queue.classes() {
            writeln!(
                rows,
                "{:4.2} {:8} {:6} {:5} {:8} {:4} {:7} {:8} {:6} {:7} {:9} {:7}",
                end.as_s(),
                class.name,
                class.packets_in,
                class.packets_out,
                class.dropped_overflow,
                class.dropped_aqm,
                class.dropped_policed,
                class.dropped_overload,
                class.marked,
                class.backlog.packets,
                class.sojourn.quantile(0.5).as_ns() / 1_000,
                class.sojourn.quantile(0.99).as_ns() / 1_000,
            )
            .expect("a string takes any text");
        }
    }
    rows
}

#[test]
fn every_discipline_does_what_its_table_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables");
    let writes = std::env::var_os("WEIR_WRITE_TABLES").is_some();
    for (name, json) in DISCIPLINES {
        let (path, found) = (folder.join(format!("{name}.txt")), table(json));
        if writes {
            std::fs::write(&path, &found).expect("a writable folder");
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{name}: now\n{found}\nbefore\n{expected}");
    }
}
