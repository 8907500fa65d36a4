//! Migration planning as Python sees it: problems and plans in their JSON form.

use std::sync::Arc;

use pyo3::prelude::*;
use weir_schedule::migration::{self, PathChoice, Plan};

use crate::errors::bad_input;

fn choice(random_paths: Option<u64>) -> PathChoice {
    random_paths.map_or(PathChoice::Widest, PathChoice::Random)
}

/// Machines to be moved over a network, checked.
#[pyclass(frozen, module = "weir")]
struct MigrationProblem(Arc<migration::Problem>);

#[pymethods]
impl MigrationProblem {
    #[new]
    fn new(network_json: &str, problem_json: &str) -> PyResult<Self> {
        let problem = migration::Problem::from_json(network_json, problem_json);
        problem.map(|problem| Self(Arc::new(problem))).map_err(bad_input)
    }

    /// Every machine's routes, each as the names of its links.
    fn routes(&self) -> Vec<Vec<Vec<String>>> {
        let network = self.0.network();
        let names = |route: &migration::Route| {
            route.path.links().iter().map(|link| network.link(*link).name.clone()).collect()
        };
        self.0.vms().iter().map(|vm| vm.routes.iter().map(names).collect()).collect()
    }

    /// Every machine's routes, each as the pools of capacity it draws on.
    fn pools(&self) -> Vec<Vec<Vec<usize>>> {
        let pools =
            |vm: &migration::Vm| vm.routes.iter().map(|route| route.pools.clone()).collect();
        self.0.vms().iter().map(pools).collect()
    }

    /// Bytes a step of every pool.
    fn capacities(&self) -> Vec<u64> {
        self.0.capacities().to_vec()
    }

    /// The first step in which each machine can finish if it is alone.
    fn earliest(&self) -> Vec<u64> {
        let first = |vm: &migration::Vm| (0..vm.routes.len()).map(|route| vm.earliest(route)).min();
        self.0.vms().iter().filter_map(first).collect()
    }

    /// The plan of the greedy algorithm; random paths from a seed, or else the widest.
    #[pyo3(signature = (random_paths=None))]
    fn greedy(&self, random_paths: Option<u64>) -> String {
        migration::greedy(&self.0, choice(random_paths)).to_json(&self.0)
    }

    /// What TCP does with no plan.
    #[pyo3(signature = (random_paths=None))]
    fn fair_sharing(&self, random_paths: Option<u64>) -> PyResult<String> {
        let plan = migration::fair_sharing(&self.0, choice(random_paths)).map_err(bad_input)?;
        Ok(plan.to_json(&self.0))
    }

    /// Refuses a plan that does not hold, with the item.
    fn check(&self, plan_json: &str, slack: u64) -> PyResult<()> {
        let plan = Plan::from_json(&self.0, plan_json).map_err(bad_input)?;
        plan.check(&self.0, slack).map_err(bad_input)
    }

    /// Total performance degradation of a plan, and its makespan in steps.
    fn measure(&self, plan_json: &str) -> PyResult<(u128, u64)> {
        let plan = Plan::from_json(&self.0, plan_json).map_err(bad_input)?;
        Ok((plan.degradation(&self.0), plan.makespan()))
    }
}

/// Weir's own planner under way.
#[pyclass(module = "weir")]
struct MigrationSearch(migration::Search, Arc<migration::Problem>);

#[pymethods]
impl MigrationSearch {
    #[new]
    fn new(py: Python<'_>, problem: &MigrationProblem, seed: u64) -> Self {
        let problem = problem.0.clone();
        let search = py.detach(|| migration::Search::new(problem.clone(), seed));
        Self(search, problem)
    }

    /// Tries so many moves.
    fn improve(&mut self, py: Python<'_>, moves: u32) {
        py.detach(|| self.0.improve(moves));
    }

    /// Takes so many steps of the bound.
    fn tighten(&mut self, py: Python<'_>, steps: u32) {
        py.detach(|| self.0.tighten(steps));
    }

    /// Takes a plan found elsewhere if it is better; refuses one that does not hold.
    fn offer(&mut self, plan_json: &str) -> PyResult<()> {
        let plan = Plan::from_json(&self.1, plan_json).map_err(bad_input)?;
        self.0.offer(plan).map_err(bad_input)
    }

    /// When each machine can finish on each route in a plan no worse than the best so far.
    fn windows(&self, py: Python<'_>, longest: u64) -> Vec<Vec<Option<(u64, u64)>>> {
        py.detach(|| self.0.windows(longest))
    }

    /// The best plan so far.
    fn plan(&self) -> String {
        self.0.plan().to_json(&self.1)
    }

    /// Its total performance degradation.
    #[getter]
    fn degradation(&self) -> u128 {
        self.0.degradation()
    }

    /// No plan has less.
    #[getter]
    fn bound(&self) -> u128 {
        self.0.bound()
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MigrationProblem>()?;
    module.add_class::<MigrationSearch>()
}
