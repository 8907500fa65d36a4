//! Phantom queue: marks by a virtual queue that drains a little slower than the link.
//!
//! Alizadeh et al., "Less is More: Trading a Little Bandwidth for Ultra-Low Latency" (HULL, 2012),
//! section 3: a counter of bytes grows with every packet that arrives and drains at a fraction of
//! the link's rate (0.95); while it is above the threshold, packets that arrive are marked. The
//! real queue is a FIFO that need not fill. Departures: packets that are not ECN-capable are
//! neither marked nor dropped for it, and a packet that does not fit the real queue is not counted.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate, Time};

use crate::class::Class;
use crate::error::require;
use crate::{
    Amount, Backlog, ClassCounters, DropCause, Dropped, Limit, Packet, QueueDiscipline, QueueError,
};

const BIT_NS_PER_BYTE: u128 = 8_000_000_000;

/// Parameters of [`Phantom`].
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct PhantomConfig {
    /// What may wait in the real queue; no limit if absent.
    pub limit: Option<Amount>,
    /// Rate of the virtual queue over that of the link.
    pub drain_fraction: f64,
    /// Virtual backlog above which packets are marked.
    pub threshold: Amount,
}

impl Default for PhantomConfig {
    fn default() -> Self {
        Self { limit: None, drain_fraction: 0.95, threshold: Amount::Bytes(3_000) }
    }
}

impl PhantomConfig {
    pub(crate) fn build<P: Packet>(&self, rate: Option<Rate>) -> Result<Phantom<P>, QueueError> {
        let fraction = self.drain_fraction;
        let reason = "a fraction above 0 and up to 1 is allowed";
        require(fraction > 0.0 && fraction <= 1.0, "drain_fraction", fraction, reason)?;
        let rate = rate.ok_or(QueueError::NoRate { key: "discipline" })?;
        let threshold = match self.threshold.limit(Some(rate)) {
            Limit::Bytes(bytes) => bytes,
            other => {
                let reason = "bytes or a time are allowed";
                let (key, value) = ("threshold", format!("{other:?}"));
                return Err(QueueError::Domain { key, value, reason });
            }
        };
        Ok(Phantom {
            class: Class::new("all"),
            limit: self.limit.map_or(Limit::None, |limit| limit.limit(Some(rate))),
            rate: (rate.as_bit_per_s() as f64 * fraction) as u128,
            threshold: bit_ns(threshold),
            level: 0,
            as_of: Time::ZERO,
        })
    }
}

fn bit_ns(size: Bytes) -> u128 {
    u128::from(size.count()) * BIT_NS_PER_BYTE
}

/// A FIFO that marks by a phantom queue.
#[derive(Debug)]
pub struct Phantom<P> {
    class: Class<P>,
    limit: Limit,
    /// Rate of the virtual queue, in bit/s.
    rate: u128,
    /// Virtual backlog and where marking begins, in bit nanoseconds.
    threshold: u128,
    level: u128,
    as_of: Time,
}

impl<P: Packet> QueueDiscipline<P> for Phantom<P> {
    fn enqueue(&mut self, mut packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        if !self.limit.admits(self.class.backlog(), packet.size()) {
            return self.class.refuse(packet, DropCause::Overflow, dropped);
        }
        let span = u128::from((now - self.as_of).as_ns());
        self.level = self.level.saturating_sub(self.rate * span) + bit_ns(packet.size());
        self.as_of = now;
        if self.level > self.threshold && packet.ecn().is_capable() {
            self.class.mark(&mut packet);
        }
        self.class.push(packet, now);
    }

    fn dequeue(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        self.class.send(now)
    }

    fn backlog(&self) -> Backlog {
        self.class.backlog()
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        vec![self.class.counters()]
    }
}
