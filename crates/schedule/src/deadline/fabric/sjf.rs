use weir_units::Time;

use super::{FabricPolicy, Flow, Route, Taken};

/// Shortest remaining first across several links, as pFabric ranks packets (Alizadeh et al.,
/// SIGCOMM 2013).
#[derive(Clone, Debug)]
pub struct Sjf {
    taken: Taken,
    order: Vec<(Time, u64, usize)>,
}

impl Sjf {
    /// For so many links.
    pub fn new(links: usize) -> Self {
        Self { taken: Taken::new(links), order: Vec::new() }
    }
}

impl FabricPolicy for Sjf {
    fn decide(&mut self, _now: Time, flows: &[Flow], routes: &[Route], served: &mut Vec<usize>) {
        served.clear();
        self.taken.clear();
        self.order.clear();
        let keys = flows.iter().enumerate();
        self.order.extend(keys.map(|(index, flow)| (flow.remaining, flow.id, index)));
        self.order.sort_unstable();
        self.taken.serve(self.order.iter().map(|key| key.2), routes, served);
    }
}
