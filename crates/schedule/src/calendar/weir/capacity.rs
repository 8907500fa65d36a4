//! Capacity that changes: who keeps its promise when a link carries less than was promised.
//!
//! Nobody who has nothing reserved on that link loses anything. The others are laid anew, and if
//! not all of them find room, as few as possible are left out: the earliest deadline first, and
//! whoever finds no room takes the place of the heaviest before it, if that is heavier (J. Moore,
//! Management Science 1968, where it is shown to be the fewest on one machine). Where they differ
//! in weight, the set of the most weight is kept, found by dynamic programming over the weight that
//! is kept and the least capacity of the link that this takes (E. Lawler, J. Moore, Management
//! Science 1969). On several links, or with starts ahead, the rules prove nothing; so whoever is
//! left out is then tried once more, in the place of one of less weight, and with all in its way
//! planned anew.

use weir_topology::LinkId;
use weir_units::{Rate, Time};

use super::flow::Flow;
use super::replan::MOST;
use super::{CalendarError, Change, Weir};
use crate::calendar::amount::Nanobits;
use crate::calendar::capacity::{Capacity, CapacityPiece};
use crate::calendar::profile::{Own, Profile};

/// So many of the heaviest are asked for their place, and so many of those left out are tried with
/// others planned anew: senders wait for their new rates meanwhile.
const MOST_ASKED: usize = 3;
const MOST_TRIED: usize = 20;
/// So many sums of weights, times transfers, are looked at; more are rounded down to that many.
const MOST_SUMS: u64 = 4_000_000;

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
        self.enter_capacity(link, capacity);
        if !self.timetable.holds(link, self.clock) {
            self.lay_anew(link);
        }
        self.catch_up_all();
        Ok(self.share())
    }

    /// Lays anew what is reserved on a link that does not carry all of it any more.
    fn lay_anew(&mut self, link: LinkId) {
        let crossing = self.flows.among(|_, links| links.contains(&link));
        let on_link = crossing.filter(|(_, flow)| flow.is_on(link));
        let mut touched: Vec<(u64, u64)> =
            on_link.map(|(number, flow)| (flow.deadline, number)).collect();
        touched.sort_unstable();
        let numbers = touched.into_iter().map(|(_, number)| number);
        let (on_trial, promised): (Vec<u64>, Vec<u64>) =
            numbers.partition(|number| self.held.contains_key(number));
        let mut kept = promised.clone();
        kept.retain(|number| self.flows[number].lacking() == 0);
        for number in promised.iter().chain(&on_trial) {
            self.flows.change(*number, |flow| flow.release(&mut self.timetable));
        }
        self.rescue(link, kept);
        // What is left is for those who were behind before, and for cushions; then for those who
        // were promised nothing yet.
        promised.iter().for_each(|number| self.refill(*number));
        on_trial.iter().for_each(|number| self.lays_or_waits(*number));
    }

    /// Takes note of a link's capacity.
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
    /// deadlines, for as many as can be, or for those of the most weight.
    fn rescue(&mut self, link: LinkId, numbers: Vec<u64>) {
        if numbers.len() <= MOST && self.lay_again(numbers.clone()) {
            return;
        }
        let first = numbers.first().map(|number| self.flows[number].weight);
        let lost = match numbers.iter().all(|number| Some(self.flows[number].weight) == first) {
            true => self.lay_most(numbers),
            false => self.lay_heaviest(link, numbers),
        };
        for number in lost.iter().take(MOST_TRIED) {
            if !self.lays(*number) {
                self.replan_again(*number);
            }
        }
        lost.iter().for_each(|number| self.refill(*number));
    }

    /// Lays as many of these as it can; the others, the lightest first.
    fn lay_most(&mut self, numbers: Vec<u64>) -> Vec<u64> {
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
        lost.sort_by(|a, b| self.size_of(*a).total_cmp(&self.size_of(*b)));
        lost
    }

    /// Lays those of these that have the most weight of all sets which the link can carry; the
    /// others, those of the most weight for their size first.
    fn lay_heaviest(&mut self, link: LinkId, numbers: Vec<u64>) -> Vec<u64> {
        let jobs: Vec<Job> = numbers.iter().map(|number| self.job(link, *number)).collect();
        let (mut kept, mut lost) = (Vec::new(), Vec::new());
        for (number, is_chosen) in numbers.into_iter().zip(heaviest(&jobs)) {
            if is_chosen && self.lays(number) { kept.push(number) } else { lost.push(number) }
        }
        let density = |number: &u64| f64::from(self.flows[number].weight) / self.size_of(*number);
        lost.sort_by(|a, b| density(b).total_cmp(&density(a)));
        let tried = lost.len().min(MOST_TRIED);
        for at in 0..tried {
            if self.lays(lost[at]) {
                kept.push(lost[at]);
            } else if let Some(other) = self.takes_lighter(lost[at], &kept) {
                let less = std::mem::replace(&mut kept[other], lost[at]);
                if self.lays(less) { kept.push(less) } else { lost.push(less) }
            }
        }
        lost.retain(|number| !kept.contains(number));
        lost
    }

    fn job(&self, link: LinkId, number: u64) -> Job {
        let (flow, nothing) = (&self.flows[&number], Profile::default());
        let own = Own { limit: u64::MAX, sends: &nothing };
        let all = Nanobits::MAX;
        let (_, left) = self.timetable.latest(&[link], flow.window(self.clock), all, own);
        Job { weight: flow.weight, takes: flow.unkept(), by_deadline: all - left }
    }

    /// The position of one of less weight among these whose place the flow has taken.
    fn takes_lighter(&mut self, number: u64, kept: &[u64]) -> Option<usize> {
        let weight = |number: u64| self.flows[&number].weight;
        let own = weight(number);
        let mut lighter: Vec<(u32, usize)> =
            kept.iter().enumerate().map(|(at, other)| (weight(*other), at)).collect();
        lighter.retain(|(weight, _)| *weight < own);
        lighter.sort_unstable();
        let asked = lighter.into_iter().map(|(_, at)| at).take(MOST_ASKED);
        self.takes_one(number, kept, asked)
    }

    /// Plans a flow beside the others; if there is no room, it has nothing.
    fn lays(&mut self, number: u64) -> bool {
        let flow = &self.flows[&number];
        let order = self.cheapest_first(&flow.paths, flow.window(self.clock), |_| 0.0);
        let lays = |flow: &mut Flow| {
            // What is reserved on top comes after all promises.
            flow.reserve(self.clock, flow.unkept(), &order, &mut self.timetable);
            let has_room = flow.unkept() == 0;
            if !has_room {
                flow.release(&mut self.timetable);
            }
            has_room
        };
        self.flows.change(number, lays).unwrap_or(false)
    }

    /// Plans one on trial beside the others; if there is no room, it waits without a place.
    fn lays_or_waits(&mut self, number: u64) {
        if self.lays(number) {
            return;
        }
        if let Some(flow) = self.flows.remove(&number) {
            self.put_outside(number, flow);
        }
    }

    /// The position of a heavier one among these whose place the flow has taken.
    fn gives_way(&mut self, number: u64, kept: &[u64]) -> Option<usize> {
        let own = self.size_of(number);
        let mut heavier: Vec<(f64, usize)> =
            kept.iter().enumerate().map(|(at, other)| (self.size_of(*other), at)).collect();
        heavier.retain(|(size, _)| *size > own);
        heavier.sort_by(|a, b| b.0.total_cmp(&a.0));
        let asked = heavier.into_iter().map(|(_, at)| at).take(MOST_ASKED);
        self.takes_one(number, kept, asked)
    }

    /// The first of these positions whose place the flow has taken.
    fn takes_one(
        &mut self,
        number: u64,
        kept: &[u64],
        asked: impl Iterator<Item = usize>,
    ) -> Option<usize> {
        for at in asked {
            let pieces = self.flows[&kept[at]].pieces.clone();
            self.flows.change(kept[at], |other| other.release(&mut self.timetable));
            if self.lays(number) {
                return Some(at);
            }
            self.flows.change(kept[at], |other| other.restore(pieces, &mut self.timetable));
        }
        None
    }

    /// What remains of a flow, for each link of its shortest path.
    fn size_of(&self, number: u64) -> f64 {
        let flow = &self.flows[&number];
        flow.remaining as f64 * flow.links(0).len() as f64
    }
}

/// What one of those on a link is worth, what it takes of it, and what the link carries until its
/// deadline.
struct Job {
    weight: u32,
    takes: Nanobits,
    by_deadline: Nanobits,
}

/// Which of these, in the order of their deadlines, are kept: of the sets that the link can carry,
/// one of the most weight, and of these one that takes the least.
fn heaviest(jobs: &[Job]) -> Vec<bool> {
    let weights = rounded(jobs);
    let sums: usize = weights.iter().sum();
    // The least that a set of each weight takes.
    let mut least: Vec<Option<Nanobits>> = vec![None; sums + 1];
    least[0] = Some(0);
    let mut takes = vec![vec![false; sums + 1]; jobs.len()];
    for ((job, weight), took) in jobs.iter().zip(&weights).zip(&mut takes) {
        for sum in (*weight..=sums).rev() {
            let with = least[sum - weight].map(|volume| volume + job.takes);
            let fits = with.filter(|volume| *volume <= job.by_deadline);
            if fits.is_some_and(|volume| least[sum].is_none_or(|known| volume < known)) {
                (least[sum], took[sum]) = (fits, true);
            }
        }
    }
    let mut sum = least.iter().rposition(Option::is_some).unwrap_or(0);
    let mut chosen = vec![false; jobs.len()];
    for at in (0..jobs.len()).rev() {
        if takes[at][sum] {
            chosen[at] = true;
            sum -= weights[at];
        }
    }
    chosen
}

/// The weights in their largest common unit, or in the smallest one in which their sum, times
/// their count, is not too large.
fn rounded(jobs: &[Job]) -> Vec<usize> {
    let weights: Vec<u64> = jobs.iter().map(|job| u64::from(job.weight)).collect();
    let common = weights.iter().copied().fold(0, greatest_common).max(1);
    let sum: u64 = weights.iter().sum();
    let most = (MOST_SUMS / (jobs.len() as u64).max(1)).max(1);
    let unit = common.max(sum.div_ceil(most));
    // Below the unit, the least that counts.
    let rounded = |weight: u64| usize::try_from((weight / unit).max(1)).unwrap_or(usize::MAX);
    weights.into_iter().map(rounded).collect()
}

fn greatest_common(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
