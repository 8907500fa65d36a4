//! What a decision of each deadline policy costs, and a run of work 002 at its published length.
//! One line of JSON per setting on standard output; times are processor time of one core.
//!
//! usage: cargo bench -p weir-schedule --bench deadlines [-- --quick]
//!
//! `make bench NAME=deadline` runs it and keeps the figures.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]
#![allow(clippy::print_stdout, reason = "the figures are the output")]

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};
use weir_schedule::deadline::model::{
    Arrivals, Deadlines, EarlyTermination, Random, Reading, SLOT, Setting, Sizes, Workload, slots,
};
use weir_schedule::deadline::{Decision, Flow, Kind};

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    for kind in Kind::ALL {
        for active in [10, 100, 1000, 10_000] {
            println!("{}", decisions(kind, active, if quick { 2 } else { 50 }));
        }
    }
    for kind in Kind::ALL {
        println!("{}", run(kind, if quick { 10_000 } else { 1_000_000 }));
    }
}

/// Mean time of a decision on `active` flows of which the link can serve about half in time: their
/// cushions average half of what all together need.
fn decisions(kind: Kind, active: u32, sets: u64) -> String {
    let mean_cushion = u64::from(active) * 50;
    let batches: Vec<Vec<Flow>> = (0..sets).map(|set| flows(active, mean_cushion, set)).collect();
    let mut policy = kind.build(1);
    let mut decision = Decision::default();
    let mut spent = 0.0;
    let rounds = (20_000 / u64::from(active)).max(1);
    for _ in 0..rounds {
        for batch in &batches {
            let start = processor_s();
            policy.decide(slots(0), SLOT, black_box(batch), &mut decision);
            spent += processor_s() - start;
            black_box(&decision);
        }
    }
    let us = spent * 1e6 / (rounds * sets) as f64;
    format!(r#"{{"policy": "{kind}", "active": {active}, "decision_us": {us:.3}}}"#)
}

fn flows(active: u32, mean_cushion: u64, set: u64) -> Vec<Flow> {
    let flow = |source: u32| {
        let mut random = Random::new(set, &[u64::from(source)]);
        let size = random.between(2, 198);
        Flow {
            // Unique to its set: a scheduler that remembers flows meets new ones every time.
            id: set * u64::from(active) + u64::from(source),
            source,
            arrival: slots(0),
            deadline: slots(size + random.between(0, 2 * mean_cushion)),
            remaining: slots(size),
            first_served: None,
        }
    };
    (0..active).map(flow).collect()
}

/// 40 servers at full load, cushions of mean 60 slots.
fn run(kind: Kind, length: u64) -> String {
    let deadlines = Deadlines::Exponential { mean_slots: 60.0, reading: Reading::Cushion };
    let setting = Setting {
        workload: Workload { sizes: Sizes::PUBLISHED, deadlines },
        arrivals: Arrivals::ClosedLoop { servers: 40, probability: 1.0 / 4000.0, slots: length },
        early_termination: EarlyTermination::Hopeless,
    };
    let start = processor_s();
    let sample = setting.run(kind, 1).unwrap();
    let spent = processor_s() - start;
    let share = 100.0 * sample.on_time_share();
    format!(
        r#"{{"policy": "{kind}", "slots": {length}, "run_s": {spent:.6}, "on_time": {share:.1}}}"#
    )
}

/// Processor time of this thread.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
