//! Connections joined into one and split again: every byte arrives, weights hold, acknowledgements
//! mean what they say (003-spec section 11, T-A2 to T-A4 and T-B1).

use weir_packet::{Config, Outcome, RelayOutcome, Simulation};

const MODES: [&str; 4] = ["none", "literal", "strict", "per-flow"];

/// Clients at `c`, the join end at `p`, the split end at `q`, servers at `s` and, farther away, at
/// `t`; between the routers a line of 10 Mbit/s and 10 ms, with `loss`.
fn network(loss: f64, seconds: u64, linked_ack: &str, traffic: &str) -> String {
    let host = |name: &str, router: &str, delay_ms: u64| {
        format!(
            r#"{{"name": "{name}-{router}", "ends": ["{name}", "{router}"],
            "forward": {{"rate_bps": 1000000000, "delay_ns": {delay}}},
            "backward": {{"rate_bps": 1000000000, "delay_ns": {delay}}}}}"#,
            delay = delay_ms * 1_000_000
        )
    };
    let links = [
        host("c", "u", 1),
        host("p", "u", 0),
        host("q", "v", 0),
        host("s", "v", 1),
        host("t", "v", 40),
    ]
    .join(",");
    format!(
        r#"{{"seed": 7, "duration_ns": {}, "nodes": [{{"name": "c"}}, {{"name": "p"}},
        {{"name": "u", "forwards": true}}, {{"name": "v", "forwards": true}}, {{"name": "q"}},
        {{"name": "s"}}, {{"name": "t"}}],
        "links": [{links}, {{"name": "u-v", "ends": ["u", "v"],
          "forward": {{"rate_bps": 10000000, "delay_ns": 10000000, {loss}
            "queue": {{"discipline": "fifo", "limit": {{"packets": 50}}}}}},
          "backward": {{"rate_bps": 10000000, "delay_ns": 10000000}}}}],
        "traffic": [{{"name": "relay", "from": "p", "to": "q",
          "application": {{"kind": "relay", "linked_ack": "{linked_ack}"}}}}, {traffic}]}}"#,
        seconds * 1_000_000_000,
        loss = format_args!(r#""loss": {{"model": "bernoulli", "probability": {loss}}},"#),
    )
}

/// Greedy connections through the relay.
fn clients(name: &str, to: &str, weight: u32, more: &str) -> String {
    format!(
        r#"{{"name": "{name}", "from": "c", "to": "{to}", "through": "relay", "weight": {weight},
        {more}}}"#
    )
}

fn bulk(streams: u32) -> String {
    format!(r#""application": {{"kind": "bulk", "streams": {streams}}}"#)
}

fn files(streams: u32, size: u64) -> String {
    format!(r#""application": {{"kind": "bulk", "streams": {streams}, "size_bytes": {size}}}"#)
}

fn run(text: &str) -> Outcome {
    let config = Config::from_json(text).expect("right");
    Simulation::new(&config).expect("right").run().expect("nothing is captured")
}

fn relay(outcome: &Outcome) -> RelayOutcome {
    outcome.flows[0].relay.expect("the first traffic is the relay")
}

#[test]
fn every_byte_of_every_flow_arrives_and_nothing_is_left() {
    for mode in MODES {
        let traffic =
            [clients("near", "s", 1, &files(7, 123_457)), clients("far", "t", 3, &files(3, 99))];
        let outcome = run(&network(0.01, 60, mode, &traffic.join(",")));
        assert_eq!(outcome.flows[1].delivered_bytes, 7 * 123_457, "{mode}");
        assert_eq!(outcome.flows[2].delivered_bytes, 3 * 99, "{mode}");
        assert!(outcome.links[5].forward.dropped_loss > 0, "{mode}: something was lost");
        let relay = relay(&outcome);
        assert_eq!(relay.flows, 10);
        assert_eq!(relay.received_bytes, 7 * 123_457 + 3 * 99, "{mode}");
        assert_eq!(relay.acknowledged_bytes, relay.received_bytes, "{mode}");
        assert_eq!((relay.held_acks, relay.is_at_rest), (0, true), "{mode}");
    }
}

#[test]
fn strictly_no_client_is_told_what_its_server_has_not_said() {
    let ahead = |mode: &str| {
        let traffic =
            [clients("near", "s", 1, &files(4, 400_000)), clients("far", "t", 1, &bulk(4))];
        relay(&run(&network(0.01, 20, mode, &traffic.join(",")))).ahead_bytes_max
    };
    assert_eq!(ahead("strict"), 0);
    assert_eq!(ahead("per-flow"), 0);
    // Credit of the fast server's goes to clients of the slow one.
    assert!(ahead("literal") > 1_448, "literally: {}", ahead("literal"));
    assert!(ahead("none") > ahead("literal"), "not at all: {}", ahead("none"));
}

/// The work's switches hold the aggregate's own acknowledgements, so that what it has lost is
/// repaired late; `weir relay` holds those of clients alone, whose connections lose nothing here.
#[test]
fn flow_by_flow_only_clients_wait_and_the_aggregate_repairs_its_losses_by_itself() {
    let goodput = |mode: &str| {
        let traffic = clients("far", "t", 1, &bulk(1));
        let outcome = run(&network(0.02, 40, mode, &traffic));
        let relay = relay(&outcome);
        (outcome.flows[1].goodput_bps, relay.ahead_bytes_max)
    };
    let [(plain, ahead), (strict, none), (per_flow, neither)] =
        ["none", "strict", "per-flow"].map(goodput);
    assert!(ahead > 0 && none == 0 && neither == 0);
    assert!(per_flow > 0.9 * plain, "{per_flow} of {plain} bit/s");
    assert!(strict < 0.7 * plain, "{strict} of {plain} bit/s");
}

/// What is told of acknowledgements must not wait (Nagle) until what was told before has arrived: a
/// client that loses packets on its own leg would have two round trips for one.
#[test]
fn with_losses_of_its_own_a_client_has_what_it_has_without_a_relay() {
    let goodput = |loss: f64, through: bool| {
        let traffic = clients("some", "s", 1, &bulk(1));
        let text = network(0.0, 60, "per-flow", &traffic).replacen(
            r#""delay_ns": 1000000}"#,
            &format!(
                r#""delay_ns": 4000000, "loss": {{"model": "bernoulli", "probability": {loss}}}}}"#
            ),
            1,
        );
        let alone = text.replace(r#""through": "relay", "weight": 1,"#, "");
        let outcome = run(if through { &text } else { &alone });
        let lost = outcome.links[0].forward.dropped_loss as f64;
        let sent_again = outcome.flows[1].streams[0].retransmissions as f64;
        assert!(sent_again < 1.25 * lost + 10.0, "{loss}: {sent_again} for {lost}");
        outcome.flows[1].goodput_bps
    };
    for loss in [0.003, 0.01, 0.03] {
        let (joined, alone) = (goodput(loss, true), goodput(loss, false));
        assert!(joined > 0.85 * alone, "{loss}: {joined} of {alone} bit/s");
    }
}

#[test]
fn shares_are_as_weights_are() {
    for mode in MODES {
        let weights = [1, 2, 5];
        let traffic = weights.map(|weight| clients(&format!("w{weight}"), "s", weight, &bulk(1)));
        let text = network(0.0, 60, mode, &traffic.join(","))
            .replace("\"seed\": 7,", "\"seed\": 7, \"warmup_ns\": 10000000000,");
        let outcome = run(&text);
        let total: f64 = outcome.flows[1..].iter().map(|flow| flow.goodput_bps).sum();
        assert!((9.3e6..9.66e6).contains(&total), "{mode}: {total} bit/s");
        for (flow, weight) in outcome.flows[1..].iter().zip(weights) {
            let share = flow.goodput_bps / total * 8.0 / f64::from(weight);
            assert!((0.99..1.01).contains(&share), "{mode}, weight {weight}: {share}");
        }
    }
}

#[test]
fn a_client_that_breaks_off_holds_nobody_up() {
    for mode in MODES {
        let gone = clients("gone", "t", 1, &format!(r#""stop_ns": 2000000000, {}"#, bulk(3)));
        let traffic = [gone, clients("rest", "s", 1, &files(2, 5_000_000))];
        let outcome = run(&network(0.0, 40, mode, &traffic.join(",")));
        assert!(outcome.flows[1].delivered_bytes > 100_000, "{mode}: it had begun");
        assert_eq!(outcome.flows[2].delivered_bytes, 10_000_000, "{mode}");
        assert_eq!(relay(&outcome).held_acks, 0, "{mode}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for mode in MODES {
        let text = network(0.02, 5, mode, &clients("some", "s", 1, &bulk(5)));
        let outcome = || run(&text).to_json().expect("numbers are finite");
        assert_eq!(outcome(), outcome(), "{mode}");
    }
}

#[test]
fn what_cannot_pass_a_relay_is_refused() {
    let right = clients("some", "s", 1, &bulk(2));
    let wrong = [
        ("\"through\": \"relay\"", "\"through\": \"some\"", "there is no relay \"some\""),
        ("\"weight\": 1", "\"weight\": 0", "weight = 0: 1 to 10000 is allowed"),
        (
            "\"through\": \"relay\", \"weight\": 1",
            "\"weight\": 2",
            "weight = 2: it passes no relay",
        ),
        ("\"kind\": \"bulk\", \"streams\": 2", "\"kind\": \"rpc\"", "greedy TCP alone"),
        ("\"streams\": 2", "\"streams\": 65533", "65533 connections pass it; at most 65532"),
        ("\"from\": \"p\"", "\"start_ns\": 1, \"from\": \"p\"", "from the first client on"),
        ("\"linked_ack\": \"none\"", "\"linked_ack\": \"some\"", "unknown variant `some`"),
        ("\"linked_ack\"", "\"linked\"", "unknown field `linked`"),
    ];
    let text = network(0.0, 5, "none", &right);
    run(&text);
    for (from, to, said) in wrong {
        assert!(text.contains(from), "{from}");
        let text = text.replacen(from, to, 1);
        let error = Config::from_json(&text)
            .and_then(|config| Simulation::new(&config).map(|_| ()))
            .expect_err("wrong");
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
}
