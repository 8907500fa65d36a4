//! Room for a request that found none, by planning anew what is in its way.
//!
//! Reservations that were laid one after another can be in the way of a request though all of them
//! together could be served: where transfers start at different times, or where one took a link
//! that another needs more. Laid again in the order of their starts, the latest start first, each
//! as late as possible, they leave on one link the most room there can be: it is the schedule by
//! earliest deadlines with time reversed, which serves whatever can be served (M. Dertouzos, IFIP
//! 1974). On several links the order helps and proves nothing. So whoever finds no room moves up
//! in the order, the links that were full in its time are blamed for it, and all is laid anew, past
//! the links that are blamed where another path has room: ordering by trouble (D. Joslin,
//! D. Clements, "Squeaky Wheel Optimization", JAIR 1999) with the costs of negotiated congestion
//! (L. McMurchie, C. Ebeling, "PathFinder", FPGA 1995).

use std::cmp::Reverse;

use weir_topology::LinkId;

use super::Weir;
use super::flow::{Flow, Paths};
use crate::calendar::amount::Nanobits;

/// More transfers than this are not planned anew for one request: it must be answered at once.
pub(super) const MOST: usize = 100;
/// After so many reservations laid anew the request is refused, for the same reason.
const MOST_LAID: usize = 1000;
/// The number, while it is planned, of a flow that has none yet.
const NEW: u64 = u64::MAX;
/// What being full adds to the cost of a link, against 1 for a link that is empty.
const BLAME: f64 = 0.5;

impl Weir {
    /// Plans the flow and those in its way anew. If not all of them find room, nothing changes.
    pub(super) fn replan(&mut self, flow: &mut Flow) -> bool {
        let Some(mut numbers) = self.in_the_way(flow) else { return false };
        if self.is_hopeless(flow) {
            return false;
        }
        self.flows.insert(NEW, flow.clone());
        numbers.push(NEW);
        let is_laid = self.plan_anew(numbers);
        if let Some(laid) = self.flows.remove(&NEW) {
            *flow = laid;
        }
        is_laid
    }

    /// Plans a flow that is behind, and those in its way, anew. If not all of them find room,
    /// nothing changes.
    pub(super) fn replan_again(&mut self, number: u64) {
        let flow = &self.flows[&number];
        let Some(mut numbers) = self.in_the_way(flow) else { return };
        if !self.is_hopeless(flow) {
            numbers.push(number);
            self.plan_anew(numbers);
        }
    }

    /// Lays again, as late as possible, what has come to its turn on a path while something waits
    /// that is due before it: what was sent ahead of the plans has left room behind it. Where all
    /// take the same path this is exact; elsewhere they would only take turns.
    pub(super) fn postpone(&mut self) {
        // Whether anything has one path alone is asked of the sets of paths, which are fewer: this
        // is called at each decision.
        if self.paths.values().all(|paths| paths.len() > 1) {
            return;
        }
        let has_come = |flow: &Flow| flow.paths.len() == 1 && flow.has_come(self.clock);
        let mut come = self.flows.come(self.clock);
        come.retain(|number| has_come(&self.flows[number]));
        for number in come {
            if self.postponed >= MOST || !self.flows[&number].has_come(self.clock) {
                continue;
            }
            if let Some(numbers) = self.before_those_that_wait(&self.flows[&number]) {
                self.postponed += 1;
                self.plan_anew(numbers);
            }
        }
    }

    /// Those that share its path and no other, if one of them waits and is due before it.
    fn before_those_that_wait(&self, flow: &Flow) -> Option<Vec<u64>> {
        let numbers = self.in_the_way(flow)?;
        let others = || numbers.iter().map(|number| &self.flows[number]);
        let waits = |other: &Flow| other.start <= self.clock && other.deadline < flow.deadline;
        let on_path = |other: &Flow| other.paths.len() == 1 && other.links(0) == flow.links(0);
        (others().any(waits) && others().all(on_path)).then_some(numbers)
    }

    /// Lays the reservations of these anew. If not all of them find room, nothing changes.
    fn plan_anew(&mut self, numbers: Vec<u64>) -> bool {
        let mut before = Vec::with_capacity(numbers.len());
        for number in &numbers {
            let pieces = self.flows.change(*number, |flow| {
                let pieces = flow.pieces.clone();
                flow.release(&mut self.timetable);
                pieces
            });
            before.extend(pieces.map(|pieces| (*number, pieces)));
        }
        if self.lay_again(numbers.clone()) {
            self.refill_all(numbers);
            return true;
        }
        for (number, pieces) in before {
            self.flows.change(number, |flow| flow.restore(pieces, &mut self.timetable));
        }
        false
    }

    /// Whether no plan can serve it beside the others, because by some deadline more must leave its
    /// source, or reach its destination, than all links there carry. Most of what is refused where
    /// a node is overloaded is refused for this, and need not be tried.
    fn is_hopeless(&self, flow: &Flow) -> bool {
        let ends = |paths: &Paths| [paths[0].source(), paths[0].destination()];
        (0..2).any(|side| {
            let node = ends(&flow.paths)[side];
            let end = |link: LinkId| {
                let link = self.network.link(link);
                [link.from, link.to][side]
            };
            let of_node = self.network.links().filter(|link| end(*link) == node);
            let carries: u128 = of_node.map(|link| u128::from(self.timetable.most(link))).sum();
            let same = self.flows.among(|paths, _| ends(paths)[side] == node);
            // What is promised of a transfer that is behind is less than what remains of it.
            let bound = same.map(|(_, other)| other).filter(|other| other.lacking() == 0);
            let mut due: Vec<(u64, Nanobits)> =
                bound.chain([flow]).map(|flow| (flow.deadline, flow.remaining)).collect();
            due.sort_unstable();
            let mut sum = 0;
            due.into_iter().any(|(deadline, bits)| {
                sum += bits;
                sum > carries * u128::from(deadline.saturating_sub(self.clock))
            })
        })
    }

    /// Lays reservations for these, which have none; says whether all found room. If not, they have
    /// none again.
    pub(super) fn lay_again(&mut self, mut queue: Vec<u64>) -> bool {
        let key = |flow: &Flow| (Reverse(flow.window(self.clock).0), flow.deadline);
        queue.sort_by_cached_key(|number| (key(&self.flows[number]), *number));
        let mut blame = vec![0.0; self.used.len()];
        let mut count = 0;
        while count < MOST_LAID {
            let mut laid = queue.iter().map(|number| self.lay_one(*number, &mut blame));
            let Some(failed) = laid.position(|has_room| !has_room) else { return true };
            count += failed + 1;
            for number in &queue[..=failed] {
                self.flows.change(*number, |flow| flow.release(&mut self.timetable));
            }
            queue[failed / 2..=failed].rotate_right(1);
        }
        false
    }

    /// Lays the reservations of one of them; says whether all of it found room, and blames its
    /// links if not, by how full they are.
    fn lay_one(&mut self, number: u64, blame: &mut [f64]) -> bool {
        let flow = &self.flows[&number];
        let (paths, window) = (flow.paths.clone(), flow.window(self.clock));
        let order = self.cheapest_first(&paths, window, |link| blame[link.index()]);
        let has_room = self.flows.change(number, |flow| {
            // Cushions come after all promises.
            flow.reserve(self.clock, flow.bare(), &order, &mut self.timetable);
            flow.unkept() == 0
        });
        let has_room = has_room.unwrap_or(true);
        if !has_room {
            for link in paths.iter().flat_map(|path| path.links()) {
                blame[link.index()] += BLAME * self.timetable.filled(*link, window);
            }
        }
        has_room
    }

    /// The flows with reservations on its links; nothing if there are too many.
    pub(super) fn in_the_way(&self, flow: &Flow) -> Option<Vec<u64>> {
        let mut wanted = vec![false; self.used.len()];
        let links = flow.paths.iter().flat_map(|path| path.links());
        links.for_each(|link: &LinkId| wanted[link.index()] = true);
        // At whatever time: to make room here, one may have to move where another is. One that is
        // behind keeps what it has.
        let is_in_the_way = |other: &Flow| {
            let links = other.pieces.iter().flat_map(|piece| other.links(piece.path));
            other.lacking() == 0 && links.into_iter().any(|link| wanted[link.index()])
        };
        let near = self.flows.among(|_, links| links.iter().any(|link| wanted[link.index()]));
        let found = near.filter(|(_, other)| is_in_the_way(other));
        let mut numbers: Vec<u64> = found.map(|(number, _)| number).take(MOST + 1).collect();
        numbers.sort_unstable();
        (numbers.len() <= MOST).then_some(numbers)
    }
}
