//! TCP in the simulator: what a flow gets, that runs repeat, what a capture shows.

use std::io::Write;
use std::sync::{Arc, Mutex};

use weir_packet::{Config, Outcome, Simulation};

/// Two hosts and a router; the second link is the bottleneck, of 20 Mbit/s and 10 ms each way.
fn path(traffic: &str, queue: &str, seconds: u64) -> String {
    format!(
        r#"{{"seed": 5, "duration_ns": {}, "warmup_ns": 1000000000,
        "nodes": [{{"name": "a"}}, {{"name": "r", "forwards": true}}, {{"name": "b"}}],
        "links": [
          {{"name": "a-r", "ends": ["a", "r"], "forward": {{"rate_bps": 1000000000}},
            "backward": {{"rate_bps": 1000000000}}}},
          {{"name": "r-b", "ends": ["r", "b"],
            "forward": {{"rate_bps": 20000000, "delay_ns": 10000000, "queue": {queue}}},
            "backward": {{"rate_bps": 20000000, "delay_ns": 10000000}}}}],
        "traffic": [{traffic}]}}"#,
        seconds * 1_000_000_000
    )
}

fn simulation(text: &str) -> Simulation {
    Simulation::new(&Config::from_json(text).expect("right")).expect("right")
}

fn run(text: &str) -> Outcome {
    simulation(text).run().expect("nothing is captured")
}

fn traffic(name: &str, application: &str) -> String {
    format!(r#"{{"name": "{name}", "from": "a", "to": "b", "application": {application}}}"#)
}

const FIFO: &str = r#"{"discipline": "fifo", "limit": {"packets": 40}}"#;

#[test]
fn one_greedy_flow_fills_the_bottleneck() {
    for congestion in ["reno", "cubic"] {
        let bulk = format!(r#"{{"kind": "bulk", "tcp": {{"congestion": "{congestion}"}}}}"#);
        let outcome = run(&path(&traffic("bulk", &bulk), FIFO, 30));
        let flow = &outcome.flows[0];
        // 1448 of 1500 B are data. A buffer of a BDP or so leaves no gap after a halving.
        let share = flow.goodput_bps / (20e6 * 1448.0 / 1500.0);
        assert!((0.97..1.001).contains(&share), "{congestion}: {share}");
        assert!(outcome.links[1].forward.dropped_queue > 0, "{congestion} found no limit");
        let stream = &flow.streams[0];
        assert_eq!(stream.congestion, congestion);
        // 20 ms of delay, and the SYN of 60 B and its answer at 20 Mbit/s.
        assert!((20_050_000..20_700_000).contains(&stream.min_rtt_ns), "{stream:?}");
        assert!(stream.srtt_ns < 20_700_000 + 42 * 600_000, "{stream:?}");
    }
}

#[test]
fn a_transfer_of_a_size_delivers_just_that() {
    let bulk = r#"{"kind": "bulk", "streams": 3, "size_bytes": 1234567}"#;
    let text = path(&traffic("files", bulk), FIFO, 20).replace("\"warmup_ns\": 1000000000,", "");
    let outcome = run(&text);
    assert_eq!(outcome.flows[0].delivered_bytes, 3 * 1_234_567);
}

#[test]
fn a_paced_flow_keeps_its_rate() {
    let bulk = r#"{"kind": "bulk", "streams": 2, "rate_bps": 8000000}"#;
    let outcome = run(&path(&traffic("paced", bulk), FIFO, 20));
    let share = outcome.flows[0].goodput_bps / 8e6;
    assert!((0.99..1.01).contains(&share), "{share} of the rate");
    assert_eq!(outcome.links[1].forward.dropped_queue, 0);
}

#[test]
fn a_flow_stops_when_it_is_told() {
    let bulk = r#"{"kind": "bulk"}"#;
    let text = traffic("bulk", bulk).replace("\"to\"", "\"stop_ns\": 3000000000, \"to\"");
    let outcome = run(&path(&text, FIFO, 20));
    let bits = 8.0 * outcome.flows[0].delivered_bytes as f64;
    assert!((0.9..1.02).contains(&(bits / 2.0 / 19.3e6)), "{bits} in the 2 s measured");
    assert!(outcome.links[1].forward.utilisation.expect("it has a rate") < 2.2 / 19.0);
}

#[test]
fn requests_complete_and_their_places_are_used_again() {
    let web = r#"{"kind": "web", "requests_per_s": 100}"#;
    let outcome = run(&path(&traffic("web", web), FIFO, 60));
    let json = outcome.to_json().expect("numbers are finite");
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let application = &json["flows"][0]["application"];
    let (begun, completed) = (&application["begun"], &application["completed"]);
    let (begun, completed) = (begun.as_f64().expect("count"), completed.as_f64().expect("count"));
    assert!((begun / 6_000.0 - 1.0).abs() < 0.05, "{begun} begun in 60 s");
    assert!(completed > begun - 40.0, "{completed} of {begun} completed");
    // Opening, request and object of 1 KB or so: two round trips of 20 ms.
    let median = application["time"]["p50_ns"].as_f64().expect("time") / 1e6;
    assert!((40.0..50.0).contains(&median), "median {median} ms");
    // Each of them is in the trace: when begun, whose, size, how long.
    let traced =
        run(&path(&traffic("web", web), FIFO, 60)
            .replace("{\"seed\"", "{\"trace\": true, \"seed\""));
    let requests = traced.traces.expect("asked for").requests;
    let lines: Vec<Vec<&str>> = requests.lines().skip(1).map(|l| l.split(',').collect()).collect();
    assert_eq!(lines.len() as f64, completed);
    let least = |size: f64| 40e6 + size * 8.0 / 20e6 * 1e9;
    let number = |text: &str| text.parse::<f64>().expect("a number");
    assert!(lines.iter().all(|l| l[1] == "web" && number(l[3]) > least(number(l[2]))));
    // 8.98 KB in the mean (004-spec section 6.5).
    let goodput = outcome.flows[0].goodput_bps;
    assert!((goodput / 7.18e6 - 1.0).abs() < 0.2, "{goodput} bit/s");
}

#[test]
fn ticks_of_a_game_arrive_after_the_delay_of_the_path() {
    let game = r#"{"kind": "messages", "size_bytes": 100, "interval_ns": 33000000,
        "tcp": {"nagle": false}}"#;
    let outcome = run(&path(&traffic("game", game), FIFO, 30));
    let json: serde_json::Value =
        serde_json::from_str(&outcome.to_json().expect("finite")).expect("JSON");
    let application = &json["flows"][0]["application"];
    let count = |key: &str| application[key].as_u64().expect("count");
    assert!(count("written") - count("received") <= 1, "{application}");
    // 10 ms and 152 B at 20 Mbit/s and 1 Gbit/s; the histogram is exact to 1/16.
    let median = application["time"]["p50_ns"].as_f64().expect("time");
    assert!((10_060_000.0..10_700_000.0).contains(&median), "median {median} ns");
}

#[test]
fn listed_writes_leave_when_they_are_due() {
    let writes = r#"{"kind": "writes", "writes": [[0, 500], [2000000000, 300], [2000000000, 7]]}"#;
    let text = path(&traffic("writes", writes), FIFO, 4);
    let outcome = run(&text);
    // The first was before the warm-up ended.
    assert_eq!(outcome.flows[0].delivered_bytes, 307);
    let wrong = text.replace("[0, 500]", "[3000000000, 500]");
    let config = Config::from_json(&wrong).expect("right as JSON");
    let error = Simulation::new(&config).err().expect("refused").to_string();
    assert!(error.contains("\"writes\"") && error.contains("order"), "{error}");
}

#[test]
fn ecn_capable_datagrams_are_marked_and_others_dropped() {
    let codel = r#"{"discipline": "codel", "ecn": true}"#;
    let udp = r#"{"kind": "udp", "rate_bps": 21000000, "payload_bytes": 1472}"#;
    let found = |ecn: &str| {
        let udp = traffic("udp", udp).replacen('{', &format!(r#"{{"ecn": {ecn}, "#), 1);
        let outcome = run(&path(&udp, codel, 10));
        (outcome.flows[0].marked_packets > 0, outcome.links[1].forward.dropped_queue > 0)
    };
    assert_eq!(found(r#""ect0""#), (true, false));
    assert_eq!(found(r#""ect1""#), (true, false));
    assert_eq!(found("null"), (false, true));
    let tcp = traffic("tcp", r#"{"kind": "bulk"}"#).replacen('{', r#"{"ecn": "ect0", "#, 1);
    let config = Config::from_json(&path(&tcp, codel, 10)).expect("right as JSON");
    let error = Simulation::new(&config).err().expect("refused").to_string();
    assert!(error.contains("\"tcp\"") && error.contains("datagrams"), "{error}");
}

#[test]
fn a_lone_video_player_reaches_the_highest_level_and_never_stalls() {
    let outcome = run(&path(&traffic("video", r#"{"kind": "video"}"#), FIFO, 120));
    let json: serde_json::Value =
        serde_json::from_str(&outcome.to_json().expect("finite")).expect("JSON");
    let application = &json["flows"][0]["application"];
    assert_eq!(application["stalls"], 0);
    let top = application["chunks"][7].as_u64().expect("count");
    assert!(top > 30, "{application}");
    // From the first chunk on it is always at some level, at the end for at most 2 s unseen.
    let spans = application["level_ns"].as_array().expect("a span for each level");
    let seen: u64 = spans.iter().map(|span| span.as_u64().expect("time")).sum();
    assert!((116_000_000_000..120_000_000_000).contains(&seen), "{application}");
}

#[test]
fn two_runs_are_the_same_to_the_byte_and_another_seed_is_not() {
    let mixed = [
        traffic("bulk", r#"{"kind": "bulk", "streams": 4, "tcp": {"congestion": "cubic:ecn=on"}}"#),
        traffic("web", r#"{"kind": "web", "requests_per_s": 20}"#),
        traffic("noise", r#"{"kind": "poisson", "rate_bps": 2000000, "size_bytes": 400}"#),
    ];
    let text = path(&mixed.join(", "), r#"{"discipline": "fq-codel"}"#, 10);
    let json = |text: &str| run(text).to_json().expect("finite");
    assert_eq!(json(&text), json(&text));
    assert_ne!(json(&text), json(&text.replace("\"seed\": 5", "\"seed\": 6")));
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panicked").extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_capture_is_made_of_whole_blocks_and_valid_headers() {
    let bulk = traffic("bulk", r#"{"kind": "bulk", "size_bytes": 400000}"#);
    let udp = traffic("udp", r#"{"kind": "udp", "rate_bps": 1000000, "payload_bytes": 972}"#);
    let mut simulation = simulation(&path(&format!("{bulk}, {udp}"), FIFO, 3));
    let file = Shared::default();
    simulation.capture("a", Box::new(file.clone()), "memory".to_owned()).expect("a is a node");
    assert!(simulation.capture("x", Box::new(file.clone()), "memory".to_owned()).is_err());
    simulation.run().expect("memory can be written");
    let bytes = file.0.lock().expect("nobody panicked").clone();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(word(0), 0x0A0D_0D0A);
    let (mut at, mut packets, mut syns, mut last) = (0, 0, 0, 0u64);
    while at < bytes.len() {
        let length = word(at + 4) as usize;
        assert_eq!(word(at + length - 4) as usize, length, "the two lengths of a block differ");
        if word(at) == 6 {
            packets += 1;
            let time = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            assert!(time >= last, "time goes back");
            last = time;
            let packet = &bytes[at + 28..at + 28 + word(at + 20) as usize];
            let sum: u32 = packet[..20]
                .chunks(2)
                .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
                .sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "IP checksum");
            if packet[9] == 6 {
                let header = usize::from(packet[32] >> 4) * 4;
                assert_eq!(packet.len(), 20 + header, "cut after the headers");
                syns += usize::from(packet[33] & 2 != 0);
            }
        }
        at += length;
    }
    assert_eq!(syns, 2, "a SYN and its answer");
    assert!(packets > 276 + 100 + 375, "{packets} packets");
}
