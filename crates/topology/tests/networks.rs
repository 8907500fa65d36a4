//! What can be a network and what is refused, the JSON form, and paths against brute force.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use proptest::prelude::*;
use weir_topology::{LinkId, Metric, Network, NodeId, Path, TopologyError, named::g_scale};
use weir_units::{Rate, Time};

const RATE: Rate = Rate::from_mbit_per_s(1);

#[test]
fn what_is_no_network_is_refused_by_name() {
    let mut builder = Network::builder();
    builder.node("a").unwrap();
    builder.node("b").unwrap();
    builder.link("ab", "a", "b", RATE, Time::ZERO).unwrap();
    let mut link = |name: &str, from: &str, to: &str, capacity| {
        builder.link(name, from, to, capacity, Time::ZERO).unwrap_err().to_string()
    };
    assert_eq!(link("ab", "b", "a", RATE), "link \"ab\" is there twice");
    assert_eq!(link("", "b", "a", RATE), "a link has an empty name");
    assert_eq!(
        link("x", "a", "c", RATE),
        "link \"x\" ends at \"c\", which is not a node of the network"
    );
    assert_eq!(link("x", "a", "a", RATE), "link \"x\" leads from \"a\" to itself");
    assert_eq!(link("x", "a", "b", Rate::ZERO), "link \"x\" has capacity 0");
    assert!(link("x", "a", "b", Rate::MAX).contains("above the limit"));
    assert_eq!(builder.node("a").unwrap_err().to_string(), "node \"a\" is there twice");
    assert_eq!(builder.node("").unwrap_err().to_string(), "a node has an empty name");
    let network = builder.build();
    let (a, b) = (network.node("a").unwrap(), network.node("b").unwrap());
    assert_eq!(network.shortest(a, b, Metric::Hops).unwrap().links().len(), 1);
    assert_eq!(
        network.shortest(b, a, Metric::Hops).unwrap_err().to_string(),
        "there is no path from \"b\" to \"a\""
    );
    assert!(matches!(network.shortest(a, a, Metric::Hops), Err(TopologyError::SameEnds { .. })));
    assert!(matches!(network.node("c"), Err(TopologyError::UnknownNode { .. })));
    assert!(matches!(network.link_named("c"), Err(TopologyError::UnknownLink { .. })));
}

#[test]
fn json_that_is_no_network_is_refused_with_the_place() {
    let link = |rest: &str| format!(r#"{{"nodes":["a","b"],"links":[{{"name":"x",{rest}}}]}}"#);
    for (text, part) in [
        (String::new(), "EOF"),
        ("[]".to_owned(), ""),
        (r#"{"nodes":[],"links":[]} x"#.to_owned(), "after the network"),
        (r#"{"nodes":[],"links":[],"more":1}"#.to_owned(), "more"),
        (r#"{"nodes":[1],"links":[]}"#.to_owned(), "nodes[0]"),
        (link(r#""from":"a","to":"b""#), "capacity_bps"),
        (link(r#""from":"a","to":"b","capacity_bps":-1"#), "links[0].capacity_bps"),
        (link(r#""from":"a","to":"b","capacity_bps":1.5"#), "links[0].capacity_bps"),
        (link(r#""from":"a","to":"b","capacity_bps":NaN"#), "links[0].capacity_bps"),
        (link(r#""from":"a","to":"b","capacity_bps":1e30"#), "links[0].capacity_bps"),
        (link(r#""from":"a","to":"b","capacity_bps":1,"delay_ns":-2"#), "links[0].delay_ns"),
        (link(r#""from":"a","to":"c","capacity_bps":1"#), "\"c\""),
    ] {
        let message = Network::from_json(&text).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
}

/// Google's B4 as in SIGCOMM 2013; the counts are those of 000-spec section 4.6 and of the anchors
/// page: mean shortest path 2.318 hops, diameter 5.
#[test]
fn g_scale_has_its_known_shape() {
    let network = g_scale();
    assert_eq!((network.nodes().len(), network.links().len()), (12, 38));
    let mut hops = Vec::new();
    for from in network.nodes() {
        for to in network.nodes().filter(|to| *to != from) {
            hops.push(network.shortest(from, to, Metric::Hops).unwrap().links().len());
        }
    }
    let mean = hops.iter().sum::<usize>() as f64 / hops.len() as f64;
    assert!((mean - 2.318).abs() < 0.001, "{mean}");
    assert_eq!(hops.iter().max(), Some(&5));
    let both_ways = |id: LinkId| {
        let link = network.link(id);
        network
            .links()
            .any(|other| network.link(other).from == link.to && network.link(other).to == link.from)
    };
    assert!(network.links().all(both_ways));
    let capacity = |id: LinkId| network.link(id).capacity;
    assert!(network.links().all(|id| capacity(id) == Rate::from_mbit_per_s(10_000)));
}

#[derive(Clone, Debug)]
struct Parts {
    nodes: usize,
    links: Vec<(usize, usize, u64)>,
}

impl Parts {
    /// The same network with its lists in another order.
    fn build(&self, turn: usize) -> Network {
        let mut builder = Network::builder();
        for index in 0..self.nodes {
            builder.node(&format!("n{}", (index + turn) % self.nodes)).unwrap();
        }
        let mut numbered: Vec<_> = self.links.iter().enumerate().collect();
        let middle = turn % numbered.len().max(1);
        numbered.rotate_left(middle);
        for (index, (from, to, delay)) in numbered {
            let (from, to) = (format!("n{from}"), format!("n{to}"));
            builder.link(&format!("l{index}"), &from, &to, RATE, Time::from_ns(*delay)).unwrap();
        }
        builder.build()
    }
}

fn parts() -> impl Strategy<Value = Parts> {
    (2_usize..7).prop_flat_map(|nodes| {
        let link = (0..nodes, 1..nodes, 0_u64..4);
        prop::collection::vec(link, 0..14).prop_map(move |links| {
            let apart =
                |(from, step, delay): (usize, usize, u64)| (from, (from + step) % nodes, delay);
            Parts { nodes, links: links.into_iter().map(apart).collect() }
        })
    })
}

/// Every path without loops, by trying them all.
fn all_paths(network: &Network, from: NodeId, to: NodeId) -> Vec<Vec<LinkId>> {
    let mut found = Vec::new();
    extend(network, to, &mut vec![from], &mut Vec::new(), &mut found);
    found
}

fn extend(
    network: &Network,
    to: NodeId,
    nodes: &mut Vec<NodeId>,
    links: &mut Vec<LinkId>,
    found: &mut Vec<Vec<LinkId>>,
) {
    let at = *nodes.last().unwrap();
    if at == to {
        found.push(links.clone());
        return;
    }
    for id in network.links().filter(|id| network.link(*id).from == at) {
        let next = network.link(id).to;
        if !nodes.contains(&next) {
            nodes.push(next);
            links.push(id);
            extend(network, to, nodes, links, found);
            nodes.pop();
            links.pop();
        }
    }
}

fn names(network: &Network, links: &[LinkId]) -> Vec<String> {
    links.iter().map(|link| network.link(*link).name.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_shortest_path_is_the_first_by_name_of_the_shortest_of_all(
        parts in parts(),
        metric in prop::sample::select(vec![Metric::Hops, Metric::Delay]),
        turn in 0_usize..20,
    ) {
        let network = parts.build(0);
        let turned = parts.build(turn);
        let length = |links: &Vec<LinkId>| {
            let delay: u64 = links.iter().map(|link| network.link(*link).delay.as_ns()).sum();
            (if metric == Metric::Delay { delay } else { 0 }, links.len())
        };
        for from in network.nodes() {
            for to in network.nodes().filter(|to| *to != from) {
                let all = all_paths(&network, from, to);
                let best = all.iter().min_by_key(|links| (length(links), names(&network, links)));
                let found = network.shortest(from, to, metric);
                prop_assert_eq!(
                    found.as_ref().ok().map(|path| names(&network, path.links())),
                    best.map(|links| names(&network, links))
                );
                let ends = [from, to].map(|node| turned.node(network.node_name(node)).unwrap());
                let [from, to] = ends;
                prop_assert_eq!(
                    turned.shortest(from, to, metric).ok().map(|path| names(&turned, path.links())),
                    best.map(|links| names(&network, links)),
                    "the order of the lists does not matter"
                );
                if let Ok(path) = found {
                    let again = Path::new(&network, path.links().to_vec()).unwrap();
                    prop_assert!(!again.has_loop(&network));
                    prop_assert_eq!(again, path);
                }
            }
        }
    }

    #[test]
    fn the_shortest_paths_are_the_first_of_all_by_hops_and_names(
        parts in parts(),
        count in 1_usize..9,
    ) {
        let network = parts.build(0);
        for from in network.nodes() {
            for to in network.nodes().filter(|to| *to != from) {
                let mut all = all_paths(&network, from, to);
                all.sort_by_key(|links| (links.len(), names(&network, links)));
                for count in [count, usize::MAX] {
                    let found = network.shortest_paths(from, to, count);
                    prop_assert_eq!(found.is_err(), all.is_empty());
                    let found = found.unwrap_or_default();
                    let found: Vec<_> = found.iter().map(|path| path.links().to_vec()).collect();
                    prop_assert_eq!(&found[..], &all[..count.min(all.len())]);
                }
            }
        }
    }

    #[test]
    fn reading_what_was_written_gives_the_same_network(parts in parts()) {
        let network = parts.build(0);
        let again = Network::from_json(&network.to_json()).unwrap();
        prop_assert_eq!(again.to_json(), network.to_json());
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in ".*", cut in 0_usize..2000) {
        let whole = g_scale().to_json();
        let start = whole.get(..cut % whole.len()).unwrap_or("");
        let _ = Network::from_json(&text);
        prop_assert!(Network::from_json(start).is_err());
    }
}

#[test]
fn links_that_do_not_join_are_no_path() {
    let network = g_scale();
    let link = |name| network.link_named(name).unwrap();
    assert_eq!(Path::new(&network, vec![]), Err(TopologyError::EmptyPath));
    let broken = Path::new(&network, vec![link("1-2"), link("3-4")]);
    assert_eq!(broken, Err(TopologyError::BrokenPath { link: "3-4".to_owned() }));
    let there_and_back = Path::new(&network, vec![link("1-2"), link("2-1")]).unwrap();
    assert!(there_and_back.has_loop(&network));
}
