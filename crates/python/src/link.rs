//! `link_refusal`: whether a wireless or a credit-based link can be as its configuration says.

use pyo3::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use weir_link::{ChannelConfig, CreditConfig, DirectionConfig, LinkError};
use weir_units::Bytes;

use crate::errors::bad_input;

/// What a direction may share with others.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Shared {
    Wlan(ChannelConfig),
    Credits(CreditConfig),
}

/// The key whose value cannot be right and the reason, or None; see `weir/_core.pyi`.
#[pyfunction]
#[pyo3(signature = (shared_json, direction_json, mtu_bytes))]
fn link_refusal(
    shared_json: &str,
    direction_json: Option<&str>,
    mtu_bytes: u32,
) -> PyResult<Option<(String, String)>> {
    let direction: Option<DirectionConfig> = direction_json.map(read).transpose()?;
    let mtu = Bytes::new(mtu_bytes.into());
    let checked = match (read(shared_json)?, &direction) {
        (Shared::Wlan(channel), None) => channel.check().map(|_| ()),
        (Shared::Wlan(channel), Some(direction)) => {
            channel.standard.check(direction, mtu).map(|_| ())
        }
        (Shared::Credits(_), None) => Ok(()),
        (Shared::Credits(credits), Some(direction)) => credits.check(direction, mtu).map(|_| ()),
    };
    Ok(checked.err().map(|LinkError { key, reason, .. }| (key, reason)))
}

fn read<T: DeserializeOwned>(json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(bad_input)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(link_refusal, module)?)
}
