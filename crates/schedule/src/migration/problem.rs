//! What is to be moved, over what, at what cost.

use std::collections::HashSet;

use weir_topology::{LinkId, Network, Path};
use weir_units::{Bytes, Time};

use super::MigrationError;
use super::routes::Enumerator;

/// Costs above this could overflow the exact sums of the lower bound.
const COST_MAX: u64 = 1_000_000_000;
/// No plan is longer; keeps every product of steps and bytes within 128 bits.
pub(super) const STEPS_MAX: u64 = 1 << 32;

/// A whole number per step, from step 1 on; the last one given holds for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    values: Vec<u64>,
    /// `sums[n]` is the sum of the first `n` values.
    sums: Vec<u128>,
}

impl Profile {
    /// A profile of these values, or `None` for none.
    pub fn new(values: Vec<u64>) -> Option<Self> {
        let mut sums = vec![0];
        for value in &values {
            sums.push(sums[sums.len() - 1] + u128::from(*value));
        }
        (!values.is_empty()).then_some(Self { values, sums })
    }

    /// The same value in every step.
    pub fn constant(value: u64) -> Self {
        Self { values: vec![value], sums: vec![0, u128::from(value)] }
    }

    /// The value of `step`, counted from 1.
    pub fn at(&self, step: u64) -> u64 {
        let index = usize::try_from(step.max(1) - 1).unwrap_or(usize::MAX);
        self.values[index.min(self.values.len() - 1)]
    }

    /// The sum over steps 1 to `last`.
    pub fn total(&self, last: u64) -> u128 {
        let given = self.values.len();
        match usize::try_from(last) {
            Ok(last) if last < given => self.sums[last],
            _ => self.sums[given] + u128::from(last - given as u64) * u128::from(self.tail()),
        }
    }

    /// The value that holds for ever in the end.
    pub fn tail(&self) -> u64 {
        self.values[self.values.len() - 1]
    }

    /// Whether every step after `step` has the same value.
    pub(crate) fn is_constant_after(&self, step: u64) -> bool {
        step + 1 >= self.values.len() as u64
    }

    /// Whether it is zero in every step.
    pub fn is_zero(&self) -> bool {
        self.sums[self.values.len()] == 0
    }
}

/// A way that a machine's memory may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The links.
    pub path: Path,
    /// The capacities it draws on, by position: two directions of a half-duplex link share one.
    pub pools: Vec<usize>,
    /// Bytes a step, the smallest capacity on it.
    pub capacity: u64,
}

/// A machine to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// Unique among the machines.
    pub name: String,
    /// Memory at the start, M_i(0).
    pub size: Bytes,
    /// Degradation per step until the migration has finished, C_it.
    pub cost: Profile,
    /// Bytes of memory to be sent again per step until then, AG_it.
    pub growth: Profile,
    /// The ways it may take, Q_i; at least one. One is chosen for the whole migration.
    pub routes: Vec<Route>,
}

impl Vm {
    /// Bytes a step on its widest route.
    pub fn capacity(&self) -> u64 {
        self.routes.iter().map(|route| route.capacity).max().expect("a VM has a route")
    }

    /// Its widest route, the first of several as wide.
    pub(crate) fn widest(&self) -> usize {
        let widest = self.capacity();
        self.routes.iter().position(|route| route.capacity == widest).expect("one is the widest")
    }

    /// The earliest step in which it can finish on `route` if nobody else sends.
    pub fn earliest(&self, route: usize) -> u64 {
        let capacity = u128::from(self.routes[route].capacity);
        let mut last = self.size.count().div_ceil(self.routes[route].capacity);
        // Growth until `last` may ask for more steps, which bring more growth.
        loop {
            let volume = u128::from(self.size.count()) + self.growth.total(last);
            let needed = u64::try_from(volume.div_ceil(capacity)).unwrap_or(u64::MAX);
            if needed <= last || last > STEPS_MAX {
                return last;
            }
            last = needed;
        }
    }
}

/// What a caller says about a machine.
#[derive(Clone, Debug)]
pub struct VmRequest {
    /// Unique among the machines.
    pub name: String,
    /// The node it is on.
    pub source: String,
    /// The node it is to be on.
    pub destination: String,
    /// Memory at the start; not zero.
    pub size: Bytes,
    /// Degradation per step.
    pub cost: Vec<u64>,
    /// Bytes to be sent again per step.
    pub growth: Vec<u64>,
    /// The names of the links to take; any shortest path when empty.
    pub path: Vec<String>,
}

/// Machines, a network, and time in steps.
#[derive(Clone, Debug)]
pub struct Problem {
    network: Network,
    step: Time,
    /// Bytes a step of every pool.
    capacities: Vec<u64>,
    /// The pool of every link.
    pool_of: Vec<usize>,
    vms: Vec<Vm>,
}

impl Problem {
    /// Checks everything and lists the routes of every machine: all its shortest paths by number
    /// of links, or the one it is given. `half_duplex` names pairs of links that share the
    /// capacity of the first.
    ///
    /// # Errors
    /// What [`MigrationError`] says, with the name of the item.
    pub fn new(
        network: Network,
        half_duplex: &[(String, String)],
        step: Time,
        requests: Vec<VmRequest>,
    ) -> Result<Self, MigrationError> {
        if step == Time::ZERO {
            return Err(MigrationError::NoStep { step });
        }
        if requests.is_empty() {
            return Err(MigrationError::NoVm);
        }
        let pool_of = pools(&network, half_duplex)?;
        let capacities = capacities(&network, step)?;
        let vms = Vec::with_capacity(requests.len());
        let mut problem = Self { network, step, capacities, pool_of, vms };
        let mut names = HashSet::new();
        let mut paths = Enumerator::new(&problem.network);
        for request in requests {
            if !names.insert(request.name.clone()) {
                return Err(MigrationError::DuplicateVm { vm: request.name });
            }
            let vm = problem.vm(&mut paths, request)?;
            problem.vms.push(vm);
        }
        let serial =
            problem.vms.iter().map(|vm| u128::from(vm.earliest(vm.widest()))).sum::<u128>();
        if serial > u128::from(STEPS_MAX) {
            return Err(MigrationError::TooLong { limit: STEPS_MAX });
        }
        Ok(problem)
    }

    fn vm(&self, paths: &mut Enumerator, request: VmRequest) -> Result<Vm, MigrationError> {
        let VmRequest { name, source, destination, size, cost, growth, path } = request;
        if name.is_empty() {
            return Err(MigrationError::EmptyName);
        }
        if size == Bytes::ZERO {
            return Err(MigrationError::EmptyVm { vm: name });
        }
        let profile = |key, values| {
            Profile::new(values)
                .ok_or_else(|| MigrationError::EmptyProfile { vm: name.clone(), key })
        };
        let (cost, growth) = (profile("cost", cost)?, profile("growth", growth)?);
        if let Some(cost) = cost.values.iter().find(|cost| **cost > COST_MAX) {
            return Err(MigrationError::CostTooLarge { vm: name, cost: *cost, limit: COST_MAX });
        }
        let about = |error| MigrationError::Vm { vm: name.clone(), error };
        let ends = (
            self.network.node(&source).map_err(about)?,
            self.network.node(&destination).map_err(about)?,
        );
        let found = if path.is_empty() {
            paths.shortest(&self.network, &name, ends)?
        } else {
            vec![self.given(&name, &path, ends)?]
        };
        let route = |path: Path| {
            let pools: Vec<usize> =
                path.links().iter().map(|link| self.pool_of[link.index()]).collect();
            let capacity = pools.iter().map(|pool| self.capacities[*pool]).min().unwrap_or(0);
            Route { path, pools, capacity }
        };
        // On a route no wider than the growth the migration would never end (D-12).
        let tail = growth.tail();
        let mut routes: Vec<Route> = found.into_iter().map(route).collect();
        routes.retain(|route| route.capacity > tail);
        if routes.is_empty() {
            return Err(MigrationError::NeverEnds { vm: name });
        }
        Ok(Vm { name, size, cost, growth, routes })
    }

    fn given(
        &self,
        vm: &str,
        names: &[String],
        ends: (weir_topology::NodeId, weir_topology::NodeId),
    ) -> Result<Path, MigrationError> {
        let about = |error| MigrationError::Vm { vm: vm.to_owned(), error };
        let links: Result<Vec<LinkId>, _> =
            names.iter().map(|name| self.network.link_named(name)).collect();
        let path = Path::new(&self.network, links.map_err(about)?).map_err(about)?;
        if (path.source(), path.destination()) != ends {
            return Err(MigrationError::WrongPath { vm: vm.to_owned() });
        }
        if path.has_loop(&self.network) {
            return Err(MigrationError::LoopedPath { vm: vm.to_owned() });
        }
        Ok(path)
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// How long a step is.
    pub fn step(&self) -> Time {
        self.step
    }

    /// The machines, in the order given.
    pub fn vms(&self) -> &[Vm] {
        &self.vms
    }

    /// Bytes a step of every pool of capacity, by position.
    pub fn capacities(&self) -> &[u64] {
        &self.capacities
    }

    /// The pool that a link draws on.
    pub(crate) fn pool_of(&self, link: LinkId) -> usize {
        self.pool_of[link.index()]
    }
}

/// A pool per link, of its own position, but for second directions, which take the first's.
fn pools(
    network: &Network,
    half_duplex: &[(String, String)],
) -> Result<Vec<usize>, MigrationError> {
    let mut pool_of: Vec<usize> = (0..network.links().len()).collect();
    for (first, second) in half_duplex {
        let (first, second) = (network.link_named(first)?, network.link_named(second)?);
        pool_of[second.index()] = first.index();
    }
    Ok(pool_of)
}

fn capacities(network: &Network, step: Time) -> Result<Vec<u64>, MigrationError> {
    let carried = |id| {
        let link = network.link(id);
        match link.capacity.bytes_in(step).count() {
            0 => Err(MigrationError::ThinLink { link: link.name.clone(), step }),
            bytes => Ok(bytes),
        }
    };
    network.links().map(carried).collect()
}
