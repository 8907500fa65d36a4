//! Elephant flows under headroom services: the published study, queueing theory, and what is seen
//! of links, against sums written down from the definition.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use proptest::prelude::*;
use weir_fluid::headroom::{Headroom, HeadroomOutcome, HeadroomStudy};
use weir_fluid::sharing::Rule;
use weir_fluid::workload::{Arrivals, Deadlines, Distribution, Pair, Sizes, Workload};
use weir_fluid::{
    Fate, Flow, FluidError, Listed, Model, Outcome, Placement, RouteId, Router, Routes, Sharing,
    Study, simulate_routed,
};
use weir_schedule::headroom::{HeadroomError, HopLimit, Options, Service, Ties};
use weir_topology::named::six_routers;
use weir_topology::{Metric, Network};
use weir_units::{Bytes, Rate, Time};

const DH: Options = Options {
    service: Service::Dynamic,
    measure: weir_schedule::headroom::Measure::Flows,
    ties: Ties::DefaultElseRandom,
    paths_max: None,
    hop_limit: None,
    setup_ns: 0,
};
const SH: Options = Options { service: Service::Static, ..DH };

/// 000-spec section 3.6.2: 0.1 flows/s of 20 GB on average; `w` says how much is between B and C.
fn published(w: f64, seed: u64, service: Options) -> HeadroomStudy {
    let network = six_routers();
    let names: Vec<&str> = network.nodes().map(|node| network.node_name(node)).collect();
    let mut pairs = Vec::new();
    for from in &names {
        for to in names.iter().filter(|to| *to != from) {
            let favoured = matches!((*from, *to), ("B", "C") | ("C", "B"));
            let share = if favoured { 1.0 + 14.0 * w } else { 1.0 - w };
            let (from, to) = ((*from).to_owned(), (*to).to_owned());
            pairs.push(Pair { from, to, share, weight: 1, priority: 0 });
        }
    }
    let workload = Workload {
        seed,
        flows: 100_000,
        arrivals: Arrivals::Poisson { rate_per_s: 0.1 },
        sizes: Sizes::Bytes(Distribution::Pareto { shape: 4.0, minimum: 15e9 }),
        deadlines: Deadlines::None,
        ahead_s: None,
        pairs,
    };
    let study = Study { network, workload, model: Model::EqualSplit, until: Time::MAX };
    HeadroomStudy { study, service, limits_bps: None }
}

/// The mean over runs of a value of theirs.
fn mean(w: f64, service: Options, value: impl Fn(&HeadroomOutcome) -> f64) -> f64 {
    let seeds = 9001..9006_u64;
    let count = seeds.clone().count() as f64;
    seeds.map(|seed| value(&published(w, seed, service).run().unwrap())).sum::<f64>() / count
}

fn gbit_per_s(found: &HeadroomOutcome) -> f64 {
    found.flows.mean_throughput().unwrap() / 1e9
}

#[test]
fn the_four_published_throughputs_are_met() {
    for (w, service, stated) in [(0.0, SH, 8.46), (0.0, DH, 9.45), (1.0, SH, 3.68), (1.0, DH, 8.71)]
    {
        let found = mean(w, service, gbit_per_s);
        assert!((found / stated - 1.0).abs() < 0.025, "{found} at w = {w}, published {stated}");
    }
}

#[test]
fn other_readings_of_the_path_choice_give_what_they_gave_when_they_were_ruled_out() {
    let found = |w, service| mean(w, service, gbit_per_s);
    let fewest_hops = Options { ties: Ties::FewestHops, ..DH };
    let near = |found: f64, probed: f64| assert!((found / probed - 1.0).abs() < 0.01, "{found}");
    near(found(0.0, fewest_hops), 9.489);
    near(found(1.0, fewest_hops), 8.752);
    near(found(0.0, Options { ties: Ties::Random, ..DH }), 8.87);
    // From B to C there is no path of two links: with one hop more than the default there is
    // nothing to choose from.
    for hops_more in [0, 1] {
        let hop_limit = Some(HopLimit { hops_more, from_flows: 0 });
        let limited = published(1.0, 9001, Options { hop_limit, ..DH }).run().unwrap();
        assert_eq!(limited.detoured, 0.0);
        assert_eq!(gbit_per_s(&limited), gbit_per_s(&published(1.0, 9001, SH).run().unwrap()));
    }
}

#[test]
fn a_link_under_static_headroom_is_a_processor_sharing_queue() {
    // 0.05/s of 160 Gbit on each of two links of 10 Gbit/s: rho = 0.8, and for any distribution of
    // sizes the time in system is size / (C (1 - rho)), the mean number under way rho / (1 - rho).
    let total = mean(1.0, SH, |found| found.flows.total_throughput().unwrap() / 1e9);
    assert!((total / 2.0 - 1.0).abs() < 0.04, "{total}");
    let used = mean(1.0, SH, |found| found.flows.utilisation[1]);
    assert!((used / 0.8 - 1.0).abs() < 0.01, "{used}");
    let seen = mean(1.0, SH, |found| found.occupancy[9]);
    assert!((seen / 0.8 - 1.0).abs() < 0.01, "{seen}");
}

#[test]
fn static_headroom_leaves_links_idle_that_dynamic_headroom_uses() {
    let seen = |service| published(1.0, 9001, service).run().unwrap().occupancy;
    let (fixed, spread) = (seen(SH), seen(DH));
    for (number, (fixed, spread)) in (1..).zip(fixed.into_iter().zip(spread)) {
        assert_eq!(fixed > 0.0, [2, 10].contains(&number), "link {number}: {fixed}");
        assert!(spread > 0.1, "link {number}: {spread}");
    }
}

#[test]
fn links_carry_what_the_flows_sent_over_the_paths_they_were_given() {
    for service in [SH, DH, Options { service: Service::Merged, setup_ns: 5_000_000_000, ..DH }] {
        let HeadroomStudy { mut study, .. } = published(0.5, 1, service);
        study.workload.flows = 2_000;
        let mut routes = Routes::new();
        let mut source = study.workload.draw(&study.network, &mut routes).unwrap();
        let mut router = Headroom::new(&study.network, &mut routes, service, 1).unwrap();
        let (sharing, until) = (study.model.sharing(), Time::MAX);
        let (network, router) = (&study.network, &mut router);
        let found = simulate_routed(network, &routes, sharing, router, &mut source, until).unwrap();
        let mut sent = vec![0.0; network.links().len()];
        for flow in &found.flows {
            assert!(matches!(flow.fate, Fate::Ended(_)));
            for link in routes.links(flow.route) {
                sent[*link as usize] += flow.size.count() as f64 * 8.0;
            }
        }
        for (sent, share) in sent.into_iter().zip(&found.utilisation) {
            assert!((sent / (10e9 * found.end.as_s()) - share).abs() < 1e-9, "{service:?}");
        }
    }
}

#[test]
fn a_flow_waits_for_the_set_up_of_another_path_than_the_default_one() {
    // Two flows of 20 GB from B to C: 16 s on the default path, and on another after 5 s.
    let network = six_routers();
    let mut routes = Routes::new();
    let (b, c) = (network.node("B").unwrap(), network.node("C").unwrap());
    let path = network.shortest(b, c, Metric::Hops).unwrap();
    let default = routes.add(&network, &path).unwrap();
    let service = Options { setup_ns: 5_000_000_000, ..DH };
    let mut router = Headroom::new(&network, &mut routes, service, 1).unwrap();
    let flows = [Flow::new(Time::ZERO, default, Bytes::new(20_000_000_000)); 2];
    let mut source = Listed::new(&flows);
    let sharing = Sharing::Fair(Rule::EqualSplit);
    let found =
        simulate_routed(&network, &routes, sharing, &mut router, &mut source, Time::MAX).unwrap();
    let ends: Vec<Fate> = found.flows.iter().map(|flow| flow.fate).collect();
    assert_eq!(ends, [16_000, 21_000].map(|ms| Fate::Ended(Time::from_ms(ms))));
}

#[test]
fn one_seed_gives_one_outcome() {
    let run = |seed| {
        let mut study = published(1.0, seed, DH);
        study.study.workload.flows = 2_000;
        study.run().unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Two links in a row, and the routes over the first, the second and both.
fn two_links() -> (Network, Routes) {
    let mut builder = Network::builder();
    for node in ["a", "b", "c"] {
        builder.node(node).unwrap();
    }
    for (from, to) in [("a", "b"), ("b", "c")] {
        let rate = Rate::from_mbit_per_s(8);
        builder.link(&format!("{from}-{to}"), from, to, rate, Time::ZERO).unwrap();
    }
    let network = builder.build();
    let mut routes = Routes::new();
    for (from, to) in [("a", "b"), ("b", "c"), ("a", "c")] {
        let (from, to) = (network.node(from).unwrap(), network.node(to).unwrap());
        routes.add(&network, &network.shortest(from, to, Metric::Hops).unwrap()).unwrap();
    }
    (network, routes)
}

/// The route that `route` gives for each flow, in place of its own, a second after its arrival.
struct Fixed<'a> {
    routes: &'a [RouteId],
    wait: Time,
    ended: Vec<usize>,
}

impl Router for Fixed<'_> {
    fn place(&mut self, number: usize, flow: &Flow) -> Result<Placement, FluidError> {
        Ok(Placement { route: self.routes[number], start: flow.at + self.wait })
    }

    fn ended(&mut self, _: Time, number: usize) -> Result<(), FluidError> {
        self.ended.push(number);
        Ok(())
    }
}

fn ids(routes: &Routes, network: &Network) -> Vec<RouteId> {
    // Adding the same paths again gives the ids behind; those in front are what is wanted.
    let mut again = Routes::new();
    let mut found = Vec::new();
    for (from, to) in [("a", "b"), ("b", "c"), ("a", "c")] {
        let (from, to) = (network.node(from).unwrap(), network.node(to).unwrap());
        let path = network.shortest(from, to, Metric::Hops).unwrap();
        found.push(again.add(network, &path).unwrap());
    }
    assert_eq!(again.len(), routes.len());
    found
}

#[test]
fn flows_take_the_routes_of_a_router_when_it_says() {
    let (network, routes) = two_links();
    let ids = ids(&routes, &network);
    // Both come on the first link and are sent over the second alone: 1 MB and 2 MB at 1 MB/s
    // from second 1 on are over at 3 and 4 s.
    let flow = |bytes| Flow::new(Time::ZERO, ids[0], Bytes::new(bytes));
    let flows = [flow(1_000_000), flow(2_000_000)];
    let taken = [ids[1], ids[1]];
    let mut router = Fixed { routes: &taken, wait: Time::from_ms(1000), ended: Vec::new() };
    let sharing = Sharing::Fair(Rule::MaxMin);
    let mut source = Listed::new(&flows);
    let found =
        simulate_routed(&network, &routes, sharing, &mut router, &mut source, Time::MAX).unwrap();
    let ends: Vec<Fate> = found.flows.iter().map(|flow| flow.fate).collect();
    assert_eq!(ends, [3, 4].map(|s| Fate::Ended(Time::from_ms(1000 * s))));
    assert_eq!(found.flows[0].completion_time(), Some(Time::from_ms(3000)));
    assert_eq!(found.utilisation, [0.0, 0.75]);
    assert_eq!(router.ended, [0, 1]);
    // Stopped while one of them waits: nothing is sent of it.
    let mut router = Fixed { routes: &taken, wait: Time::from_ms(9000), ended: Vec::new() };
    let until = Time::from_ms(2000);
    let mut source = Listed::new(&flows[..1]);
    let sharing = Sharing::Fair(Rule::MaxMin);
    let found =
        simulate_routed(&network, &routes, sharing, &mut router, &mut source, until).unwrap();
    assert_eq!((found.flows[0].fate, found.utilisation), (Fate::UnderWay, vec![0.0, 0.0]));
}

#[test]
fn a_router_that_names_no_route_is_refused() {
    let (network, routes) = two_links();
    let mut more = routes.clone();
    let (a, b) = (network.node("a").unwrap(), network.node("b").unwrap());
    let path = network.shortest(a, b, Metric::Hops).unwrap();
    let unknown = more.add(&network, &path).unwrap();
    let flows = [Flow::new(Time::ZERO, ids(&routes, &network)[0], Bytes::new(1))];
    let taken = [unknown];
    let mut router = Fixed { routes: &taken, wait: Time::ZERO, ended: Vec::new() };
    let mut source = Listed::new(&flows);
    let sharing = Sharing::Fair(Rule::MaxMin);
    let found = simulate_routed(&network, &routes, sharing, &mut router, &mut source, Time::MAX);
    assert_eq!(found, Err(FluidError::UnknownRoute { flow: 0, route: 3, routes: 3 }));
}

/// Equation 3.5 as it is printed: at the end of each slot, is a flow on the link?
fn sampled(outcome: &Outcome, routes: &Routes, slot: Time, link: u32) -> f64 {
    let slots = outcome.end.as_ns() / slot.as_ns();
    let there = |at: u64| {
        outcome.flows.iter().any(|flow| {
            let gone = match flow.fate {
                Fate::Ended(end) | Fate::Refused(end) => end.as_ns() <= at,
                Fate::UnderWay => false,
            };
            flow.at.as_ns() <= at && !gone && routes.links(flow.route).contains(&link)
        })
    };
    let occupied = (1..=slots).filter(|number| there(number * slot.as_ns())).count();
    if slots > 0 { occupied as f64 / slots as f64 } else { 0.0 }
}

proptest! {
    #[test]
    fn occupancy_is_what_samples_at_the_ends_of_slots_say(
        flows in prop::collection::vec((0..30_000_u64, 0..3_usize, 1..4_000_000_u64), 1..20),
        slot_ms in 1..3000_u64,
        until_ms in 1..60_000_u64,
    ) {
        let (network, routes) = two_links();
        let ids = ids(&routes, &network);
        // Times of whole slots are the cases that are easy to get wrong.
        let at = |ms: u64| {
            Time::from_ms(if ms.is_multiple_of(3) { ms / slot_ms * slot_ms } else { ms })
        };
        let mut flows: Vec<Flow> = flows
            .into_iter()
            .map(|(ms, route, size)| Flow::new(at(ms), ids[route], Bytes::new(size)))
            .collect();
        flows.sort_by_key(|flow| flow.at);
        let mut source = Listed::new(&flows);
        let (sharing, until) = (Sharing::Fair(Rule::MaxMin), Time::from_ms(until_ms));
        let found = weir_fluid::simulate(&network, &routes, sharing, &mut source, until).unwrap();
        let slot = Time::from_ms(slot_ms);
        let occupancy = found.occupancy(&routes, slot);
        prop_assert_eq!(&occupancy[..], [0, 1].map(|link| sampled(&found, &routes, slot, link)));
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let network = six_routers().to_json();
    let study = |more: &str| {
        let workload = r#"{"seed": 1, "flows": 3, "arrivals": {"poisson": {"rate_per_s": 1}},
            "sizes": {"bytes": {"constant": 1e9}}}"#;
        let text =
            format!(r#"{{"study": {{"network": {network}, "workload": {workload}}}{more}}}"#);
        HeadroomStudy::from_json(&text).and_then(|study| study.run())
    };
    assert_eq!(study("").unwrap().flows.flows.len(), 3);
    for (more, message) in [
        (r#", "service": {"measure": 3}"#, "service.measure"),
        (r#", "service": {"hop_limit": {}}"#, "service.hop_limit"),
        (r#", "limits_bps": {"constant": 0}"#, "limits_bps.constant"),
        (r#", "limits_bps": {"constant": -1e9}"#, "limits_bps.constant"),
        (r#", "hurry": 1"#, "hurry"),
    ] {
        let error = study(more).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let none = study(r#", "service": {"paths_max": 0}"#);
    assert_eq!(none.unwrap_err(), FluidError::Headroom(HeadroomError::NoCandidates));
}

#[test]
fn limits_are_kept_and_announced() {
    let mut study = published(0.0, 1, DH);
    study.study.workload.flows = 500;
    study.study.model = Model::MaxMin;
    study.limits_bps = Some(Distribution::Constant(2e9));
    let found = study.run().unwrap();
    let fastest = found.flows.flows.iter().filter_map(|flow| flow.throughput());
    let fastest = fastest.fold(0.0, f64::max);
    assert!((fastest / 2e9 - 1.0).abs() < 1e-6, "{fastest}");
}
