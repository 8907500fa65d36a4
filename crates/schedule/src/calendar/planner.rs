//! The contract of policies that exist to be compared with: the baselines.
//!
//! A [`Planner`] decides whom to admit and who sends on which path at which rate, and no more: it
//! takes no reports and keeps no promise against a world that does not follow the model, as a
//! [`Calendar`](super::Calendar) must.

use std::collections::HashMap;
use std::sync::Arc;

use weir_topology::{Network, NodeId, Path};
use weir_units::{Bytes, Rate, Time};

use super::CalendarError;

/// A transfer that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Its name, unique over all time.
    pub number: usize,
    /// Where the data is.
    pub source: NodeId,
    /// Where it must be.
    pub destination: NodeId,
    /// Before when it cannot send.
    pub start: Time,
    /// How much there is to move.
    pub size: Bytes,
    /// When all of it must be there.
    pub deadline: Time,
    /// What the end points can do.
    pub rate_max: Rate,
}

/// What a transfer does from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// It sends at that rate on that path; what it does on others stays.
    Send {
        /// The transfer.
        number: usize,
        /// The path's place among the shortest paths between its ends.
        path: usize,
        /// The rate.
        rate: Rate,
    },
    /// It is too late and given up.
    GiveUp {
        /// The transfer.
        number: usize,
    },
}

/// A policy in its simplest form. Calls come in order of time; after every one, `tell` is called
/// at the same time.
pub trait Planner {
    /// Whether the transfer is admitted.
    ///
    /// # Errors
    /// Ends with no path between them.
    fn submit(&mut self, now: Time, booking: Booking) -> Result<bool, CalendarError>;

    /// An admitted transfer has delivered everything.
    fn complete(&mut self, now: Time, number: usize);

    /// When `tell` is next due though nobody calls before.
    fn next_step(&self) -> Option<Time>;

    /// What changes now.
    fn tell(&mut self, now: Time) -> Vec<Instruction>;
}

/// The shortest paths between pairs of nodes, found when first asked for.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    network: Arc<Network>,
    count: usize,
    known: HashMap<(NodeId, NodeId), Arc<[Path]>>,
}

impl Candidates {
    pub(super) fn new(network: Arc<Network>, count: usize) -> Self {
        Self { network, count, known: HashMap::new() }
    }

    pub(super) fn of(&mut self, booking: &Booking) -> Result<Arc<[Path]>, CalendarError> {
        let ends = (booking.source, booking.destination);
        if let Some(paths) = self.known.get(&ends) {
            return Ok(Arc::clone(paths));
        }
        let paths: Arc<[Path]> = self.network.shortest_paths(ends.0, ends.1, self.count)?.into();
        self.known.insert(ends, Arc::clone(&paths));
        Ok(paths)
    }
}

/// The slots of time at whose beginnings a policy reconsiders everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    length: u64,
    next: u64,
}

impl Slots {
    /// # Errors
    /// Slots of zero.
    pub(super) fn new(length: Time) -> Result<Self, CalendarError> {
        let length = length.as_ns();
        if length == 0 { Err(CalendarError::ZeroEpoch) } else { Ok(Self { length, next: 0 }) }
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The end of the slot that begins now, if one does.
    pub(super) fn begin(&mut self, now: u64) -> Option<u64> {
        (self.next <= now).then(|| {
            self.next = (now / self.length).saturating_add(1).saturating_mul(self.length);
            self.next
        })
    }
}
