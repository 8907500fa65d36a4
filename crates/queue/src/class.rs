//! The first-in first-out store with its counters that most disciplines are made of.

use std::borrow::Cow;
use std::collections::VecDeque;

use weir_units::{Bytes, Time};

use crate::classify::ByDscp;
use crate::{Backlog, ClassCounters, DropCause, Dropped, Limit, Packet};

/// A packet that was taken out of a [`Class`] and is about to leave or to be dropped.
#[derive(Debug)]
pub(crate) struct Taken<P> {
    pub(crate) packet: P,
    /// How long it waited.
    pub(crate) sojourn: Time,
}

/// One class: packets in order of arrival, and everything that is counted about them.
#[derive(Debug)]
pub(crate) struct Class<P> {
    waiting: VecDeque<(Time, P)>,
    counters: ClassCounters,
}

impl<P: Packet> Class<P> {
    pub(crate) fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self { waiting: VecDeque::new(), counters: ClassCounters::new(name) }
    }

    /// Takes in a packet that arrives at `now`.
    #[inline]
    pub(crate) fn push(&mut self, packet: P, now: Time) {
        self.counters.on_offer(&packet);
        self.counters.on_queued(&packet);
        self.waiting.push_back((now, packet));
    }

    /// Drops a packet on its arrival.
    pub(crate) fn refuse(&mut self, packet: P, cause: DropCause, dropped: &mut Vec<Dropped<P>>) {
        self.counters.on_offer(&packet);
        self.drop(packet, cause, dropped);
    }

    /// Takes the head out; to be followed by [`leave`](Self::leave) or [`drop`](Self::drop).
    #[inline]
    pub(crate) fn pop(&mut self, now: Time) -> Option<Taken<P>> {
        let (since, packet) = self.waiting.pop_front()?;
        self.counters.on_taken(&packet);
        Some(Taken { packet, sojourn: now - since })
    }

    /// Counts a packet that leaves.
    #[inline]
    pub(crate) fn leave(&mut self, taken: Taken<P>) -> P {
        self.counters.on_left(&taken.packet, taken.sojourn);
        taken.packet
    }

    /// Drops a packet that is not, or no longer, waiting.
    pub(crate) fn drop(&mut self, packet: P, cause: DropCause, dropped: &mut Vec<Dropped<P>>) {
        self.counters.on_dropped(&packet, cause);
        dropped.push(Dropped { packet, cause });
    }

    /// Marks a packet.
    pub(crate) fn mark(&mut self, packet: &mut P) {
        debug_assert!(packet.ecn().is_capable(), "a mark needs an ECN-capable packet");
        packet.mark_ce();
        self.counters.marked += 1;
    }

    /// The head goes out unless nothing waits.
    #[inline]
    pub(crate) fn send(&mut self, now: Time) -> Option<P> {
        let taken = self.pop(now)?;
        Some(self.leave(taken))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How long the head has waited; zero if nothing waits.
    pub(crate) fn head_sojourn(&self, now: Time) -> Time {
        self.waiting.front().map_or(Time::ZERO, |(since, _)| now - *since)
    }

    /// Size of the head.
    pub(crate) fn head_size(&self) -> Option<Bytes> {
        self.waiting.front().map(|(_, packet)| packet.size())
    }

    #[inline]
    pub(crate) fn backlog(&self) -> Backlog {
        self.counters.backlog
    }

    pub(crate) fn counters(&self) -> &ClassCounters {
        &self.counters
    }
}

/// Several classes by DSCP, each with an equal part of the limit to itself.
#[derive(Debug)]
pub(crate) struct Classes<P> {
    pub(crate) each: Vec<Class<P>>,
    by_dscp: ByDscp,
    limit: Limit,
}

impl<P: Packet> Classes<P> {
    /// Empty classes, which may hold `limit` together.
    pub(crate) fn new(by_dscp: ByDscp, limit: Limit) -> Self {
        let each: Vec<_> = by_dscp.names().map(Class::new).collect();
        let limit = limit.split(each.len() as u64);
        Self { each, by_dscp, limit }
    }

    /// Takes in or drops a packet that arrives; returns its class if that was empty before and is
    /// not any more.
    pub(crate) fn push(
        &mut self,
        packet: P,
        now: Time,
        dropped: &mut Vec<Dropped<P>>,
    ) -> Option<usize> {
        let index = self.by_dscp.class_of(packet.dscp());
        let class = &mut self.each[index];
        if !self.limit.admits(class.backlog(), packet.size()) {
            class.refuse(packet, DropCause::Overflow, dropped);
            return None;
        }
        let was_empty = class.is_empty();
        class.push(packet, now);
        was_empty.then_some(index)
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.each.iter().map(Class::backlog).sum()
    }

    pub(crate) fn counters(&self) -> Vec<&ClassCounters> {
        self.each.iter().map(Class::counters).collect()
    }
}
