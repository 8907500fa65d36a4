//! Headroom services as Python sees them: JSON in, numbers out.

use std::sync::Arc;

use pyo3::prelude::*;
use weir_fluid::headroom::{HeadroomOutcome, HeadroomStudy};
use weir_random::Random;
use weir_schedule::headroom::{Elephant, Elephants, Options, Provider, Sharing};
use weir_topology::Network;

use crate::errors::bad_input;
use crate::units::{Bytes, Rate};

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

/// The provider's controller; see `weir/_core.pyi`.
#[pyclass(module = "weir._core")]
struct HeadroomProvider {
    network: Arc<Network>,
    provider: Provider,
}

#[pymethods]
impl HeadroomProvider {
    #[new]
    #[pyo3(signature = (network_json, service_json="{}", *, seed=1))]
    fn new(network_json: &str, service_json: &str, seed: u64) -> PyResult<Self> {
        let network = Arc::new(Network::from_json(network_json).map_err(bad_input)?);
        let options = Options::from_json(service_json).map_err(bad_input)?;
        let random = Random::of_source(seed, &["headroom", "ties"]);
        let provider = Provider::new(network.clone(), options, random).map_err(bad_input)?;
        Ok(Self { network, provider })
    }

    /// The links of the path of a flow that starts now.
    #[pyo3(signature = (flow, ingress, egress, *, rate_max=None, size=None))]
    fn start(
        &mut self,
        flow: u64,
        ingress: &str,
        egress: &str,
        rate_max: Option<Rate>,
        size: Option<Bytes>,
    ) -> PyResult<Vec<String>> {
        let elephant = Elephant {
            ingress: self.network.node(ingress).map_err(bad_input)?,
            egress: self.network.node(egress).map_err(bad_input)?,
            rate_max: rate_max.map_or(weir_units::Rate::MAX, |rate| rate.0),
            size: size.map(|size| size.0),
        };
        let choice = self.provider.start(flow, elephant).map_err(bad_input)?;
        let name = |link: &weir_topology::LinkId| self.network.link(*link).name.clone();
        Ok(choice.path.links().iter().map(name).collect())
    }

    /// A flow is over.
    fn end(&mut self, flow: u64) -> PyResult<()> {
        self.provider.end(flow).map_err(bad_input)
    }
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
    module.add_class::<HeadroomProvider>()?;
    module.add_function(wrap_pyfunction!(headroom_expectation, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_headroom, module)?)?;
    module.add_function(wrap_pyfunction!(default_paths, module)?)
}
