//! The world: time passes from event to event.

use std::collections::BTreeMap;

use weir_topology::Network;
use weir_units::{Bytes, Rate, Time};

use crate::assigned::{Assigned, Scheduler};
use crate::outcome::{Fate, Outcome, Record};
use crate::router::{AsGiven, Router};
use crate::sharing::{FairShare, PriorityShare, Progress, Rule, Start};
use crate::{Flow, FluidError, Routes, Source};

const BITS_PER_BYTE: f64 = 8.0;

/// Who decides on the rates of flows.
pub enum Sharing<'a> {
    /// The links, by a rule of fairness.
    Fair(Rule),
    /// The links: classes in strict priority, max-min fairness in each.
    Priority {
        /// How many classes there are; flows have a priority below it.
        classes: u8,
    },
    /// A scheduler, flow by flow.
    Assigned(&'a mut dyn Scheduler),
}

/// Runs the flows of `source` over the links of `network` until all are over, or until `until`.
///
/// Time is reported in whole nanoseconds; what ends within half a nanosecond ends together. At one
/// instant, ends come before arrivals.
///
/// # Errors
/// A flow that cannot be, arrivals that go back in time, and what a scheduler does wrong; the
/// message names the flow or link.
pub fn simulate(
    network: &Network,
    routes: &Routes,
    sharing: Sharing<'_>,
    source: &mut dyn Source,
    until: Time,
) -> Result<Outcome, FluidError> {
    simulate_routed(network, routes, sharing, &mut AsGiven, source, until)
}

/// Simulates flows whose routes `router` chooses from `routes` as they arrive.
///
/// # Errors
/// As [`simulate`], and what the router refuses.
pub fn simulate_routed(
    network: &Network,
    routes: &Routes,
    sharing: Sharing<'_>,
    router: &mut dyn Router,
    source: &mut dyn Source,
    until: Time,
) -> Result<Outcome, FluidError> {
    let rate = |link| network.link(link).capacity;
    let rates: Vec<Rate> = network.links().map(rate).collect();
    let capacities: Vec<f64> = rates.iter().map(|rate| rate.as_bit_per_s() as f64).collect();
    let longest = routes.longest();
    let engine = match sharing {
        Sharing::Fair(rule) => Engine::Fair(FairShare::new(&capacities, longest, rule)),
        Sharing::Priority { classes } => {
            Engine::Priority(PriorityShare::new(&capacities, longest, classes), classes)
        }
        Sharing::Assigned(scheduler) => Engine::Assigned(Assigned::new(scheduler, &rates)),
    };
    let carried = vec![0.0; capacities.len()];
    let (waiting, records) = (BTreeMap::new(), Vec::new());
    World { network, routes, engine, router, waiting, carried, records, events: 0 }
        .run(source, until)
}

enum Engine<'a> {
    Fair(FairShare),
    Priority(PriorityShare, u8),
    Assigned(Assigned<'a>),
}

struct World<'a> {
    network: &'a Network,
    routes: &'a Routes,
    engine: Engine<'a>,
    router: &'a mut dyn Router,
    /// Flows that have arrived and do not send yet, by when they begin. A scheduler hears of a
    /// flow when it arrives.
    waiting: BTreeMap<(Time, u32), Flow>,
    /// Bits that flows which are over have sent over each link; a scheduler's own engine counts
    /// them itself.
    carried: Vec<f64>,
    records: Vec<Record>,
    events: u64,
}

impl World<'_> {
    fn run(mut self, source: &mut dyn Source, until: Time) -> Result<Outcome, FluidError> {
        let mut ended = Vec::new();
        let (horizon, mut now) = (until.as_s(), 0.0_f64);
        loop {
            let arrival = source.next_at().map_or(f64::INFINITY, Time::as_s);
            let begin = self.waiting.keys().next().map_or(f64::INFINITY, |(at, _)| at.as_s());
            let next = arrival.min(begin).min(self.engine.next_due());
            if next > horizon || next.is_infinite() {
                break;
            }
            // Half a nanosecond is one instant: time must not seem to go back within it.
            now = now.max(next);
            self.engine.finish_due(now, self.routes, &mut ended);
            for number in ended.drain(..) {
                self.close(number, Fate::Ended(Time::from_s(now)));
                self.router.ended(Time::from_s(now), number as usize)?;
                source.ended(Time::from_s(now));
                self.events += 1;
            }
            while let Some(entry) = self.waiting.first_entry() {
                let (at, number) = *entry.key();
                if at.as_s() > now {
                    break;
                }
                let flow = entry.remove();
                self.engine.start(now, number, &flow, self.routes)?;
            }
            while source.next_at().is_some_and(|at| at.as_s() <= now) {
                let Some(flow) = source.take() else { break };
                self.admit(now, flow)?;
                self.events += 1;
            }
            self.settle(now, source)?;
        }
        let end = if until == Time::MAX { now } else { horizon };
        Ok(self.finish(end))
    }

    fn admit(&mut self, now: f64, mut flow: Flow) -> Result<(), FluidError> {
        let number = self.records.len();
        let placement = self.router.place(number, &flow)?;
        flow.route = placement.route;
        flow.check(number, self.routes)?;
        let last = self.records.last().map_or(Time::ZERO, |record| record.at);
        if flow.at < last {
            return Err(FluidError::ArrivalsOutOfOrder { flow: number, at: flow.at, last });
        }
        let Flow { at, size, deadline, route, .. } = flow;
        self.records.push(Record {
            at,
            size,
            deadline,
            route,
            fate: Fate::UnderWay,
            part: Bytes::ZERO,
        });
        let number = u32::try_from(number).map_err(|_| FluidError::TooManyFlows)?;
        let start = placement.start.max(flow.start);
        if start.as_s() > now && !matches!(self.engine, Engine::Assigned(_)) {
            self.waiting.insert((start, number), flow);
            return Ok(());
        }
        self.engine.start(now, number, &flow, self.routes)
    }

    fn settle(&mut self, now: f64, source: &mut dyn Source) -> Result<(), FluidError> {
        let overloaded = self.engine.settle(now, self.routes)?;
        if let Some(link) = overloaded {
            let mut links = self.network.links().filter(|id| id.index() == link as usize);
            let link = links.next().map_or("", |id| &self.network.link(id).name).to_owned();
            return Err(FluidError::LinkOverloaded { link, at: Time::from_s(now) });
        }
        if let Engine::Assigned(assigned) = &mut self.engine {
            for (number, remaining) in std::mem::take(&mut assigned.refused) {
                let record = &mut self.records[number as usize];
                record.fate = Fate::Refused(Time::from_s(now));
                let sent = (bits(record.size) - remaining).max(0.0) / BITS_PER_BYTE;
                record.part = Bytes::new(sent as u64);
                self.router.ended(Time::from_s(now), number as usize)?;
                source.ended(Time::from_s(now));
            }
        }
        Ok(())
    }

    fn close(&mut self, number: u32, fate: Fate) {
        let record = &mut self.records[number as usize];
        record.fate = fate;
        if matches!(self.engine, Engine::Assigned(_)) {
            return;
        }
        let bits = bits(record.size);
        for link in self.routes.links(record.route) {
            self.carried[*link as usize] += bits;
        }
    }

    /// What is under way at the end has sent a part.
    fn finish(mut self, end: f64) -> Outcome {
        let (records, routes) = (&self.records, self.routes);
        let carried = &mut self.carried;
        let count = |progress: Progress| {
            let record = &records[progress.flow as usize];
            let sent = (bits(record.size) - progress.remaining).max(0.0);
            for link in routes.links(record.route) {
                carried[*link as usize] += sent;
            }
        };
        match &self.engine {
            Engine::Fair(share) => share.flows(end).for_each(count),
            Engine::Priority(share, _) => share.flows(end).for_each(count),
            Engine::Assigned(assigned) => *carried = assigned.carried(end),
        }
        let capacity = |id| self.network.link(id).capacity.as_bit_per_s() as f64;
        let utilisation = |(id, bits): (_, &f64)| {
            if end > 0.0 { bits / (capacity(id) * end) } else { 0.0 }
        };
        let utilisation = self.network.links().zip(&self.carried).map(utilisation).collect();
        Outcome::new(self.records, utilisation, Time::from_s(end), self.events)
    }
}

fn bits(size: Bytes) -> f64 {
    size.count() as f64 * BITS_PER_BYTE
}

impl Engine<'_> {
    fn start(
        &mut self,
        now: f64,
        number: u32,
        flow: &Flow,
        routes: &Routes,
    ) -> Result<(), FluidError> {
        let limit = flow.limit;
        let start = Start {
            flow: number,
            route: flow.route.0,
            links: routes.links(flow.route),
            weight: flow.weight,
            limit: if limit == Rate::MAX { f64::INFINITY } else { limit.as_bit_per_s() as f64 },
            bits: bits(flow.size),
        };
        match self {
            Self::Fair(share) => share.start(now, start),
            Self::Priority(share, classes) if flow.priority < *classes => {
                share.start(now, flow.priority, start);
            }
            Self::Priority(_, classes) => {
                let (flow, priority, classes) = (number as usize, flow.priority, *classes);
                return Err(FluidError::UnknownPriority { flow, priority, classes });
            }
            Self::Assigned(assigned) => assigned.start(now, number, flow, start.bits),
        }
        Ok(())
    }

    fn next_due(&self) -> f64 {
        match self {
            Self::Fair(share) => share.next_due(),
            Self::Priority(share, _) => share.next_due(),
            Self::Assigned(assigned) => assigned.next_due(),
        }
    }

    fn finish_due(&mut self, now: f64, routes: &Routes, ended: &mut Vec<u32>) {
        match self {
            Self::Fair(share) => share.finish_due(now, ended),
            Self::Priority(share, _) => share.finish_due(now, ended),
            Self::Assigned(assigned) => assigned.finish_due(now, routes, ended),
        }
    }

    /// The number of a link that a scheduler asks for too much, if there is one.
    fn settle(&mut self, now: f64, routes: &Routes) -> Result<Option<u32>, FluidError> {
        match self {
            Self::Fair(share) => share.settle(now),
            Self::Priority(share, _) => share.settle(now),
            Self::Assigned(assigned) => return assigned.settle(now, routes),
        }
        Ok(None)
    }
}
