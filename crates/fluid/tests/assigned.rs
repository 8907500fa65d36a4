//! What a scheduler may do: rates on several routes, flows booked ahead; and what it may not.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use proptest::prelude::*;
use weir_fluid::sharing::Rule;
use weir_fluid::trace::Trace;
use weir_fluid::workload::{Arrivals, Deadlines, Distribution, Sizes, Workload};
use weir_fluid::{
    Fate, Flow, FluidError, Listed, Outcome, Rates, RouteId, Routes, Scheduler, Sharing, Source,
    simulate,
};
use weir_units::{Rate, Time};

/// Two ways from a to c, one direct and one over b; a third route ends elsewhere.
const TRIANGLE: &str = "link a b 1000000000\nlink b c 1000000000\nlink a c 500000000\n\
                        route 2\nroute 0 1\nroute 0\n";

/// Gives each flow, when told, a rate on a route; does the same at its time, if it has one.
struct Told {
    on_arrival: Vec<(usize, usize, u64)>,
    later: Vec<(Time, usize, usize, u64)>,
    routes: Vec<RouteId>,
}

impl Told {
    fn new(trace: &Trace, on_arrival: &[(usize, usize, u64)]) -> Self {
        let routes = trace.flows.iter().map(|flow| flow.route).collect();
        Self { on_arrival: on_arrival.to_vec(), later: Vec::new(), routes }
    }
}

impl Scheduler for Told {
    fn arrive(&mut self, _: Time, number: usize, _: &Flow, rates: &mut Rates) {
        for (flow, route, mbit_per_s) in &self.on_arrival {
            if *flow == number {
                rates.set_on(number, self.routes[*route], Rate::from_mbit_per_s(*mbit_per_s));
            }
        }
    }

    fn end(&mut self, _: Time, _: usize, _: &mut Rates) {}

    fn next_wake(&self) -> Option<Time> {
        self.later.first().map(|next| next.0)
    }

    fn wake(&mut self, _: Time, rates: &mut Rates) {
        let (_, flow, route, mbit_per_s) = self.later.remove(0);
        rates.set_on(flow, self.routes[route], Rate::from_mbit_per_s(mbit_per_s));
    }
}

/// The first flows of the text run; one flow on each route stands behind them to name the routes.
fn run(flows: &str, told: impl FnOnce(&Trace) -> Told) -> Result<Outcome, FluidError> {
    let named = "flow 900000000000 0 1\nflow 900000000000 1 1\nflow 900000000000 2 1\n";
    let all = Trace::parse(&format!("{TRIANGLE}{named}")).unwrap();
    let trace = Trace::parse(&format!("{TRIANGLE}{flows}")).unwrap();
    let mut scheduler = told(&all);
    let sharing = Sharing::Assigned(&mut scheduler);
    simulate(&trace.network, &trace.routes, sharing, &mut Listed::new(&trace.flows), Time::MAX)
}

#[test]
fn a_flow_on_two_routes_sends_the_sum_and_loads_the_links_of_both() {
    // 1 Gbyte at 400 + 600 Mbit/s for 4 s, then 1000 Mbit/s over b alone for the other 4 Gbit.
    let outcome = run("flow 0 0 1000000000", |all| Told {
        later: vec![(Time::from_ms(4000), 0, 0, 0), (Time::from_ms(4000), 0, 1, 1000)],
        ..Told::new(all, &[(0, 0, 400), (0, 1, 600)])
    })
    .unwrap();
    assert_eq!(outcome.flows[0].fate, Fate::Ended(Time::from_ms(8000)));
    let expected = [(0.6 * 4.0 + 4.0) / 8.0, (0.6 * 4.0 + 4.0) / 8.0, 0.4 * 4.0 / (0.5 * 8.0)];
    for (found, expected) in outcome.utilisation.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }
}

#[test]
fn the_capacity_of_a_link_holds_for_all_routes_over_it_together() {
    let flows = "flow 0 0 1000\nflow 0 2 1000";
    let fits = run(flows, |all| Told::new(all, &[(0, 0, 500), (0, 1, 600), (1, 2, 400)]));
    assert!(fits.is_ok());
    let error = run(flows, |all| Told::new(all, &[(0, 1, 600), (1, 2, 401)])).unwrap_err();
    assert_eq!(error, FluidError::LinkOverloaded { link: "a-b".to_owned(), at: Time::ZERO });
}

#[test]
fn a_route_with_other_ends_or_no_such_route_is_refused() {
    let elsewhere = run("flow 0 0 1000", |all| Told::new(all, &[(0, 2, 1)])).unwrap_err();
    assert_eq!(elsewhere, FluidError::RouteElsewhere { flow: 0, route: 2 });
    let mut more = Trace::parse(TRIANGLE).unwrap();
    let path = weir_topology::Path::new(&more.network, more.network.links().take(1).collect());
    let unknown = more.routes.add(&more.network, &path.unwrap()).unwrap();
    let error =
        run("flow 0 0 1000", |all| Told { routes: vec![unknown], ..Told::new(all, &[(0, 0, 1)]) });
    assert_eq!(error.unwrap_err(), FluidError::UnknownRoute { flow: 0, route: 3, routes: 3 });
}

#[test]
fn a_rate_before_the_start_is_refused_and_at_the_start_it_is_not() {
    let flow = "flow 0 0 1000000000 start_ns=2000000000";
    let start = Time::from_ms(2000);
    let error = run(flow, |all| Told::new(all, &[(0, 0, 1)])).unwrap_err();
    assert_eq!(error, FluidError::RateBeforeStart { flow: 0, at: Time::ZERO, start });
    let later = vec![(start, 0, 0, 500)];
    let outcome = run(flow, |all| Told { later, ..Told::new(all, &[]) }).unwrap();
    assert_eq!(outcome.flows[0].fate, Fate::Ended(Time::from_ms(18_000)));
}

#[test]
fn what_a_flow_sent_before_it_was_refused_is_carried() {
    struct Gone(bool);
    impl Scheduler for Gone {
        fn arrive(&mut self, _: Time, number: usize, _: &Flow, rates: &mut Rates) {
            rates.set(number, Rate::from_mbit_per_s(100));
        }
        fn end(&mut self, _: Time, _: usize, _: &mut Rates) {}
        fn next_wake(&self) -> Option<Time> {
            (!self.0).then(|| Time::from_ms(1000))
        }
        fn wake(&mut self, _: Time, rates: &mut Rates) {
            self.0 = true;
            rates.refuse(0);
        }
    }
    let trace = Trace::parse(&format!("{TRIANGLE}flow 0 0 1000000000")).unwrap();
    let (mut gone, mut flows) = (Gone(false), Listed::new(&trace.flows));
    let sharing = Sharing::Assigned(&mut gone);
    let until = Time::from_ms(2000);
    let outcome = simulate(&trace.network, &trace.routes, sharing, &mut flows, until).unwrap();
    assert!((outcome.utilisation[2] - 0.1).abs() < 1e-12);
}

#[test]
fn links_share_a_booked_flow_from_its_start_on() {
    // The first alone for 2 s, then both: 5 Gbit at 500 Mbit/s, then 250 each.
    let trace = Trace::parse(&format!(
        "{TRIANGLE}flow 0 0 250000000\nflow 1 0 125000000 start_ns=2000000000"
    ))
    .unwrap();
    for sharing in [Sharing::Fair(Rule::MaxMin), Sharing::Priority { classes: 1 }] {
        let mut flows = Listed::new(&trace.flows);
        let outcome =
            simulate(&trace.network, &trace.routes, sharing, &mut flows, Time::MAX).unwrap();
        for flow in &outcome.flows {
            let Fate::Ended(end) = flow.fate else { panic!("it did not end") };
            assert!((end.as_s() - 6.0).abs() < 1e-8, "{end}");
        }
    }
}

#[test]
fn booking_ahead_moves_starts_and_nothing_else() {
    let network = weir_topology::named::g_scale();
    let at_once = Workload {
        seed: 3,
        flows: 500,
        arrivals: Arrivals::Poisson { rate_per_s: 0.4 },
        sizes: Sizes::RateBps(Distribution::Exponential { mean: 1e8 }),
        deadlines: Deadlines::AfterS(Distribution::Exponential { mean: 3600.0 }),
        ahead_s: None,
        pairs: vec![],
    };
    let ahead_s = Some(Distribution::Exponential { mean: 600.0 });
    let draw = |workload: Workload| -> Vec<Flow> {
        let mut drawn = workload.draw(&network, &mut Routes::new()).unwrap();
        std::iter::from_fn(|| drawn.take()).collect()
    };
    let booked = draw(Workload { ahead_s, ..at_once.clone() });
    let mut ahead = 0.0;
    for (booked, flow) in booked.iter().zip(draw(at_once)) {
        let by = booked.start.saturating_sub(booked.at);
        ahead += by.as_s() / 500.0;
        assert_eq!(booked.deadline.saturating_sub(booked.start), flow.deadline - flow.at);
        assert_eq!(Flow { start: flow.start, deadline: flow.deadline, ..*booked }, flow);
    }
    assert!((500.0..700.0).contains(&ahead), "{ahead}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Volume over each link against the sum over the flows' routes, kept apart from the world.
    #[test]
    fn each_route_carries_its_own_part(parts in prop::collection::vec((1u64..40, 1u64..40), 1..8)) {
        let flows = "flow 0 0 100000000\n".repeat(parts.len());
        let told: Vec<(usize, usize, u64)> = parts
            .iter()
            .enumerate()
            .flat_map(|(flow, (direct, around))| [(flow, 0, *direct), (flow, 1, *around)])
            .collect();
        let outcome = run(&flows, |all| Told::new(all, &told)).unwrap();
        let (mut direct, mut around) = (0.0, 0.0);
        for (flow, (d, a)) in outcome.flows.iter().zip(&parts) {
            let (d, a, bits) = (*d as f64, *a as f64, 8e8);
            let Fate::Ended(end) = flow.fate else { panic!("it did not end") };
            prop_assert!((end.as_s() * (d + a) * 1e6 / bits - 1.0).abs() < 1e-6);
            direct += bits * d / (d + a);
            around += bits * a / (d + a);
        }
        let span = outcome.end.as_s();
        for (found, bits, capacity) in
            [(0, around, 1e9), (1, around, 1e9), (2, direct, 5e8)]
        {
            prop_assert!((outcome.utilisation[found] * span * capacity / bits - 1.0).abs() < 1e-6);
        }
    }
}
