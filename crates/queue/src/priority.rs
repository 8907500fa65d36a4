//! Two classes in strict priority, with a statically split buffer.
//!
//! Packets of DSCP CS1 ("scavenger", RFC 3662) wait in the low class and leave only when the high
//! class, which holds everything else, is empty. Each class has half of the limit to itself
//! (000-spec: equal halves), so that neither can take the other's buffer.

use weir_units::Time;

use crate::{Backlog, ClassCounters, Dropped, Dscp, Fifo, Limit, Packet, QueueDiscipline};

/// Strict priority of everything else over CS1; a FIFO within each class.
#[derive(Debug)]
pub struct Priority<P> {
    high: Fifo<P>,
    low: Fifo<P>,
}

impl<P: Packet> Priority<P> {
    /// An empty queue in which each class may hold half of `limit`.
    pub fn new(limit: Limit) -> Self {
        Self {
            high: Fifo::of_class("high", limit.half()),
            low: Fifo::of_class("low", limit.half()),
        }
    }
}

impl<P: Packet> QueueDiscipline<P> for Priority<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        let class = if packet.dscp() == Dscp::CS1 { &mut self.low } else { &mut self.high };
        class.enqueue(packet, now, dropped);
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        self.high.dequeue(now, dropped).or_else(|| self.low.dequeue(now, dropped))
    }

    fn backlog(&self) -> Backlog {
        let (high, low) = (self.high.backlog(), self.low.backlog());
        Backlog { packets: high.packets + low.packets, bytes: high.bytes + low.bytes }
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        vec![self.high.counters(), self.low.counters()]
    }
}
