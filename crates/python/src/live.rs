//! `LiveApplication`: an application over the kernel's TCP.

use pyo3::prelude::*;
use weir_live::{Config, Live, LiveError};
use weir_units::Time;

use crate::BadInput;

pyo3::import_exception!(weir.errors, Unsupported);

/// How long signals wait at most.
const SLICE: Time = Time::from_ms(100);

/// Both ends of one traffic; see `weir/_core.pyi` for the configuration.
#[pyclass(module = "weir", unsendable)]
struct LiveApplication(Option<Live>);

#[pymethods]
impl LiveApplication {
    #[new]
    fn new(config_json: &str) -> PyResult<Self> {
        let config = Config::from_json(config_json).map_err(exception)?;
        Ok(Self(Some(Live::new(&config).map_err(exception)?)))
    }

    /// Accepts connections in the calling thread's network namespace.
    fn listen(&mut self) -> PyResult<()> {
        self.live()?.listen().map_err(exception)
    }

    /// Runs until an instant of the monotonic clock; signals are heard meanwhile.
    fn run(&mut self, py: Python<'_>, until_ns: u64) -> PyResult<()> {
        let until = Time::from_ns(until_ns);
        let live = self.live()?;
        while live.run_slice(SLICE, until).map_err(exception)? {
            py.check_signals()?;
        }
        Ok(())
    }

    /// Ends it and says what it found, as JSON.
    fn finish(&mut self) -> PyResult<String> {
        let live = self.0.take().ok_or_else(finished)?;
        live.finish().to_json().map_err(exception)
    }
}

impl LiveApplication {
    fn live(&mut self) -> PyResult<&mut Live> {
        self.0.as_mut().ok_or_else(finished)
    }
}

fn finished() -> PyErr {
    BadInput::new_err("the application is finished")
}

fn exception(error: LiveError) -> PyErr {
    match error {
        LiveError::System { .. } => Unsupported::new_err(error.to_string()),
        _ => BadInput::new_err(error.to_string()),
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LiveApplication>()
}
