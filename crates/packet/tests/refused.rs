//! Configurations that cannot be right: each is refused with its place, none panics.

use weir_packet::{Config, Simulation};

const RIGHT: &str = r#"{"seed": 1, "duration_ns": 1000000000,
    "nodes": [{"name": "a"}, {"name": "b"}, {"name": "far"}],
    "links": [{"name": "wire", "ends": ["a", "b"],
        "forward": {"rate_bps": 1000000, "queue": {"discipline": "fifo"}}, "backward": {}}],
    "traffic": [{"name": "load", "from": "a", "to": "b",
        "application": {"kind": "udp", "rate_bps": 500000, "payload_bytes": 100}}]}"#;

fn refusal(text: &str) -> Option<String> {
    let simulation = Config::from_json(text).and_then(|config| Simulation::new(&config));
    simulation.err().map(|error| error.to_string())
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    assert_eq!(refusal(RIGHT), None);
    let bulk = |more: &str| format!(r#"{{"kind": "bulk"{more}}}"#);
    let udp = r#"{"kind": "udp", "rate_bps": 500000, "payload_bytes": 100}"#;
    let cases: &[(&str, &str, &str)] = &[
        ("\"seed\": 1", "\"sed\": 1", "unknown field `sed`"),
        ("\"seed\": 1", "\"seed\": -1", "seed"),
        (r#"{"name": "b"}"#, r#"{"name": "a"}"#, "node \"a\": is there twice"),
        (r#"["a", "b"]"#, r#"["a", "x"]"#, "link \"wire\": there is no node \"x\""),
        (r#"["a", "b"]"#, r#"["a", "a"]"#, "both ends are the same node"),
        ("\"rate_bps\": 1000000", "\"rate_bps\": 0", "link \"wire\" forward: rate_bps = 0"),
        ("\"backward\": {}", r#""mtu_bytes": 9, "backward": {}"#, "mtu_bytes = 9"),
        ("\"discipline\": \"fifo\"", "\"discipline\": \"magic\"", "unknown variant `magic`"),
        (
            "\"discipline\": \"fifo\"",
            r#""discipline": "fifo", "limit": {"bytes": 100}"#,
            "does not hold one packet of 1500 bytes",
        ),
        ("\"to\": \"b\"", "\"to\": \"far\"", "traffic \"load\": no path joins \"a\" and \"far\""),
        ("\"to\": \"b\"", "\"to\": \"a\"", "comes from where it goes"),
        ("\"to\": \"b\"", "\"to\": \"b\", \"stop_ns\": 0", "stop_ns = 0 is not after its start"),
        ("\"to\": \"b\"", "\"to\": \"b\", \"dscp\": 64", "dscp = 64"),
        ("\"payload_bytes\": 100", "\"payload_bytes\": 1473", "packets of 1501 bytes"),
        ("\"rate_bps\": 500000", "\"rate_bps\": 0", "rate_bps = 0"),
        ("\"rate_bps\": 500000", "\"rate_bps\": 500000, \"on_ns\": 5", "come together"),
        (udp, &bulk(r#", "streams": 0"#), "1 to 65536 streams"),
        (udp, &bulk(r#", "tcp": {"congestion": "fast"}"#), "\"fast\" is not a congestion control"),
        (udp, &bulk(r#", "tcp": {"send_buffer_bytes": 0}"#), "a TCP buffer of 0 bytes"),
        (udp, r#"{"kind": "web", "requests_per_s": -1}"#, "requests_per_s is above 0"),
        (
            udp,
            r#"{"kind": "web", "requests_per_s": 1, "least_bytes": 9, "most_bytes": 8}"#,
            "least",
        ),
        (udp, r#"{"kind": "echo", "interval_ns": 1000, "requests": 0}"#, "1 or more"),
        (udp, r#"{"kind": "echo", "interval_ns": 9000000, "requests": 10}"#, "all sent before"),
        (udp, r#"{"kind": "video", "samples": 0}"#, "samples is above 0"),
        (udp, r#"{"kind": "pages", "interval_ns": 0}"#, "interval_ns is above 0"),
        (udp, r#"{"kind": "pages", "interval_ns": 1, "connections": 0}"#, "1 to 256 connections"),
        (udp, r#"{"kind": "game", "clients": 0}"#, "1 to 10000 clients"),
        (udp, r#"{"kind": "piv", "in_flight_max": 0}"#, "in_flight_max is above 0"),
        (udp, r#"{"kind": "web", "requests_per_s": 1, "most_bytes": 99000000}"#, "does not fit"),
        (
            udp,
            r#"{"kind": "video", "tcp": {"send_buffer_bytes": 700000}}"#,
            "does not fit send_buffer_bytes",
        ),
        (
            udp,
            r#"{"kind": "rpc", "concurrency": 3000, "reply_bytes": 18446744073709551615}"#,
            "does not fit",
        ),
        (udp, r#"{"kind": "rpc", "reply_bytes": 0}"#, "reply_bytes are above 0"),
        (udp, r#"{"kind": "dance"}"#, "unknown variant `dance`"),
        ("1000000000", "0", "leaves nothing of duration_ns"),
    ];
    for (right, wrong, words) in cases {
        assert!(RIGHT.contains(right), "{right} is not in the text");
        let found = refusal(&RIGHT.replacen(right, wrong, 1));
        let found = found.unwrap_or_else(|| panic!("{wrong} was taken"));
        assert!(found.contains(words), "{wrong}: {found}");
    }
    assert!(refusal(&format!("{RIGHT} {{}}")).is_some_and(|e| e.contains("after the simulation")));
}
