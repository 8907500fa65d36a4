//! Capacity that changes: who keeps its promise when a link carries less than was promised.
//!
//! Nobody who has nothing reserved on that link loses anything. The others are laid anew, and if
//! not all of them find room, as few as possible are left out: the earliest deadline first, and
//! whoever finds no room takes the place of the heaviest before it, if that is heavier (J. Moore,
//! Management Science 1968, where it is shown to be the fewest on one machine). On several links,
//! or with starts ahead, the rule proves nothing; so whoever is left out is then tried once more
//! with all in its way planned anew, the lightest first.

use weir_topology::LinkId;
use weir_units::{Rate, Time};

use super::replan::MOST;
use super::{CalendarError, Change, Weir};
use crate::calendar::capacity::{Capacity, CapacityPiece};

/// So many of the heaviest are asked for their place, and so many of those left out are tried with
/// others planned anew: senders wait for their new rates meanwhile.
const MOST_ASKED: usize = 3;
const MOST_TRIED: usize = 20;

impl Weir {
    /// Says what a link can carry from now on. Whose promise can no longer be kept is at risk.
    ///
    /// # Errors
    /// Pieces that are empty or overlap, a rate that no link has.
    pub fn set_capacity(
        &mut self,
        now: Time,
        link: LinkId,
        pieces: &[CapacityPiece],
        outside: Rate,
    ) -> Result<Vec<Change>, CalendarError> {
        let capacity = Capacity::new(pieces, outside)?;
        self.enter(now)?;
        self.settle();
        let on_link = self.flows.iter().filter(|(_, flow)| flow.is_on(link));
        let mut touched: Vec<(u64, u64)> =
            on_link.map(|(number, flow)| (flow.deadline, *number)).collect();
        touched.sort_unstable();
        let mut plans = Vec::with_capacity(touched.len());
        for (_, number) in &touched {
            let Some(flow) = self.flows.get_mut(number) else { continue };
            plans.push((*number, flow.lacking() == 0, flow.pieces.clone()));
            flow.release(&mut self.timetable);
        }
        self.enter_capacity(link, capacity);
        let mut fits = true;
        for (number, _, pieces) in &plans {
            let Some(flow) = self.flows.get_mut(number) else { continue };
            fits = flow.restore_if_room(pieces, &mut self.timetable) && fits;
        }
        if !fits {
            for (number, ..) in &plans {
                let Some(flow) = self.flows.get_mut(number) else { continue };
                flow.release(&mut self.timetable);
            }
            let kept = plans.iter().filter(|(_, was_kept, _)| *was_kept);
            self.rescue(kept.map(|(number, ..)| *number).collect());
            // What is left is for those who were behind before, and for cushions.
            plans.iter().for_each(|(number, ..)| self.refill(*number));
        }
        self.catch_up_all();
        Ok(self.share())
    }

    /// Takes note of a link's capacity; there is room for what is reserved on it.
    pub(super) fn enter_capacity(&mut self, link: LinkId, capacity: Capacity) {
        let before = self.capacities.get(&link).map(|known| known.missing(self.clock));
        let missing = capacity.missing(self.clock);
        let before = before.unwrap_or_default();
        self.timetable.set_capacity(link, &before, capacity.most(), &missing);
        self.capacities.insert(link, capacity);
    }

    /// What a link can carry now, in bit/s.
    pub(super) fn capacity_now(&self, link: LinkId) -> u64 {
        let nominal = || self.network.link(link).capacity.as_bit_per_s();
        self.capacities.get(&link).map_or_else(nominal, |capacity| capacity.at(self.clock))
    }

    /// When the capacity of a link next changes.
    pub(super) fn next_capacity(&self) -> u64 {
        let changes = self.capacities.values().map(|capacity| capacity.next_change(self.clock));
        changes.min().unwrap_or(u64::MAX)
    }

    /// Lays what was promised to these, which have nothing and come in the order of their
    /// deadlines, for as many as can be.
    fn rescue(&mut self, numbers: Vec<u64>) {
        if numbers.len() <= MOST && self.lay_again(numbers.clone()) {
            return;
        }
        let (mut kept, mut lost) = (Vec::new(), Vec::new());
        for number in numbers {
            if self.lays(number) {
                kept.push(number);
            } else if let Some(at) = self.gives_way(number, &kept) {
                lost.push(std::mem::replace(&mut kept[at], number));
            } else {
                lost.push(number);
            }
        }
        lost.sort_by(|a, b| self.weight_of(*a).total_cmp(&self.weight_of(*b)));
        for number in lost.iter().take(MOST_TRIED) {
            if !self.lays(*number) {
                self.replan_again(*number);
            }
        }
        lost.iter().for_each(|number| self.refill(*number));
    }

    /// Plans a flow beside the others; if there is no room, it has nothing.
    fn lays(&mut self, number: u64) -> bool {
        let flow = &self.flows[&number];
        let order = self.cheapest_first(&flow.paths, flow.window(), |_| 0.0);
        let Some(flow) = self.flows.get_mut(&number) else { return false };
        // What is reserved on top comes after all promises.
        flow.reserve(flow.unkept(), &order, &mut self.timetable);
        let has_room = flow.unkept() == 0;
        if !has_room {
            flow.release(&mut self.timetable);
        }
        has_room
    }

    /// The position of a heavier one among these whose place the flow has taken.
    fn gives_way(&mut self, number: u64, kept: &[u64]) -> Option<usize> {
        let own = self.weight_of(number);
        let mut heavier: Vec<(f64, usize)> =
            kept.iter().enumerate().map(|(at, other)| (self.weight_of(*other), at)).collect();
        heavier.retain(|(weight, _)| *weight > own);
        heavier.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, at) in heavier.into_iter().take(MOST_ASKED) {
            let Some(other) = self.flows.get_mut(&kept[at]) else { continue };
            let pieces = other.pieces.clone();
            other.release(&mut self.timetable);
            if self.lays(number) {
                return Some(at);
            }
            let Some(other) = self.flows.get_mut(&kept[at]) else { continue };
            other.restore(pieces, &mut self.timetable);
        }
        None
    }

    /// What remains of a flow, for each link of its shortest path.
    fn weight_of(&self, number: u64) -> f64 {
        let flow = &self.flows[&number];
        flow.remaining as f64 * flow.links(0).len() as f64
    }
}
