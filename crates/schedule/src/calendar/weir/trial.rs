//! A decision that is taken back: what would be answered, at the price of an answer.
//!
//! To decide on a copy of the calendar would take a time in proportion to all that is in it. So the
//! request is decided on as every other, while what that changes is kept as it was before, and all
//! of it is put back. What is reserved of links and released again is taken back in reverse order:
//! these are sums.

use std::collections::BTreeMap;

use weir_units::Time;

use super::held::Held;
use super::price::Learnt;
use super::{CalendarError, Decision, FlowId, Request, Weir};
use crate::calendar::Calendar;

/// What a decision changes beside flows, reservations and what was asked of links.
struct Before {
    learnt: Learnt,
    settled: u64,
    held: BTreeMap<u64, Held>,
    stopped: Vec<FlowId>,
    next_number: u64,
    clock: u64,
    next_step: u64,
    postponed: usize,
    used: Vec<u64>,
}

impl Weir {
    /// The decision that [`Calendar::submit`] would give now, or [`Weir::take_up`] if room is kept
    /// for it as `offer`; nothing changes.
    ///
    /// # Errors
    /// Those of [`Weir::take_up`].
    pub fn precheck(
        &mut self,
        now: Time,
        request: Request,
        offer: Option<&FlowId>,
    ) -> Result<Decision, CalendarError> {
        let names: Vec<FlowId> = offer.into_iter().chain([&request.id]).cloned().collect();
        self.tried(&names, |calendar| match offer {
            Some(offer) => calendar.take_up(now, offer, request),
            None => calendar.submit(now, request),
        })
    }

    /// What is found as of the last call without one of the flows; nothing changes.
    ///
    /// # Errors
    /// An unknown flow, and those of `find`.
    pub(in crate::calendar) fn without<T>(
        &mut self,
        flow: &FlowId,
        find: impl FnOnce(&mut Self) -> Result<T, CalendarError>,
    ) -> Result<T, CalendarError> {
        self.tried(std::slice::from_ref(flow), |calendar| {
            calendar.remove(flow)?;
            find(calendar)
        })
    }

    /// What comes of a try, which is taken back. It enters and removes no other flows for good but
    /// those of these names.
    fn tried<T>(&mut self, names: &[FlowId], attempt: impl FnOnce(&mut Self) -> T) -> T {
        let known: Vec<Option<u64>> =
            names.iter().map(|name| self.by_id.get(name).copied()).collect();
        let before = self.note();
        let found = attempt(self);
        self.take_back(before);
        for (name, number) in names.iter().zip(known) {
            match number {
                Some(number) => self.by_id.insert(name.clone(), number),
                None => self.by_id.remove(name),
            };
        }
        found
    }

    fn note(&mut self) -> Before {
        self.flows.note();
        self.timetable.note();
        Before {
            learnt: self.prices.note(),
            settled: self.settled,
            held: self.held.clone(),
            stopped: self.stopped.clone(),
            next_number: self.next_number,
            clock: self.clock,
            next_step: self.next_step,
            postponed: self.postponed,
            used: self.used.clone(),
        }
    }

    fn take_back(&mut self, before: Before) {
        self.flows.take_back();
        self.timetable.take_back();
        self.prices.take_back(before.learnt);
        self.settled = before.settled;
        self.held = before.held;
        self.stopped = before.stopped;
        self.next_number = before.next_number;
        self.clock = before.clock;
        self.next_step = before.next_step;
        self.postponed = before.postponed;
        self.used = before.used;
    }
}
