//! The calendar as Python sees it.

use std::str::FromStr;
use std::sync::Arc;

use pyo3::prelude::*;
use weir_schedule::calendar::{
    Admission, CalendarError, CapacityPiece, Change, Completions, Decision as Outcome, FlowId,
    FlowState, FlowView, LinkView, Reason as Cause, Request, ReshapeKey, Servable, ServiceOptions,
    Split, Terms, restore, servable, servable_policies,
};
use weir_topology::{LinkId, Network};

use crate::errors::bad_input;
use crate::units::{Bytes, Rate, Time};

type Changes = Vec<(String, Rate)>;
/// Paths, by the names of their links, with what is sent on each.
type Lanes = Vec<(Vec<String>, Rate)>;

fn told(changes: Vec<Change>) -> Changes {
    let told = |change: Change| (change.flow.as_str().to_owned(), Rate(change.rate));
    changes.into_iter().map(told).collect()
}

fn limit(rate: weir_units::Rate) -> Option<Rate> {
    (rate != weir_units::Rate::MAX).then_some(Rate(rate))
}

/// Why a request was refused: `kind` is "deadline", "rate_max", "link" or "worth"; for the middle
/// two, what the deadline needs and what there is.
#[pyclass(frozen, get_all, module = "weir")]
#[derive(Clone)]
struct Reason {
    kind: &'static str,
    link: Option<String>,
    needed: Option<Rate>,
    available: Option<Rate>,
}

#[pymethods]
impl Reason {
    fn __repr__(&self) -> String {
        self.to_string()
    }

    fn __str__(&self) -> String {
        self.to_string()
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Some(needed), Some(available)) = (&self.needed, &self.available) else {
            return match &self.link {
                Some(link) => write!(out, "link \"{link}\" is in demand for what is worth more"),
                None => write!(out, "the deadline is not after now"),
            };
        };
        write!(out, "the deadline needs {}, ", needed.0)?;
        match &self.link {
            Some(link) => write!(out, "link \"{link}\" can give {}", available.0),
            None => write!(out, "the transfer's own maximum is {}", available.0),
        }
    }
}

impl Reason {
    fn of(network: &Network, cause: &Cause) -> Self {
        let (kind, link, numbers) = match *cause {
            Cause::DeadlinePassed { .. } => ("deadline", None, None),
            Cause::RateLimit { needed, limit } => ("rate_max", None, Some((needed, limit))),
            Cause::Link { link, needed, available } => {
                ("link", Some(network.link(link).name.clone()), Some((needed, available)))
            }
            Cause::Worth { link } => ("worth", Some(network.link(link).name.clone()), None),
        };
        let needed = numbers.map(|(needed, _)| Rate(needed));
        let available = numbers.map(|(_, available)| Rate(available));
        Self { kind, link, needed, available }
    }
}

/// The answer to a request; `waiting` if it comes at an epoch. `size` is what was promised, which
/// may be less than what was asked for; `lanes` is the rate on each path that it may take.
#[pyclass(frozen, get_all, module = "weir")]
struct Decision {
    accepted: bool,
    waiting: bool,
    rate: Option<Rate>,
    size: Option<Bytes>,
    path: Vec<String>,
    lanes: Lanes,
    changes: Changes,
    reason: Option<Reason>,
    earliest_deadline: Option<Time>,
}

impl Decision {
    fn of(network: &Network, outcome: Outcome) -> Self {
        let undecided = Self {
            accepted: false,
            waiting: false,
            rate: None,
            size: None,
            path: Vec::new(),
            lanes: Vec::new(),
            changes: Vec::new(),
            reason: None,
            earliest_deadline: None,
        };
        match outcome {
            Outcome::Waiting => Self { waiting: true, ..undecided },
            Outcome::Accepted(accepted) => Self {
                accepted: true,
                rate: Some(Rate(accepted.rate)),
                size: Some(Bytes(accepted.size)),
                path: names(network, accepted.path.links()),
                lanes: named(network, &accepted.lanes),
                changes: told(accepted.changes),
                ..undecided
            },
            Outcome::Refused(refused) => Self {
                reason: Some(Reason::of(network, &refused.reason)),
                earliest_deadline: refused.earliest_deadline.map(Time),
                ..undecided
            },
        }
    }
}

fn named(network: &Network, split: &Split) -> Lanes {
    split.iter().map(|(path, rate)| (names(network, path.links()), Rate(*rate))).collect()
}

fn names(network: &Network, links: &[LinkId]) -> Vec<String> {
    links.iter().map(|link| network.link(*link).name.clone()).collect()
}

/// An admitted transfer as it stands; `state` is "on_time", "finishing", "at_risk" or "late".
#[pyclass(frozen, get_all, module = "weir")]
struct CalendarFlow {
    id: String,
    path: Vec<String>,
    size: Bytes,
    remaining: Bytes,
    start: Time,
    deadline: Time,
    rate: Rate,
    split: Lanes,
    rate_min: Rate,
    rate_max: Option<Rate>,
    completion: Time,
    state: &'static str,
}

impl CalendarFlow {
    fn of(network: &Network, view: FlowView) -> Self {
        Self {
            split: named(network, &view.split),
            id: view.flow.as_str().to_owned(),
            path: names(network, view.path.links()),
            size: Bytes(view.size),
            remaining: Bytes(view.remaining),
            start: Time(view.start),
            deadline: Time(view.deadline),
            rate: Rate(view.rate),
            rate_min: Rate(view.rate_min),
            rate_max: limit(view.rate_max),
            completion: Time(view.completion),
            state: state_name(view.state),
        }
    }
}

const fn state_name(state: FlowState) -> &'static str {
    match state {
        FlowState::OnTime => "on_time",
        FlowState::Finishing => "finishing",
        FlowState::AtRisk => "at_risk",
        FlowState::Late => "late",
    }
}

/// A link as it stands.
#[pyclass(frozen, get_all, module = "weir")]
struct CalendarLink {
    name: String,
    capacity: Rate,
    allotted: Rate,
    flows: usize,
}

impl CalendarLink {
    fn of(network: &Network, view: LinkView) -> Self {
        Self {
            name: network.link(view.link).name.clone(),
            capacity: Rate(view.capacity),
            allotted: Rate(view.allotted),
            flows: view.flows,
        }
    }
}

/// A bandwidth calendar: admits transfers whose deadlines will hold and says at which rate each
/// may send. Time is the caller's, from any origin, and never goes back.
#[pyclass(module = "weir")]
struct Calendar(Box<dyn Servable>);

#[pymethods]
impl Calendar {
    #[new]
    #[pyo3(signature = (network_json, policy, epoch, *, completions="reported",
                        admission="on-arrival", reshape_key="completion", paths=1))]
    fn new(
        network_json: &str,
        policy: &str,
        epoch: Time,
        completions: &str,
        admission: &str,
        reshape_key: &str,
        paths: usize,
    ) -> PyResult<Self> {
        let network = Network::from_json(network_json)
            .map_err(|error| bad_input(format!("network: {error}")))?;
        let options = ServiceOptions {
            epoch: epoch.0,
            admission: Admission::from_str(admission).map_err(bad_input)?,
            completions: Completions::from_str(completions).map_err(bad_input)?,
            reshape_key: ReshapeKey::from_str(reshape_key).map_err(bad_input)?,
            paths,
        };
        servable(policy, Arc::new(network), options).map(Self).map_err(bad_input)
    }

    /// Decides on a transfer, to start at `start` or at once, of which no less than `least` is
    /// worth moving, over `paths` paths at most; the answer may wait for `hold`. `offer` is what
    /// room was kept for it as. One that was `promised` before is only planned anew.
    #[pyo3(signature = (now, id, source, destination, size, deadline, rate_max=None, *,
                        start=None, least=None, weight=1, paths=None, hold=None, offer=None,
                        promised=false))]
    #[expect(clippy::too_many_arguments, reason = "Python callers name them")]
    fn submit(
        &mut self,
        py: Python<'_>,
        now: Time,
        id: &str,
        source: &str,
        destination: &str,
        size: Bytes,
        deadline: Time,
        rate_max: Option<Rate>,
        start: Option<Time>,
        least: Option<Bytes>,
        weight: u32,
        paths: Option<usize>,
        hold: Option<Time>,
        offer: Option<&str>,
        promised: bool,
    ) -> PyResult<Decision> {
        let terms = terms(start, least, weight, paths);
        let terms = Terms { hold: or_zero(hold), is_promised: promised, ..terms };
        let request = self.request(id, (source, destination), size, deadline, rate_max, terms)?;
        let offer = offer.map(FlowId::new);
        let outcome = py.detach(|| match &offer {
            Some(offer) => self.0.take_up(now.0, offer, request),
            None => self.0.submit(now.0, request),
        });
        Ok(Decision::of(self.0.network(), outcome.map_err(bad_input)?))
    }

    /// Keeps room for a request that was refused, from `start` on, under the name `id`, by the
    /// earliest deadline that could then be promised, though none before `deadline`: says which.
    #[pyo3(signature = (now, id, source, destination, size, deadline, rate_max=None, *,
                        start=None, weight=1, paths=None))]
    #[expect(clippy::too_many_arguments, reason = "Python callers name them")]
    fn offer(
        &mut self,
        py: Python<'_>,
        now: Time,
        id: &str,
        source: &str,
        destination: &str,
        size: Bytes,
        deadline: Time,
        rate_max: Option<Rate>,
        start: Option<Time>,
        weight: u32,
        paths: Option<usize>,
    ) -> PyResult<Option<Time>> {
        let terms = terms(start, None, weight, paths);
        let request = self.request(id, (source, destination), size, deadline, rate_max, terms)?;
        let offered = py.detach(|| self.0.offer(now.0, request));
        Ok(offered.map_err(bad_input)?.map(Time))
    }

    /// The decision that `submit` would give, and what it would cost others; nothing changes.
    #[pyo3(signature = (now, id, source, destination, size, deadline, rate_max=None, *,
                        start=None, least=None, weight=1, paths=None, offer=None))]
    #[expect(clippy::too_many_arguments, reason = "Python callers name them")]
    fn precheck(
        &mut self,
        py: Python<'_>,
        now: Time,
        id: &str,
        source: &str,
        destination: &str,
        size: Bytes,
        deadline: Time,
        rate_max: Option<Rate>,
        start: Option<Time>,
        least: Option<Bytes>,
        weight: u32,
        paths: Option<usize>,
        offer: Option<&str>,
    ) -> PyResult<Decision> {
        let terms = terms(start, least, weight, paths);
        let request = self.request(id, (source, destination), size, deadline, rate_max, terms)?;
        let offer = offer.map(FlowId::new);
        let calendar = &mut self.0;
        let outcome = py.detach(|| calendar.precheck(now.0, request, offer.as_ref()));
        let outcome = outcome.map_err(bad_input)?;
        Ok(Decision::of(self.0.network(), outcome))
    }

    /// The earliest deadline that no policy could beat for one transfer more, as of the last call:
    /// by then the links of its path can have carried it and all that is due before. Over several
    /// paths only those that leave the source and reach the destination are looked at. The room
    /// that is kept as `offer` is none.
    #[pyo3(signature = (source, destination, size, rate_max=None, paths=None, *, offer=None))]
    #[expect(clippy::too_many_arguments, reason = "Python callers name them")]
    fn earliest_by_links(
        &mut self,
        py: Python<'_>,
        source: &str,
        destination: &str,
        size: Bytes,
        rate_max: Option<Rate>,
        paths: Option<usize>,
        offer: Option<&str>,
    ) -> PyResult<Option<Time>> {
        let node = |name| self.0.network().node(name).map_err(bad_input);
        let ends = (node(source)?, node(destination)?);
        let limit = rate_max.map_or(weir_units::Rate::MAX, |rate| rate.0);
        let paths = paths.unwrap_or(usize::MAX);
        let (calendar, offer) = (&mut self.0, offer.map(FlowId::new));
        let earliest =
            py.detach(|| calendar.earliest_by_links(ends, size.0, limit, paths, offer.as_ref()));
        Ok(earliest.map_err(bad_input)?.map(Time))
    }

    /// The earliest time, as of the last call, by which what is left of an admitted transfer could
    /// be there beside all that is promised to others.
    fn earliest_end(&mut self, py: Python<'_>, id: &str) -> PyResult<Option<Time>> {
        let end = py.detach(|| self.0.earliest_end(&FlowId::new(id)));
        Ok(end.map_err(bad_input)?.map(Time))
    }

    /// Says what a link can carry from now on: from, to and rate of pieces of time, and the rate
    /// outside them.
    fn set_capacity(
        &mut self,
        py: Python<'_>,
        now: Time,
        link: &str,
        pieces: Vec<(Time, Time, Rate)>,
        outside: Rate,
    ) -> PyResult<Changes> {
        let link = self.0.network().link_named(link).map_err(bad_input)?;
        let piece = |(from, to, rate): (Time, Time, Rate)| CapacityPiece {
            from: from.0,
            to: to.0,
            rate: rate.0,
        };
        let pieces: Vec<CapacityPiece> = pieces.into_iter().map(piece).collect();
        py.detach(|| self.0.set_capacity(now.0, link, &pieces, outside.0))
            .map(told)
            .map_err(bad_input)
    }

    /// Has a transfer take no more than the first so many of its paths from now on.
    fn narrow(&mut self, py: Python<'_>, now: Time, id: &str, paths: usize) -> PyResult<Changes> {
        py.detach(|| self.0.narrow(now.0, &FlowId::new(id), paths)).map(told).map_err(bad_input)
    }

    /// Takes note of what is really left of a transfer.
    fn progress(
        &mut self,
        py: Python<'_>,
        now: Time,
        id: &str,
        remaining: Bytes,
    ) -> PyResult<Changes> {
        self.progress_all(py, now, vec![(id.to_owned(), remaining)])
    }

    /// The same of several, one after the other; a flow may be among the changes more than once.
    fn progress_all(
        &mut self,
        py: Python<'_>,
        now: Time,
        remaining: Vec<(String, Bytes)>,
    ) -> PyResult<Changes> {
        let changes = py.detach(|| {
            let mut all = Vec::new();
            for (id, remaining) in remaining {
                all.extend(self.0.progress(now.0, &FlowId::new(&id), remaining.0)?);
            }
            Ok::<_, CalendarError>(all)
        });
        changes.map(told).map_err(bad_input)
    }

    /// The transfer has delivered everything.
    fn complete(&mut self, py: Python<'_>, now: Time, id: &str) -> PyResult<Changes> {
        py.detach(|| self.0.complete(now.0, &FlowId::new(id))).map(told).map_err(bad_input)
    }

    /// The transfer is given up.
    fn cancel(&mut self, py: Python<'_>, now: Time, id: &str) -> PyResult<Changes> {
        py.detach(|| self.0.cancel(now.0, &FlowId::new(id))).map(told).map_err(bad_input)
    }

    /// Redistributes what has become free.
    fn epoch(&mut self, py: Python<'_>, now: Time) -> PyResult<Changes> {
        Ok(self.epoch_with_decisions(py, now)?.0)
    }

    /// As `epoch`, with the answers to the requests that waited for it. Other threads of Python's
    /// go on meanwhile.
    fn epoch_with_decisions(
        &mut self,
        py: Python<'_>,
        now: Time,
    ) -> PyResult<(Changes, Vec<(String, Decision)>)> {
        let epoch = py.detach(|| self.0.epoch(now.0)).map_err(bad_input)?;
        let network = self.0.network();
        let decided = |(flow, outcome): (FlowId, Outcome)| {
            (flow.as_str().to_owned(), Decision::of(network, outcome))
        };
        Ok((told(epoch.changes), epoch.decisions.into_iter().map(decided).collect()))
    }

    /// When `epoch` is next due.
    #[getter]
    fn next_epoch(&self) -> Time {
        Time(self.0.next_epoch())
    }

    /// The transfers that ended by the model since last asked, with the time of it.
    fn advance(&mut self, now: Time) -> PyResult<Vec<(String, Time)>> {
        let ended = self.0.advance(now.0).map_err(bad_input)?;
        Ok(ended.into_iter().map(|end| (end.flow.as_str().to_owned(), Time(end.at))).collect())
    }

    /// Every admitted transfer, in order of admission.
    fn flows(&self) -> Vec<CalendarFlow> {
        let views = self.0.flows().into_iter();
        views.map(|view| CalendarFlow::of(self.0.network(), view)).collect()
    }

    /// An admitted transfer, or one that waits for its answer, if it is there.
    fn flow(&self, id: &str) -> Option<CalendarFlow> {
        let view = self.0.flow(&FlowId::new(id))?;
        Some(CalendarFlow::of(self.0.network(), view))
    }

    /// The rate of every admitted transfer, in order of admission.
    fn rates(&self) -> Changes {
        let views = self.0.flows().into_iter();
        views.map(|view| (view.flow.as_str().to_owned(), Rate(view.rate))).collect()
    }

    /// The state of an admitted transfer, as `CalendarFlow` has it, if it is there.
    fn state(&self, id: &str) -> Option<&'static str> {
        self.0.flow(&FlowId::new(id)).map(|view| state_name(view.state))
    }

    /// Those of them whose deadlines the plan does not keep.
    fn behind(&self, ids: Vec<String>) -> Vec<String> {
        let is_behind = |id: &String| {
            let flow = self.0.flow(&FlowId::new(id));
            flow.is_some_and(|flow| matches!(flow.state, FlowState::AtRisk | FlowState::Late))
        };
        ids.into_iter().filter(is_behind).collect()
    }

    /// What a transfer sends on each of its paths, in an order that never changes.
    fn lanes(&self, id: &str) -> Lanes {
        named(self.0.network(), &self.0.lanes(&FlowId::new(id)))
    }

    /// Every link, in the network's order.
    fn links(&self) -> Vec<CalendarLink> {
        let views = self.0.links().into_iter();
        views.map(|view| CalendarLink::of(self.0.network(), view)).collect()
    }

    /// The whole state as JSON. Other threads of Python's go on meanwhile.
    fn snapshot(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.snapshot())
    }

    /// Another calendar with the same state.
    fn copy(&self, py: Python<'_>) -> Self {
        Self(py.detach(|| self.0.clone_box()))
    }

    /// The calendar that `snapshot` wrote.
    #[staticmethod]
    fn restore(py: Python<'_>, text: &str) -> PyResult<Self> {
        py.detach(|| restore(text)).map(Self).map_err(bad_input)
    }
}

impl Calendar {
    fn request(
        &self,
        id: &str,
        (source, destination): (&str, &str),
        size: Bytes,
        deadline: Time,
        rate_max: Option<Rate>,
        terms: Terms,
    ) -> PyResult<Request> {
        let node = |name| self.0.network().node(name).map_err(bad_input);
        Ok(Request {
            id: FlowId::new(id),
            source: node(source)?,
            destination: node(destination)?,
            size: size.0,
            deadline: deadline.0,
            rate_max: rate_max.map_or(weir_units::Rate::MAX, |rate| rate.0),
            terms,
        })
    }
}

fn terms(start: Option<Time>, least: Option<Bytes>, weight: u32, paths: Option<usize>) -> Terms {
    let paths = paths.unwrap_or(usize::MAX);
    let least = least.map(|least| least.0);
    Terms { start: or_zero(start), least, weight, paths, ..Terms::default() }
}

fn or_zero(time: Option<Time>) -> weir_units::Time {
    time.map_or(weir_units::Time::ZERO, |time| time.0)
}

/// The names of the policies that `Calendar` takes.
#[pyfunction]
fn calendar_policies() -> Vec<String> {
    servable_policies()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Reason>()?;
    module.add_class::<Decision>()?;
    module.add_class::<CalendarFlow>()?;
    module.add_class::<CalendarLink>()?;
    module.add_class::<Calendar>()?;
    module.add_function(wrap_pyfunction!(calendar_policies, module)?)
}
