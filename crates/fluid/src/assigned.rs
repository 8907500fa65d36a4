//! Flows that send at the rates that a scheduler gives them.

use weir_units::{Rate, Time};

use crate::heap::Heap;
use crate::{Flow, FluidError, RouteId, Routes};

/// Who decides on the rates of flows: a calendar, for one.
///
/// A flow is at rate zero until the scheduler has set one, not before the flow's start, and counts
/// as accepted unless the scheduler refuses it. Calls come in order of time.
pub trait Scheduler {
    /// A flow has arrived. Flows are numbered by arrival, from zero.
    fn arrive(&mut self, now: Time, number: usize, flow: &Flow, rates: &mut Rates);

    /// A flow has sent everything.
    fn end(&mut self, now: Time, number: usize, rates: &mut Rates);

    /// When [`Scheduler::wake`] is next due; `None` for never.
    fn next_wake(&self) -> Option<Time> {
        None
    }

    /// Time has come to reconsider.
    fn wake(&mut self, now: Time, rates: &mut Rates) {
        let _ = (now, rates);
    }
}

/// What a scheduler has decided in one call.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    decisions: Vec<(usize, Decision)>,
    failed: Option<FluidError>,
}

#[derive(Clone, Copy, Debug)]
enum Decision {
    Rate(Rate),
    RateOn(RouteId, Rate),
    Refuse,
}

impl Rates {
    /// The flow sends at `rate` on its own route from now on.
    pub fn set(&mut self, number: usize, rate: Rate) {
        self.decisions.push((number, Decision::Rate(rate)));
    }

    /// The flow sends at `rate` on that route, between the same nodes as its own, from now on. A
    /// flow may send on several at once; what was set for others stays.
    pub fn set_on(&mut self, number: usize, route: RouteId, rate: Rate) {
        self.decisions.push((number, Decision::RateOn(route, rate)));
    }

    /// The flow will not be served: it leaves with what it has not sent.
    pub fn refuse(&mut self, number: usize) {
        self.decisions.push((number, Decision::Refuse));
    }

    /// The scheduler cannot go on: the simulation ends with this error, the first of several.
    pub fn fail(&mut self, error: FluidError) {
        self.failed.get_or_insert(error);
    }

    /// How many decisions there are.
    pub(crate) fn len(&self) -> usize {
        self.decisions.len()
    }
}

/// A flow under way.
#[derive(Clone, Copy, Debug)]
struct State {
    /// By order of arrival.
    number: u32,
    /// Its own route, and the rate on it.
    route: u32,
    rate: Rate,
    /// Over all its routes, in bit/s.
    total: f64,
    /// Bits not yet sent at `since`.
    remaining: f64,
    since: f64,
    start: Time,
}

impl State {
    fn remaining_at(&self, now: f64) -> f64 {
        (self.remaining - self.total * (now - self.since)).max(0.0)
    }
}

/// What is allotted of a link.
#[derive(Clone, Copy, Debug)]
struct Load {
    capacity: Rate,
    /// bit/s, exact.
    allotted: u128,
    since: f64,
    /// Bits carried before `since`.
    carried: f64,
}

impl Load {
    fn carried(&self, now: f64) -> f64 {
        self.carried + self.allotted as f64 * (now - self.since)
    }

    fn change(&mut self, now: f64, old: Rate, new: Rate) {
        self.carried = self.carried(now);
        self.since = now;
        let (old, new) = (old.as_bit_per_s(), new.as_bit_per_s());
        self.allotted = self.allotted + u128::from(new) - u128::from(old);
    }

    fn is_too_much(&self) -> bool {
        self.allotted > u128::from(self.capacity.as_bit_per_s())
    }
}

/// The flows under way and what is allotted of each link.
pub(crate) struct Assigned<'a> {
    scheduler: &'a mut dyn Scheduler,
    rates: Rates,
    /// Slab of flows; `slots` finds the place by the flow's number.
    states: Vec<Option<State>>,
    /// Rates on routes other than the own, by slot; none for most flows.
    elsewhere: Vec<Vec<(u32, Rate)>>,
    free: Vec<u32>,
    slots: Vec<u32>,
    due: Heap,
    loads: Vec<Load>,
    /// Links whose allotment has grown since it was last checked.
    grown: Vec<u32>,
    /// Numbers, and bits not sent.
    pub(crate) refused: Vec<(u32, f64)>,
}

const HALF_NS: f64 = 0.5e-9;
const NONE: u32 = u32::MAX;

impl<'a> Assigned<'a> {
    pub(crate) fn new(scheduler: &'a mut dyn Scheduler, capacities: &[Rate]) -> Self {
        let load =
            |capacity: &Rate| Load { capacity: *capacity, allotted: 0, since: 0.0, carried: 0.0 };
        Self {
            scheduler,
            rates: Rates::default(),
            states: Vec::new(),
            elsewhere: Vec::new(),
            free: Vec::new(),
            slots: Vec::new(),
            due: Heap::default(),
            loads: capacities.iter().map(load).collect(),
            grown: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// A flow of `bits` begins.
    pub(crate) fn start(&mut self, now: f64, number: u32, flow: &Flow, bits: f64) {
        let state = State {
            number,
            route: flow.route.0,
            rate: Rate::ZERO,
            total: 0.0,
            remaining: bits,
            since: now,
            start: flow.start,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.states.push(None);
            self.elsewhere.push(Vec::new());
            (self.states.len() - 1) as u32
        });
        self.states[slot as usize] = Some(state);
        self.due.grow(self.states.len());
        if number as usize >= self.slots.len() {
            self.slots.resize(number as usize + 1, NONE);
        }
        self.slots[number as usize] = slot;
        self.scheduler.arrive(flow.at, number as usize, flow, &mut self.rates);
    }

    /// When something is due: the end of a flow, or the scheduler's own time.
    pub(crate) fn next_due(&self) -> f64 {
        let wake = self.scheduler.next_wake().map_or(f64::INFINITY, Time::as_s);
        // Without flows there is nothing to reconsider, and a simulation must be able to end.
        let wake = if self.states.len() == self.free.len() { f64::INFINITY } else { wake };
        self.due.first().map_or(f64::INFINITY, |(at, _)| at).min(wake)
    }

    /// Ends the flows that are due and adds their numbers to `ended`; wakes the scheduler when it
    /// is time.
    pub(crate) fn finish_due(&mut self, now: f64, routes: &Routes, ended: &mut Vec<u32>) {
        while let Some((_, slot)) = self.due.first().filter(|(at, _)| *at <= now + HALF_NS) {
            if let Some(state) = self.remove(now, slot, routes) {
                ended.push(state.number);
                let number = state.number as usize;
                // Another that ended at this instant may have given it a rate.
                self.rates.decisions.retain(|(other, _)| *other != number);
                self.scheduler.end(Time::from_s(now), number, &mut self.rates);
            }
        }
        while let Some(at) = self.scheduler.next_wake().filter(|at| at.as_s() <= now + HALF_NS) {
            self.scheduler.wake(at, &mut self.rates);
        }
    }

    /// Puts the scheduler's decisions into effect.
    ///
    /// # Errors
    /// What the scheduler reports; a decision on a flow that is not there or has not started, or on
    /// a route that does not join its ends. Returns a link that is asked for too much.
    pub(crate) fn settle(&mut self, now: f64, routes: &Routes) -> Result<Option<u32>, FluidError> {
        if let Some(error) = self.rates.failed.take() {
            return Err(error);
        }
        let mut decisions = std::mem::take(&mut self.rates.decisions);
        for (number, decision) in decisions.drain(..) {
            let slot = self.slots.get(number).copied().filter(|slot| *slot != NONE);
            let slot = slot.ok_or(FluidError::RateOfUnknownFlow { flow: number })?;
            match decision {
                Decision::Rate(rate) => self.set_rate(now, slot, None, rate, routes)?,
                Decision::RateOn(route, rate) => {
                    self.set_rate(now, slot, Some(route), rate, routes)?;
                }
                Decision::Refuse => {
                    if let Some(state) = self.remove(now, slot, routes) {
                        self.refused.push((state.number, state.remaining_at(now)));
                    }
                }
            }
        }
        self.rates.decisions = decisions;
        let is_too_much = |link: &u32| self.loads[*link as usize].is_too_much();
        let overloaded = self.grown.iter().copied().find(is_too_much);
        self.grown.clear();
        Ok(overloaded)
    }

    /// What each link has carried up to `now`, in bits.
    pub(crate) fn carried(&self, now: f64) -> Vec<f64> {
        self.loads.iter().map(|load| load.carried(now)).collect()
    }

    /// On the flow's own route for `None`.
    fn set_rate(
        &mut self,
        now: f64,
        slot: u32,
        route: Option<RouteId>,
        rate: Rate,
        routes: &Routes,
    ) -> Result<(), FluidError> {
        let Some(state) = &mut self.states[slot as usize] else { return Ok(()) };
        if rate > Rate::ZERO && now + HALF_NS < state.start.as_s() {
            let (flow, at, start) = (state.number as usize, Time::from_s(now), state.start);
            return Err(FluidError::RateBeforeStart { flow, at, start });
        }
        state.remaining = state.remaining_at(now);
        state.since = now;
        let other = route.filter(|route| route.0 != state.route);
        let elsewhere = &mut self.elsewhere[slot as usize];
        let old = match other {
            None => std::mem::replace(&mut state.rate, rate),
            Some(route) => {
                check_ends(state, route, routes)?;
                replace_rate(elsewhere, route.0, rate)
            }
        };
        let others: f64 = elsewhere.iter().map(|(_, rate)| rate.as_bit_per_s() as f64).sum();
        state.total = state.rate.as_bit_per_s() as f64 + others;
        if state.total > 0.0 {
            self.due.set(slot, now + state.remaining / state.total);
        } else {
            self.due.remove(slot);
        }
        for link in routes.of(other.map_or(state.route, |route| route.0)) {
            self.loads[*link as usize].change(now, old, rate);
            if rate > old {
                self.grown.push(*link);
            }
        }
        Ok(())
    }

    fn remove(&mut self, now: f64, slot: u32, routes: &Routes) -> Option<State> {
        let state = self.states[slot as usize].take()?;
        let elsewhere = self.elsewhere[slot as usize].drain(..);
        for (route, rate) in std::iter::once((state.route, state.rate)).chain(elsewhere) {
            for link in routes.of(route) {
                self.loads[*link as usize].change(now, rate, Rate::ZERO);
            }
        }
        self.due.remove(slot);
        self.slots[state.number as usize] = NONE;
        self.free.push(slot);
        Some(state)
    }
}

fn check_ends(state: &State, route: RouteId, routes: &Routes) -> Result<(), FluidError> {
    let (flow, own) = (state.number as usize, RouteId(state.route));
    if route.index() >= routes.len() {
        let (route, routes) = (route.index(), routes.len());
        return Err(FluidError::UnknownRoute { flow, route, routes });
    }
    if routes.nodes(route) != routes.nodes(own) {
        return Err(FluidError::RouteElsewhere { flow, route: route.index() });
    }
    Ok(())
}

/// Sets the rate on a route and returns the one before; routes at zero are not kept.
fn replace_rate(rates: &mut Vec<(u32, Rate)>, route: u32, rate: Rate) -> Rate {
    let place = rates.iter().position(|(known, _)| *known == route);
    match place {
        Some(at) if rate == Rate::ZERO => rates.swap_remove(at).1,
        Some(at) => std::mem::replace(&mut rates[at].1, rate),
        None => {
            if rate > Rate::ZERO {
                rates.push((route, rate));
            }
            Rate::ZERO
        }
    }
}
