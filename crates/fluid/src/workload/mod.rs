//! Random workloads: who sends to whom, when, how much and by when.

mod distribution;
mod published_clock;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Deserialize;
use weir_random::Random;
use weir_topology::{Metric, Network, TopologyError};
use weir_units::{Bytes, Rate, Time};

pub use distribution::Distribution;
use distribution::exponential;
pub use published_clock::PublishedClock;

use crate::{Flow, FluidError, RouteId, Routes, Source};

/// When flows arrive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// Independent of each other.
    Poisson {
        /// Flows per second, over the whole network.
        rate_per_s: f64,
    },
    /// At equal distances, the first after one distance.
    Deterministic {
        /// From one to the next, in seconds.
        interval_s: f64,
    },
    /// A number of users, each of whom waits, sends, waits until the flow is over, and so on.
    ClosedLoop {
        /// How many there are.
        users: u32,
        /// How long they wait before each flow, in seconds; absent for at once.
        #[serde(default)]
        think_s: Option<Distribution>,
    },
}

/// How much a flow sends.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sizes {
    /// Drawn by itself, in bytes.
    Bytes(Distribution),
    /// A rate in bit/s, times the time to the deadline (Calibers, 000-spec section 4.6). Needs
    /// [`Deadlines::AfterS`].
    RateBps(Distribution),
}

/// By when a flow must be over.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Deadlines {
    /// There is no deadline.
    #[default]
    None,
    /// The deadline is so many seconds after the flow's start.
    AfterS(Distribution),
    /// So many seconds after it would be over if it had its route to itself from its start on
    /// (002-spec, reading B of A1).
    CushionS(Distribution),
}

/// Flows between two nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// How often the pair is drawn, against the others.
    pub share: f64,
    /// The weight of its flows.
    #[serde(default = "one")]
    pub weight: u32,
    /// The priority of its flows.
    #[serde(default)]
    pub priority: u8,
}

fn one() -> u32 {
    1
}

/// A random workload on a network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Seed of everything that is random.
    pub seed: u64,
    /// How many flows arrive.
    pub flows: u64,
    /// When.
    pub arrivals: Arrivals,
    /// How much each sends.
    pub sizes: Sizes,
    /// By when.
    #[serde(default)]
    pub deadlines: Deadlines,
    /// How many seconds ahead of its start a flow arrives; absent for none at all.
    #[serde(default)]
    pub ahead_s: Option<Distribution>,
    /// Between which nodes; every ordered pair alike if absent.
    #[serde(default)]
    pub pairs: Vec<Pair>,
}

/// What flows of one pair have in common.
#[derive(Clone, Copy, Debug)]
struct Kind {
    route: RouteId,
    weight: u32,
    priority: u8,
    /// The smallest capacity on the route.
    capacity: Rate,
}

/// The flows of a [`Workload`], drawn one by one: nothing is kept of those that are over.
#[derive(Clone, Debug)]
pub struct Drawn {
    workload: Workload,
    kinds: Vec<Kind>,
    /// Sums of the shares of the kinds up to each.
    shares: Vec<f64>,
    left: u64,
    /// When flows known to come arrive.
    next: BinaryHeap<Reverse<Time>>,
    /// The exact time of the last arrival of an open loop: rounding must not add up.
    clock_s: f64,
    arrivals: Random,
    pairs: Random,
    sizes: Random,
    deadlines: Random,
    aheads: Random,
}

impl Workload {
    /// The flows, on the fewest-hop routes of `network`, which are added to `routes`.
    ///
    /// # Errors
    /// A parameter out of its range, an unknown node, or a pair with no path.
    pub fn draw(&self, network: &Network, routes: &mut Routes) -> Result<Drawn, FluidError> {
        self.check()?;
        let (kinds, shares) = if self.pairs.is_empty() {
            every_pair(network, routes)?
        } else {
            self.named_pairs(network, routes)?
        };
        let source = |name| Random::of_source(self.seed, &["fluid", name]);
        let mut drawn = Drawn {
            workload: self.clone(),
            kinds,
            shares,
            left: self.flows,
            next: BinaryHeap::new(),
            clock_s: 0.0,
            arrivals: source("arrivals"),
            pairs: source("pairs"),
            sizes: source("sizes"),
            deadlines: source("deadlines"),
            aheads: source("ahead"),
        };
        let first = match self.arrivals {
            Arrivals::ClosedLoop { users, .. } => u64::from(users).min(self.flows),
            Arrivals::Poisson { .. } | Arrivals::Deterministic { .. } => self.flows.min(1),
        };
        (0..first).for_each(|_| drawn.schedule(Time::ZERO));
        Ok(drawn)
    }

    fn check(&self) -> Result<(), FluidError> {
        let wrong = |place: &str, reason: String| {
            Err(FluidError::Parameter { place: place.to_owned(), reason })
        };
        let positive = |place: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                return Ok(());
            }
            wrong(place, format!("{value} is not above 0 and finite"))
        };
        match &self.arrivals {
            Arrivals::Poisson { rate_per_s } => {
                positive("arrivals.poisson.rate_per_s", *rate_per_s)?;
            }
            Arrivals::Deterministic { interval_s } => {
                positive("arrivals.deterministic.interval_s", *interval_s)?;
            }
            Arrivals::ClosedLoop { users: 0, .. } => {
                return wrong("arrivals.closed_loop.users", "there are no users".to_owned());
            }
            Arrivals::ClosedLoop { think_s, .. } => {
                think_s.iter().try_for_each(|d| d.check("arrivals.closed_loop.think_s"))?;
            }
        }
        match (&self.sizes, &self.deadlines) {
            (Sizes::Bytes(sizes), _) => sizes.check("sizes.bytes")?,
            (Sizes::RateBps(rates), Deadlines::AfterS(_)) => rates.check("sizes.rate_bps")?,
            (Sizes::RateBps(_), _) => {
                return wrong("sizes.rate_bps", "needs deadlines.after_s".to_owned());
            }
        }
        self.ahead_s.iter().try_for_each(|times| times.check("ahead_s"))?;
        match &self.deadlines {
            Deadlines::None => Ok(()),
            Deadlines::AfterS(times) => times.check("deadlines.after_s"),
            Deadlines::CushionS(times) => times.check("deadlines.cushion_s"),
        }
    }

    fn named_pairs(
        &self,
        network: &Network,
        routes: &mut Routes,
    ) -> Result<(Vec<Kind>, Vec<f64>), FluidError> {
        let (mut kinds, mut shares, mut sum) = (Vec::new(), Vec::new(), 0.0);
        for (at, pair) in self.pairs.iter().enumerate() {
            let wrong = |key: &str, reason: String| FluidError::Parameter {
                place: format!("pairs[{at}].{key}"),
                reason,
            };
            if !pair.share.is_finite() || pair.share < 0.0 {
                return Err(wrong("share", format!("{} is below 0 or not finite", pair.share)));
            }
            if pair.weight == 0 {
                return Err(wrong("weight", "is 0".to_owned()));
            }
            let (from, to) = (network.node(&pair.from)?, network.node(&pair.to)?);
            let path = network.shortest(from, to, Metric::Hops)?;
            let route = routes.add(network, &path)?;
            let (weight, priority) = (pair.weight, pair.priority);
            kinds.push(Kind { route, weight, priority, capacity: path.capacity(network) });
            sum += pair.share;
            shares.push(sum);
        }
        if sum <= 0.0 || !sum.is_finite() {
            let reason = format!("the shares sum to {sum}");
            return Err(FluidError::Parameter { place: "pairs".to_owned(), reason });
        }
        Ok((kinds, shares))
    }
}

/// Every ordered pair of different nodes, all alike.
fn every_pair(network: &Network, routes: &mut Routes) -> Result<(Vec<Kind>, Vec<f64>), FluidError> {
    let (mut kinds, mut shares) = (Vec::new(), Vec::new());
    for from in network.nodes() {
        for to in network.nodes().filter(|to| *to != from) {
            let path = network.shortest(from, to, Metric::Hops)?;
            let route = routes.add(network, &path)?;
            let capacity = path.capacity(network);
            kinds.push(Kind { route, weight: 1, priority: 0, capacity });
            shares.push(kinds.len() as f64);
        }
    }
    if kinds.is_empty() {
        let node = network.nodes().next().map_or("", |node| network.node_name(node)).to_owned();
        return Err(TopologyError::SameEnds { node }.into());
    }
    Ok((kinds, shares))
}

impl Drawn {
    /// One more flow is known to come.
    fn schedule(&mut self, now: Time) {
        let at = match &self.workload.arrivals {
            Arrivals::Poisson { rate_per_s } => {
                self.clock_s += exponential(&mut self.arrivals, 1.0 / rate_per_s);
                Time::from_s(self.clock_s)
            }
            Arrivals::Deterministic { interval_s } => {
                self.clock_s += interval_s;
                Time::from_s(self.clock_s)
            }
            Arrivals::ClosedLoop { think_s, .. } => {
                let think = think_s.as_ref().map_or(0.0, |time| time.draw(&mut self.arrivals));
                now.saturating_add(Time::from_s(think))
            }
        };
        self.next.push(Reverse(at));
        self.left -= 1;
    }

    fn draw_kind(&mut self) -> Kind {
        let total = self.shares.last().copied().unwrap_or(0.0);
        let point = self.pairs.unit() * total;
        let at = self.shares.partition_point(|sum| *sum <= point);
        self.kinds[at.min(self.kinds.len() - 1)]
    }
}

impl Source for Drawn {
    fn next_at(&self) -> Option<Time> {
        self.next.peek().map(|at| at.0)
    }

    fn take(&mut self) -> Option<Flow> {
        let Reverse(at) = self.next.pop()?;
        let is_open = !matches!(self.workload.arrivals, Arrivals::ClosedLoop { .. });
        if is_open && self.left > 0 {
            self.schedule(at);
        }
        let kind = self.draw_kind();
        let span_s = match &self.workload.deadlines {
            Deadlines::None => None,
            Deadlines::AfterS(times) | Deadlines::CushionS(times) => {
                Some(times.draw(&mut self.deadlines))
            }
        };
        let bytes = match &self.workload.sizes {
            Sizes::Bytes(sizes) => sizes.draw(&mut self.sizes),
            Sizes::RateBps(rates) => rates.draw(&mut self.sizes) * span_s.unwrap_or_default() / 8.0,
        };
        // A flow has at least one byte; the cast saturates.
        let size = Bytes::new((bytes.round() as u64).max(1));
        let alone = match &self.workload.deadlines {
            Deadlines::CushionS(_) => kind.capacity.time_for(size),
            Deadlines::None | Deadlines::AfterS(_) => Time::ZERO,
        };
        let ahead = self.workload.ahead_s.as_ref().map_or(0.0, |d| d.draw(&mut self.aheads));
        let start = at.saturating_add(Time::from_s(ahead));
        let after = |span: f64| start.saturating_add(alone).saturating_add(Time::from_s(span));
        Some(Flow {
            start,
            weight: kind.weight,
            priority: kind.priority,
            deadline: span_s.map_or(Time::MAX, after),
            ..Flow::new(at, kind.route, size)
        })
    }

    fn ended(&mut self, now: Time) {
        if matches!(self.workload.arrivals, Arrivals::ClosedLoop { .. }) && self.left > 0 {
            self.schedule(now);
        }
    }
}
