//! Admissions per second and their latency, with the published workload (000-spec section 4.6) on
//! G-scale in its steady state: completions and 3-minute epochs included, a third refused. One line
//! of JSON per setting on standard output. Speeds are per second of processor time of one core, so
//! that whatever else the machine does is left out; latencies are by the clock on the wall.
//!
//! usage: cargo bench -p weir-schedule --bench admissions [-- --quick]
//!
//! `make bench NAME=calendar` runs it and keeps the figures.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]
#![allow(clippy::print_stdout, reason = "the figures are the output")]

#[path = "../tests/support/reference.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
mod reference;
#[path = "../tests/support/workload.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
mod workload;

use std::sync::Arc;
use std::time::{Duration, Instant};

use reference::Reference;
use rustix::time::{ClockId, clock_gettime};
use weir_schedule::calendar::{Calendar, Calibers, Decision, Policy, Reason, Request};
use weir_topology::{Metric, Network, named::g_scale};
use weir_units::Time;
use workload::{Arrivals, Load, published};

/// Where a third of the requests is refused.
const BUSY: f64 = 0.8;
/// Three mean deadlines, after which the number of flows has settled.
const WARM_S: f64 = 3.0 * 3600.0;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let network = Arc::new(g_scale());
    for active in [100, 1000, 10_000] {
        for policy in Policy::ALL {
            let count = if quick { 5000 } else { 200_000 };
            println!("{}", measure(&network, policy, active, count));
        }
    }
}

fn measure(network: &Arc<Network>, policy: Policy, active: usize, count: usize) -> String {
    let load = Load::published(BUSY);
    let load = load.finer(active as f64 / mean_active(network, policy, load));
    let (mut calendar, mut arrivals) = warm(network, policy, load);
    let requests: Vec<(Time, Request)> = (0..count).map(|_| arrivals.next()).collect();
    let peer = peer_per_second(network, &calendar, policy, &requests);
    let mut run = Run::default();
    let (mut flows, mut spent, samples) = (0, 0.0, 20);
    for part in requests.chunks(count / samples) {
        flows += calendar.flows().len();
        let start = processor_s();
        for (now, request) in part {
            run.serve(&mut calendar, *now, request.clone());
        }
        spent += processor_s() - start;
    }
    run.report(policy, active, flows as f64 / samples as f64, count as f64 / spent, peer)
}

/// Processor time of this thread.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// How many flows there are in the steady state of a load.
fn mean_active(network: &Arc<Network>, policy: Policy, load: Load) -> f64 {
    let (mut calendar, mut arrivals) = warm(network, policy, load);
    let (mut run, mut sum, rounds) = (Run::default(), 0, 50);
    for _ in 0..rounds {
        for _ in 0..100 {
            let (now, request) = arrivals.next();
            run.serve(&mut calendar, now, request);
        }
        sum += calendar.flows().len();
    }
    sum as f64 / f64::from(rounds)
}

fn warm(network: &Arc<Network>, policy: Policy, load: Load) -> (Calibers, Arrivals) {
    let mut calendar = Calibers::new(Arc::clone(network), published(policy)).unwrap();
    let mut arrivals = Arrivals::new(network, load, 1);
    let mut run = Run::default();
    loop {
        let (now, request) = arrivals.next();
        run.serve(&mut calendar, now, request);
        if now.as_s() > WARM_S {
            return (calendar, arrivals);
        }
    }
}

/// What happened, and how long each part took.
#[derive(Default)]
struct Run {
    free: usize,
    paced: usize,
    refused: usize,
    submissions: Vec<Duration>,
    epochs: Vec<Duration>,
}

impl Run {
    fn serve(&mut self, calendar: &mut Calibers, now: Time, request: Request) {
        while calendar.next_epoch() <= now {
            let start = Instant::now();
            calendar.epoch(calendar.next_epoch()).unwrap();
            self.epochs.push(start.elapsed());
        }
        let start = Instant::now();
        let decision = calendar.submit(now, request).unwrap();
        self.submissions.push(start.elapsed());
        match decision {
            Decision::Accepted(accepted) if accepted.changes.is_empty() => self.free += 1,
            Decision::Accepted(_) => self.paced += 1,
            Decision::Refused(refused) => {
                assert!(matches!(refused.reason, Reason::Link { .. }));
                self.refused += 1;
            }
            Decision::Waiting => panic!("requests are decided on arrival"),
        }
    }

    fn report(
        mut self,
        policy: Policy,
        active: usize,
        mean_active: f64,
        per_second: f64,
        peer: f64,
    ) -> String {
        let total = self.submissions.len() as f64;
        let share = |count: usize| count as f64 / total;
        serde_json::json!({
            "policy": policy.to_string(),
            "active": active,
            "mean_active": mean_active,
            "per_second": per_second,
            "pseudocode_per_second": peer,
            "p50_us": percentile_us(&mut self.submissions, 50),
            "p99_us": percentile_us(&mut self.submissions, 99),
            "epoch_p50_us": percentile_us(&mut self.epochs, 50),
            "epoch_max_us": percentile_us(&mut self.epochs, 100),
            "epochs": self.epochs.len(),
            "accepted_free": share(self.free),
            "accepted_paced": share(self.paced),
            "refused": share(self.refused),
        })
        .to_string()
    }
}

fn percentile_us(values: &mut [Duration], percent: usize) -> f64 {
    values.sort_unstable();
    let index = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(index).map_or(0.0, |value| value.as_secs_f64() * 1e6)
}

/// The same requests, as many as fit into a second, by the pseudocode as it reads, from the same
/// flows.
fn peer_per_second(
    network: &Network,
    calendar: &Calibers,
    policy: Policy,
    requests: &[(Time, Request)],
) -> f64 {
    let mut peer = peer_like(network, calendar, policy);
    let (mut count, mut epoch) = (0, calendar.next_epoch());
    let paths: Vec<Vec<usize>> = requests.iter().map(|(_, ask)| links(network, ask)).collect();
    let start = processor_s();
    for ((now, request), path) in requests.iter().zip(paths) {
        while epoch <= *now {
            peer.on_epoch(epoch.as_s());
            epoch += calendar.options().epoch;
        }
        let terms = (request.size.count() as f64 * 8.0, request.deadline.as_s(), f64::INFINITY);
        peer.on_request(now.as_s(), count, &path, terms);
        count += 1;
        if processor_s() - start > 1.0 {
            break;
        }
    }
    count as f64 / (processor_s() - start)
}

fn links(network: &Network, request: &Request) -> Vec<usize> {
    let path = network.shortest(request.source, request.destination, Metric::Hops).unwrap();
    path.links().iter().map(|link| link.index()).collect()
}

fn peer_like(network: &Network, calendar: &Calibers, policy: Policy) -> Reference {
    let capacity = |id| network.link(id).capacity.as_bit_per_s() as f64;
    let mut peer = Reference::new(network.links().map(capacity).collect(), &policy.to_string());
    peer.t = calendar.clock().as_s();
    let flow = |(name, view): (usize, weir_schedule::calendar::FlowView)| reference::Flow {
        name,
        rem: view.remaining.count() as f64 * 8.0,
        td: view.deadline.as_s(),
        alloc: view.rate.as_bit_per_s() as f64,
        tc: view.completion.as_s(),
        path: view.path.links().iter().map(|link| link.index()).collect(),
        rmax: f64::INFINITY,
    };
    peer.flows = calendar.flows().into_iter().enumerate().map(flow).collect();
    peer
}
