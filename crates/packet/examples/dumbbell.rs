//! The dumbbell of the comparison with other simulators: n senders and n receivers on links of 10
//! Gbit/s and 1 ms, a bottleneck whose delay makes the rest of the round trip, greedy TCP.
//! One line of JSON; speed is per second of processor time of the event loop, in packets that left
//! the bottleneck forward.
//!
//! usage: dumbbell [FLOWS] [RATE_BPS] [SECONDS] [CONGESTION] [QUEUE as JSON] [RTT_MS]

#![allow(clippy::print_stdout, reason = "the figures are the output")]

use rustix::time::{ClockId, clock_gettime};
use weir_packet::{Config, Simulation};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, default: &str| {
        arguments.get(at).map_or_else(|| default.to_owned(), String::clone)
    };
    let number = |at: usize, default: &str| -> u64 {
        argument(at, default).parse().expect("FLOWS, RATE_BPS and SECONDS are whole numbers")
    };
    let (flows, rate, seconds) = (number(0, "10"), number(1, "100000000"), number(2, "10"));
    let congestion = argument(3, "cubic");
    let queue = argument(4, r#"{"discipline": "fifo", "limit": {"packets": 1000}}"#);
    let delay = number(5, "20").saturating_sub(4) * 1_000_000 / 2;
    let text = config(flows, rate, seconds, &congestion, &queue, delay);
    let config = Config::from_json(&text).expect("the configuration is right");
    let simulation = Simulation::new(&config).expect("the simulation can be built");
    let before = cpu_s();
    let outcome = simulation.run().expect("nothing is captured");
    let cpu = cpu_s() - before;
    let forward = &outcome.links[0].forward;
    let goodput: f64 = outcome.flows.iter().map(|flow| flow.goodput_bps).sum();
    println!(
        "{{\"cpu_s\": {cpu:.3}, \"packets\": {}, \"packets_per_cpu_s\": {:.0}, \"events\": {}, \
         \"goodput_share\": {:.4}, \"dropped\": {}, \"marked\": {}, \"jain\": {:.4}}}",
        forward.packets_out,
        forward.packets_out as f64 / cpu,
        outcome.events,
        goodput / rate as f64,
        forward.dropped_queue,
        forward.marked,
        outcome.jain_index.unwrap_or(0.0),
    );
}

fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn config(
    flows: u64,
    rate: u64,
    seconds: u64,
    congestion: &str,
    queue: &str,
    delay: u64,
) -> String {
    let access = r#"{"rate_bps": 10000000000, "delay_ns": 1000000}"#;
    let mut nodes = vec![
        r#"{"name": "left", "forwards": true}"#.to_owned(),
        r#"{"name": "right", "forwards": true}"#.to_owned(),
    ];
    let mut links = vec![format!(
        r#"{{"name": "bottleneck", "ends": ["left", "right"],
        "forward": {{"rate_bps": {rate}, "delay_ns": {delay}, "queue": {queue}}},
        "backward": {{"rate_bps": {rate}, "delay_ns": {delay}}}}}"#
    )];
    let mut traffic = Vec::new();
    for n in 0..flows {
        nodes.push(format!(r#"{{"name": "s{n}"}}, {{"name": "d{n}"}}"#));
        for (name, ends) in
            [("s", format!(r#""s{n}", "left""#)), ("d", format!(r#""right", "d{n}""#))]
        {
            links.push(format!(
                r#"{{"name": "{name}{n}", "ends": [{ends}], "forward": {access},
                "backward": {access}}}"#
            ));
        }
        traffic.push(format!(
            r#"{{"name": "f{n}", "from": "s{n}", "to": "d{n}", "start_ns": {},
            "application": {{"kind": "bulk", "tcp": {{"congestion": "{congestion}"}}}}}}"#,
            // Not all at once, and all soon.
            n * (seconds * 100_000_000 / flows).min(10_000_000)
        ));
    }
    format!(
        r#"{{"seed": 1, "duration_ns": {}, "nodes": [{}], "links": [{}], "traffic": [{}]}}"#,
        seconds * 1_000_000_000,
        nodes.join(", "),
        links.join(", "),
        traffic.join(", ")
    )
}
