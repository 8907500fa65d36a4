use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_units::Time;

use super::{Random, SLOTS_MAX, slots};
use crate::deadline::Flow;

/// A flow as a workload makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFlow {
    /// Whose it is.
    pub server: u32,
    /// Packets, each a slot of the link.
    pub size_slots: u64,
    /// The first slot in which it is of no use any more.
    pub deadline_slot: u64,
}

/// Where flows come from.
pub trait Source {
    /// Appends the flows that appear at the start of `slot`; asked in order of time.
    fn arrivals(&mut self, slot: u64, out: &mut Vec<NewFlow>);

    /// The next slot with an arrival; `None` when there will be none.
    fn next_slot(&self) -> Option<u64>;

    /// A flow has left, done if nothing remains of it; its server may start another from slot
    /// `from` on, which is the end of the last slot it was served in.
    fn left(&mut self, flow: &Flow, from: u64);
}

/// How an exponential deadline of mean m is meant; the published text can be read in several ways
/// (A1 of the specification's register).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// The literal text: the deadline is exponential. Most flows are then hopeless at birth.
    Deadline,
    /// The cushion is exponential: size + Exp(m). The reading that gives the published outcome.
    #[default]
    Cushion,
    /// As `Deadline`, drawn again until the flow is feasible.
    Redrawn,
    /// As `Deadline`, at least the size.
    AtLeastSize,
}

/// Uniform sizes in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// The smallest; not zero.
    pub low: u64,
    /// The largest.
    pub high: u64,
}

impl Sizes {
    /// 2 to 198 packets, of mean 100 (work 002, chapter 3).
    pub const PUBLISHED: Self = Self { low: 2, high: 198 };

    /// The mean, in packets.
    pub fn mean(self) -> f64 {
        (self.low + self.high) as f64 / 2.0
    }
}

/// How long after its arrival a flow is due.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Deadlines {
    /// Exponential.
    Exponential {
        /// Its mean.
        mean_slots: f64,
        /// What that is the mean of.
        #[serde(default)]
        reading: Reading,
    },
    /// Large flows tight, small ones loose: horizon - size, at least the size (the specification's
    /// reading of figures 3.1 to 3.3).
    Opposed {
        /// Size and deadline of a small flow sum to it.
        horizon_slots: u64,
    },
}

/// How one flow is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// How large it is.
    pub sizes: Sizes,
    /// When it is due.
    pub deadlines: Deadlines,
}

impl Workload {
    /// Size and relative deadline, in slots.
    pub(super) fn draw(&self, random: &mut Random) -> (u64, u64) {
        let size = random.between(self.sizes.low, self.sizes.high);
        let (mean, reading) = match self.deadlines {
            Deadlines::Opposed { horizon_slots } => {
                return (size, horizon_slots.saturating_sub(size).max(size));
            }
            Deadlines::Exponential { mean_slots, reading } => (mean_slots, reading),
        };
        let mut exponential = || (-mean * random.unit().ln()).ceil().max(1.0) as u64;
        let deadline = match reading {
            Reading::Deadline => exponential(),
            Reading::Cushion => size + exponential(),
            Reading::Redrawn => loop {
                let deadline = exponential();
                if size <= deadline {
                    break deadline;
                }
            },
            Reading::AtLeastSize => exponential().max(size),
        };
        (size, deadline)
    }
}

/// Flows known beforehand, and what became of them.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Place in the list given, arrival slot and flow, in order of arrival.
    flows: Vec<(usize, u64, NewFlow)>,
    next: usize,
    /// In the order given.
    ends: Vec<Option<u64>>,
}

/// A flow of a trace that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// There is nothing to send.
    #[error("flow {index} has no packets")]
    Empty {
        /// Its place in the list.
        index: usize,
    },
    /// It is due before it can have sent anything.
    #[error("flow {index} is due at slot {deadline}, not after its arrival at slot {arrival}")]
    Deadline {
        /// Its place in the list.
        index: usize,
        /// Its arrival.
        arrival: u64,
        /// Its deadline.
        deadline: u64,
    },
    /// It lies beyond what can be counted.
    #[error("flow {index} has {value} slots or packets, more than {SLOTS_MAX}")]
    TooLarge {
        /// Its place in the list.
        index: usize,
        /// Size or deadline.
        value: u64,
    },
}

impl Trace {
    /// The flows with the slot in which each appears, in any order; of equal slots the one given
    /// first appears first.
    ///
    /// # Errors
    /// The first flow that cannot be.
    pub fn new(flows: &[(u64, NewFlow)]) -> Result<Self, TraceError> {
        for (index, &(arrival, NewFlow { size_slots, deadline_slot, .. })) in
            flows.iter().enumerate()
        {
            if size_slots == 0 {
                return Err(TraceError::Empty { index });
            }
            if deadline_slot <= arrival {
                return Err(TraceError::Deadline { index, arrival, deadline: deadline_slot });
            }
            let value = size_slots.max(deadline_slot);
            if value > SLOTS_MAX {
                return Err(TraceError::TooLarge { index, value });
            }
        }
        Ok(Self::checked(flows))
    }

    /// A workload of flows that are known to be right.
    pub(super) fn checked(flows: &[(u64, NewFlow)]) -> Self {
        let ends = vec![None; flows.len()];
        let mut flows: Vec<_> =
            flows.iter().enumerate().map(|(index, &(slot, flow))| (index, slot, flow)).collect();
        flows.sort_by_key(|(_, slot, _)| *slot);
        Self { flows, next: 0, ends }
    }

    /// The slot by which each flow had ended, if that was on time, in the order given.
    pub fn ends(&self) -> &[Option<u64>] {
        &self.ends
    }
}

impl Source for Trace {
    fn arrivals(&mut self, slot: u64, out: &mut Vec<NewFlow>) {
        while let Some((.., flow)) = self.flows.get(self.next).filter(|(_, at, _)| *at <= slot) {
            out.push(*flow);
            self.next += 1;
        }
    }

    fn next_slot(&self) -> Option<u64> {
        self.flows.get(self.next).map(|(_, slot, _)| *slot)
    }

    fn left(&mut self, flow: &Flow, from: u64) {
        // Identifiers count the arrivals, which are in the order of `flows`.
        let on_time = flow.remaining == Time::ZERO && slots(from) <= flow.deadline;
        if let Some(&(index, ..)) = usize::try_from(flow.id).ok().and_then(|id| self.flows.get(id))
        {
            self.ends[index] = on_time.then_some(from);
        }
    }
}

/// Servers with at most one flow each: an idle one starts a flow with a fixed probability per slot.
///
/// The n-th flow of a server, and how long the server idles before it, depend on seed, server and
/// n alone, so that two policies meet the same flows however long theirs take.
#[derive(Clone, Debug)]
pub struct ClosedLoop {
    workload: Workload,
    seed: u64,
    /// 1 / ln(1 - p): how many slots an idle server waits is geometric.
    waits: f64,
    /// Flows started so far, by server.
    started: Vec<u64>,
    idle: BinaryHeap<Reverse<(u64, u32)>>,
}

impl ClosedLoop {
    /// All idle at slot 0. `probability` is above 0 and at most 1.
    pub fn new(workload: Workload, servers: u32, probability: f64, seed: u64) -> Self {
        let mut idle = Self {
            workload,
            seed,
            waits: 1.0 / (-probability).ln_1p(),
            started: vec![0; servers as usize],
            idle: BinaryHeap::with_capacity(servers as usize),
        };
        (0..servers).for_each(|server| idle.wait(server, 0));
        idle
    }

    /// The server is idle from slot `from` on.
    fn wait(&mut self, server: u32, from: u64) {
        // p = 1 gives 1 / -inf = -0, hence no wait.
        let wait = (self.stream(server).unit().ln() * self.waits).floor() as u64;
        self.idle.push(Reverse((from.saturating_add(wait), server)));
    }

    fn stream(&self, server: u32) -> Random {
        Random::new(self.seed, &[u64::from(server), self.started[server as usize]])
    }
}

impl Source for ClosedLoop {
    fn arrivals(&mut self, slot: u64, out: &mut Vec<NewFlow>) {
        while let Some(Reverse((at, server))) = self.idle.peek().copied()
            && at <= slot
        {
            self.idle.pop();
            let mut random = self.stream(server);
            random.unit();
            let (size_slots, deadline) = self.workload.draw(&mut random);
            out.push(NewFlow { server, size_slots, deadline_slot: slot + deadline });
            self.started[server as usize] += 1;
        }
    }

    fn next_slot(&self) -> Option<u64> {
        self.idle.peek().map(|Reverse((slot, _))| *slot)
    }

    fn left(&mut self, flow: &Flow, from: u64) {
        self.wait(flow.source, from);
    }
}
