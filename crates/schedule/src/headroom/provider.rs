//! The provider's controller: which elephant flows are on which link, and the path of the next.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use weir_random::Random;
use weir_topology::{LinkId, Network, NodeId, Path};
use weir_units::{Bytes, Rate, Time};

use super::links::Link;
use super::{HeadroomError, HopLimit, Measure, Options, Service, Ties};

/// An elephant flow as its customer announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elephant {
    /// The router at which it enters.
    pub ingress: NodeId,
    /// The router at which it leaves.
    pub egress: NodeId,
    /// The most that its ends can do; [`Rate::MAX`] if that was not announced.
    pub rate_max: Rate,
    /// How much it sends, if that was announced.
    pub size: Option<Bytes>,
}

/// The path of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The path.
    pub path: &'a Path,
    /// Its position among the [`Provider::candidates`]; 0 is the default path.
    pub index: usize,
    /// How long it takes until the path is there.
    pub setup: Time,
}

type Pair = (NodeId, NodeId);

/// A flow under way.
#[derive(Clone, Copy, Debug)]
struct Ongoing {
    pair: Pair,
    index: usize,
    rate_max: u64,
}

/// The state of the provider's controller.
///
/// [`Provider::start`] and [`Provider::end`] are called in the order in which flows start and end;
/// equal calls and an equal seed give equal choices.
#[derive(Clone, Debug)]
pub struct Provider {
    network: Arc<Network>,
    options: Options,
    random: Random,
    links: Vec<Link>,
    candidates: HashMap<Pair, Vec<Path>>,
    ongoing: HashMap<u64, Ongoing>,
    /// The cost of each candidate for the flow at hand; kept for its allocation.
    costs: Vec<u128>,
}

impl Provider {
    /// No flows yet on `network`.
    ///
    /// # Errors
    /// Options that leave no path.
    pub fn new(
        network: Arc<Network>,
        options: Options,
        random: Random,
    ) -> Result<Self, HeadroomError> {
        if options.paths_max == Some(0) {
            return Err(HeadroomError::NoCandidates);
        }
        let capacity = |id| network.link(id).capacity.as_bit_per_s();
        let links = network.links().map(|id| Link::new(capacity(id))).collect();
        let (candidates, ongoing, costs) = (HashMap::new(), HashMap::new(), Vec::new());
        Ok(Self { network, options, random, links, candidates, ongoing, costs })
    }

    /// The paths between two routers, the default one first: fewest hops, then link names.
    ///
    /// # Errors
    /// Equal ends, or no path between them.
    pub fn candidates(
        &mut self,
        ingress: NodeId,
        egress: NodeId,
    ) -> Result<&[Path], HeadroomError> {
        match self.candidates.entry((ingress, egress)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let count = match self.options.service {
                    Service::Static => 1,
                    Service::Dynamic | Service::Merged => {
                        self.options.paths_max.unwrap_or(usize::MAX)
                    }
                };
                let paths = self.network.shortest_paths(ingress, egress, count)?;
                Ok(place.insert(paths))
            }
        }
    }

    /// Decides on the path of flow `id`, which starts now, and counts the flow on its links.
    ///
    /// # Errors
    /// A flow that is there already or cannot be, or ends without a path.
    pub fn start(&mut self, id: u64, flow: Elephant) -> Result<Choice<'_>, HeadroomError> {
        if self.ongoing.contains_key(&id) {
            return Err(HeadroomError::DuplicateFlow { flow: id });
        }
        if flow.rate_max == Rate::ZERO {
            return Err(HeadroomError::ZeroRate { flow: id });
        }
        let pair = (flow.ingress, flow.egress);
        self.candidates(flow.ingress, flow.egress)?;
        let index = self.choose(&flow);
        let rate_max = flow.rate_max.as_bit_per_s();
        let path = &self.candidates[&pair][index];
        for link in path.links() {
            self.links[link.index()].enter(rate_max);
        }
        self.ongoing.insert(id, Ongoing { pair, index, rate_max });
        let setup = if index == 0 { Time::ZERO } else { self.options.setup() };
        Ok(Choice { path, index, setup })
    }

    /// Flow `id` is over.
    ///
    /// # Errors
    /// It was not under way.
    pub fn end(&mut self, id: u64) -> Result<(), HeadroomError> {
        let flow = self.ongoing.remove(&id).ok_or(HeadroomError::UnknownFlow { flow: id })?;
        for link in self.candidates[&flow.pair][flow.index].links() {
            self.links[link.index()].leave(flow.rate_max);
        }
        Ok(())
    }

    /// How many elephant flows are on a link.
    pub fn flows_on(&self, link: LinkId) -> usize {
        self.links[link.index()].flows()
    }

    /// The position of the path to take among the candidates, which are known.
    fn choose(&mut self, flow: &Elephant) -> usize {
        let paths = &self.candidates[&(flow.ingress, flow.egress)];
        if paths.len() == 1 {
            return 0;
        }
        let near = self.near(paths);
        let mut costs = std::mem::take(&mut self.costs);
        costs.clear();
        costs.extend((0..).zip(near).map(|(index, path)| self.cost(path, index == 0, flow)));
        let index = self.pick(&costs);
        self.costs = costs;
        index
    }

    /// The candidates that are near enough to the default path for the present load.
    fn near<'a>(&self, paths: &'a [Path]) -> &'a [Path] {
        let Some(HopLimit { hops_more, from_flows }) = self.options.hop_limit else { return paths };
        let least = paths.iter().map(|path| self.flows_met(path)).min().unwrap_or_default();
        if least < from_flows as usize {
            return paths;
        }
        let longest = paths[0].links().len() + hops_more as usize;
        &paths[..paths.partition_point(|path| path.links().len() <= longest)]
    }

    /// The position of the path to take by the costs of all, by the rule on ties.
    fn pick(&mut self, costs: &[u128]) -> usize {
        let least = costs.iter().min().copied().unwrap_or_default();
        let best = |(index, cost): (usize, &u128)| (*cost == least).then_some(index);
        let mut best = costs.iter().enumerate().filter_map(best);
        match self.options.ties {
            Ties::FewestHops => best.next().unwrap_or_default(),
            Ties::DefaultElseRandom if costs.first() == Some(&least) => 0,
            Ties::DefaultElseRandom | Ties::Random => {
                let last = best.clone().count().saturating_sub(1) as u64;
                let drawn = usize::try_from(self.random.up_to(last)).unwrap_or_default();
                best.nth(drawn).unwrap_or_default()
            }
        }
    }

    /// What is to be least.
    fn cost(&self, path: &Path, is_default: bool, flow: &Elephant) -> u128 {
        if let (Service::Merged, Some(size)) = (self.options.service, flow.size) {
            let setup = if is_default { Time::ZERO } else { self.options.setup() };
            return setup.saturating_add(self.time_lost(path, flow.rate_max, size)).as_ns().into();
        }
        let seconds_per_bit = |rate: u64| (1_u128 << 64) / u128::from(rate.max(1));
        let own = || seconds_per_bit(self.rate_foreseen(path, flow.rate_max));
        match self.options.measure {
            Measure::Flows => self.flows_met(path) as u128,
            Measure::Rate => own(),
            Measure::Weir => {
                let on_link = |link: &LinkId| seconds_per_bit(self.links[link.index()].capacity);
                own() + path.links().iter().map(on_link).sum::<u128>() / 4
            }
        }
    }

    /// How many flows are on the link of `path` that has most of them.
    fn flows_met(&self, path: &Path) -> usize {
        path.links().iter().map(|link| self.flows_on(*link)).max().unwrap_or_default()
    }

    /// What a flow would have on `path`, in bit/s.
    fn rate_foreseen(&self, path: &Path, rate_max: Rate) -> u64 {
        let levels = path.links().iter().map(|link| self.links[link.index()].level());
        levels.min().unwrap_or_default().min(rate_max.as_bit_per_s())
    }

    /// The time that a flow of `size` costs on `path`, from the moment that it is there: its own at
    /// the rate foreseen; of those that it meets where it meets most, half of what that link takes
    /// to carry it, since some have less left than it has; and of those to come, a quarter of what
    /// each link takes.
    fn time_lost(&self, path: &Path, rate_max: Rate, size: Bytes) -> Time {
        let time = |rate: u64| Rate::from_bit_per_s(rate.max(1)).time_for(size).as_ns();
        let (mut met, mut passed) = (0, 0_u64);
        for link in path.links() {
            let link = &self.links[link.index()];
            let carrying = time(link.capacity);
            met = carrying.saturating_mul(link.flows() as u64).max(met);
            passed = passed.saturating_add(carrying);
        }
        let own = time(self.rate_foreseen(path, rate_max));
        Time::from_ns(own.saturating_add(met / 2).saturating_add(passed / 4))
    }
}
