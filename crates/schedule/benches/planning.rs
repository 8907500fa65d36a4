//! Latency of decisions of Weir's own calendar, by the processor time of its thread, which other
//! programs hardly change, on G-scale with the published mix of requests (000-spec section 4.6),
//! each as much smaller as there are more of them. The calendar is filled up to the number of
//! active transfers at once; then requests come at four fifths of a request per second and mean
//! rate of 100 Mbit/s, where it must refuse, and transfers send, end and are reported. One line of
//! JSON per setting on standard output.
//!
//! usage: cargo bench -p weir-schedule --bench planning [-- --quick]

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]
#![allow(clippy::print_stdout, reason = "the figures are the output")]

#[path = "../tests/support/workload.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests")]
mod workload;

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use weir_schedule::calendar::{Calendar, Decision, FlowId, Request, Weir, WeirOptions, Worth};
use weir_topology::{Network, named::g_scale};
use weir_units::Time;
use workload::{Arrivals, Load};

const PATHS: usize = 8;
const BUSY: f64 = 0.8;
/// So many transfers are under way at this load in the mean, when each is of the published size.
const USUAL: f64 = 300.0;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let network = Arc::new(g_scale());
    for active in [30, 100, 1000, 10_000] {
        for (name, worth) in [("weir", Worth::Request), ("weir-all", Worth::Anything)] {
            let count = if quick { 200 } else { 2000 };
            println!("{}", measure(&network, (name, worth), active, count));
        }
    }
}

fn measure(
    network: &Arc<Network>,
    (name, worth): (&str, Worth),
    active: usize,
    count: usize,
) -> String {
    let options = WeirOptions {
        paths: PATHS,
        epoch: Time::from_ms(180_000),
        worth,
        hold: Time::ZERO,
        measured: false,
    };
    let mut calendar = Weir::new(Arc::clone(network), options).unwrap();
    let load = Load::published(BUSY).finer(active as f64 / USUAL);
    fill(&mut calendar, Arrivals::new(network, load, 1), active);
    let mut arrivals = Arrivals::new(network, load, 2);
    let (mut times, mut refused, mut flows) = (Vec::new(), 0, 0);
    for _ in 0..count {
        let (now, request) = arrivals.next();
        pass(&mut calendar, now);
        flows += calendar.flows().len();
        let start = processor_time();
        let decision = calendar.submit(now, request).unwrap();
        times.push(processor_time() - start);
        refused += usize::from(matches!(decision, Decision::Refused(_)));
    }
    serde_json::json!({
        "policy": name,
        "active": active,
        "mean_active": flows as f64 / count as f64,
        "p50_us": percentile_us(&mut times, 50),
        "p99_us": percentile_us(&mut times, 99),
        "max_us": percentile_us(&mut times, 100),
        "refused": refused as f64 / count as f64,
    })
    .to_string()
}

/// Requests at time zero until so many are admitted, under names of their own.
fn fill(calendar: &mut Weir, mut arrivals: Arrivals, active: usize) {
    while calendar.flows().len() < active {
        let (now, request) = arrivals.next();
        let id = FlowId::new(&format!("first {}", request.id));
        let deadline = request.deadline - now;
        calendar.submit(Time::ZERO, Request { id, deadline, ..request }).unwrap();
    }
}

/// Lets time pass: ends are reported as they come, epochs held as they are due.
fn pass(calendar: &mut Weir, until: Time) {
    loop {
        let end = calendar.flows().into_iter().map(|flow| (flow.completion, flow.flow)).min();
        let epoch = calendar.next_epoch();
        match end {
            Some((at, flow)) if at <= epoch.min(until) => {
                calendar.complete(at, &flow).unwrap();
            }
            _ if epoch <= until => {
                calendar.epoch(epoch).unwrap();
            }
            _ => return,
        }
    }
}

/// What this thread has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

fn percentile_us(values: &mut [Duration], percent: usize) -> f64 {
    values.sort_unstable();
    let index = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(index).map_or(0.0, |value| value.as_secs_f64() * 1e6)
}
