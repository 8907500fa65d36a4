//! Transfers with a plan each: what the baselines that reserve have in common.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use weir_topology::{LinkId, Network, Path};
use weir_units::{Rate, Time};

use super::CalendarError;
use super::amount::{Nanobits, nanobits, promised};
use super::planner::{Booking, Candidates, Instruction};
use super::profile::{Own, Profile, Span, Timetable};

/// A reservation: on which of the paths, when, at which rate.
pub(super) type Piece = (usize, Span);

#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) booking: Booking,
    pub(super) paths: Arc<[Path]>,
    pub(super) pieces: Vec<Piece>,
    /// The rate last told on each path.
    told: Vec<u64>,
}

/// What is reserved, by whom.
#[derive(Clone, Debug)]
pub(super) struct Reservations {
    candidates: Candidates,
    pub(super) timetable: Timetable,
    pub(super) transfers: BTreeMap<usize, Transfer>,
    /// When something may change for whom.
    steps: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Transfer {
    /// What it sends, over all paths.
    pub(super) fn sends(&self) -> Profile {
        let mut sends = Profile::default();
        self.pieces.iter().for_each(|(_, span)| sends.add(span));
        sends
    }

    fn rate_at(&self, path: usize, now: u64) -> u64 {
        let is_now = |(on, span): &&Piece| *on == path && span.start <= now && now < span.end;
        self.pieces.iter().filter(is_now).map(|(_, span)| span.rate).sum()
    }

    pub(super) fn shares_link(&self, links: &BTreeSet<LinkId>) -> bool {
        let on = |(path, _): &Piece| self.paths[*path].links().iter().any(|l| links.contains(l));
        self.pieces.iter().any(on)
    }
}

impl Reservations {
    pub(super) fn new(network: Arc<Network>, paths: usize) -> Self {
        Self {
            timetable: Timetable::new(&network),
            candidates: Candidates::new(network, paths),
            transfers: BTreeMap::new(),
            steps: BinaryHeap::new(),
        }
    }

    /// The transfer with nothing reserved yet, and what it needs.
    pub(super) fn draft(
        &mut self,
        booking: Booking,
    ) -> Result<(Transfer, Nanobits), CalendarError> {
        let paths = self.candidates.of(&booking)?;
        let told = vec![0; paths.len()];
        let needed = promised(nanobits(booking.size));
        Ok((Transfer { booking, paths, pieces: Vec::new(), told }, needed))
    }

    /// Reserves as much of `volume` as there is room for on one path, early or late in the window;
    /// returns what found none.
    pub(super) fn reserve(
        &mut self,
        transfer: &mut Transfer,
        path: usize,
        window: (u64, u64),
        volume: Nanobits,
        late: bool,
    ) -> Nanobits {
        let sends = transfer.sends();
        let own = Own { limit: transfer.booking.rate_max.as_bit_per_s(), sends: &sends };
        let links = transfer.paths[path].links();
        let (spans, left) = match late {
            true => self.timetable.latest(links, window, volume, own),
            false => self.timetable.earliest(links, window, volume, own),
        };
        spans.iter().for_each(|span| self.timetable.reserve(links, span));
        transfer.pieces.extend(spans.into_iter().map(|span| (path, span)));
        left
    }

    /// Takes back every reservation from now on.
    pub(super) fn release(&mut self, transfer: &mut Transfer, now: u64) {
        for (path, span) in transfer.pieces.drain(..).filter(|(_, span)| span.end > now) {
            let span = Span { start: span.start.max(now), ..span };
            self.timetable.release(transfer.paths[path].links(), &span);
        }
    }

    /// Enters the transfer with its plan.
    pub(super) fn enter(&mut self, transfer: Transfer, now: u64) {
        let number = transfer.booking.number;
        let edges = transfer.pieces.iter().flat_map(|(_, span)| [span.start, span.end]);
        self.steps.extend(edges.chain([now]).map(|at| Reverse((at.max(now), number))));
        self.transfers.insert(number, transfer);
    }

    pub(super) fn complete(&mut self, now: u64, number: usize) {
        if let Some(mut transfer) = self.transfers.remove(&number) {
            self.release(&mut transfer, now);
        }
        self.timetable.forget(now);
    }

    pub(super) fn next_step(&self) -> Option<Time> {
        self.steps.peek().map(|Reverse((at, _))| Time::from_ns(*at))
    }

    /// The rates that differ from what was told before.
    pub(super) fn tell(&mut self, now: u64) -> Vec<Instruction> {
        let mut touched = BTreeSet::new();
        while let Some(Reverse((_, number))) = self.steps.peek().filter(|next| next.0.0 <= now) {
            touched.insert(*number);
            self.steps.pop();
        }
        let mut orders = Vec::new();
        for number in touched {
            let Some(transfer) = self.transfers.get_mut(&number) else { continue };
            transfer.pieces.retain(|(_, span)| span.end > now);
            for path in 0..transfer.paths.len() {
                let rate = transfer.rate_at(path, now);
                if std::mem::replace(&mut transfer.told[path], rate) != rate {
                    orders.push(Instruction::Send {
                        number,
                        path,
                        rate: Rate::from_bit_per_s(rate),
                    });
                }
            }
        }
        orders
    }
}
