//! Every policy that a service can run, through the box that it runs them in.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use std::sync::Arc;

use weir_schedule::calendar::{
    Admission, Completions, Decision, FlowId, Request, ReshapeKey, ServiceOptions, Terms, restore,
    servable, servable_policies,
};
use weir_topology::Network;
use weir_units::{Bytes, Rate, Time};

const OPTIONS: ServiceOptions = ServiceOptions {
    epoch: Time::from_ms(10_000),
    admission: Admission::OnArrival,
    completions: Completions::Reported,
    reshape_key: ReshapeKey::Completion,
};

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
            .earliest_by_links(asked.source, asked.destination, asked.size, asked.rate_max)
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
    let refused = servable("weir", network(), OPTIONS).err().unwrap().to_string();
    assert_eq!(
        refused,
        "\"weir\" is no policy: fixed, local-sjf, local-ljf, global-sjf, global-ljf are"
    );
}
