//! One run of one policy on one workload, and the figures that calendars are read by.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use weir_topology::{LinkId, Network, NodeId, Path, TopologyError};
use weir_units::{Bytes, Time};

use super::StudyPolicy;
use crate::sharing::Rule;
use crate::workload::{PublishedClock, Workload};
use crate::{
    Fate, Flow, FluidError, Listed, Outcome, Rates, Record, Routes, Scheduler, Sharing, Source,
    document, simulate,
};

/// Which clock requests arrive on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The workload's clock, which is also the flows'.
    #[default]
    True,
    /// The clock of the simulator behind the published figures: [`PublishedClock`].
    Published,
}

/// A run to be made.
#[derive(Clone, Debug)]
pub struct CalendarStudy {
    /// The links.
    pub network: Arc<Network>,
    /// Who decides.
    pub policy: StudyPolicy,
    /// The span between redistributions, and with the published clock between decisions.
    pub epoch: Time,
    /// When requests arrive.
    pub clock: Clock,
    /// Sent on between their ends instead of the shortest, by policies of one path.
    pub paths: Vec<Path>,
    /// The requests; each has a deadline.
    pub workload: Workload,
}

/// The JSON form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    network: serde_json::Value,
    policy: String,
    epoch_s: f64,
    #[serde(default)]
    clock: Clock,
    /// Names of nodes, from end to end.
    #[serde(default)]
    paths: Vec<Vec<String>>,
    workload: Workload,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Every request, by arrival.
    pub requests: Vec<Flow>,
    /// The routes of the requests, and others that the policy might have taken.
    pub routes: Routes,
    /// Whether each was over by its deadline, or is promised to be.
    pub on_time: Vec<bool>,
    /// How much of each was there by its deadline, or is promised to be.
    pub delivered: Vec<Bytes>,
    /// The share that was refused, or given up at its deadline.
    pub reject_rate: f64,
    /// Mean over the links of the exact time average, from the origin to the last request.
    pub utilisation: f64,
    /// Bytes of the requests that are on time over bytes of all.
    pub bytes_on_time_share: f64,
    /// The same with the parts of those that were given up at their deadline.
    pub bytes_delivered_share: f64,
    /// Requests that were not refused and missed their deadline.
    pub missed: u64,
    /// Rates told to flows that were there before, per request; zero without a scheduler.
    pub changes_per_request: f64,
}

impl Figures {
    /// The share of requests that are on time.
    pub fn success(&self) -> f64 {
        self.on_time.iter().filter(|on_time| **on_time).count() as f64 / self.requests.len() as f64
    }

    /// Share of requests that succeed over the share of the network that idles (000-spec 4.6).
    pub fn index(&self) -> f64 {
        self.success() / (1.0 - self.utilisation)
    }
}

impl CalendarStudy {
    /// Reads `{"network": NETWORK, "policy": NAME, "epoch_s": S, "clock": "true" | "published",
    /// "paths": [[NODE, …], …], "workload": WORKLOAD}`; the clock and the paths may be left out.
    /// Paths are those of the five policies of Calibers, the others choose among several.
    ///
    /// # Errors
    /// [`FluidError::Parameter`] with the place, or what the network's builder refuses.
    pub fn from_json(text: &str) -> Result<Self, FluidError> {
        let document: Document = document::read(text)?;
        let epoch = Time::from_s(document.epoch_s);
        if epoch == Time::ZERO {
            let reason = format!("{} s is not a span", document.epoch_s);
            return Err(FluidError::Parameter { place: "epoch_s".to_owned(), reason });
        }
        let network = Arc::new(Network::from_json(&document.network.to_string())?);
        let policy: StudyPolicy = document.policy.parse()?;
        if !document.paths.is_empty() && !matches!(policy, StudyPolicy::Calibers(_)) {
            let reason = format!("{policy} chooses its own");
            return Err(FluidError::Parameter { place: "paths".to_owned(), reason });
        }
        let paths: Result<Vec<Path>, FluidError> = document
            .paths
            .iter()
            .enumerate()
            .map(|(at, nodes)| path_over(&network, &format!("paths[{at}]"), nodes))
            .collect();
        let (clock, workload) = (document.clock, document.workload);
        Ok(Self { paths: paths?, network, policy, epoch, clock, workload })
    }

    /// Runs it.
    ///
    /// # Errors
    /// A workload that cannot be, or a request without a deadline.
    pub fn run(&self) -> Result<Figures, FluidError> {
        let mut routes = Routes::new();
        let mut drawn = self.workload.draw(&self.network, &mut routes)?;
        let (flows, epochs, end) = match self.clock {
            Clock::True => {
                let flows: Vec<Flow> = std::iter::from_fn(|| drawn.take()).collect();
                let end = flows.last().map_or(Time::ZERO, |flow| flow.at);
                (flows, None, end)
            }
            Clock::Published => {
                let clock = PublishedClock::new(&self.workload, &mut drawn, self.epoch)?;
                (clock.flows, Some(clock.epochs), clock.end)
            }
        };
        if let Some(flow) = flows.iter().position(|flow| !flow.has_deadline()) {
            return Err(FluidError::NoDeadline { flow });
        }
        if self.policy.paths() > 1 {
            self.add_detours(&mut routes)?;
        }
        for path in &self.paths {
            routes.add(&self.network, path)?;
        }
        let run = Run { study: self, routes, flows, epochs };
        let (outcome, changes) = run.until(end)?;
        let utilisation = outcome.mean_utilisation().unwrap_or(0.0);
        // Whoever promises has decided once all were put to it, some of them at their start only.
        // Without a promise, what becomes of the last requests is known only when they are over.
        let put = run.flows.iter().map(|flow| flow.start.max(flow.at)).max().unwrap_or(end);
        let fates = match self.policy.promises() {
            true if put <= end => outcome,
            true => run.until(put)?.0,
            false => run.until(Time::MAX)?.0,
        };
        Ok(run.figures(&fates, utilisation, changes))
    }

    /// The further paths that the policy may take between the ends of the routes there are.
    fn add_detours(&self, routes: &mut Routes) -> Result<(), FluidError> {
        let ends: BTreeSet<_> = routes.ids().map(|route| routes.nodes(route)).collect();
        for (from, to) in ends {
            for path in self.network.shortest_paths(from, to, self.policy.paths())?.iter().skip(1) {
                routes.add(&self.network, path)?;
            }
        }
        Ok(())
    }
}

/// The path over the links that join these nodes; of parallel links, over the first.
fn path_over(network: &Network, place: &str, nodes: &[String]) -> Result<Path, FluidError> {
    let wrong = |reason: String| FluidError::Parameter { place: place.to_owned(), reason };
    let ids: Result<Vec<_>, TopologyError> = nodes.iter().map(|node| network.node(node)).collect();
    let join = |ends: &[NodeId]| {
        let joins = |id: &LinkId| {
            let link = network.link(*id);
            [link.from, link.to] == ends
        };
        let name = |end: usize| network.node_name(ends[end]);
        let no_link = || wrong(format!("no link leads from {} to {}", name(0), name(1)));
        network.links().find(joins).ok_or_else(no_link)
    };
    let links: Result<Vec<LinkId>, FluidError> = ids?.windows(2).map(join).collect();
    let path = Path::new(network, links?)?;
    if path.has_loop(network) {
        return Err(wrong("passes a node twice".to_owned()));
    }
    Ok(path)
}

/// The requests of a study.
struct Run<'a> {
    study: &'a CalendarStudy,
    routes: Routes,
    flows: Vec<Flow>,
    epochs: Option<Vec<Time>>,
}

impl Run<'_> {
    fn until(&self, end: Time) -> Result<(Outcome, u64), FluidError> {
        let Self { study, routes, flows, epochs } = self;
        let mut source = Listed::new(flows);
        let network = &study.network;
        let (epochs, paths) = (epochs.clone(), &study.paths);
        let scheduler = study.policy.scheduler(network, routes, study.epoch, epochs, paths)?;
        let Some(scheduler) = scheduler else {
            let sharing = Sharing::Fair(Rule::MaxMin);
            return Ok((simulate(network, routes, sharing, &mut source, end)?, 0));
        };
        let mut counted = Counted { scheduler, changes: 0 };
        let sharing = Sharing::Assigned(&mut counted);
        let outcome = simulate(network, routes, sharing, &mut source, end)?;
        Ok((outcome, counted.changes))
    }

    fn figures(self, outcome: &Outcome, utilisation: f64, changes: u64) -> Figures {
        let promises = self.study.policy.promises();
        let is_on_time = |record: &Record| match record.fate {
            Fate::UnderWay => promises && record.deadline >= outcome.end,
            Fate::Ended(end) => end <= record.deadline.saturating_add(grain(record.deadline)),
            Fate::Refused(_) => false,
        };
        let on_time: Vec<bool> = outcome.flows.iter().map(is_on_time).collect();
        let is_refused = |record: &&Record| matches!(record.fate, Fate::Refused(_));
        let refused = outcome.flows.iter().filter(is_refused).count();
        let in_time = on_time.iter().filter(|on_time| **on_time).count();
        let bytes = |size: Bytes| size.count() as f64;
        let all: f64 = outcome.flows.iter().map(|flow| bytes(flow.size)).sum();
        let with_fate = || outcome.flows.iter().zip(&on_time);
        let good: f64 =
            with_fate().filter(|(_, on_time)| **on_time).map(|(flow, _)| bytes(flow.size)).sum();
        let delivered: Vec<Bytes> = with_fate()
            .map(|(flow, on_time)| if *on_time { flow.size } else { flow.part })
            .collect();
        let parts: f64 = outcome.flows.iter().map(|flow| bytes(flow.part)).sum();
        let count = outcome.flows.len() as f64;
        Figures {
            requests: self.flows,
            routes: self.routes,
            reject_rate: refused as f64 / count,
            utilisation,
            bytes_on_time_share: good / all,
            bytes_delivered_share: (good + parts) / all,
            missed: (on_time.len() - in_time - refused) as u64,
            changes_per_request: changes as f64 / count,
            on_time,
            delivered,
        }
    }
}

/// How late an end may seem that is not: the world's clock is a double, and what its rounding
/// leaves at a high rate is sent at a low one (24 ns were seen after three days; this allows a
/// microsecond).
fn grain(time: Time) -> Time {
    Time::from_ns(1 + (time.as_ns() >> 38))
}

/// A scheduler, and how many rates it tells to flows that were there before.
struct Counted<'a> {
    scheduler: Box<dyn Scheduler + 'a>,
    changes: u64,
}

impl Counted<'_> {
    fn count(&mut self, rates: &mut Rates, call: impl FnOnce(&mut dyn Scheduler, &mut Rates)) {
        let before = rates.len();
        call(self.scheduler.as_mut(), rates);
        self.changes += (rates.len() - before) as u64;
    }
}

impl Scheduler for Counted<'_> {
    fn arrive(&mut self, now: Time, number: usize, flow: &Flow, rates: &mut Rates) {
        self.count(rates, |scheduler, rates| scheduler.arrive(now, number, flow, rates));
        // The answer to the request itself.
        self.changes = self.changes.saturating_sub(1);
    }

    fn end(&mut self, now: Time, number: usize, rates: &mut Rates) {
        self.count(rates, |scheduler, rates| scheduler.end(now, number, rates));
    }

    fn next_wake(&self) -> Option<Time> {
        self.scheduler.next_wake()
    }

    fn wake(&mut self, now: Time, rates: &mut Rates) {
        self.count(rates, |scheduler, rates| scheduler.wake(now, rates));
    }
}
