//! The greedy algorithm of the work (003-spec section 5.9, printed as Algorithm 2).

use std::cmp::Ordering;

use super::plan::Plan;
use super::problem::{Problem, Vm};
use super::progress::Progress;
use super::random::Random;

/// Which of its routes a machine takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChoice {
    /// The one with most room; of several, the first by its links' names.
    Widest,
    /// Any, drawn from this seed.
    Random(u64),
}

impl PathChoice {
    /// The route of every machine on the idle network; `None` where it is left to be chosen by
    /// the room there is.
    pub(super) fn fixed(self, problem: &Problem) -> Vec<Option<usize>> {
        match self {
            Self::Widest => vec![None; problem.vms().len()],
            Self::Random(seed) => {
                let mut random = Random::new(seed);
                let draw = |vm: &Vm| Some(random.below(vm.routes.len()));
                problem.vms().iter().map(draw).collect()
            }
        }
    }
}

/// At every completion: machines by cost per remaining byte (equation 5.20, ties by position),
/// each reserves all that its path has left. A path once used is kept. What a machine leaves of
/// its last step is not given away.
pub fn greedy(problem: &Problem, choice: PathChoice) -> Plan {
    let mut routes = choice.fixed(problem);
    let mut progress = Progress::new(problem);
    let mut rates = vec![0; problem.vms().len()];
    while !progress.active.is_empty() {
        let mut order = progress.active.clone();
        order.sort_by(|a, b| by_ratio(problem, &progress, *a, *b));
        let mut room = problem.capacities().to_vec();
        for vm in order {
            let data = &problem.vms()[vm];
            let route = routes[vm].unwrap_or_else(|| widest(data, &room));
            let pools = &data.routes[route].pools;
            rates[vm] = pools.iter().map(|pool| room[*pool]).min().unwrap_or(0);
            if rates[vm] > 0 {
                routes[vm] = Some(route);
                pools.iter().for_each(|pool| room[*pool] -= rates[vm]);
            }
        }
        let before = progress.active.len();
        while progress.active.len() == before {
            let steps = progress.steady(&rates);
            progress.advance(&rates, steps);
        }
    }
    let routes: Vec<usize> = routes.into_iter().map(|route| route.unwrap_or(0)).collect();
    progress.into_plan(&routes)
}

/// The route with most room left.
pub(super) fn widest(vm: &Vm, room: &[u64]) -> usize {
    let left = |route: usize| {
        let pools = &vm.routes[route].pools;
        pools.iter().map(|pool| room[*pool]).min().unwrap_or(0)
    };
    let mut best = (0, left(0));
    for route in 1..vm.routes.len() {
        let room = left(route);
        if room > best.1 {
            best = (route, room);
        }
    }
    best.0
}

fn by_ratio(problem: &Problem, progress: &Progress<'_>, a: usize, b: usize) -> Ordering {
    let cost = |vm: usize| u128::from(problem.vms()[vm].cost.at(progress.step + 1));
    let left = |vm: usize| u128::from(progress.left[vm]);
    (cost(b) * left(a)).cmp(&(cost(a) * left(b))).then(a.cmp(&b))
}
