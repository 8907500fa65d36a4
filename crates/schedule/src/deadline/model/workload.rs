use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Random;
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

/// How deadlines follow from their mean m; the published text can be read in several ways (A1 of
/// the specification's register).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeadlineReading {
    /// The literal text: the deadline is exponential of mean m. Most flows are then hopeless.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The smallest.
    pub low: u64,
    /// The largest.
    pub high: u64,
}

impl Sizes {
    /// 2 to 198 packets, of mean 100 (work 002, chapter 3).
    pub const PUBLISHED: Self = Self { low: 2, high: 198 };
}

/// How one flow is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// How large it is.
    pub sizes: Sizes,
    /// Mean of the exponential, in slots.
    pub mean_slots: f64,
    /// Of what that is the mean.
    pub reading: DeadlineReading,
}

impl Workload {
    /// Size and relative deadline.
    pub fn draw(&self, random: &mut Random) -> (u64, u64) {
        let size = random.between(self.sizes.low, self.sizes.high);
        let mut exponential = || (-self.mean_slots * random.unit().ln()).ceil().max(1.0) as u64;
        let deadline = match self.reading {
            DeadlineReading::Deadline => exponential(),
            DeadlineReading::Cushion => size + exponential(),
            DeadlineReading::Redrawn => loop {
                let deadline = exponential();
                if size <= deadline {
                    break deadline;
                }
            },
            DeadlineReading::AtLeastSize => exponential().max(size),
        };
        (size, deadline)
    }
}

/// Flows known beforehand, in order of their arrival slots.
#[derive(Clone, Debug)]
pub struct Trace {
    flows: Vec<(u64, NewFlow)>,
    next: usize,
}

impl Trace {
    /// The flows with the slot in which each appears; sorted here, equal slots in the order given.
    pub fn new(mut flows: Vec<(u64, NewFlow)>) -> Self {
        flows.sort_by_key(|(slot, _)| *slot);
        Self { flows, next: 0 }
    }
}

impl Source for Trace {
    fn arrivals(&mut self, slot: u64, out: &mut Vec<NewFlow>) {
        while let Some((_, flow)) = self.flows.get(self.next).filter(|(at, _)| *at <= slot) {
            out.push(*flow);
            self.next += 1;
        }
    }

    fn next_slot(&self) -> Option<u64> {
        self.flows.get(self.next).map(|(slot, _)| *slot)
    }

    fn left(&mut self, _flow: &Flow, _from: u64) {}
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
            waits: 1.0 / (1.0 - probability).ln(),
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
