//! What applications send, without any network.

use pyo3::prelude::*;
use weir_application::{
    BurstLaw, Bursts as Process, GameConnection, GameConnections as Connections,
};
use weir_random::MersenneTwister;
use weir_units::{Rate, Time};

/// The start in ns, the mean gap in s, and each message's instant in ns and bytes.
type Connection = (u64, f64, Vec<(u64, u64)>);

/// The connections of one client of a game; see `weir/_core.pyi`.
#[pyclass(module = "weir")]
struct GameConnections(Connections);

#[pymethods]
impl GameConnections {
    #[new]
    fn new(seed: u64, name: &str, think_ns: u64) -> Self {
        Self(Connections::new(seed, name, Time::from_ns(think_ns)))
    }

    fn __iter__(itself: PyRef<'_, Self>) -> PyRef<'_, Self> {
        itself
    }

    fn __next__(&mut self) -> Option<Connection> {
        self.0.next().map(|GameConnection { start, gap_s, messages }| {
            let messages = messages.into_iter().map(|(at, size)| (at.as_ns(), size)).collect();
            (start.as_ns(), gap_s, messages)
        })
    }
}

/// The rates of the Poisson-Pareto burst process; see `weir/_core.pyi`.
#[pyclass(module = "weir")]
struct Bursts(Process);

#[pymethods]
impl Bursts {
    #[new]
    fn new(key: Vec<u32>, rate_bps: u64, interval_s: f64, mean_s: f64, hurst: f64) -> Self {
        let law = BurstLaw { rate: Rate::from_bit_per_s(rate_bps), interval_s, mean_s, hurst };
        Self(Process::new(law, MersenneTwister::of_key(&key)))
    }

    fn __iter__(itself: PyRef<'_, Self>) -> PyRef<'_, Self> {
        itself
    }

    fn __next__(&mut self) -> Option<(u64, u64)> {
        self.0.next().map(|(at, rate)| (at.as_ns(), rate.as_bit_per_s()))
    }
}

/// Every application that a scenario can name, as JSON; see `weir/_core.pyi`.
#[pyfunction]
fn application_parameters() -> String {
    weir_application::parameters().to_string()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(application_parameters, module)?)?;
    module.add_class::<Bursts>()?;
    module.add_class::<GameConnections>()
}
