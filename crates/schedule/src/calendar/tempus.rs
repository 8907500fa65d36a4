//! TEMPUS: nobody is refused, and everybody gets the same share of what it asks, as far as that is
//! possible.
//!
//! S. Kandula, I. Menache, R. Schwartz, S. Babbula, "Calendaring for Wide Area Networks", SIGCOMM
//! 2014, section 3: in every slot maximise the least fraction of any request that will be there by
//! its deadline, then what is delivered in all. Simplified: TEMPUS solves a mixed packing and
//! covering program over time and several paths; here the slot is filled by itself, on the shortest
//! path. Everybody's rate rises in proportion to the rate it needs until a link is full (water
//! filling, D. Bertsekas, R. Gallager, Data Networks, section 6.5.2) or all have what they need;
//! what is left goes to the earliest deadlines. Whoever is late is given up with what it has.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_topology::{Network, Path};
use weir_units::{Rate, Time};

use super::CalendarError;
use super::planner::{Booking, Candidates, Instruction, Planner, Slots};

/// The greatest least fraction, slot by slot.
#[derive(Clone, Debug)]
pub struct Tempus {
    candidates: Candidates,
    slots: Slots,
    capacities: Vec<f64>,
    /// By deadline, then by number.
    transfers: BTreeMap<(Time, usize), Transfer>,
    deadlines: BTreeMap<usize, Time>,
}

#[derive(Clone, Debug)]
struct Transfer {
    path: Arc<[Path]>,
    start: Time,
    rate_max: f64,
    /// Bits left at `as_of`.
    remaining: f64,
    as_of: Time,
    rate: u64,
}

impl Transfer {
    fn settle(&mut self, now: Time) {
        let sent = self.rate as f64 * (now.as_s() - self.as_of.as_s());
        self.remaining = (self.remaining - sent).max(0.0);
        self.as_of = now;
    }

    /// The rate that sends the rest within that span, by more than rounding takes away.
    fn needs(&self, span_s: f64) -> f64 {
        let bits = self.remaining * (1.0 + 1e-6) + 8.0;
        (bits / span_s.max(1e-9)).max(1.0).min(self.rate_max)
    }
}

impl Tempus {
    /// Rates are set anew at the beginning of each slot.
    ///
    /// # Errors
    /// Slots of zero.
    pub fn new(network: Arc<Network>, slot: Time) -> Result<Self, CalendarError> {
        let capacity = |link| network.link(link).capacity.as_bit_per_s() as f64;
        Ok(Self {
            slots: Slots::new(slot)?,
            capacities: network.links().map(capacity).collect(),
            candidates: Candidates::new(network, 1),
            transfers: BTreeMap::new(),
            deadlines: BTreeMap::new(),
        })
    }

    /// The rates of those that may send, in order of deadline.
    fn share(&self, now: Time, slot_s: f64) -> Vec<((Time, usize), f64)> {
        let started = self.transfers.iter().filter(|(_, transfer)| transfer.start <= now);
        let (keys, flows): (Vec<_>, Vec<_>) = started
            .map(|(key, transfer)| {
                let needs = transfer.needs(key.0.as_s() - now.as_s());
                (*key, (transfer.path[0].links(), needs))
            })
            .unzip();
        let mut rates = water_filling(&self.capacities, &flows);
        let mut free = self.capacities.clone();
        for ((links, _), rate) in flows.iter().zip(&rates) {
            links.iter().for_each(|link| free[link.index()] -= rate);
        }
        for ((key, (links, _)), rate) in keys.iter().zip(&flows).zip(&mut rates) {
            let transfer = &self.transfers[key];
            let useful = transfer.needs(slot_s) - *rate;
            let room = links.iter().map(|link| free[link.index()]).fold(useful, f64::min).max(0.0);
            links.iter().for_each(|link| free[link.index()] -= room);
            *rate += room;
        }
        keys.into_iter().zip(rates).collect()
    }
}

/// Rates that are the same share of what each needs, none above what it needs, as large as links
/// allow; whoever meets no full link goes on rising.
fn water_filling(capacities: &[f64], flows: &[(&[weir_topology::LinkId], f64)]) -> Vec<f64> {
    let mut rates = vec![0.0; flows.len()];
    let mut free = capacities.to_vec();
    let mut rising: Vec<usize> = (0..flows.len()).collect();
    let mut level = 0.0;
    while !rising.is_empty() && level < 1.0 {
        let mut needs = vec![0.0; free.len()];
        for flow in &rising {
            let (links, need) = flows[*flow];
            links.iter().for_each(|link| needs[link.index()] += need);
        }
        let step = free.iter().zip(&needs).filter(|(_, needs)| **needs > 0.0);
        let step = step.map(|(free, needs)| free.max(0.0) / needs).fold(1.0 - level, f64::min);
        level += step;
        for flow in &rising {
            rates[*flow] = level * flows[*flow].1;
        }
        for (free, needs) in free.iter_mut().zip(&needs) {
            *free -= step * needs;
        }
        // A link within rounding of full is full; the one that set the step always is.
        let full: Vec<bool> =
            free.iter().zip(capacities).map(|(free, capacity)| *free <= capacity * 1e-9).collect();
        rising.retain(|flow| !flows[*flow].0.iter().any(|link| full[link.index()]));
    }
    rates
}

impl Planner for Tempus {
    fn submit(&mut self, now: Time, booking: Booking) -> Result<bool, CalendarError> {
        let path = self.candidates.of(&booking)?;
        let Booking { number, start, deadline, .. } = booking;
        let rate_max = booking.rate_max.as_bit_per_s() as f64;
        let remaining = booking.size.count() as f64 * 8.0;
        let transfer = Transfer { path, start, rate_max, remaining, as_of: now, rate: 0 };
        self.transfers.insert((deadline, number), transfer);
        self.deadlines.insert(number, deadline);
        Ok(true)
    }

    fn complete(&mut self, _: Time, number: usize) {
        if let Some(deadline) = self.deadlines.remove(&number) {
            self.transfers.remove(&(deadline, number));
        }
    }

    fn next_step(&self) -> Option<Time> {
        let deadline = self.transfers.first_key_value().map(|(key, _)| key.0);
        deadline.into_iter().chain([Time::from_ns(self.slots.next())]).min()
    }

    fn tell(&mut self, now: Time) -> Vec<Instruction> {
        let mut orders = Vec::new();
        while let Some(late) = self.transfers.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, number), _) = late.remove_entry();
            self.deadlines.remove(&number);
            orders.push(Instruction::GiveUp { number });
        }
        let Some(end) = self.slots.begin(now.as_ns()) else { return orders };
        self.transfers.values_mut().for_each(|transfer| transfer.settle(now));
        let slot_s = Time::from_ns(end).as_s() - now.as_s();
        for (key, rate) in self.share(now, slot_s) {
            let Some(transfer) = self.transfers.get_mut(&key) else { continue };
            // Rounded down by a grain, so that rounding never asks too much of a link.
            let rate = (rate * (1.0 - 1e-9)).floor() as u64;
            if std::mem::replace(&mut transfer.rate, rate) != rate {
                let rate = Rate::from_bit_per_s(rate);
                orders.push(Instruction::Send { number: key.1, path: 0, rate });
            }
        }
        orders
    }
}
