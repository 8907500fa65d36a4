//! The repair of levels after an event.
//!
//! Two things hold at all times, for any levels: each class is in the group of the lowest link of
//! its route, and `others` of a link sums the rates of the classes that cross it from other
//! groups. What an event breaks is that each link is full: that its level is what its capacity
//! leaves to its members. `doubtful` keeps the links for which that is broken, each with the lower
//! of the level it has and the level it should have by what crosses it now.
//!
//! The link with the lowest such key is repaired first. Nothing below the key can still change: a
//! level depends only on rates below it, and all links with levels below the key are full. A link
//! whose level falls is then done for good; one whose level rises is done unless a higher link is
//! found too full later and falls to or below it. So the repair ends, and reaches exactly the
//! links whose level changes and their neighbours. (The order is that of the incremental shortest
//! path algorithm of Ramalingam and Reps, 1996; the argument differs, since a level falls when
//! others rise.)

use super::{FairShare, Rule};
use crate::heap;

/// Relative difference below which two levels are the same.
pub(super) const TOLERANCE: f64 = 1e-12;

impl FairShare {
    /// Repairs all levels that the events at `now` have put in doubt.
    pub fn settle(&mut self, now: f64) {
        let mut patience = 1000 + 64 * self.groups.len();
        while let Some((key, link)) = self.doubtful.first() {
            patience -= 1;
            if patience == 0 {
                // Rounding keeps two equal levels chasing each other.
                self.tolerance *= 10.0;
                self.coarse += u64::from(self.tolerance < 11.0 * TOLERANCE);
                patience = 1000 + 64 * self.groups.len();
            }
            self.repair(link, key, now);
        }
        self.tolerance = TOLERANCE;
        while let Some(group) = self.changed.pop() {
            self.reschedule(group, now);
        }
    }

    /// Gives the first link in doubt the level it should have; or only a better key, if there is
    /// another link to go first.
    fn repair(&mut self, link: u32, key: f64, now: f64) {
        let level = self.levels[link as usize];
        let target = self.target(link);
        if target > level {
            self.set_level(link, target, now);
            return;
        }
        // To start from `target` alone would end at the same levels, over more steps.
        let target = self.water_level(link, key.max(target));
        if target > key && !self.same(target, key) {
            self.doubtful.set(link, target);
            if self.doubtful.first().is_none_or(|(_, first)| first != link) {
                return;
            }
        }
        self.set_level(link, target, now);
    }

    /// The level at which the link is full if its other flows keep their rates: right if it is
    /// above all of these, and otherwise below the right one.
    fn target(&self, link: u32) -> f64 {
        let load = &self.loads[link as usize];
        match self.rule {
            Rule::EqualSplit if load.crossing > 0.0 => load.capacity / load.crossing,
            Rule::EqualSplit => f64::INFINITY,
            Rule::MaxMin if load.members > 0.0 => load.left(load.others) / load.members,
            Rule::MaxMin if load.others <= load.capacity + load.grain => f64::INFINITY,
            Rule::MaxMin => 0.0,
        }
    }

    /// The level at which the link is full if no flow on it is above that level. Newton's method
    /// on a concave function, from below: `from` must not be above the level sought.
    fn water_level(&self, link: u32, from: f64) -> f64 {
        let load = &self.loads[link as usize];
        let mut level = from.max(load.capacity / load.crossing);
        if self.rule == Rule::EqualSplit {
            return load.capacity / load.crossing;
        }
        loop {
            let (mut below, mut above) = (0.0, load.members);
            for crossed in self.pairs.row(link) {
                let (rate, weight) =
                    (self.levels[crossed.group as usize], self.pairs.crossing(*crossed).weight);
                if rate <= level {
                    below += weight * rate;
                } else {
                    above += weight;
                }
            }
            let next = load.left(below) / above;
            if above == 0.0 || next <= level * (1.0 + 1e-15) {
                return level;
            }
            level = next;
        }
    }

    fn same(&self, a: f64, b: f64) -> bool {
        // The difference to infinity is infinite, and not within any share of it.
        a == b || (a - b).abs() < self.tolerance * a.max(b)
    }

    /// Sets a level and does what follows: clocks, the rates on other links, and classes whose
    /// lowest link this now is, or no longer is.
    fn set_level(&mut self, link: u32, level: f64, now: f64) {
        self.advance(link, now);
        let old = std::mem::replace(&mut self.levels[link as usize], level);
        if !self.groups[link as usize].held.is_empty() {
            self.mark(link);
            let change = level - old;
            for at in 0..self.pairs.column(link).len() {
                let crossing = self.pairs.column(link)[at];
                let load = &mut self.loads[crossing.link as usize];
                load.others += crossing.weight * change;
                load.changes += 1;
                self.touch(crossing.link);
            }
        }
        if level < old {
            self.take_over(link, now);
        } else {
            self.give_away(link, now);
        }
        self.touch(link);
    }

    /// Moves to `link` the classes that cross it and whose rate is above its level.
    fn take_over(&mut self, link: u32, now: f64) {
        let ceiling = self.levels[link as usize] * (1.0 + self.tolerance);
        let mut moving = std::mem::take(&mut self.moving);
        for crossed in self.pairs.row(link) {
            if self.levels[crossed.group as usize] <= ceiling {
                continue;
            }
            let mut left = self.pairs.crossing(*crossed).classes;
            for (_, class) in &self.groups[crossed.group as usize].held {
                if self.classes.crosses(*class, link) {
                    moving.push((*class, link));
                    left -= 1;
                    if left == 0 {
                        break;
                    }
                }
            }
        }
        self.transfer_all(moving, now);
    }

    /// Moves away from `link` the classes that now have a lower link on their route.
    fn give_away(&mut self, link: u32, now: f64) {
        let floor = self.levels[link as usize] * (1.0 - self.tolerance);
        let column = self.pairs.column(link);
        if !column.iter().any(|crossing| self.levels[crossing.link as usize] < floor) {
            return;
        }
        let mut moving = std::mem::take(&mut self.moving);
        for (_, class) in &self.groups[link as usize].held {
            let lowest = self.lowest(self.classes.links(*class));
            if self.levels[lowest as usize] < floor {
                moving.push((*class, lowest));
            }
        }
        self.transfer_all(moving, now);
    }

    /// The link of the lowest level; the first of several.
    pub(super) fn lowest(&self, links: &[u32]) -> u32 {
        let mut lowest = links[0];
        for link in &links[1..] {
            if self.levels[*link as usize] < self.levels[lowest as usize] {
                lowest = *link;
            }
        }
        lowest
    }

    fn transfer_all(&mut self, mut moving: Vec<(u32, u32)>, now: f64) {
        for (class, to) in moving.drain(..) {
            self.transfer(class, to, now);
        }
        self.moving = moving;
    }

    /// Moves a class from its group to another.
    fn transfer(&mut self, class: u32, to: u32, now: f64) {
        let from = self.classes[class].group;
        self.advance(from, now);
        self.advance(to, now);
        let (old, new) = (self.levels[from as usize], self.levels[to as usize]);
        let weight = self.classes[class].weight;
        for at in self.classes.span(class) {
            let link = self.classes.link(at);
            let load = &mut self.loads[link as usize];
            load.changes += 1;
            if link == from {
                load.members -= weight;
            } else {
                load.others -= weight * old;
                if self.pairs.leave(link, from, weight) {
                    load.others = 0.0;
                }
            }
            if link == to {
                load.members += weight;
            } else {
                load.others += weight * new;
                self.pairs.enter(link, to, weight);
            }
        }
        let clocks = self.groups[from as usize].clock - self.groups[to as usize].clock;
        heap::remove(&mut self.groups[from as usize].held, &mut self.classes.positions, class);
        self.classes[class].group = to;
        self.classes[class].offset += clocks;
        self.requeue(class);
        self.mark(from);
        self.touch_all(class);
    }

    /// Puts a class with flows but without a group where it belongs.
    pub(super) fn hold(&mut self, now: f64, class: u32) {
        let weight = self.classes[class].weight;
        for at in self.classes.span(class) {
            self.loads[self.classes.link(at) as usize].crossing += weight;
        }
        let mut group = self.lowest(self.classes.links(class));
        let is_new = self.levels[group as usize].is_infinite();
        if is_new {
            group = self.fullest(class);
        }
        self.advance(group, now);
        self.loads[group as usize].members += weight;
        if is_new {
            self.levels[group as usize] = self.water_level(group, 0.0);
        }
        let level = self.levels[group as usize];
        for at in self.classes.span(class) {
            let link = self.classes.link(at);
            if link != group {
                self.pairs.enter(link, group, weight);
                self.loads[link as usize].others += weight * level;
                self.loads[link as usize].changes += 1;
            }
        }
        self.classes[class].group = group;
        self.classes[class].offset = -self.groups[group as usize].clock;
        self.requeue(class);
        if is_new {
            self.take_over(group, now);
        }
        self.touch_all(class);
    }

    /// The link that leaves a new class least, on a route where no link holds anybody back.
    fn fullest(&self, class: u32) -> u32 {
        let spare = |link: u32| {
            let load = &self.loads[link as usize];
            match self.rule {
                Rule::MaxMin => load.capacity - load.others,
                Rule::EqualSplit => load.capacity / load.crossing,
            }
        };
        let links = self.classes.links(class).iter().copied();
        links.min_by(|a, b| spare(*a).total_cmp(&spare(*b))).expect("a route has links")
    }

    /// Takes a class whose flows have all ended out of its group.
    pub(super) fn release(&mut self, class: u32) {
        let (group, weight) = (self.classes[class].group, self.classes[class].weight);
        let level = self.levels[group as usize];
        for at in self.classes.span(class) {
            let link = self.classes.link(at);
            let entry = &mut self.loads[link as usize];
            entry.crossing -= weight;
            if link == group {
                entry.members -= weight;
            } else {
                entry.others -= weight * level;
                entry.changes += 1;
                if self.pairs.leave(link, group, weight) {
                    entry.others = 0.0;
                }
            }
        }
        heap::remove(&mut self.groups[group as usize].held, &mut self.classes.positions, class);
        self.mark(group);
        self.touch_all(class);
        self.free_limits.extend(self.classes[class].limit());
        self.classes.discard(class);
    }

    /// The weight of a class has changed by `change`.
    pub(super) fn reweigh(&mut self, class: u32, change: f64) {
        let group = self.classes[class].group;
        let level = self.levels[group as usize];
        self.classes[class].weight += change;
        for at in self.classes.span(class) {
            let link = self.classes.link(at);
            let entry = &mut self.loads[link as usize];
            entry.crossing += change;
            if link == group {
                entry.members += change;
            } else {
                entry.others += change * level;
                entry.changes += 1;
                self.pairs.adjust(link, group, change);
            }
        }
        self.touch_all(class);
    }

    /// The first end in a class may be another.
    pub(super) fn requeue(&mut self, class: u32) {
        let group = self.classes[class].group;
        if let Some(end) = self.classes[class].first_end() {
            let held = &mut self.groups[group as usize].held;
            heap::set(held, &mut self.classes.positions, class, end);
        }
        self.mark(group);
    }

    /// The group's next end may be at another time.
    pub(super) fn mark(&mut self, group: u32) {
        let entry = &mut self.groups[group as usize];
        if !entry.is_changed {
            entry.is_changed = true;
            self.changed.push(group);
        }
    }

    fn reschedule(&mut self, group: u32, now: f64) {
        self.advance(group, now);
        let entry = &mut self.groups[group as usize];
        entry.is_changed = false;
        let Some((end, _)) = entry.held.first() else {
            // Starting again at zero keeps the clock's readings small, and so precise.
            entry.clock = 0.0;
            self.due.remove(group);
            return;
        };
        let level = self.levels[group as usize];
        if level > 0.0 {
            self.due.set(group, now + (end - entry.clock).max(0.0) / level);
        } else {
            self.due.remove(group);
        }
    }

    fn touch_all(&mut self, class: u32) {
        for at in self.classes.span(class) {
            self.touch(self.classes.link(at));
        }
    }

    /// What crosses the link, or its capacity, has changed: is its level still right?
    pub(super) fn touch(&mut self, link: u32) {
        self.report_touched(link);
        let load = &self.loads[link as usize];
        if load.fixed {
            return;
        }
        if load.changes > 8 {
            self.sum_up(link);
        }
        let load = &self.loads[link as usize];
        if load.members == 0.0 && self.rule == Rule::MaxMin {
            self.levels[link as usize] = f64::INFINITY;
        }
        let (level, target) = (self.levels[link as usize], self.target(link));
        if self.same(level, target) {
            self.doubtful.remove(link);
        } else if target > level {
            self.doubtful.set(link, level);
        } else {
            self.doubtful.set(link, target.max(load.capacity / load.crossing));
        }
    }

    /// Sums the rates on the link up anew once it has been changed as often as there are terms,
    /// which bounds the rounding error by that of one sum. To do it less often is slower: errors
    /// then pass for changes, and are repaired.
    fn sum_up(&mut self, link: u32) {
        let row = self.pairs.row(link);
        let load = &mut self.loads[link as usize];
        if load.changes as usize > 8 + row.len() {
            load.changes = 0;
            let rate = |crossed: &super::pairs::Crossed| {
                self.levels[crossed.group as usize] * self.pairs.crossing(*crossed).weight
            };
            load.others = row.iter().map(rate).sum();
        }
    }

    fn report_touched(&mut self, link: u32) {
        let load = &mut self.loads[link as usize];
        if let Some(touched) = &mut self.touched
            && !load.is_touched
            && (link as usize) < self.link_count
        {
            load.is_touched = true;
            touched.push(link);
        }
    }
}
