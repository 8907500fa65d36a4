//! Migration planning: the worked cases of 003-spec section 5.7, and what holds for any instance.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use std::sync::Arc;

use weir_schedule::migration::{
    PathChoice, Plan, Problem, Search, VmRequest, fair_sharing, greedy,
};
use weir_topology::Network;
use weir_units::{Bytes, Rate, Time};

/// A step in which 1 Mbit/s carries 1 MB (D-2).
fn step() -> Time {
    Time::from_ms(8_000)
}

fn network(links: &[(&str, &str, &str, u64)]) -> Network {
    let mut builder = Network::builder();
    for (_, from, to, _) in links {
        for node in [from, to] {
            // The second link at a node finds it there already.
            let _ = builder.node(node);
        }
    }
    for (name, from, to, capacity) in links {
        let capacity = Rate::from_mbit_per_s(*capacity);
        builder.link(name, from, to, capacity, Time::ZERO).unwrap();
    }
    builder.build()
}

fn vm(name: &str, source: &str, destination: &str, mb: u64, cost: &[u64]) -> VmRequest {
    VmRequest {
        name: name.to_owned(),
        source: source.to_owned(),
        destination: destination.to_owned(),
        size: Bytes::new(mb * 1_000_000),
        cost: cost.to_vec(),
        growth: vec![0],
        path: Vec::new(),
    }
}

fn problem(network: Network, vms: Vec<VmRequest>) -> Arc<Problem> {
    Arc::new(Problem::new(network, &[], step(), vms).unwrap())
}

/// Figure 5.1: h1 and h2 go through e7 and e9, h3 through e8 and e10, all through e11 and e12.
fn case(costs: [u64; 3], sizes: [u64; 3], access: [u64; 3]) -> Arc<Problem> {
    let network = network(&[
        ("e1", "v1", "left1", access[0]),
        ("e2", "v2", "left1", access[1]),
        ("e3", "v3", "left2", access[2]),
        ("e7", "left1", "left", 10),
        ("e8", "left2", "left", 10),
        ("e11", "left", "core", 10),
        ("e12", "core", "right", 10),
        ("e9", "right", "right1", 10),
        ("e10", "right", "right2", 10),
        ("e4", "right1", "v4", 10),
        ("e5", "right1", "v5", 10),
        ("e6", "right2", "v6", 10),
    ]);
    let ends = [("v1", "v4"), ("v2", "v5"), ("v3", "v6")];
    let vms =
        (0..3).map(|i| vm(&format!("h{}", i + 1), ends[i].0, ends[i].1, sizes[i], &[costs[i]]));
    problem(network, vms.collect())
}

fn cases() -> [Arc<Problem>; 4] {
    [
        case([10, 8, 4], [40, 40, 40], [10, 10, 10]),
        case([10, 10, 10], [30, 40, 50], [10, 10, 10]),
        case([10, 10, 10], [40, 40, 40], [10, 8, 4]),
        case([10, 8, 6], [40, 50, 30], [6, 8, 7]),
    ]
}

fn outcome(problem: &Problem, plan: &Plan) -> (Vec<u64>, u128) {
    plan.check(problem, 0).unwrap();
    let finishes = plan.migrations.iter().map(|migration| migration.finish).collect();
    (finishes, plan.degradation(problem))
}

#[test]
fn the_greedy_algorithm_finds_what_the_specification_works_out() {
    let expected = [
        (vec![4, 8, 12], 152),
        (vec![3, 7, 12], 220),
        (vec![4, 9, 17], 300),
        (vec![7, 14, 8], 230),
    ];
    for (problem, expected) in cases().iter().zip(expected) {
        assert_eq!(outcome(problem, &greedy(problem, PathChoice::Widest)), expected);
    }
}

#[test]
fn fair_sharing_finds_what_the_specification_works_out() {
    let expected = [
        (vec![12, 12, 12], 264),
        (vec![9, 11, 12], 320),
        (vec![12, 12, 12], 360),
        (vec![11, 13, 9], 268),
    ];
    for (problem, expected) in cases().iter().zip(expected) {
        assert_eq!(outcome(problem, &fair_sharing(problem, PathChoice::Widest).unwrap()), expected);
    }
}

#[test]
fn the_search_lies_between_its_bound_and_greedy_on_the_worked_cases() {
    // The optima are those of the specification, confirmed by its MILP (D-6, D-7).
    for (problem, optimum) in cases().iter().zip([152, 220, 290, 220]) {
        let mut search = Search::new(problem.clone(), 1);
        for _ in 0..20 {
            search.improve(200);
            search.tighten(50);
        }
        let (_, degradation) = outcome(problem, search.plan());
        eprintln!("{} <= {optimum} <= {degradation}", search.bound());
        assert_eq!(degradation, search.degradation());
        assert!(search.bound() <= optimum && optimum <= degradation);
        assert!(degradation <= greedy(problem, PathChoice::Widest).degradation(problem));
    }
}
