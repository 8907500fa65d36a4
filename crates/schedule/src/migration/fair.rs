//! The baseline: every migration a TCP flow, links shared by max-min fairness (003-spec section
//! 5.10). The progressive filling is that of Bertsekas and Gallager, Data Networks, section 6.5.2,
//! in whole bytes, of which none is lost and those left over go round. The fluid simulator's own is
//! in floating point, incremental, and in a crate that uses this one.

use super::error::MigrationError;
use super::greedy::{PathChoice, widest};
use super::plan::Plan;
use super::problem::{Problem, STEPS_MAX};
use super::progress::Progress;

/// Shares are worked out anew so many times before anything can happen.
const ROUNDS: u64 = 1024;

/// All start together and share every link fairly; shares are worked out anew as machines
/// finish. The widest routes are those of the idle network.
///
/// # Errors
/// [`MigrationError::NeverEnds`] when fair shares stay below what the machines grow by.
pub fn fair_sharing(problem: &Problem, choice: PathChoice) -> Result<Plan, MigrationError> {
    let fixed = choice.fixed(problem).into_iter().zip(problem.vms());
    let routes: Vec<usize> = fixed
        .map(|(route, vm)| route.unwrap_or_else(|| widest(vm, problem.capacities())))
        .collect();
    let mut progress = Progress::new(problem);
    let mut round = 0;
    while let Some(first) = progress.active.first() {
        let rates = shares(problem, &progress, &routes, round);
        let growing = progress.active.iter().all(|vm| {
            let growth = &problem.vms()[*vm].growth;
            growth.is_constant_after(progress.step) && growth.tail() >= rates[*vm]
        });
        if growing || progress.step > STEPS_MAX {
            return Err(MigrationError::NeverEnds { vm: problem.vms()[*first].name.clone() });
        }
        // The bytes left over go around often enough even where nothing happens for long.
        let steps = (progress.steady(&rates) / ROUNDS).max(1);
        progress.advance(&rates, steps);
        round += 1;
    }
    Ok(progress.into_plan(&routes))
}

/// Max-min fair bytes for every active machine in the next step. The bytes that do not divide
/// evenly go to a different machine in every round.
fn shares(problem: &Problem, progress: &Progress<'_>, routes: &[usize], round: u64) -> Vec<u64> {
    let pools = |vm: usize| problem.vms()[vm].routes[routes[vm]].pools.iter().copied();
    let mut room = problem.capacities().to_vec();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); room.len()];
    for vm in &progress.active {
        pools(*vm).for_each(|pool| users[pool].push(*vm));
    }
    let mut rates = vec![0; problem.vms().len()];
    let mut frozen = vec![false; problem.vms().len()];
    let mut used: Vec<usize> = (0..room.len()).filter(|pool| !users[*pool].is_empty()).collect();
    while let Some(tightest) = used.iter().copied().min_by(|a, b| {
        let ratio = |x: usize, y: usize| u128::from(room[x]) * users[y].len() as u128;
        ratio(*a, *b).cmp(&ratio(*b, *a)).then(a.cmp(b))
    }) {
        let sharers = std::mem::take(&mut users[tightest]);
        let count = sharers.len() as u64;
        let (share, over) = (room[tightest] / count, room[tightest] % count);
        for (index, vm) in sharers.into_iter().enumerate() {
            let extra = u64::from((index as u64 + round) % count < over);
            let limit = pools(vm).map(|pool| room[pool]).min().unwrap_or(0);
            rates[vm] = (share + extra).min(limit);
            frozen[vm] = true;
            pools(vm).for_each(|pool| room[pool] -= rates[vm]);
        }
        for pool in &used {
            users[*pool].retain(|vm| !frozen[*vm]);
        }
        used.retain(|pool| !users[*pool].is_empty());
    }
    rates
}
