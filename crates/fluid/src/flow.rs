//! Flows and where they come from.

use weir_units::{Bytes, Rate, Time};

use crate::{FluidError, RouteId, Routes};

/// A transfer that arrives at some time and has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// When it arrives, that is, is asked for.
    pub at: Time,
    /// Before when it cannot send; not before `at`, and the same unless it is booked ahead.
    pub start: Time,
    /// The links it takes.
    pub route: RouteId,
    /// How much it sends; not zero.
    pub size: Bytes,
    /// Its share against others' in fair sharing; at least 1.
    pub weight: u32,
    /// Its class in strict priority, 0 first.
    pub priority: u8,
    /// What its end points can do; [`Rate::MAX`] when they do not limit it.
    pub limit: Rate,
    /// When it has to be over, counted from the same origin as `at`; [`Time::MAX`] when it has no
    /// deadline.
    pub deadline: Time,
}

impl Flow {
    /// A flow of weight 1 in the first class that may send at once, without limit or deadline.
    pub fn new(at: Time, route: RouteId, size: Bytes) -> Self {
        let (limit, deadline) = (Rate::MAX, Time::MAX);
        Self { at, start: at, route, size, weight: 1, priority: 0, limit, deadline }
    }

    /// Whether it must be over by some time.
    pub fn has_deadline(&self) -> bool {
        self.deadline != Time::MAX
    }

    /// Refuses what cannot be; `number` is its place in the order of arrival.
    pub(crate) fn check(&self, number: usize, routes: &Routes) -> Result<(), FluidError> {
        let flow = number;
        if self.route.index() >= routes.len() {
            let (route, routes) = (self.route.index(), routes.len());
            return Err(FluidError::UnknownRoute { flow, route, routes });
        }
        if self.size == Bytes::ZERO {
            return Err(FluidError::ZeroSize { flow });
        }
        if self.weight == 0 {
            return Err(FluidError::ZeroWeight { flow });
        }
        if self.limit == Rate::ZERO {
            return Err(FluidError::ZeroLimit { flow });
        }
        let (at, start, deadline) = (self.at, self.start, self.deadline);
        if start < at {
            return Err(FluidError::StartBeforeArrival { flow, at, start });
        }
        if deadline < start {
            return Err(FluidError::DeadlineBeforeStart { flow, start, deadline });
        }
        Ok(())
    }
}

/// Where flows come from, in order of arrival.
pub trait Source {
    /// When the next flow arrives; `None` while there is none to come. May change after
    /// [`Source::ended`], never to an earlier time than the last flow taken.
    fn next_at(&self) -> Option<Time>;

    /// The flow that arrives then; `None` when there is none to come.
    fn take(&mut self) -> Option<Flow>;

    /// A flow that was taken is over or was refused, at `now`.
    fn ended(&mut self, now: Time) {
        let _ = now;
    }
}

/// Flows from a list, sorted by arrival.
#[derive(Clone, Debug)]
pub struct Listed<'a> {
    flows: &'a [Flow],
}

impl<'a> Listed<'a> {
    /// These flows.
    pub fn new(flows: &'a [Flow]) -> Self {
        Self { flows }
    }
}

impl Source for Listed<'_> {
    fn next_at(&self) -> Option<Time> {
        self.flows.first().map(|flow| flow.at)
    }

    fn take(&mut self) -> Option<Flow> {
        let (first, rest) = self.flows.split_first()?;
        self.flows = rest;
        Some(*first)
    }
}
