//! What is reserved on top of promises gives way to a new one, and comes back where there is room.
//!
//! Where reports say what moved, a cushion is reserved beside what was promised, since callers come
//! late and connections start slowly. Nobody was promised it. So a request that finds no room
//! beside cushions is planned as if there were none in its way; what it leaves of them is reserved
//! for them again, for those first that are due first, and the rest when somebody ends or sends
//! ahead.
//!
//! Whoever asks so by chance leaves most cushions as they are. What the calendar itself proposes
//! (an earliest deadline, an offer, a part where that is enough) would take all of them each time
//! that somebody follows, and then hardly anybody who begins a moment late is on time. So that is
//! found beside them.

use weir_units::Bytes;

use super::Weir;
use super::flow::Flow;
use crate::calendar::profile::Span;

/// What those in the way of a flow have reserved on top: numbers of flows, and the first parts of
/// which of their pieces.
type Cushions = Vec<(u64, Vec<(usize, Span)>)>;

impl Weir {
    /// Finds room for a flow that lacks some, nobody losing what was promised: all in its way is
    /// planned anew, or cushions are given up for it. If there is none, nothing changes.
    pub(super) fn finds_more_room(&mut self, flow: &mut Flow) -> bool {
        self.replan(flow)
            || self.takes_cushions(flow, |calendar, flow| {
                calendar.draft(flow);
                flow.unkept() == 0
            })
    }

    /// Has a flow make do with the part of it that is reserved; where that is less than `least`,
    /// with one at the cost of the cushions in its way. If there is no room, nothing changes.
    pub(super) fn has_room_for_part(&mut self, flow: &mut Flow, least: Option<Bytes>) -> bool {
        if least.is_none() {
            return flow.unkept() == 0;
        }
        let takes_part = |calendar: &mut Self, flow: &mut Flow| {
            calendar.draft(flow);
            flow.shrink(flow.unkept(), least, &mut calendar.timetable)
        };
        flow.shrink(flow.unkept(), least, &mut self.timetable)
            || self.takes_cushions(flow, takes_part)
    }

    /// Has a flow reserve without the cushions in its way, which are given up if it does.
    fn takes_cushions(
        &mut self,
        flow: &mut Flow,
        reserves: impl FnOnce(&mut Self, &mut Flow) -> bool,
    ) -> bool {
        let cushions = self.cushions(flow);
        if cushions.is_empty() {
            return false;
        }
        let pieces = flow.pieces.clone();
        flow.release(&mut self.timetable);
        self.enter_cushions(&cushions, false);
        if !reserves(self, flow) {
            flow.release(&mut self.timetable);
            self.enter_cushions(&cushions, true);
            flow.restore(pieces, &mut self.timetable);
            return false;
        }
        for (number, freed) in &cushions {
            self.flows.change(*number, |other| other.give(freed));
        }
        self.refill_all(cushions.into_iter().map(|(number, _)| number).collect());
        true
    }

    /// What is found as if there were no cushions in the way of a flow, which has nothing reserved.
    pub(super) fn without_cushions<T>(
        &mut self,
        flow: &Flow,
        find: impl FnOnce(&mut Self, &Flow) -> T,
    ) -> T {
        let cushions = self.cushions(flow);
        self.enter_cushions(&cushions, false);
        let found = find(self, flow);
        self.enter_cushions(&cushions, true);
        found
    }

    /// The cushions in the way of a flow; none if too many are in its way to look at. All are
    /// settled.
    fn cushions(&self, flow: &Flow) -> Cushions {
        if !self.options.measured {
            return Vec::new();
        }
        let numbers = self.in_the_way(flow).unwrap_or_default();
        let of = |number: u64| (number, self.flows[&number].cushion());
        numbers.into_iter().map(of).filter(|(_, freed)| !freed.is_empty()).collect()
    }

    /// Reserves cushions, or releases them, without their flows taking note.
    fn enter_cushions(&mut self, cushions: &Cushions, is_reserved: bool) {
        for (number, freed) in cushions {
            let flow = &self.flows[number];
            for (at, span) in freed {
                let links = flow.links(flow.pieces[*at].path);
                match is_reserved {
                    true => self.timetable.reserve(links, span),
                    false => self.timetable.release(links, span),
                }
            }
        }
    }

    /// Reserves what the plans for these lack, cushions in the main, for those first that are due
    /// first.
    pub(super) fn refill_all(&mut self, mut numbers: Vec<u64>) {
        if self.options.measured {
            numbers.sort_by_cached_key(|number| (self.flows[number].deadline, *number));
            numbers.into_iter().for_each(|number| self.refill(number));
        }
    }
}
