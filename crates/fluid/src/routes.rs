//! Which links each flow crosses.

use weir_topology::{LinkId, Network, NodeId, Path};

use crate::FluidError;

/// A route of one [`Routes`], by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub(crate) u32);

impl RouteId {
    /// Position among the routes, in the order they were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The routes that flows take, in one flat list: 4 bytes for each link of each route.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    links: Vec<u32>,
    /// Where each route ends in `links`; it starts where the one before ends.
    ends: Vec<u32>,
    /// Source and destination of each.
    nodes: Vec<(NodeId, NodeId)>,
    longest: usize,
}

impl Routes {
    /// No routes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the route over the links of `path`. The same route added twice is two routes that
    /// behave as one; adding it once is faster and smaller.
    ///
    /// # Errors
    /// A path that crosses a link twice, or more routes than 32 bits can number.
    pub fn add(&mut self, network: &Network, path: &Path) -> Result<RouteId, FluidError> {
        let start = self.links.len();
        for (position, link) in path.links().iter().enumerate() {
            if path.links()[..position].contains(link) {
                self.links.truncate(start);
                let link = network.link(*link).name.clone();
                return Err(FluidError::RouteRepeatsLink { link });
            }
            self.links.push(number(link));
        }
        let (Ok(end), Ok(id)) = (u32::try_from(self.links.len()), u32::try_from(self.ends.len()))
        else {
            self.links.truncate(start);
            return Err(FluidError::TooManyRoutes);
        };
        self.ends.push(end);
        self.nodes.push((path.source(), path.destination()));
        self.longest = self.longest.max(path.links().len());
        Ok(RouteId(id))
    }

    /// The links of a route, as positions in the network, in the order that data crosses them.
    pub fn links(&self, route: RouteId) -> &[u32] {
        self.of(route.0)
    }

    /// Where a route starts and where it ends.
    pub fn nodes(&self, route: RouteId) -> (NodeId, NodeId) {
        self.nodes[route.index()]
    }

    /// The links of the route of that number.
    pub(crate) fn of(&self, route: u32) -> &[u32] {
        let at = route as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.links[start..self.ends[at] as usize]
    }

    /// Every route, in the order added.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = RouteId> + use<> {
        (0..self.ends.len() as u32).map(RouteId)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no routes.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The number of links of the longest.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }
}

fn number(link: &LinkId) -> u32 {
    u32::try_from(link.index()).expect("links of a network are numbered in 32 bits")
}
