//! RED: random early detection, on the average queue.
//!
//! Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance" (1993):
//! section 4 the average (an EWMA per arrival, decaying while idle as if small packets had
//! arrived), section 7 the uniform spacing of signals by the count since the last. Gentle RED
//! (Floyd 2000) raises the probability from `max_probability` to 1 between the upper threshold and
//! twice it. ECN: RFC 3168 section 5. The defaults are the 20/70 ms setting of 004-spec 5.5 as
//! calibrated there.
//!
//! Departures: above the upper threshold ECN-capable packets are still marked, as Linux does,
//! unless `hard_drop` asks for RFC 3168 section 7's drop. The average is a float, Linux's a scaled
//! integer with tabled idle decay; idle time counts from when the queue ran empty, not from when
//! the last packet had been sent.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate, Time};

use crate::class::Class;
use crate::error::{require, require_probability};
use crate::{
    Amount, Backlog, ClassCounters, DropCause, Dropped, Limit, Packet, QueueDiscipline, QueueError,
    Random,
};

/// Parameters of [`Red`].
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedConfig {
    /// What may wait; four times the upper threshold if absent.
    pub limit: Option<Amount>,
    /// Average below which nothing is signalled.
    pub min_threshold: Amount,
    /// Average from which every packet is (with `gentle`: the probability is `max_probability`).
    pub max_threshold: Amount,
    /// Probability as the average reaches the upper threshold.
    pub max_probability: f64,
    /// Weight w of a sample in the average.
    pub weight: f64,
    /// Raise the probability to 1 between once and twice the upper threshold.
    pub gentle: bool,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Drop ECN-capable packets too where every packet is signalled.
    pub hard_drop: bool,
    /// Scale the probability by the packet's size over the mean size.
    pub byte_mode: bool,
    /// Mean size of a packet, for `byte_mode` and for the decay while idle.
    pub mean_packet_bytes: u64,
}

impl Default for RedConfig {
    fn default() -> Self {
        Self {
            limit: None,
            min_threshold: Amount::Ns(20_000_000),
            max_threshold: Amount::Ns(70_000_000),
            max_probability: 0.006,
            weight: 1.0 / 512.0,
            gentle: false,
            ecn: true,
            hard_drop: false,
            byte_mode: false,
            mean_packet_bytes: 1_500,
        }
    }
}

impl RedConfig {
    pub(crate) fn limit(&self) -> Amount {
        self.limit.unwrap_or(match self.max_threshold {
            Amount::Bytes(n) => Amount::Bytes(n.saturating_mul(4)),
            Amount::Packets(n) => Amount::Packets(n.saturating_mul(4)),
            Amount::Ns(n) => Amount::Ns(n.saturating_mul(4)),
        })
    }

    pub(crate) fn build<P: Packet>(
        &self,
        rate: Option<Rate>,
        random: Random,
    ) -> Result<Red<P>, QueueError> {
        require_probability("max_probability", self.max_probability)?;
        require_probability("weight", self.weight)?;
        let mean = self.mean_packet_bytes;
        require((1..=65_535).contains(&mean), "mean_packet_bytes", mean, "1 to 65535 are allowed")?;
        let rate = rate.ok_or(QueueError::NoRate { key: "discipline" })?;
        let (unit, min) = threshold("min_threshold", self.min_threshold, rate)?;
        let (max_unit, max) = threshold("max_threshold", self.max_threshold, rate)?;
        let shown = format!("{:?}", self.max_threshold);
        require(unit == max_unit, "max_threshold", &shown, "both thresholds have the same unit")?;
        require(max > min, "max_threshold", &shown, "it is above min_threshold")?;
        let curve = Curve {
            unit,
            min,
            max,
            max_probability: self.max_probability,
            weight: self.weight,
            gentle: self.gentle,
            ecn: self.ecn,
            hard_drop: self.hard_drop,
            mean_packet: self.byte_mode.then_some(mean as f64),
            slot: rate.time_for(Bytes::new(mean)),
        };
        Ok(Red::new(curve, self.limit().limit(Some(rate)), random))
    }
}

fn threshold(key: &'static str, amount: Amount, rate: Rate) -> Result<(Unit, f64), QueueError> {
    let (unit, value) = match amount.limit(Some(rate)) {
        Limit::Packets(packets) => (Unit::Packets, packets as f64),
        Limit::Bytes(bytes) => (Unit::Bytes, bytes.count() as f64),
        Limit::None => (Unit::Bytes, 0.0),
    };
    require(value > 0.0, key, format!("{amount:?}"), "a threshold of more than 0 is allowed")?;
    Ok((unit, value))
}

/// What the average is an average of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Packets,
}

/// From the average to what is done.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) unit: Unit,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) max_probability: f64,
    pub(crate) weight: f64,
    pub(crate) gentle: bool,
    pub(crate) ecn: bool,
    pub(crate) hard_drop: bool,
    /// Mean size of a packet in bytes if the probability depends on size.
    pub(crate) mean_packet: Option<f64>,
    /// Time to send a packet of mean size.
    pub(crate) slot: Time,
}

/// How strongly to signal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Region {
    None,
    With(f64),
    Always,
}

impl Curve {
    fn region(&self, average: f64) -> Region {
        if average < self.min {
            Region::None
        } else if average < self.max {
            Region::With(self.max_probability * (average - self.min) / (self.max - self.min))
        } else if self.gentle && average < 2.0 * self.max {
            let share = (average - self.max) / self.max;
            Region::With(self.max_probability + (1.0 - self.max_probability) * share)
        } else {
            Region::Always
        }
    }
}

/// Random early detection.
#[derive(Debug)]
pub struct Red<P> {
    class: Class<P>,
    pub(crate) curve: Curve,
    limit: Limit,
    random: Random,
    average: f64,
    /// Packets since the last signal; `None` below the lower threshold.
    count: Option<f64>,
    idle_since: Time,
}

impl<P: Packet> Red<P> {
    pub(crate) fn new(curve: Curve, limit: Limit, random: Random) -> Self {
        let class = Class::new("all");
        let (average, idle_since) = (0.0, Time::ZERO);
        Self { class, curve, limit, random, average, count: None, idle_since }
    }

    /// The average queue, in the unit of the thresholds, as of the last arrival.
    pub fn average(&self) -> f64 {
        self.average
    }

    fn sample(&mut self, now: Time) {
        let backlog = self.class.backlog();
        if backlog.is_empty() {
            let slots = (now - self.idle_since).as_s() / self.curve.slot.as_s();
            self.average *= (1.0 - self.curve.weight).powf(slots);
        }
        let queued = match self.curve.unit {
            Unit::Bytes => backlog.bytes.count() as f64,
            Unit::Packets => backlog.packets as f64,
        };
        self.average += self.curve.weight * (queued - self.average);
    }

    /// Whether to signal on a packet of `size`, and whether a mark will do.
    fn signal(&mut self, size: Bytes) -> Option<bool> {
        match self.curve.region(self.average) {
            Region::None => {
                self.count = None;
                None
            }
            Region::Always => {
                self.count = Some(0.0);
                Some(!self.curve.hard_drop)
            }
            Region::With(mut probability) => {
                let count = self.count.map_or(0.0, |count| count + 1.0);
                self.count = Some(count);
                if let Some(mean) = self.curve.mean_packet {
                    probability *= size.count() as f64 / mean;
                }
                // 1993 section 7: pa = pb / (1 - count pb), certain once the count is that high.
                let rest = 1.0 - count * probability;
                let spaced = if rest > 0.0 { probability / rest } else { 1.0 };
                let struck = self.random.chance(spaced);
                if struck {
                    self.count = Some(0.0);
                }
                struck.then_some(true)
            }
        }
    }
}

impl<P: Packet> QueueDiscipline<P> for Red<P> {
    fn enqueue(&mut self, mut packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        self.sample(now);
        if !self.limit.admits(self.class.backlog(), packet.size()) {
            return self.class.refuse(packet, DropCause::Overflow, dropped);
        }
        if let Some(mark_will_do) = self.signal(packet.size()) {
            let capable = self.curve.ecn && packet.ecn().is_capable();
            if !(capable && mark_will_do) {
                let cause = if capable { DropCause::Overload } else { DropCause::Aqm };
                return self.class.refuse(packet, cause, dropped);
            }
            self.class.mark(&mut packet);
        }
        self.class.push(packet, now);
    }

    fn dequeue(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        let packet = self.class.send(now);
        if packet.is_some() && self.class.is_empty() {
            self.idle_since = now;
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.class.backlog()
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        vec![self.class.counters()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_is_linear_then_gentle_then_certain() {
        let curve = |gentle| Curve {
            unit: Unit::Packets,
            min: 10.0,
            max: 30.0,
            max_probability: 0.1,
            weight: 0.5,
            gentle,
            ecn: false,
            hard_drop: false,
            mean_packet: None,
            slot: Time::from_us(1),
        };
        assert_eq!(curve(false).region(9.9), Region::None);
        assert_eq!(curve(false).region(20.0), Region::With(0.05));
        assert_eq!(curve(false).region(30.0), Region::Always);
        assert_eq!(curve(true).region(45.0), Region::With(0.55));
        assert_eq!(curve(true).region(60.0), Region::Always);
    }
}
