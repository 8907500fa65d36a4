//! Adaptive RED: RED that tunes itself to a target delay.
//!
//! Floyd, Gummadi and Shenker, "Adaptive RED" (2001): thresholds from the target delay and the
//! link's rate (section 5.2), the weight from the rate (5.3: w = 1 - exp(-1/C)), and every 0.5 s
//! the maximum probability moves by AIMD so that the average stays between 40 and 60 % of the way
//! between the thresholds (section 4, figure 2), within 0.01 to 0.5. Gentle, as the paper asks.
//!
//! Departure from Linux `red adaptative`: thresholds and weight are derived, not given. Per-packet
//! behaviour and its departures are those of [`Red`].

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate, Time};

use crate::error::{require, require_span};
use crate::ns;
use crate::red::{Curve, Unit};
use crate::timer::Periodic;
use crate::{
    Amount, Backlog, ClassCounters, Dropped, Packet, QueueDiscipline, QueueError, Random, Red,
};

/// Bounds of the maximum probability.
const LEAST: f64 = 0.01;
const MOST: f64 = 0.5;
/// Additive increase, at most a quarter of the present value; multiplicative decrease.
const INCREASE: f64 = 0.01;
const DECREASE: f64 = 0.9;
/// Fewest packets that the lower threshold may be.
const LEAST_THRESHOLD: f64 = 5.0;

/// Parameters of [`Ared`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct AredConfig {
    /// What may wait; four times the upper threshold if absent.
    pub limit: Option<Amount>,
    /// Mean queueing delay aimed at.
    #[serde(rename = "target_ns", with = "ns")]
    pub target: Time,
    /// Time between two adaptations.
    #[serde(rename = "interval_ns", with = "ns")]
    pub interval: Time,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Mean size of a packet.
    pub mean_packet_bytes: u64,
}

impl Default for AredConfig {
    fn default() -> Self {
        Self {
            limit: None,
            target: Time::from_ms(5),
            interval: Time::from_ms(500),
            ecn: true,
            mean_packet_bytes: 1_500,
        }
    }
}

impl AredConfig {
    /// The lower threshold in packets.
    fn min_threshold(&self, rate: Rate) -> f64 {
        let packets_per_s = rate.as_bit_per_s() as f64 / 8.0 / self.mean_packet_bytes as f64;
        LEAST_THRESHOLD.max(self.target.as_s() * packets_per_s / 2.0)
    }

    pub(crate) fn limit(&self, rate: Option<Rate>) -> Amount {
        let least = rate.map_or(LEAST_THRESHOLD, |rate| self.min_threshold(rate));
        self.limit.unwrap_or(Amount::Packets((12.0 * least).ceil() as u64))
    }

    pub(crate) fn build<P: Packet>(
        &self,
        rate: Option<Rate>,
        random: Random,
    ) -> Result<Ared<P>, QueueError> {
        require_span("target_ns", self.target)?;
        require_span("interval_ns", self.interval)?;
        let mean = self.mean_packet_bytes;
        require((1..=65_535).contains(&mean), "mean_packet_bytes", mean, "1 to 65535 are allowed")?;
        let rate = rate.ok_or(QueueError::NoRate { key: "discipline" })?;
        let slot = rate.time_for(Bytes::new(mean));
        let min = self.min_threshold(rate);
        let curve = Curve {
            unit: Unit::Packets,
            min,
            max: 3.0 * min,
            max_probability: LEAST,
            weight: 1.0 - (-slot.as_s()).exp(),
            gentle: true,
            ecn: self.ecn,
            hard_drop: false,
            mean_packet: None,
            slot,
        };
        let red = Red::new(curve, self.limit(Some(rate)).limit(Some(rate)), random);
        Ok(Ared { red, timer: Periodic::new(self.interval) })
    }
}

/// Adaptive RED.
#[derive(Debug)]
pub struct Ared<P> {
    red: Red<P>,
    timer: Periodic,
}

impl<P: Packet> Ared<P> {
    fn adapt(&mut self) {
        let average = self.red.average();
        let curve = &mut self.red.curve;
        let at = |share: f64| curve.min + share * (curve.max - curve.min);
        let (low, high) = (at(0.4), at(0.6));
        if average > high && curve.max_probability <= MOST {
            curve.max_probability += INCREASE.min(curve.max_probability / 4.0);
        } else if average < low && curve.max_probability >= LEAST {
            curve.max_probability *= DECREASE;
        }
        curve.max_probability = curve.max_probability.clamp(LEAST, MOST);
    }
}

impl<P: Packet> QueueDiscipline<P> for Ared<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        self.timer.start(now);
        self.red.enqueue(packet, now, dropped);
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        self.red.dequeue(now, dropped)
    }

    fn next_event(&self) -> Option<Time> {
        self.timer.due()
    }

    fn on_timer(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) {
        while self.timer.fire(now).is_some() {
            self.adapt();
        }
        // Idle and at its bottom it would stay there.
        if self.backlog().is_empty() && self.red.curve.max_probability <= LEAST {
            self.timer.stop();
        }
    }

    fn backlog(&self) -> Backlog {
        self.red.backlog()
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        self.red.classes()
    }
}
