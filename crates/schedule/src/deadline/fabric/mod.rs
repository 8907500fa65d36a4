//! Flows with deadlines across several links: in each slot a flow sends on all links of its path
//! or not at all, and a link carries one flow.
//!
//! Every link knows the flows that cross it and nothing else, as the switches of PDQ do.

mod pdq;
mod sjf;
mod weir;

use std::fmt;
use std::str::FromStr;

use weir_units::Time;

pub use pdq::Pdq;
pub use sjf::Sjf;
pub use weir::Weir;

use super::{Flow, UnknownPolicy};

/// The most links that a path has: those of a fat-tree.
pub const HOPS_MAX: usize = 6;

/// The links that a flow takes, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    links: [u32; HOPS_MAX],
    hops: usize,
}

impl Route {
    /// A route over those links, at most [`HOPS_MAX`]; `None` for more or none.
    pub fn new(links: &[u32]) -> Option<Self> {
        let mut route = Self { links: [0; HOPS_MAX], hops: links.len() };
        route.links.get_mut(..links.len())?.copy_from_slice(links);
        (!links.is_empty()).then_some(route)
    }

    /// The links in order.
    pub fn links(&self) -> &[u32] {
        &self.links[..self.hops]
    }
}

/// A rule for all links together.
pub trait FabricPolicy {
    /// Which flows send from `now` on, by position, until a flow comes, leaves or becomes
    /// hopeless. `routes` are those of `flows`; no link is in the routes of two flows served.
    fn decide(&mut self, now: Time, flows: &[Flow], routes: &[Route], served: &mut Vec<usize>);
}

/// A fabric policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FabricKind {
    /// [`Pdq`].
    Pdq,
    /// [`Sjf`].
    Sjf,
    /// [`Weir`].
    Weir,
}

impl FabricKind {
    /// Every fabric policy.
    pub const ALL: [Self; 3] = [Self::Pdq, Self::Sjf, Self::Weir];

    /// Its name, that of the same policy on one link.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pdq => "pdq",
            Self::Sjf => "sjf",
            Self::Weir => "weir",
        }
    }

    /// The policy on a fabric of so many links.
    pub fn build(self, links: usize) -> Box<dyn FabricPolicy> {
        match self {
            Self::Pdq => Box::new(Pdq::new(links)),
            Self::Sjf => Box::new(Sjf::new(links)),
            Self::Weir => Box::new(Weir::new(links)),
        }
    }
}

impl fmt::Display for FabricKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for FabricKind {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let unknown = || UnknownPolicy::new(text, &Self::ALL.map(Self::name));
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(unknown)
    }
}

/// Which links are taken in the slot under decision.
#[derive(Clone, Debug)]
struct Taken(Vec<bool>);

impl Taken {
    fn new(links: usize) -> Self {
        Self(vec![false; links])
    }

    /// Serves flows in that order, each whose links are all still free.
    fn serve(
        &mut self,
        order: impl IntoIterator<Item = usize>,
        routes: &[Route],
        served: &mut Vec<usize>,
    ) {
        for index in order {
            let links = routes[index].links();
            if links.iter().all(|link| !self.0[*link as usize]) {
                links.iter().for_each(|link| self.0[*link as usize] = true);
                served.push(index);
            }
        }
    }

    fn clear(&mut self) {
        self.0.fill(false);
    }
}
