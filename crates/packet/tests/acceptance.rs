//! TCP and queue disciplines together, as 004-spec section 14.2 asks.

use weir_packet::{Config, Outcome, Simulation};

/// A line between two hosts, Mbit/s and ms of round trip, and its traffic: (name, start in ms,
/// congestion control). What happens in the first 20 s is not measured.
fn run(
    [mbit_s, rtt_ms, seconds]: [u64; 3],
    line: &str,
    senders: &[(&str, u64, &str)],
    seed: u64,
) -> Outcome {
    let traffic: Vec<String> = senders
        .iter()
        .map(|(name, start_ms, control)| {
            format!(
                r#"{{"name": "{name}", "from": "a", "to": "b", "start_ns": {},
                    "application": {{"kind": "bulk", "tcp": {{"congestion": "{control}"}}}}}}"#,
                start_ms * 1_000_000
            )
        })
        .collect();
    let delay = rtt_ms * 500_000;
    let text = format!(
        r#"{{"seed": {seed}, "duration_ns": {seconds}000000000, "warmup_ns": 20000000000,
        "trace": true, "nodes": [{{"name": "a"}}, {{"name": "b"}}],
        "links": [{{"name": "line", "ends": ["a", "b"],
            "forward": {{"rate_bps": {mbit_s}000000, "delay_ns": {delay}, {line}}},
            "backward": {{"rate_bps": 10000000000, "delay_ns": {delay}}}}}],
        "traffic": [{}]}}"#,
        traffic.join(",")
    );
    let config = Config::from_json(&text).expect("right");
    Simulation::new(&config).expect("right").run().expect("nothing is captured")
}

fn shares(outcome: &Outcome) -> Vec<f64> {
    let sum: f64 = outcome.flows.iter().map(|flow| flow.goodput_bps).sum();
    outcome.flows.iter().map(|flow| flow.goodput_bps / sum).collect()
}

#[test]
fn a_single_reno_flow_fills_the_line_with_three_quarters_of_its_largest_window() {
    // The window saws between half of and the whole of the BDP and a buffer of its size.
    let line = r#""queue": {"discipline": "fifo", "limit": {"bytes": 125000}}"#;
    let outcome = run([20, 50, 120], line, &[("reno", 0, "reno")], 1);
    assert!(outcome.links[0].forward.utilisation.expect("a rate") >= 0.97);
    let looks = outcome.traces.expect("asked for").connections;
    let windows: Vec<f64> = looks
        .lines()
        .skip(1)
        .map(|look| look.split(',').nth(3).expect("a column").parse().expect("a number"))
        .collect();
    let mean = windows.iter().sum::<f64>() / windows.len() as f64 * 1500.0 / 1448.0;
    let share = mean / (0.75 * 250_000.0);
    assert!((0.9..1.1).contains(&share), "{share} of three quarters");
}

#[test]
fn reno_under_random_loss_follows_its_square_root_law() {
    // Rate 1.22 / (R sqrt(p)) packets per second (Mathis et al., CCR 1997): the window grows by
    // what is acknowledged, so that delayed acknowledgements do not take it to 0.87.
    for p in [0.001, 0.005, 0.02] {
        let line = format!(r#""loss": {{"model": "bernoulli", "probability": {p}}}"#);
        let outcome = run([1_000, 50, 220], &line, &[("reno", 0, "reno")], 1);
        let packets_per_s = outcome.flows[0].goodput_bps / 8.0 / 1448.0;
        let share = packets_per_s * 0.05 * f64::sqrt(p) / 1.22;
        assert!((0.8..1.2).contains(&share), "p {p}: {share} of the law");
    }
}

#[test]
fn strict_priority_starves_classic_where_the_average_alone_is_coupled() {
    // Section 5.2.1, trap 1.
    let classic = |input: &str| {
        let line = format!(
            r#""queue": {{"discipline": "dual-curvy-red", "range_ns": 250000000,
                "coupling_factor": 8.0, "coupling_input": "{input}", "scheduler": "strict",
                "classifier": "any-ect"}}"#
        );
        let senders = [("l4s", 0, "dctcp:on-loss=linux-3.18"), ("classic", 300, "reno")];
        shares(&run([40, 7, 80], &line, &senders, 1))[1]
    };
    let (average, max) = (classic("average"), classic("max"));
    assert!(average < 0.01, "{average} with the average");
    assert!(max > 0.2, "{max} with the larger of average and head");
}

#[test]
fn fq_codel_is_equal_but_for_a_collision() {
    let senders = [("l4s", 0, "dctcp:on-loss=linux-3.18"), ("classic", 0, "cubic")];
    let cubic = |flows: u32| {
        let line = format!(r#""queue": {{"discipline": "fq-codel", "flows": {flows}}}"#);
        shares(&run([40, 7, 80], &line, &senders, 1))[1]
    };
    assert!((cubic(1_024) - 0.5).abs() < 0.05, "{} without", cubic(1_024));
    assert!(cubic(1) < 0.15, "{} with", cubic(1));
}

#[test]
fn pie_holds_ten_reno_flows_at_its_target() {
    let names: Vec<String> = (0..10).map(|number| format!("reno-{number}")).collect();
    let senders: Vec<_> = names.iter().map(|name| (name.as_str(), 0, "reno")).collect();
    for target_ms in [15, 20] {
        let line = format!(r#""queue": {{"discipline": "pie", "target_ns": {target_ms}000000}}"#);
        let outcome = run([20, 50, 120], &line, &senders, 1);
        let waited_ms = outcome.links[0].forward.queue_bytes_mean * 8.0 / 20e3;
        let share = waited_ms / f64::from(target_ms);
        assert!((0.9..1.1).contains(&share), "{waited_ms} ms of {target_ms}");
    }
}
