//! UDT in the simulator: that it fills a path, shares it with its like, and repairs what is lost.

use weir_packet::{Config, Outcome, Simulation};

const SECONDS: u64 = 40;

/// So many transfers over 100 Mbit/s, 20 ms and a buffer of a bandwidth-delay product; the line
/// loses `loss` of the packets.
fn run(flows: usize, loss: f64, stop: &str) -> Outcome {
    let traffic: Vec<String> = (0..flows)
        .map(|number| {
            format!(
                r#"{{"name": "udt-{number}", "from": "a", "to": "b", "start_ns": {}{stop},
                    "application": {{"kind": "udt"}}}}"#,
                number * 1_300_000_000
            )
        })
        .collect();
    let text = format!(
        r#"{{"seed": 3, "duration_ns": {}, "warmup_ns": 10000000000,
        "nodes": [{{"name": "a"}}, {{"name": "b"}}],
        "links": [{{"name": "line", "ends": ["a", "b"],
            "forward": {{"rate_bps": 100000000, "delay_ns": 10000000,
                "loss": {{"model": "bernoulli", "probability": {loss}}},
                "queue": {{"discipline": "fifo", "limit": {{"packets": 167}}}}}},
            "backward": {{"rate_bps": 100000000, "delay_ns": 10000000}}}}],
        "traffic": [{}]}}"#,
        SECONDS * 1_000_000_000,
        traffic.join(",")
    );
    let config = Config::from_json(&text).expect("right");
    Simulation::new(&config).expect("right").run().expect("nothing is captured")
}

/// Goodput as a share of what the line can carry as data, 1456 of 1500 bytes.
fn share(goodput_bps: f64) -> f64 {
    goodput_bps / (100e6 * 1456.0 / 1500.0)
}

#[test]
fn alone_it_fills_the_line_and_loses_little() {
    let outcome = run(1, 0.0, "");
    let flow = &outcome.flows[0];
    let share = share(flow.goodput_bps);
    // Between a decrease by a ninth and the next it is one eighteenth below the line at most.
    assert!((0.93..=1.0).contains(&share), "{share} of the line");
    let lost = flow.lost_packets as f64 / flow.sent_packets as f64;
    assert!(lost < 0.02, "{lost} lost");
}

#[test]
fn four_of_its_like_share_evenly() {
    let outcome = run(4, 0.0, "");
    let rates: Vec<f64> = outcome.flows.iter().map(|flow| flow.goodput_bps).collect();
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    let jain = sum * sum / (4.0 * squares);
    assert!(jain > 0.95, "Jain's index {jain} of {rates:?}");
    assert!(share(sum) > 0.9, "{} of the line", share(sum));
}

#[test]
fn what_is_lost_is_sent_again_until_it_arrives() {
    // All that was sent first has arrived by the end, and is counted once: more than that left the
    // sender, by what was lost.
    let outcome = run(1, 0.001, r#", "stop_ns": 30000000000"#);
    let flow = &outcome.flows[0];
    let delivered = flow.delivered_bytes / 1456;
    let repeated = flow.sent_packets - delivered;
    let lost = flow.sent_packets - flow.received_packets;
    assert!(lost > 30, "{lost} lost");
    // None was sent again needlessly but those asked for twice, and those under way at the warm-up.
    assert!(repeated.abs_diff(lost) < lost / 10, "{repeated} repeated, {lost} lost");
}
