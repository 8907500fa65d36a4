//! Offers: room that is kept for a request which was refused and may be asked for again.
//!
//! An offer is a flow that nobody sends. It starts when the offer ends, so that until then others
//! send over the links as if it were not there, and holds its reservations like every other flow.
//! Whoever it was made to takes it up: the same or less, due then or later. That is never refused,
//! whatever was admitted since and whatever a place has become worth.

use weir_units::Time;

use super::flow::{Flow, Paths};
use super::{CalendarError, Decision, FlowId, Reason, Request, Weir};

impl Weir {
    /// Keeps room for a request from its start on, by the earliest deadline that could then be
    /// promised, though none before its own; says which. `None` if there is none.
    ///
    /// # Errors
    /// Those of [`Calendar::submit`](super::super::Calendar::submit).
    pub fn offer(&mut self, now: Time, request: Request) -> Result<Option<Time>, CalendarError> {
        self.enter(now)?;
        let paths = self.check(&request)?;
        self.settle();
        let Some(deadline) = self.earliest_accepted(&request, &paths) else { return Ok(None) };
        let mut flow = self.flow(&Request { deadline, ..request }, &paths);
        self.draft(&mut flow);
        if flow.unkept() > 0 {
            flow.release(&mut self.timetable);
            return Ok(None);
        }
        let number = self.number_for(&flow.id.clone());
        self.flows.insert(number, flow);
        Ok(Some(deadline))
    }

    /// Decides on a request for which room was kept. If it asks for what was offered, that room is
    /// its own; otherwise it is given up.
    ///
    /// # Errors
    /// Those of [`Calendar::submit`](super::super::Calendar::submit); an unknown offer.
    pub fn take_up(
        &mut self,
        now: Time,
        offer: &FlowId,
        request: Request,
    ) -> Result<Decision, CalendarError> {
        self.enter(now)?;
        let paths = self.check(&request)?;
        let number = self.number(offer)?;
        self.settle();
        let kept = self.flows.remove(&number);
        self.by_id.remove(offer);
        let mut flow = self.flow(&request, &paths);
        let is_its_own = kept.is_some_and(|kept| self.takes_room(&mut flow, kept));
        if is_its_own {
            return Ok(self.admit(flow));
        }
        if flow.deadline <= flow.start {
            let reason = Reason::DeadlinePassed { deadline: request.deadline };
            return Ok(self.refuse(&request, &paths, reason));
        }
        match self.wait(&request, &flow) {
            Some(wait) => Ok(self.hold(request, flow, wait)),
            None => Ok(self.decide(&request, flow)),
        }
    }

    /// Reserves anew, or as it was kept, for a flow that asks for no more than what was offered;
    /// says whether it does.
    fn takes_room(&mut self, flow: &mut Flow, mut kept: Flow) -> bool {
        let pieces = kept.pieces.clone();
        kept.release(&mut self.timetable);
        let is_no_more = is_among(&kept.paths, &flow.paths)
            && flow.start <= kept.start
            && flow.deadline >= kept.deadline
            && flow.limit >= kept.limit
            && flow.remaining <= kept.remaining
            && kept.lacking() == 0;
        if !is_no_more {
            return false;
        }
        self.draft(flow);
        if flow.unkept() > 0 {
            flow.release(&mut self.timetable);
            flow.restore(pieces, &mut self.timetable);
            flow.correct(flow.remaining, &mut self.timetable);
        }
        true
    }
}

/// Whether the first paths are the first of the second, at the same places.
fn is_among(few: &Paths, all: &Paths) -> bool {
    few.set == all.set || all.starts_with(few)
}
