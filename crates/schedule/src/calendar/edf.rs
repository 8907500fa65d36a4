//! Earliest deadline first, everybody admitted: the most urgent transfer takes what its path can
//! give, the next what is left, and so on (C. Liu, J. Layland, JACM 1973, on each link of a
//! shortest path). Whoever is late is given up.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_topology::{Network, Path};
use weir_units::{Rate, Time};

use super::CalendarError;
use super::planner::{Booking, Candidates, Instruction, Planner};

/// Strict precedence of the earliest deadline.
#[derive(Clone, Debug)]
pub struct Edf {
    candidates: Candidates,
    capacities: Vec<u64>,
    /// By deadline, then by number.
    transfers: BTreeMap<(Time, usize), Transfer>,
    deadlines: BTreeMap<usize, Time>,
    starts: BTreeMap<(Time, usize), ()>,
}

#[derive(Clone, Debug)]
struct Transfer {
    path: Arc<[Path]>,
    start: Time,
    rate_max: u64,
    told: u64,
}

impl Edf {
    /// Nobody sends yet.
    pub fn new(network: Arc<Network>) -> Self {
        let capacity = |link| network.link(link).capacity.as_bit_per_s();
        Self {
            capacities: network.links().map(capacity).collect(),
            candidates: Candidates::new(network, 1),
            transfers: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            starts: BTreeMap::new(),
        }
    }
}

impl Planner for Edf {
    fn submit(&mut self, now: Time, booking: Booking) -> Result<bool, CalendarError> {
        let path = self.candidates.of(&booking)?;
        let Booking { number, start, deadline, rate_max, .. } = booking;
        let transfer = Transfer { path, start, rate_max: rate_max.as_bit_per_s(), told: 0 };
        self.transfers.insert((deadline, number), transfer);
        self.deadlines.insert(number, deadline);
        if start > now {
            self.starts.insert((start, number), ());
        }
        Ok(true)
    }

    fn complete(&mut self, _: Time, number: usize) {
        if let Some(deadline) = self.deadlines.remove(&number) {
            self.transfers.remove(&(deadline, number));
        }
    }

    fn next_step(&self) -> Option<Time> {
        let deadline = self.transfers.first_key_value().map(|(key, _)| key.0);
        let start = self.starts.first_key_value().map(|(key, ())| key.0);
        deadline.into_iter().chain(start).min()
    }

    fn tell(&mut self, now: Time) -> Vec<Instruction> {
        let mut orders = Vec::new();
        while let Some(late) = self.transfers.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, number), _) = late.remove_entry();
            self.deadlines.remove(&number);
            orders.push(Instruction::GiveUp { number });
        }
        while self.starts.first_key_value().is_some_and(|(key, ())| key.0 <= now) {
            self.starts.pop_first();
        }
        let mut free = self.capacities.clone();
        for ((_, number), transfer) in &mut self.transfers {
            let links = transfer.path[0].links();
            let most = links.iter().map(|link| free[link.index()]).min().unwrap_or(0);
            let rate = if transfer.start > now { 0 } else { most.min(transfer.rate_max) };
            links.iter().for_each(|link| free[link.index()] -= rate);
            if std::mem::replace(&mut transfer.told, rate) != rate {
                let (number, rate) = (*number, Rate::from_bit_per_s(rate));
                orders.push(Instruction::Send { number, path: 0, rate });
            }
        }
        orders
    }
}
