//! How the cost of a simulation grows: flows by Poisson arrivals, sizes exponential, under max-min
//! sharing, on a wide-area network of random shape or a fat-tree. One line of JSON: flows, links,
//! flows under way at most, processor time, memory.
//!
//! usage: cargo run --release -p weir-fluid --example fluid_growth -- wan NODES FLOWS LOAD
//!        cargo run --release -p weir-fluid --example fluid_growth -- fat-tree K FLOWS LOAD
//!
//! LOAD is that of the most loaded link in a wide-area network, and of a host's own link in a
//! fat-tree.

#![allow(clippy::print_stdout, reason = "the figures are the output")]

use std::collections::HashMap;
use std::error::Error;

use rustix::time::{ClockId, clock_gettime};
use weir_fluid::sharing::Rule;
use weir_fluid::{Fate, Flow, Listed, Outcome, RouteId, Routes, Sharing, simulate};
use weir_random::Random;
use weir_topology::{LinkId, Metric, Network, NetworkBuilder, Path};
use weir_units::{Bytes, Rate, Time};

type Failure = Box<dyn Error>;

const CAPACITY: Rate = Rate::from_mbit_per_s(10_000);
const MEAN_BYTES: f64 = 1e8;

/// A network and the routes that its flows take, one after another.
struct Setting {
    network: Network,
    routes: Routes,
    order: Vec<RouteId>,
    /// Flows per second.
    rate: f64,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, size, flows, load] = arguments.as_slice() else {
        return Err("usage: fluid_growth wan|fat-tree SIZE FLOWS LOAD".into());
    };
    let (size, flows, load) = (size.parse()?, flows.parse()?, load.parse()?);
    let setting = match kind.as_str() {
        "wan" => wide_area(size, flows, load)?,
        "fat-tree" => fat_tree(size, flows, load)?,
        _ => return Err(format!("{kind:?} is not a kind of network").into()),
    };
    let list = poisson(&setting);
    let before = memory_bytes()?;
    let start = processor_s();
    let sharing = Sharing::Fair(Rule::MaxMin);
    let mut source = Listed::new(&list);
    let outcome = simulate(&setting.network, &setting.routes, sharing, &mut source, Time::MAX)?;
    let cpu_s = processor_s() - start;
    // All that the simulation itself holds at its fullest, its record of every flow included.
    let bytes = memory_bytes()?.saturating_sub(before);
    println!(
        "{{\"flows\": {flows}, \"links\": {}, \"most_under_way\": {}, \"cpu_s\": {cpu_s}, \
         \"flows_per_cpu_s\": {}, \"bytes_per_flow\": {}}}",
        setting.network.links().len(),
        most_under_way(&outcome),
        flows as f64 / cpu_s,
        bytes as f64 / flows as f64,
    );
    Ok(())
}

/// Nodes at random places of a square, each joined to its nearest earlier one, and a third as many
/// further edges between near nodes: trees with some rings, as carriers' networks are.
fn wide_area(nodes: usize, flows: usize, load: f64) -> Result<Setting, Failure> {
    let mut random = Random::of_source(1, &["wan"]);
    let places: Vec<(f64, f64)> = (0..nodes).map(|_| (random.unit(), random.unit())).collect();
    let apart = |a: usize, b: usize| (places[a].0 - places[b].0).hypot(places[a].1 - places[b].1);
    let mut builder = Network::builder();
    (0..nodes).try_for_each(|node| builder.node(&node.to_string()).map(|_| ()))?;
    for node in 1..nodes {
        let mut near: Vec<usize> = (0..node).collect();
        near.sort_by(|a, b| apart(node, *a).total_cmp(&apart(node, *b)));
        near.truncate(if node % 3 == 0 { 2 } else { 1 });
        for other in near {
            builder.duplex(&node.to_string(), &other.to_string(), CAPACITY, Time::ZERO)?;
        }
    }
    let network = builder.build();
    let all: Vec<_> = network.nodes().collect();
    let (mut routes, mut known, mut order) = (Routes::new(), HashMap::new(), Vec::new());
    // No more pairs than take their search a few seconds.
    let mut pool = Vec::new();
    for _ in 0..flows.min(20_000) {
        let from = random.up_to(nodes as u64 - 1) as usize;
        let to = (from + 1 + random.up_to(nodes as u64 - 2) as usize) % nodes;
        pool.push((from, to));
    }
    let mut used = vec![0.0; network.links().len()];
    for at in 0..flows {
        let pair = pool[at % pool.len()];
        let route = match known.get(&pair) {
            Some(route) => *route,
            None => {
                let path = network.shortest(all[pair.0], all[pair.1], Metric::Hops)?;
                let route = routes.add(&network, &path)?;
                known.insert(pair, route);
                route
            }
        };
        routes.links(route).iter().for_each(|link| used[*link as usize] += 1.0);
        order.push(route);
    }
    let most = used.into_iter().fold(0.0, f64::max) / flows as f64;
    let rate = load * CAPACITY.as_bit_per_s() as f64 / (8.0 * MEAN_BYTES * most);
    Ok(Setting { network, routes, order, rate })
}

/// The links of a fat-tree of `k` pods (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008), up and down
/// next to each other.
struct FatTree {
    half: usize,
    links: Vec<LinkId>,
}

impl FatTree {
    fn network(k: usize) -> Result<Network, Failure> {
        let half = k / 2;
        let mut builder = Network::builder();
        let node = |builder: &mut NetworkBuilder, name: String| builder.node(&name).map(|_| ());
        for pod in 0..k {
            for at in 0..half {
                node(&mut builder, format!("edge {pod} {at}"))?;
                node(&mut builder, format!("aggregation {pod} {at}"))?;
                (0..half).try_for_each(|h| node(&mut builder, format!("host {pod} {at} {h}")))?;
            }
        }
        (0..half * half).try_for_each(|at| node(&mut builder, format!("core {at}")))?;
        let both = |builder: &mut NetworkBuilder, low: String, high: String| {
            builder.duplex(&low, &high, CAPACITY, Time::ZERO)
        };
        for pod in 0..k {
            for edge in 0..half {
                for host in 0..half {
                    let (low, high) =
                        (format!("host {pod} {edge} {host}"), format!("edge {pod} {edge}"));
                    both(&mut builder, low, high)?;
                }
                for up in 0..half {
                    let (low, high) =
                        (format!("edge {pod} {edge}"), format!("aggregation {pod} {up}"));
                    both(&mut builder, low, high)?;
                }
                for core in 0..half {
                    let low = format!("aggregation {pod} {edge}");
                    both(&mut builder, low, format!("core {}", edge * half + core))?;
                }
            }
        }
        Ok(builder.build())
    }

    /// The link between layers `layer` (0: host, 1: edge, 2: aggregation) and the next; `lower`
    /// is the position of its lower end in the layer's group of `pod`, `port` its port upwards.
    fn link(&self, layer: usize, (pod, switch, port): (usize, usize, usize), down: bool) -> LinkId {
        let half = self.half;
        let at = ((pod * half + switch) * 3 + layer) * half + port;
        self.links[2 * at + usize::from(down)]
    }

    /// The path between two hosts over the given aggregation switch and core port.
    fn path(&self, from: usize, to: usize, up: usize, core: usize) -> Vec<LinkId> {
        let half = self.half;
        let place = |host: usize| (host / (half * half), host / half % half, host % half);
        let ((a_pod, a_edge, a_host), (b_pod, b_edge, b_host)) = (place(from), place(to));
        let mut links = vec![self.link(0, (a_pod, a_edge, a_host), false)];
        if (a_pod, a_edge) != (b_pod, b_edge) {
            links.push(self.link(1, (a_pod, a_edge, up), false));
            if a_pod != b_pod {
                links.push(self.link(2, (a_pod, up, core), false));
                links.push(self.link(2, (b_pod, up, core), true));
            }
            links.push(self.link(1, (b_pod, b_edge, up), true));
        }
        links.push(self.link(0, (b_pod, b_edge, b_host), true));
        links
    }
}

/// Every flow between two random hosts, on a random one of the shortest paths between them.
fn fat_tree(k: usize, flows: usize, load: f64) -> Result<Setting, Failure> {
    let network = FatTree::network(k)?;
    let tree = FatTree { half: k / 2, links: network.links().collect() };
    let hosts = k * k * k / 4;
    let mut random = Random::of_source(1, &["fat-tree"]);
    let mut draw = |count: usize| random.up_to(count as u64 - 1) as usize;
    let (mut routes, mut order) = (Routes::new(), Vec::with_capacity(flows));
    for _ in 0..flows {
        let from = draw(hosts);
        let to = (from + 1 + draw(hosts - 1)) % hosts;
        let links = tree.path(from, to, draw(k / 2), draw(k / 2));
        order.push(routes.add(&network, &Path::new(&network, links)?)?);
    }
    let rate = load * hosts as f64 * CAPACITY.as_bit_per_s() as f64 / (8.0 * MEAN_BYTES);
    Ok(Setting { network, routes, order, rate })
}

fn poisson(setting: &Setting) -> Vec<Flow> {
    let mut random = Random::of_source(2, &["flows"]);
    let mut exponential = move || -(1.0 - random.unit()).ln();
    let mut at = 0.0;
    let flow = |route: &RouteId| {
        at += exponential() / setting.rate;
        let size = Bytes::new((exponential() * MEAN_BYTES) as u64 + 1);
        Flow::new(Time::from_s(at), *route, size)
    };
    setting.order.iter().map(flow).collect()
}

fn most_under_way(outcome: &Outcome) -> usize {
    let mut steps: Vec<(Time, i64)> = Vec::with_capacity(2 * outcome.flows.len());
    for flow in &outcome.flows {
        steps.push((flow.at, 1));
        if let Fate::Ended(end) = flow.fate {
            steps.push((end, -1));
        }
    }
    steps.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, step) in steps {
        now += step;
        most = most.max(now);
    }
    most as usize
}

fn processor_s() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// The most memory this process has held so far.
fn memory_bytes() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.ok_or("no VmHWM in /proc/self/status")?.parse::<u64>()? * 1024)
}
