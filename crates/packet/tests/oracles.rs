//! Queues against their closed forms, and packets against conservation.

use weir_packet::{Config, Outcome, Simulation};

/// One link of 10 Mbit/s without delay between two hosts; `traffic` runs for `seconds`.
fn one_link(traffic: &str, queue: &str, seconds: u64) -> Outcome {
    let text = format!(
        r#"{{"seed": 7, "duration_ns": {}, "warmup_ns": 1000000000, "sample_ns": 300000,
        "nodes": [{{"name": "a"}}, {{"name": "b"}}],
        "links": [{{"name": "a-b", "ends": ["a", "b"],
            "forward": {{"rate_bps": 10000000, "queue": {queue}}}, "backward": {{}}}}],
        "traffic": [{traffic}]}}"#,
        seconds * 1_000_000_000
    );
    run(&text)
}

fn run(text: &str) -> Outcome {
    let config = Config::from_json(text).expect("the configuration is right");
    Simulation::new(&config).expect("it can be built").run().expect("no capture can fail")
}

fn poisson(load: f64, exponential: bool) -> String {
    let rate = (load * 1e7) as u64;
    format!(
        r#"{{"name": "load", "from": "a", "to": "b", "application": {{"kind": "poisson",
        "rate_bps": {rate}, "size_bytes": 1000, "exponential_sizes": {exponential}}}}}"#
    )
}

const FIFO: &str = r#"{"discipline": "fifo"}"#;
/// 1000 bytes at 10 Mbit/s.
const SERVICE_S: f64 = 0.8e-3;

#[test]
fn poisson_packets_of_one_size_wait_as_in_m_d_1() {
    for load in [0.5, 0.8] {
        let outcome = one_link(&poisson(load, false), FIFO, 600);
        let forward = &outcome.links[0].forward;
        // Pollaczek-Khinchine with constant service: rho^2 / (2 (1 - rho)) wait in the mean.
        let waiting = load * load / (2.0 * (1.0 - load));
        let found = forward.queue_bytes_mean / 1_000.0;
        assert!((found / waiting - 1.0).abs() < 0.03, "load {load}: {found} wait, not {waiting}");
        let used = forward.utilisation.expect("the link has a rate");
        assert!((used / load - 1.0).abs() < 0.01, "load {load}: {used} used");
    }
}

#[test]
fn poisson_packets_of_exponential_sizes_wait_as_in_m_m_1() {
    for load in [0.5, 0.8] {
        let outcome = one_link(&poisson(load, true), FIFO, 900);
        let forward = &outcome.links[0].forward;
        // Sizes are rounded up to whole bytes: half a byte more in the mean.
        let rho = load * 1.0005;
        let waiting = rho * rho / (1.0 - rho);
        let found = forward.queue_bytes_mean / 1_000.5;
        assert!((found / waiting - 1.0).abs() < 0.04, "load {load}: {found} wait, not {waiting}");
        // P(wait > t) = rho exp(-(1 - rho) t / service); the histogram is exact to 1/16.
        let sojourn = forward.classes[0].sojourn;
        let p99 = (rho / 0.01).ln() / (1.0 - rho) * SERVICE_S;
        let ratio = sojourn.p99_ns as f64 / 1e9 / p99;
        assert!((0.95..1.0 + 1.0 / 16.0 + 0.05).contains(&ratio), "load {load}: p99 {ratio}");
    }
}

#[test]
fn a_full_fifo_drops_what_m_d_1_k_drops() {
    // At most 1 waits beside the one in service: M/D/1/2. Its loss probability follows from the
    // embedded chain at departures (Gross and Harris section 5.1.7): with a0 = exp(-rho),
    // pi0 = a0, so the loss is 1 - 1 / (pi0 + rho).
    for load in [0.5f64, 1.0, 1.5] {
        let queue = r#"{"discipline": "fifo", "limit": {"packets": 1}}"#;
        let outcome = one_link(&poisson(load, false), queue, 300);
        let forward = &outcome.links[0].forward;
        let lost = forward.dropped_queue as f64 / forward.packets_in as f64;
        let expected = 1.0 - 1.0 / ((-load).exp() + load);
        assert!((lost / expected - 1.0).abs() < 0.02, "load {load}: {lost}, not {expected}");
    }
}

#[test]
fn a_constant_stream_below_the_rate_never_waits_and_all_of_it_arrives() {
    let traffic = r#"{"name": "cbr", "from": "a", "to": "b", "stop_ns": 2000000000,
        "application": {"kind": "udp", "rate_bps": 8000000, "payload_bytes": 972}}"#;
    let outcome = one_link(traffic, FIFO, 3);
    let flow = &outcome.flows[0];
    // 1000 B at 8 Mbit/s: one each ms; the one due at the very stop is not sent.
    assert_eq!((flow.sent_packets, flow.received_packets), (1_000, 1_000));
    let delay = flow.delay.expect("datagrams arrived");
    assert_eq!((delay.p50_ns, delay.max_ns), (800_000, 800_000));
    assert_eq!(outcome.links[0].forward.queue_bytes_max, 0);
}

#[test]
fn packets_are_conserved_through_loss_jitter_and_a_full_queue() {
    let text = r#"{"seed": 3, "duration_ns": 20000000000,
        "nodes": [{"name": "a"}, {"name": "r", "forwards": true}, {"name": "b"}],
        "links": [
          {"name": "in", "ends": ["a", "r"], "forward": {"rate_bps": 100000000,
             "loss": {"model": "bernoulli", "probability": 0.05}}, "backward": {}},
          {"name": "out", "ends": ["r", "b"], "forward": {"rate_bps": 10000000,
             "delay_ns": 5000000, "jitter_ns": 2000000,
             "queue": {"discipline": "fifo", "limit": {"packets": 10}}}, "backward": {}}],
        "traffic": [{"name": "load", "from": "a", "to": "b", "stop_ns": 19000000000,
          "application": {"kind": "poisson", "rate_bps": 15000000, "size_bytes": 500}}]}"#;
    let outcome = run(text);
    let flow = &outcome.flows[0];
    assert_eq!(flow.sent_packets, flow.received_packets + flow.lost_packets);
    let (first, second) = (&outcome.links[0].forward, &outcome.links[1].forward);
    assert_eq!(flow.lost_packets, first.dropped_loss + second.dropped_queue);
    assert!(first.dropped_loss > 3_000 && second.dropped_queue > 10_000, "{outcome:?}");
}
