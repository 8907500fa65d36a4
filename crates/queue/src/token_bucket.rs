//! Token bucket: a shaper that holds packets back, and a policer that drops them.
//!
//! RFC 2697's committed rate and burst, and if given RFC 2698's peak rate and peak burst, each with
//! its bucket (colour-blind, and without a colour between conforming and not): a packet conforms
//! when every bucket holds as many tokens as the packet has bytes. The shaper sends each packet as
//! soon as it conforms, so over any span t at most rate x t + burst leaves, and at most peak rate x
//! t + peak burst; the policer drops what does not conform on arrival and sends the rest at once.
//! Token arithmetic is exact, in bit nanoseconds.
//!
//! Departures from Linux `tbf` and `police`: a packet longer than a burst, which could never
//! conform, is dropped as policed; the peak burst, there the MTU, is given; there is no inner
//! discipline but the FIFO.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate, Time};

use crate::class::Class;
use crate::error::require;
use crate::{
    Amount, Backlog, ClassCounters, DropCause, Dropped, Limit, Packet, QueueDiscipline, QueueError,
};

const NS_PER_S: u128 = 1_000_000_000;

/// Parameters of [`Shaper`] and [`Policer`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenBucketConfig {
    /// What may wait; no limit if absent.
    #[serde(default)]
    pub limit: Option<Amount>,
    /// Rate at which tokens come in.
    pub rate_bps: u64,
    /// Most tokens that the bucket holds.
    pub burst_bytes: u64,
    /// Rate that even a burst does not pass; no such bound if absent.
    #[serde(default)]
    pub peak_rate_bps: Option<u64>,
    /// Most tokens of that rate, together with it: a packet or so.
    #[serde(default)]
    pub peak_burst_bytes: Option<u64>,
}

impl TokenBucketConfig {
    fn buckets(&self) -> Result<Buckets, QueueError> {
        let (rate, burst) = (self.rate_bps, self.burst_bytes);
        require(rate > 0, "rate_bps", rate, "a rate of more than 0 is allowed")?;
        require(burst > 0, "burst_bytes", burst, "a burst of more than 0 is allowed")?;
        let committed = Bucket::full(Rate::from_bit_per_s(rate), Bytes::new(burst));
        let peak = match (self.peak_rate_bps, self.peak_burst_bytes) {
            (None, None) => None,
            (given, depth) => {
                let (peak, depth) = (given.unwrap_or(0), depth.unwrap_or(0));
                let reason = "a rate above rate is allowed, together with peak_burst";
                require(peak > rate, "peak_rate_bps", peak, reason)?;
                let reason = "a burst of more than 0 is allowed, together with peak_rate";
                require(depth > 0, "peak_burst_bytes", depth, reason)?;
                Some(Bucket::full(Rate::from_bit_per_s(peak), Bytes::new(depth)))
            }
        };
        Ok(Buckets { committed, peak })
    }

    pub(crate) fn shaper<P: Packet>(&self, limit: Limit) -> Result<Shaper<P>, QueueError> {
        Ok(Shaper { class: Class::new("all"), limit, buckets: self.buckets()?, held_until: None })
    }

    pub(crate) fn policer<P: Packet>(&self, limit: Limit) -> Result<Policer<P>, QueueError> {
        Ok(Policer { class: Class::new("all"), limit, buckets: self.buckets()? })
    }
}

/// Tokens that come in at a rate, up to a depth; in bit nanoseconds (bits x 10^9).
#[derive(Debug)]
struct Bucket {
    rate: u128,
    depth: u128,
    tokens: u128,
    as_of: Time,
}

fn bit_ns(size: Bytes) -> u128 {
    u128::from(size.count()) * 8 * NS_PER_S
}

impl Bucket {
    fn full(rate: Rate, depth: Bytes) -> Self {
        let (rate, depth) = (rate.as_bit_per_s().into(), bit_ns(depth));
        Self { rate, depth, tokens: depth, as_of: Time::ZERO }
    }

    /// Adds the tokens that came in up to `now`.
    fn fill(&mut self, now: Time) {
        let span = u128::from((now - self.as_of).as_ns());
        self.tokens = (self.tokens + self.rate * span).min(self.depth);
        self.as_of = now;
    }

    /// Whether the bucket could ever hold enough for `size`.
    fn can_hold(&self, size: Bytes) -> bool {
        bit_ns(size) <= self.depth
    }

    /// Whether there are tokens enough for `size`.
    fn has(&self, size: Bytes) -> bool {
        bit_ns(size) <= self.tokens
    }

    /// Takes the tokens for `size`, having enough.
    fn take(&mut self, size: Bytes) {
        self.tokens -= bit_ns(size);
    }

    /// When there will be enough for `size`, having been filled.
    fn enough_at(&self, size: Bytes) -> Time {
        let span = bit_ns(size).saturating_sub(self.tokens).div_ceil(self.rate);
        self.as_of.saturating_add(Time::from_ns(u64::try_from(span).unwrap_or(u64::MAX)))
    }
}

/// The bucket of the committed rate and, if there is one, that of the peak rate.
#[derive(Debug)]
struct Buckets {
    committed: Bucket,
    peak: Option<Bucket>,
}

impl Buckets {
    fn fill(&mut self, now: Time) {
        self.committed.fill(now);
        self.peak.iter_mut().for_each(|peak| peak.fill(now));
    }

    /// Whether both could ever hold enough for `size`.
    fn can_hold(&self, size: Bytes) -> bool {
        self.committed.can_hold(size) && self.peak.iter().all(|peak| peak.can_hold(size))
    }

    /// Takes the tokens for `size` from both if both have enough.
    fn take(&mut self, size: Bytes) -> bool {
        let enough = self.committed.has(size) && self.peak.iter().all(|peak| peak.has(size));
        if enough {
            self.committed.take(size);
            self.peak.iter_mut().for_each(|peak| peak.take(size));
        }
        enough
    }

    /// When there will be enough for `size` in both, having been filled.
    fn enough_at(&self, size: Bytes) -> Time {
        let peak = self.peak.as_ref().map_or(Time::ZERO, |peak| peak.enough_at(size));
        self.committed.enough_at(size).max(peak)
    }
}

/// A token-bucket shaper over a FIFO.
#[derive(Debug)]
pub struct Shaper<P> {
    class: Class<P>,
    limit: Limit,
    buckets: Buckets,
    /// When the head will conform, once it was found not to.
    held_until: Option<Time>,
}

impl<P: Packet> QueueDiscipline<P> for Shaper<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        if !self.buckets.can_hold(packet.size()) {
            self.class.refuse(packet, DropCause::Policed, dropped);
        } else if self.limit.admits(self.class.backlog(), packet.size()) {
            self.class.push(packet, now);
        } else {
            self.class.refuse(packet, DropCause::Overflow, dropped);
        }
    }

    fn dequeue(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        let size = self.class.head_size()?;
        self.buckets.fill(now);
        if self.buckets.take(size) {
            self.held_until = None;
            return self.class.send(now);
        }
        self.held_until = Some(self.buckets.enough_at(size));
        None
    }

    fn next_event(&self) -> Option<Time> {
        self.held_until
    }

    fn on_timer(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) {
        self.held_until = self.held_until.filter(|&until| until > now);
    }

    fn backlog(&self) -> Backlog {
        self.class.backlog()
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        vec![self.class.counters()]
    }
}

/// A token-bucket policer before a FIFO.
#[derive(Debug)]
pub struct Policer<P> {
    class: Class<P>,
    limit: Limit,
    buckets: Buckets,
}

impl<P: Packet> QueueDiscipline<P> for Policer<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        self.buckets.fill(now);
        if !self.limit.admits(self.class.backlog(), packet.size()) {
            self.class.refuse(packet, DropCause::Overflow, dropped);
        } else if self.buckets.take(packet.size()) {
            self.class.push(packet, now);
        } else {
            self.class.refuse(packet, DropCause::Policed, dropped);
        }
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
