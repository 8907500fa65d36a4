//! LEDBAT++ does what its draft says: it fills what is left, yields, and shares with its like.

use weir_packet::{Config, Outcome, Simulation};

/// A bottleneck of 20 Mbit/s and 20 ms whose queue holds so many packets, of 0.6 ms each.
fn run(traffic: &[(&str, &str, u64)], packets: u32, seconds: u64) -> Outcome {
    let each: Vec<String> = traffic
        .iter()
        .map(|(name, congestion, start_s)| {
            format!(
                r#"{{"name": "{name}", "from": "a", "to": "b", "start_ns": {},
                "application": {{"kind": "bulk", "tcp": {{"congestion": "{congestion}"}}}}}}"#,
                start_s * 1_000_000_000
            )
        })
        .collect();
    let text = format!(
        r#"{{"seed": 5, "duration_ns": {}, "warmup_ns": 20000000000,
        "nodes": [{{"name": "a"}}, {{"name": "r", "forwards": true}}, {{"name": "b"}}],
        "links": [
          {{"name": "a-r", "ends": ["a", "r"], "forward": {{"rate_bps": 1000000000}},
            "backward": {{"rate_bps": 1000000000}}}},
          {{"name": "r-b", "ends": ["r", "b"],
            "forward": {{"rate_bps": 20000000, "delay_ns": 10000000,
              "queue": {{"discipline": "fifo", "limit": {{"packets": {packets}}}}}}},
            "backward": {{"rate_bps": 20000000, "delay_ns": 10000000}}}}],
        "traffic": [{}]}}"#,
        seconds * 1_000_000_000,
        each.join(",")
    );
    let config = Config::from_json(&text).expect("right");
    Simulation::new(&config).expect("right").run().expect("nothing is captured")
}

/// 150 ms: more than the target.
const DEEP: u32 = 250;

/// What each has of all the payload that the link can carry.
fn shares(outcome: &Outcome) -> Vec<f64> {
    let line = 20e6 * 1448.0 / 1500.0;
    outcome.flows.iter().map(|flow| flow.goodput_bps / line).collect()
}

#[test]
fn alone_it_fills_the_link_and_adds_no_more_than_its_target() {
    let outcome = run(&[("one", "ledbat", 0)], DEEP, 120);
    assert!(shares(&outcome)[0] > 0.9, "{:?}", shares(&outcome));
    assert_eq!(outcome.links[1].forward.dropped_queue, 0);
    let stream = &outcome.flows[0].streams[0];
    assert!(stream.srtt_ns < 85_000_000, "{stream:?}");
}

#[test]
fn it_leaves_a_link_to_cubic() {
    let outcome = run(&[("cubic", "cubic", 5), ("one", "ledbat", 0)], DEEP, 120);
    assert!(shares(&outcome)[0] > 0.95, "{:?}", shares(&outcome));
    assert!(shares(&outcome).iter().sum::<f64>() > 0.98, "{:?}", shares(&outcome));
}

#[test]
fn one_that_comes_later_gets_its_share() {
    let outcome = run(&[("one", "ledbat", 0), ("two", "ledbat", 10)], DEEP, 120);
    let shares = shares(&outcome);
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let jain = sum * sum / 2.0 / squares;
    assert!(sum > 0.9 && jain > 0.95, "{shares:?}: {jain}");
}

/// Queues of 18 to 60 ms, where the target is never reached and losses come to all alike, and one
/// that others hold full when it begins.
#[test]
fn it_yields_before_any_queue_if_it_may_learn_how_short_that_is() {
    let beside = |control, start_s, packets| {
        shares(&run(&[("cubic", "cubic", 0), ("one", control, start_s)], packets, 120))
    };
    let draft = beside("ledbat", 5, 100);
    assert!(draft[0] < 0.9, "{draft:?}");
    for (start_s, packets) in [(0, 30), (0, 60), (5, 60), (5, 100), (5, DEEP)] {
        let ours = beside("ledbat:shallow=on", start_s, packets);
        assert!(ours[0] > 0.95, "{ours:?} from {start_s} s on, {packets} packets");
    }
    let alone = shares(&run(&[("one", "ledbat:shallow=on", 0)], 60, 120));
    assert!(alone[0] > 0.9, "{alone:?}");
}
