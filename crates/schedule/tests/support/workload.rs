//! The workload of the Calibers evaluation (000-spec section 4.6), and the figures it is read by.

use std::collections::HashMap;
use std::sync::Arc;

use weir_schedule::calendar::{
    Accepted, Calendar, Calibers, Change, Completion, Decision, FlowId, Options, Policy, Request,
    Terms,
};
use weir_topology::{Network, NodeId};
use weir_units::{Bytes, Rate, Time};

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }
}

/// Arrivals per second, and the mean of the exponential minimum rates.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub per_second: f64,
    pub mean_rate_bps: f64,
}

impl Load {
    /// The published evaluation's.
    pub fn published(lambda: f64) -> Self {
        Self { per_second: lambda, mean_rate_bps: 100e6 }
    }

    /// As many times the requests, each that much slower: as many times the flows at the same
    /// utilisation.
    pub fn finer(self, times: f64) -> Self {
        Self { per_second: self.per_second * times, mean_rate_bps: self.mean_rate_bps / times }
    }
}

/// Requests in order of time: Poisson arrivals, exponential deadlines of mean 1 h, size = rate x
/// deadline, uniform ordered pairs.
pub struct Arrivals {
    random: Random,
    load: Load,
    nodes: Vec<NodeId>,
    now_s: f64,
    count: usize,
}

impl Arrivals {
    pub fn new(network: &Network, load: Load, seed: u64) -> Self {
        let nodes = network.nodes().collect();
        Self { random: Random::new(seed), load, nodes, now_s: 0.0, count: 0 }
    }

    pub fn next(&mut self) -> (Time, Request) {
        self.now_s += self.random.exponential(1.0 / self.load.per_second);
        let span_s = self.random.exponential(3600.0);
        let rate_bps = self.random.exponential(self.load.mean_rate_bps);
        let source = self.random.below(self.nodes.len());
        let step = 1 + self.random.below(self.nodes.len() - 1);
        self.count += 1;
        let now = Time::from_s(self.now_s);
        let request = Request {
            id: FlowId::new(&self.count.to_string()),
            source: self.nodes[source],
            destination: self.nodes[(source + step) % self.nodes.len()],
            size: Bytes::new(((rate_bps * span_s / 8.0) as u64).max(1)),
            deadline: now.saturating_add(Time::from_s(span_s.max(1e-6))),
            rate_max: Rate::MAX,
            terms: Terms::default(),
        };
        (now, request)
    }
}

/// What a run of the evaluation gives.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub reject: f64,
    /// Mean over links and the time from the first request to the last of carried over possible.
    pub utilisation: f64,
    pub missed: usize,
    /// New rates told to flows that were there before, per request.
    pub changes: f64,
}

impl Figures {
    /// Share of requests that succeed over the share of the network that idles.
    pub fn index(&self) -> f64 {
        (1.0 - self.reject) / (1.0 - self.utilisation)
    }
}

/// Runs `count` requests, with epochs at multiples of the options' epoch.
pub fn evaluate(
    network: &Arc<Network>,
    options: Options,
    load: Load,
    count: usize,
    seed: u64,
) -> Figures {
    let mut calendar = Calibers::new(Arc::clone(network), options).unwrap();
    let mut arrivals = Arrivals::new(network, load, seed);
    let (mut carried, mut refused, mut last) = (Carried::default(), 0, Time::ZERO);
    for _ in 0..count {
        let (now, request) = arrivals.next();
        while calendar.next_epoch() <= now {
            let at = calendar.next_epoch();
            carried.ended(&calendar.advance(at).unwrap());
            carried.changed(at, &calendar.epoch(at).unwrap().changes);
        }
        carried.ended(&calendar.advance(now).unwrap());
        let id = request.id.clone();
        match calendar.submit(now, request).unwrap() {
            Decision::Refused(_) => refused += 1,
            Decision::Accepted(accepted) => carried.accepted(now, id, &accepted),
            Decision::Waiting => panic!("requests are decided on arrival"),
        }
        last = now;
    }
    let capacity: u128 =
        network.links().map(|id| u128::from(network.link(id).capacity.as_bit_per_s())).sum();
    Figures {
        reject: f64::from(refused) / count as f64,
        utilisation: carried.until(last) as f64 / (capacity as f64 * last.as_ns() as f64),
        missed: carried.missed,
        changes: carried.changes as f64 / count as f64,
    }
}

/// Bits times hops that the told rates carry, in 10^-9 bit.
#[derive(Default)]
struct Carried {
    flows: HashMap<FlowId, Sending>,
    done: u128,
    missed: usize,
    changes: usize,
}

struct Sending {
    rate: u64,
    since: Time,
    hops: u128,
}

impl Sending {
    fn carried(&self, until: Time) -> u128 {
        let span = u128::from((until - self.since).as_ns());
        u128::from(self.rate) * span * self.hops
    }
}

impl Carried {
    fn accepted(&mut self, now: Time, id: FlowId, accepted: &Accepted) {
        self.changed(now, &accepted.changes);
        let (rate, hops) = (accepted.rate.as_bit_per_s(), accepted.path.links().len() as u128);
        self.flows.insert(id, Sending { rate, since: now, hops });
    }

    fn changed(&mut self, now: Time, changes: &[Change]) {
        self.changes += changes.len();
        for change in changes {
            let sending = self.flows.get_mut(&change.flow).unwrap();
            self.done += sending.carried(now);
            (sending.rate, sending.since) = (change.rate.as_bit_per_s(), now);
        }
    }

    fn ended(&mut self, ended: &[Completion]) {
        for end in ended {
            self.done += self.flows.remove(&end.flow).unwrap().carried(end.at);
            self.missed += usize::from(end.at > end.deadline);
        }
    }

    fn until(&self, last: Time) -> u128 {
        self.done + self.flows.values().map(|sending| sending.carried(last)).sum::<u128>()
    }
}

/// Any policy with the published epoch.
pub fn published(policy: Policy) -> Options {
    Options::simulated(policy, Time::from_ms(180_000))
}
