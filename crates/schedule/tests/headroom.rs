//! Headroom services against published values, a model written down from the definition, and
//! worked examples.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_random::Random;
use weir_schedule::headroom::{
    Elephant, Elephants, HeadroomError, HopLimit, Measure, Options, Provider, Service, Sharing,
    Ties, default_paths,
};
use weir_topology::named::six_routers;
use weir_topology::{LinkId, Metric, Network, NodeId, Path, TopologyError};
use weir_units::{Bytes, Rate, Time};

const HEADROOM: Rate = Rate::from_mbit_per_s(600);

fn elephants(milli_per_s: u32, shape: f64, minimum_mb: u64) -> Elephants {
    let arrivals_per_s = f64::from(milli_per_s) / 1e3;
    Elephants { arrivals_per_s, shape, minimum: Bytes::new(minimum_mb * 1_000_000) }
}

/// 000-spec section 3.5: arrivals in 1/1000 s, then rho, E[N] and Mbit/s for 1.5 GB and shape 4,
/// rho for 0.15 GB and shape 4 (always 600 Mbit/s), rho, E[N] and Mbit/s for 0.75 GB and shape 2.1.
const TABLE: [(u32, [f64; 3], f64, [f64; 3]); 8] = [
    (22, [0.587, 1.055, 568.7], 0.059, [0.420, 1.296, 462.9]),
    (24, [0.640, 1.280, 468.8], 0.064, [0.458, 1.574, 381.1]),
    (26, [0.693, 1.575, 380.9], 0.069, [0.496, 1.906, 314.8]),
    (28, [0.747, 1.985, 302.3], 0.075, [0.535, 2.303, 260.5]),
    (30, [0.800, 2.600, 230.8], 0.080, [0.573, 2.784, 215.5]),
    (32, [0.853, 3.646, 164.6], 0.085, [0.611, 3.374, 177.8]),
    (34, [0.907, 5.861, 102.4], 0.091, [0.649, 4.108, 146.1]),
    (36, [0.960, 13.92, 43.1], 0.096, [0.687, 5.039, 119.1]),
];

#[test]
fn the_analytic_model_gives_the_published_table() {
    let near = |found: f64, printed: f64, what: &str| {
        // Half a unit in the last printed digit, and 13.92 has one digit less than the others.
        let unit = if printed >= 100.0 || printed == 43.1 { 0.1 } else { 0.001 };
        let unit = if printed == 13.92 { 0.01 } else { unit };
        assert!((found - printed).abs() <= 0.5001 * unit, "{what}: {found}, printed {printed}");
    };
    for (milli, long, short, heavy) in TABLE {
        for (printed, shape, minimum) in [(long, 4.0, 1500), (heavy, 2.1, 750)] {
            let found = elephants(milli, shape, minimum).over(HEADROOM, Sharing::InTurn).unwrap();
            near(found.utilisation, printed[0], "utilisation");
            near(found.flows, printed[1], "flows");
            near(found.throughput_bps / 1e6, printed[2], "throughput");
        }
        let found = elephants(milli, 4.0, 150).over(HEADROOM, Sharing::InTurn).unwrap();
        near(found.utilisation, short, "utilisation of short flows");
        assert_eq!(found.throughput_bps, 600e6);
    }
}

#[test]
fn under_processor_sharing_the_shape_makes_no_difference() {
    // 1.5 GB x 4/3 and 1 GB x 2 have one mean; E[N] = rho / (1 - rho) = 0.8 / 0.2.
    for (shape, minimum) in [(4.0, 1500), (2.0, 1000)] {
        let found = elephants(30, shape, minimum).over(HEADROOM, Sharing::Equally).unwrap();
        assert!((found.flows - 4.0).abs() < 1e-9, "{found:?}");
        assert!((found.throughput_bps - 150e6).abs() < 1e-3, "{found:?}");
    }
}

#[test]
fn what_has_no_steady_state_is_refused() {
    let over = |e: Elephants, sharing| e.over(HEADROOM, sharing).unwrap_err().to_string();
    assert_eq!(
        over(elephants(38, 4.0, 1500), Sharing::InTurn),
        "elephant flows ask for 1.013 of the headroom, it must be below 1"
    );
    let tail = "the shape of the sizes is 2, the model needs one above 2";
    assert_eq!(over(elephants(1, 2.0, 150), Sharing::InTurn), tail);
    assert!(elephants(1, 2.0, 150).over(HEADROOM, Sharing::Equally).is_ok());
    for shape in [1.0, 0.5, -3.0, f64::NAN, f64::INFINITY] {
        let found = elephants(1, shape, 150).over(HEADROOM, Sharing::Equally);
        assert!(matches!(found, Err(HeadroomError::HeavyTail { .. })), "{shape}: {found:?}");
    }
    for arrivals_per_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let found = Elephants { arrivals_per_s, ..elephants(1, 4.0, 150) };
        let found = found.over(HEADROOM, Sharing::InTurn);
        assert!(matches!(found, Err(HeadroomError::Parameter { .. })), "{arrivals_per_s}");
    }
    let found = elephants(1, 4.0, 0).over(HEADROOM, Sharing::InTurn);
    assert!(matches!(found, Err(HeadroomError::Parameter { name: "minimum", .. })));
    let found = elephants(1, 4.0, 150).over(Rate::ZERO, Sharing::InTurn);
    assert!(matches!(found, Err(HeadroomError::Parameter { name: "headroom", .. })));
}

#[test]
fn default_paths_over_the_six_routers_are_those_of_the_figure() {
    let network = six_routers();
    let pairs = default_paths(&network).unwrap();
    // 000-spec section 3.6.2, by link number from 1.
    assert_eq!(pairs, [3, 6, 3, 2, 3, 2, 2, 2, 3, 6, 3, 2, 3, 2, 2, 2]);
    assert_eq!(pairs.iter().sum::<usize>(), 46);
    let crossing = |link: &str| {
        let id = network.link_named(link).unwrap();
        let mut found = Vec::new();
        for from in network.nodes() {
            for to in network.nodes().filter(|to| *to != from) {
                let path = network.shortest(from, to, Metric::Hops).unwrap();
                if path.links().contains(&id) {
                    found.push(network.node_name(from).to_owned() + network.node_name(to));
                }
            }
        }
        found
    };
    assert_eq!(crossing("A-B"), ["AB", "AC", "AD"]);
    assert_eq!(crossing("B-C"), ["AC", "AD", "BC", "BD", "BE", "FC"]);
    let numbered = |number: usize| network.links().nth(number - 1).unwrap();
    for (number, name) in [(1, "A-B"), (2, "B-C"), (3, "C-D"), (5, "E-F"), (10, "C-B"), (13, "F-E")]
    {
        assert_eq!(network.link(numbered(number)).name, name, "link {number}");
    }
}

fn provider(network: Network, options: Options) -> Provider {
    Provider::new(Arc::new(network), options, Random::of_source(1, &["test"])).unwrap()
}

fn elephant(network: &Network, from: &str, to: &str) -> Elephant {
    let (ingress, egress) = (network.node(from).unwrap(), network.node(to).unwrap());
    Elephant { ingress, egress, rate_max: Rate::MAX, size: None }
}

fn names(network: &Network, path: &Path) -> Vec<String> {
    path.links().iter().map(|link| network.link(*link).name.clone()).collect()
}

#[test]
fn a_second_flow_is_sent_around_the_link_that_the_first_one_has() {
    let network = six_routers();
    let dynamic = Options::default();
    let fixed = Options { service: Service::Static, ..dynamic };
    for (options, around) in [(dynamic, true), (fixed, false)] {
        let mut provider = provider(network.clone(), options);
        let first = provider.start(0, elephant(&network, "B", "C")).unwrap();
        assert_eq!((first.index, names(&network, first.path)), (0, vec!["B-C".to_owned()]));
        let second = provider.start(1, elephant(&network, "A", "C")).unwrap();
        let meets = second.path.links().contains(&network.link_named("B-C").unwrap());
        assert_eq!(meets, !around, "{:?}", names(&network, second.path));
        provider.end(0).unwrap();
        // With the first one gone the default path is among the best again, unless it is taken.
        let third = provider.start(2, elephant(&network, "B", "C")).unwrap();
        assert_eq!(third.index, 0);
    }
}

/// `a` to `d` over one link of 100 bit/s, or by `b` or `c` over two links each.
fn three_ways(direct: u64, upper: u64, lower: u64) -> Network {
    let mut builder = Network::builder();
    for node in ["a", "b", "c", "d"] {
        builder.node(node).unwrap();
    }
    let links = [("a", "d", direct), ("a", "b", upper), ("b", "d", upper), ("a", "c", lower)];
    for (from, to, capacity) in links.into_iter().chain([("c", "d", lower)]) {
        let capacity = Rate::from_bit_per_s(capacity);
        builder.link(&format!("{from}-{to}"), from, to, capacity, Time::ZERO).unwrap();
    }
    builder.build()
}

#[test]
fn rates_foreseen_count_what_others_can_do_at_most() {
    // A flow of at most 10 leaves 90 of the direct link's 100; the lower way is free and has 60.
    let network = three_ways(100, 100, 60);
    for (measure, taken) in [(Measure::Flows, 2), (Measure::Rate, 0)] {
        let mut provider = provider(network.clone(), Options { measure, ..Options::default() });
        let slow = Elephant { rate_max: Rate::from_bit_per_s(10), ..elephant(&network, "a", "d") };
        provider.start(0, slow).unwrap();
        provider.start(1, elephant(&network, "a", "b")).unwrap();
        let direct = network.link_named("a-d").unwrap();
        assert_eq!(provider.flows_on(direct), 1);
        let choice = provider.start(2, elephant(&network, "a", "d")).unwrap();
        assert_eq!(choice.index, taken, "{measure:?}: {:?}", names(&network, choice.path));
    }
}

#[test]
fn weirs_measure_takes_a_longer_path_only_where_it_is_faster_in_proportion() {
    // Beside one other flow: 1/50 s per bit and a quarter of 1/100; the detour 1/rate and two
    // quarters of 1/rate. It wins above 66.7 bit/s.
    for (upper, index) in [(65, 0), (68, 1)] {
        let network = three_ways(100, upper, 1);
        let options = Options { measure: Measure::Weir, ..Options::default() };
        let mut provider = provider(network.clone(), options);
        provider.start(0, elephant(&network, "a", "d")).unwrap();
        let choice = provider.start(1, elephant(&network, "a", "d")).unwrap();
        assert_eq!(choice.index, index, "{upper}");
    }
}

#[test]
fn the_merged_service_sets_a_path_up_for_long_flows_only() {
    // Beside one other flow, per bit: 2/100 own, 1/200 of the other, 1/400 passed: 11/400 s.
    // The detour: 1/100 own, 2/400 passed: 6/400 s, and the set-up. It wins above 80 bits.
    let network = three_ways(100, 100, 1);
    let options =
        Options { service: Service::Merged, setup_ns: 1_000_000_000, ..Options::default() };
    for (bytes, index) in [(9, 0), (10, 0), (11, 1), (12, 1)] {
        let mut provider = provider(network.clone(), options);
        let flow = Elephant { size: Some(Bytes::new(bytes)), ..elephant(&network, "a", "d") };
        provider.start(0, flow).unwrap();
        let choice = provider.start(1, flow).unwrap();
        let setup = if index == 0 { Time::ZERO } else { Time::from_ms(1000) };
        assert_eq!((choice.index, choice.setup), (index, setup), "{bytes} bytes");
    }
    // One that does not say how long it is counts as long.
    let mut provider = provider(network.clone(), options);
    provider.start(0, elephant(&network, "a", "d")).unwrap();
    assert_ne!(provider.start(1, elephant(&network, "a", "d")).unwrap().index, 0);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut builder = Network::builder();
    for node in ["a", "b", "c"] {
        builder.node(node).unwrap();
    }
    builder.link("a-b", "a", "b", Rate::from_bit_per_s(1), Time::ZERO).unwrap();
    let network = builder.build();
    let link = network.link_named("a-b").unwrap();
    let mut known = provider(network.clone(), Options::default());
    known.start(7, elephant(&network, "a", "b")).unwrap();
    let mut refused = |id, flow| known.start(id, flow).unwrap_err();
    let flow = elephant(&network, "a", "b");
    assert_eq!(refused(7, flow), HeadroomError::DuplicateFlow { flow: 7 });
    let still = Elephant { rate_max: Rate::ZERO, ..flow };
    assert_eq!(refused(8, still), HeadroomError::ZeroRate { flow: 8 });
    let (from, to) = ("b".to_owned(), "c".to_owned());
    let apart = TopologyError::Disconnected { from, to }.into();
    assert_eq!(refused(8, elephant(&network, "b", "c")), apart);
    let same = TopologyError::SameEnds { node: "c".to_owned() }.into();
    assert_eq!(refused(8, elephant(&network, "c", "c")), same);
    assert_eq!(known.end(8), Err(HeadroomError::UnknownFlow { flow: 8 }));
    assert_eq!(known.flows_on(link), 1);
    known.end(7).unwrap();
    assert_eq!(known.flows_on(link), 0);
    assert_eq!(known.end(7), Err(HeadroomError::UnknownFlow { flow: 7 }));
    let none = Options { paths_max: Some(0), ..Options::default() };
    let refused = Provider::new(Arc::new(network), none, Random::of_source(1, &["test"]));
    assert_eq!(refused.unwrap_err(), HeadroomError::NoCandidates);
}

#[test]
fn options_have_a_json_form_that_names_what_is_wrong() {
    let text = r#"{"service": "merged", "measure": "rate", "ties": "fewest-hops", "paths_max": 8,
        "hop_limit": {"hops_more": 1}, "setup_ns": 5}"#;
    let hop_limit = Some(HopLimit { hops_more: 1, from_flows: 0 });
    let (service, measure, ties) = (Service::Merged, Measure::Rate, Ties::FewestHops);
    let options = Options { service, measure, ties, paths_max: Some(8), hop_limit, setup_ns: 5 };
    assert_eq!(Options::from_json(text).unwrap(), options);
    assert_eq!(Options::from_json("{}").unwrap(), Options::default());
    for (text, place) in [
        (r#"{"measure": "luck"}"#, "measure"),
        (r#"{"setup_ns": -1}"#, "setup_ns"),
        (r#"{"hop_limit": {"more": 1}}"#, "hop_limit.more"),
        (r#"{"hurry": 1}"#, "hurry"),
    ] {
        assert!(Options::from_json(text).unwrap_err().to_string().starts_with(place), "{text}");
    }
}

/// Nodes `a` to `e`, a link wherever the entry for the pair is above zero, of that capacity.
fn network(capacities: &[u64], backwards: bool) -> Network {
    let nodes = ["a", "b", "c", "d", "e"];
    let mut builder = Network::builder();
    for node in nodes {
        builder.node(node).unwrap();
    }
    let pairs =
        nodes.iter().flat_map(|a| nodes.iter().map(move |b| (a, b))).filter(|(a, b)| a != b);
    let mut links: Vec<_> = pairs.zip(capacities).filter(|(_, capacity)| **capacity > 0).collect();
    if backwards {
        links.reverse();
    }
    for ((a, b), capacity) in links {
        let capacity = Rate::from_bit_per_s(*capacity);
        builder.link(&format!("{a}-{b}"), a, b, capacity, Time::ZERO).unwrap();
    }
    builder.build()
}

/// All paths without loops by depth-first search.
fn all_paths(network: &Network, from: NodeId, to: NodeId) -> Vec<Vec<LinkId>> {
    fn extend(
        network: &Network,
        passed: &mut Vec<NodeId>,
        links: &mut Vec<LinkId>,
        to: NodeId,
        found: &mut Vec<Vec<LinkId>>,
    ) {
        let at = passed[passed.len() - 1];
        if at == to {
            found.push(links.clone());
            return;
        }
        for link in network.links().filter(|link| network.link(*link).from == at) {
            let next = network.link(link).to;
            if !passed.contains(&next) {
                passed.push(next);
                links.push(link);
                extend(network, passed, links, to, found);
                links.pop();
                passed.pop();
            }
        }
    }
    let mut found = Vec::new();
    extend(network, &mut vec![from], &mut Vec::new(), to, &mut found);
    found
}

fn options() -> impl Strategy<Value = Options> {
    let measures = [Measure::Flows, Measure::Rate, Measure::Weir];
    let ties = [Ties::DefaultElseRandom, Ties::FewestHops, Ties::Random];
    let services = [Service::Static, Service::Dynamic, Service::Merged];
    let limit = (0..3_u32, 0..3_u32);
    let limit = limit.prop_map(|(hops_more, from_flows)| HopLimit { hops_more, from_flows });
    let choices =
        (0..3_usize, 0..3_usize, 0..3_usize, prop::option::of(limit), 0..1_000_000_000_u64);
    choices.prop_map(move |(service, measure, tie, hop_limit, setup_ns)| Options {
        service: services[service],
        measure: measures[measure],
        ties: ties[tie],
        paths_max: None,
        hop_limit,
        setup_ns,
    })
}

/// A flow to start (from, to, maximum rate, size), or one of those under way to end.
#[derive(Clone, Debug)]
enum Step {
    Start(usize, usize, u64, Option<u64>),
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let start = (0..5_usize, 0..5_usize, 1..40_u64, prop::option::of(1..100_u64));
    let start = start.prop_map(|(from, to, rate, size)| Step::Start(from, to, rate, size));
    let end = (0..100_usize).prop_map(Step::End);
    prop::collection::vec(prop_oneof![3 => start, 1 => end], 1..40)
}

/// The flows under way: maximum rate and links.
type Ongoing = BTreeMap<u64, (u64, Vec<LinkId>)>;

fn flows_on(ongoing: &Ongoing, link: LinkId) -> Vec<u64> {
    let on_link = ongoing.values().filter(|(_, links)| links.contains(&link));
    on_link.map(|(rate, _)| *rate).collect()
}

/// Whether `links` is among the best of `all` paths, by the definition.
fn check_choice(
    options: Options,
    ongoing: &Ongoing,
    all: &[Vec<LinkId>],
    default: &[LinkId],
    links: &[LinkId],
) -> Result<(), TestCaseError> {
    let worst = |links: &[LinkId]| {
        links.iter().map(|link| flows_on(ongoing, *link).len()).max().unwrap_or_default()
    };
    let least = all.iter().map(|links| worst(links)).min().unwrap_or_default();
    let limit = options.hop_limit.filter(|limit| least >= limit.from_flows as usize);
    let longest = limit.map_or(usize::MAX, |limit| default.len() + limit.hops_more as usize);
    prop_assert!(links.len() <= longest);
    if options.service == Service::Static {
        prop_assert_eq!(links, default);
    } else if options.service == Service::Dynamic && options.measure == Measure::Flows {
        let near = all.iter().filter(|links| links.len() <= longest);
        let least = near.map(|links| worst(links)).min();
        prop_assert_eq!(Some(worst(links)), least);
        if options.ties != Ties::Random && Some(worst(default)) == least {
            prop_assert_eq!(links, default);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever starts and ends: links know exactly the flows that cross them, and a path is one
    /// without loops, between the right ends, within the limit of hops in force and, under DH by
    /// counts, with the fewest flows at its worst link; the default one if that is as good.
    #[test]
    fn choices_are_those_of_the_definition(
        capacities in prop::collection::vec(0..50_u64, 20),
        options in options(),
        steps in steps(),
    ) {
        let network = network(&capacities, false);
        let nodes: Vec<NodeId> = network.nodes().collect();
        let mut provider = provider(network.clone(), options);
        let mut ongoing = Ongoing::new();
        for (id, step) in (0..).zip(steps) {
            match step {
                Step::End(at) => {
                    let Some(known) = ongoing.keys().nth(at % ongoing.len().max(1)).copied() else {
                        continue;
                    };
                    provider.end(known).unwrap();
                    ongoing.remove(&known);
                }
                Step::Start(from, to, rate, size) => {
                    let (ingress, egress) = (nodes[from], nodes[to]);
                    let (rate_max, size) = (Rate::from_bit_per_s(rate), size.map(Bytes::new));
                    let flow = Elephant { ingress, egress, rate_max, size };
                    let all = all_paths(&network, ingress, egress);
                    let choice = match provider.start(id, flow) {
                        Ok(choice) => choice,
                        Err(_) => {
                            prop_assert!(from == to || all.is_empty());
                            continue;
                        }
                    };
                    let (index, links) = (choice.index, choice.path.links().to_vec());
                    prop_assert!(all.contains(&links));
                    let default = network.shortest(ingress, egress, Metric::Hops).unwrap();
                    prop_assert_eq!(index == 0, links == default.links());
                    check_choice(options, &ongoing, &all, default.links(), &links)?;
                    ongoing.insert(id, (rate, links));
                }
            }
            for link in network.links() {
                prop_assert_eq!(provider.flows_on(link), flows_on(&ongoing, link).len());
            }
        }
    }

    /// The order in which links were added to the network changes no choice.
    #[test]
    fn choices_do_not_depend_on_the_order_of_links(
        capacities in prop::collection::vec(0..50_u64, 20),
        options in options(),
        flows in prop::collection::vec((0..5_usize, 0..5_usize, 1..40_u64, 1..100_u64), 1..20),
    ) {
        let networks = [false, true].map(|backwards| network(&capacities, backwards));
        let mut providers = networks.clone().map(|network| provider(network, options));
        for (id, (from, to, rate, size)) in (0..).zip(flows) {
            let [ahead, behind] = [0, 1].map(|at| {
                let nodes: Vec<NodeId> = networks[at].nodes().collect();
                let (rate_max, size) = (Rate::from_bit_per_s(rate), Some(Bytes::new(size)));
                let flow = Elephant { ingress: nodes[from], egress: nodes[to], rate_max, size };
                let choice = providers[at].start(id, flow);
                choice.map(|choice| (names(&networks[at], choice.path), choice.setup)).ok()
            });
            prop_assert_eq!(ahead, behind);
        }
    }
}
