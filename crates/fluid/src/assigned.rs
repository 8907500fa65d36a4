//! Flows that send at the rates that a scheduler gives them.

use weir_units::{Rate, Time};

use crate::heap::Heap;
use crate::sharing::Progress;
use crate::{Flow, FluidError};

/// Who decides on the rates of flows: a calendar, for one.
///
/// A flow is at rate zero until the scheduler has set one, and counts as accepted unless the
/// scheduler refuses it. Calls come in order of time.
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
}

#[derive(Clone, Copy, Debug)]
enum Decision {
    Rate(Rate),
    Refuse,
}

impl Rates {
    /// The flow sends at `rate` from now on.
    pub fn set(&mut self, number: usize, rate: Rate) {
        self.decisions.push((number, Decision::Rate(rate)));
    }

    /// The flow will not be served: it leaves with what it has not sent.
    pub fn refuse(&mut self, number: usize) {
        self.decisions.push((number, Decision::Refuse));
    }
}

/// A flow under way.
#[derive(Clone, Copy, Debug)]
struct State {
    /// By order of arrival.
    number: u32,
    rate: Rate,
    /// Bits not yet sent at `since`.
    remaining: f64,
    since: f64,
    route: u32,
}

/// The flows under way and what is allotted of each link.
pub(crate) struct Assigned<'a> {
    scheduler: &'a mut dyn Scheduler,
    rates: Rates,
    /// Slab of flows; `slots` finds the place by the flow's number.
    states: Vec<Option<State>>,
    free: Vec<u32>,
    slots: Vec<u32>,
    due: Heap,
    /// bit/s, exact.
    allotted: Vec<u128>,
    capacities: Vec<Rate>,
    /// Links whose allotment has grown since it was last checked.
    grown: Vec<u32>,
    pub(crate) refused: Vec<u32>,
}

const HALF_NS: f64 = 0.5e-9;
const NONE: u32 = u32::MAX;

impl<'a> Assigned<'a> {
    pub(crate) fn new(scheduler: &'a mut dyn Scheduler, capacities: Vec<Rate>) -> Self {
        Self {
            scheduler,
            rates: Rates::default(),
            states: Vec::new(),
            free: Vec::new(),
            slots: Vec::new(),
            due: Heap::default(),
            allotted: vec![0; capacities.len()],
            capacities,
            grown: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// A flow of `bits` begins.
    pub(crate) fn start(&mut self, now: f64, number: u32, flow: &Flow, bits: f64) {
        let route = flow.route.0;
        let state = State { number, rate: Rate::ZERO, remaining: bits, since: now, route };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.states.push(None);
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
    /// is time. `links` gives the links of a route.
    pub(crate) fn finish_due<'r>(
        &mut self,
        now: f64,
        links: impl Fn(u32) -> &'r [u32],
        ended: &mut Vec<u32>,
    ) {
        while let Some((_, slot)) = self.due.first().filter(|(at, _)| *at <= now + HALF_NS) {
            if let Some(state) = self.remove(slot, &links) {
                ended.push(state.number);
                let number = state.number as usize;
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
    /// A decision on a flow that is not there; the number of a link that is asked for too much.
    pub(crate) fn settle<'r>(
        &mut self,
        now: f64,
        links: impl Fn(u32) -> &'r [u32],
    ) -> Result<Option<u32>, FluidError> {
        let mut decisions = std::mem::take(&mut self.rates.decisions);
        for (number, decision) in decisions.drain(..) {
            let slot = self.slots.get(number).copied().filter(|slot| *slot != NONE);
            let slot = slot.ok_or(FluidError::RateOfUnknownFlow { flow: number })?;
            match decision {
                Decision::Rate(rate) => self.set_rate(now, slot, rate, &links),
                Decision::Refuse => {
                    self.remove(slot, &links);
                    self.refused.push(number as u32);
                }
            }
        }
        self.rates.decisions = decisions;
        let too_much = |link: &u32| {
            let capacity = self.capacities[*link as usize].as_bit_per_s();
            self.allotted[*link as usize] > u128::from(capacity)
        };
        let overloaded = self.grown.iter().copied().find(too_much);
        self.grown.clear();
        Ok(overloaded)
    }

    /// Every flow under way at `now`, with the rate it has.
    pub(crate) fn flows(&self, now: f64) -> impl Iterator<Item = Progress> + '_ {
        self.states.iter().flatten().map(move |state| {
            let rate = state.rate.as_bit_per_s() as f64;
            let remaining = (state.remaining - rate * (now - state.since)).max(0.0);
            Progress { flow: state.number, rate, remaining }
        })
    }

    fn set_rate<'r>(&mut self, now: f64, slot: u32, rate: Rate, links: &impl Fn(u32) -> &'r [u32]) {
        let Some(state) = &mut self.states[slot as usize] else { return };
        let old = state.rate.as_bit_per_s();
        state.remaining = (state.remaining - old as f64 * (now - state.since)).max(0.0);
        state.since = now;
        state.rate = rate;
        let new = rate.as_bit_per_s();
        for link in links(state.route) {
            let allotted = &mut self.allotted[*link as usize];
            *allotted = *allotted + u128::from(new) - u128::from(old);
            if new > old {
                self.grown.push(*link);
            }
        }
        if new > 0 {
            self.due.set(slot, now + state.remaining / new as f64);
        } else {
            self.due.remove(slot);
        }
    }

    fn remove<'r>(&mut self, slot: u32, links: &impl Fn(u32) -> &'r [u32]) -> Option<State> {
        let state = self.states[slot as usize].take()?;
        for link in links(state.route) {
            self.allotted[*link as usize] -= u128::from(state.rate.as_bit_per_s());
        }
        self.due.remove(slot);
        self.slots[state.number as usize] = NONE;
        self.free.push(slot);
        Some(state)
    }
}
