//! Who sends what now.
//!
//! Each transfer is given what is reserved for it; the rest of the links goes to those first that
//! are due first. By deadlines that order changes only when something starts, ends or comes to its
//! turn, at which times this is called; by reservations it would change as they are used up.
//!
//! Where there are several paths, that order alone would move rates to and fro: whoever comes
//! first takes of each path what it can, and all behind it find other links idle than before.
//! Every new rate is a message to a sender that has just settled on the old one, and hardly anybody
//! is on time because of it. So what a transfer sends over one of several paths it goes on sending
//! while there is room beside what is reserved, unless somebody waits there who is nearer to its
//! deadline by [`PATIENCE`]. On one path alone the order is exact and moves few, so there it
//! decides.
//!
//! Before all of these come those that are late, whose plans do not have them there in time: what
//! others send ahead they can send later, and a late one cannot.

use std::collections::BTreeMap;

use weir_topology::LinkId;
use weir_units::Rate;

use super::Weir;
use super::flow::{Flow, Paths};
use crate::calendar::request::Change;

/// Whoever sends ahead over several paths yields to one that waits and is due by this part of its
/// own time to the deadline. With a larger part more rates change: a request brings 11 to 23 of
/// them if all who are due later yield, 3 to 4 so.
const PATIENCE: u64 = 8;

/// Rates in the making, of all flows that send or are to.
pub(super) struct Rates {
    /// What each link can still carry, in bit/s.
    room: Vec<u64>,
    /// What is sent over each link, in bit/s.
    pub(super) used: Vec<u64>,
    /// By number, those of one flow path by path.
    pub(super) all: BTreeMap<u64, Vec<u64>>,
}

impl Rates {
    /// Gives a flow that much more on one path.
    fn give(&mut self, number: u64, flow: &Flow, path: usize, rate: u64) {
        let own = self.all.entry(number).or_insert_with(|| vec![0; flow.paths.len()]);
        own[path] += rate;
        for link in flow.links(path) {
            let (room, used) = (&mut self.room[link.index()], &mut self.used[link.index()]);
            (*room, *used) = (room.saturating_sub(rate), *used + rate);
        }
    }

    /// What there is room for on these links, up to some rate.
    fn room(&self, links: &[LinkId], most: u64) -> u64 {
        let mut least = most;
        for link in links {
            least = least.min(self.room[link.index()]);
            if least == 0 {
                break;
            }
        }
        least
    }

    /// What the flow may still be given.
    fn spare(&self, number: u64, flow: &Flow) -> u64 {
        flow.limit - self.all.get(&number).map_or(0, |own| own.iter().sum())
    }

    /// Lets a flow send what it sends, as far as there is room.
    fn keep(&mut self, number: u64, flow: &Flow) {
        for path in 0..flow.paths.len() {
            let given = self.all.get(&number).map_or(0, |own| own[path]);
            let sends = flow.rates[path].saturating_sub(given);
            let kept = self.room(flow.links(path), sends.min(self.spare(number, flow)));
            if kept > 0 {
                self.give(number, flow, path, kept);
            }
        }
    }

    /// Gives a flow whatever there is room for; says what it may still be given after that.
    fn fill(&mut self, number: u64, flow: &Flow) -> u64 {
        let mut spare = self.spare(number, flow);
        for path in 0..flow.paths.len() {
            let more = self.room(flow.links(path), spare);
            if more > 0 {
                self.give(number, flow, path, more);
                spare -= more;
            }
        }
        spare
    }
}

impl Weir {
    /// Hands out what links can carry now. Says which rates are new.
    pub(super) fn share(&mut self) -> Vec<Change> {
        self.flows.begin(self.clock);
        self.postpone();
        let Rates { used, all, .. } = self.rates_now();
        self.used = used;
        self.tell(all)
    }

    /// What is to be sent now: what is owed by the plans, what those have that are late, and what
    /// is kept or handed out by deadlines. All are settled, and those have begun that may.
    pub(super) fn rates_now(&self) -> Rates {
        let mut rates = self.owed_now();
        for (_, number) in self.late() {
            let flow = &self.flows[&number];
            rates.keep(number, flow);
            rates.fill(number, flow);
        }
        let mut kept = self.several_paths().into_iter().peekable();
        // Whether one more bit/s can be sent.
        let has_room = |paths: &Paths| paths.iter().any(|path| rates.room(path.links(), 1) > 0);
        let turns = self.flows.in_turn(has_room);
        // Whoever could take more has left nothing to those of the same paths.
        turns.hand_out(|number, flow| {
            let until = self.stays_until(flow);
            while let Some((_, other)) = kept.next_if(|(deadline, _)| *deadline <= until) {
                rates.keep(other, &self.flows[&other]);
            }
            rates.fill(number, flow) == 0
        });
        for (_, other) in kept {
            rates.keep(other, &self.flows[&other]);
        }
        rates
    }

    /// Whoever is due later and sends ahead yields to the flow.
    pub(super) fn stays_until(&self, flow: &Flow) -> u64 {
        let left = flow.deadline.saturating_sub(self.clock);
        self.clock.saturating_add(left.saturating_mul(PATIENCE)).max(flow.deadline)
    }

    /// Those that may send and are behind: the plan does not have them there by their deadlines.
    /// By deadline.
    fn late(&self) -> Vec<(u64, u64)> {
        let short = self.flows.short().map(|number| (number, &self.flows[&number]));
        let late = short.filter(|(_, flow)| flow.start <= self.clock && flow.lacking() > 0);
        let mut late: Vec<_> = late.map(|(number, flow)| (flow.deadline, number)).collect();
        late.sort_unstable();
        late
    }

    /// Those that send and may take several paths, by deadline.
    fn several_paths(&self) -> Vec<(u64, u64)> {
        let sending = self.flows.sending();
        let several = sending.filter(|(_, flow)| flow.paths.len() > 1 && flow.start <= self.clock);
        let mut several: Vec<_> = several.map(|(number, flow)| (flow.deadline, number)).collect();
        several.sort_unstable();
        several
    }

    /// What each flow has to send now by its plan.
    fn owed_now(&self) -> Rates {
        let room = self.network.links().map(|link| self.capacity_now(link)).collect();
        let mut rates = Rates { room, used: vec![0; self.used.len()], all: BTreeMap::new() };
        for number in self.flows.come(self.clock) {
            let flow = &self.flows[&number];
            for (path, rate) in flow.owed(self.clock) {
                rates.give(number, flow, path, rate);
            }
        }
        rates
    }

    /// Gives all flows these rates, and none to others; says which are new, and takes note of when
    /// to share again.
    fn tell(&mut self, mut rates: BTreeMap<u64, Vec<u64>>) -> Vec<Change> {
        for (number, flow) in self.flows.sending() {
            rates.entry(number).or_insert_with(|| vec![0; flow.paths.len()]);
        }
        let stopped = self.stopped.drain(..);
        let mut changes: Vec<Change> =
            stopped.map(|flow| Change { flow, rate: Rate::ZERO, split: Vec::new() }).collect();
        for (number, own) in rates {
            if self.flows[&number].rates == own {
                continue;
            }
            self.flows.change(number, |flow| flow.send(self.clock, own));
            let flow = &self.flows[&number];
            let rate = Rate::from_bit_per_s(flow.rate());
            changes.push(Change { flow: flow.id.clone(), rate, split: flow.split() });
        }
        self.next_step = self.next_change();
        changes
    }

    /// When links are to be shared again: somebody may start, comes to its reservation or would
    /// fall behind, an answer is due, a link is to carry less or more.
    pub(super) fn next_change(&self) -> u64 {
        let sending = self.flows.sending().map(|(_, flow)| flow.falls_behind());
        let turns = sending.chain([self.flows.first_reserved()]);
        let turns = turns.map(|turn| turn.max(self.clock + 1));
        let others = [self.flows.next_start(), self.next_answer(), self.next_capacity()];
        turns.chain(others).min().unwrap_or(u64::MAX)
    }
}
