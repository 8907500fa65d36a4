//! What a simulation found.

use weir_units::{Bytes, Time};

use crate::{RouteId, Routes};

/// What became of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It had sent everything at this time.
    Ended(Time),
    /// The scheduler refused it at this time.
    Refused(Time),
    /// It was still under way when the simulation ended.
    UnderWay,
}

/// A flow, in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it arrived.
    pub at: Time,
    /// How much it had to send.
    pub size: Bytes,
    /// When it had to be over; [`Time::MAX`] if it had no deadline.
    pub deadline: Time,
    /// The links it took.
    pub route: RouteId,
    /// What became of it.
    pub fate: Fate,
    /// What it had sent when it was refused, if it was.
    pub part: Bytes,
}

impl Record {
    /// From arrival to end; at least a nanosecond, the grain of reported time. `None` if it did
    /// not end.
    pub fn completion_time(&self) -> Option<Time> {
        let Fate::Ended(end) = self.fate else { return None };
        Some(end.saturating_sub(self.at).max(Time::from_ns(1)))
    }

    /// Size over completion time, in bit/s (000-spec section 3.6.2).
    pub fn throughput(&self) -> Option<f64> {
        let bits = self.size.count() as f64 * 8.0;
        self.completion_time().map(|time| bits / time.as_s())
    }

    /// Whether it had a deadline and met it.
    pub fn is_on_time(&self) -> bool {
        matches!(self.fate, Fate::Ended(end) if self.deadline != Time::MAX && end <= self.deadline)
    }
}

/// What a simulation found. Shares of nothing are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Every flow that arrived, in order.
    pub flows: Vec<Record>,
    /// Each link's utilisation, in the network's order: the exact time average of rate over
    /// capacity, which is what was carried over what could have been; no samples are taken.
    pub utilisation: Vec<f64>,
    /// When the simulation ended: `until`, or with the last event.
    pub end: Time,
    /// Arrivals and ends.
    pub events: u64,
}

impl Outcome {
    pub(crate) fn new(flows: Vec<Record>, utilisation: Vec<f64>, end: Time, events: u64) -> Self {
        Self { flows, utilisation, end, events }
    }

    /// Mean over the flows that ended of size over completion time, in bit/s.
    pub fn mean_throughput(&self) -> Option<f64> {
        mean(self.flows.iter().filter_map(Record::throughput))
    }

    /// What the flows that ended sent over the sum of their completion times, in bit/s: their mean
    /// throughput weighted by time.
    pub fn total_throughput(&self) -> Option<f64> {
        let ended = || self.flows.iter().filter(|flow| flow.completion_time().is_some());
        let bits = mean(ended().map(|flow| flow.size.count() as f64 * 8.0))?;
        self.mean_completion_s().map(|time_s| bits / time_s)
    }

    /// Mean completion time of the flows that ended, in seconds.
    pub fn mean_completion_s(&self) -> Option<f64> {
        mean(self.flows.iter().filter_map(Record::completion_time).map(Time::as_s))
    }

    /// Share of the flows with a deadline that met it. Refused ones and those still under
    /// way did not.
    pub fn on_time_share(&self) -> Option<f64> {
        let due = self.flows.iter().filter(|flow| flow.deadline != Time::MAX);
        mean(due.map(|flow| f64::from(u8::from(flow.is_on_time()))))
    }

    /// The share of flows that were refused.
    pub fn reject_rate(&self) -> Option<f64> {
        let refused = |flow: &Record| f64::from(u8::from(matches!(flow.fate, Fate::Refused(_))));
        mean(self.flows.iter().map(refused))
    }

    /// Mean of the links' utilisations.
    pub fn mean_utilisation(&self) -> Option<f64> {
        mean(self.utilisation.iter().copied())
    }

    /// For each link, the share of the slots of length `slot`, from zero to the last that is over,
    /// at whose end a flow that crosses it was there (000-spec equation 3.5). It passes over what
    /// comes and goes within a slot; [`Outcome::utilisation`] does not.
    pub fn occupancy(&self, routes: &Routes, slot: Time) -> Vec<f64> {
        let slot_ns = slot.as_ns().max(1);
        let slots = self.end.as_ns() / slot_ns;
        // Slots are numbered by their ends, from 1. Flows come in order of arrival, so the slots
        // of a link that count are, up to each flow, those up to one number.
        let mut counted = vec![(0, 0); self.utilisation.len()];
        for flow in &self.flows {
            let end = match flow.fate {
                Fate::Ended(end) | Fate::Refused(end) => {
                    end.as_ns().div_ceil(slot_ns).saturating_sub(1)
                }
                Fate::UnderWay => slots,
            };
            let first = flow.at.as_ns().div_ceil(slot_ns).max(1);
            for link in routes.links(flow.route) {
                let (last, occupied) = &mut counted[*link as usize];
                *occupied += (end + 1).saturating_sub(first.max(*last + 1));
                *last = end.max(*last);
            }
        }
        let share = |(_, occupied)| if slots > 0 { occupied as f64 / slots as f64 } else { 0.0 };
        counted.into_iter().map(share).collect()
    }

    /// Jain's index of the throughputs of the flows that ended: 1 when all are equal, one over
    /// their number when one has everything (Jain, Chiu and Hawe, DEC TR-301, 1984).
    pub fn jain_index(&self) -> Option<f64> {
        let throughputs = || self.flows.iter().filter_map(Record::throughput);
        let squares = mean(throughputs().map(|x| x * x))?;
        mean(throughputs()).map(|mean| mean * mean / squares)
    }

    /// From the first arrival to the last end.
    pub fn makespan(&self) -> Option<Time> {
        let first = self.flows.first()?.at;
        let end = |flow: &Record| match flow.fate {
            Fate::Ended(end) => Some(end),
            Fate::Refused(_) | Fate::UnderWay => None,
        };
        Some(self.flows.iter().filter_map(end).max()?.saturating_sub(first))
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u64), |(sum, count), x| (sum + x, count + 1));
    (count > 0).then(|| sum / count as f64)
}
