//! Room for a request that found none, by planning anew what is in its way.
//!
//! Reservations that were laid one after another can be in the way of a request though all of them
//! together could be served: where transfers start at different times, or where one took a link
//! that another needs more. Laid again in the order of their starts, the latest start first, each
//! as late as possible, they leave on one link the most room there can be: it is the schedule by
//! earliest deadlines with time reversed, which serves whatever can be served (M. Dertouzos, IFIP
//! 1974). On several links the order helps and proves nothing.

use std::cmp::Reverse;

use weir_topology::LinkId;

use super::Weir;
use super::flow::Flow;

/// More transfers than this are not planned anew for one request: it must be answered at once.
const MOST: usize = 100;

impl Weir {
    /// Plans the flow and those in its way anew. If not all of them find room, nothing changes.
    pub(super) fn replan(&mut self, flow: &mut Flow) -> bool {
        let Some(numbers) = self.in_the_way(flow) else { return false };
        let own = flow.pieces.clone();
        flow.release(&mut self.timetable);
        let mut before = Vec::with_capacity(numbers.len());
        for number in &numbers {
            let Some(other) = self.flows.get_mut(number) else { continue };
            before.push((*number, other.pieces.clone()));
            other.release(&mut self.timetable);
        }
        if self.lay_again(flow, numbers) {
            return true;
        }
        // Everything is taken back before anything is restored: links would be over-full between.
        flow.release(&mut self.timetable);
        for (number, _) in &before {
            let Some(other) = self.flows.get_mut(number) else { continue };
            other.release(&mut self.timetable);
        }
        for (number, pieces) in before {
            let Some(other) = self.flows.get_mut(&number) else { continue };
            other.restore(pieces, &mut self.timetable);
        }
        flow.restore(own, &mut self.timetable);
        false
    }

    /// Lays reservations for the flow and these others; says whether all found room.
    fn lay_again(&mut self, flow: &mut Flow, numbers: Vec<u64>) -> bool {
        let key = |flow: &Flow| (Reverse(flow.start.max(flow.as_of)), flow.deadline);
        let others = numbers.into_iter().map(|number| (key(&self.flows[&number]), Some(number)));
        let mut queue: Vec<_> = others.chain([(key(flow), None)]).collect();
        queue.sort_unstable();
        queue.into_iter().all(|(_, number)| {
            let next = number.map_or(&*flow, |number| &self.flows[&number]);
            let order = self.cheapest_first(&next.paths, next.window());
            let next = number.and_then(|number| self.flows.get_mut(&number)).unwrap_or(flow);
            next.reserve(next.promised(), &order, &mut self.timetable) == 0
        })
    }

    /// The flows with reservations on its links; nothing if there are too many.
    fn in_the_way(&self, flow: &Flow) -> Option<Vec<u64>> {
        let mut wanted = vec![false; self.used.len()];
        let links = flow.paths.iter().flat_map(|path| path.links());
        links.for_each(|link: &LinkId| wanted[link.index()] = true);
        // At whatever time: to make room here, one may have to move where another is. One that is
        // behind keeps what it has.
        let is_in_the_way = |other: &Flow| {
            let links = other.pieces.iter().flat_map(|piece| other.links(piece.path));
            other.lacking() == 0 && links.into_iter().any(|link| wanted[link.index()])
        };
        let found = self.flows.iter().filter(|(_, other)| is_in_the_way(other));
        let numbers: Vec<u64> = found.map(|(number, _)| *number).take(MOST + 1).collect();
        (numbers.len() <= MOST).then_some(numbers)
    }
}
