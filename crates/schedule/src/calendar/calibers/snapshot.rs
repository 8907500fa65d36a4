//! The whole state of a calendar as versioned JSON, and back.
//!
//! A restored calendar makes the same decisions as the one that was written. Text may come from a
//! disk that someone edited, so everything in it is checked before it is believed.

use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_topology::{Network, Path};
use weir_units::{Bytes, Rate, Time};

use super::flow::{Flow, Parts};
use super::policy::Options;
use super::{CalendarError, Calibers, Completion, FlowId, Request};
use crate::calendar::document::{Amount, CapacityEntry, read_version, wrong};
use crate::calendar::request::{ParseSwitchError, Terms};

const VERSION: u64 = 1;

/// A million admissions per second would take 292 000 years to get here.
const SEQUENCE_MAX: u64 = u64::MAX / 2;

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u64,
    network: serde_json::Value,
    policy: String,
    epoch_ns: u64,
    admission: String,
    completions: String,
    reshape_key: String,
    clock_ns: u64,
    last_epoch_ns: u64,
    next_sequence: u64,
    freed_links: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capacities: Option<CapacitiesEntry>,
    flows: Vec<FlowEntry>,
    waiting: Vec<WaitingEntry>,
    ended: Vec<EndedEntry>,
}

/// What links carry over time, and as of when flows have been slowed down to it.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct CapacitiesEntry {
    as_of_ns: u64,
    links: Vec<CapacityEntry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FlowEntry {
    id: String,
    sequence: u64,
    path: Vec<String>,
    size_bytes: u64,
    deadline_ns: u64,
    rate_max_bps: u64,
    rate_bps: u64,
    /// Whole bytes left at `as_of_ns`, and the part of a further one in 10^-9 bit.
    remaining_bytes: u64,
    remaining_nanobits: u64,
    as_of_ns: u64,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct WaitingEntry {
    id: String,
    source: String,
    destination: String,
    size_bytes: u64,
    deadline_ns: u64,
    rate_max_bps: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    least_bytes: Option<u64>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct EndedEntry {
    id: String,
    at_ns: u64,
    deadline_ns: u64,
}

impl Calibers {
    /// Everything that later decisions depend on, as JSON.
    pub fn snapshot(&self) -> String {
        let network =
            serde_json::from_str(&self.network.to_json()).expect("a network's JSON form is JSON");
        let slots = self.book.in_order();
        let document = Document {
            version: VERSION,
            network,
            policy: self.options.policy.to_string(),
            epoch_ns: self.options.epoch.as_ns(),
            admission: self.options.admission.to_string(),
            completions: self.options.completions.to_string(),
            reshape_key: self.options.reshape_key.to_string(),
            clock_ns: self.clock,
            last_epoch_ns: self.last_epoch,
            next_sequence: self.book.next_sequence(),
            freed_links: self
                .freed
                .iter()
                .map(|link| self.network.link(*link).name.clone())
                .collect(),
            capacities: self.capacities_entry(),
            flows: slots.iter().map(|slot| self.flow_entry(self.book.flow(*slot))).collect(),
            waiting: self.waiting.iter().map(|request| self.waiting_entry(request)).collect(),
            ended: self.ended.iter().map(EndedEntry::of).collect(),
        };
        serde_json::to_string(&document).expect("texts and integers always have a JSON form")
    }

    fn capacities_entry(&self) -> Option<CapacitiesEntry> {
        let of_links = self.capacities.of_links.iter();
        let links: Vec<CapacityEntry> = of_links
            .map(|(link, capacity)| CapacityEntry::of(&self.network, *link, capacity))
            .collect();
        (!links.is_empty()).then_some(CapacitiesEntry { as_of_ns: self.capacities.as_of, links })
    }

    fn flow_entry(&self, flow: &Flow) -> FlowEntry {
        let remaining = Amount::of(flow.remaining);
        FlowEntry {
            id: flow.id.as_str().to_owned(),
            sequence: flow.sequence,
            path: flow
                .path
                .links()
                .iter()
                .map(|link| self.network.link(*link).name.clone())
                .collect(),
            size_bytes: flow.size.count(),
            deadline_ns: flow.deadline,
            rate_max_bps: flow.rate_max,
            rate_bps: flow.rate,
            remaining_bytes: remaining.bytes,
            remaining_nanobits: remaining.nanobits,
            as_of_ns: flow.as_of,
        }
    }

    fn waiting_entry(&self, request: &Request) -> WaitingEntry {
        WaitingEntry {
            id: request.id.as_str().to_owned(),
            source: self.network.node_name(request.source).to_owned(),
            destination: self.network.node_name(request.destination).to_owned(),
            size_bytes: request.size.count(),
            deadline_ns: request.deadline.as_ns(),
            rate_max_bps: request.rate_max.as_bit_per_s(),
            least_bytes: request.terms.least.map(Bytes::count),
        }
    }

    /// The calendar that [`Calibers::snapshot`] wrote.
    ///
    /// # Errors
    /// Another version, or text that is not a snapshot or contradicts itself.
    pub fn restore(text: &str) -> Result<Self, CalendarError> {
        let document: Document = read_version(text, VERSION)?;
        let network = Network::from_json(&document.network.to_string())?;
        let mut calendar = Self::new(Arc::new(network), document.options()?)?;
        calendar.clock = document.clock_ns;
        calendar.last_epoch = document.last_epoch_ns;
        if calendar.last_epoch > calendar.clock {
            return Err(wrong("last_epoch_ns", "after clock_ns"));
        }
        for link in &document.freed_links {
            calendar.freed.insert(calendar.network.link_named(link)?);
        }
        calendar.restore_capacities(document.capacities.as_ref())?;
        for (index, entry) in document.flows.iter().enumerate() {
            calendar.restore_flow(entry).map_err(|error| error.within("flows", index))?;
        }
        let sequences = calendar.book.next_sequence()..=SEQUENCE_MAX;
        if !sequences.contains(&document.next_sequence) {
            return Err(wrong("next_sequence", "not above the sequence of every flow, or absurd"));
        }
        calendar.book.set_next_sequence(document.next_sequence);
        for (index, entry) in document.waiting.iter().enumerate() {
            calendar.restore_waiting(entry).map_err(|error| error.within("waiting", index))?;
        }
        calendar.ended = document.ended.iter().map(EndedEntry::completion).collect();
        Ok(calendar)
    }

    fn restore_capacities(&mut self, entry: Option<&CapacitiesEntry>) -> Result<(), CalendarError> {
        let Some(entry) = entry else { return Ok(()) };
        if entry.as_of_ns > self.clock {
            return Err(wrong("capacities.as_of_ns", "after clock_ns"));
        }
        self.capacities.as_of = entry.as_of_ns;
        for (index, entry) in entry.links.iter().enumerate() {
            let read = entry.read(&self.network);
            let (link, capacity) = read.map_err(|error| error.within("capacities.links", index))?;
            self.book.set_capacity(link, capacity.at(self.capacities.as_of));
            self.capacities.of_links.insert(link, capacity);
        }
        Ok(())
    }

    fn restore_flow(&mut self, entry: &FlowEntry) -> Result<(), CalendarError> {
        let id = FlowId::new(&entry.id);
        if self.book.find(&id).is_some() {
            return Err(CalendarError::DuplicateFlow { flow: id });
        }
        if entry.id.is_empty() {
            return Err(CalendarError::EmptyId);
        }
        // Flows are written in order of admission, so a number used twice is out of order too.
        if entry.sequence < self.book.next_sequence() || entry.sequence > SEQUENCE_MAX {
            return Err(wrong("sequence", "not above that of the flow before"));
        }
        let links: Result<Vec<_>, _> =
            entry.path.iter().map(|link| self.network.link_named(link)).collect();
        let path = Path::new(&self.network, links?)?;
        if path.has_loop(&self.network) {
            return Err(wrong("path", "passes a node twice"));
        }
        let remaining = entry.remaining().up_to(entry.size_bytes);
        let remaining = remaining.ok_or_else(|| wrong("remaining_bytes", "more than the size"))?;
        if entry.as_of_ns > self.clock {
            return Err(wrong("as_of_ns", "after clock_ns"));
        }
        let may_stop = self.capacities.is_on(&path);
        if (entry.rate_bps == 0 && !may_stop) || entry.rate_bps > entry.rate_max_bps {
            return Err(wrong("rate_bps", "zero or above rate_max_bps"));
        }
        if entry.rate_bps > self.book.residual(&path) {
            return Err(wrong("rate_bps", "a link of the path would be over its capacity"));
        }
        self.book.insert(Flow::new(Parts {
            id,
            sequence: entry.sequence,
            path: Arc::new(path),
            size: Bytes::new(entry.size_bytes),
            deadline: entry.deadline_ns,
            rate_max: entry.rate_max_bps,
            rate: entry.rate_bps,
            remaining,
            as_of: entry.as_of_ns,
        }));
        Ok(())
    }

    fn restore_waiting(&mut self, entry: &WaitingEntry) -> Result<(), CalendarError> {
        let request = Request {
            id: FlowId::new(&entry.id),
            source: self.network.node(&entry.source)?,
            destination: self.network.node(&entry.destination)?,
            size: Bytes::new(entry.size_bytes),
            deadline: Time::from_ns(entry.deadline_ns),
            rate_max: Rate::from_bit_per_s(entry.rate_max_bps),
            terms: Terms { least: entry.least_bytes.map(Bytes::new), ..Terms::default() },
        };
        self.check(&request)?;
        self.waiting_ids.insert(request.id.clone());
        self.waiting.push(request);
        Ok(())
    }
}

impl FlowEntry {
    fn remaining(&self) -> Amount {
        Amount { bytes: self.remaining_bytes, nanobits: self.remaining_nanobits }
    }
}

impl EndedEntry {
    fn of(completion: &Completion) -> Self {
        Self {
            id: completion.flow.as_str().to_owned(),
            at_ns: completion.at.as_ns(),
            deadline_ns: completion.deadline.as_ns(),
        }
    }

    fn completion(&self) -> Completion {
        Completion {
            flow: FlowId::new(&self.id),
            at: Time::from_ns(self.at_ns),
            deadline: Time::from_ns(self.deadline_ns),
        }
    }
}

impl Document {
    fn options(&self) -> Result<Options, CalendarError> {
        Ok(Options {
            policy: switch("policy", &self.policy)?,
            epoch: Time::from_ns(self.epoch_ns),
            admission: switch("admission", &self.admission)?,
            completions: switch("completions", &self.completions)?,
            reshape_key: switch("reshape_key", &self.reshape_key)?,
        })
    }
}

fn switch<T: FromStr<Err = ParseSwitchError>>(place: &str, text: &str) -> Result<T, CalendarError> {
    text.parse().map_err(|error: ParseSwitchError| wrong(place, &error.to_string()))
}
