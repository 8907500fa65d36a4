//! Runs the flows of a trace file under max-min sharing: one line of JSON with the time it took,
//! and every completion time where asked for.
//!
//! usage: cargo run --release -p weir-fluid --example fluid_trace -- TRACE [COMPLETIONS]

#![allow(clippy::print_stdout, reason = "the figures are the output")]

use std::error::Error;
use std::fmt::Write as _;

use rustix::time::{ClockId, clock_gettime};
use weir_fluid::sharing::Rule;
use weir_fluid::trace::Trace;
use weir_fluid::{Fate, Listed, Sharing, simulate};
use weir_units::Time;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("usage: fluid_trace TRACE [COMPLETIONS]")?;
    let trace = Trace::parse(&std::fs::read_to_string(path)?)?;
    let mut source = Listed::new(&trace.flows);
    let sharing = Sharing::Fair(Rule::MaxMin);
    let start = processor_s();
    let outcome = simulate(&trace.network, &trace.routes, sharing, &mut source, Time::MAX)?;
    let cpu_s = processor_s() - start;
    let count = outcome.flows.len();
    println!(
        "{{\"flows\": {count}, \"cpu_s\": {cpu_s}, \"flows_per_cpu_s\": {}, \"end_s\": {}}}",
        count as f64 / cpu_s,
        outcome.end.as_s(),
    );
    if let Some(path) = arguments.get(1) {
        let mut text = String::new();
        for flow in &outcome.flows {
            let Fate::Ended(end) = flow.fate else { continue };
            writeln!(text, "{:.9}", end.as_s())?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}

fn processor_s() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}
