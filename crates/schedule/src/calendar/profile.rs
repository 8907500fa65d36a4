//! What is reserved of each link over time: the book of a calendar that plans ahead.
//!
//! A [`Profile`] is a step function, exact in ns and bit/s. A [`Timetable`] has one for each link
//! and answers the two questions of planning: how late, or how early, could so much data be sent
//! along a path beside what is reserved?

use weir_topology::{LinkId, Network};

use super::amount::Nanobits;

/// A rate from one time to the next, on some path; times in ns, the rate in bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) rate: u64,
}

impl Span {
    /// What is sent in it.
    pub(crate) fn volume(&self) -> Nanobits {
        u128::from(self.rate) * u128::from(self.end - self.start)
    }
}

/// A rate over time: zero before the first step and after the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    /// From when which rate, in bit/s; ascending, neighbours differ, the last one is zero.
    steps: Vec<(u64, u64)>,
}

impl Profile {
    /// How many steps begin at or before that time.
    fn after(&self, time: u64) -> usize {
        self.steps.partition_point(|(from, _)| *from <= time)
    }

    /// Adds the span's rate while it lasts.
    pub(crate) fn add(&mut self, span: &Span) {
        self.change(span, |rate| rate + span.rate);
    }

    /// Takes the span's rate away while it lasts; it was added before.
    pub(crate) fn subtract(&mut self, span: &Span) {
        self.change(span, |rate| rate - span.rate);
    }

    fn enter(&mut self, entry: &Entry) {
        match entry.is_reserved {
            true => self.add(&entry.span),
            false => self.subtract(&entry.span),
        }
    }

    fn change(&mut self, span: &Span, to: impl Fn(u64) -> u64) {
        if span.start >= span.end || span.rate == 0 {
            return;
        }
        // In this order: a step inserted at the end does not move the one at the start.
        let (first, last) = (self.step_at(span.start), self.step_at(span.end));
        for step in &mut self.steps[first..last] {
            step.1 = to(step.1);
        }
        self.join(last);
        self.join(first);
    }

    /// Makes sure that a step begins at that time, and says which.
    fn step_at(&mut self, time: u64) -> usize {
        let at = self.after(time);
        if at > 0 && self.steps[at - 1].0 == time {
            return at - 1;
        }
        let rate = at.checked_sub(1).map_or(0, |before| self.steps[before].1);
        self.steps.insert(at, (time, rate));
        at
    }

    /// Drops a step that changes nothing.
    fn join(&mut self, at: usize) {
        let before = at.checked_sub(1).map_or(0, |before| self.steps[before].1);
        if self.steps[at].1 == before {
            self.steps.remove(at);
        }
    }

    /// Whether it would stay within the limit with the span added.
    pub(crate) fn has_room(&self, span: &Span, limit: u64) -> bool {
        let first = self.after(span.start).saturating_sub(1);
        let meets = |step: &&(u64, u64)| step.0 < span.end;
        let mut rates = self.steps[first..].iter().take_while(meets).map(|step| step.1);
        span.rate <= limit && rates.all(|rate| rate <= limit - span.rate)
    }

    /// Drops what lies before that time.
    pub(crate) fn forget(&mut self, before: u64) {
        let gone = self.after(before).saturating_sub(1);
        if gone > 0 {
            self.steps.drain(..gone);
        }
        if self.steps.len() == 1 {
            self.steps.clear();
        }
    }
}

/// What is reserved of every link.
#[derive(Clone, Debug)]
pub(crate) struct Timetable {
    capacities: Vec<u64>,
    profiles: Vec<Profile>,
    /// While it may be taken back: what was reserved or released since, in this order.
    since: Option<Vec<Entry>>,
}

/// What was done to a link: a span reserved there, or released.
#[derive(Clone, Copy, Debug)]
struct Entry {
    link: LinkId,
    span: Span,
    is_reserved: bool,
}

/// What one transfer may send, beside what it already sends on other paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own<'a> {
    /// In bit/s, over all its paths.
    pub(crate) limit: u64,
    /// What it sends already.
    pub(crate) sends: &'a Profile,
}

impl Timetable {
    /// Nothing is reserved yet.
    pub(crate) fn new(network: &Network) -> Self {
        let capacity = |link| network.link(link).capacity.as_bit_per_s();
        let capacities: Vec<u64> = network.links().map(capacity).collect();
        Self { profiles: vec![Profile::default(); capacities.len()], capacities, since: None }
    }

    /// Makes a link carry at most that, and less where something is missing of it. `missing` was
    /// handed in before, and neither begins before what is forgotten.
    pub(crate) fn set_capacity(
        &mut self,
        link: LinkId,
        missing: &[Span],
        most: u64,
        from_now: &[Span],
    ) {
        let profile = &mut self.profiles[link.index()];
        missing.iter().for_each(|span| profile.subtract(span));
        from_now.iter().for_each(|span| profile.add(span));
        self.capacities[link.index()] = most;
    }

    /// The most that a link carries at any time.
    pub(crate) fn most(&self, link: LinkId) -> u64 {
        self.capacities[link.index()]
    }

    /// Whether a link carries all that is reserved on it from some time on. What was missing of it
    /// before then says nothing.
    pub(crate) fn holds(&self, link: LinkId, from: u64) -> bool {
        let (most, profile) = (self.capacities[link.index()], &self.profiles[link.index()]);
        let first = profile.after(from).saturating_sub(1);
        profile.steps[first..].iter().all(|(_, rate)| *rate <= most)
    }

    /// Whether each of the links has room for the span.
    pub(crate) fn has_room(&self, links: &[LinkId], span: &Span) -> bool {
        let has_room = |link: &LinkId| {
            let at = link.index();
            self.profiles[at].has_room(span, self.capacities[at])
        };
        links.iter().all(has_room)
    }

    /// Reserves the span on each of the links; there is room for it.
    pub(crate) fn reserve(&mut self, links: &[LinkId], span: &Span) {
        self.enter(links, span, true);
    }

    /// Takes back what was reserved.
    pub(crate) fn release(&mut self, links: &[LinkId], span: &Span) {
        self.enter(links, span, false);
    }

    fn enter(&mut self, links: &[LinkId], span: &Span, is_reserved: bool) {
        for link in links {
            let entry = Entry { link: *link, span: *span, is_reserved };
            self.profiles[link.index()].enter(&entry);
            self.since.iter_mut().for_each(|since| since.push(entry));
        }
    }

    /// From now on it is kept what is reserved and released, so that it can be taken back.
    pub(crate) fn note(&mut self) {
        self.since = Some(Vec::new());
    }

    /// Takes back all that was reserved and released since [`Timetable::note`].
    pub(crate) fn take_back(&mut self) {
        for entry in self.since.take().into_iter().flatten().rev() {
            let undone = Entry { is_reserved: !entry.is_reserved, ..entry };
            self.profiles[entry.link.index()].enter(&undone);
        }
    }

    /// Drops what lies before that time, unless it may have to be taken back.
    pub(crate) fn forget(&mut self, before: u64) {
        if self.since.is_none() {
            self.profiles.iter_mut().for_each(|profile| profile.forget(before));
        }
    }

    /// All that is reserved of a link from some time on.
    pub(crate) fn reserved(&self, link: LinkId, from: u64) -> Nanobits {
        let profile = &self.profiles[link.index()];
        let steps = &profile.steps[profile.after(from).saturating_sub(1)..];
        let volume = |pair: &[(u64, u64)]| {
            let [(start, rate), (end, _)] = pair else { return 0 };
            u128::from(*rate) * u128::from(end.saturating_sub(from.max(*start)))
        };
        steps.windows(2).map(volume).sum()
    }

    /// The share of a link that is reserved in `[from, until)`; none of an empty span.
    pub(crate) fn filled(&self, link: LinkId, (from, until): (u64, u64)) -> f64 {
        let profile = &self.profiles[link.index()];
        let (mut volume, mut at) = (0_u128, profile.after(from).saturating_sub(1));
        while let Some((start, rate)) = profile.steps.get(at).filter(|step| step.0 < until) {
            let end = profile.steps.get(at + 1).map_or(until, |step| step.0.min(until));
            volume += u128::from(*rate) * u128::from(end.saturating_sub(from.max(*start)));
            at += 1;
        }
        let all =
            u128::from(self.capacities[link.index()]) * u128::from(until.saturating_sub(from));
        if all > 0 { volume as f64 / all as f64 } else { 0.0 }
    }

    /// Room for up to `volume` in `[from, until)`, as late as possible: the spans, latest first,
    /// and how much found no room.
    pub(crate) fn latest(
        &self,
        links: &[LinkId],
        (from, until): (u64, u64),
        volume: Nanobits,
        own: Own<'_>,
    ) -> (Vec<Span>, Nanobits) {
        let mut cursors: Vec<Cursor<'_>> = self.cursors(links, own).collect();
        cursors.iter_mut().for_each(|cursor| cursor.next = cursor.profile.after(until.max(1) - 1));
        let (mut spans, mut left, mut end) = (Vec::new(), volume, until);
        while left > 0 && end > from {
            let start = cursors.iter().map(Cursor::start).max().unwrap_or(0).max(from);
            let rate = cursors.iter().map(Cursor::free).min().unwrap_or(0);
            if rate > 0 {
                let needed = left.div_ceil(u128::from(rate)).min(u128::from(end - start));
                // At most end - start, which is 64 bits.
                let span = Span { start: end - needed as u64, end, rate };
                left = left.saturating_sub(span.volume());
                push_before(&mut spans, span);
            }
            cursors.iter_mut().filter(|cursor| cursor.start() >= start).for_each(Cursor::back);
            end = start;
        }
        (spans, left)
    }

    /// As [`Timetable::latest`], as early as possible: the earliest span first.
    pub(crate) fn earliest(
        &self,
        links: &[LinkId],
        (from, until): (u64, u64),
        volume: Nanobits,
        own: Own<'_>,
    ) -> (Vec<Span>, Nanobits) {
        let mut cursors: Vec<Cursor<'_>> = self.cursors(links, own).collect();
        cursors.iter_mut().for_each(|cursor| cursor.next = cursor.profile.after(from));
        let (mut spans, mut left, mut start): (Vec<Span>, _, _) = (Vec::new(), volume, from);
        while left > 0 && start < until {
            let end = cursors.iter().map(Cursor::end).min().unwrap_or(until).min(until);
            let rate = cursors.iter().map(Cursor::free).min().unwrap_or(0);
            if rate > 0 {
                let needed = left.div_ceil(u128::from(rate)).min(u128::from(end - start));
                let span = Span { start, end: start + needed as u64, rate };
                left = left.saturating_sub(span.volume());
                match spans.last_mut() {
                    Some(last) if last.end == start && last.rate == rate => last.end = span.end,
                    _ => spans.push(span),
                }
            }
            cursors.iter_mut().filter(|cursor| cursor.end() <= end).for_each(|c| c.next += 1);
            start = end;
        }
        (spans, left)
    }

    fn cursors<'a>(
        &'a self,
        links: &'a [LinkId],
        own: Own<'a>,
    ) -> impl Iterator<Item = Cursor<'a>> {
        let of = |profile, capacity| Cursor { profile, capacity, next: 0 };
        let on =
            move |link: &LinkId| of(&self.profiles[link.index()], self.capacities[link.index()]);
        links.iter().map(on).chain([of(own.sends, own.limit)])
    }
}

/// Adds a span before those that are there, or lengthens the first of them.
fn push_before(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(last) if last.start == span.end && last.rate == span.rate => last.start = span.start,
        _ => spans.push(span),
    }
}

/// A place in a profile: between two of its steps.
struct Cursor<'a> {
    profile: &'a Profile,
    capacity: u64,
    /// The number of steps that begin before this place.
    next: usize,
}

impl Cursor<'_> {
    fn start(&self) -> u64 {
        self.next.checked_sub(1).map_or(0, |at| self.profile.steps[at].0)
    }

    fn end(&self) -> u64 {
        self.profile.steps.get(self.next).map_or(u64::MAX, |step| step.0)
    }

    fn free(&self) -> u64 {
        self.capacity - self.next.checked_sub(1).map_or(0, |at| self.profile.steps[at].1)
    }

    fn back(&mut self) {
        self.next = self.next.saturating_sub(1);
    }
}
