//! Migration planning on random instances: no plan breaks the problem, no bound passes the least
//! degradation there is, found by trying everything.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_schedule::migration::{
    MigrationError, PathChoice, Plan, Problem, Search, VmRequest, fair_sharing, greedy,
};
use weir_topology::{Network, TopologyError};
use weir_units::{Bytes, Rate, Time};

/// Two sites joined by up to three switches, so that there is a choice of paths.
#[derive(Clone, Debug)]
struct Instance {
    /// Capacities of the first and the second link through each switch, in bytes a step.
    switches: Vec<(u64, u64)>,
    /// Hosts `a` and `b` on the left reach the switches over a link of this capacity.
    access: [u64; 2],
    /// Host on the left, size, cost, growth.
    vms: Vec<(usize, u64, Vec<u64>, Vec<u64>)>,
    half_duplex: bool,
}

fn instances(size: u64, growth: u64, count: usize) -> impl Strategy<Value = Instance> {
    let vm = (
        0..2usize,
        1..=size,
        prop::collection::vec(0..=9u64, 1..4),
        prop::collection::vec(0..=growth, 1..3),
    );
    (
        prop::collection::vec((1..=4u64, 1..=4u64), 1..=3),
        [1..=5u64, 1..=5u64],
        prop::collection::vec(vm, 1..=count),
        any::<bool>(),
    )
        .prop_map(|(switches, access, vms, half_duplex)| Instance {
            switches,
            access,
            vms,
            half_duplex,
        })
}

/// A link of n bit/s carries n bytes in this.
fn step() -> Time {
    Time::from_ms(8_000)
}

fn build(instance: &Instance, order: &[usize]) -> Result<Problem, MigrationError> {
    let mut builder = Network::builder();
    for node in ["a", "b", "left", "right"] {
        builder.node(node).unwrap();
    }
    let mut pairs = Vec::new();
    let mut duplex = |builder: &mut weir_topology::NetworkBuilder, a: &str, b: &str, bytes| {
        builder.duplex(a, b, Rate::from_bit_per_s(bytes), Time::ZERO).unwrap();
        if instance.half_duplex {
            pairs.push((format!("{a}-{b}"), format!("{b}-{a}")));
        }
    };
    duplex(&mut builder, "a", "left", instance.access[0]);
    duplex(&mut builder, "b", "left", instance.access[1]);
    for (index, (first, second)) in instance.switches.iter().enumerate() {
        let switch = format!("s{index}");
        builder.node(&switch).unwrap();
        duplex(&mut builder, "left", &switch, *first);
        duplex(&mut builder, &switch, "right", *second);
    }
    let request = |index: &usize| {
        let (host, size, cost, growth) = &instance.vms[*index];
        // Every other machine goes the other way, against the rest on half-duplex links.
        let ends = (["a", "b"][*host].to_owned(), "right".to_owned());
        let (source, destination) = if index.is_multiple_of(2) { ends } else { (ends.1, ends.0) };
        VmRequest {
            name: format!("vm{index}"),
            source,
            destination,
            size: Bytes::new(*size),
            cost: cost.clone(),
            growth: growth.clone(),
            path: Vec::new(),
        }
    };
    Problem::new(builder.build(), &pairs, step(), order.iter().map(request).collect())
}

fn in_order(instance: &Instance) -> Vec<usize> {
    (0..instance.vms.len()).collect()
}

fn searched(problem: &Arc<Problem>, seed: u64) -> Search {
    let mut search = Search::new(problem.clone(), seed);
    for _ in 0..6 {
        search.improve(60);
        search.tighten(12);
    }
    search
}

/// Adds up every step on its own, apart from the arithmetic of `Plan::check`.
fn holds(problem: &Problem, plan: &Plan) {
    plan.check(problem, 0).unwrap();
    let mut carried: HashMap<(usize, u64), u64> = HashMap::new();
    for (migration, vm) in plan.migrations.iter().zip(problem.vms()) {
        let mut moved = 0;
        for piece in &migration.pieces {
            for step in piece.first..=piece.last {
                assert!(step <= migration.finish);
                moved += piece.bytes;
                for pool in &vm.routes[migration.route].pools {
                    *carried.entry((*pool, step)).or_default() += piece.bytes;
                }
            }
        }
        let grown: u64 = (1..=migration.finish).map(|step| vm.growth.at(step)).sum();
        assert_eq!(moved, vm.size.count() + grown);
    }
    for ((pool, _), bytes) in carried {
        assert!(bytes <= problem.capacities()[pool]);
    }
}

/// The least degradation of any plan in whole bytes, for constant costs and no growth: every
/// choice of routes, and in every state every way to share the next step.
fn least(problem: &Problem) -> u128 {
    fn best(
        problem: &Problem,
        routes: &[usize],
        left: &[u64],
        known: &mut HashMap<Vec<u64>, u128>,
    ) -> u128 {
        if left.iter().all(|left| *left == 0) {
            return 0;
        }
        if let Some(known) = known.get(left) {
            return *known;
        }
        let unfinished = problem.vms().iter().zip(left).filter(|(_, left)| **left > 0);
        let now: u128 = unfinished.map(|(vm, _)| u128::from(vm.cost.tail())).sum();
        let mut next = Vec::new();
        share(problem, routes, 0, &mut left.to_vec(), problem.capacities().to_vec(), &mut next);
        let after = next
            .into_iter()
            .filter(|next| next != left)
            .map(|next| best(problem, routes, &next, known))
            .min();
        let total = now + after.unwrap();
        known.insert(left.to_vec(), total);
        total
    }

    fn share(
        problem: &Problem,
        routes: &[usize],
        vm: usize,
        left: &mut Vec<u64>,
        room: Vec<u64>,
        next: &mut Vec<Vec<u64>>,
    ) {
        if vm == routes.len() {
            next.push(left.clone());
            return;
        }
        let pools = &problem.vms()[vm].routes[routes[vm]].pools;
        let most = pools.iter().map(|pool| room[*pool]).min().unwrap().min(left[vm]);
        for bytes in 0..=most {
            let mut room = room.clone();
            pools.iter().for_each(|pool| room[*pool] -= bytes);
            left[vm] -= bytes;
            share(problem, routes, vm + 1, left, room, next);
            left[vm] += bytes;
        }
    }

    let counts: Vec<usize> = problem.vms().iter().map(|vm| vm.routes.len()).collect();
    let combinations = counts.iter().product();
    let start: Vec<u64> = problem.vms().iter().map(|vm| vm.size.count()).collect();
    let each = (0..combinations).map(|mut code: usize| {
        let routes: Vec<usize> = counts
            .iter()
            .map(|count| {
                let route = code % count;
                code /= count;
                route
            })
            .collect();
        best(problem, &routes, &start, &mut HashMap::new())
    });
    each.min().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn every_plan_moves_everything_within_capacity_and_above_the_bound(
        instance in instances(40, 1, 6),
        seed in any::<u64>(),
    ) {
        let problem = match build(&instance, &in_order(&instance)) {
            Ok(problem) => Arc::new(problem),
            Err(MigrationError::NeverEnds { .. }) => return Ok(()),
            Err(other) => panic!("{other}"),
        };
        let search = searched(&problem, seed);
        let mut plans = vec![
            greedy(&problem, PathChoice::Widest),
            greedy(&problem, PathChoice::Random(seed)),
            search.plan().clone(),
        ];
        prop_assert!(search.degradation() <= plans[0].degradation(&problem));
        for choice in [PathChoice::Widest, PathChoice::Random(seed)] {
            match fair_sharing(&problem, choice) {
                Ok(plan) => plans.push(plan),
                Err(MigrationError::NeverEnds { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        for plan in plans {
            holds(&problem, &plan);
            prop_assert!(search.bound() <= plan.degradation(&problem));
            prop_assert_eq!(Plan::from_json(&problem, &plan.to_json(&problem)).unwrap(), plan);
        }
    }

    #[test]
    fn the_order_of_the_machines_changes_no_bound(
        instance in instances(40, 0, 6),
        shuffle in any::<prop::sample::Index>(),
    ) {
        let mut order = in_order(&instance);
        let turn = shuffle.index(order.len());
        order.rotate_left(turn);
        let bound = |order: &[usize]| {
            Search::new(Arc::new(build(&instance, order).unwrap()), 1).bound()
        };
        prop_assert_eq!(bound(&order), bound(&in_order(&instance)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_best_plan_of_all_lies_between_bound_and_search(
        mut instance in instances(6, 0, 3),
        seed in any::<u64>(),
    ) {
        instance.switches.truncate(2);
        for vm in &mut instance.vms {
            vm.2.truncate(1);
        }
        let problem = Arc::new(build(&instance, &in_order(&instance)).unwrap());
        let least = least(&problem);
        let search = searched(&problem, seed);
        prop_assert!(search.bound() <= least, "{} > {least}", search.bound());
        prop_assert!(least <= search.degradation(), "{least} > {}", search.degradation());
    }
}

#[test]
fn a_problem_that_cannot_be_names_the_item() {
    let mut builder = Network::builder();
    for node in ["a", "b", "island"] {
        builder.node(node).unwrap();
    }
    builder.link("thin", "a", "b", Rate::from_bit_per_s(16), Time::ZERO).unwrap();
    let network = builder.build();
    let vm = |change: fn(&mut VmRequest)| {
        let mut request = VmRequest {
            name: "vm".to_owned(),
            source: "a".to_owned(),
            destination: "b".to_owned(),
            size: Bytes::new(100),
            cost: vec![1],
            growth: vec![0],
            path: Vec::new(),
        };
        change(&mut request);
        Problem::new(network.clone(), &[], step(), vec![request]).map(|_| ()).unwrap_err()
    };
    let name = || "vm".to_owned();
    let about = |error| MigrationError::Vm { vm: name(), error };
    assert_eq!(vm(|vm| vm.size = Bytes::ZERO), MigrationError::EmptyVm { vm: name() });
    assert_eq!(vm(|vm| vm.name.clear()), MigrationError::EmptyName);
    let empty = MigrationError::EmptyProfile { vm: name(), key: "cost" };
    assert_eq!(vm(|vm| vm.cost.clear()), empty);
    assert_eq!(vm(|vm| vm.growth = vec![16]), MigrationError::NeverEnds { vm: name() });
    let unknown = |node: &str| about(TopologyError::UnknownNode { node: node.to_owned() });
    assert_eq!(vm(|vm| vm.source = "x".to_owned()), unknown("x"));
    let disconnected =
        TopologyError::Disconnected { from: "a".to_owned(), to: "island".to_owned() };
    assert_eq!(vm(|vm| vm.destination = "island".to_owned()), about(disconnected));
    let same = TopologyError::SameEnds { node: "a".to_owned() };
    assert_eq!(vm(|vm| vm.destination = "a".to_owned()), about(same));
    let no_link = TopologyError::UnknownLink { link: "x".to_owned() };
    assert_eq!(vm(|vm| vm.path = vec!["x".to_owned()]), about(no_link));
    assert!(matches!(vm(|vm| vm.cost = vec![u64::MAX]), MigrationError::CostTooLarge { .. }));
    assert!(matches!(vm(|vm| vm.size = Bytes::MAX), MigrationError::TooLong { .. }));
    assert_eq!(
        Problem::new(network.clone(), &[], step(), Vec::new()).map(|_| ()).unwrap_err(),
        MigrationError::NoVm
    );
    assert!(matches!(
        Problem::new(network.clone(), &[], Time::from_ns(1), Vec::new()).map(|_| ()),
        Err(MigrationError::NoVm | MigrationError::ThinLink { .. })
    ));
}
