//! The clock of the simulator that the Calibers figures were drawn with.
//!
//! Its published source (F. Alali, `flow-level-simulator-calibers`, 2018, `run-simulation.py`) has
//! one loop. Each turn moves the flows on by one second and, on a second clock, draws a gap; if the
//! second clock is still within the epoch, one request is drawn, else the epoch ends: what has been
//! freed is redistributed and the epoch's requests are decided together. At its end every turn
//! draws another gap. So a request costs the flows one second whatever the arrival rate is, and two
//! gaps are drawn for each. Deadlines count from the decision.
//!
//! Here that is a map from the number of a request to the time it arrives at; whoever schedules
//! knows nothing of it.

use weir_random::Random;
use weir_units::Time;

use super::{Arrivals, Workload, exponential};
use crate::{Flow, FluidError, Source};

/// Flows in batches, one at the end of each epoch of the published simulator.
#[derive(Clone, Debug)]
pub struct PublishedClock {
    /// The flows, by arrival; those that the simulator never decided on, at most one batch, are
    /// left out.
    pub flows: Vec<Flow>,
    /// The end of every epoch, on the flows' clock: when redistribution is due.
    pub epochs: Vec<Time>,
    /// When the simulator stopped.
    pub end: Time,
}

impl PublishedClock {
    /// Gives the flows of a workload with Poisson arrivals, as `flows` draws them, the times that
    /// they have in the published simulator with epochs of that length.
    ///
    /// # Errors
    /// Arrivals that are not Poisson, or an epoch of zero.
    pub fn new(
        workload: &Workload,
        flows: &mut dyn Source,
        epoch: Time,
    ) -> Result<Self, FluidError> {
        let wrong = |place: &str, reason: &str| FluidError::Parameter {
            place: place.to_owned(),
            reason: reason.to_owned(),
        };
        let Arrivals::Poisson { rate_per_s } = workload.arrivals else {
            return Err(wrong("arrivals", "the published clock needs poisson"));
        };
        if epoch == Time::ZERO {
            return Err(wrong("epoch", "is 0"));
        }
        let mut random = Random::of_source(workload.seed, &["fluid", "published clock"]);
        let mut gap = || exponential(&mut random, 1.0 / rate_per_s);
        let (mut retimed, mut batch, mut epochs) = (Vec::new(), Vec::new(), Vec::new());
        let (mut turn, mut clock_s, mut epoch_end_s) = (0u64, 0.0, epoch.as_s());
        let mut left = workload.flows;
        while left > 0 {
            clock_s += gap();
            if clock_s < epoch_end_s {
                batch.extend(flows.take());
                left -= 1;
            } else {
                let at = seconds(turn);
                retimed.extend(batch.drain(..).map(|flow| moved(flow, at)));
                epochs.push(at);
                clock_s = epoch_end_s;
                epoch_end_s += epoch.as_s();
            }
            clock_s += gap();
            turn += 1;
        }
        Ok(Self { flows: retimed, epochs, end: seconds(turn) })
    }
}

fn seconds(count: u64) -> Time {
    Time::from_ms(count.saturating_mul(1000))
}

/// The flow with another arrival, and as much time from there to its start and deadline.
fn moved(flow: Flow, at: Time) -> Flow {
    let later = |time: Time| match time {
        Time::MAX => Time::MAX,
        time => at.saturating_add(time.saturating_sub(flow.at)),
    };
    Flow { at, start: later(flow.start), deadline: later(flow.deadline), ..flow }
}
