//! Any calendar as the scheduler of a simulation.

use std::collections::{BTreeMap, HashMap, VecDeque};

use weir_schedule::calendar::{
    Calendar, CalendarError, Change, Decision, FlowId, Request, Split, Terms,
};
use weir_topology::Path;
use weir_units::{Rate, Time};

use crate::{Flow, FluidError, Rates, RouteId, Routes, Scheduler};

/// A calendar whose flows are numbered instead of named. Completions must be reported to it, and
/// its paths be among the routes.
pub struct Calendared<'a> {
    calendar: Box<dyn Calendar + 'a>,
    routes: &'a Routes,
    by_links: HashMap<&'a [u32], RouteId>,
    sending: HashMap<usize, Sending>,
    /// Flows that wait for their start, where the calendar does not take them before.
    booked: Option<BTreeMap<(Time, usize), Flow>>,
    /// When epochs are held instead of at the calendar's own times.
    epochs: Option<VecDeque<Time>>,
}

/// Where a flow sends.
struct Sending {
    /// The route of all of it when nothing is said about paths.
    main: RouteId,
    /// The routes of the split, while there is one.
    split: Vec<RouteId>,
}

impl<'a> Calendared<'a> {
    /// The calendar, for flows on `routes`, with epochs at its own times.
    pub fn new(calendar: Box<dyn Calendar + 'a>, routes: &'a Routes) -> Self {
        Self {
            calendar,
            routes,
            by_links: routes.ids().map(|route| (routes.links(route), route)).collect(),
            sending: HashMap::new(),
            booked: None,
            epochs: None,
        }
    }

    /// For a calendar that only knows now: flows that are booked ahead are put to it at their
    /// start.
    pub(crate) fn asked_at_start(self) -> Self {
        Self { booked: Some(BTreeMap::new()), ..self }
    }

    /// With epochs at these times, in ascending order.
    pub(crate) fn with_epochs(self, epochs: Vec<Time>) -> Self {
        Self { epochs: Some(epochs.into()), ..self }
    }

    fn next_epoch(&self) -> Option<Time> {
        match &self.epochs {
            None => Some(self.calendar.next_epoch()),
            Some(epochs) => epochs.front().copied(),
        }
    }

    fn submit(
        &mut self,
        now: Time,
        number: usize,
        flow: &Flow,
        rates: &mut Rates,
    ) -> Result<(), FluidError> {
        let (source, destination) = self.routes.nodes(flow.route);
        let request = Request {
            id: id(number),
            source,
            destination,
            size: flow.size,
            deadline: flow.deadline,
            rate_max: flow.limit,
            terms: Terms { start: flow.start, weight: flow.weight, ..Terms::default() },
        };
        self.sending.insert(number, Sending { main: flow.route, split: Vec::new() });
        let decision = self.calendar.submit(now, request)?;
        self.decide(number, decision, rates)
    }

    fn decide(
        &mut self,
        number: usize,
        decision: Decision,
        rates: &mut Rates,
    ) -> Result<(), FluidError> {
        match decision {
            Decision::Accepted(accepted) => {
                self.tell(accepted.changes, rates)?;
                let main = self.route(number, &accepted.path)?;
                let sending = self.sending.get_mut(&number).ok_or_else(|| unknown(&id(number)))?;
                sending.main = main;
                self.send(number, accepted.rate, &accepted.split, rates)?;
            }
            Decision::Refused(_) => {
                self.sending.remove(&number);
                rates.refuse(number);
            }
            Decision::Waiting => {}
        }
        Ok(())
    }

    fn route(&self, number: usize, path: &Path) -> Result<RouteId, FluidError> {
        let links: Vec<u32> = path.links().iter().map(|link| link.index() as u32).collect();
        let route = self.by_links.get(links.as_slice()).copied();
        route.ok_or(FluidError::PathOffRoutes { flow: number })
    }

    fn tell(&mut self, changes: Vec<Change>, rates: &mut Rates) -> Result<(), FluidError> {
        for Change { flow, rate, split } in changes {
            self.send(number(&flow)?, rate, &split, rates)?;
        }
        Ok(())
    }

    /// The flow sends as the split says; all of it on its main route without one.
    fn send(
        &mut self,
        number: usize,
        rate: Rate,
        split: &Split,
        rates: &mut Rates,
    ) -> Result<(), FluidError> {
        let parts: Result<Vec<_>, FluidError> =
            split.iter().map(|(path, rate)| Ok((self.route(number, path)?, *rate))).collect();
        let parts = parts?;
        let sending = self.sending.get_mut(&number).ok_or_else(|| unknown(&id(number)))?;
        let mut left = std::mem::take(&mut sending.split);
        sending.split.extend(parts.iter().map(|(route, _)| *route));
        if parts.is_empty() {
            rates.set_on(number, sending.main, rate);
            left.retain(|route| *route != sending.main);
        } else {
            left.push(sending.main);
            left.retain(|route| !sending.split.contains(route));
        }
        left.into_iter().for_each(|route| rates.set_on(number, route, Rate::ZERO));
        parts.into_iter().for_each(|(route, rate)| rates.set_on(number, route, rate));
        Ok(())
    }

    fn hold_epoch(&mut self, now: Time, rates: &mut Rates) -> Result<(), FluidError> {
        if let Some(epochs) = &mut self.epochs {
            epochs.pop_front();
        }
        let epoch = self.calendar.epoch(now)?;
        self.tell(epoch.changes, rates)?;
        for (flow, decision) in epoch.decisions {
            self.decide(number(&flow)?, decision, rates)?;
        }
        Ok(())
    }

    fn first_booked(&self) -> Option<Time> {
        self.booked.as_ref()?.first_key_value().map(|(key, _)| key.0)
    }
}

impl Scheduler for Calendared<'_> {
    fn arrive(&mut self, now: Time, number: usize, flow: &Flow, rates: &mut Rates) {
        if let Some(booked) = self.booked.as_mut().filter(|_| flow.start > now) {
            booked.insert((flow.start, number), *flow);
            return;
        }
        self.submit(now, number, flow, rates).unwrap_or_else(|error| rates.fail(error));
    }

    fn end(&mut self, now: Time, number: usize, rates: &mut Rates) {
        self.sending.remove(&number);
        let changes = self.calendar.complete(now, &id(number)).map_err(FluidError::from);
        let told = changes.and_then(|changes| self.tell(changes, rates));
        told.unwrap_or_else(|error| rates.fail(error));
    }

    fn next_wake(&self) -> Option<Time> {
        self.next_epoch().into_iter().chain(self.first_booked()).min()
    }

    fn wake(&mut self, now: Time, rates: &mut Rates) {
        if self.next_epoch().is_some_and(|epoch| epoch <= now) {
            self.hold_epoch(now, rates).unwrap_or_else(|error| rates.fail(error));
        }
        while self.first_booked().is_some_and(|start| start <= now) {
            let first = self.booked.as_mut().and_then(BTreeMap::pop_first);
            let Some(((_, number), flow)) = first else { break };
            self.submit(now, number, &flow, rates).unwrap_or_else(|error| rates.fail(error));
        }
    }
}

fn id(number: usize) -> FlowId {
    FlowId::new(&number.to_string())
}

fn number(flow: &FlowId) -> Result<usize, FluidError> {
    flow.as_str().parse().map_err(|_| unknown(flow))
}

fn unknown(flow: &FlowId) -> FluidError {
    CalendarError::UnknownFlow { flow: flow.clone() }.into()
}
