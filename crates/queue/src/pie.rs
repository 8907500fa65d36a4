//! PIE: proportional integral controller enhanced (RFC 8033).
//!
//! Section 4.1 random dropping on arrival, with the two safeguards; 4.2 the control law and its
//! auto-tuning by the present probability; 4.3 the queueing delay by timestamps (the head's
//! sojourn) or from the departure rate (5.2, over 2^14 bytes with weight 1/4); 4.4 the burst
//! allowance; 5.1 marking ECN-capable packets up to a probability of 10 %; 5.3 turning itself off
//! and on; 5.4 derandomisation (accumulated probability 0.85 to 8.5); 5.5 steps of at most 2 % from
//! 10 % on. The timer runs when the queue is idle until nothing would change any more.
//!
//! `variant` follows Linux instead: `linux` (from 5.1) adds 2 % where the delay is above 250 ms and
//! decays by 1/64 instead of 2 %; `linux-3.18`, the kernel of 004-spec section 5.6, also scales by
//! 8 below 1 % and by 2 below 10 % only. That kernel's other settings are parameters: target 20 ms,
//! update_interval 30 ms, max_burst 100 ms, derandomisation off. Departures: probabilities are
//! floats; with timestamps the delay is the head's at the update, not that of the last packet that
//! left; the departure rate is measured as in the RFC, not with Linux's weight of 1/8; the burst
//! allowance shrinks per update, as in the RFC, in every variant.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Time};

use crate::class::Class;
use crate::error::{require, require_positive, require_span};
use crate::ns;
use crate::timer::Periodic;
use crate::{
    Amount, Backlog, ClassCounters, DropCause, Dropped, Limit, Packet, QueueDiscipline, QueueError,
    Random,
};

const MEAN_PACKET: Bytes = Bytes::new(1_500);
/// Measurement cycle of the departure rate, and its weight in the average.
const DEPARTURES: Bytes = Bytes::new(1 << 14);
const DEPARTURE_WEIGHT: f64 = 0.25;
/// Accumulated probability below which nothing is dropped, and at which something is.
const ACCUMULATED_LEAST: f64 = 0.85;
const ACCUMULATED_MOST: f64 = 8.5;

/// Whose constants to use where they differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum PieVariant {
    /// RFC 8033.
    #[default]
    #[serde(rename = "rfc8033")]
    Rfc8033,
    /// Linux from 5.1 on.
    #[serde(rename = "linux")]
    Linux,
    /// Linux 3.18.
    #[serde(rename = "linux-3.18")]
    Linux318,
}

/// How the queueing delay is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DelayEstimate {
    /// How long the head has waited.
    #[default]
    Timestamp,
    /// Backlog over the measured departure rate.
    DepartureRate,
}

/// Parameters of [`Pie`].
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct PieConfig {
    /// What may wait; 1000 packets if absent.
    pub limit: Option<Amount>,
    /// Queueing delay aimed at (QDELAY_REF).
    #[serde(rename = "target_ns", with = "ns")]
    pub target: Time,
    /// Time between two updates of the probability (T_UPDATE).
    #[serde(rename = "update_interval_ns", with = "ns")]
    pub update_interval: Time,
    /// Integral gain, in 1/s.
    #[serde(rename = "alpha_per_s")]
    pub alpha: f64,
    /// Proportional gain, in 1/s.
    #[serde(rename = "beta_per_s")]
    pub beta: f64,
    /// How long a burst passes untouched (MAX_BURST).
    #[serde(rename = "max_burst_ns", with = "ns")]
    pub max_burst: Time,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Probability above which ECN-capable packets are dropped too.
    pub max_mark_probability: f64,
    /// Scale the probability by the packet's size over 1500 bytes.
    pub byte_mode: bool,
    /// Space the drops by accumulated probability.
    pub derandomize: bool,
    /// Start only when a third of the limit waits, stop when all is quiet.
    pub activity_gate: bool,
    /// How the queueing delay is known.
    pub delay_estimate: DelayEstimate,
    /// Whose constants to use.
    pub variant: PieVariant,
}

impl Default for PieConfig {
    fn default() -> Self {
        Self {
            limit: None,
            target: Time::from_ms(15),
            update_interval: Time::from_ms(15),
            alpha: 0.125,
            beta: 1.25,
            max_burst: Time::from_ms(150),
            ecn: true,
            max_mark_probability: 0.1,
            byte_mode: false,
            derandomize: true,
            activity_gate: false,
            delay_estimate: DelayEstimate::Timestamp,
            variant: PieVariant::Rfc8033,
        }
    }
}

impl PieConfig {
    pub(crate) fn limit(&self) -> Amount {
        self.limit.unwrap_or(Amount::Packets(1_000))
    }

    pub(crate) fn build<P: Packet>(
        &self,
        limit: Limit,
        random: Random,
    ) -> Result<Pie<P>, QueueError> {
        require_span("target_ns", self.target)?;
        require_span("update_interval_ns", self.update_interval)?;
        require_positive("alpha_per_s", self.alpha)?;
        require_positive("beta_per_s", self.beta)?;
        let most = self.max_mark_probability;
        let reason = "a probability from 0 to 1 is allowed";
        require((0.0..=1.0).contains(&most), "max_mark_probability", most, reason)?;
        let gated = self.activity_gate;
        let reason = "it needs a limit in packets or bytes";
        require(!gated || limit != Limit::None, "activity_gate", gated, reason)?;
        Ok(Pie {
            class: Class::new("all"),
            limit,
            config: self.clone(),
            random,
            timer: Periodic::new(self.update_interval),
            probability: 0.0,
            accumulated: 0.0,
            delay_before: Time::ZERO,
            burst: self.max_burst,
            active: !gated,
            departures: Departures::default(),
        })
    }
}

/// The departure rate (RFC 8033 section 5.2).
#[derive(Debug, Default)]
struct Departures {
    /// Since when, and how much since, if a cycle is under way.
    cycle: Option<(Time, Bytes)>,
    /// Mean time for [`DEPARTURES`], in seconds; zero before the first cycle.
    mean_s: f64,
}

impl Departures {
    fn on_departure(&mut self, size: Bytes, backlog: Bytes, now: Time) {
        if self.cycle.is_none() && backlog >= DEPARTURES {
            self.cycle = Some((now, Bytes::ZERO));
            return;
        }
        let Some((since, bytes)) = &mut self.cycle else { return };
        *bytes += size;
        if *bytes >= DEPARTURES {
            let took = (now - *since).as_s();
            let first = self.mean_s == 0.0;
            let weight = if first { 1.0 } else { DEPARTURE_WEIGHT };
            self.mean_s += weight * (took - self.mean_s);
            self.cycle = None;
        }
    }

    fn delay(&self, backlog: Bytes) -> Time {
        Time::from_s(backlog.count() as f64 * self.mean_s / DEPARTURES.count() as f64)
    }
}

/// Proportional integral controller enhanced.
#[derive(Debug)]
pub struct Pie<P> {
    class: Class<P>,
    limit: Limit,
    config: PieConfig,
    random: Random,
    timer: Periodic,
    probability: f64,
    accumulated: f64,
    /// As of the last update.
    delay_before: Time,
    burst: Time,
    active: bool,
    departures: Departures,
}

impl<P: Packet> Pie<P> {
    /// The present probability of a signal.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// Whether a packet of `size` that arrives is to be signalled on (RFC 8033 section 4.1).
    fn strikes(&mut self, size: Bytes) -> bool {
        let low = self.delay_before.as_ns() < self.config.target.as_ns() / 2;
        let small = self.class.backlog().bytes.count() <= 2 * MEAN_PACKET.count();
        if !self.active || self.burst > Time::ZERO || low && self.probability < 0.2 || small {
            return false;
        }
        let mut probability = self.probability;
        if self.config.byte_mode {
            let share = size.count() as f64 / MEAN_PACKET.count() as f64;
            probability = (probability * share).min(1.0);
        }
        if !self.config.derandomize {
            return self.random.chance(probability);
        }
        if probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += probability;
        let struck = self.accumulated >= ACCUMULATED_LEAST
            && (self.accumulated >= ACCUMULATED_MOST || self.random.chance(probability));
        if struck {
            self.accumulated = 0.0;
        }
        struck
    }

    fn delay(&self, now: Time) -> Time {
        match self.config.delay_estimate {
            DelayEstimate::Timestamp => self.class.head_sojourn(now),
            DelayEstimate::DepartureRate => self.departures.delay(self.class.backlog().bytes),
        }
    }

    /// RFC 8033 section 4.2.
    fn update(&mut self, now: Time) {
        let (config, delay) = (&self.config, self.delay(now));
        let linux = config.variant != PieVariant::Rfc8033;
        let target = config.target;
        let mut change = config.alpha * (delay.as_s() - target.as_s())
            + config.beta * (delay.as_s() - self.delay_before.as_s());
        change /= tuning(config.variant, self.probability);
        if self.probability >= 0.1 {
            change = change.min(0.02);
        }
        if linux && delay > Time::from_ms(250) {
            change += 0.02;
        }
        self.probability += change;
        if delay == Time::ZERO && self.delay_before == Time::ZERO {
            let is_rfc_like = config.variant != PieVariant::Linux;
            self.probability *= if is_rfc_like { 0.98 } else { 1.0 - 1.0 / 64.0 };
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.burst = self.burst.saturating_sub(config.update_interval);
        let is_low = |delay: Time| delay.as_ns() < target.as_ns() / 2;
        if self.probability == 0.0 && is_low(delay) && is_low(self.delay_before) {
            self.burst = config.max_burst;
        }
        let quiet = self.probability == 0.0 && delay == Time::ZERO;
        if config.activity_gate && quiet && self.delay_before == Time::ZERO {
            self.active = false;
        }
        self.delay_before = delay;
    }

    /// Whether an update of the idle queue would change nothing.
    fn at_rest(&self) -> bool {
        self.class.is_empty()
            && self.probability == 0.0
            && self.delay_before == Time::ZERO
            && self.burst == self.config.max_burst
    }

    /// Turns PIE on when a third of the limit waits (RFC 8033 section 5.3).
    fn wake(&mut self) {
        let backlog = self.class.backlog();
        let is_third = match self.limit {
            Limit::Bytes(limit) => backlog.bytes.count() >= limit.count() / 3,
            Limit::Packets(limit) => backlog.packets >= limit / 3,
            Limit::None => false,
        };
        if !self.active && is_third {
            self.active = true;
            (self.probability, self.accumulated) = (0.0, 0.0);
            self.delay_before = Time::ZERO;
            self.burst = self.config.max_burst;
        }
    }
}

/// By what the change of the probability is divided where the probability is small.
fn tuning(variant: PieVariant, probability: f64) -> f64 {
    const RFC: [(f64, f64); 6] =
        [(1e-6, 2_048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
    const LINUX_318: [(f64, f64); 2] = [(1e-2, 8.0), (1e-1, 2.0)];
    let steps = if variant == PieVariant::Linux318 { &LINUX_318[..] } else { &RFC[..] };
    steps.iter().find(|(below, _)| probability < *below).map_or(1.0, |(_, by)| *by)
}

impl<P: Packet> QueueDiscipline<P> for Pie<P> {
    fn enqueue(&mut self, mut packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        self.timer.start(now);
        if !self.limit.admits(self.class.backlog(), packet.size()) {
            self.accumulated = 0.0;
            return self.class.refuse(packet, DropCause::Overflow, dropped);
        }
        if self.strikes(packet.size()) {
            let capable = self.config.ecn && packet.ecn().is_capable();
            if !capable || self.probability > self.config.max_mark_probability {
                let cause = if capable { DropCause::Overload } else { DropCause::Aqm };
                return self.class.refuse(packet, cause, dropped);
            }
            self.class.mark(&mut packet);
        }
        self.class.push(packet, now);
        self.wake();
    }

    fn dequeue(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        let packet = self.class.send(now)?;
        self.departures.on_departure(packet.size(), self.class.backlog().bytes, now);
        Some(packet)
    }

    fn next_event(&self) -> Option<Time> {
        self.timer.due()
    }

    fn on_timer(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) {
        while let Some(due) = self.timer.fire(now) {
            self.update(due);
        }
        if self.at_rest() {
            self.timer.stop();
        }
    }

    fn backlog(&self) -> Backlog {
        self.class.backlog()
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        vec![self.class.counters()]
    }
}
