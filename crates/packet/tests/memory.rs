//! How much memory a flow takes. One test: the heap that it counts is the process's.

use peak_alloc::PeakAlloc;
use weir_packet::{Config, Simulation};
use weir_units::Time;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const FLOWS: usize = 1_000;
/// A thousand flows begin within 100 ms; the last looks are at a steady state.
const LOOK_EVERY_MS: u64 = 50;
const LOOKS: u64 = 20;

/// A thousand CUBIC connections through 10 Gbit/s, 20 ms and a queue of 1000 packets: of `traffics`
/// traffics together.
fn config(traffics: usize) -> Config {
    let application = format!(
        r#"{{"kind": "bulk", "streams": {}, "tcp": {{"congestion": "cubic:ecn=on"}}}}"#,
        FLOWS / traffics
    );
    let traffic: Vec<String> = (0..traffics)
        .map(|n| {
            let start = n * 100_000;
            format!(
                r#"{{"name": "f{n}", "from": "a", "to": "b", "start_ns": {start},
                "application": {application}}}"#
            )
        })
        .collect();
    let text = format!(
        r#"{{"seed": 1, "duration_ns": 2000000000, "nodes": [{{"name": "a"}}, {{"name": "b"}}],
        "links": [{{"name": "a-b", "ends": ["a", "b"],
            "forward": {{"rate_bps": 10000000000, "delay_ns": 10000000,
                "queue": {{"discipline": "fifo", "limit": {{"packets": 1000}}}}}},
            "backward": {{"rate_bps": 10000000000, "delay_ns": 10000000}}}}],
        "traffic": [{}]}}"#,
        traffic.join(", ")
    );
    Config::from_json(&text).expect("the configuration is right")
}

/// Bytes a flow: the most at any look and at the last, packets under way apart, and what those
/// take.
fn bytes_per_flow(traffics: usize) -> [usize; 3] {
    let config = config(traffics);
    let before = HEAP.current_usage();
    let mut simulation = Simulation::new(&config).expect("it can be built");
    let (mut most, mut last) = (0, 0);
    for look in 1..=LOOKS {
        simulation.run_until(Time::from_ms(look * LOOK_EVERY_MS));
        last = (HEAP.current_usage() - before - simulation.packet_memory()) / FLOWS;
        most = most.max(last);
    }
    [most, last, simulation.packet_memory() / FLOWS]
}

#[test]
fn a_flow_takes_less_than_4_kib() {
    // Both endpoints with their control, scoreboard and events.
    let [most, last, packets] = bytes_per_flow(1);
    println!("a connection: {last} bytes, at most {most}; packets under way {packets}");
    assert!(most < 4 * 1_024, "a connection takes {most} bytes, {last} in the end");

    // A name, an application, counters and a histogram of round-trip times come on top; while the
    // first flows have the link to themselves, their scoreboards are longer.
    let [most, last, packets] = bytes_per_flow(FLOWS);
    println!("a traffic of one: {last} bytes, at most {most}; packets under way {packets}");
    assert!(last < 5 * 1_024, "a traffic of one connection takes {last} bytes, {most} at most");
}
