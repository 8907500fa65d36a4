//! Flows with deadlines on one link, as Python sees them.

use pyo3::prelude::*;
use weir_schedule::deadline::Kind;
use weir_schedule::deadline::fabric::FabricKind;
use weir_schedule::deadline::model::{self, Estimate, FatTree, NewFlow, Readings, Sample, Setting};

use crate::errors::bad_input;

fn kind(name: &str) -> PyResult<Kind> {
    name.parse().map_err(bad_input)
}

/// What one run of one policy gave; times in slots.
#[pyclass(frozen, get_all, module = "weir")]
struct DeadlineSample {
    generated: u64,
    on_time: u64,
    on_time_share: f64,
    optimum: Option<u64>,
    completion_slots: f64,
    last_end_slot: f64,
    utilisation: f64,
}

impl From<Sample> for DeadlineSample {
    fn from(sample: Sample) -> Self {
        Self {
            generated: sample.generated,
            on_time: sample.on_time,
            on_time_share: sample.on_time_share(),
            optimum: sample.optimum,
            completion_slots: sample.completion_slots,
            last_end_slot: sample.last_end_slot,
            utilisation: sample.utilisation,
        }
    }
}

/// The names of the policies.
#[pyfunction]
fn deadline_policies() -> Vec<&'static str> {
    Kind::ALL.map(Kind::name).to_vec()
}

/// The slot by which each flow (arrival, size, deadline, in slots) ended on time under a policy.
#[pyfunction]
fn deadline_serve(
    py: Python<'_>,
    policy: &str,
    flows: Vec<(u64, u64, u64)>,
) -> PyResult<Vec<Option<u64>>> {
    let policy = kind(policy)?;
    let flow = |(server, (at, size_slots, deadline_slot))| {
        (at, NewFlow { server, size_slots, deadline_slot })
    };
    let flows: Vec<_> = (0..).zip(flows).map(flow).collect();
    py.detach(|| model::serve(policy, &flows)).map_err(bad_input)
}

/// The 16 published figures as JSON, under the given readings.
#[pyfunction]
#[pyo3(signature = (readings="{}"))]
fn deadline_figures(readings: &str) -> PyResult<String> {
    let readings = Readings::from_json(readings).map_err(bad_input)?;
    Ok(model::figures_json(&readings))
}

/// One run per seed of a policy in a setting, given as JSON.
#[pyfunction]
fn deadline_run(
    py: Python<'_>,
    setting: &str,
    policy: &str,
    seeds: Vec<u64>,
) -> PyResult<Vec<DeadlineSample>> {
    let (setting, policy) = (Setting::from_json(setting).map_err(bad_input)?, kind(policy)?);
    let run = |seed: &u64| setting.run(policy, *seed).map(DeadlineSample::from);
    py.detach(|| seeds.iter().map(run).collect::<Result<_, _>>()).map_err(bad_input)
}

/// One run per seed of a policy in a fat-tree, given as JSON.
#[pyfunction]
fn deadline_fat_tree(
    py: Python<'_>,
    tree: &str,
    policy: &str,
    seeds: Vec<u64>,
) -> PyResult<Vec<DeadlineSample>> {
    let tree = FatTree::from_json(tree).map_err(bad_input)?;
    let policy: FabricKind = policy.parse().map_err(bad_input)?;
    let run = |seed: &u64| tree.run(policy, *seed).map(DeadlineSample::from);
    py.detach(|| seeds.iter().map(run).collect::<Result<_, _>>()).map_err(bad_input)
}

/// Mean and half the 95 % confidence interval over independent runs.
#[pyfunction]
fn estimate(values: Vec<f64>) -> PyResult<(f64, f64)> {
    let estimate = Estimate::of(&values);
    let estimate = estimate.ok_or_else(|| bad_input("an estimate needs at least one value"))?;
    Ok((estimate.mean, estimate.margin))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DeadlineSample>()?;
    module.add_function(wrap_pyfunction!(deadline_policies, module)?)?;
    module.add_function(wrap_pyfunction!(deadline_serve, module)?)?;
    module.add_function(wrap_pyfunction!(deadline_figures, module)?)?;
    module.add_function(wrap_pyfunction!(deadline_run, module)?)?;
    module.add_function(wrap_pyfunction!(deadline_fat_tree, module)?)?;
    module.add_function(wrap_pyfunction!(estimate, module)?)
}
