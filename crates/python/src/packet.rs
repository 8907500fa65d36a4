//! The packet simulator as Python sees it: JSON in, JSON out.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use weir_packet::{Config, PacketError, Simulation};

use crate::errors::bad_input;

/// Why there is no outcome.
enum Failure {
    Refused(PacketError),
    /// What a handler of a signal raised.
    Raised(PyErr),
}

impl From<PacketError> for Failure {
    fn from(error: PacketError) -> Self {
        Self::Refused(error)
    }
}

/// Runs a simulation; see `weir/_core.pyi` for the form of both documents. Signals are heard.
#[pyfunction]
#[pyo3(signature = (config_json, captures=Vec::new(), traces=None))]
fn simulate_packets(
    py: Python<'_>,
    config_json: &str,
    captures: Vec<(String, PathBuf)>,
    traces: Option<PathBuf>,
) -> PyResult<String> {
    let run = || -> Result<String, Failure> {
        let mut simulation = Simulation::new(&Config::from_json(config_json)?)?;
        for (node, path) in captures {
            simulation.capture(&node, create(&path)?, path.display().to_string())?;
        }
        if let Some(directory) = traces {
            let queues = create(&directory.join("queues.parquet"))?;
            let connections = create(&directory.join("connections.parquet"))?;
            simulation.trace(queues, connections, &directory.display().to_string())?;
        }
        let heard = || Python::attach(|py| py.check_signals()).map_err(Failure::Raised);
        Ok(simulation.run_while(heard)?.to_json()?)
    };
    py.detach(run).map_err(|failure| match failure {
        Failure::Refused(error) => bad_input(error),
        Failure::Raised(error) => error,
    })
}

fn create(path: &Path) -> Result<Box<dyn Write + Send>, PacketError> {
    let place = || path.display().to_string();
    let file =
        File::create(path).map_err(|source| PacketError::Write { place: place(), source })?;
    Ok(Box::new(BufWriter::new(file)))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate_packets, module)?)
}
