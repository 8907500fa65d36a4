//! Strict priority: machines in an order, each takes all that those before it leave on its route,
//! in every step, until it is done. Nothing that a later machine does changes an earlier one, so a
//! move in the order touches only the later machines that share a link, and theirs in turn.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::plan::{Migration, Piece, Plan};
use super::problem::Problem;

/// Later than any migration ends.
const NEVER: u64 = u64::MAX / 2;

/// An order, a choice of routes, and the plan that follows from them.
#[derive(Clone, Debug)]
pub(super) struct List {
    problem: Arc<Problem>,
    order: Vec<usize>,
    position: Vec<usize>,
    migrations: Vec<Migration>,
    /// The machines on each pool by their present route, in any order.
    users: Vec<Vec<usize>>,
    degradation: u128,
    undo: Vec<Undo>,
}

/// What a move replaced.
#[derive(Clone, Debug)]
enum Undo {
    /// A machine stood at the first position before it went to the second.
    Moved(usize, usize),
    Replaced(usize, Migration),
}

impl List {
    /// Places every machine on its route, in this order.
    pub(super) fn new(problem: Arc<Problem>, order: Vec<usize>, routes: &[usize]) -> Self {
        let count = order.len();
        let mut list = Self {
            position: vec![0; count],
            migrations: Vec::with_capacity(count),
            users: vec![Vec::new(); problem.capacities().len()],
            degradation: 0,
            undo: Vec::new(),
            order,
            problem,
        };
        for (index, vm) in list.order.iter().enumerate() {
            list.position[*vm] = index;
        }
        for (vm, route) in routes.iter().enumerate() {
            list.migrations.push(Migration { route: *route, pieces: Vec::new(), finish: 0 });
            for pool in &list.problem.vms()[vm].routes[*route].pools {
                list.users[*pool].push(vm);
            }
        }
        for index in 0..count {
            let vm = list.order[index];
            list.migrations[vm] = list.placed(vm, routes[vm]);
            list.degradation += list.cost(vm);
        }
        list
    }

    pub(super) fn degradation(&self) -> u128 {
        self.degradation
    }

    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    pub(super) fn route(&self, vm: usize) -> usize {
        self.migrations[vm].route
    }

    pub(super) fn plan(&self) -> Plan {
        Plan { migrations: self.migrations.clone() }
    }

    /// Another machine that shares a pool with `vm`, the `pick`-th of all; `None` if it is alone.
    pub(super) fn neighbour(&self, vm: usize, pick: impl FnOnce(usize) -> usize) -> Option<usize> {
        let pools = &self.problem.vms()[vm].routes[self.route(vm)].pools;
        let count = pools.iter().map(|pool| self.users[*pool].len() - 1).sum();
        let mut left = if count == 0 { return None } else { pick(count) };
        for pool in pools {
            let others = self.users[*pool].len() - 1;
            if left < others {
                return self.users[*pool].iter().copied().filter(|other| *other != vm).nth(left);
            }
            left -= others;
        }
        None
    }

    /// Puts `vm` where `other` stands, which moves by one place towards where `vm` was.
    pub(super) fn take_place(&mut self, vm: usize, other: usize) {
        let (from, to) = (self.position[vm], self.position[other]);
        self.undo.push(Undo::Moved(from, to));
        self.shift(from, to);
        let mut due = BinaryHeap::from([Reverse(self.position[vm])]);
        self.followers(vm, from.min(to), &mut due);
        self.settle(due);
    }

    /// Sends `vm` over another of its routes.
    pub(super) fn reroute(&mut self, vm: usize, route: usize) {
        let mut due = BinaryHeap::new();
        let position = self.position[vm];
        self.followers(vm, position, &mut due);
        self.replace(vm, self.placed(vm, route));
        self.followers(vm, position, &mut due);
        self.settle(due);
    }

    /// The route on which `vm` finishes first in its present place, and when.
    pub(super) fn fastest(&self, vm: usize) -> (usize, u64) {
        let routes = &self.problem.vms()[vm].routes;
        let now = (self.route(vm), self.migrations[vm].finish);
        (0..routes.len()).fold(now, |best, route| {
            if self.problem.vms()[vm].earliest(route) >= best.1 {
                return best;
            }
            let finish = self.placed(vm, route).finish;
            if finish < best.1 { (route, finish) } else { best }
        })
    }

    /// Makes what was done since the last call of this or of `revert` final.
    pub(super) fn keep(&mut self) {
        self.undo.clear();
    }

    /// Takes back what was done since then.
    pub(super) fn revert(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Moved(from, to) => self.shift(to, from),
                Undo::Replaced(vm, migration) => {
                    self.replace(vm, migration);
                    self.undo.pop();
                }
            }
        }
    }

    fn cost(&self, vm: usize) -> u128 {
        self.problem.vms()[vm].cost.total(self.migrations[vm].finish)
    }

    fn shift(&mut self, from: usize, to: usize) {
        if from < to {
            self.order[from..=to].rotate_left(1);
        } else {
            self.order[to..=from].rotate_right(1);
        }
        for index in from.min(to)..=from.max(to) {
            self.position[self.order[index]] = index;
        }
    }

    /// Places again whoever is due, in order, and whoever that disturbs.
    fn settle(&mut self, mut due: BinaryHeap<Reverse<usize>>) {
        let mut last = None;
        while let Some(Reverse(index)) = due.pop() {
            if last == Some(index) {
                continue;
            }
            last = Some(index);
            let vm = self.order[index];
            let migration = self.placed(vm, self.route(vm));
            if migration != self.migrations[vm] {
                self.replace(vm, migration);
                self.followers(vm, index + 1, &mut due);
            }
        }
    }

    /// Whoever shares a pool with `vm` and stands at `first` or later is due.
    fn followers(&self, vm: usize, first: usize, due: &mut BinaryHeap<Reverse<usize>>) {
        for pool in &self.problem.vms()[vm].routes[self.route(vm)].pools {
            let later = self.users[*pool].iter().filter(|other| self.position[**other] >= first);
            due.extend(later.map(|other| Reverse(self.position[*other])));
        }
    }

    fn replace(&mut self, vm: usize, migration: Migration) {
        let routes = &self.problem.vms()[vm].routes;
        let (old, new) = (self.route(vm), migration.route);
        if old != new {
            for pool in &routes[old].pools {
                self.users[*pool].retain(|user| *user != vm);
            }
            for pool in &routes[new].pools {
                self.users[*pool].push(vm);
            }
        }
        self.degradation -= self.cost(vm);
        let replaced = std::mem::replace(&mut self.migrations[vm], migration);
        self.degradation += self.cost(vm);
        self.undo.push(Undo::Replaced(vm, replaced));
    }

    /// What `vm` does on `route` given what those before it do.
    fn placed(&self, vm: usize, route: usize) -> Migration {
        let data = &self.problem.vms()[vm];
        let pools = &data.routes[route].pools;
        let mut filling = Filling {
            migration: Migration { route, pieces: Vec::new(), finish: 0 },
            left: data.size.count(),
            step: 0,
        };
        let mut room: Vec<u64> =
            pools.iter().map(|pool| self.problem.capacities()[*pool]).collect();
        let mut changes = self.changes(vm, pools);
        changes.sort_unstable_by_key(|change| change.step);
        let mut index = 0;
        loop {
            while let Some(change) = changes.get(index).filter(|next| next.step == filling.step) {
                // Ends come before beginnings only by chance, so the sum may pass below zero.
                room[change.pool] = room[change.pool].wrapping_add_signed(change.bytes);
                index += 1;
            }
            let until = changes.get(index).map_or(NEVER, |next| next.step);
            let rate = room.iter().copied().min().unwrap_or(0);
            if filling.fill(data, rate, until) {
                return filling.migration;
            }
        }
    }

    /// When the room on each of `pools` (by position there) changes because of earlier machines.
    fn changes(&self, vm: usize, pools: &[usize]) -> Vec<Change> {
        let mut changes = Vec::new();
        for (index, pool) in pools.iter().enumerate() {
            for user in &self.users[*pool] {
                if self.position[*user] >= self.position[vm] {
                    continue;
                }
                for piece in &self.migrations[*user].pieces {
                    let bytes = i64::try_from(piece.bytes).unwrap_or(i64::MAX);
                    changes.push(Change { step: piece.first - 1, pool: index, bytes: -bytes });
                    changes.push(Change { step: piece.last, pool: index, bytes });
                }
            }
        }
        changes
    }
}

/// After `step` steps, a pool has so many bytes a step more.
struct Change {
    step: u64,
    pool: usize,
    bytes: i64,
}

/// One machine on its way through the steps.
struct Filling {
    migration: Migration,
    left: u64,
    step: u64,
}

impl Filling {
    /// Sends at `rate` until `until` steps are over or everything is sent; says whether it is.
    fn fill(&mut self, vm: &super::Vm, rate: u64, until: u64) -> bool {
        while self.step < until {
            // One step at a time until the growth stays the same.
            let steady = vm.growth.is_constant_after(self.step);
            let end = if steady { until } else { self.step + 1 };
            let growth = vm.growth.at(self.step + 1);
            let steps = end - self.step;
            let first = self.step + 1;
            if rate > growth {
                let needed = self.left.div_ceil(rate - growth);
                if needed <= steps {
                    let full = needed - 1;
                    let sent = u128::from(rate) * u128::from(full);
                    let wanted = u128::from(self.left) + u128::from(growth) * u128::from(needed);
                    let last = u64::try_from(wanted - sent).unwrap_or(u64::MAX);
                    self.step += needed;
                    self.migration.push(Piece { first, last: self.step - 1, bytes: rate });
                    self.migration.push(Piece { first: self.step, last: self.step, bytes: last });
                    self.migration.finish = self.step;
                    return true;
                }
            }
            self.migration.push(Piece { first, last: end, bytes: rate });
            let total = u128::from(self.left) + u128::from(growth) * u128::from(steps);
            let sent = u128::from(rate) * u128::from(steps);
            self.left = u64::try_from(total - sent).unwrap_or(u64::MAX);
            self.step = end;
        }
        false
    }
}
