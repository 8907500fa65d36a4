//! DualQ with Curvy RED (RFC 9332 appendix B; 004-spec section 5.2, where it is the AQM studied).
//!
//! Section B.1: the Classic queue under [Curvy RED](crate::CurvyRed) with the average delay of
//! its packets; the L4S queue marked by its own step threshold or by the coupled probability,
//! whichever comes first; p_C = (p_CL / k)^2. The step is `threshold`: a backlog in packets as in
//! 2015, or a wait. The frame, with its schedulers, is [`DualQ`].
//!
//! Departures: see [`crate::CurvyRed`]. What is coupled is the larger of the average and the wait
//! of the Classic head (`coupling_input`), because with strict priority the average alone stands
//! still while L4S starves Classic (004-spec section 5.2.1, trap 1); while no Classic packet waits,
//! each L4S packet counts as a Classic delay of zero, so that the average does not stay behind.
//! Default slopes are those of 004-spec's testbed T2, the default scheduler strict priority, as in
//! 2015.

use serde::{Deserialize, Serialize};
use weir_units::{Rate, Time};

use crate::curvy_red::Curve;
use crate::dualq::{CoupledAqm, DualQ, DualScheduler, Leaving, Scheduler, Verdict};
use crate::ns;
use crate::{Amount, DropCause, L4sClassifier, Limit, Packet, QueueError, Random};

/// Which Classic delay the L4S marks are coupled to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CouplingInput {
    /// The larger of the average and the head's wait.
    #[default]
    Max,
    /// The average.
    Average,
    /// The head's wait.
    Head,
}

/// Parameters of the DualQ with Curvy RED.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DualCurvyRedConfig {
    /// What may wait in both queues; 250 ms if absent.
    pub limit: Option<Amount>,
    /// Classic delay above the minimum at which the Classic probability is 1.
    #[serde(rename = "range_ns", with = "ns")]
    pub range: Time,
    /// Average Classic delay below which nothing is signalled.
    #[serde(rename = "min_threshold_ns", with = "ns")]
    pub min_threshold: Time,
    /// f: the gain of the average is 2^-f.
    pub smoothing: u32,
    /// U.
    pub curviness: u32,
    /// k, between the slopes of the two signals.
    pub coupling_factor: f64,
    /// From which backlog (in packets) or wait every L4S packet is marked.
    pub threshold: Amount,
    /// Which Classic delay the L4S marks are coupled to.
    pub coupling_input: CouplingInput,
    /// Which queue is served while both wait.
    pub scheduler: DualScheduler,
    /// Lead of L4S in the time-shifted FIFO.
    #[serde(rename = "time_shift_ns", with = "ns")]
    pub time_shift: Time,
    /// Classic's share in the weighted scheduler.
    pub classic_weight: f64,
    /// Which packets are L4S.
    pub classifier: L4sClassifier,
}

impl Default for DualCurvyRedConfig {
    fn default() -> Self {
        Self {
            limit: None,
            range: Time::from_us(62_500),
            min_threshold: Time::ZERO,
            smoothing: 5,
            curviness: 1,
            coupling_factor: 2.0,
            threshold: Amount::Packets(5),
            coupling_input: CouplingInput::Max,
            scheduler: DualScheduler::Strict,
            time_shift: Time::from_ms(50),
            classic_weight: 1.0 / 16.0,
            classifier: L4sClassifier::L4s,
        }
    }
}

impl DualCurvyRedConfig {
    pub(crate) fn limit(&self) -> Amount {
        self.limit.unwrap_or(Amount::Ns(250_000_000))
    }

    pub(crate) fn build<P: Packet>(
        &self,
        limit: Limit,
        rate: Option<Rate>,
        random: Random,
    ) -> Result<DualQ<P, CoupledCurves>, QueueError> {
        let scheduler = Scheduler::new(self.scheduler, self.time_shift, self.classic_weight)?;
        let (range, minimum, k) = (self.range, self.min_threshold, self.coupling_factor);
        let curve = Curve::new(range, minimum, self.smoothing, self.curviness, k)?.on(rate);
        let step = match self.threshold {
            Amount::Packets(packets) => Step::Packets(packets),
            Amount::Ns(ns) => Step::Wait(Time::from_ns(ns)),
            Amount::Bytes(bytes) => {
                return Err(QueueError::Domain {
                    key: "threshold",
                    value: format!("{bytes} bytes"),
                    reason: "packets or a time are allowed",
                });
            }
        };
        let aqm = CoupledCurves { curve, step, input: self.coupling_input, random };
        Ok(DualQ::new(self.classifier, scheduler, limit, aqm))
    }
}

/// The L4S queue's own threshold.
#[derive(Clone, Copy, Debug)]
enum Step {
    Packets(u64),
    Wait(Time),
}

/// The coupled AQMs of the DualQ with Curvy RED.
#[derive(Debug)]
pub(crate) struct CoupledCurves {
    curve: Curve,
    step: Step,
    input: CouplingInput,
    random: Random,
}

impl CoupledAqm for CoupledCurves {
    fn on_l4s(&mut self, leaving: Leaving) -> Verdict {
        if leaving.classic_is_empty {
            self.curve.sample(Time::ZERO);
        }
        let is_spared = self.curve.spares(leaving.is_almost_last);
        let is_overloaded = !is_spared && self.curve.is_overloaded();
        if is_overloaded && self.curve.strikes_classic(&mut self.random) {
            return Verdict::Drop(DropCause::Overload);
        }
        let native = match self.step {
            Step::Packets(packets) => leaving.l4s_packets >= packets,
            Step::Wait(wait) => leaving.sojourn > wait,
        };
        let (average, head) = (self.curve.average_s(), leaving.classic_head.as_s());
        let coupled_to = match self.input {
            CouplingInput::Max => average.max(head),
            CouplingInput::Average => average,
            CouplingInput::Head => head,
        };
        let struck = native || !is_spared && self.curve.strikes_l4s(coupled_to, &mut self.random);
        if struck { Verdict::Mark } else { Verdict::Send }
    }

    fn on_classic(&mut self, leaving: Leaving) -> Verdict {
        self.curve.sample(leaving.sojourn);
        if self.curve.spares(leaving.is_almost_last) {
            return Verdict::Send;
        }
        self.curve.classic(leaving.ecn, &mut self.random)
    }
}
