//! Rates after every event of random histories, against progressive filling from the definition.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

mod support;

use proptest::prelude::*;
use support::{Flow, History, equal_split, histories, water_filling};
use weir_fluid::sharing::{FairShare, PriorityShare, Progress, Rule};

/// What the tests need of a sharing model.
trait Share {
    fn begin(&mut self, now: f64, flow: usize, history: &History);
    fn end_due(&mut self, now: f64, ended: &mut Vec<u32>);
    fn settle(&mut self, now: f64);
    fn next_due(&self) -> f64;
    fn progress(&self, now: f64) -> Vec<Progress>;
    fn usage(&self, link: usize) -> f64;
}

macro_rules! share {
    ($type:ty, |$self:ident, $now:ident, $arrival:ident, $start:ident| $begin:expr) => {
        impl Share for $type {
            fn begin(&mut self, $now: f64, flow: usize, history: &History) {
                let ($self, $arrival) = (self, &history.arrivals[flow]);
                let $start = $arrival.start(flow, history);
                $begin
            }
            fn end_due(&mut self, now: f64, ended: &mut Vec<u32>) {
                self.finish_due(now, ended);
            }
            fn settle(&mut self, now: f64) {
                self.settle(now);
            }
            fn next_due(&self) -> f64 {
                self.next_due()
            }
            fn progress(&self, now: f64) -> Vec<Progress> {
                self.flows(now).collect()
            }
            fn usage(&self, link: usize) -> f64 {
                self.usage(link)
            }
        }
    };
}
share!(FairShare, |share, now, arrival, start| share.start(now, start));
share!(PriorityShare, |share, now, arrival, start| share.start(now, arrival.priority, start));

/// Runs a history; calls `check` with (links, running flows, share, now) after every event.
fn run(
    history: &History,
    share: &mut impl Share,
    mut check: impl FnMut(&[usize], &dyn Fn(usize) -> f64, &[Progress], f64),
) -> Vec<f64> {
    let mut ends = vec![f64::INFINITY; history.arrivals.len()];
    let (mut next, mut ended) = (0, Vec::new());
    let mut running: Vec<usize> = Vec::new();
    loop {
        let arrival = history.arrivals.get(next).map_or(f64::INFINITY, |arrival| arrival.at);
        let now = arrival.min(share.next_due());
        if now.is_infinite() {
            assert!(running.is_empty(), "flows {running:?} never end");
            return ends;
        }
        share.end_due(now, &mut ended);
        for flow in ended.drain(..) {
            ends[flow as usize] = now;
            running.retain(|other| *other != flow as usize);
        }
        while history.arrivals.get(next).is_some_and(|arrival| arrival.at <= now) {
            share.begin(now, next, history);
            running.push(next);
            next += 1;
        }
        share.settle(now);
        let progress = share.progress(now);
        check(&running, &|link| share.usage(link), &progress, now);
    }
}

fn oracle_flows(history: &History, running: &[usize]) -> Vec<Flow> {
    let flow = |at: &usize| {
        let arrival = &history.arrivals[*at];
        Flow {
            links: history.routes[arrival.route].clone(),
            weight: arrival.weight,
            limit: arrival.limit,
        }
    };
    running.iter().map(flow).collect()
}

fn assert_rates(running: &[usize], expected: &[f64], progress: &[Progress], scale: f64) {
    assert_eq!(running.len(), progress.len());
    for (flow, expected) in running.iter().zip(expected) {
        let found = progress.iter().find(|p| p.flow as usize == *flow).unwrap().rate;
        let error = (found - expected).abs() / (expected.abs() + scale);
        assert!(error < 1e-9, "flow {flow} has {found}, should have {expected}: {progress:?}");
    }
}

fn assert_usage(
    history: &History,
    running: &[usize],
    usage: &dyn Fn(usize) -> f64,
    p: &[Progress],
) {
    for (link, capacity) in history.capacities.iter().enumerate() {
        let on = |flow: u32| {
            let route = history.arrivals[flow as usize].route;
            history.routes[route].contains(&(link as u32))
        };
        let sum: f64 = p.iter().filter(|p| on(p.flow)).map(|p| p.rate).sum();
        assert!(sum <= capacity * (1.0 + 1e-9), "link {link} carries {sum} of {capacity}");
        assert!((usage(link) - sum).abs() <= 1e-9 * capacity, "{running:?}");
    }
}

proptest! {
    // PROPTEST_CASES=100000 makes it a long run.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(2000)))]

    #[test]
    fn rates_are_max_min_fair_after_every_event(history in histories()) {
        let mut share = FairShare::new(&history.capacities, 12, Rule::MaxMin);
        run(&history, &mut share, |running, usage, progress, _| {
            let flows = oracle_flows(&history, running);
            let expected = water_filling(&history.capacities, &flows);
            assert_rates(running, &expected, progress, 0.0);
            assert_usage(&history, running, usage, progress);
        });
        prop_assert_eq!(share.coarse_settlements(), 0);
    }

    #[test]
    fn rates_are_the_smallest_equal_share_after_every_event(history in histories()) {
        let mut share = FairShare::new(&history.capacities, 12, Rule::EqualSplit);
        run(&history, &mut share, |running, usage, progress, _| {
            let flows = oracle_flows(&history, running);
            let expected = equal_split(&history.capacities, &flows);
            assert_rates(running, &expected, progress, 0.0);
            assert_usage(&history, running, usage, progress);
        });
    }

    #[test]
    fn each_priority_shares_what_the_ones_before_it_leave(history in histories()) {
        let mut share = PriorityShare::new(&history.capacities, 12, 3);
        run(&history, &mut share, |running, usage, progress, _| {
            let mut left = history.capacities.clone();
            for priority in 0..3 {
                let own = |flow: &&usize| history.arrivals[**flow].priority == priority;
                let own: Vec<usize> = running.iter().filter(own).copied().collect();
                let flows = oracle_flows(&history, &own);
                let expected = water_filling(&left, &flows);
                let progress: Vec<Progress> = progress.iter().copied()
                    .filter(|p| own.contains(&(p.flow as usize))).collect();
                // What is left of a link is the difference of large numbers.
                assert_rates(&own, &expected, &progress, 1e-3);
                for (flow, rate) in flows.iter().zip(expected) {
                    flow.links.iter().for_each(|link| left[*link as usize] -= rate);
                }
                for (left, whole) in left.iter_mut().zip(&history.capacities) {
                    if *left < whole * 1e-9 { *left = 0.0; }
                }
            }
            assert_usage(&history, running, usage, progress);
        });
    }

    #[test]
    fn what_was_sent_is_the_integral_of_the_rate(history in histories()) {
        let mut share = FairShare::new(&history.capacities, 12, Rule::MaxMin);
        let mut sent = vec![0.0; history.arrivals.len()];
        let (mut last, mut rates): (f64, Vec<Progress>) = (0.0, Vec::new());
        run(&history, &mut share, |_, _, progress, now| {
            for p in &rates {
                sent[p.flow as usize] += p.rate * (now - last);
            }
            for p in progress {
                let bits = history.arrivals[p.flow as usize].bits;
                let error = (sent[p.flow as usize] + p.remaining - bits).abs();
                assert!(error < 1e-5 + 1e-9 * bits, "flow {} at {now}: {error}", p.flow);
            }
            (last, rates) = (now, progress.to_vec());
        });
        for (sent, arrival) in sent.iter().zip(&history.arrivals) {
            prop_assert!((sent - arrival.bits).abs() < 1e-5, "{} of {}", sent, arrival.bits);
        }
    }

    #[test]
    fn the_order_of_simultaneous_arrivals_and_of_links_changes_nothing(
        history in histories(), seed: u64,
    ) {
        let mut other = history.clone();
        let order: Vec<usize> = shuffled(history.arrivals.len(), seed);
        other.arrivals = order.iter().map(|at| history.arrivals[*at].clone()).collect();
        let mut stable: Vec<usize> = (0..order.len()).collect();
        stable.sort_by(|a, b| other.arrivals[*a].at.total_cmp(&other.arrivals[*b].at));
        let order: Vec<usize> = stable.iter().map(|at| order[*at]).collect();
        other.arrivals = order.iter().map(|at| history.arrivals[*at].clone()).collect();
        other.routes.iter_mut().for_each(|route| route.reverse());
        let mut ends = [&history, &other].map(|history| {
            let mut share = FairShare::new(&history.capacities, 12, Rule::MaxMin);
            run(history, &mut share, |_, _, _, _| {})
        });
        let second = std::mem::take(&mut ends[1]);
        for (at, original) in order.iter().enumerate() {
            let (a, b) = (second[at], ends[0][*original]);
            prop_assert!((a - b).abs() < 1e-8 * (1.0 + a), "{} {}", a, b);
        }
    }
}

fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut random = weir_random::Random::of_source(seed, &["shuffle"]);
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        order.swap(at, random.up_to(at as u64) as usize);
    }
    order
}
