//! DualPI2: the dual-queue coupled AQM with a PI controller squared (RFC 9332 appendix A).
//!
//! A.1: the base probability p' by a PI controller on the longer of the two heads' waits, every
//! `update_interval` (also while idle, until p' is at rest); p_C = p'^2 drops Classic packets or
//! marks those that are ECT(0), p_CL = k p' marks L4S packets, together with the L4S queue's own
//! ramp; so p_C = (p_CL / k)^2 (section 2.1). A.2: derandomised signals; overload: from p_CL = 1
//! on, L4S packets are dropped with p_C too and Classic packets are no longer marked but dropped.
//! Gains are derived from the target and the longest round trip unless given. As in Linux, neither
//! p_C nor p_CL acts while less than two packets wait, however long these take: on a slow line one
//! packet exceeds the target, and a drop would leave nothing to send. The frame is [`DualQ`].
//!
//! Departures from Linux `dualpi2`: Linux marks at random, with a step of 1 ms instead of the ramp
//! (`ramp_ns = 0` and `min_threshold_ns = 1000000` here), gives Classic 10 %, updates every 16 ms
//! with 0.16 Hz and 3.2 Hz, and can drop on arrival. From the RFC: the limit counts the packet's
//! own size, not an MTU; probabilities are floats.

use serde::{Deserialize, Serialize};
use weir_units::Time;

use crate::dualq::{CoupledAqm, DualQ, DualScheduler, Leaving, Scheduler, Verdict};
use crate::error::{require, require_positive, require_span};
use crate::ns;
use crate::timer::Periodic;
use crate::{Amount, DropCause, Ecn, L4sClassifier, Limit, QueueError, Random};

/// Parameters of DualPI2.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DualPi2Config {
    /// What may wait in both queues; 250 ms if absent.
    pub limit: Option<Amount>,
    /// Queueing delay aimed at in the Classic queue.
    #[serde(rename = "target_ns", with = "ns")]
    pub target: Time,
    /// Longest round trip that the gains are stable for (RTT_max).
    #[serde(rename = "rtt_max_ns", with = "ns")]
    pub rtt_max: Time,
    /// Time between two updates of p' (Tupdate); by default the target or a third of `rtt_max`.
    #[serde(rename = "update_interval_ns")]
    pub update_interval: Option<u64>,
    /// Integral gain, in 1/s; by default 0.1 Tupdate / RTT_max^2.
    #[serde(rename = "alpha_per_s")]
    pub alpha: Option<f64>,
    /// Proportional gain, in 1/s; by default 0.3 / RTT_max.
    #[serde(rename = "beta_per_s")]
    pub beta: Option<f64>,
    /// k, between the square root of the Classic probability and the L4S one.
    pub coupling_factor: f64,
    /// Wait at which the L4S queue's own marks begin.
    #[serde(rename = "min_threshold_ns", with = "ns")]
    pub min_threshold: Time,
    /// By how much more wait they become certain; zero is a step.
    #[serde(rename = "ramp_ns", with = "ns")]
    pub ramp: Time,
    /// Packets that must wait in the L4S queue for its own marks.
    pub min_backlog_packets: u64,
    /// Which queue is served while both wait.
    pub scheduler: DualScheduler,
    /// Lead of L4S in the time-shifted FIFO.
    #[serde(rename = "time_shift_ns", with = "ns")]
    pub time_shift: Time,
    /// Classic's share in the weighted scheduler.
    pub classic_weight: f64,
    /// Which packets are L4S.
    pub classifier: L4sClassifier,
    /// Space the signals evenly instead of drawing each.
    pub derandomize: bool,
    /// Drop ECN-capable packets too when marks alone do not hold the queue.
    pub drop_on_overload: bool,
}

impl Default for DualPi2Config {
    fn default() -> Self {
        Self {
            limit: None,
            target: Time::from_ms(15),
            rtt_max: Time::from_ms(100),
            update_interval: None,
            alpha: None,
            beta: None,
            coupling_factor: 2.0,
            min_threshold: Time::from_us(800),
            ramp: Time::from_us(400),
            min_backlog_packets: 1,
            scheduler: DualScheduler::Weighted,
            time_shift: Time::from_ms(50),
            classic_weight: 1.0 / 16.0,
            classifier: L4sClassifier::L4s,
            derandomize: true,
            drop_on_overload: true,
        }
    }
}

impl DualPi2Config {
    pub(crate) fn limit(&self) -> Amount {
        self.limit.unwrap_or(Amount::Ns(250_000_000))
    }

    pub(crate) fn build<P: crate::Packet>(
        &self,
        limit: Limit,
        random: Random,
    ) -> Result<DualQ<P, Pi2>, QueueError> {
        let scheduler = Scheduler::new(self.scheduler, self.time_shift, self.classic_weight)?;
        Ok(DualQ::new(self.classifier, scheduler, limit, self.aqm(random)?))
    }

    fn aqm(&self, random: Random) -> Result<Pi2, QueueError> {
        require_span("target_ns", self.target)?;
        require_span("rtt_max_ns", self.rtt_max)?;
        let derived = self.target.min(Time::from_ns(self.rtt_max.as_ns() / 3));
        let interval = self.update_interval.map_or(derived, Time::from_ns);
        require_span("update_interval_ns", interval)?;
        let rtt_max = self.rtt_max.as_s();
        let alpha = self.alpha.unwrap_or(0.1 * interval.as_s() / (rtt_max * rtt_max));
        let beta = self.beta.unwrap_or(0.3 / rtt_max);
        require_positive("alpha_per_s", alpha)?;
        require_positive("beta_per_s", beta)?;
        let k = self.coupling_factor;
        require((0.1..=100.0).contains(&k), "coupling_factor", k, "0.1 to 100 is allowed")?;
        Ok(Pi2 {
            config: self.clone(),
            alpha,
            beta,
            timer: Periodic::new(interval),
            base: 0.0,
            delay_before: Time::ZERO,
            l4s: Signals::new(self.derandomize),
            classic: Signals::new(self.derandomize),
            random,
        })
    }
}

/// Signals of a likelihood, spaced evenly or drawn (RFC 9332 appendix A.2, `recur`).
#[derive(Clone, Copy, Debug)]
struct Signals {
    evenly: bool,
    sum: f64,
}

impl Signals {
    const fn new(evenly: bool) -> Self {
        Self { evenly, sum: 0.0 }
    }

    fn strike(&mut self, likelihood: f64, random: &mut Random) -> bool {
        if !self.evenly {
            return random.chance(likelihood);
        }
        self.sum += likelihood;
        let struck = self.sum > 1.0;
        if struck {
            self.sum -= 1.0;
        }
        struck
    }
}

/// The coupled AQMs of DualPI2.
#[derive(Debug)]
pub(crate) struct Pi2 {
    config: DualPi2Config,
    alpha: f64,
    beta: f64,
    timer: Periodic,
    /// p'.
    base: f64,
    delay_before: Time,
    l4s: Signals,
    classic: Signals,
    random: Random,
}

impl Pi2 {
    /// p_C, the probability for Classic packets.
    fn classic(&self) -> f64 {
        self.base * self.base
    }

    /// p_CL, the probability coupled to L4S packets; may be above 1.
    fn coupled(&self) -> f64 {
        self.config.coupling_factor * self.base
    }

    /// p'_L, the L4S queue's own probability.
    fn native(&self, leaving: &Leaving) -> f64 {
        let Self { config, .. } = self;
        if leaving.l4s_packets < config.min_backlog_packets {
            return 0.0;
        }
        let above = leaving.sojourn.saturating_sub(config.min_threshold);
        if leaving.sojourn < config.min_threshold {
            0.0
        } else if above >= config.ramp {
            1.0
        } else {
            above.as_s() / config.ramp.as_s()
        }
    }

    fn is_overloaded(&self) -> bool {
        self.coupled() >= 1.0 && self.config.drop_on_overload
    }

    fn update(&mut self, delay: Time) {
        let (target, before) = (self.config.target.as_s(), self.delay_before.as_s());
        self.base += self.alpha * (delay.as_s() - target) + self.beta * (delay.as_s() - before);
        // Without drops on overload, more than certain marks would only delay the recovery.
        let most = if self.config.drop_on_overload {
            1.0
        } else {
            (1.0 / self.config.coupling_factor).min(1.0)
        };
        self.base = self.base.clamp(0.0, most);
        self.delay_before = delay;
    }
}

impl CoupledAqm for Pi2 {
    fn on_arrival(&mut self, now: Time) {
        self.timer.start(now);
    }

    fn on_l4s(&mut self, leaving: Leaving) -> Verdict {
        let coupled = if leaving.is_almost_last { 0.0 } else { self.coupled() };
        let mut likelihood = coupled.min(1.0);
        if self.is_overloaded() && !leaving.is_almost_last {
            if self.classic.strike(self.classic(), &mut self.random) {
                return Verdict::Drop(DropCause::Overload);
            }
        } else {
            likelihood = likelihood.max(self.native(&leaving));
        }
        let struck = self.l4s.strike(likelihood, &mut self.random);
        if struck { Verdict::Mark } else { Verdict::Send }
    }

    fn on_classic(&mut self, leaving: Leaving) -> Verdict {
        if leaving.is_almost_last || !self.classic.strike(self.classic(), &mut self.random) {
            Verdict::Send
        } else if leaving.ecn == Ecn::NotEct {
            Verdict::Drop(DropCause::Aqm)
        } else if self.is_overloaded() {
            Verdict::Drop(DropCause::Overload)
        } else {
            Verdict::Mark
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.timer.due()
    }

    fn on_timer(&mut self, now: Time, idle: bool, delay: impl Fn(Time) -> Time) {
        while let Some(due) = self.timer.fire(now) {
            self.update(delay(due));
        }
        if idle && self.base == 0.0 && self.delay_before == Time::ZERO {
            self.timer.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_and_interval_follow_from_target_and_round_trip() {
        let aqm = DualPi2Config::default().aqm(Random::of_source(1, &[])).expect("defaults");
        // RFC 9332 figure 2: Tupdate = min(15 ms, 33.3 ms), 0.1 x 15 ms / (100 ms)^2, 0.3 / 100 ms.
        assert!((aqm.alpha - 0.15).abs() < 1e-12 && (aqm.beta - 3.0).abs() < 1e-12);
    }

    #[test]
    fn even_signals_come_once_in_one_over_the_likelihood() {
        let (mut signals, mut random) = (Signals::new(true), Random::of_source(1, &[]));
        let struck = (0..1_000).filter(|_| signals.strike(0.25, &mut random)).count();
        assert!((249..=250).contains(&struck), "{struck} of 1000");
    }
}
