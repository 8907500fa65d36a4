//! Links that do not always carry the same.
//!
//! Rates are constant until a deadline here, so a request counts on the least that a link carries
//! until then: what is admitted needs no more than that at its least rate, nor do those that were
//! admitted before it. When a link comes to carry less, flows on it give up what they can spare,
//! and then, where not even that is enough because the link lost more than was known, whole
//! rates: the late ones first, then those with the latest deadlines.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weir_topology::{LinkId, Path};
use weir_units::{Rate, Time};

use super::book::Slot;
use super::{CalendarError, Calibers, Change, last_of_each};
use crate::calendar::capacity::{Capacity, CapacityPiece};

/// The capacities that change, and as of when flows have been slowed down to them.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacities {
    pub(super) of_links: BTreeMap<LinkId, Capacity>,
    pub(super) as_of: u64,
}

impl Capacities {
    /// The first change that has not been taken up.
    pub(super) fn next_change(&self) -> u64 {
        let changes = self.of_links.values().map(|capacity| capacity.next_change(self.as_of));
        changes.min().unwrap_or(u64::MAX)
    }

    /// When what the path can carry may change, after `now` and in order of time.
    pub(super) fn changes(&self, path: &Path, now: u64) -> Vec<u64> {
        if self.of_links.is_empty() {
            return Vec::new();
        }
        let of_path = path.links().iter().filter_map(|link| self.of_links.get(link));
        let mut changes: Vec<u64> = of_path.flat_map(Capacity::changes).collect();
        changes.retain(|change| *change > now);
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    pub(super) fn is_on(&self, path: &Path) -> bool {
        path.links().iter().any(|link| self.of_links.contains_key(link))
    }
}

impl Calibers {
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
        self.capacities.of_links.insert(link, capacity);
        let mut changes = self.take_up_capacities();
        changes
            .extend(self.book.behind(self.clock).into_iter().flat_map(|slot| self.catch_up(slot)));
        Ok(last_of_each(changes))
    }

    /// Slows flows down to what links carry now, and counts what links carry more as come free.
    pub(super) fn take_up_capacities(&mut self) -> Vec<Change> {
        let links: Vec<LinkId> = self.capacities.of_links.keys().copied().collect();
        let changes = links.into_iter().flat_map(|link| self.take_up(link)).collect();
        self.capacities.as_of = self.clock;
        changes
    }

    fn take_up(&mut self, link: LinkId) -> Vec<Change> {
        let Some(capacity) = self.capacities.of_links.get(&link) else { return Vec::new() };
        let (before, now) = (self.book.link(link).capacity(), capacity.at(self.clock));
        let mut changes = Vec::new();
        if now > before {
            self.freed.insert(link);
        } else if now < self.book.link(link).used() {
            changes = self.squeeze(link, now);
        }
        self.book.set_capacity(link, now);
        changes
    }

    /// Lowers rates on a link until no more than `capacity` is handed out.
    fn squeeze(&mut self, link: LinkId, capacity: u64) -> Vec<Change> {
        let mut slots: Vec<Slot> = self.book.link(link).flows().collect();
        slots.sort_unstable_by_key(|slot| {
            let flow = self.book.flow(*slot);
            (flow.deadline > self.clock, Reverse(flow.deadline), flow.sequence)
        });
        let mut over = self.book.link(link).used() - capacity;
        let mut lowered = Vec::new();
        let spare = |calendar: &Self, slot| calendar.book.flow(slot).slack(calendar.clock);
        let all = |calendar: &Self, slot| calendar.book.flow(slot).rate;
        for part in [&spare as &dyn Fn(&Self, Slot) -> u64, &all] {
            for slot in &slots {
                let less = part(self, *slot).min(over);
                if less > 0 {
                    over -= less;
                    lowered.push(self.set_rate(*slot, self.book.flow(*slot).rate - less));
                }
            }
        }
        last_of_each(lowered)
    }

    /// As [`Calibers::available`], with what links lose until a time taken off.
    pub(super) fn available_until(&self, path: &Path, until: u64) -> (LinkId, u64) {
        if !self.capacities.is_on(path) {
            return self.available(path);
        }
        let of_link = |link: &LinkId| {
            let alone = Path::new(&self.network, vec![*link]);
            let available = alone.map_or(0, |path| self.available(&path).1);
            let capacity = self.book.link(*link).capacity();
            let lost = capacity.saturating_sub(self.least(*link, until));
            (available.saturating_sub(lost), *link)
        };
        let (available, link) =
            path.links().iter().map(of_link).min().expect("a path has at least one link");
        (link, available)
    }

    /// Whether a rate can be kept until that time with every other at its least.
    pub(super) fn lasts(&self, path: &Path, until: u64, rate: u64) -> bool {
        !self.capacities.is_on(path) || self.available_until(path, until).1 >= rate
    }

    /// The least that a link carries from now until a time.
    fn least(&self, link: LinkId, until: u64) -> u64 {
        let known = self.capacities.of_links.get(&link);
        let least = known.map(|capacity| capacity.least(self.clock, until));
        least.unwrap_or(self.book.link(link).capacity())
    }

    /// The most that a link carries at any time.
    pub(super) fn most(&self, link: LinkId) -> u64 {
        let now = self.book.link(link).capacity();
        self.capacities.of_links.get(&link).map_or(now, |capacity| capacity.most().max(now))
    }
}
