//! Who sends what now.
//!
//! Each transfer is given what is reserved for it; the rest of the links goes to those first that
//! are due first. By deadlines that order changes only when something starts, ends or comes to its
//! turn, at which times this is called; by reservations it would change as they are used up.
//!
//! Where there are several paths, an order alone would move rates to and fro: whoever comes first
//! takes of each path what it can, and all behind it find other links idle than before. Every new
//! rate is a message to a sender that has just settled on the old one, and hardly anybody is on
//! time because of it. So what a transfer sends over one of several paths it goes on sending while
//! there is room beside what is reserved, and only what is then left is handed out. On one path
//! alone the order is exact and moves few, so there it decides.

use weir_topology::LinkId;
use weir_units::Rate;

use super::Weir;
use super::flow::Flow;
use crate::calendar::request::Change;

/// The rates of all flows in the making.
struct Rates {
    /// What each link can still carry, in bit/s.
    room: Vec<u64>,
    /// What is sent over each link, in bit/s.
    used: Vec<u64>,
    /// Those of one flow after those of another, each path by path.
    all: Vec<u64>,
}

impl Rates {
    /// Gives a flow that much more on one path, at `place` among all rates.
    fn give(&mut self, place: usize, links: &[LinkId], rate: u64) {
        self.all[place] += rate;
        for link in links {
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

    /// What the flow, whose rates begin at `first`, may still be given.
    fn spare(&self, flow: &Flow, first: usize) -> u64 {
        flow.limit - self.all[first..first + flow.paths.len()].iter().sum::<u64>()
    }
}

impl Weir {
    /// Hands out what links can carry now. Says which rates are new.
    pub(super) fn share(&mut self) -> Vec<Change> {
        self.postpone();
        let (mut rates, firsts) = self.owed_now();
        let waiting: Vec<(&Flow, usize)> = self.flows.values().zip(firsts).collect();
        let started = |(flow, _): &&(&Flow, usize)| flow.start <= self.clock;
        let order = |flows: &mut Vec<(&Flow, usize)>| {
            // In order of admission where deadlines are the same.
            flows.sort_by_key(|(flow, _)| flow.deadline);
        };
        let keeps = |(flow, _): &&(&Flow, usize)| flow.paths.len() > 1 && flow.rate() > 0;
        let mut kept: Vec<_> = waiting.iter().filter(started).filter(keeps).copied().collect();
        order(&mut kept);
        for (flow, first) in kept {
            keep(&mut rates, flow, first);
        }
        let mut is_open = self.open_sets(&rates);
        let is_served = |(flow, _): &&(&Flow, usize)| is_open[flow.paths.set];
        let mut served: Vec<_> =
            waiting.iter().filter(started).filter(is_served).copied().collect();
        order(&mut served);
        for (flow, first) in served {
            if is_open[flow.paths.set] {
                // Whoever could take more has left nothing to those of the same paths.
                is_open[flow.paths.set] = fill(&mut rates, flow, first) == 0;
            }
        }
        let Rates { used, all, .. } = rates;
        self.used = used;
        self.tell(&all)
    }

    /// What each flow has to send now by its plan, and where among all rates its own begin.
    fn owed_now(&self) -> (Rates, Vec<usize>) {
        let room = self.network.links().map(|link| self.capacity_now(link)).collect();
        let mut rates = Rates { room, used: vec![0; self.used.len()], all: Vec::new() };
        let mut firsts = Vec::with_capacity(self.flows.len());
        for flow in self.flows.values() {
            let first = rates.all.len();
            rates.all.resize(first + flow.paths.len(), 0);
            for (path, rate) in flow.owed(self.clock) {
                rates.give(first + path, flow.links(path), rate);
            }
            firsts.push(first);
        }
        (rates, firsts)
    }

    /// Whether one more bit/s can be sent over a set of paths.
    fn open_sets(&self, rates: &Rates) -> Vec<bool> {
        let mut is_open = vec![false; self.paths.len()];
        for paths in self.paths.values() {
            is_open[paths.set] = paths.iter().any(|path| rates.room(path.links(), 1) > 0);
        }
        is_open
    }

    /// Gives all flows these rates; says which are new, and takes note of when to share again.
    fn tell(&mut self, rates: &[u64]) -> Vec<Change> {
        let stopped = self.stopped.drain(..);
        let mut changes: Vec<Change> =
            stopped.map(|flow| Change { flow, rate: Rate::ZERO, split: Vec::new() }).collect();
        let (mut first, mut next_step) = (0, u64::MAX);
        for flow in self.flows.values_mut() {
            let own = &rates[first..first + flow.paths.len()];
            first += own.len();
            if flow.rates != own {
                flow.rates.copy_from_slice(own);
                let rate = Rate::from_bit_per_s(flow.rate());
                changes.push(Change { flow: flow.id.clone(), rate, split: flow.split() });
            }
            if flow.start > self.clock {
                next_step = next_step.min(flow.start);
            }
            next_step = next_step.min(flow.falls_behind().max(self.clock + 1));
        }
        self.next_step = next_step.min(self.next_answer()).min(self.next_capacity());
        changes
    }
}

/// Lets a flow send what it sends, as far as there is room.
fn keep(rates: &mut Rates, flow: &Flow, first: usize) {
    for path in 0..flow.paths.len() {
        let sends = flow.rates[path].saturating_sub(rates.all[first + path]);
        let kept = rates.room(flow.links(path), sends.min(rates.spare(flow, first)));
        rates.give(first + path, flow.links(path), kept);
    }
}

/// Gives a flow whatever there is room for; says what it may still be given after that.
fn fill(rates: &mut Rates, flow: &Flow, first: usize) -> u64 {
    let mut spare = rates.spare(flow, first);
    for path in 0..flow.paths.len() {
        let more = rates.room(flow.links(path), spare);
        if more > 0 {
            rates.give(first + path, flow.links(path), more);
            spare -= more;
        }
    }
    spare
}
