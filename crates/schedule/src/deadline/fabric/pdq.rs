use weir_units::Time;

use super::{FabricPolicy, Flow, Route, Taken};

/// PDQ across several links (Hong, Caesar, Godfrey, SIGCOMM 2012, without its delays): the most
/// critical flow that finds all its links free sends; critical is who is due first, then who is
/// shorter.
#[derive(Clone, Debug)]
pub struct Pdq {
    taken: Taken,
    order: Vec<(Time, Time, u64, usize)>,
}

impl Pdq {
    /// For so many links.
    pub fn new(links: usize) -> Self {
        Self { taken: Taken::new(links), order: Vec::new() }
    }
}

impl FabricPolicy for Pdq {
    fn decide(&mut self, _now: Time, flows: &[Flow], routes: &[Route], served: &mut Vec<usize>) {
        served.clear();
        self.taken.clear();
        self.order.clear();
        let keys = flows.iter().enumerate();
        self.order.extend(keys.map(|(i, flow)| (flow.deadline, flow.remaining, flow.id, i)));
        self.order.sort_unstable();
        self.taken.serve(self.order.iter().map(|key| key.3), routes, served);
    }
}
