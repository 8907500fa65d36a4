//! `queue_refusal`, `queue_limit`: whether a queue discipline can be as its configuration says, and
//! what it then holds. `queue_parameters`: what a configuration may say.

use pyo3::prelude::*;
use weir_queue::{DisciplineConfig, Limit, QueueError};
use weir_units::Rate;

use crate::errors::bad_input;

/// The key whose value cannot be right and the reason, or None; see `weir/_core.pyi`.
#[pyfunction]
fn queue_refusal(config_json: &str, rate_bps: u64) -> PyResult<Option<(String, String)>> {
    let config = read(config_json)?;
    Ok(config.check(Some(Rate::from_bit_per_s(rate_bps))).err().map(|error| match error {
        QueueError::Domain { key, reason, .. } => (key.to_owned(), reason.to_owned()),
        other => ("discipline".to_owned(), other.to_string()),
    }))
}

/// What each of its classes holds: bytes, or packets, or neither; see `weir/_core.pyi`.
#[pyfunction]
fn queue_limit(config_json: &str, rate_bps: u64) -> PyResult<(Option<u64>, Option<u64>, u64)> {
    let config = read(config_json)?;
    let classes = config.split();
    let each = config.limit(Some(Rate::from_bit_per_s(rate_bps))).split(classes);
    Ok(match each {
        Limit::Bytes(bytes) => (Some(bytes.count()), None, classes),
        Limit::Packets(packets) => (None, Some(packets), classes),
        Limit::None => (None, None, classes),
    })
}

/// Every discipline with its parameters, as JSON; see `weir/_core.pyi`.
#[pyfunction]
fn queue_parameters() -> String {
    weir_queue::parameters().to_string()
}

fn read(config_json: &str) -> PyResult<DisciplineConfig> {
    serde_json::from_str(config_json).map_err(bad_input)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(queue_parameters, module)?)?;
    module.add_function(wrap_pyfunction!(queue_limit, module)?)?;
    module.add_function(wrap_pyfunction!(queue_refusal, module)?)
}
