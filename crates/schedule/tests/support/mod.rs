//! What the calendar's tests share: random networks and requests, and a shadow of every flow that
//! is kept from the answers alone, as exact whole numbers, so that what the calendar claims can be
//! checked without asking it.

#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

pub mod reference;
pub mod workload;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_schedule::calendar::{Change, FlowId, Policy, Request, Terms};
use weir_topology::{LinkId, Network};
use weir_units::{Bytes, Rate, Time};

/// How many cases a property is tried on: `quick`, or fifty times as many with WEIR_LONG_TESTS.
pub fn cases(quick: u32) -> ProptestConfig {
    let factor = if std::env::var_os("WEIR_LONG_TESTS").is_some() { 50 } else { 1 };
    ProptestConfig { cases: quick * factor, failure_persistence: None, ..Default::default() }
}

/// One order of magnitude for capacities, sizes and spans, so that they meet.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub capacity_bps: u64,
    pub size_bytes: u64,
    pub span_ns: u64,
}

/// Gigabits, gigabytes, minutes: as in life.
pub const WIDE: Scale =
    Scale { capacity_bps: 10_000_000_000, size_bytes: 20_000_000_000, span_ns: 100_000_000_000 };

/// A few bits per second, bytes and seconds: everything is rounding.
pub const GRAIN: Scale = Scale { capacity_bps: 40, size_bytes: 12, span_ns: 10_000_000_000 };

/// A few bits per second, and spans so short that minimum rates change while flows run out.
pub const DUST: Scale = Scale { capacity_bps: 400_000_000, size_bytes: 12, span_ns: 900 };

pub fn scales() -> impl Strategy<Value = Scale> {
    prop_oneof![Just(WIDE), Just(GRAIN), Just(DUST)]
}

/// A ring of `nodes` with random chords, capacities between a fifth of the scale and all of it.
pub fn networks(scale: Scale) -> impl Strategy<Value = Arc<Network>> {
    let low = (scale.capacity_bps / 5).max(1);
    (2_usize..7)
        .prop_flat_map(move |nodes| {
            let chords = prop::collection::vec((0..nodes, 0..nodes), 0..4);
            let capacities = prop::collection::vec(low..=scale.capacity_bps, 2 * (nodes + 4));
            (Just(nodes), chords, capacities)
        })
        .prop_map(|(nodes, chords, capacities)| build(nodes, &chords, &capacities))
}

fn build(nodes: usize, chords: &[(usize, usize)], capacities: &[u64]) -> Arc<Network> {
    let mut builder = Network::builder();
    for node in 0..nodes {
        builder.node(&node.to_string()).unwrap();
    }
    let mut capacities = capacities.iter().map(|rate| Rate::from_bit_per_s(*rate));
    let ring = (0..nodes).map(|node| (node, (node + 1) % nodes));
    for (index, (a, b)) in ring.chain(chords.iter().copied()).enumerate() {
        for (from, to) in [(a, b), (b, a)] {
            let capacity = capacities.next().unwrap();
            if from != to {
                let (name, from, to) =
                    (format!("{index}:{from}-{to}"), from.to_string(), to.to_string());
                builder.link(&name, &from, &to, capacity, Time::ZERO).unwrap();
            }
        }
    }
    Arc::new(builder.build())
}

/// Something that happens to a calendar, in numbers that suit any network.
#[derive(Clone, Debug)]
pub enum Step {
    /// Time passes, as a share of the scale's span in 1/1000.
    Wait(u64),
    /// A request; ends by number, shares of the scale's size and span in 1/1000, and one of
    /// capacity for the end points' limit.
    Submit { source: usize, destination: usize, size: u64, span: u64, limit: Option<u64> },
    /// An epoch.
    Epoch,
    /// One of the flows is given up.
    Cancel(usize),
    /// One of the flows is reported as completed.
    Complete(usize),
    /// One of the flows is found to have this share, in 1/1000, of its size left.
    Progress(usize, u64),
}

/// Steps of a world in which flows run as the model says.
pub fn modelled_steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1_u64..300).prop_map(Step::Wait),
        6 => submissions(),
        2 => Just(Step::Epoch),
        1 => any::<usize>().prop_map(Step::Cancel),
    ];
    prop::collection::vec(step, 1..most)
}

/// Steps of a world that reports what it sees.
pub fn reported_steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1_u64..300).prop_map(Step::Wait),
        5 => submissions(),
        2 => Just(Step::Epoch),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => any::<usize>().prop_map(Step::Complete),
        4 => (any::<usize>(), 0_u64..=1000).prop_map(|(flow, left)| Step::Progress(flow, left)),
    ];
    prop::collection::vec(step, 1..most)
}

fn submissions() -> impl Strategy<Value = Step> {
    let limit = prop::option::weighted(0.3, 1_u64..1000);
    (any::<usize>(), any::<usize>(), 1_u64..1000, 0_u64..2000, limit).prop_map(
        |(source, destination, size, span, limit)| Step::Submit {
            source,
            destination,
            size,
            span,
            limit,
        },
    )
}

pub fn share(of: u64, thousandths: u64) -> u64 {
    u64::try_from(u128::from(of) * u128::from(thousandths) / 1000).unwrap()
}

/// The request of a [`Step::Submit`].
pub fn request(
    network: &Network,
    scale: Scale,
    number: usize,
    now: u64,
    (source, destination, size, span, limit): (usize, usize, u64, u64, Option<u64>),
) -> Request {
    let nodes: Vec<_> = network.nodes().collect();
    let source = source % nodes.len();
    let destination = (source + 1 + destination % (nodes.len() - 1)) % nodes.len();
    let limit = limit.map(|part| share(scale.capacity_bps, part).max(1));
    Request {
        id: FlowId::new(&format!("f{number}")),
        source: nodes[source],
        destination: nodes[destination],
        size: Bytes::new(share(scale.size_bytes, size).max(1)),
        deadline: Time::from_ns(now + share(scale.span_ns, span)),
        rate_max: limit.map_or(Rate::MAX, Rate::from_bit_per_s),
        terms: Terms::default(),
    }
}

/// A flow as someone sees it who only hears the calendar's answers. Data in 10^-9 bit.
#[derive(Clone, Debug)]
pub struct Shadow {
    pub links: Vec<LinkId>,
    pub size: Bytes,
    pub deadline: u64,
    pub rate_max: u64,
    pub rate: u64,
    pub remaining: i128,
    pub as_of: u64,
}

pub fn nanobits(size: Bytes) -> i128 {
    i128::from(size.count()) * 8 * 1_000_000_000
}

impl Shadow {
    pub fn left(&self, now: u64) -> i128 {
        self.remaining - i128::from(self.rate) * i128::from(now - self.as_of)
    }

    pub fn rebase(&mut self, now: u64) {
        self.remaining = self.left(now).max(0);
        self.as_of = now;
    }

    /// When the last bit is through.
    pub fn end(&self) -> u64 {
        let span = (self.remaining + i128::from(self.rate) - 1) / i128::from(self.rate);
        self.as_of.saturating_add(u64::try_from(span).unwrap_or(u64::MAX))
    }

    /// The least whole rate that keeps the deadline; what it has where no rate does or none is
    /// needed.
    pub fn need(&self, now: u64) -> i128 {
        if self.deadline <= now || self.end() <= now {
            return i128::from(self.rate);
        }
        least_rate(self.left(now), self.deadline - now)
    }
}

pub fn least_rate(work: i128, span: u64) -> i128 {
    (work + i128::from(span) - 1) / i128::from(span)
}

/// Every admitted flow, kept from the answers alone.
#[derive(Clone, Debug, Default)]
pub struct Shadows(pub BTreeMap<FlowId, Shadow>);

impl Shadows {
    pub fn apply(&mut self, now: u64, changes: &[Change]) {
        for change in changes {
            let flow = self.0.get_mut(&change.flow).expect("changes are about admitted flows");
            flow.rebase(now);
            flow.rate = change.rate.as_bit_per_s();
        }
    }

    pub fn on(&self, link: LinkId) -> impl Iterator<Item = &Shadow> {
        self.0.values().filter(move |flow| flow.links.contains(&link))
    }

    pub fn nth(&self, index: usize) -> Option<FlowId> {
        let count = self.0.len();
        (count > 0).then(|| self.0.keys().nth(index % count).unwrap().clone())
    }
}

pub fn capacity(network: &Network, link: LinkId) -> i128 {
    i128::from(network.link(link).capacity.as_bit_per_s())
}

/// Whether the links could carry one more flow of this need with every other at its own, which is
/// all that a dynamic policy may ask; for the fixed one, beside what every other has.
pub fn fits(
    network: &Network,
    shadows: &Shadows,
    policy: Policy,
    links: &[LinkId],
    need: i128,
    now: u64,
) -> bool {
    links.iter().all(|link| {
        let held: i128 = shadows
            .on(*link)
            .map(|flow| match policy {
                Policy::Fixed => i128::from(flow.rate),
                Policy::Dynamic { .. } => flow.need(now).min(i128::from(flow.rate)),
            })
            .sum();
        held + need <= capacity(network, *link)
    })
}

pub fn policies() -> impl Strategy<Value = Policy> {
    prop::sample::select(Policy::ALL.to_vec())
}
