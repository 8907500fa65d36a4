//! Wireless and lossless links in the simulator: throughput, conservation, repetition, refusals.

use weir_packet::{Config, Outcome, Simulation, SpecialOutcome};

fn outcome(text: &str) -> Outcome {
    let config = Config::from_json(text).expect("the configuration is right");
    Simulation::new(&config).expect("it can be built").run().expect("nothing is captured")
}

const CHANNEL: &str = r#"{"name": "six", "config": {"standard": "802.11b"}}"#;

fn simulation(seconds: u64, nodes: &str, links: &[String], traffic: &[String]) -> String {
    format!(
        r#"{{"seed": 2, "duration_ns": {}, "warmup_ns": 1000000000,
        "channels": [{}], "nodes": [{nodes}], "links": [{}], "traffic": [{}]}}"#,
        seconds * 1_000_000_000,
        if links.iter().any(|link| link.contains("wlan")) { CHANNEL } else { "" },
        links.join(", "),
        traffic.join(", ")
    )
}

fn wlan(station: &str, rate: u64) -> String {
    let way = format!(
        r#"{{"rate_bps": {rate}, "queue": {{"discipline": "fifo", "limit": {{"packets": 50}}}}}}"#
    );
    format!(
        r#"{{"name": "{station}", "ends": ["{station}", "ap"],
        "medium": {{"kind": "wlan", "channel": "six"}}, "forward": {way}, "backward": {way}}}"#
    )
}

fn wire(from: &str, to: &str) -> String {
    let way = r#"{"rate_bps": 1000000000, "delay_ns": 1000000}"#;
    format!(
        r#"{{"name": "{from}-{to}", "ends": ["{from}", "{to}"], "forward": {way},
        "backward": {way}}}"#
    )
}

fn lossless(from: &str, to: &str) -> String {
    let way = r#"{"rate_bps": 1000000000, "delay_ns": 10000}"#;
    format!(
        r#"{{"name": "{from}-{to}", "ends": ["{from}", "{to}"],
        "medium": {{"kind": "credits", "buffer_bytes": 65536}}, "forward": {way},
        "backward": {way}}}"#
    )
}

fn traffic(from: &str, to: &str, application: &str) -> String {
    format!(
        r#"{{"name": "{from}-{to}", "from": "{from}", "to": "{to}", "stop_ns": 9000000000,
        "application": {application}}}"#
    )
}

const UDP: &str = r#"{"kind": "udp", "rate_bps": 8000000, "payload_bytes": 1472}"#;
const BULK: &str = r#"{"kind": "bulk"}"#;
const CELL: &str = r#"{"name": "ap", "forwards": true}, {"name": "server"}, {"name": "s0"},
    {"name": "s1"}, {"name": "s2"}, {"name": "s3"}, {"name": "s4"}"#;

/// Five stations send more than the channel carries to a server behind the access point.
fn upload() -> String {
    let stations: Vec<String> = (0..5).map(|station| format!("s{station}")).collect();
    let mut links: Vec<String> = stations.iter().map(|name| wlan(name, 11_000_000)).collect();
    links.push(wire("ap", "server"));
    let flows: Vec<String> = stations.iter().map(|name| traffic(name, "server", UDP)).collect();
    simulation(10, CELL, &links, &flows)
}

#[test]
fn five_stations_share_a_channel_and_no_packet_is_forgotten() {
    let outcome = outcome(&upload().replace("9000000000", "10000000000"));
    // ns-3's figure for five saturated stations at 11 Mbit/s (`wifi-bianchi`), in Mbit/s.
    let all: f64 = outcome.flows.iter().map(|flow| flow.goodput_bps).sum();
    assert!((all / 6.3821e6 - 1.0).abs() < 0.03, "{all} bit/s");
    for flow in &outcome.flows {
        let share = flow.goodput_bps / all;
        assert!((share - 0.2).abs() < 0.02, "{} has {share} of it", flow.name);
    }
    // In the second after the last was sent, queues of 50 packets each have emptied.
    let whole = outcome_from_the_start(&upload());
    for flow in &whole.flows {
        assert_eq!(flow.sent_packets, flow.received_packets + flow.lost_packets, "{}", flow.name);
    }
    let airtime: f64 = outcome.links[..5]
        .iter()
        .map(|link| match link.forward.special {
            Some(SpecialOutcome::Wlan(wlan)) => wlan.airtime_share,
            other => panic!("{other:?} of a wireless link"),
        })
        .sum();
    // 529 frames of 1309 us a second, with 258 us of SIFS and ACK; a sixth of all transmissions
    // collide and count too. The rest is DIFS and backoff.
    assert!((0.92..1.0).contains(&airtime), "{airtime} of the time");
    assert!(outcome.links[5].forward.special.is_none());
}

fn outcome_from_the_start(text: &str) -> Outcome {
    outcome(&text.replace("\"warmup_ns\": 1000000000", "\"warmup_ns\": 0"))
}

#[test]
fn tcp_and_its_acknowledgements_contend_for_the_channel() {
    let links = [wlan("s0", 11_000_000), wire("ap", "server")];
    let flows = [traffic("server", "s0", BULK)];
    let nodes = r#"{"name": "ap", "forwards": true}, {"name": "server"}, {"name": "s0"}"#;
    let outcome = outcome(&simulation(10, nodes, &links, &flows));
    // "Effective about 5 Mbit/s" (003-spec section 4.8).
    let goodput = outcome.flows[0].goodput_bps;
    assert!((4.3e6..5.7e6).contains(&goodput), "{goodput} bit/s");
    // One acknowledgement for two segments or so, and each has to win the channel.
    let (down, up) = (&outcome.links[0].backward, &outcome.links[0].forward);
    assert!(up.packets_out * 3 > down.packets_out);
}

#[test]
fn an_incast_of_tcp_over_lossless_links_loses_nothing_and_fills_the_last() {
    let nodes: Vec<String> = (0..8).map(|host| format!(r#"{{"name": "h{host}"}}"#)).collect();
    let nodes = format!(
        r#"{}, {{"name": "switch", "forwards": true}}, {{"name": "sink"}}"#,
        nodes.join(", ")
    );
    let flows: Vec<String> =
        (0..8).map(|host| traffic(&format!("h{host}"), "sink", BULK)).collect();
    let run = |link: fn(&str, &str) -> String| {
        let mut links: Vec<String> = (0..8).map(|h| link(&format!("h{h}"), "switch")).collect();
        links.push(link("switch", "sink"));
        outcome(&simulation(2, &nodes, &links, &flows).replace("9000000000", "2000000000"))
    };
    let outcome = run(lossless);
    let lost: u64 = outcome.flows.iter().map(|flow| flow.lost_packets).sum();
    let again: u64 = outcome.flows.iter().map(|flow| flow.streams[0].retransmissions).sum();
    assert_eq!((lost, again), (0, 0));
    let all: f64 = outcome.flows.iter().map(|flow| flow.goodput_bps).sum();
    assert!((all / (1e9 * 1448.0 / 1500.0) - 1.0).abs() < 0.01, "{all} bit/s");
    let stalled = outcome.links[..8].iter().map(|link| match link.forward.special {
        Some(SpecialOutcome::Credits(credits)) => credits.stalled_share,
        other => panic!("{other:?} of a lossless link"),
    });
    assert!(stalled.fold(0.0, f64::max) > 0.5, "senders wait for credits");
}

#[test]
fn a_lossless_subnet_between_wires_is_crossed_by_all() {
    let nodes = r#"{"name": "a"}, {"name": "in", "forwards": true},
        {"name": "switch", "forwards": true}, {"name": "out", "forwards": true}, {"name": "b"}"#;
    let links =
        [wire("a", "in"), lossless("in", "switch"), lossless("switch", "out"), wire("out", "b")];
    let flows = [traffic("a", "b", UDP), traffic("b", "a", BULK)];
    let outcome = outcome_from_the_start(&simulation(10, nodes, &links, &flows));
    let udp = &outcome.flows[0];
    assert_eq!((udp.sent_packets, udp.lost_packets), (udp.received_packets, 0));
    for link in &outcome.links {
        assert_eq!(link.forward.packets_in, link.forward.packets_out, "{}", link.name);
        assert_eq!(link.forward.packets_in, outcome.links[0].forward.packets_in);
    }
}

#[test]
fn two_runs_are_the_same_to_the_byte_and_another_seed_is_not() {
    let json = |text: &str| outcome(text).to_json().expect("finite");
    assert_eq!(json(&upload()), json(&upload()));
    assert_ne!(json(&upload()), json(&upload().replace("\"seed\": 2", "\"seed\": 3")));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let wireless = simulation(
        10,
        r#"{"name": "ap", "forwards": true}, {"name": "s0"}"#,
        &[wlan("s0", 11_000_000)],
        &[traffic("s0", "ap", UDP)],
    );
    let credited = format!(
        r#"{{"seed": 2, "duration_ns": 10000000000, "nodes": [{{"name": "a"}}, {{"name": "b"}}],
        "links": [{}], "traffic": [{}]}}"#,
        lossless("a", "b"),
        traffic("a", "b", UDP)
    );
    let refusal = |text: &str| {
        let made = Config::from_json(text).and_then(|config| Simulation::new(&config));
        made.err().map(|error| error.to_string())
    };
    assert_eq!((refusal(&wireless), refusal(&credited)), (None, None));
    for (text, right, wrong, words) in [
        (
            &wireless,
            "\"rate_bps\": 11000000",
            "\"rate_bps\": 54000000",
            "link \"s0\" forward: rate_bps = 54000000: 802.11b sends at 1, 2, 5.5, 11 Mbit/s",
        ),
        (
            &wireless,
            "\"channel\": \"six\"",
            "\"channel\": \"nine\"",
            "link \"s0\": there is no channel \"nine\"",
        ),
        (
            &wireless,
            r#""medium": {"kind": "wlan", "channel": "six"}, "#,
            "",
            "channel \"six\": it has no stations",
        ),
        (
            &wireless,
            r#""medium": {"kind": "wlan""#,
            r#""mtu_bytes": 2297, "medium": {"kind": "wlan""#,
            "link \"s0\" forward: mtu_bytes = 2297: a frame holds a packet of up to 2296 bytes",
        ),
        (&wireless, "\"802.11b\"", "\"802.11q\"", "unknown variant `802.11q`"),
        (
            &wireless,
            "\"802.11b\"",
            "\"802.11b\", \"cw_min\": 0",
            "channel \"six\": cw_min = 0: a window",
        ),
        (&credited, "65536", "0", "link \"a-b\" forward: buffer_bytes = 0: its credits"),
        (&credited, "65536", "1500", "do not hold one packet of 1500 bytes"),
        (
            &credited,
            "\"rate_bps\": 1000000000, ",
            "",
            "link \"a-b\" forward: rate_bps = unlimited: a link with credits has a rate",
        ),
        (&credited, "\"kind\": \"credits\"", "\"kind\": \"magic\"", "unknown variant `magic`"),
    ] {
        assert!(text.contains(right), "{right} is not in the text");
        let found = refusal(&text.replacen(right, wrong, 1));
        let found = found.unwrap_or_else(|| panic!("{wrong} was taken"));
        assert!(found.contains(words), "{wrong}: {found}");
    }
}
