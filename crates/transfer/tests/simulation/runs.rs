//! Runs in processes of their own, so that no thread of a killed process outlives its run; and
//! what is left of a failure once all is taken away that it does not need.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::plan::Plan;

const SEED: &str = "WEIR_SIMULATION_SEED";
const WITHOUT: &str = "WEIR_SIMULATION_WITHOUT";

/// What a run said.
pub(crate) struct Said {
    pub(crate) held: bool,
    pub(crate) text: String,
}

/// The seed, and the numbers of the faults to leave out, that a run's process was given.
pub(crate) fn asked_for() -> (u64, Vec<usize>) {
    let value = |name| std::env::var(name).unwrap_or_default();
    let without = value(WITHOUT).split(',').flat_map(str::parse).collect();
    (value(SEED).parse().unwrap_or(1), without)
}

/// Carries out one run.
pub(crate) fn run(seed: u64, without: &[usize]) -> Said {
    let without: Vec<String> = without.iter().map(ToString::to_string).collect();
    let program = std::env::current_exe().expect("this program has a name");
    let output: Output = Command::new(program)
        .args(["--exact", "one", "--ignored", "--nocapture"])
        .env(SEED, seed.to_string())
        .env(WITHOUT, without.join(","))
        .output()
        .expect("this program can start itself");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Said { held: output.status.success(), text }
}

/// Whether a run failed in the way that is looked for, if one is.
fn fails(said: &Said) -> bool {
    let wanted = std::env::var("WEIR_SIMULATION_WANTED").unwrap_or_default();
    !said.held && said.text.contains(&wanted)
}

/// Tries seeds until `span` is over, `count` are through or `most` have failed; returns how many
/// were tried, and the failures, made small.
pub(crate) fn try_seeds(first: u64, count: u64, span: Duration, most: usize) -> (u64, Vec<String>) {
    let (next, give_up) = (AtomicU64::new(first), Instant::now() + span);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let failed = || failures.lock().unwrap_or_else(PoisonError::into_inner).len();
                while Instant::now() < give_up && failed() < most {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    if fails(&run(seed, &[])) {
                        let small = shrink(seed);
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(small);
                    }
                }
            });
        }
    });
    let tried = next.load(Relaxed).min(first + count) - first;
    (tried, failures.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Leaves out every fault that a failure does not need, and says how to see the rest.
fn shrink(seed: u64) -> String {
    let mut without = Vec::new();
    let mut last = run(seed, &without);
    if !fails(&last) {
        return format!("seed {seed} failed once and not again: the simulator is at fault");
    }
    for fault in 0..Plan::new(seed, &[]).faults.len() {
        let fewer: Vec<usize> = without.iter().copied().chain([fault]).collect();
        let said = run(seed, &fewer);
        if fails(&said) {
            (without, last) = (fewer, said);
        }
    }
    let without: Vec<String> = without.iter().map(ToString::to_string).collect();
    format!("{SEED}={seed} {WITHOUT}={}\n{}", without.join(","), last.text)
}
