//! Latency of decisions of Weir's own calendar, by the processor time of its thread, which other
//! programs hardly change, on G-scale with the published mix of requests (000-spec section 4.6),
//! each as much smaller as there are more of them. The calendar is filled up to the number of
//! active transfers at once; then requests come at four fifths of a request per second and mean
//! rate of 100 Mbit/s, where it must refuse, and transfers send, end and are reported. With many
//! under way it is measured, too, as the live service runs it: one path each, room kept for what
//! was not reported, and a report of one transfer between two requests; on G-scale, and on a single
//! link. One line of JSON per setting on standard output: beside the percentiles of a decision what
//! all calls together take for each request, ends, reports and epochs included, what a precheck
//! takes, and what it takes to say that a link carries what it did before.
//!
//! usage: cargo bench -p weir-schedule --bench planning [-- --quick]

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]
#![allow(clippy::print_stdout, reason = "the figures are the output")]

#[path = "../tests/support/workload.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
mod workload;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use weir_schedule::calendar::{
    Calendar, Change, Decision, FlowId, Request, Weir, WeirOptions, Worth,
};
use weir_topology::{Network, named::g_scale};
use weir_units::{Rate, Time};
use workload::{Arrivals, Load};

const BUSY: f64 = 0.8;
/// So many transfers are under way at this load in the mean, when each is of the published size.
const USUAL: f64 = 300.0;

struct Setting {
    name: &'static str,
    network: Arc<Network>,
    paths: usize,
    worth: Worth,
    /// Whether it runs as in the live service.
    live: bool,
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let network = Arc::new(g_scale());
    let of =
        |name, worth| Setting { name, network: Arc::clone(&network), paths: 8, worth, live: false };
    let live = |name, network: &Arc<Network>| Setting {
        name,
        network: Arc::clone(network),
        paths: 1,
        worth: Worth::Request,
        live: true,
    };
    let planned = [of("weir", Worth::Request), of("weir-all", Worth::Anything)];
    let served = [live("weir live", &network), live("weir live on one link", &one_link())];
    for active in [30, 100, 1000, 10_000] {
        let many = if active < 1000 { &served[..0] } else { &served[..] };
        for setting in planned.iter().chain(many) {
            let count = if quick { 200 } else { 2000 };
            println!("{}", measure(setting, active, count));
        }
    }
}

/// As wide as a link of G-scale, both ways.
fn one_link() -> Arc<Network> {
    let mut builder = Network::builder();
    builder.node("a").unwrap();
    builder.node("b").unwrap();
    for (name, from, to) in [("ab", "a", "b"), ("ba", "b", "a")] {
        builder.link(name, from, to, Rate::from_mbit_per_s(10_000), Time::ZERO).unwrap();
    }
    Arc::new(builder.build())
}

fn measure(setting: &Setting, active: usize, count: usize) -> String {
    let Setting { name, ref network, paths, worth, live } = *setting;
    let options = WeirOptions {
        paths,
        epoch: Time::from_ms(180_000),
        worth,
        hold: Time::ZERO,
        measured: live,
    };
    let calendar = Weir::new(Arc::clone(network), options).unwrap();
    let mut world =
        World { calendar, ids: Vec::new(), ends: BTreeSet::new(), end_of: HashMap::new() };
    // As many requests to each link as on G-scale, where one takes two or three.
    let share = if network.nodes().len() > 2 { 1.0 } else { 0.1 };
    let load = Load::published(BUSY).finer(active as f64 / USUAL);
    let load = Load { mean_rate_bps: load.mean_rate_bps * share, ..load };
    world.fill(Arrivals::new(network, load, 1), active);
    let mut arrivals = Arrivals::new(network, load, 2);
    let (mut times, mut all, mut refused, mut flows) = (Vec::new(), Duration::ZERO, 0, 0);
    for number in 0..count {
        let (now, request) = arrivals.next();
        all += world.pass(now);
        flows += world.ids.len();
        if live {
            all += world.report(now, number * 7919);
        }
        let id = request.id.clone();
        let start = processor_time();
        let decision = world.calendar.submit(now, request).unwrap();
        times.push(processor_time() - start);
        refused += usize::from(matches!(decision, Decision::Refused(_)));
        world.decided(id, decision);
    }
    all += times.iter().sum::<Duration>();
    let (mut prechecks, mut capacities) = world.look(&mut arrivals, count / 10);
    serde_json::json!({
        "policy": name,
        "active": active,
        "mean_active": flows as f64 / count as f64,
        "p50_us": percentile_us(&mut times, 50),
        "p99_us": percentile_us(&mut times, 99),
        "max_us": percentile_us(&mut times, 100),
        "precheck_p50_us": percentile_us(&mut prechecks, 50),
        "precheck_p99_us": percentile_us(&mut prechecks, 99),
        "capacity_p50_us": percentile_us(&mut capacities, 50),
        "all_us": all.as_secs_f64() * 1e6 / count as f64,
        "refused": refused as f64 / count as f64,
    })
    .to_string()
}

/// A calendar and those under way, with when those end that send.
struct World {
    calendar: Weir,
    ids: Vec<FlowId>,
    ends: BTreeSet<(Time, FlowId)>,
    end_of: HashMap<FlowId, Time>,
}

impl World {
    /// Requests at time zero until so many are admitted, under names of their own.
    fn fill(&mut self, mut arrivals: Arrivals, active: usize) {
        while self.ids.len() < active {
            let (now, request) = arrivals.next();
            let id = FlowId::new(&format!("first {}", request.id));
            let deadline = request.deadline - now;
            let request = Request { id: id.clone(), deadline, ..request };
            let decision = self.calendar.submit(Time::ZERO, request).unwrap();
            self.decided(id, decision);
        }
    }

    fn decided(&mut self, id: FlowId, decision: Decision) {
        if let Decision::Accepted(accepted) = decision {
            self.tell(accepted.changes);
            self.ids.push(id.clone());
            self.told(id);
        }
    }

    fn tell(&mut self, changes: Vec<Change>) {
        changes.into_iter().for_each(|change| self.told(change.flow));
    }

    /// Takes note of when one ends whose rate is new.
    fn told(&mut self, id: FlowId) {
        let before = self.end_of.remove(&id);
        before.map(|end| self.ends.remove(&(end, id.clone())));
        let view = self.calendar.flow_view(&id).unwrap();
        if view.rate > Rate::ZERO {
            self.end_of.insert(id.clone(), view.completion);
            self.ends.insert((view.completion, id));
        }
    }

    /// Lets time pass: ends are reported as they come, epochs held as they are due. What that took.
    fn pass(&mut self, until: Time) -> Duration {
        let mut took = Duration::ZERO;
        loop {
            let epoch = self.calendar.next_epoch();
            let end = self.ends.first().filter(|(at, _)| *at <= epoch.min(until)).cloned();
            let start = processor_time();
            let changes = match &end {
                Some((at, id)) => self.calendar.complete(*at, id).unwrap(),
                None if epoch <= until => self.calendar.epoch(epoch).unwrap().changes,
                None => return took,
            };
            took += processor_time() - start;
            if let Some((at, id)) = end {
                self.end_of.remove(&id);
                self.ids.retain(|other| *other != id);
                self.ends.remove(&(at, id));
            }
            self.tell(changes);
        }
    }

    /// What prechecks of so many further requests take, each as if it were the next, and what it
    /// takes to say of so many links what they carry.
    fn look(&mut self, arrivals: &mut Arrivals, count: usize) -> (Vec<Duration>, Vec<Duration>) {
        let (now, _) = arrivals.next();
        self.pass(now);
        let links: Vec<_> = self.calendar.network().links().collect();
        let (mut prechecks, mut capacities) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (later, request) = arrivals.next();
            let request = Request { deadline: now + (request.deadline - later), ..request };
            let start = processor_time();
            self.calendar.precheck(now, request, None).unwrap();
            prechecks.push(processor_time() - start);
            let link = links[number % links.len()];
            let carries = self.calendar.network().link(link).capacity;
            let start = processor_time();
            self.calendar.set_capacity(now, link, &[], carries).unwrap();
            capacities.push(processor_time() - start);
        }
        (prechecks, capacities)
    }

    /// Reports one of them to be as far as it is said to be. What that took.
    fn report(&mut self, now: Time, number: usize) -> Duration {
        let id = self.ids[number % self.ids.len()].clone();
        let left = self.calendar.flow_view(&id).unwrap().remaining;
        let start = processor_time();
        let changes = self.calendar.progress(now, &id, left).unwrap();
        let took = processor_time() - start;
        self.tell(changes);
        self.told(id);
        took
    }
}

/// What this thread has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

fn percentile_us(values: &mut [Duration], percent: usize) -> f64 {
    values.sort_unstable();
    let index = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(index).map_or(0.0, |value| value.as_secs_f64() * 1e6)
}
