//! `LiveApplication` and `LiveDatagrams`: what runs over the kernel's sockets.

use pyo3::prelude::*;
use weir_live::{Config, Datagrams, DatagramsConfig, Live, LiveError};
use weir_units::Time;

use crate::errors::{BadInput, Unsupported, bad_input, words};

/// How long signals wait at most.
const SLICE: Time = Time::from_ms(100);
/// How often signals are looked for while datagrams are sent, which go on meanwhile.
const SENDING_SLICE: Time = Time::from_ms(10);

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

/// The sending end of UDP; see `weir/_core.pyi` for the configuration.
#[pyclass(module = "weir", unsendable)]
struct LiveDatagrams(Datagrams);

#[pymethods]
impl LiveDatagrams {
    #[new]
    fn new(config_json: &str) -> PyResult<Self> {
        let config = DatagramsConfig::from_json(config_json).map_err(exception)?;
        Datagrams::new(&config).map(Self).map_err(exception)
    }

    /// Sends from one instant of the monotonic clock to another; signals are heard meanwhile.
    fn run(&mut self, py: Python<'_>, begin_ns: u64, until_ns: u64) -> PyResult<()> {
        let (begin, until) = (Time::from_ns(begin_ns), Time::from_ns(until_ns));
        while self.0.run_slice(begin, SENDING_SLICE, until).map_err(exception)? {
            py.check_signals()?;
        }
        Ok(())
    }

    /// What was sent so far, as JSON.
    fn sent(&self) -> PyResult<String> {
        self.0.sent().to_json().map_err(exception)
    }
}

fn finished() -> PyErr {
    BadInput::new_err("the application is finished")
}

fn exception(error: LiveError) -> PyErr {
    match error {
        LiveError::System { .. } => Unsupported::new_err(words(error)),
        _ => bad_input(error),
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LiveApplication>()?;
    module.add_class::<LiveDatagrams>()
}
