//! The frame of a dual-queue coupled AQM (RFC 9332 section 2.4): one queue for L4S traffic, one for
//! Classic, a classifier before them, a scheduler behind, and two coupled AQMs on the way out.
//!
//! The AQMs are [`DualPi2`](crate::DualPi2Config) and [`DualCurvyRed`](crate::DualCurvyRedConfig).
//! Classification: RFC 9332 section 2.3, ECT(1) and CE to the L4S queue, or every ECN-capable
//! packet as in 2015 (004-spec section 5.1). Schedulers: RFC 9332 section 4.2.2: strict priority
//! for L4S; the time-shifted FIFO, which serves the longer wait with L4S a shift ahead; weighted,
//! where Classic keeps a small share while both wait. The limit is one for both queues.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Time};

use crate::class::Class;
use crate::error::{require, require_span};
use crate::{
    Backlog, ClassCounters, DropCause, Dropped, Ecn, L4sClassifier, Limit, Packet, QueueDiscipline,
    QueueError,
};

/// Which queue is served while both wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DualScheduler {
    /// Always the L4S queue.
    Strict,
    /// The one whose head has waited longer, L4S ahead by `time_shift_ns`.
    TimeShiftedFifo,
    /// The Classic queue gets `classic_weight` of the bytes.
    Weighted,
}

/// A scheduler at work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scheduler {
    Strict,
    TimeShiftedFifo {
        shift: Time,
    },
    Weighted {
        classic: f64,
        /// Bytes that Classic may send, weighted; grows while L4S is served before it.
        credit: f64,
    },
}

impl Scheduler {
    pub(crate) fn new(
        kind: DualScheduler,
        shift: Time,
        classic_weight: f64,
    ) -> Result<Self, QueueError> {
        require_span("time_shift_ns", shift)?;
        let reason = "a share above 0 and below 1 is allowed";
        let allowed = classic_weight > 0.0 && classic_weight < 1.0;
        require(allowed, "classic_weight", classic_weight, reason)?;
        Ok(match kind {
            DualScheduler::Strict => Self::Strict,
            DualScheduler::TimeShiftedFifo => Self::TimeShiftedFifo { shift },
            DualScheduler::Weighted => Self::Weighted { classic: classic_weight, credit: 0.0 },
        })
    }

    /// Whether L4S is served next, of two queues that both wait.
    fn prefers_l4s<P: Packet>(&mut self, l4s: &Class<P>, classic: &Class<P>, now: Time) -> bool {
        match self {
            Self::Strict => true,
            Self::TimeShiftedFifo { shift } => {
                l4s.head_sojourn(now).saturating_add(*shift) >= classic.head_sojourn(now)
            }
            Self::Weighted { classic: weight, credit } => {
                let size = |class: &Class<P>| class.head_size().map_or(0.0, |s| s.count() as f64);
                let cost = size(classic) * (1.0 - *weight);
                let l4s_first = *credit < cost;
                *credit += if l4s_first { size(l4s) * *weight } else { -cost };
                l4s_first
            }
        }
    }

    /// The link went idle: nobody is owed anything.
    fn reset(&mut self) {
        if let Self::Weighted { credit, .. } = self {
            *credit = 0.0;
        }
    }
}

/// An Ethernet's largest packet.
pub(crate) const MTU: Bytes = Bytes::new(1_500);
/// Packets of the largest size that must wait behind one for a signal (Linux `dualpi2`).
pub(crate) const PACKETS_LEAST: u64 = 2;

/// Whether so little waits behind a packet that a signal would let the link go idle.
pub(crate) fn is_almost_last(left: Backlog, mtu: Bytes) -> bool {
    left.bytes.count() < PACKETS_LEAST.saturating_mul(mtu.count())
}

/// What to do with a packet that is about to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Send,
    Mark,
    Drop(DropCause),
}

/// What an AQM sees of the packet about to leave, and of the queues without it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub(crate) ecn: Ecn,
    pub(crate) sojourn: Time,
    /// Packets that wait in the L4S queue.
    pub(crate) l4s_packets: u64,
    /// How long the head of the Classic queue has waited; zero if nothing waits.
    pub(crate) classic_head: Time,
    /// Whether nothing waits in the Classic queue.
    pub(crate) classic_is_empty: bool,
    /// Whether less than two packets' worth waits in both.
    pub(crate) is_almost_last: bool,
}

/// Two coupled AQMs.
pub(crate) trait CoupledAqm {
    /// A packet arrives.
    fn on_arrival(&mut self, _now: Time) {}
    /// Decides on a packet of the L4S queue, which is ECN-capable.
    fn on_l4s(&mut self, leaving: Leaving) -> Verdict;
    /// Decides on a packet of the Classic queue.
    fn on_classic(&mut self, leaving: Leaving) -> Verdict;
    /// When it wants [`on_timer`](Self::on_timer).
    fn next_event(&self) -> Option<Time> {
        None
    }
    /// Runs its timers up to `now`; `delay` is the longer of the heads' waits at an instant.
    fn on_timer(&mut self, _now: Time, _idle: bool, _delay: impl Fn(Time) -> Time) {}
}

/// A dual queue under the AQMs `A`.
#[derive(Debug)]
pub struct DualQ<P, A> {
    l4s: Class<P>,
    classic: Class<P>,
    classifier: L4sClassifier,
    scheduler: Scheduler,
    limit: Limit,
    /// The largest packet seen, an Ethernet's at least.
    mtu: Bytes,
    aqm: A,
}

impl<P: Packet, A> DualQ<P, A> {
    pub(crate) fn new(
        classifier: L4sClassifier,
        scheduler: Scheduler,
        limit: Limit,
        aqm: A,
    ) -> Self {
        let (l4s, classic) = (Class::new("l4s"), Class::new("classic"));
        Self { l4s, classic, classifier, scheduler, limit, mtu: MTU, aqm }
    }

    fn is_empty(&self) -> bool {
        self.l4s.is_empty() && self.classic.is_empty()
    }
}

impl<P: Packet, A: CoupledAqm> QueueDiscipline<P> for DualQ<P, A> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        self.aqm.on_arrival(now);
        self.mtu = self.mtu.max(packet.size());
        let backlog = self.backlog();
        let is_l4s = self.classifier.is_l4s(packet.ecn());
        let class = if is_l4s { &mut self.l4s } else { &mut self.classic };
        if self.limit.admits(backlog, packet.size()) {
            class.push(packet, now);
        } else {
            class.refuse(packet, DropCause::Overflow, dropped);
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        loop {
            let both = !self.l4s.is_empty() && !self.classic.is_empty();
            let is_l4s = if both {
                self.scheduler.prefers_l4s(&self.l4s, &self.classic, now)
            } else {
                !self.l4s.is_empty()
            };
            let class = if is_l4s { &mut self.l4s } else { &mut self.classic };
            let mut taken = class.pop(now)?;
            let leaving = Leaving {
                ecn: taken.packet.ecn(),
                sojourn: taken.sojourn,
                l4s_packets: self.l4s.backlog().packets,
                classic_head: self.classic.head_sojourn(now),
                classic_is_empty: self.classic.is_empty(),
                is_almost_last: is_almost_last(self.backlog(), self.mtu),
            };
            let class = if is_l4s { &mut self.l4s } else { &mut self.classic };
            let verdict =
                if is_l4s { self.aqm.on_l4s(leaving) } else { self.aqm.on_classic(leaving) };
            match verdict {
                Verdict::Send => {}
                Verdict::Mark => class.mark(&mut taken.packet),
                Verdict::Drop(cause) => {
                    class.drop(taken.packet, cause, dropped);
                    continue;
                }
            }
            let packet = class.leave(taken);
            if self.is_empty() {
                self.scheduler.reset();
            }
            return Some(packet);
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.aqm.next_event()
    }

    fn on_timer(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) {
        let (l4s, classic) = (&self.l4s, &self.classic);
        let delay = |at: Time| l4s.head_sojourn(at).max(classic.head_sojourn(at));
        self.aqm.on_timer(now, l4s.is_empty() && classic.is_empty(), delay);
    }

    fn backlog(&self) -> Backlog {
        [self.l4s.backlog(), self.classic.backlog()].into_iter().sum()
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        vec![self.l4s.counters(), self.classic.counters()]
    }
}
