//! The loop: the earliest event, whose it is, what it does.

use weir_queue::{Ecn, Histogram};
use weir_units::Time;

use crate::arena::{Content, Handle};
use crate::config::Config;
use crate::fabric::Fabric;
use crate::flow::{Application, Counts, Flow};
use crate::outcome::{DirectionOutcome, FlowOutcome, LinkOutcome, Outcome};

/// A simulation that has not run yet.
pub struct Simulation {
    config: Config,
    fabric: Fabric,
    flows: Vec<Flow>,
    probe: Probe,
    events: u64,
    /// Number of the first flow among the objects of the schedule.
    first_flow: usize,
}

/// Looks at queues at regular intervals.
pub(crate) struct Probe {
    warmup: Time,
    interval: Time,
    looks: u64,
    directions: Vec<Looked>,
}

/// What the probe knows of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Looked {
    queue_bytes_sum: u128,
    queue_bytes_max: u64,
    before: PipeTotals,
}

/// Counters of a direction, at one instant.
#[derive(Clone, Copy, Debug, Default)]
struct PipeTotals {
    packets_in: u64,
    packets_out: u64,
    bytes_out: u64,
    lost: u64,
    dropped: u64,
    marked: u64,
}

impl Probe {
    pub(crate) fn new(config: &Config, directions: usize) -> Self {
        Self {
            warmup: Time::from_ns(config.warmup_ns),
            interval: Time::from_ns(config.sample_ns),
            looks: 0,
            directions: vec![Looked::default(); directions],
        }
    }
}

impl Simulation {
    pub(crate) fn start(config: &Config, fabric: Fabric, flows: Vec<Flow>, probe: Probe) -> Self {
        let first_flow = fabric.directions.len();
        let mut simulation =
            Self { config: config.clone(), fabric, flows, probe, events: 0, first_flow };
        for index in 0..simulation.flows.len() {
            simulation.schedule_datagram(index);
        }
        let (probe, warmup) = (first_flow + simulation.flows.len(), simulation.probe.warmup);
        simulation.fabric.schedule.set(probe, warmup);
        simulation
    }

    /// Runs to the end.
    pub fn run(mut self) -> Outcome {
        let end = Time::from_ns(self.config.duration_ns);
        while let Some((now, object)) = self.fabric.schedule.pop() {
            if now > end {
                break;
            }
            self.fabric.now = now;
            self.events += 1;
            self.step(object);
        }
        self.fabric.now = end;
        self.outcome()
    }

    fn step(&mut self, object: usize) {
        if object < self.first_flow {
            self.on_direction(object);
        } else if object < self.first_flow + self.flows.len() {
            self.on_flow(object - self.first_flow);
        } else {
            self.look(object);
        }
    }

    fn on_direction(&mut self, index: usize) {
        self.fabric.directions[index].pipe.advance(self.fabric.now);
        while let Some(handle) = self.fabric.release(index) {
            self.deliver(handle);
        }
        self.fabric.settle(index);
    }

    fn deliver(&mut self, handle: Handle) {
        match *self.fabric.arena.content(handle.index) {
            Content::Tcp { .. } => {}
            Content::Udp { flow, sent } => {
                let flow = &mut self.flows[flow as usize];
                let size = u64::from(handle.size);
                flow.counts.received_packets += 1;
                flow.counts.received_bytes += size;
                flow.counts.delivered_bytes += size;
                if sent >= self.probe.warmup {
                    flow.delay.record(self.fabric.now - sent);
                }
            }
        }
        self.fabric.arena.free(handle.index);
    }

    fn on_flow(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let size = flow.next_size;
        flow.counts.sent_packets += 1;
        flow.counts.sent_bytes += u64::from(size);
        let content = Content::Udp { flow: index as u32, sent: self.fabric.now };
        let handle = Handle {
            index: self.fabric.arena.keep(content),
            to: flow.to as u32,
            hash: flow.hash,
            size,
            ecn: Ecn::NotEct,
            dscp: flow.dscp,
        };
        let from = flow.from;
        self.schedule_datagram(index);
        self.fabric.send(from, handle);
    }

    /// Has flow `index` send its next datagram when it is due.
    fn schedule_datagram(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let Application::Udp(source) = &mut flow.application;
        let next = source.next().filter(|(at, _)| *at < flow.stop);
        flow.next_size = next.map_or(0, |(_, size)| size);
        self.fabric.schedule.rearm(self.first_flow + index, next.map(|(at, _)| at));
    }

    /// The first look ends the warm-up.
    fn look(&mut self, object: usize) {
        let now = self.fabric.now;
        let is_first = self.probe.looks == 0;
        for (index, looked) in self.probe.directions.iter_mut().enumerate() {
            let pipe = &mut self.fabric.directions[index].pipe;
            pipe.advance(now);
            let queued = pipe.backlog().bytes.count();
            looked.queue_bytes_sum += u128::from(queued);
            looked.queue_bytes_max = looked.queue_bytes_max.max(queued);
            if is_first {
                looked.before = self.fabric.totals(index);
            }
        }
        if is_first {
            self.flows.iter_mut().for_each(|flow| flow.before = flow.counts);
        }
        self.probe.looks += 1;
        self.fabric.schedule.set(object, now.saturating_add(self.probe.interval));
    }

    fn outcome(&mut self) -> Outcome {
        for direction in &mut self.fabric.directions {
            direction.pipe.advance(self.fabric.now);
        }
        let flows = (0..self.flows.len()).map(|index| self.flow_outcome(index)).collect();
        let links = self.config.links.iter().enumerate().map(|(index, link)| LinkOutcome {
            name: link.name.clone(),
            forward: self.direction_outcome(2 * index),
            backward: self.direction_outcome(2 * index + 1),
        });
        Outcome {
            seed: self.config.seed,
            measured_ns: self.config.duration_ns - self.config.warmup_ns,
            flows,
            links: links.collect(),
            jain_index: None,
            events: self.events,
        }
    }

    fn flow_outcome(&self, index: usize) -> FlowOutcome {
        let flow = &self.flows[index];
        let counts = flow.counts.since(flow.before);
        let begin = flow.start.max(self.probe.warmup);
        let span = flow.stop.min(self.fabric.now).saturating_sub(begin);
        let bits = 8.0 * counts.delivered_bytes as f64;
        FlowOutcome {
            name: flow.name.clone(),
            kind: flow.kind,
            from: self.config.nodes[flow.from].name.clone(),
            to: self.config.nodes[flow.to].name.clone(),
            goodput_bps: if span > Time::ZERO { bits / span.as_s() } else { 0.0 },
            delivered_bytes: counts.delivered_bytes,
            sent_packets: counts.sent_packets,
            received_packets: counts.received_packets,
            lost_packets: self.fabric.losses[index].packets,
            marked_packets: counts.marked_packets,
            delay: (flow.delay.count() > 0).then(|| (&flow.delay).into()),
        }
    }

    fn direction_outcome(&self, index: usize) -> DirectionOutcome {
        let direction = &self.fabric.directions[index];
        let looked = self.probe.directions[index];
        let (totals, before) = (self.fabric.totals(index), looked.before);
        let bytes_out = totals.bytes_out - before.bytes_out;
        let measured = (self.fabric.now - self.probe.warmup).as_s();
        let share = |rate: u64| bytes_out as f64 * 8.0 / measured / rate as f64;
        let rate_bps = direction.rate.map(|rate| rate.as_bit_per_s());
        DirectionOutcome {
            from: self.config.nodes[direction.from].name.clone(),
            to: self.config.nodes[direction.to].name.clone(),
            rate_bps,
            utilisation: rate_bps.map(share),
            packets_in: totals.packets_in - before.packets_in,
            packets_out: totals.packets_out - before.packets_out,
            bytes_out,
            dropped_queue: totals.dropped - before.dropped,
            dropped_loss: totals.lost - before.lost,
            marked: totals.marked - before.marked,
            queue_bytes_mean: looked.queue_bytes_sum as f64 / self.probe.looks.max(1) as f64,
            queue_bytes_max: looked.queue_bytes_max,
            classes: direction.pipe.queue().classes().into_iter().map(Into::into).collect(),
        }
    }
}

impl Fabric {
    fn totals(&self, index: usize) -> PipeTotals {
        let pipe = &self.directions[index].pipe;
        let counters = pipe.counters();
        let classes = pipe.queue().classes();
        PipeTotals {
            packets_in: counters.packets_in,
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out.count(),
            lost: counters.lost,
            dropped: classes.iter().map(|class| class.dropped()).sum(),
            marked: classes.iter().map(|class| class.marked).sum(),
        }
    }
}
