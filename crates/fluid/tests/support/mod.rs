//! What the tests of sharing have in common: the oracle and random histories.

use proptest::prelude::*;
use weir_fluid::sharing::Start;

/// A flow as the oracle sees it.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) links: Vec<u32>,
    pub(crate) weight: u32,
    pub(crate) limit: f64,
}

/// Weighted max-min rates by progressive filling (Bertsekas and Gallager, section 6.5.2), from the
/// definition: raise the rate of everybody for each unit of weight; whoever meets a full link or
/// the own limit stops.
pub(crate) fn water_filling(capacities: &[f64], flows: &[Flow]) -> Vec<f64> {
    let mut rates = vec![0.0; flows.len()];
    let mut open: Vec<usize> = (0..flows.len()).collect();
    while !open.is_empty() {
        // For each link, what those that stopped have, and the weight of the others on it.
        let (mut taken, mut weight) = (vec![0.0; capacities.len()], vec![0.0; capacities.len()]);
        for (flow, rate) in flows.iter().zip(&rates) {
            flow.links.iter().for_each(|link| taken[*link as usize] += rate);
        }
        for flow in open.iter().map(|at| &flows[*at]) {
            flow.links.iter().for_each(|link| weight[*link as usize] += w(flow));
        }
        let room = |link: usize| (capacities[link] - taken[link]).max(0.0) / weight[link];
        let ceiling = |flow: &usize| {
            let shares = flows[*flow].links.iter().map(|link| room(*link as usize));
            shares.fold(flows[*flow].limit / w(&flows[*flow]), f64::min)
        };
        let ceilings: Vec<f64> = open.iter().map(ceiling).collect();
        let level = ceilings.iter().copied().fold(f64::INFINITY, f64::min);
        let mut still_open = Vec::new();
        for (flow, ceiling) in open.iter().zip(ceilings) {
            if ceiling <= level * (1.0 + 1e-13) {
                rates[*flow] = level * w(&flows[*flow]);
            } else {
                still_open.push(*flow);
            }
        }
        open = still_open;
    }
    rates
}

fn w(flow: &Flow) -> f64 {
    f64::from(flow.weight)
}

/// Every link split equally by weight; each flow has its smallest share.
pub(crate) fn equal_split(capacities: &[f64], flows: &[Flow]) -> Vec<f64> {
    let share = |link: &u32| {
        let on = flows.iter().filter(|flow| flow.links.contains(link));
        capacities[*link as usize] / on.map(w).sum::<f64>()
    };
    let rate = |flow: &Flow| {
        let level = flow.links.iter().map(share).fold(flow.limit / w(flow), f64::min);
        level * w(flow)
    };
    flows.iter().map(rate).collect()
}

/// A network and what happens on it.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) capacities: Vec<f64>,
    pub(crate) routes: Vec<Vec<u32>>,
    pub(crate) arrivals: Vec<Arrival>,
}

#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: f64,
    pub(crate) route: usize,
    pub(crate) weight: u32,
    pub(crate) limit: f64,
    pub(crate) bits: f64,
    pub(crate) priority: u8,
}

impl Arrival {
    pub(crate) fn start<'a>(&self, flow: usize, history: &'a History) -> Start<'a> {
        Start {
            flow: flow as u32,
            route: self.route as u32,
            links: &history.routes[self.route],
            weight: self.weight,
            limit: self.limit,
            bits: self.bits,
        }
    }
}

/// Up to 12 links, capacities over three decades or all equal, so that there are ties; up to 60
/// flows on up to 25 routes.
pub(crate) fn histories() -> impl Strategy<Value = History> {
    (2usize..12, 1usize..25, any::<bool>()).prop_flat_map(|(links, routes, even)| {
        let capacity = if even { 10u32..11 } else { 1..1000 };
        let all: Vec<u32> = (0..links as u32).collect();
        let route = prop::sample::subsequence(all, 1..=links).prop_shuffle();
        let limit = prop_oneof![4 => Just(f64::INFINITY), 1 => (1u32..100).prop_map(f64::from)];
        let arrival =
            (0u32..50, 0..routes, prop_oneof![Just(1u32), 1u32..9], limit, 1u32..500, 0u8..3);
        let arrival = arrival.prop_map(|(at, route, weight, limit, bits, priority)| Arrival {
            at: f64::from(at) / 4.0,
            route,
            weight,
            limit,
            bits: f64::from(bits),
            priority,
        });
        (
            prop::collection::vec(capacity.prop_map(f64::from), links),
            prop::collection::vec(route, routes),
            prop::collection::vec(arrival, 1..60),
        )
            .prop_map(|(capacities, routes, mut arrivals)| {
                arrivals.sort_by(|a, b| a.at.total_cmp(&b.at));
                History { capacities, routes, arrivals }
            })
    })
}
