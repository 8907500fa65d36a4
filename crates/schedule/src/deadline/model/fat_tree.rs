use serde::{Deserialize, Serialize};
use weir_units::Time;

use super::setting::{count, from_json, number};
use super::{Random, Report, SLOT, Sample, SettingError, Workload, slots};
use crate::deadline::Flow;
use crate::deadline::fabric::{FabricKind, FabricPolicy, Route};

/// A fat-tree of switches with `ports` ports (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008) whose
/// hosts send to one another; every link carries a packet per slot and direction.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FatTree {
    /// Ports of each switch: even, 4 to 48. There are `ports`³ / 4 hosts.
    pub ports: u32,
    /// How a flow is drawn.
    pub workload: Workload,
    /// Share of the capacity of all hosts' links that is asked for: flows start in every slot with
    /// the probability that gives it, at every host, for another host drawn uniformly, over a path
    /// drawn uniformly.
    pub load: f64,
    /// In how many slots flows start.
    pub slots: u64,
}

/// A flow of the trace.
struct Crossing {
    at: u64,
    size: u64,
    deadline: u64,
    route: Route,
}

impl FatTree {
    /// From JSON.
    ///
    /// # Errors
    /// Text that is not such an object, naming the key; a key out of its range.
    pub fn from_json(text: &str) -> Result<Self, SettingError> {
        let tree: Self = from_json(text)?;
        tree.check()?;
        Ok(tree)
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// The first key that is out of its range.
    pub fn check(&self) -> Result<(), SettingError> {
        self.workload.check()?;
        if !(4..=48).contains(&self.ports) || self.ports % 2 == 1 {
            return Err(SettingError::Ports { ports: self.ports });
        }
        number("load", self.load, 100.0)?;
        // What keeps the trace within memory.
        count("slots", self.slots, 10_000_000 / u64::from(self.hosts()))
    }

    /// Number of hosts.
    pub const fn hosts(&self) -> u32 {
        self.ports * self.ports * self.ports / 4
    }

    /// Number of links, each direction one.
    pub const fn links(&self) -> u32 {
        // Hosts to edge, edge to aggregation and aggregation to core are as many each.
        6 * self.hosts()
    }

    /// One run: the same flows whatever the policy.
    ///
    /// # Errors
    /// As [`FatTree::check`].
    pub fn run(&self, kind: FabricKind, seed: u64) -> Result<Sample, SettingError> {
        self.check()?;
        let trace = self.trace(seed);
        let mut policy = kind.build(self.links() as usize);
        Ok(Fabric::new(&trace).run(policy.as_mut()).into())
    }

    fn trace(&self, seed: u64) -> Vec<Crossing> {
        let probability = (self.load / self.workload.sizes.mean()).min(1.0);
        let waits = 1.0 / (-probability).ln_1p();
        let mut trace = Vec::new();
        for host in 0..self.hosts() {
            let mut random = Random::new(seed, &[u64::from(host)]);
            let mut at = 0_u64;
            loop {
                at = at.saturating_add((random.unit().ln() * waits).floor() as u64);
                if at >= self.slots {
                    break;
                }
                let (size, deadline) = self.workload.draw(&mut random);
                let route = self.route(host, &mut random);
                trace.push(Crossing { at, size, deadline: at + deadline, route });
                at += 1;
            }
        }
        trace.sort_by_key(|crossing| crossing.at);
        trace
    }

    /// A path to another host: up to the first switch that both are below, and down.
    fn route(&self, from: u32, random: &mut Random) -> Route {
        let (hosts, half) = (self.hosts(), self.ports / 2);
        let mut draw = |count: u32| random.between(0, u64::from(count) - 1) as u32;
        let other = draw(hosts - 1);
        let to = other + u32::from(other >= from);
        // Each host, edge switch's uplink and aggregation switch's uplink has a pair of links.
        let up = |layer: u32, number: u32| 2 * (layer * hosts + number);
        let down = |layer: u32, number: u32| up(layer, number) + 1;
        let (edge, pod) = (|host: u32| host / half, |host: u32| host / (half * half));
        let aggregation = draw(half);
        let core = draw(half);
        // Uplink `aggregation` of an edge switch; uplink `core` of that aggregation switch.
        let first = |host: u32| edge(host) * half + aggregation;
        let second = |host: u32| (pod(host) * half + aggregation) * half + core;
        let mut links = vec![up(0, from)];
        if edge(from) != edge(to) {
            links.push(up(1, first(from)));
            if pod(from) != pod(to) {
                links.extend([up(2, second(from)), down(2, second(to))]);
            }
            links.push(down(1, first(to)));
        }
        links.push(down(0, to));
        Route::new(&links).expect("a path of a fat-tree has 2, 4 or 6 links")
    }
}

/// The links with the flows on them.
struct Fabric<'a> {
    trace: &'a [Crossing],
    next: usize,
    flows: Vec<Flow>,
    routes: Vec<Route>,
    served: Vec<usize>,
    report: Report,
}

impl<'a> Fabric<'a> {
    fn new(trace: &'a [Crossing]) -> Self {
        let (flows, routes, served) = (Vec::new(), Vec::new(), Vec::new());
        Self { trace, next: 0, flows, routes, served, report: Report::default() }
    }

    fn run(mut self, policy: &mut dyn FabricPolicy) -> Report {
        let mut slot = 0;
        loop {
            self.arrive(slot);
            self.terminate(slot);
            let arrival = self.trace.get(self.next).map(|crossing| crossing.at);
            if self.flows.is_empty() {
                let Some(at) = arrival else { break };
                slot = at;
                continue;
            }
            policy.decide(slots(slot), &self.flows, &self.routes, &mut self.served);
            let passed = self.horizon(slot).min(arrival.map_or(u64::MAX, |at| at - slot));
            self.transmit(slot, passed);
            slot += passed;
        }
        self.report.slots = slot;
        self.report
    }

    fn arrive(&mut self, slot: u64) {
        while let Some(crossing) = self.trace.get(self.next).filter(|next| next.at <= slot) {
            self.flows.push(Flow {
                id: self.next as u64,
                source: 0,
                arrival: slots(slot),
                deadline: slots(crossing.deadline),
                remaining: slots(crossing.size),
                first_served: None,
            });
            self.routes.push(crossing.route);
            self.next += 1;
            self.report.generated += 1;
        }
    }

    fn terminate(&mut self, slot: u64) {
        for index in (0..self.flows.len()).rev() {
            if !self.flows[index].feasible(slots(slot)) {
                self.report.missed += 1;
                self.remove(index);
            }
        }
    }

    /// Slots until a served flow ends or a waiting one becomes hopeless.
    fn horizon(&self, slot: u64) -> u64 {
        let whole = |time: Time| time.as_ns() / SLOT.as_ns();
        let mut waiting = vec![true; self.flows.len()];
        let mut horizon = u64::MAX;
        for index in self.served.iter().copied() {
            waiting[index] = false;
            horizon = horizon.min(whole(self.flows[index].remaining));
        }
        for (flow, _) in self.flows.iter().zip(waiting).filter(|(_, waiting)| *waiting) {
            horizon = horizon.min(whole(flow.cushion(slots(slot))) + 1);
        }
        horizon
    }

    fn transmit(&mut self, slot: u64, passed: u64) {
        let end = slot + passed;
        self.served.sort_unstable_by(|a, b| b.cmp(a));
        for place in 0..self.served.len() {
            let index = self.served[place];
            let flow = &mut self.flows[index];
            flow.first_served.get_or_insert(slots(slot));
            flow.remaining -= slots(passed);
            self.report.sent += slots(passed);
            if flow.remaining == Time::ZERO {
                self.report.on_time += 1;
                self.report.completion_slots += end - flow.arrival.as_ns() / SLOT.as_ns();
                self.report.last_end_slot = end;
                self.remove(index);
            }
        }
    }

    fn remove(&mut self, index: usize) {
        self.flows.swap_remove(index);
        self.routes.swap_remove(index);
    }
}
