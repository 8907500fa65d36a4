//! Next hops, by hand and against brute force.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use proptest::prelude::*;
use weir_topology::{Edge, NextHops};
use weir_units::Time;

fn edge(from: usize, to: usize, ms: u64) -> Edge {
    Edge { from, to, delay: Time::from_ms(ms) }
}

#[test]
fn the_least_delay_wins_then_the_fewest_links_then_the_first() {
    // 0 to 3: by 1 (2 + 2 ms), by 2 (1 + 2 ms), direct (4 ms, listed twice).
    let edges =
        [edge(0, 1, 2), edge(1, 3, 2), edge(0, 2, 1), edge(2, 3, 2), edge(0, 3, 4), edge(0, 3, 4)];
    let all = [true; 4];
    assert_eq!(NextHops::new(&all, &edges).next(0, 3), Some(2));
    let slower = [edges[0], edges[1], edge(0, 2, 3), edges[3], edges[4], edges[5]];
    assert_eq!(NextHops::new(&all, &slower).next(0, 3), Some(4), "one link against two");
    assert_eq!(NextHops::new(&all, &edges).next(3, 0), None);
}

#[test]
fn a_host_is_not_passed_through() {
    let edges = [edge(0, 1, 1), edge(1, 2, 1), edge(0, 2, 9)];
    assert_eq!(NextHops::new(&[true, true, true], &edges).next(0, 2), Some(0));
    assert_eq!(NextHops::new(&[true, false, true], &edges).next(0, 2), Some(2));
    // Nor by a neighbour that knows no other way.
    let chain = [edge(0, 1, 1), edge(1, 0, 1), edge(1, 2, 1), edge(2, 1, 1)];
    let path = |forwards| NextHops::new(&[false, forwards, false], &chain).path(0, 2);
    assert_eq!((path(true), path(false)), (Some(vec![0, 2]), None));
}

#[test]
fn an_island_is_not_reached() {
    let edges = [edge(0, 1, 1), edge(1, 0, 1)];
    assert_eq!(NextHops::new(&[true; 3], &edges).path(0, 2), None);
}

#[derive(Clone, Debug)]
struct Parts {
    forwards: Vec<bool>,
    edges: Vec<Edge>,
}

fn parts() -> impl Strategy<Value = Parts> {
    (2_usize..7).prop_flat_map(|nodes| {
        let link = (0..nodes, 1..nodes, 0_u64..4, 0_u64..4);
        let forwards = prop::collection::vec(prop::bool::weighted(0.7), nodes);
        let links = prop::collection::vec(link, 0..10);
        (forwards, links).prop_map(move |(forwards, links)| {
            let both = |(from, step, there, back): (usize, usize, u64, u64)| {
                let to = (from + step) % nodes;
                [edge(from, to, there), edge(to, from, back)]
            };
            Parts { forwards, edges: links.into_iter().flat_map(both).collect() }
        })
    })
}

impl Parts {
    /// Delay and links of the best way from `at` to `to` that passes none of `passed`, by trying
    /// them all.
    fn best(&self, at: usize, to: usize, passed: &mut Vec<usize>) -> Option<(u64, usize)> {
        if at == to {
            return Some((0, 0));
        }
        if !passed.is_empty() && !self.forwards[at] {
            return None;
        }
        passed.push(at);
        let onward = self.edges.iter().filter(|edge| edge.from == at);
        let ways: Vec<_> = onward
            .filter_map(|edge| {
                let known = !passed.contains(&edge.to);
                let (delay, links) = known.then(|| self.best(edge.to, to, passed)).flatten()?;
                Some((delay + edge.delay.as_ns(), links + 1))
            })
            .collect();
        passed.pop();
        ways.into_iter().min()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_path_is_as_short_as_the_best_of_all(parts in parts()) {
        let hops = NextHops::new(&parts.forwards, &parts.edges);
        for from in 0..parts.forwards.len() {
            for to in 0..parts.forwards.len() {
                let path = hops.path(from, to);
                let edges = path.iter().flatten().map(|edge| parts.edges[*edge]);
                let delay: u64 = edges.clone().map(|edge| edge.delay.as_ns()).sum();
                let length = path.as_ref().map(|path| (delay, path.len()));
                let best = parts.best(from, to, &mut Vec::new());
                prop_assert_eq!(length, best, "{} to {}", from, to);
                let mut at = from;
                for edge in edges {
                    prop_assert_eq!(edge.from, at);
                    prop_assert!(at == from || parts.forwards[at]);
                    at = edge.to;
                }
            }
        }
    }
}

/// Delay and edges of a way.
fn length(hops: &NextHops, edges: &[Edge], from: usize, to: usize) -> Option<(Time, usize)> {
    let way = hops.path(from, to)?;
    Some((way.iter().fold(Time::ZERO, |sum, &one| sum + edges[one].delay), way.len()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spreading_makes_no_way_longer(parts in parts()) {
        let Parts { forwards, edges } = parts;
        let plain = NextHops::new(&forwards, &edges);
        let spread = NextHops::spread(&forwards, &edges);
        for from in 0..forwards.len() {
            for to in (0..forwards.len()).filter(|&to| to != from) {
                let (a, b) = (length(&plain, &edges, from, to), length(&spread, &edges, from, to));
                prop_assert_eq!(a, b, "{} to {}", from, to);
            }
        }
    }
}

#[test]
fn what_goes_to_one_switch_is_spread_over_all_above() {
    // Switches 0 and 1 below, 2 to 5 above; hosts from 6 on, eight at each of the lower ones.
    let mut edges = Vec::new();
    for top in 2..6 {
        edges.extend([edge(0, top, 1), edge(top, 0, 1), edge(1, top, 1), edge(top, 1, 1)]);
    }
    for host in 6..22 {
        let at = (host - 6) / 8;
        edges.extend([edge(host, at, 1), edge(at, host, 1)]);
    }
    let mut forwards = vec![true; 6];
    forwards.resize(22, false);
    let count = |hops: &NextHops| -> Vec<usize> {
        (2..6)
            .map(|top| (14..22).filter(|&to| edges[hops.next(0, to).unwrap()].to == top).count())
            .collect()
    };
    assert_eq!(count(&NextHops::new(&forwards, &edges)), [8, 0, 0, 0]);
    assert_eq!(count(&NextHops::spread(&forwards, &edges)), [2, 2, 2, 2]);
}
