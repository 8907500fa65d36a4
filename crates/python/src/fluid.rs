//! The fluid simulator as Python sees it: JSON or text in, arrays of bytes out.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weir_fluid::trace::Trace;
use weir_fluid::{Fate, FluidError, Listed, Model, Outcome, Record, Study, simulate};
use weir_topology::Network;

use crate::errors::bad_input;
use crate::units::Time;

/// What a simulation found; see `weir/_core.pyi` for the form of the arrays.
#[pyclass(frozen, module = "weir._core")]
struct FluidOutcome {
    outcome: Outcome,
    links: Vec<String>,
}

impl FluidOutcome {
    fn of(network: &Network, outcome: Outcome) -> Self {
        let links = network.links().map(|link| network.link(link).name.clone()).collect();
        Self { outcome, links }
    }

    /// Eight bytes for each flow, in the order of arrival.
    fn array<'py>(&self, py: Python<'py>, of: impl Fn(&Record) -> [u8; 8]) -> Bound<'py, PyBytes> {
        let bytes: Vec<u8> = self.outcome.flows.iter().flat_map(of).collect();
        PyBytes::new(py, &bytes)
    }
}

#[pymethods]
impl FluidOutcome {
    #[getter]
    fn arrival_ns<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.array(py, |flow| flow.at.as_ns().to_le_bytes())
    }

    #[getter]
    fn end_ns<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.array(py, |flow| match flow.fate {
            Fate::Ended(at) => at.as_ns().to_le_bytes(),
            Fate::Refused(_) | Fate::UnderWay => u64::MAX.to_le_bytes(),
        })
    }

    #[getter]
    fn deadline_ns<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.array(py, |flow| flow.deadline.as_ns().to_le_bytes())
    }

    #[getter]
    fn size_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.array(py, |flow| flow.size.count().to_le_bytes())
    }

    #[getter]
    fn throughput_bps<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.array(py, |flow| flow.throughput().unwrap_or(f64::NAN).to_le_bytes())
    }

    #[getter]
    fn utilisation(&self) -> Vec<(String, f64)> {
        let names = self.links.iter().cloned();
        names.zip(self.outcome.utilisation.iter().copied()).collect()
    }

    #[getter]
    fn mean_throughput_bps(&self) -> Option<f64> {
        self.outcome.mean_throughput()
    }

    #[getter]
    fn mean_completion_s(&self) -> Option<f64> {
        self.outcome.mean_completion_s()
    }

    #[getter]
    fn on_time_share(&self) -> Option<f64> {
        self.outcome.on_time_share()
    }

    #[getter]
    fn reject_rate(&self) -> Option<f64> {
        self.outcome.reject_rate()
    }

    #[getter]
    fn mean_utilisation(&self) -> Option<f64> {
        self.outcome.mean_utilisation()
    }

    #[getter]
    fn jain_index(&self) -> Option<f64> {
        self.outcome.jain_index()
    }

    #[getter]
    fn makespan(&self) -> Option<Time> {
        self.outcome.makespan().map(Time)
    }

    #[getter]
    fn end(&self) -> Time {
        Time(self.outcome.end)
    }

    fn __len__(&self) -> usize {
        self.outcome.flows.len()
    }
}

/// Runs a study.
#[pyfunction]
fn simulate_study(py: Python<'_>, study_json: &str) -> PyResult<FluidOutcome> {
    let run = || {
        let study = Study::from_json(study_json)?;
        Ok(FluidOutcome::of(&study.network, study.run()?))
    };
    py.detach(run).map_err(|error: FluidError| bad_input(error))
}

/// Runs the flows of a trace.
#[pyfunction]
#[pyo3(signature = (trace, *, sharing="max-min", priorities=1, until=None))]
fn simulate_trace(
    py: Python<'_>,
    trace: &str,
    sharing: &str,
    priorities: u8,
    until: Option<Time>,
) -> PyResult<FluidOutcome> {
    let model = Model::named(sharing, priorities).map_err(bad_input)?;
    let run = || {
        let Trace { network, routes, flows } = Trace::parse(trace)?;
        let until = until.map_or(weir_units::Time::MAX, |time| time.0);
        let mut source = Listed::new(&flows);
        let outcome = simulate(&network, &routes, model.sharing(), &mut source, until)?;
        Ok(FluidOutcome::of(&network, outcome))
    };
    py.detach(run).map_err(|error: FluidError| bad_input(error))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<FluidOutcome>()?;
    module.add_function(wrap_pyfunction!(simulate_study, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_trace, module)?)
}
