//! Applications over TCP in an idle network, against what rounds of slow start and arithmetic say.

use weir_packet::{ApplicationOutcome, Config, FlowOutcome, Simulation};

/// Segments that a connection begins with (RFC 6928), and what one carries.
const INITIAL_WINDOW: u64 = 10;
const MSS: u64 = 1_448;

/// What `application` did in `seconds` between a and b, `delay_ms` apart at `rate_bps`.
fn run(application: &str, rate_bps: u64, delay_ms: u64, seconds: u64) -> FlowOutcome {
    let way = format!(r#"{{"rate_bps": {rate_bps}, "delay_ns": {delay_ms}000000}}"#);
    let text = format!(
        r#"{{"seed": 11, "duration_ns": {seconds}000000000,
        "nodes": [{{"name": "a"}}, {{"name": "b"}}],
        "links": [{{"name": "a-b", "ends": ["a", "b"], "forward": {way}, "backward": {way}}}],
        "traffic": [{{"name": "it", "from": "a", "to": "b", "application": {application}}}]}}"#
    );
    let config = Config::from_json(&text).expect("right");
    let outcome = Simulation::new(&config).expect("right").run().expect("nothing is captured");
    outcome.flows.into_iter().next().expect("one traffic")
}

/// Rounds of slow start that carry so many segments: 10, 20, 40, ...
fn rounds(segments: u64) -> u32 {
    (1..).find(|n| INITIAL_WINDOW * ((1 << n) - 1) >= segments).expect("some number does")
}

#[test]
fn a_transfer_takes_the_handshake_and_the_rounds_of_slow_start() {
    for segments in [1, 10, 11, 30, 31, 70, 71, 150] {
        let size = segments * MSS;
        let web = format!(
            r#"{{"kind": "web", "tcp": {{"congestion": "reno"}}, "requests_per_s": 0.5,
            "least_bytes": {size}, "most_bytes": {size}}}"#
        );
        // A round trip of 100 ms, beside which 10 Gbit/s take no time.
        let flow = run(&web, 10_000_000_000, 50, 20);
        let Some(ApplicationOutcome::Completion { completed, time, .. }) = flow.application else {
            panic!("{flow:?}");
        };
        assert!(completed > 3, "{completed} completed");
        let expected = 0.1 * f64::from(1 + rounds(segments));
        let found = time.max_ns as f64 / 1e9;
        assert!((found - expected).abs() < 0.002, "{segments} segments: {found}, not {expected}");
    }
}

#[test]
fn a_page_takes_the_rounds_of_its_connections() {
    // The root takes two round trips; then the first connection takes one for an object and each
    // new one two for its first: after m round trips, m + (k - 1)(m - 1) objects are there.
    for (objects, connections) in [(0, 6), (1, 6), (6, 6), (19, 6), (20, 6), (5, 1), (8, 2)] {
        let pages = format!(
            r#"{{"kind": "pages", "interval_ns": 2000000000, "root_bytes": 10000,
            "objects": {objects}, "connections": {connections}, "least_bytes": 5000,
            "most_bytes": 5000}}"#
        );
        let flow = run(&pages, 10_000_000_000, 50, 30);
        let Some(ApplicationOutcome::PageLoad { completed, time, .. }) = flow.application else {
            panic!("{flow:?}");
        };
        assert!(completed > 3, "{completed} loaded");
        let there = |m: i32| m + (connections - 1) * (m - 1);
        let more = (1..).find(|m| there(*m) >= objects).filter(|_| objects > 0).unwrap_or(0);
        let expected = 0.1 * f64::from(2 + more);
        let found = time.max_ns as f64 / 1e9;
        let page = format!("{objects} objects over {connections} connections");
        assert!((found - expected).abs() < 0.002, "{page}: {found} s, not {expected} s");
        let size = 10_000 + 5_000 * objects as u64;
        assert!(flow.delivered_bytes >= completed * size, "{page}: {} B", flow.delivered_bytes);
    }
}

#[test]
fn calls_a_second_are_concurrency_over_round_trip_and_service() {
    for (concurrency, service_ms) in [(1, 0), (4, 0), (4, 5), (16, 30)] {
        let rpc = format!(
            r#"{{"kind": "rpc", "tcp": {{"nagle": false}}, "concurrency": {concurrency},
            "reply_bytes": 500, "service_ns": {}}}"#,
            service_ms * 1_000_000
        );
        let flow = run(&rpc, 10_000_000_000, 10, 60);
        let Some(ApplicationOutcome::Calls { per_s, made, answered, .. }) = flow.application else {
            panic!("{flow:?}");
        };
        let expected = f64::from(concurrency) / (0.02 + f64::from(service_ms) / 1e3);
        assert!((per_s / expected - 1.0).abs() < 0.005, "{per_s}, not {expected}");
        assert!(made - answered <= concurrency as u64, "{answered} of {made}");
    }
}

#[test]
fn panoramic_video_keeps_its_rate_and_reacts_within_a_tick() {
    let piv = r#"{"kind": "piv", "tcp": {"nagle": false}}"#;
    let flow = run(piv, 100_000_000, 10, 60);
    // 004-spec section 6.7: 25 frames a second of 8 Mbit/s together.
    let rate = flow.goodput_bps / 8e6;
    assert!((rate - 1.0).abs() < 0.01, "{rate} of the rate");
    let Some(ApplicationOutcome::Panorama(panorama)) = flow.application else {
        panic!("no measure");
    };
    assert!((1_495..=1_500).contains(&panorama.displayed), "{panorama:?}");
    // A round trip, half a tick in the median, and a frame of 37 kB at 100 Mbit/s.
    let reaction = panorama.reaction.p50_ns as f64 / 1e9;
    assert!((0.036..0.052).contains(&reaction), "{reaction}");
}

#[test]
fn panoramic_video_leaves_frames_out_where_there_is_no_room() {
    let piv = r#"{"kind": "piv", "tcp": {"nagle": false}}"#;
    let flow = run(piv, 4_000_000, 10, 60);
    let Some(ApplicationOutcome::Panorama(panorama)) = flow.application else {
        panic!("no measure");
    };
    // In a second one key frame of 111 kB and f - 1 of 37 kB fill 4 Mbit/s: f is 11.0.
    let ordinary = 1e6 / 27.0;
    let per_s = (4e6 / 8.0 * 1448.0 / 1500.0 - 3.0 * ordinary) / ordinary + 1.0;
    let found = panorama.displayed as f64 / 60.0;
    assert!((found / per_s - 1.0).abs() < 0.03, "{found} frames a second, not {per_s}");
    assert!(panorama.captured >= 1_495 && panorama.sent < panorama.captured, "{panorama:?}");
}

#[test]
fn messages_of_a_game_take_the_delay_of_an_idle_path() {
    let game = r#"{"kind": "game", "tcp": {"nagle": false}, "think_ns": 1000000000}"#;
    let flow = run(game, 1_000_000_000, 30, 120);
    let Some(ApplicationOutcome::Latency { written, received, time }) = flow.application else {
        panic!("{flow:?}");
    };
    assert!(written > 1_000 && written - received < 20, "{received} of {written}");
    // Quantiles are exact to 1/16. Some messages wait for a window that opens.
    assert!((28_000_000..32_100_000).contains(&time.p50_ns), "{time:?}");
    // More than half of the messages are smaller than the median of 180 B of the specification.
    let mean = flow.delivered_bytes as f64 / received as f64;
    assert!((180.0..300.0).contains(&mean), "{mean} B in the mean");
}
