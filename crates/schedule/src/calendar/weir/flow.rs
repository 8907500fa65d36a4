//! One admitted transfer: what it still has to send, what is reserved for it, what it sends now.

use std::ops::Deref;
use std::sync::Arc;

use weir_topology::{LinkId, Path};
use weir_units::{Bytes, Rate, Time};

use crate::calendar::amount::{NANOBITS_PER_BYTE, Nanobits, nanobits, promised};
use crate::calendar::profile::{Own, Profile, Span, Timetable};
use crate::calendar::request::{FlowId, FlowState, Split};

/// Where reports say what moved, this part of what remains is reserved on top where there is room:
/// callers come late, connections start slowly. It is nobody's promise, and gives way to a new one.
const CUSHION: Nanobits = 128;

/// The paths that a transfer may take, the shortest first.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    /// Which set of paths it is, counted from zero: so many between such a pair of nodes.
    pub(super) set: usize,
    all: Arc<[Arc<Path>]>,
}

impl Paths {
    pub(super) fn new(set: usize, paths: &[Arc<Path>]) -> Self {
        Self { set, all: paths.into() }
    }
}

impl Deref for Paths {
    type Target = [Arc<Path>];

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

/// What is reserved on one of the paths for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// By position among the paths.
    pub(super) path: usize,
    pub(super) span: Span,
}

#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) id: FlowId,
    pub(super) paths: Paths,
    /// What was admitted, which is less than what was asked for if that was offered.
    pub(super) size: Bytes,
    pub(super) start: u64,
    pub(super) deadline: u64,
    /// In bit/s.
    pub(super) limit: u64,
    /// How much it is worth against others.
    pub(super) weight: u32,
    /// What was left at `as_of`.
    pub(super) remaining: Nanobits,
    /// What was left when it was last reported, where reports say so: for so much room is kept.
    /// `None` where everybody does exactly as told.
    pub(super) measured: Option<Nanobits>,
    pub(super) as_of: u64,
    /// What it sends since then, on each path, in bit/s.
    pub(super) rates: Vec<u64>,
    /// What is reserved for it from `as_of` on, by start. It is enough for what remains, unless
    /// the flow is behind.
    pub(super) pieces: Vec<Piece>,
}

impl Flow {
    /// When it may send, from now on.
    pub(super) fn window(&self, now: u64) -> (u64, u64) {
        (self.start.max(now), self.deadline)
    }

    pub(super) fn links(&self, path: usize) -> &[LinkId] {
        self.paths[path].links()
    }

    pub(super) fn rate(&self) -> u64 {
        self.rates.iter().sum()
    }

    pub(super) fn remaining_at(&self, now: u64) -> Nanobits {
        let sent = u128::from(self.rate()) * u128::from(now - self.as_of);
        self.remaining.saturating_sub(sent)
    }

    /// Takes note of what was sent since `as_of`, and gives back what need no longer be reserved.
    pub(super) fn settle(&mut self, now: u64, timetable: &mut Timetable) {
        // Most wait for their turn.
        if self.rate() == 0 && self.pieces.iter().all(|piece| piece.span.start >= now) {
            self.as_of = now;
            return;
        }
        self.remaining = self.remaining_at(now);
        self.as_of = now;
        for piece in &mut self.pieces {
            // What lies in the past is forgotten by the timetable itself.
            piece.span.start = piece.span.start.max(now).min(piece.span.end);
        }
        self.trim(timetable);
    }

    /// Sends at these rates from now on. It is settled, if it sent before.
    pub(super) fn send(&mut self, now: u64, rates: Vec<u64>) {
        (self.as_of, self.rates) = (now, rates);
    }

    /// Sets what remains, as measured.
    pub(super) fn correct(&mut self, remaining: Nanobits, timetable: &mut Timetable) {
        self.remaining = remaining;
        self.measured = self.measured.map(|_| remaining);
        self.trim(timetable);
    }

    /// Gives back, of what is reserved beyond what remains, what comes first: the later
    /// reservations are the ones that leave the most room to urgent requests.
    fn trim(&mut self, timetable: &mut Timetable) {
        let freed = self.first(self.reserved().saturating_sub(self.promised()));
        for (at, span) in &freed {
            timetable.release(self.paths[self.pieces[*at].path].links(), span);
        }
        self.give(&freed);
    }

    /// The first so much of what is reserved, each span with the piece that it begins.
    fn first(&self, volume: Nanobits) -> Vec<(usize, Span)> {
        let (mut left, mut found) = (volume, Vec::new());
        for (at, piece) in self.pieces.iter().enumerate() {
            let Span { start, end, rate } = piece.span;
            // No more than end - start, which is 64 bits.
            let cut = start + (left / u128::from(rate)).min(u128::from(end - start)) as u64;
            if cut > start {
                let span = Span { start, end: cut, rate };
                left -= span.volume();
                found.push((at, span));
            }
        }
        found
    }

    /// What is reserved beyond what was promised, and comes first.
    pub(super) fn cushion(&self) -> Vec<(usize, Span)> {
        self.first(self.reserved().saturating_sub(self.bare()))
    }

    /// Has these first parts of its pieces no more, which are released.
    pub(super) fn give(&mut self, freed: &[(usize, Span)]) {
        freed.iter().for_each(|(at, span)| self.pieces[*at].span.start = span.end);
        self.pieces.retain(|piece| piece.span.start < piece.span.end);
    }

    fn reserved(&self) -> Nanobits {
        self.pieces.iter().map(|piece| piece.span.volume()).sum()
    }

    /// What is to be reserved.
    pub(super) fn promised(&self) -> Nanobits {
        self.bare() + self.measured.map_or(0, |left| left / CUSHION)
    }

    /// What is to be reserved though somebody else finds no room then: all but the cushion.
    pub(super) fn bare(&self) -> Nanobits {
        promised(self.measured.unwrap_or(self.remaining))
    }

    /// What must be reserved for its deadline to hold and is not: of all that remains where
    /// reports say what moved; where nobody does, of what two clocks may differ by, too.
    pub(super) fn unkept(&self) -> Nanobits {
        let needed = if self.measured.is_some() { self.remaining } else { self.promised() };
        needed.saturating_sub(self.reserved())
    }

    /// Makes do with what is reserved, which lacks that much, if it is no less than `least`.
    pub(super) fn shrink(
        &mut self,
        lacking: Nanobits,
        least: Option<Bytes>,
        timetable: &mut Timetable,
    ) -> bool {
        let sent = nanobits(self.size).saturating_sub(self.remaining);
        let by_deadline = sent + self.remaining.saturating_sub(lacking);
        let bytes = by_deadline / u128::from(NANOBITS_PER_BYTE);
        let fits = Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX));
        let is_enough = least.is_some_and(|least| fits >= least);
        if is_enough {
            self.size = fits;
            self.correct(nanobits(fits).saturating_sub(sent), timetable);
        }
        is_enough
    }

    /// What remains and is not promised; above zero only when the flow is behind.
    pub(super) fn lacking(&self) -> Nanobits {
        self.remaining.saturating_sub(self.reserved())
    }

    /// Reserves room for `volume` more from now on by the deadline, as late as possible on the
    /// first path of `order`, then what found none there on the next.
    pub(super) fn reserve(
        &mut self,
        now: u64,
        volume: Nanobits,
        order: &[usize],
        timetable: &mut Timetable,
    ) {
        let mut sends = Profile::default();
        self.pieces.iter().for_each(|piece| sends.add(&piece.span));
        let mut left = volume;
        for &path in order {
            let links = self.paths[path].links();
            let own = Own { limit: self.limit, sends: &sends };
            let (spans, rest) = timetable.latest(links, self.window(now), left, own);
            for span in spans {
                timetable.reserve(links, &span);
                sends.add(&span);
                self.pieces.push(Piece { path, span });
            }
            left = rest;
            if left == 0 {
                break;
            }
        }
        self.pieces.sort_unstable_by_key(|piece| (piece.span.start, piece.path));
    }

    /// Reserves what the plan for it lacks, as far as there is room.
    pub(super) fn refill(&mut self, now: u64, order: &[usize], timetable: &mut Timetable) {
        self.reserve(now, self.unplanned(), order, timetable);
    }

    /// What is to be reserved and is not.
    pub(super) fn unplanned(&self) -> Nanobits {
        self.promised().saturating_sub(self.reserved())
    }

    /// Gives back all that is reserved.
    pub(super) fn release(&mut self, timetable: &mut Timetable) {
        for Piece { path, span } in self.pieces.drain(..) {
            timetable.release(self.paths[path].links(), &span);
        }
    }

    /// Reserves what was reserved before.
    pub(super) fn restore(&mut self, pieces: Vec<Piece>, timetable: &mut Timetable) {
        for piece in &pieces {
            timetable.reserve(self.paths[piece.path].links(), &piece.span);
        }
        self.pieces = pieces;
    }

    /// Whether anything is reserved for it on a link.
    pub(super) fn is_on(&self, link: LinkId) -> bool {
        self.pieces.iter().any(|piece| self.links(piece.path).contains(&link))
    }

    /// Until when it can go on at its rate without falling behind what is reserved for it.
    pub(super) fn falls_behind(&self) -> u64 {
        if self.rate() == 0 {
            let starts = self.pieces.iter().map(|piece| piece.span.start);
            return starts.min().unwrap_or(u64::MAX);
        }
        let sends = u128::from(self.rate());
        let mut edges: Vec<(u64, i128)> = Vec::with_capacity(2 * self.pieces.len());
        for Piece { span, .. } in &self.pieces {
            edges.extend([(span.start, i128::from(span.rate)), (span.end, -i128::from(span.rate))]);
        }
        edges.sort_unstable();
        // From `at` on `owed` is due per ns; what was sent by then is `ahead` of what was due.
        let (mut at, mut owed) = (self.as_of, 0_u128);
        let mut ahead = self.reserved().saturating_sub(self.promised());
        for (edge, change) in edges {
            let span = u128::from(edge - at);
            if owed > sends && (owed - sends) * span > ahead {
                // At most the span, which is 64 bits.
                return at + (ahead / (owed - sends)) as u64;
            }
            ahead = (ahead + sends * span).saturating_sub(owed * span);
            (at, owed) = (edge, owed.saturating_add_signed(change));
        }
        u64::MAX
    }

    /// Whether more is reserved for it now than it sends.
    pub(super) fn has_come(&self, now: u64) -> bool {
        self.owed(now).map(|(_, rate)| rate).sum::<u64>() > self.rate()
    }

    /// What it has to send on each path now.
    pub(super) fn owed(&self, now: u64) -> impl Iterator<Item = (usize, u64)> + '_ {
        let current = move |piece: &&Piece| piece.span.start <= now && now < piece.span.end;
        self.pieces.iter().filter(current).map(|piece| (piece.path, piece.span.rate))
    }

    pub(super) fn split(&self) -> Split {
        let used = self.paths.iter().zip(&self.rates).filter(|(_, rate)| **rate > 0);
        used.map(|(path, rate)| (Arc::clone(path), Rate::from_bit_per_s(*rate))).collect()
    }

    /// What it sends on each of its paths.
    pub(super) fn lanes(&self) -> Split {
        let all = self.paths.iter().zip(&self.rates);
        all.map(|(path, rate)| (Arc::clone(path), Rate::from_bit_per_s(*rate))).collect()
    }

    /// Gives up all paths but these, which are the first of its own, and what is reserved on the
    /// others. It is settled.
    pub(super) fn narrow(&mut self, paths: Paths, timetable: &mut Timetable) {
        let kept = paths.len();
        for piece in self.pieces.extract_if(.., |piece| piece.path >= kept) {
            timetable.release(self.paths[piece.path].links(), &piece.span);
        }
        self.rates.truncate(kept);
        self.paths = paths;
    }

    pub(super) fn state(&self, now: u64) -> FlowState {
        if self.deadline <= now {
            FlowState::Late
        } else if self.remaining_at(now) == 0 {
            FlowState::Finishing
        } else if self.lacking() > 0 {
            FlowState::AtRisk
        } else {
            FlowState::OnTime
        }
    }

    pub(super) fn remaining_bytes(&self, now: u64) -> Bytes {
        let bytes = self.remaining_at(now).div_ceil(u128::from(NANOBITS_PER_BYTE));
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// When it ends at this rate, or by its plan if it does not send; [`Time::MAX`] if it does not
    /// end.
    pub(super) fn completion(&self) -> Time {
        let Some(span) = self.remaining.checked_div(u128::from(self.rate())) else {
            let last = self.pieces.iter().map(|piece| piece.span.end).max();
            return last.filter(|_| self.lacking() == 0).map_or(Time::MAX, Time::from_ns);
        };
        let span = u64::try_from(span + 1).unwrap_or(u64::MAX);
        Time::from_ns(self.as_of.saturating_add(span))
    }
}
