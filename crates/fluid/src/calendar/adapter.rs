//! Any calendar as the scheduler of a simulation.

use std::collections::{BTreeMap, VecDeque};

use weir_schedule::calendar::{Calendar, CalendarError, Change, Decision, FlowId, Request, Terms};
use weir_topology::Path;
use weir_units::Time;

use crate::{Flow, FluidError, Rates, RouteId, Routes, Scheduler};

/// A calendar whose flows are numbered instead of named. Completions must be reported to it, and
/// its paths be the routes of the flows.
///
/// A calendar takes requests that start at once: a flow that is booked ahead is put to it at its
/// start.
pub struct Calendared<'a> {
    calendar: Box<dyn Calendar + 'a>,
    routes: &'a Routes,
    booked: BTreeMap<(Time, usize), (RouteId, Request)>,
    /// The routes of flows whose answer is still to come.
    waiting: BTreeMap<usize, RouteId>,
    /// When epochs are held instead of the calendar's own times.
    epochs: Option<VecDeque<Time>>,
}

impl<'a> Calendared<'a> {
    /// The calendar, for flows on `routes`, with epochs at its own times.
    pub fn new(calendar: Box<dyn Calendar + 'a>, routes: &'a Routes) -> Self {
        let (booked, waiting) = (BTreeMap::new(), BTreeMap::new());
        Self { calendar, routes, booked, waiting, epochs: None }
    }

    /// The same with epochs at these times, in ascending order.
    pub fn with_epochs(self, epochs: Vec<Time>) -> Self {
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
        (route, request): (RouteId, Request),
        rates: &mut Rates,
    ) -> Result<(), FluidError> {
        let decision = self.calendar.submit(now, request)?;
        self.decide(number, route, decision, rates)
    }

    fn decide(
        &mut self,
        number: usize,
        route: RouteId,
        decision: Decision,
        rates: &mut Rates,
    ) -> Result<(), FluidError> {
        match decision {
            Decision::Accepted(accepted) if self.is_route(route, &accepted.path) => {
                tell(accepted.changes, rates)?;
                rates.set(number, accepted.rate);
            }
            Decision::Accepted(_) => return Err(FluidError::PathOffRoute { flow: number }),
            Decision::Refused(_) => rates.refuse(number),
            Decision::Waiting => {
                self.waiting.insert(number, route);
            }
        }
        Ok(())
    }

    fn is_route(&self, route: RouteId, path: &Path) -> bool {
        let links = path.links().iter().map(|link| link.index());
        links.eq(self.routes.links(route).iter().map(|link| *link as usize))
    }

    fn hold_epoch(&mut self, now: Time, rates: &mut Rates) -> Result<(), FluidError> {
        if let Some(epochs) = &mut self.epochs {
            epochs.pop_front();
        }
        let epoch = self.calendar.epoch(now)?;
        tell(epoch.changes, rates)?;
        for (flow, decision) in epoch.decisions {
            let number = number(&flow)?;
            let route = self.waiting.remove(&number).ok_or_else(|| unknown(&flow))?;
            self.decide(number, route, decision, rates)?;
        }
        Ok(())
    }
}

impl Scheduler for Calendared<'_> {
    fn arrive(&mut self, now: Time, number: usize, flow: &Flow, rates: &mut Rates) {
        let (source, destination) = self.routes.nodes(flow.route);
        let request = Request {
            id: FlowId::new(&number.to_string()),
            source,
            destination,
            size: flow.size,
            deadline: flow.deadline,
            rate_max: flow.limit,
            terms: Terms::default(),
        };
        if flow.start > now {
            self.booked.insert((flow.start, number), (flow.route, request));
            return;
        }
        let submitted = self.submit(now, number, (flow.route, request), rates);
        submitted.unwrap_or_else(|error| rates.fail(error));
    }

    fn end(&mut self, now: Time, number: usize, rates: &mut Rates) {
        let changes = self.calendar.complete(now, &FlowId::new(&number.to_string()));
        let told = changes.map_err(FluidError::from).and_then(|changes| tell(changes, rates));
        told.unwrap_or_else(|error| rates.fail(error));
    }

    fn next_wake(&self) -> Option<Time> {
        let start = self.booked.first_key_value().map(|(key, _)| key.0);
        self.next_epoch().into_iter().chain(start).min()
    }

    fn wake(&mut self, now: Time, rates: &mut Rates) {
        if self.next_epoch().is_some_and(|epoch| epoch <= now) {
            self.hold_epoch(now, rates).unwrap_or_else(|error| rates.fail(error));
        }
        while let Some(first) = self.booked.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, number), booked) = first.remove_entry();
            let submitted = self.submit(now, number, booked, rates);
            submitted.unwrap_or_else(|error| rates.fail(error));
        }
    }
}

fn tell(changes: Vec<Change>, rates: &mut Rates) -> Result<(), FluidError> {
    for change in changes {
        rates.set(number(&change.flow)?, change.rate);
    }
    Ok(())
}

fn number(flow: &FlowId) -> Result<usize, FluidError> {
    flow.as_str().parse().map_err(|_| unknown(flow))
}

fn unknown(flow: &FlowId) -> FluidError {
    CalendarError::UnknownFlow { flow: flow.clone() }.into()
}
