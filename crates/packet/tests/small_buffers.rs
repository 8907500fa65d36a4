//! Buffers smaller than anybody would choose: what is sent is less, but it is sent.

use weir_packet::{Config, Outcome, Simulation};

const RATE_BPS: f64 = 10e6;
/// Both ways, with one segment's and its acknowledgement's time on the wire.
const ROUND_TRIP_S: f64 = 0.0212;
/// A receiver answers a short or lone segment after so long at most (RFC 9293, Linux).
const DELAYED_ACK_S: f64 = 0.040;

fn run(application: &str, mtu: u32) -> Result<Outcome, String> {
    let text = format!(
        r#"{{"seed": 3, "duration_ns": 5000000000, "nodes": [{{"name": "a"}}, {{"name": "b"}}],
        "links": [{{"name": "a-b", "ends": ["a", "b"], "mtu_bytes": {mtu},
            "forward": {{"rate_bps": 10000000, "delay_ns": 10000000,
                "queue": {{"discipline": "fifo", "limit": {{"ns": 100000000}}}}}},
            "backward": {{"rate_bps": 10000000, "delay_ns": 10000000}}}}],
        "traffic": [{{"name": "load", "from": "a", "to": "b", "application": {application}}}]}}"#
    );
    let simulation = Config::from_json(&text).and_then(|config| Simulation::new(&config));
    let outcome = simulation.and_then(Simulation::run);
    outcome.map_err(|error| error.to_string())
}

fn bulk(more: &str, send: u64, receive: u64) -> String {
    format!(
        r#"{{"kind": "bulk"{more},
        "tcp": {{"send_buffer_bytes": {send}, "receive_buffer_bytes": {receive}}}}}"#
    )
}

/// Sizes around those of segments, windows and what the application writes at a time.
const BUFFERS: [u64; 11] =
    [1, 100, 1_000, 1_448, 1_449, 4_500, 10_000, 65_536, 262_144, 1 << 20, 64 << 20];

#[test]
fn a_buffer_s_worth_is_sent_in_every_round_trip() {
    for mtu in [1_500, 9_000] {
        for send in BUFFERS {
            for receive in BUFFERS {
                let outcome = run(&bulk("", send, receive), mtu).expect("right");
                let least = send.min(receive) as f64 * 8.0 / (ROUND_TRIP_S + DELAYED_ACK_S);
                let expected = least.min(RATE_BPS);
                let found = outcome.flows[0].goodput_bps;
                assert!(
                    found >= 0.85 * expected,
                    "{found} of {expected} bit/s, mtu {mtu}, buffers {send} and {receive}"
                );
            }
        }
    }
}

#[test]
fn a_file_larger_than_the_buffer_arrives_whole() {
    for buffer in [1_000, 100_000, 500_000, 3 << 20] {
        let file = bulk(r#", "size_bytes": 51234"#, buffer, 64 << 20);
        let outcome = run(&file, 1_500).expect("right");
        assert_eq!(outcome.flows[0].delivered_bytes, 51_234, "buffer {buffer}");
    }
}

#[test]
fn an_application_sends_or_is_refused_with_the_reason() {
    let kinds = [
        r#""kind": "web", "requests_per_s": 10"#,
        r#""kind": "pages", "interval_ns": 1000000000"#,
        r#""kind": "messages", "size_bytes": 15000, "interval_ns": 100000000"#,
        r#""kind": "video""#,
        r#""kind": "game""#,
        r#""kind": "piv""#,
        r#""kind": "rpc""#,
    ];
    for kind in kinds {
        for (send, receive) in
            [(1, 64 << 20), (10_000, 64 << 20), (64 << 20, 100), (64 << 20, 1_000)]
        {
            let tcp =
                format!(r#"{{"send_buffer_bytes": {send}, "receive_buffer_bytes": {receive}}}"#);
            match run(&format!(r#"{{{kind}, "tcp": {tcp}}}"#), 1_500) {
                Ok(outcome) => assert!(outcome.flows[0].delivered_bytes > 0, "{kind} {tcp}"),
                Err(reason) => {
                    assert!(reason.contains("does not fit send_buffer_bytes"), "{kind}: {reason}");
                    assert!(send < 64 << 20, "{kind} {tcp}: {reason}");
                }
            }
        }
    }
}
