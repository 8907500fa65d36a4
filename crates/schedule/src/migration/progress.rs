//! What has been moved so far: the state that every simulated planner advances.

use super::plan::{Migration, Piece, Plan};
use super::problem::{Problem, STEPS_MAX};

/// How far every migration is after `step` steps.
pub(super) struct Progress<'a> {
    problem: &'a Problem,
    pub(super) step: u64,
    /// Bytes still to be sent, growth until now included.
    pub(super) left: Vec<u64>,
    /// Not yet finished, by rising position.
    pub(super) active: Vec<usize>,
    migrations: Vec<Migration>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(problem: &'a Problem) -> Self {
        let idle = Migration { route: 0, pieces: Vec::new(), finish: 0 };
        Self {
            problem,
            step: 0,
            left: problem.vms().iter().map(|vm| vm.size.count()).collect(),
            active: (0..problem.vms().len()).collect(),
            migrations: vec![idle; problem.vms().len()],
        }
    }

    /// What `vm` could send in the next step if no link were a limit.
    pub(super) fn sendable(&self, vm: usize) -> u64 {
        self.left[vm].saturating_add(self.problem.vms()[vm].growth.at(self.step + 1))
    }

    /// How many steps these rates (by position) surely leave every sender with something to send;
    /// 1 when one of them finishes in the next step or costs and growth are about to change.
    pub(super) fn steady(&self, rates: &[u64]) -> u64 {
        let mut steps = STEPS_MAX;
        for vm in &self.active {
            let data = &self.problem.vms()[*vm];
            let constant =
                data.growth.is_constant_after(self.step) && data.cost.is_constant_after(self.step);
            if !constant || rates[*vm] >= self.sendable(*vm) {
                return 1;
            }
            let net = rates[*vm].saturating_sub(data.growth.tail());
            steps = steps.min(self.left[*vm].checked_div(net).unwrap_or(STEPS_MAX));
        }
        steps.max(1)
    }

    /// Sends at `rates` for `steps` steps, in the last of which a machine may run out; takes those
    /// that finish from the active ones.
    pub(super) fn advance(&mut self, rates: &[u64], steps: u64) {
        let from = self.step + 1;
        self.step += steps;
        let mut finished = false;
        for vm in &self.active {
            let growth = &self.problem.vms()[*vm].growth;
            let grown = growth.total(self.step) - growth.total(from - 1);
            let wanted = u128::from(self.left[*vm]) + grown;
            let sent = u128::from(rates[*vm]) * u128::from(steps);
            let migration = &mut self.migrations[*vm];
            if sent >= wanted {
                // All but the last step are full; see `steady`.
                let before = u128::from(rates[*vm]) * u128::from(steps - 1);
                let last = u64::try_from(wanted - before).unwrap_or(u64::MAX);
                migration.push(Piece { first: from, last: self.step - 1, bytes: rates[*vm] });
                migration.push(Piece { first: self.step, last: self.step, bytes: last });
                migration.finish = self.step;
                self.left[*vm] = 0;
                finished = true;
            } else {
                migration.push(Piece { first: from, last: self.step, bytes: rates[*vm] });
                self.left[*vm] = u64::try_from(wanted - sent).unwrap_or(u64::MAX);
            }
        }
        if finished {
            self.active.retain(|vm| self.migrations[*vm].finish == 0);
        }
    }

    /// The plan that led here.
    pub(super) fn into_plan(mut self, routes: &[usize]) -> Plan {
        for (migration, route) in self.migrations.iter_mut().zip(routes) {
            migration.route = *route;
        }
        Plan { migrations: self.migrations }
    }
}
