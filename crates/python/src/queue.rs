//! `queue_refusal`: whether a queue discipline can be as its configuration says.

use pyo3::prelude::*;
use weir_queue::{DisciplineConfig, QueueError};
use weir_units::Rate;

use crate::BadInput;

/// The key whose value cannot be right and the reason, or None; see `weir/_core.pyi`.
#[pyfunction]
fn queue_refusal(config_json: &str, rate_bps: u64) -> PyResult<Option<(String, String)>> {
    let config: DisciplineConfig =
        serde_json::from_str(config_json).map_err(|error| BadInput::new_err(error.to_string()))?;
    Ok(config.check(Some(Rate::from_bit_per_s(rate_bps))).err().map(|error| match error {
        QueueError::Domain { key, reason, .. } => (key.to_owned(), reason.to_owned()),
        other => ("discipline".to_owned(), other.to_string()),
    }))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(queue_refusal, module)?)
}
