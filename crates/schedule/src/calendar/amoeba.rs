//! Amoeba: reserve early on several paths, and re-arrange a few others where that fails.
//!
//! H. Zhang et al., "Guaranteeing Deadlines for Inter-Datacenter Transfers", EuroSys 2015, sections
//! 4.1 (a request on the residual time-expanded network) and 4.3 (opportunistic rescheduling).
//! Simplified: time is continuous instead of slotted, which only helps; paths are filled in order
//! of length, each as early as possible, instead of by a flow problem; the transfers re-arranged
//! are the last admitted ones that the newcomer meets, in order of deadline.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_topology::Network;
use weir_units::Time;

use super::CalendarError;
use super::amount::Nanobits;
use super::planner::{Booking, Instruction, Planner};
use super::reservations::{Reservations, Transfer};

/// How many admitted transfers are re-arranged at most.
const RECENT: usize = 10;

/// Admission in the manner of Amoeba.
#[derive(Clone, Debug)]
pub struct Amoeba {
    reservations: Reservations,
}

/// A transfer without its reservations, and how much it needs.
type Draft = (Transfer, Nanobits);

impl Amoeba {
    /// With so many candidate paths for each transfer.
    pub fn new(network: Arc<Network>, paths: usize) -> Self {
        Self { reservations: Reservations::new(network, paths) }
    }

    /// Whether all of it found room by the deadline; reserves nothing if not.
    fn place(&mut self, (transfer, needed): &mut Draft, now: u64) -> bool {
        let window = (transfer.booking.start.as_ns().max(now), transfer.booking.deadline.as_ns());
        let mut left = *needed;
        for path in 0..transfer.paths.len() {
            if left > 0 {
                left = self.reservations.reserve(transfer, path, window, left, false);
            }
        }
        if left > 0 {
            self.reservations.release(transfer, now);
        }
        left == 0
    }

    /// Places the newcomer and those it meets anew; all as before if that fails.
    fn rearrange(&mut self, newcomer: Draft, now: u64) -> bool {
        let links: BTreeSet<_> =
            newcomer.0.paths.iter().flat_map(|path| path.links()).copied().collect();
        let transfers = &self.reservations.transfers;
        let meets = |(_, transfer): &(&usize, &Transfer)| transfer.shares_link(&links);
        let met: Vec<usize> =
            transfers.iter().rev().filter(meets).take(RECENT).map(|(number, _)| *number).collect();
        let mut before = Vec::new();
        for number in met {
            let Some(transfer) = self.reservations.transfers.remove(&number) else { continue };
            let mut draft = transfer.clone();
            let rest = |span: &super::profile::Span| {
                Nanobits::from(span.rate)
                    * Nanobits::from(span.end.saturating_sub(span.start.max(now)))
            };
            let needed = transfer.pieces.iter().map(|(_, span)| rest(span)).sum();
            self.reservations.release(&mut draft, now);
            before.push((transfer, (draft, needed)));
        }
        let mut drafts: Vec<Draft> = before.iter().map(|(_, draft)| draft.clone()).collect();
        drafts.push(newcomer);
        drafts.sort_by_key(|(transfer, _)| (transfer.booking.deadline, transfer.booking.number));
        let mut placed = 0;
        while placed < drafts.len() && self.place(&mut drafts[placed], now) {
            placed += 1;
        }
        let all = placed == drafts.len();
        if all {
            drafts.into_iter().for_each(|(transfer, _)| self.reservations.enter(transfer, now));
        } else {
            for (mut transfer, _) in drafts.into_iter().take(placed) {
                self.reservations.release(&mut transfer, now);
            }
            for (transfer, _) in before {
                self.restore(transfer, now);
            }
        }
        all
    }

    fn restore(&mut self, transfer: Transfer, now: u64) {
        for (path, span) in transfer.pieces.iter().filter(|(_, span)| span.end > now) {
            let span = super::profile::Span { start: span.start.max(now), ..*span };
            self.reservations.timetable.reserve(transfer.paths[*path].links(), &span);
        }
        self.reservations.enter(transfer, now);
    }
}

impl Planner for Amoeba {
    fn submit(&mut self, now: Time, booking: Booking) -> Result<bool, CalendarError> {
        let now = now.as_ns();
        self.reservations.timetable.forget(now);
        let mut draft = self.reservations.draft(booking)?;
        if self.place(&mut draft, now) {
            self.reservations.enter(draft.0, now);
            return Ok(true);
        }
        Ok(self.rearrange(draft, now))
    }

    fn complete(&mut self, now: Time, number: usize) {
        self.reservations.complete(now.as_ns(), number);
    }

    fn next_step(&self) -> Option<Time> {
        self.reservations.next_step()
    }

    fn tell(&mut self, now: Time) -> Vec<Instruction> {
        self.reservations.tell(now.as_ns())
    }
}
