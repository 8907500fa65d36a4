//! `Emulator`: links in real time between TUN devices.

use pyo3::prelude::*;
use weir_emulate::{Config, EmulatorError, TunError};

use crate::errors::{Unsupported, WeirError, bad_input, words};

/// Links in real time between TUN devices; see `weir/_core.pyi` for the configuration.
#[pyclass(module = "weir")]
struct Emulator(weir_emulate::Emulator);

#[pymethods]
impl Emulator {
    #[new]
    fn new(config_json: &str) -> PyResult<Self> {
        let config = Config::from_json(config_json).map_err(bad_input)?;
        Ok(Self(weir_emulate::Emulator::new(config)))
    }

    /// Makes the TUN devices and starts one thread per link.
    fn start(&mut self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.start()).map_err(exception)
    }

    /// What every link has done up to now, as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.statistics_json()).map_err(exception)
    }

    /// Cuts a link's cable, or puts it in again.
    fn set_carrier(&self, py: Python<'_>, link: &str, carrier: bool) -> PyResult<()> {
        py.detach(|| self.0.set_carrier(link, carrier)).map_err(exception)
    }

    /// Ends every thread and removes the devices; does nothing the second time.
    fn stop(&mut self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }
}

fn exception(error: EmulatorError) -> PyErr {
    match &error {
        EmulatorError::Device { source: TunError::Exists { .. }, .. }
        | EmulatorError::Unknown { .. } => bad_input(error),
        EmulatorError::Device { .. } | EmulatorError::System(_) => {
            Unsupported::new_err(words(error))
        }
        _ => WeirError::new_err(words(error)),
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Emulator>()
}
