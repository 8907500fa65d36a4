//! Networks as Python sees them: their JSON form, and the next hops in a lab.

use pyo3::prelude::*;
use weir_topology::Edge;

use crate::errors::BadInput;
use crate::units::Time;

/// By which edge packets leave each node for each other; see `weir/_core.pyi`.
#[pyclass(frozen, module = "weir")]
struct NextHops {
    hops: weir_topology::NextHops,
    nodes: usize,
}

#[pymethods]
impl NextHops {
    #[new]
    fn new(forwards: Vec<bool>, edges: Vec<(usize, usize, Time)>) -> PyResult<Self> {
        let nodes = forwards.len();
        for (from, to, _) in &edges {
            within(nodes, [*from, *to])?;
        }
        let edge = |(from, to, delay): (usize, usize, Time)| Edge { from, to, delay: delay.0 };
        let edges: Vec<Edge> = edges.into_iter().map(edge).collect();
        Ok(Self { hops: weir_topology::NextHops::new(&forwards, &edges), nodes })
    }

    /// The edges of a packet's way, or None.
    fn path(&self, source: usize, destination: usize) -> PyResult<Option<Vec<usize>>> {
        within(self.nodes, [source, destination])?;
        Ok(self.hops.path(source, destination))
    }
}

fn within(nodes: usize, numbers: [usize; 2]) -> PyResult<()> {
    match numbers.into_iter().find(|number| *number >= nodes) {
        Some(number) => Err(BadInput::new_err(format!("node {number} of {nodes}"))),
        None => Ok(()),
    }
}

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
    module.add_class::<NextHops>()?;
    module.add_function(wrap_pyfunction!(g_scale, module)?)?;
    module.add_function(wrap_pyfunction!(six_routers, module)?)
}
