//! Echo requests against the path that they measure.

use weir_packet::{Config, Outcome, Simulation};

/// 10 Mbit/s, 20 ms there and 30 ms back, a buffer of 62 500 bytes (50 ms); probed every 100 ms.
fn probed(seconds: u64, echo: &str, traffic: &str) -> Outcome {
    let text = format!(
        r#"{{"seed": 1, "duration_ns": {}, "nodes": [{{"name": "a"}}, {{"name": "b"}}],
        "links": [{{"name": "line", "ends": ["a", "b"],
            "forward": {{"rate_bps": 10000000, "delay_ns": 20000000,
                "queue": {{"discipline": "fifo", "limit": {{"bytes": 62500}}}}}},
            "backward": {{"rate_bps": 10000000, "delay_ns": 30000000}}}}],
        "traffic": [{{"name": "probe", "from": "a", "to": "b", "application":
            {{"kind": "echo", "interval_ns": 100000000, "payload_bytes": 97{echo}}}}}{traffic}]}}"#,
        seconds * 1_000_000_000
    );
    let config = Config::from_json(&text).expect("right");
    Simulation::new(&config).expect("right").run().expect("nothing is captured")
}

#[test]
fn an_idle_path_answers_after_its_delays_and_two_transmissions() {
    let outcome = probed(2, r#", "requests": 10"#, "");
    let echoes = &outcome.flows[0].echoes;
    // The last one leaves as the simulation ends.
    assert_eq!((echoes.len(), echoes[20].replies, echoes[20].rtt_ns), (21, 0, None));
    for sample in &echoes[..20] {
        // 125 bytes take 100 us on each line, which is less than the millisecond to the next one.
        assert_eq!((sample.replies, sample.rtt_ns), (10, Some(50_200_000)));
    }
    assert_eq!(outcome.flows[0].received_packets, 200);
    assert_eq!(outcome.flows[0].lost_packets, 0);
}

#[test]
fn a_full_queue_adds_what_it_holds_and_loses_requests() {
    let load = r#", {"name": "load", "from": "a", "to": "b", "application":
        {"kind": "udp", "rate_bps": 20000000, "payload_bytes": 1472}}"#;
    let outcome = probed(4, "", load);
    let probe = &outcome.flows[0];
    let late: Vec<f64> =
        probe.echoes[5..38].iter().filter_map(|s| Some(s.rtt_ns? as f64 / 1e6)).collect();
    assert!(late.len() > 10, "a small packet often fits where a large one does not");
    for rtt in late {
        assert!((97.0..=100.3).contains(&rtt), "{rtt} ms: the buffer holds 50 ms");
    }
}

#[test]
fn a_lost_request_leaves_a_sample_without_a_reply() {
    // A hundred times the line's rate in small packets: there is hardly ever room for a larger one.
    let load = r#", {"name": "load", "from": "a", "to": "b", "application":
        {"kind": "udp", "rate_bps": 1000000000, "payload_bytes": 1}}"#;
    let outcome = probed(2, "", load);
    let probe = &outcome.flows[0];
    let missing = probe.echoes.iter().filter(|sample| sample.rtt_ns.is_none()).count() as u64;
    let replies: u64 = probe.echoes.iter().map(|sample| sample.replies).sum();
    assert_eq!(missing + replies, 21);
    assert!(missing > 10, "{missing} of 21 are missing");
}
