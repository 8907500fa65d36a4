//! Any discipline in one type, for those who hold many and nearly always the same.

use weir_units::Time;

use crate::{Backlog, ClassCounters, Dropped, Fifo, Packet, QueueDiscipline};

/// A discipline that was chosen at run time. Nearly all links have a FIFO, whose methods are called
/// directly: by way of a table they would cost a packet simulator a tenth of its speed.
#[expect(clippy::large_enum_variant, reason = "nearly all are the large one")]
pub enum AnyQueue<P> {
    /// First in, first out.
    Fifo(Fifo<P>),
    /// Every other.
    Other(Box<dyn QueueDiscipline<P> + Send>),
}

impl<P: Packet> AnyQueue<P> {
    /// Any discipline but the FIFO.
    pub(crate) fn other(queue: impl QueueDiscipline<P> + Send + 'static) -> Self {
        Self::Other(Box::new(queue))
    }
}

impl<P: Packet> QueueDiscipline<P> for AnyQueue<P> {
    #[inline]
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        match self {
            Self::Fifo(queue) => queue.enqueue(packet, now, dropped),
            Self::Other(queue) => queue.enqueue(packet, now, dropped),
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        match self {
            Self::Fifo(queue) => queue.dequeue(now, dropped),
            Self::Other(queue) => queue.dequeue(now, dropped),
        }
    }

    #[inline]
    fn next_event(&self) -> Option<Time> {
        match self {
            Self::Fifo(queue) => queue.next_event(),
            Self::Other(queue) => queue.next_event(),
        }
    }

    fn on_timer(&mut self, now: Time, dropped: &mut Vec<Dropped<P>>) {
        match self {
            Self::Fifo(queue) => queue.on_timer(now, dropped),
            Self::Other(queue) => queue.on_timer(now, dropped),
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        match self {
            Self::Fifo(queue) => queue.backlog(),
            Self::Other(queue) => queue.backlog(),
        }
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        match self {
            Self::Fifo(queue) => queue.classes(),
            Self::Other(queue) => queue.classes(),
        }
    }
}
