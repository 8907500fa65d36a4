//! Weir's own planner: strict priorities, improved move by move, and a proven lower bound.

use std::sync::Arc;

use super::bound::Bound;
use super::greedy::{PathChoice, greedy};
use super::list::List;
use super::plan::{Plan, PlanError};
use super::problem::Problem;
use super::random::Random;

/// A worse plan by this part of the best is accepted with probability 1/e at the start.
const HEAT: f64 = 0.01;
/// Moves until the search has cooled to a hundredth of that.
const COOLING: f64 = 20_000.0;
/// The prices propose a plan once in so many steps of theirs.
const PROPOSALS: u32 = 8;

/// A search under way: [`Search::improve`] and [`Search::tighten`] do as much as they are told
/// and may be called until the caller's time is up. The same calls give the same plan.
///
/// Plans are orders of strict priority with a route for every machine. The search begins with what
/// the greedy algorithm finds, and moves a machine before or after another one that it meets, or
/// to another route; worse plans are accepted now and then (simulated annealing; Kirkpatrick,
/// Gelatt, Vecchi 1983). The prices of the bound propose orders and routes of their own.
#[derive(Clone, Debug)]
pub struct Search {
    problem: Arc<Problem>,
    random: Random,
    current: List,
    best: Plan,
    degradation: u128,
    bound: Bound,
    moves: u32,
    steps: u32,
    /// Mean finish of every machine under recent prices.
    finish: Vec<f64>,
}

impl Search {
    /// Starts from the greedy plan.
    pub fn new(problem: Arc<Problem>, seed: u64) -> Self {
        let best = greedy(&problem, PathChoice::Widest);
        let routes: Vec<usize> = best.migrations.iter().map(|migration| migration.route).collect();
        let mut order: Vec<usize> = (0..routes.len()).collect();
        order.sort_by_key(|vm| best.migrations[*vm].finish);
        let current = List::new(problem.clone(), order, &routes);
        let bound = Bound::new(&problem, best.makespan());
        let mut search = Self {
            random: Random::new(seed),
            degradation: best.degradation(&problem),
            best,
            bound,
            moves: 0,
            steps: 0,
            finish: Vec::new(),
            current,
            problem,
        };
        search.note();
        search
    }

    /// The best plan so far.
    pub fn plan(&self) -> &Plan {
        &self.best
    }

    /// Its total degradation.
    pub fn degradation(&self) -> u128 {
        self.degradation
    }

    /// No plan on the machines' routes has less total degradation than this.
    pub fn bound(&self) -> u128 {
        self.bound.degradation()
    }

    /// By machine and route, the first and last step in which it can finish in a plan no worse than
    /// the best so far; `None` where there is no such plan. Steps after `longest` are left out.
    pub fn windows(&self, longest: u64) -> Vec<Vec<Option<(u64, u64)>>> {
        self.bound.windows(&self.problem, self.degradation, longest)
    }

    /// Takes a plan found elsewhere as the best if it is better.
    ///
    /// # Errors
    /// What is wrong with a plan that does not hold.
    pub fn offer(&mut self, plan: Plan) -> Result<(), PlanError> {
        plan.check(&self.problem, 0)?;
        let degradation = plan.degradation(&self.problem);
        if degradation < self.degradation {
            (self.best, self.degradation) = (plan, degradation);
        }
        Ok(())
    }

    /// Tries `moves` moves.
    pub fn improve(&mut self, moves: u32) {
        for _ in 0..moves {
            let heat = HEAT * (-4.6 * f64::from(self.moves) / COOLING).exp();
            self.moves = if f64::from(self.moves) < COOLING { self.moves + 1 } else { 0 };
            let before = self.current.degradation();
            if !self.step() {
                continue;
            }
            let after = self.current.degradation();
            let worse = after.saturating_sub(before) as f64;
            if worse == 0.0 || self.accepts(worse / (heat * before as f64 + 1e-12)) {
                self.current.keep();
                self.note();
            } else {
                self.current.revert();
            }
        }
    }

    /// Takes `steps` steps of the bound, and tries what its prices propose every few of them.
    pub fn tighten(&mut self, steps: u32) {
        for _ in 0..steps {
            self.bound.tighten(&self.problem, self.degradation);
            let choices = &self.bound.choices;
            let mean = |(index, choice): (usize, &super::bound::Choice)| {
                let last = self.finish.get(index).copied().unwrap_or(choice.finish as f64);
                0.9 * last + 0.1 * choice.finish as f64
            };
            self.finish = choices.iter().enumerate().map(mean).collect();
            self.steps = self.steps.wrapping_add(1);
            if self.steps.is_multiple_of(PROPOSALS) {
                self.propose();
            }
        }
    }

    /// The order of the finishes and the routes under the present prices, as a plan.
    fn propose(&mut self) {
        let finish = |vm: usize| self.finish.get(vm).copied().unwrap_or(0.0);
        let mut order: Vec<usize> = (0..self.problem.vms().len()).collect();
        order.sort_by(|a, b| finish(*a).total_cmp(&finish(*b)).then(a.cmp(b)));
        let routes: Vec<usize> = self.bound.choices.iter().map(|choice| choice.route).collect();
        let mut proposal = List::new(self.problem.clone(), order.clone(), &routes);
        for vm in order {
            let (route, _) = proposal.fastest(vm);
            if route != proposal.route(vm) {
                let before = proposal.degradation();
                proposal.reroute(vm, route);
                if proposal.degradation() <= before {
                    proposal.keep();
                } else {
                    proposal.revert();
                }
            }
        }
        proposal.keep();
        if proposal.degradation() < self.current.degradation() {
            self.current = proposal;
            self.note();
        }
    }

    /// One move; false if there was none to make.
    fn step(&mut self) -> bool {
        let vm = self.random.below(self.current.order().len());
        let routes = self.problem.vms()[vm].routes.len();
        if routes > 1 && self.random.below(4) == 0 {
            let route = if self.random.below(2) == 0 {
                self.current.fastest(vm).0
            } else {
                self.random.below(routes)
            };
            if route == self.current.route(vm) {
                return false;
            }
            self.current.reroute(vm, route);
            return true;
        }
        let random = &mut self.random;
        match self.current.neighbour(vm, |count| random.below(count)) {
            Some(other) => self.current.take_place(vm, other),
            None => return false,
        }
        true
    }

    fn accepts(&mut self, loss: f64) -> bool {
        let draw = (self.random.below(1 << 32) as f64 + 0.5) / (1u64 << 32) as f64;
        draw < (-loss).exp()
    }

    fn note(&mut self) {
        if self.current.degradation() < self.degradation {
            self.degradation = self.current.degradation();
            self.best = self.current.plan();
        }
    }
}
