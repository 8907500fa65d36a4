//! What a link can carry over time: maintenance windows, nightly shares, links that fail.

use weir_units::{Rate, Time};

use super::CalendarError;
use super::profile::Span;

/// More than this no link carries, and sums of rates stay far below 64 bits.
const RATE_MAX: u64 = 1 << 62;

/// What a link can carry for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityPiece {
    /// Since when.
    pub from: Time,
    /// Until when; not before or at `from`.
    pub to: Time,
    /// How much; zero if nothing.
    pub rate: Rate,
}

/// The capacity of one link: pieces in order of time, and what there is outside of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    pieces: Vec<CapacityPiece>,
    outside: Rate,
}

impl Capacity {
    /// # Errors
    /// Pieces that are empty or overlap, a rate that no link has.
    pub(super) fn new(pieces: &[CapacityPiece], outside: Rate) -> Result<Self, CalendarError> {
        let mut pieces = pieces.to_vec();
        pieces.sort_by_key(|piece| piece.from);
        if let Some(piece) = pieces.iter().find(|piece| piece.from >= piece.to) {
            return Err(CalendarError::EmptyPiece { from: piece.from, to: piece.to });
        }
        let overlap = pieces.windows(2).find(|pair| pair[1].from < pair[0].to);
        if let Some(pair) = overlap {
            return Err(CalendarError::OverlappingPieces { at: pair[1].from });
        }
        let rates = pieces.iter().map(|piece| piece.rate).chain([outside]);
        match rates.max().filter(|rate| rate.as_bit_per_s() > RATE_MAX) {
            Some(rate) => Err(CalendarError::CapacityTooLarge { rate }),
            None => Ok(Self { pieces, outside }),
        }
    }

    pub(super) fn pieces(&self) -> &[CapacityPiece] {
        &self.pieces
    }

    pub(super) fn outside(&self) -> Rate {
        self.outside
    }

    pub(super) fn at(&self, time: u64) -> u64 {
        let time = Time::from_ns(time);
        let current = self.pieces.iter().find(|piece| piece.from <= time && time < piece.to);
        current.map_or(self.outside, |piece| piece.rate).as_bit_per_s()
    }

    /// The least of a time that is not empty.
    pub(super) fn least(&self, from: u64, until: u64) -> u64 {
        let changes = self.changes().filter(|change| from < *change && *change < until);
        changes.chain([from]).map(|time| self.at(time)).min().unwrap_or(0)
    }

    /// The most that there is at any time.
    pub(super) fn most(&self) -> u64 {
        let rates = self.pieces.iter().map(|piece| piece.rate).chain([self.outside]);
        rates.max().unwrap_or(self.outside).as_bit_per_s()
    }

    /// When it may next be another one, after that time.
    pub(super) fn next_change(&self, after: u64) -> u64 {
        self.changes().filter(|change| *change > after).min().unwrap_or(u64::MAX)
    }

    /// When it may change, in order of time.
    pub(super) fn changes(&self) -> impl Iterator<Item = u64> + '_ {
        self.pieces.iter().flat_map(|piece| [piece.from.as_ns(), piece.to.as_ns()])
    }

    /// What it is short of its most, from some time on.
    pub(super) fn missing(&self, from: u64) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut start = from;
        while start < u64::MAX {
            let end = self.next_change(start);
            spans.push(Span { start, end, rate: self.most() - self.at(start) });
            start = end;
        }
        spans.retain(|span| span.rate > 0);
        spans
    }
}
