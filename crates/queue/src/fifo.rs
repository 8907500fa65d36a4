//! First in, first out, with tail drop.
//!
//! Every buffer of the 001-spec testbed is one (section 2.3: drop-tail, 6 MiB). Departures from
//! Linux `bfifo`/`pfifo`: none in what is dropped; a packet that would pass the limit is dropped
//! even when it is the only one.

use std::collections::VecDeque;

use weir_units::{Bytes, Rate, Time};

use crate::{Backlog, ClassCounters, DropCause, Dropped, Packet, QueueDiscipline};

/// How much may wait, the packet being sent not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most so many bytes.
    Bytes(Bytes),
    /// At most so many packets of any size.
    Packets(u64),
    /// No limit.
    None,
}

impl Limit {
    /// The bytes that a link of `rate` sends in `time`: a limit on the delay that the queue adds.
    pub fn of_time(time: Time, rate: Rate) -> Self {
        Self::Bytes(rate.bytes_in(time))
    }

    /// Half of it, rounded down: a statically split buffer.
    pub const fn half(self) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(Bytes::new(bytes.count() / 2)),
            Self::Packets(packets) => Self::Packets(packets / 2),
            Self::None => Self::None,
        }
    }

    fn admits(self, backlog: Backlog, size: Bytes) -> bool {
        match self {
            Self::Bytes(bytes) => backlog.bytes.saturating_add(size) <= bytes,
            Self::Packets(packets) => backlog.packets < packets,
            Self::None => true,
        }
    }
}

/// First in, first out; a packet that would pass the limit is dropped on arrival.
#[derive(Debug)]
pub struct Fifo<P> {
    waiting: VecDeque<(Time, P)>,
    limit: Limit,
    counters: ClassCounters,
}

impl<P: Packet> Fifo<P> {
    /// An empty queue.
    pub fn new(limit: Limit) -> Self {
        Self::of_class("all", limit)
    }

    /// An empty queue that is one class of another discipline.
    pub(crate) fn of_class(name: &'static str, limit: Limit) -> Self {
        Self { waiting: VecDeque::new(), limit, counters: ClassCounters::new(name) }
    }

    pub(crate) fn counters(&self) -> &ClassCounters {
        &self.counters
    }
}

impl<P: Packet> QueueDiscipline<P> for Fifo<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        self.counters.on_offer(&packet);
        if self.limit.admits(self.counters.backlog, packet.size()) {
            self.counters.on_queued(&packet);
            self.waiting.push_back((now, packet));
        } else {
            let cause = DropCause::Overflow;
            self.counters.on_refused(&packet, cause);
            dropped.push(Dropped { packet, cause });
        }
    }

    fn dequeue(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        let (since, packet) = self.waiting.pop_front()?;
        self.counters.on_left(&packet, now - since);
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.counters.backlog
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        vec![&self.counters]
    }
}
