//! The whole state of a calendar that serves, as versioned JSON, and back.
//!
//! A restored calendar makes the same decisions as the one that was written. Text may come from a
//! disk that someone edited, so everything in it is checked before it is believed. What is reserved
//! of links is not written: it is the sum over the flows.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_topology::Network;
use weir_units::{Bytes, Rate, Time};

use super::flow::{Flow, Piece};
use super::held::Held;
use super::lately::{OnLink, Sums};
use super::{CalendarError, FlowId, Request, Span, Weir, WeirOptions, Worth};
use crate::calendar::document::{Amount, CapacityEntry, read_version, wrong};
use crate::calendar::profile::Profile;
use crate::calendar::request::Terms;

const VERSION: u64 = 1;

/// A million admissions per second would take 292 000 years to get here.
const NUMBER_MAX: u64 = u64::MAX / 2;
/// More paths between two nodes than this nobody finds in the time of an answer.
const PATHS_MAX: usize = 64;

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u64,
    policy: String,
    network: serde_json::Value,
    paths: usize,
    epoch_ns: u64,
    clock_ns: u64,
    last_epoch_ns: u64,
    next_step_ns: u64,
    postponed: usize,
    next_number: u64,
    /// Only links that do not always carry the same have one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    capacities: Vec<CapacityEntry>,
    prices: PricesEntry,
    flows: Vec<FlowEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    held: Vec<HeldEntry>,
    /// Those of them whose senders are not yet told that they have no place any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stopped: Vec<String>,
}

/// Fractions are written as text, which says exactly what they were.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct PricesEntry {
    /// By link, in the network's order.
    links: Vec<String>,
    usual: String,
    seen: String,
    as_of_ns: u64,
    /// What was lately asked of those links of which something was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    asked: Vec<AskedEntry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct AskedEntry {
    /// By position in the network's order.
    link: usize,
    as_of_ns: u64,
    /// By octave of the requests' burden: bits, decaying over each of the known spans.
    by_burden: BTreeMap<i32, Vec<String>>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FlowEntry {
    number: u64,
    id: String,
    source: String,
    destination: String,
    size_bytes: u64,
    start_ns: u64,
    deadline_ns: u64,
    rate_max_bps: u64,
    /// One for those from before it was written, which is what they were worth then.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    weight: u32,
    remaining: Amount,
    measured: Amount,
    as_of_ns: u64,
    /// On each path that it may take, the shortest first.
    rates_bps: Vec<u64>,
    plan: Vec<PieceEntry>,
}

/// A request that is not answered yet: one of the flows, or `outside` of them, without a place.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct HeldEntry {
    number: u64,
    answer_by_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    least_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outside: Option<FlowEntry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct PieceEntry {
    path: usize,
    start_ns: u64,
    end_ns: u64,
    rate_bps: u64,
}

impl Weir {
    /// Everything that later decisions depend on, as JSON. Of a calendar that measures and answers
    /// at once whoever does not say otherwise; others are not restored.
    pub fn snapshot(&self) -> String {
        let network =
            serde_json::from_str(&self.network.to_json()).expect("a network's JSON form is JSON");
        let document = Document {
            version: VERSION,
            policy: self.options.worth.policy_name().to_owned(),
            network,
            paths: self.options.paths,
            epoch_ns: self.options.epoch.as_ns(),
            clock_ns: self.clock,
            last_epoch_ns: self.last_epoch,
            next_step_ns: self.next_step,
            postponed: self.postponed,
            next_number: self.next_number,
            capacities: self
                .capacities
                .iter()
                .map(|(link, capacity)| CapacityEntry::of(&self.network, *link, capacity))
                .collect(),
            prices: self.prices_entry(),
            flows: self.flows.iter().map(|(number, flow)| self.flow_entry(*number, flow)).collect(),
            held: self.held.iter().map(|(number, held)| self.held_entry(*number, held)).collect(),
            stopped: self.stopped.iter().map(|id| id.as_str().to_owned()).collect(),
        };
        serde_json::to_string(&document).expect("texts and integers always have a JSON form")
    }

    fn prices_entry(&self) -> PricesEntry {
        let (links, usual, seen, as_of) = self.prices.learnt();
        PricesEntry {
            links: links.iter().map(f64::to_string).collect(),
            usual: usual.to_string(),
            seen: seen.to_string(),
            as_of_ns: as_of.as_ns(),
            asked: self
                .prices
                .lately
                .links()
                .iter()
                .enumerate()
                .filter_map(AskedEntry::of)
                .collect(),
        }
    }

    fn flow_entry(&self, number: u64, flow: &Flow) -> FlowEntry {
        let name = |node| self.network.node_name(node).to_owned();
        FlowEntry {
            number,
            id: flow.id.as_str().to_owned(),
            source: name(flow.paths[0].source()),
            destination: name(flow.paths[0].destination()),
            size_bytes: flow.size.count(),
            start_ns: flow.start,
            deadline_ns: flow.deadline,
            rate_max_bps: flow.limit,
            weight: flow.weight,
            remaining: Amount::of(flow.remaining),
            measured: Amount::of(flow.measured.unwrap_or(flow.remaining)),
            as_of_ns: flow.as_of.max(self.settled),
            rates_bps: flow.rates.clone(),
            plan: flow.pieces.iter().map(PieceEntry::of).collect(),
        }
    }

    fn held_entry(&self, number: u64, held: &Held) -> HeldEntry {
        HeldEntry {
            number,
            answer_by_ns: held.answer_by,
            least_bytes: held.request.terms.least.map(Bytes::count),
            outside: held.outside.as_ref().map(|flow| self.flow_entry(number, flow)),
        }
    }

    /// The calendar that [`Weir::snapshot`] wrote.
    ///
    /// # Errors
    /// Another version, or text that is no snapshot or contradicts itself.
    pub fn restore(text: &str) -> Result<Self, CalendarError> {
        let document: Document = read_version(text, VERSION)?;
        let network = Network::from_json(&document.network.to_string())?;
        let mut calendar = Self::new(Arc::new(network), document.options()?)?;
        calendar.clock = document.clock_ns;
        calendar.last_epoch = document.last_epoch_ns;
        calendar.next_step = document.next_step_ns;
        calendar.postponed = document.postponed;
        if calendar.last_epoch > calendar.clock {
            return Err(wrong("last_epoch_ns", "after clock_ns"));
        }
        for (index, entry) in document.capacities.iter().enumerate() {
            let read = entry.read(&calendar.network);
            let (link, capacity) = read.map_err(|error| error.within("capacities", index))?;
            calendar.enter_capacity(link, capacity);
        }
        calendar.restore_prices(&document.prices)?;
        for (index, entry) in document.flows.iter().enumerate() {
            calendar.restore_flow(entry).map_err(|error| error.within("flows", index))?;
        }
        if !(calendar.next_number..=NUMBER_MAX).contains(&document.next_number) {
            return Err(wrong("next_number", "not above the number of every flow, or absurd"));
        }
        for (index, entry) in document.held.iter().enumerate() {
            let is_numbered = entry.number < document.next_number;
            let read = if is_numbered { calendar.restore_held(entry) } else { Err(no_number()) };
            read.map_err(|error| error.within("held", index))?;
        }
        calendar.stopped = document.stopped.iter().map(|id| FlowId::new(id)).collect();
        calendar.next_number = document.next_number;
        Ok(calendar)
    }

    fn restore_prices(&mut self, entry: &PricesEntry) -> Result<(), CalendarError> {
        let links = entry.links.iter().map(|price| fraction("prices.links", price));
        let links = links.collect::<Result<Vec<f64>, _>>()?;
        let usual = fraction("prices.usual", &entry.usual)?;
        let seen = fraction("prices.seen", &entry.seen)?;
        if entry.as_of_ns > self.clock {
            return Err(wrong("prices.as_of_ns", "after clock_ns"));
        }
        for (index, asked) in entry.asked.iter().enumerate() {
            let sums = asked.read().filter(|asked| asked.as_of.as_ns() <= self.clock);
            if !sums.is_some_and(|sums| self.prices.lately.set(asked.link, sums)) {
                let place = format!("prices.asked[{index}]");
                return Err(wrong(&place, "of no link, after clock_ns, or no such sums"));
            }
        }
        match self.prices.go_on(links, usual, seen, Time::from_ns(entry.as_of_ns)) {
            true => Ok(()),
            false => Err(wrong("prices", "not one for each link, or beyond what they can be")),
        }
    }

    fn restore_held(&mut self, entry: &HeldEntry) -> Result<(), CalendarError> {
        let outside = match &entry.outside {
            None => None,
            Some(flow) => {
                let (id, flow) = self.read_flow(flow)?;
                if flow.rate() > 0 || self.flows.contains_key(&entry.number) {
                    return Err(wrong("outside", "it sends, or is one of the flows too"));
                }
                self.by_id.insert(id, entry.number);
                Some(flow)
            }
        };
        let least = entry.least_bytes.map(Bytes::new);
        let flow = outside.as_ref().or_else(|| self.flows.get(&entry.number));
        let flow = flow.ok_or_else(no_number)?;
        let request = Request {
            id: flow.id.clone(),
            source: flow.paths[0].source(),
            destination: flow.paths[0].destination(),
            size: flow.size,
            deadline: Time::from_ns(flow.deadline),
            rate_max: Rate::from_bit_per_s(flow.limit),
            terms: Terms {
                start: Time::from_ns(flow.start),
                least,
                weight: flow.weight,
                paths: flow.paths.len(),
                ..Terms::default()
            },
        };
        request.check_terms()?;
        let held = Held { request, answer_by: entry.answer_by_ns, outside };
        match self.held.insert(entry.number, held) {
            None => Ok(()),
            Some(_) => Err(no_number()),
        }
    }

    fn restore_flow(&mut self, entry: &FlowEntry) -> Result<(), CalendarError> {
        // Flows are written in order of admission, so a number used twice is out of order too.
        if entry.number < self.next_number || entry.number > NUMBER_MAX {
            return Err(wrong("number", "not above that of the flow before"));
        }
        let (id, mut flow) = self.read_flow(entry)?;
        self.use_links(&flow)?;
        self.restore_plan(&mut flow, &entry.plan)?;
        self.by_id.insert(id, entry.number);
        self.flows.insert(entry.number, flow);
        self.next_number = entry.number + 1;
        Ok(())
    }

    /// A flow as it was, but for its number and its plan.
    fn read_flow(&mut self, entry: &FlowEntry) -> Result<(FlowId, Flow), CalendarError> {
        let id = FlowId::new(&entry.id);
        if entry.id.is_empty() {
            return Err(CalendarError::EmptyId);
        }
        if self.by_id.contains_key(&id) {
            return Err(CalendarError::DuplicateFlow { flow: id });
        }
        if entry.weight == 0 {
            return Err(CalendarError::ZeroWeight { flow: id });
        }
        let (source, destination) =
            (self.network.node(&entry.source)?, self.network.node(&entry.destination)?);
        let paths = self.paths(source, destination, entry.rates_bps.len())?;
        let (remaining, measured) = entry.amounts()?;
        if entry.as_of_ns > self.clock {
            return Err(wrong("as_of_ns", "after clock_ns"));
        }
        if entry.rates_bps.len() != paths.len() {
            return Err(wrong("rates_bps", "not one for each path"));
        }
        let rates = entry.rates_bps.iter().map(|rate| u128::from(*rate));
        if entry.rate_max_bps == 0 || rates.sum::<u128>() > u128::from(entry.rate_max_bps) {
            return Err(wrong("rates_bps", "above rate_max_bps, or that is zero"));
        }
        let flow = Flow {
            id: id.clone(),
            paths,
            size: Bytes::new(entry.size_bytes),
            start: entry.start_ns,
            deadline: entry.deadline_ns,
            limit: entry.rate_max_bps,
            weight: entry.weight,
            remaining,
            measured: Some(measured),
            as_of: entry.as_of_ns,
            rates: entry.rates_bps.clone(),
            pieces: Vec::new(),
        };
        Ok((id, flow))
    }

    /// Enters what a flow sends on its links.
    fn use_links(&mut self, flow: &Flow) -> Result<(), CalendarError> {
        for (path, rate) in flow.rates.iter().enumerate() {
            for link in flow.links(path) {
                let used = &mut self.used[link.index()];
                let nominal = self.network.link(*link).capacity.as_bit_per_s();
                let most = self.timetable.most(*link).max(nominal);
                *used = used.saturating_add(*rate);
                if *used > most {
                    return Err(wrong("rates_bps", "a link would be over its capacity"));
                }
            }
        }
        Ok(())
    }

    fn restore_plan(&mut self, flow: &mut Flow, plan: &[PieceEntry]) -> Result<(), CalendarError> {
        let mut sends = Profile::default();
        for (index, entry) in plan.iter().enumerate() {
            let wrong = |reason| wrong(&format!("plan[{index}]"), reason);
            let span = entry.span();
            let (from, until) = flow.window(flow.as_of);
            if entry.path >= flow.paths.len() || span.rate == 0 {
                return Err(wrong("no such path, or no rate"));
            }
            if span.start >= span.end || span.start < from || span.end > until {
                return Err(wrong("empty, or not between start and deadline"));
            }
            if !self.timetable.has_room(flow.links(entry.path), &span)
                || !sends.has_room(&span, flow.limit)
            {
                return Err(wrong("a link or the transfer would be over what it can carry"));
            }
            sends.add(&span);
            self.timetable.reserve(flow.links(entry.path), &span);
            flow.pieces.push(Piece { path: entry.path, span });
        }
        Ok(())
    }
}

impl Document {
    fn options(&self) -> Result<WeirOptions, CalendarError> {
        let worth = [Worth::Anything, Worth::Request];
        let worth = worth.into_iter().find(|worth| worth.policy_name() == self.policy);
        let worth = worth.ok_or_else(|| wrong("policy", "none of Weir's own"))?;
        if self.paths == 0 || self.paths > PATHS_MAX {
            return Err(wrong("paths", "none, or too many"));
        }
        let (paths, epoch) = (self.paths, Time::from_ns(self.epoch_ns));
        Ok(WeirOptions { paths, epoch, worth, hold: Time::ZERO, measured: true })
    }
}

impl AskedEntry {
    /// `None` of a link of which nothing was asked.
    fn of((link, asked): (usize, &OnLink)) -> Option<Self> {
        let texts = |sums: &Sums| sums.iter().map(f64::to_string).collect();
        let by_burden = asked.by_burden.iter().map(|(octave, sums)| (*octave, texts(sums)));
        let entry = || Self { link, as_of_ns: asked.as_of.as_ns(), by_burden: by_burden.collect() };
        (!asked.by_burden.is_empty()).then(entry)
    }

    fn read(&self) -> Option<OnLink> {
        let sums = |texts: &Vec<String>| -> Option<Sums> {
            let sums: Option<Vec<f64>> = texts.iter().map(|text| text.parse().ok()).collect();
            sums?.try_into().ok()
        };
        let by_burden = self.by_burden.iter().map(|(octave, texts)| Some((*octave, sums(texts)?)));
        Some(OnLink {
            as_of: Time::from_ns(self.as_of_ns),
            by_burden: by_burden.collect::<Option<_>>()?,
        })
    }
}

impl FlowEntry {
    /// What remains by the model and by the last report.
    fn amounts(&self) -> Result<(u128, u128), CalendarError> {
        let of = |place, amount: Amount| {
            amount.up_to(self.size_bytes).ok_or_else(|| wrong(place, "more than the size"))
        };
        Ok((of("remaining", self.remaining)?, of("measured", self.measured)?))
    }
}

impl PieceEntry {
    fn of(piece: &Piece) -> Self {
        let Piece { path, span: Span { start, end, rate } } = *piece;
        Self { path, start_ns: start, end_ns: end, rate_bps: rate }
    }

    fn span(&self) -> Span {
        Span { start: self.start_ns, end: self.end_ns, rate: self.rate_bps }
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands in a reference")]
fn is_one(weight: &u32) -> bool {
    *weight == 1
}

fn no_number() -> CalendarError {
    wrong("number", "that of no flow, or of another one")
}

fn fraction(place: &str, text: &str) -> Result<f64, CalendarError> {
    text.parse().map_err(|_| wrong(place, "no number"))
}
