//! Every policy that a service can run, through the box that it runs them in.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use std::sync::Arc;

use weir_schedule::calendar::{
    Admission, Completions, Decision, FlowId, Request, ServiceOptions, Terms, restore, servable,
    servable_policies,
};
use weir_topology::Network;
use weir_units::{Bytes, Rate, Time};

const OPTIONS: ServiceOptions = ServiceOptions::live(Time::from_ms(10_000));

fn network() -> Arc<Network> {
    let mut builder = Network::builder();
    builder.node("a").unwrap();
    builder.node("b").unwrap();
    builder.link("ab", "a", "b", Rate::from_mbit_per_s(8), Time::ZERO).unwrap();
    Arc::new(builder.build())
}

/// A megabyte takes the whole link a second.
fn request(network: &Network, name: &str, deadline_ms: u64) -> Request {
    Request {
        id: FlowId::new(name),
        source: network.node("a").unwrap(),
        destination: network.node("b").unwrap(),
        size: Bytes::new(1_000_000),
        deadline: Time::from_ms(deadline_ms),
        rate_max: Rate::MAX,
        terms: Terms::default(),
    }
}

#[test]
fn every_policy_that_can_serve_goes_on_from_its_snapshot() {
    let network = network();
    let policies = servable_policies();
    assert!(policies.contains(&"local-ljf".to_owned()), "the service's default: {policies:?}");
    for policy in policies {
        let mut first = servable(&policy, Arc::clone(&network), OPTIONS).unwrap();
        let ms = Time::from_ms;
        first.submit(ms(0), request(&network, "x", 4000)).unwrap();
        first.submit(ms(500), request(&network, "y", 9000)).unwrap();
        let mut second = restore(&first.snapshot()).unwrap();
        assert_eq!(second.snapshot(), first.snapshot(), "{policy}");
        for calendar in [&mut first, &mut second] {
            calendar.complete(ms(2000), &FlowId::new("x")).unwrap();
            calendar.epoch(ms(10_000)).unwrap();
        }
        assert_eq!(second.flows(), first.flows(), "{policy}");
        assert_eq!(second.next_epoch(), Time::from_ms(20_000), "{policy}");
    }
}

#[test]
fn before_the_earliest_by_links_every_policy_refuses() {
    let network = network();
    for policy in servable_policies() {
        let mut calendar = servable(&policy, Arc::clone(&network), OPTIONS).unwrap();
        let asked = request(&network, "x", 1000);
        let earliest = calendar
            .earliest_by_links(
                (asked.source, asked.destination),
                asked.size,
                asked.rate_max,
                1,
                None,
            )
            .unwrap();
        assert_eq!(earliest, Some(Time::from_ms(1000)), "{policy}");
        let sooner = calendar.submit(Time::ZERO, request(&network, "x", 999)).unwrap();
        assert!(matches!(sooner, Decision::Refused(_)), "{policy}");
        let then = calendar.submit(Time::ZERO, asked).unwrap();
        assert!(matches!(then, Decision::Accepted(_)), "{policy}");
    }
}

#[test]
fn a_policy_that_cannot_serve_is_refused_with_those_that_can() {
    let refused = servable("tempus", network(), OPTIONS).err().unwrap().to_string();
    assert_eq!(
        refused,
        "\"tempus\" is not a policy: \
         fixed, local-sjf, local-ljf, global-sjf, global-ljf, weir, weir-all are"
    );
}

#[test]
fn what_a_policy_cannot_do_is_refused_by_name() {
    let error = |policy, options| servable(policy, network(), options).err().unwrap().to_string();
    let modelled = ServiceOptions { completions: Completions::Modelled, ..OPTIONS };
    assert_eq!(error("weir", modelled), "policy \"weir\" needs completions to be reported");
    let at_epoch = ServiceOptions { admission: Admission::AtEpoch, ..OPTIONS };
    assert_eq!(error("weir-all", at_epoch), "policy \"weir-all\" decides on arrival");
    let wide = ServiceOptions { paths: 2, ..OPTIONS };
    assert_eq!(error("local-ljf", wide), "policy \"local-ljf\" sends over one path");
}

#[test]
fn a_precheck_says_what_submit_would_and_changes_nothing() {
    let network = network();
    for policy in servable_policies() {
        let mut calendar = servable(&policy, Arc::clone(&network), OPTIONS).unwrap();
        let now = Time::from_ms(100);
        calendar.submit(Time::ZERO, request(&network, "x", 9000)).unwrap();
        for deadline_ms in [1200, 3000, 60_000] {
            let before = calendar.snapshot();
            let asked = request(&network, "y", deadline_ms);
            let said = calendar.precheck(now, asked.clone(), None).unwrap();
            assert_eq!(calendar.snapshot(), before, "{policy}");
            let mut copy = restore(&before).unwrap();
            assert_eq!(copy.submit(now, asked).unwrap(), said, "{policy}");
        }
    }
}

#[test]
fn a_part_is_promised_where_that_is_enough() {
    let network = network();
    for policy in servable_policies() {
        let mut calendar = servable(&policy, Arc::clone(&network), OPTIONS).unwrap();
        calendar.submit(Time::ZERO, request(&network, "x", 1500)).unwrap();
        // Half a second of the link is left until the deadline; a third where rates are constant.
        let asked = |least| Request {
            terms: Terms { least: Some(Bytes::new(least)), ..Terms::default() },
            ..request(&network, "y", 1500)
        };
        let refused = calendar.precheck(Time::ZERO, asked(510_000), None).unwrap();
        assert!(matches!(refused, Decision::Refused(_)), "{policy}: {refused:?}");
        let told = calendar.submit(Time::ZERO, asked(300_000)).unwrap();
        let Decision::Accepted(told) = told else { panic!("{policy}: {told:?}") };
        assert!((480_000..=500_000).contains(&told.size.count()), "{policy}: {}", told.size);
    }
}
