//! Deadline policies across several links: what a fat-tree must be, and what must hold in it.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

#[path = "support/deadline.rs"]
mod support;

use std::collections::BTreeSet;

use support::{Rng, cases, exhaustive, flows_of, instance};
use weir_schedule::deadline::Flow;
use weir_schedule::deadline::fabric::{FabricKind, FabricPolicy, Route};
use weir_schedule::deadline::model::{
    Deadlines, Estimate, FatTree, Reading, Sizes, Workload, slots,
};
use weir_schedule::deadline::optimal::MooreHodgson;
use weir_units::Time;

/// Serves a batch to its end; which flows were on time.
fn serve(policy: &mut dyn FabricPolicy, flows: &[Flow], routes: &[Route]) -> BTreeSet<u64> {
    let mut active: Vec<(Flow, Route)> =
        flows.iter().copied().zip(routes.iter().copied()).collect();
    let (mut on_time, mut served) = (BTreeSet::new(), Vec::new());
    for slot in 0.. {
        active.retain(|(flow, _)| flow.remaining > Time::ZERO && flow.feasible(slots(slot)));
        if active.is_empty() {
            break;
        }
        let (now, route): (Vec<Flow>, Vec<Route>) = active.iter().copied().unzip();
        policy.decide(slots(slot), &now, &route, &mut served);
        let mut taken = BTreeSet::new();
        for index in &served {
            assert!(route[*index].links().iter().all(|link| taken.insert(*link)), "a link twice");
            let flow = &mut active[*index].0;
            flow.remaining -= slots(1);
            if flow.remaining == Time::ZERO {
                assert!(slots(slot + 1) <= flow.deadline);
                on_time.insert(flow.id);
            }
        }
        // Work conservation: whoever is not served is blocked by someone who is.
        for (index, route) in route.iter().enumerate() {
            let blocked = route.links().iter().any(|link| taken.contains(link));
            assert!(served.contains(&index) || blocked);
        }
    }
    on_time
}

/// On one link Weir's policy serves 10^4 random batches optimally.
#[test]
fn on_one_link_a_batch_is_served_optimally() {
    let mut random = Rng::new(0xFAB);
    for _ in 0..cases(10_000) {
        let flows = flows_of(&instance(&mut random, 8));
        let routes = vec![Route::new(&[0]).unwrap(); flows.len()];
        let best = exhaustive(Time::ZERO, &flows) as usize;
        let served = |kind: FabricKind| serve(kind.build(1).as_mut(), &flows, &routes).len();
        assert_eq!(served(FabricKind::Weir), best, "{flows:?}");
        assert!(served(FabricKind::Pdq) <= best && served(FabricKind::Sjf) <= best);
    }
}

/// On several, no link serves more than it could alone, whatever the order of the list.
#[test]
fn no_link_serves_more_than_its_own_optimum_and_order_changes_nothing() {
    const LINKS: u32 = 5;
    let mut random = Rng::new(0xFAB2);
    for _ in 0..cases(5_000) {
        let flows = flows_of(&instance(&mut random, 12));
        let routes: Vec<Route> = flows
            .iter()
            .map(|_| {
                let first = random.below(LINKS.into()) as u32;
                let hops = 1 + random.below(3) as u32;
                let links: Vec<u32> = (0..hops).map(|hop| (first + hop) % LINKS).collect();
                Route::new(&links).unwrap()
            })
            .collect();
        for kind in FabricKind::ALL {
            let on_time = serve(kind.build(LINKS as usize).as_mut(), &flows, &routes);
            for link in 0..LINKS {
                let over: Vec<Flow> = flows
                    .iter()
                    .zip(&routes)
                    .filter(|(_, route)| route.links().contains(&link))
                    .map(|(flow, _)| *flow)
                    .collect();
                let served = over.iter().filter(|flow| on_time.contains(&flow.id)).count();
                assert!(served <= MooreHodgson::default().select(Time::ZERO, &over).count());
            }
            let backwards: (Vec<Flow>, Vec<Route>) =
                flows.iter().copied().zip(routes.iter().copied()).rev().unzip();
            let again = serve(kind.build(LINKS as usize).as_mut(), &backwards.0, &backwards.1);
            assert_eq!(on_time, again, "{kind}");
        }
    }
}

fn tree(load: f64, mean_slots: f64) -> FatTree {
    let deadlines = Deadlines::Exponential { mean_slots, reading: Reading::Cushion };
    let workload = Workload { sizes: Sizes::PUBLISHED, deadlines };
    FatTree { ports: 4, workload, load, slots: 20_000 }
}

#[test]
fn an_idle_fat_tree_serves_everybody_and_a_busy_one_not() {
    let share = |load, kind| tree(load, 60.0).run(kind, 1).unwrap().on_time_share();
    for kind in FabricKind::ALL {
        assert!(share(0.01, kind) > 0.97, "{kind}");
        assert!(share(2.0, kind) < 0.6, "{kind}");
    }
    let tree = tree(1.0, 60.0);
    assert_eq!((tree.hosts(), tree.links()), (16, 96));
    let first = tree.run(FabricKind::Weir, 1).unwrap();
    assert_eq!(first, tree.run(FabricKind::Weir, 1).unwrap());
    assert_ne!(first, tree.run(FabricKind::Weir, 2).unwrap());
    let offered = first.generated as f64 * 100.0 / f64::from(tree.hosts()) / 20_000.0;
    assert!((offered - 1.0).abs() < 0.05, "{offered}");
}

#[test]
fn weir_is_ahead_of_its_rivals_in_a_fat_tree() {
    for load in [0.3, 0.6, 1.0, 2.0] {
        for mean in [30.0, 120.0, 500.0] {
            let shares = |kind| -> Vec<f64> {
                let share = |seed| tree(load, mean).run(kind, seed).unwrap().on_time_share();
                (100..110).map(|seed| 100.0 * share(seed)).collect()
            };
            let weir = shares(FabricKind::Weir);
            for rival in [FabricKind::Pdq, FabricKind::Sjf] {
                let lead = Estimate::of_difference(&weir, &shares(rival)).unwrap();
                println!(
                    "{load} {mean} {rival} {:.2} +- {:.2} of {:.1}",
                    lead.mean, lead.margin, weir[0]
                );
                assert!(lead.mean > lead.margin, "{rival} at {load}, {mean}: {lead:?}");
            }
        }
    }
}

#[test]
fn trees_that_cannot_be_name_the_key() {
    let error = |change: &dyn Fn(&mut FatTree)| {
        let mut tree = tree(1.0, 60.0);
        change(&mut tree);
        tree.run(FabricKind::Weir, 1).unwrap_err().to_string()
    };
    assert!(error(&|tree| tree.ports = 5).contains("ports is 5"));
    assert!(error(&|tree| tree.load = f64::NAN).contains("load"));
    assert!(error(&|tree| tree.slots = 0).contains("slots"));
    assert!(error(&|tree| tree.workload.sizes.low = 0).contains("sizes"));
    assert!(FatTree::from_json("{}").unwrap_err().to_string().contains("ports"));
    assert_eq!(Route::new(&[]), None);
    assert_eq!(Route::new(&[0; 7]), None);
}
