//! Networks as Python sees them: their JSON form.

use pyo3::prelude::*;

/// The JSON form of G-scale (B4): 12 sites `1` to `12`, 19 links of 10 Gbit/s each way.
#[pyfunction]
fn g_scale() -> String {
    weir_topology::named::g_scale().to_json()
}

/// The JSON form of the six routers of the headroom study: `A` to `F`, 16 links of 10 Gbit/s in
/// the order of their numbers.
#[pyfunction]
fn six_routers() -> String {
    weir_topology::named::six_routers().to_json()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(g_scale, module)?)?;
    module.add_function(wrap_pyfunction!(six_routers, module)?)
}
