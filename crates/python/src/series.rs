//! Time series as Python sees them: values as the bytes of a little-endian array of doubles.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weir_series::{Neighbours, Warping, Windows};

use crate::errors::bad_input;

fn values(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|value| f64::from_le_bytes(*value)).collect()
}

fn parts(windows: &[u8], length: usize, band: usize, cost: &str) -> PyResult<(Windows, Warping)> {
    let windows = Windows::new(values(windows), length).map_err(bad_input)?;
    Ok((windows, Warping { band, cost: cost.parse().map_err(bad_input)? }))
}

/// Distances between all windows; see `weir/_core.pyi`.
#[pyfunction]
fn dtw_matrix<'py>(
    py: Python<'py>,
    windows: &[u8],
    length: usize,
    band: usize,
    cost: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let (windows, warping) = parts(windows, length, band, cost)?;
    let distances = py.detach(|| weir_series::matrix(&windows, warping));
    PyBytes::new_with(py, distances.len() * 8, |out| {
        for (place, distance) in out.as_chunks_mut().0.iter_mut().zip(&distances) {
            *place = distance.to_le_bytes();
        }
        Ok(())
    })
}

/// Windows to find the nearest of.
#[pyclass(frozen, module = "weir")]
struct DtwNeighbours(Neighbours);

#[pymethods]
impl DtwNeighbours {
    #[new]
    fn new(windows: &[u8], length: usize, band: usize, cost: &str) -> PyResult<Self> {
        let (windows, warping) = parts(windows, length, band, cost)?;
        Ok(Self(Neighbours::new(windows, warping)))
    }

    /// Indices and distances, the nearest first.
    fn nearest(&self, series: &[u8], count: usize) -> PyResult<Vec<(usize, f64)>> {
        let found = self.0.nearest(&values(series), count).map_err(bad_input)?;
        Ok(found.into_iter().map(|one| (one.index, one.distance)).collect())
    }

    /// What the distance to each window cannot be below.
    fn lower_bounds(&self, series: &[u8]) -> PyResult<Vec<f64>> {
        self.0.lower_bounds(&values(series)).map_err(bad_input)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(dtw_matrix, module)?)?;
    module.add_class::<DtwNeighbours>()
}
