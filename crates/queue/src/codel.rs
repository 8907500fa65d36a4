//! CoDel: controlled delay (RFC 8289).
//!
//! Section 3.1 the estimator: sojourn above the target for a whole interval while more than one MTU
//! waits; 3.3 and 5.5 the control loop: signals interval / sqrt(count) apart, the count resumed
//! from the last dropping state if that ended less than 16 intervals ago. ECN-capable packets are
//! marked instead of dropped (RFC 3168 section 5).
//!
//! As Linux, beyond the RFC: `ce_threshold` marks every ECN-capable packet that waited longer.
//! Departures from Linux: the square root is exact, not Newton's approximation; the MTU is 1500
//! bytes, not the largest packet seen.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Time};

use crate::class::{Class, Taken};
use crate::error::require_span;
use crate::ns;
use crate::{
    Amount, Backlog, ClassCounters, DropCause, Dropped, Limit, Packet, QueueDiscipline, QueueError,
};

const MTU: Bytes = Bytes::new(1_500);
/// How many intervals a dropping state is remembered.
const MEMORY: u64 = 16;

/// Parameters of [`Codel`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CodelConfig {
    /// What may wait; 1000 packets if absent.
    pub limit: Option<Amount>,
    /// Standing delay that is acceptable.
    #[serde(rename = "target_ns", with = "ns")]
    pub target: Time,
    /// How long it may be exceeded: a worst-case round trip.
    #[serde(rename = "interval_ns", with = "ns")]
    pub interval: Time,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Mark every ECN-capable packet that waited longer; never if absent.
    #[serde(rename = "ce_threshold_ns", with = "ns")]
    pub ce_threshold: Time,
}

impl Default for CodelConfig {
    fn default() -> Self {
        Self {
            limit: None,
            target: Time::from_ms(5),
            interval: Time::from_ms(100),
            ecn: true,
            ce_threshold: Time::MAX,
        }
    }
}

impl CodelConfig {
    pub(crate) fn limit(&self) -> Amount {
        self.limit.unwrap_or(Amount::Packets(1_000))
    }

    pub(crate) fn build<P: Packet>(&self, limit: Limit) -> Result<Codel<P>, QueueError> {
        let law = Law::new(self.target, self.interval, self.ecn, self.ce_threshold)?;
        Ok(Codel { class: Class::new("all"), limit, law, state: State::default() })
    }
}

/// The parameters of the control law.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Law {
    target: Time,
    interval: Time,
    ecn: bool,
    ce_threshold: Time,
}

impl Law {
    pub(crate) fn new(
        target: Time,
        interval: Time,
        ecn: bool,
        ce_threshold: Time,
    ) -> Result<Self, QueueError> {
        require_span("target_ns", target)?;
        require_span("interval_ns", interval)?;
        Ok(Self { target, interval, ecn, ce_threshold })
    }

    /// The next signal after `from` (RFC 8289 section 5.6).
    fn after(&self, from: Time, count: u32) -> Time {
        let gap = self.interval.as_ns() as f64 / f64::from(count).sqrt();
        from.saturating_add(Time::from_ns(gap as u64))
    }
}

/// A queue under CoDel's control: a whole discipline's or one flow's.
pub(crate) trait Controlled<P> {
    fn pop(&mut self, now: Time) -> Option<Taken<P>>;
    fn bytes(&self) -> Bytes;
    fn mark(&mut self, packet: &mut P);
    fn drop(&mut self, packet: P);
}

/// The control state of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// When the delay will have been too long for an interval; `None` while it is not.
    signal_from: Option<Time>,
    dropping: bool,
    next: Time,
    count: u32,
    count_before: u32,
}

impl State {
    /// The packet to send from `queue`, after dropping what is to be dropped.
    pub(crate) fn dequeue<P: Packet>(
        &mut self,
        queue: &mut impl Controlled<P>,
        law: &Law,
        now: Time,
    ) -> Option<Taken<P>> {
        let mut head = queue.pop(now);
        let mut too_long = self.is_too_long(head.as_ref(), queue.bytes(), law, now);
        let mut marked = false;
        if self.dropping {
            self.dropping = too_long;
            while self.dropping && now >= self.next && !marked {
                self.count = self.count.saturating_add(1);
                (head, marked) = signal(queue, law, head);
                if !marked {
                    head = queue.pop(now);
                    too_long = self.is_too_long(head.as_ref(), queue.bytes(), law, now);
                    self.dropping = too_long;
                }
                if self.dropping {
                    self.next = law.after(self.next, self.count);
                }
            }
        } else if too_long {
            (head, marked) = signal(queue, law, head);
            if !marked {
                head = queue.pop(now);
                self.is_too_long(head.as_ref(), queue.bytes(), law, now);
            }
            self.enter(law, now);
        }
        head.map(|mut taken| {
            if !marked && taken.sojourn > law.ce_threshold && taken.packet.ecn().is_capable() {
                queue.mark(&mut taken.packet);
            }
            taken
        })
    }

    /// Whether the delay has been above the target for an interval (RFC 8289 section 5.6).
    fn is_too_long<P: Packet>(
        &mut self,
        head: Option<&Taken<P>>,
        left: Bytes,
        law: &Law,
        now: Time,
    ) -> bool {
        if head.is_none_or(|head| head.sojourn < law.target) || left <= MTU {
            self.signal_from = None;
            return false;
        }
        now >= *self.signal_from.get_or_insert(now.saturating_add(law.interval))
    }

    /// Begins to drop, at the rate that held the queue last time if that is not long ago.
    fn enter(&mut self, law: &Law, now: Time) {
        let recently = Time::from_ns(law.interval.as_ns().saturating_mul(MEMORY));
        let since = self.count.wrapping_sub(self.count_before);
        let resumes = since > 1 && now.saturating_sub(self.next) < recently;
        self.count = if resumes { since } else { 1 };
        self.count_before = self.count;
        self.dropping = true;
        self.next = law.after(now, self.count);
    }
}

/// Marks the head, which then stays, or drops it.
fn signal<P: Packet>(
    queue: &mut impl Controlled<P>,
    law: &Law,
    head: Option<Taken<P>>,
) -> (Option<Taken<P>>, bool) {
    let Some(mut taken) = head else { return (None, false) };
    if law.ecn && taken.packet.ecn().is_capable() {
        queue.mark(&mut taken.packet);
        return (Some(taken), true);
    }
    queue.drop(taken.packet);
    (None, false)
}

/// Controlled delay.
#[derive(Debug)]
pub struct Codel<P> {
    class: Class<P>,
    limit: Limit,
    law: Law,
    state: State,
}

/// The whole queue.
struct Whole<'a, P> {
    class: &'a mut Class<P>,
    dropped: &'a mut Vec<Dropped<P>>,
}

impl<P: Packet> Controlled<P> for Whole<'_, P> {
    fn pop(&mut self, now: Time) -> Option<Taken<P>> {
        self.class.pop(now)
    }

    fn bytes(&self) -> Bytes {
        self.class.backlog().bytes
    }

    fn mark(&mut self, packet: &mut P) {
        self.class.mark(packet);
    }

    fn drop(&mut self, packet: P) {
        self.class.drop(packet, DropCause::Aqm, self.dropped);
    }
}

impl<P: Packet> QueueDiscipline<P> for Codel<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        if self.limit.admits(self.class.backlog(), packet.size()) {
            self.class.push(packet, now);
        } else {
            self.class.refuse(packet, DropCause::Overflow, dropped);
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        let mut whole = Whole { class: &mut self.class, dropped };
        let taken = self.state.dequeue(&mut whole, &self.law, now)?;
        Some(self.class.leave(taken))
    }

    fn backlog(&self) -> Backlog {
        self.class.backlog()
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        vec![self.class.counters()]
    }
}
