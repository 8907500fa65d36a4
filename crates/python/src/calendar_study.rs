//! Calendars measured in the fluid simulator, as Python sees them.

use pyo3::prelude::*;
use weir_fluid::calendar::{CalendarStudy, Figures, StudyPolicy};
use weir_topology::Network;

use crate::errors::bad_input;

/// What one run of one policy gave; see `weir/_core.pyi`.
#[pyclass(frozen, get_all, module = "weir._core")]
struct CalendarFigures {
    requests: usize,
    reject_rate: f64,
    success: f64,
    utilisation: f64,
    index: f64,
    bytes_on_time_share: f64,
    bytes_delivered_share: f64,
    missed: u64,
    changes_per_request: f64,
    bookings: Vec<CalendarBooking>,
}

/// A request of a study.
#[pyclass(frozen, get_all, module = "weir._core")]
#[derive(Clone)]
struct CalendarBooking {
    arrival_ns: u64,
    start_ns: u64,
    deadline_ns: u64,
    source: String,
    destination: String,
    size_bytes: u64,
    on_time: bool,
    delivered_bytes: u64,
}

impl CalendarFigures {
    fn of(network: &Network, figures: &Figures) -> Self {
        let booking = |(at, flow): (usize, &weir_fluid::Flow)| {
            let (source, destination) = figures.routes.nodes(flow.route);
            CalendarBooking {
                arrival_ns: flow.at.as_ns(),
                start_ns: flow.start.as_ns(),
                deadline_ns: flow.deadline.as_ns(),
                source: network.node_name(source).to_owned(),
                destination: network.node_name(destination).to_owned(),
                size_bytes: flow.size.count(),
                on_time: figures.on_time[at],
                delivered_bytes: figures.delivered[at].count(),
            }
        };
        Self {
            requests: figures.requests.len(),
            reject_rate: figures.reject_rate,
            success: figures.success(),
            utilisation: figures.utilisation,
            index: figures.index(),
            bytes_on_time_share: figures.bytes_on_time_share,
            bytes_delivered_share: figures.bytes_delivered_share,
            missed: figures.missed,
            changes_per_request: figures.changes_per_request,
            bookings: figures.requests.iter().enumerate().map(booking).collect(),
        }
    }
}

/// The names of the policies that a study can run.
#[pyfunction]
fn calendar_study_policies() -> Vec<String> {
    StudyPolicy::all().iter().map(StudyPolicy::to_string).collect()
}

/// Runs one policy on one workload.
#[pyfunction]
fn calendar_study(py: Python<'_>, study_json: &str) -> PyResult<CalendarFigures> {
    let run = || {
        let study = CalendarStudy::from_json(study_json)?;
        Ok(CalendarFigures::of(&study.network, &study.run()?))
    };
    py.detach(run).map_err(|error: weir_fluid::FluidError| bad_input(error))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CalendarFigures>()?;
    module.add_class::<CalendarBooking>()?;
    module.add_function(wrap_pyfunction!(calendar_study_policies, module)?)?;
    module.add_function(wrap_pyfunction!(calendar_study, module)?)
}
