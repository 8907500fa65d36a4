//! A simulator of sessions: both ends' code as it is shipped, under a seed and in virtual time,
//! with faults; `docs/simulation.md` says what it models and what not.
//!
//! The functions in [`calls`] stand in for those of the C library. Whoever is not a simulated
//! thread, such as the test harness, is served by the real kernel.
#![allow(unsafe_code)]

mod calls;
mod disk;
mod hostile;
mod kernel;
mod memory;
mod network;
mod noise;
mod plan;
mod raw;
mod runs;
mod session;
mod storage;
mod tree;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use plan::Plan;

/// Seeds that every run of the tests tries, as far as 40 s go; `make soak` goes on from there.
const SHARE: u64 = 250;

/// Panics of simulated threads.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// One run, in a process of its own.
#[test]
#[ignore = "the other tests start it, with a seed"]
fn one() {
    let (seed, without) = runs::asked_for();
    let plan = Plan::new(seed, &without);
    let memory = std::path::Path::new("/dev/shm");
    let base = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let base = base.unwrap();
    std::panic::set_hook(Box::new(|panic| {
        kernel::tell(&format!("{panic}"));
        PANICS.fetch_add(1, Relaxed);
    }));
    let mut wrong = Vec::new();
    let digest = kernel::run(seed, || {
        wrong = match seed % 6 {
            4 => hostile::attack_server(seed, base.path()),
            5 => hostile::attack_client(seed, base.path()),
            _ => session::observe(&plan, base.path()),
        }
    });
    if PANICS.load(Relaxed) > 0 {
        wrong.push("a thread panicked".to_owned());
    }
    drop(base);
    wrong.iter().for_each(|what| kernel::tell(what));
    if !wrong.is_empty() && seed % 6 < 4 {
        kernel::tell(&format!("{plan:#?}"));
    }
    kernel::tell(&format!("seed {seed}: {digest}"));
    // SAFETY: ends the process, with its simulated threads wherever they are.
    unsafe { libc::_exit(if wrong.is_empty() { 0 } else { 4 }) }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 7, 10, 12] {
        let (one, other) = (runs::run(seed, &[]).text, runs::run(seed, &[]).text);
        assert!(one.contains(&format!("seed {seed}: ")), "{one}");
        assert_eq!(one, other);
    }
    assert_ne!(
        runs::run(3, &[]).text.split(' ').next_back(),
        runs::run(7, &[]).text.split(' ').next_back()
    );
}

#[test]
fn whatever_happens_success_is_true_and_what_was_interrupted_resumes() {
    let (_, failures) = runs::try_seeds(1, SHARE, Duration::from_secs(40), 3);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// As many seeds as WEIR_SIMULATION_MINUTES have room for, from WEIR_SIMULATION_FIRST on.
#[test]
#[ignore = "takes as long as it is told: make soak"]
fn soak() {
    let number = |name: &str, other| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other)
    };
    let first = number("WEIR_SIMULATION_FIRST", SHARE + 1);
    let count = number("WEIR_SIMULATION_COUNT", u64::MAX - first);
    let span = Duration::from_secs(60 * number("WEIR_SIMULATION_MINUTES", 10));
    let most = number("WEIR_SIMULATION_FAILURES", 20) as usize;
    let (tried, failures) = runs::try_seeds(first, count, span, most);
    println!("tried {tried} seeds from {first} on, {} failed", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
