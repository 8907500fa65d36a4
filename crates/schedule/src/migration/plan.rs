//! An answer, and the check that it is one.

use thiserror::Error;

use super::problem::Problem;

/// The same number of bytes in each of some steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first step, counted from 1.
    pub first: u64,
    /// The last step.
    pub last: u64,
    /// Bytes in each of them; not zero.
    pub bytes: u64,
}

/// What one machine does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Which of its routes it takes.
    pub route: usize,
    /// What it sends, in order of time.
    pub pieces: Vec<Piece>,
    /// The step in which it has sent everything, f_i.
    pub finish: u64,
}

impl Migration {
    /// Appends a piece, as part of the last one where it goes on.
    pub(super) fn push(&mut self, piece: Piece) {
        if piece.bytes == 0 || piece.last < piece.first {
            return;
        }
        match self.pieces.last_mut() {
            Some(last) if last.bytes == piece.bytes && last.last + 1 == piece.first => {
                last.last = piece.last;
            }
            _ => self.pieces.push(piece),
        }
    }
}

/// What every machine does, in the problem's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One for every machine.
    pub migrations: Vec<Migration>,
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Machines and migrations are not as many.
    #[error("{migrations} migrations for {vms} VMs")]
    Count {
        /// How many migrations.
        migrations: usize,
        /// How many machines.
        vms: usize,
    },
    /// More or less than the machine was moved.
    #[error("VM \"{vm}\" has {needed} bytes to move and the plan moves {moved}")]
    Moved {
        /// The machine.
        vm: String,
        /// Its size with its growth until its finish.
        needed: u128,
        /// What the plan moves.
        moved: u128,
    },
    /// Something is sent after the finish, or pieces overlap.
    #[error("VM \"{vm}\" has a piece out of order in step {step}")]
    Order {
        /// The machine.
        vm: String,
        /// Where the piece begins.
        step: u64,
    },
    /// A link carries more than it can.
    #[error("link \"{link}\" carries {carried} bytes in step {step} and can carry {capacity}")]
    Capacity {
        /// The link.
        link: String,
        /// The first such step.
        step: u64,
        /// What the plan asks of it.
        carried: u64,
        /// What it has.
        capacity: u64,
    },
}

impl Plan {
    /// Total performance degradation: every machine's cost in every step until its finish.
    pub fn degradation(&self, problem: &Problem) -> u128 {
        let each = self.migrations.iter().zip(problem.vms());
        each.map(|(migration, vm)| vm.cost.total(migration.finish)).sum()
    }

    /// The step in which the last migration finishes.
    pub fn makespan(&self) -> u64 {
        self.migrations.iter().map(|migration| migration.finish).max().unwrap_or(0)
    }

    /// Checks the plan against the problem, by its own arithmetic: every machine moved whole by
    /// its finish, no link over its capacity in any step by more than `slack` bytes for each
    /// machine on it. The planners of this crate need no slack; a solver in floating point does.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, problem: &Problem, slack: u64) -> Result<(), PlanError> {
        let (migrations, vms) = (self.migrations.len(), problem.vms().len());
        if migrations != vms {
            return Err(PlanError::Count { migrations, vms });
        }
        for (migration, vm) in self.migrations.iter().zip(problem.vms()) {
            let mut end = 0;
            for piece in &migration.pieces {
                if piece.first <= end || piece.last < piece.first || piece.last > migration.finish {
                    return Err(PlanError::Order { vm: vm.name.clone(), step: piece.first });
                }
                end = piece.last;
            }
            let sum =
                |piece: &Piece| u128::from(piece.bytes) * u128::from(piece.last - piece.first + 1);
            let moved: u128 = migration.pieces.iter().map(sum).sum();
            let needed = u128::from(vm.size.count()) + vm.growth.total(migration.finish);
            if moved != needed {
                return Err(PlanError::Moved { vm: vm.name.clone(), needed, moved });
            }
        }
        problem.network().links().try_for_each(|link| {
            let pool = problem.pool_of(link);
            let on = |(migration, vm): &(&Migration, &super::Vm)| {
                vm.routes[migration.route].pools.contains(&pool)
            };
            let mut changes: Vec<(u64, i128)> = Vec::new();
            let mut count = 0;
            for (migration, _) in self.migrations.iter().zip(problem.vms()).filter(on) {
                count += 1;
                for piece in &migration.pieces {
                    changes.push((piece.first, i128::from(piece.bytes)));
                    changes.push((piece.last.saturating_add(1), -i128::from(piece.bytes)));
                }
            }
            changes.sort_unstable();
            let capacity = problem.capacities()[pool];
            let limit = i128::from(capacity) + i128::from(slack) * count;
            let mut carried = 0;
            for (step, change) in changes {
                carried += change;
                if carried > limit {
                    let link = problem.network().link(link).name.clone();
                    let carried = u64::try_from(carried).unwrap_or(u64::MAX);
                    return Err(PlanError::Capacity { link, step, carried, capacity });
                }
            }
            Ok(())
        })
    }
}
