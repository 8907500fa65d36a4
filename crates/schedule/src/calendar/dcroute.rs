//! DCRoute: one path each, reserved as late as possible, pulled forward while links idle.
//!
//! M. Noormohammadpour, C. Raghavendra, S. Rao, "DCRoute: Speeding up Inter-Datacenter Traffic
//! Allocation while Guaranteeing Deadlines", HiPC 2016, section III: the path is the one with the
//! least outstanding load (III-A), a request is allocated from its deadline backwards (III-B), and
//! when a slot begins what is unused in it is filled from later slots (III-C, pull back); as RCD
//! (HotCloud 2016) does for one path. Simplified: reservations are in continuous time, which only
//! helps, and the path is the best of some shortest ones instead of all.

use std::sync::Arc;

use weir_topology::{Network, Path};
use weir_units::Time;

use super::CalendarError;
use super::amount::Nanobits;
use super::planner::{Booking, Instruction, Planner, Slots};
use super::profile::Span;
use super::reservations::{Reservations, Transfer};

/// Admission in the manner of DCRoute.
#[derive(Clone, Debug)]
pub struct DcRoute {
    reservations: Reservations,
    slots: Slots,
    /// What is reserved on each link from the last slot on.
    load: Vec<Nanobits>,
}

impl DcRoute {
    /// With so many candidate paths for each transfer, and traffic pulled forward at the beginning
    /// of each slot.
    ///
    /// # Errors
    /// Slots of zero.
    pub fn new(network: Arc<Network>, paths: usize, slot: Time) -> Result<Self, CalendarError> {
        let load = vec![0; network.links().len()];
        let reservations = Reservations::new(network, paths);
        Ok(Self { reservations, slots: Slots::new(slot)?, load })
    }

    /// The path whose links have the least to carry, the transfer itself included.
    fn best_path(&self, paths: &[Path], needed: Nanobits) -> usize {
        let load = |path: &Path| -> Nanobits {
            path.links().iter().map(|link| self.load[link.index()] + needed).sum()
        };
        let loads = paths.iter().map(load).enumerate();
        loads.min_by_key(|(_, load)| *load).map_or(0, |(path, _)| path)
    }

    fn add_load(&mut self, transfer: &Transfer, now: u64) {
        for (path, span) in &transfer.pieces {
            let span = Span { start: span.start.max(now).min(span.end), ..*span };
            for link in transfer.paths[*path].links() {
                self.load[link.index()] += span.volume();
            }
        }
    }

    /// Fills what is unused until `end` with what is reserved later, the most urgent first.
    fn pull(&mut self, now: u64, end: u64) {
        self.reservations.timetable.forget(now);
        self.load.fill(0);
        let transfers = self.reservations.transfers.values();
        let mut order: Vec<_> = transfers.map(|t| (t.booking.deadline, t.booking.number)).collect();
        order.sort_unstable();
        for (_, number) in order {
            let Some(mut transfer) = self.reservations.transfers.remove(&number) else { continue };
            let window = (transfer.booking.start.as_ns().max(now), end);
            let path = transfer.pieces.first().map_or(0, |(path, _)| *path);
            let later = volume_from(&transfer, end);
            let left = match window.0 < end {
                true => self.reservations.reserve(&mut transfer, path, window, later, false),
                false => later,
            };
            self.add_load(&transfer, now);
            if left < later {
                self.take_back(&mut transfer, end, later - left);
                self.reservations.enter(transfer, now);
            } else {
                self.reservations.transfers.insert(number, transfer);
            }
        }
    }

    /// Takes `volume` off the earliest reservations after `end`; what is too little to free a
    /// nanosecond stays.
    fn take_back(&mut self, transfer: &mut Transfer, end: u64, mut volume: Nanobits) {
        transfer.pieces.sort_unstable_by_key(|(_, span)| span.start);
        for (path, span) in transfer.pieces.iter_mut().filter(|(_, span)| span.start >= end) {
            let freed = (volume / Nanobits::from(span.rate)).min(u128::from(span.end - span.start));
            // At most the span, which is 64 bits.
            let gone = Span { end: span.start + freed as u64, ..*span };
            self.reservations.timetable.release(transfer.paths[*path].links(), &gone);
            volume -= gone.volume();
            span.start = gone.end;
        }
        transfer.pieces.retain(|(_, span)| span.start < span.end);
    }
}

/// What is reserved at or after that time.
fn volume_from(transfer: &Transfer, time: u64) -> Nanobits {
    let later = transfer.pieces.iter().filter(|(_, span)| span.start >= time);
    later.map(|(_, span)| span.volume()).sum()
}

impl Planner for DcRoute {
    fn submit(&mut self, now: Time, booking: Booking) -> Result<bool, CalendarError> {
        let now = now.as_ns();
        let (mut transfer, needed) = self.reservations.draft(booking)?;
        let window = (booking.start.as_ns().max(now), booking.deadline.as_ns());
        let path = self.best_path(&transfer.paths, needed);
        let left = self.reservations.reserve(&mut transfer, path, window, needed, true);
        if left > 0 {
            self.reservations.release(&mut transfer, now);
            return Ok(false);
        }
        self.add_load(&transfer, now);
        self.reservations.enter(transfer, now);
        Ok(true)
    }

    fn complete(&mut self, now: Time, number: usize) {
        self.reservations.complete(now.as_ns(), number);
    }

    fn next_step(&self) -> Option<Time> {
        let slot = Time::from_ns(self.slots.next());
        self.reservations.next_step().into_iter().chain([slot]).min()
    }

    fn tell(&mut self, now: Time) -> Vec<Instruction> {
        if let Some(end) = self.slots.begin(now.as_ns()) {
            self.pull(now.as_ns(), end);
        }
        self.reservations.tell(now.as_ns())
    }
}
