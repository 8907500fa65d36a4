//! `weir._core`: the one door between the Python package and the Rust crates.
//!
//! One file per crate, each with a `register` that adds its names to the module. Nothing here
//! decides anything: arguments are converted, one call is made, errors become the exceptions of
//! `weir.errors`.

use pyo3::prelude::*;

mod application;
mod calendar_study;
mod deadline;
mod emulate;
mod errors;
mod fluid;
mod headroom;
mod link;
mod live;
mod migration;
mod packet;
mod probe;
mod queue;
mod relay;
mod schedule;
mod series;
mod table;
mod topology;
mod transfer;
mod units;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("__source__", env!("WEIR_SOURCE"))?;
    units::register(module)?;
    application::register(module)?;
    emulate::register(module)?;
    queue::register(module)?;
    link::register(module)?;
    topology::register(module)?;
    schedule::register(module)?;
    series::register(module)?;
    calendar_study::register(module)?;
    deadline::register(module)?;
    fluid::register(module)?;
    headroom::register(module)?;
    live::register(module)?;
    migration::register(module)?;
    packet::register(module)?;
    probe::register(module)?;
    relay::register(module)?;
    table::register(module)?;
    transfer::register(module)
}
