//! Headroom services as Python sees them: JSON in, numbers out.

use pyo3::prelude::*;
use weir_fluid::headroom::{HeadroomOutcome, HeadroomStudy};
use weir_schedule::headroom::{Elephants, Sharing};
use weir_topology::Network;

use crate::BadInput;
use crate::units::{Bytes, Rate};

fn bad_input(error: impl ToString) -> PyErr {
    BadInput::new_err(error.to_string())
}

/// What a link's headroom gives in the long run.
#[pyclass(frozen, get_all, module = "weir._core")]
struct HeadroomExpectation {
    utilisation: f64,
    flows: f64,
    throughput_bps: f64,
}

/// What one run of a study found; links in the order of the network.
#[pyclass(frozen, get_all, module = "weir._core")]
struct HeadroomSample {
    flows: usize,
    mean_throughput_bps: Option<f64>,
    total_throughput_bps: Option<f64>,
    mean_completion_s: Option<f64>,
    detoured_share: f64,
    links: Vec<String>,
    utilisation: Vec<f64>,
    occupancy: Vec<f64>,
}

impl HeadroomSample {
    fn of(network: &Network, found: HeadroomOutcome) -> Self {
        let HeadroomOutcome { flows, occupancy, detoured } = found;
        let links = network.links().map(|link| network.link(link).name.clone()).collect();
        Self {
            flows: flows.flows.len(),
            mean_throughput_bps: flows.mean_throughput(),
            total_throughput_bps: flows.total_throughput(),
            mean_completion_s: flows.mean_completion_s(),
            detoured_share: detoured,
            links,
            utilisation: flows.utilisation,
            occupancy,
        }
    }
}

/// The analytic model of one link.
#[pyfunction]
#[pyo3(signature = (arrivals_per_s, shape, minimum, headroom, *, processor_sharing=false))]
fn headroom_expectation(
    arrivals_per_s: f64,
    shape: f64,
    minimum: Bytes,
    headroom: Rate,
    processor_sharing: bool,
) -> PyResult<HeadroomExpectation> {
    let sharing = if processor_sharing { Sharing::Equally } else { Sharing::InTurn };
    let elephants = Elephants { arrivals_per_s, shape, minimum: minimum.0 };
    let found = elephants.over(headroom.0, sharing).map_err(bad_input)?;
    let (utilisation, flows, throughput_bps) =
        (found.utilisation, found.flows, found.throughput_bps);
    Ok(HeadroomExpectation { utilisation, flows, throughput_bps })
}

/// Runs a study.
#[pyfunction]
fn simulate_headroom(py: Python<'_>, study_json: &str) -> PyResult<HeadroomSample> {
    let run = || {
        let headroom = HeadroomStudy::from_json(study_json)?;
        Ok(HeadroomSample::of(&headroom.study.network, headroom.run()?))
    };
    py.detach(run).map_err(|error: weir_fluid::FluidError| bad_input(error))
}

/// For each link, the number of pairs of nodes whose default path crosses it.
#[pyfunction]
fn default_paths(network_json: &str) -> PyResult<Vec<(String, usize)>> {
    let network = Network::from_json(network_json).map_err(bad_input)?;
    let crossing = weir_schedule::headroom::default_paths(&network).map_err(bad_input)?;
    let name = |link| network.link(link).name.clone();
    Ok(network.links().map(name).zip(crossing).collect())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HeadroomExpectation>()?;
    module.add_class::<HeadroomSample>()?;
    module.add_function(wrap_pyfunction!(headroom_expectation, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_headroom, module)?)?;
    module.add_function(wrap_pyfunction!(default_paths, module)?)
}
