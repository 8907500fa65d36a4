//! One station's side of the channel: its backoff, its queues, and what its frames have met.

use weir_queue::{AnyQueue, Packet, QueueDiscipline, Random};
use weir_units::{Rate, Time};

use crate::{AirCounters, Loss, PipeCounters};

/// Packets from one station to another.
pub(crate) struct Port<P> {
    pub(crate) radio: usize,
    pub(crate) rate: Rate,
    pub(crate) loss: Loss,
    pub(crate) queue: AnyQueue<P>,
    /// The queue said that it lets nothing go before.
    pub(crate) held_until: Time,
    /// Packets sent or nanoseconds of airtime used, whichever is shared out; a port that becomes
    /// busy begins with what those have that are.
    pub(crate) served: u64,
    pub(crate) counters: PipeCounters,
    pub(crate) air: AirCounters,
}

impl<P: Packet> Port<P> {
    pub(crate) fn is_ready(&self, now: Time) -> bool {
        !self.queue.backlog().is_empty() && self.held_until <= now
    }

    /// Runs the queue's timers; whether there were any.
    pub(crate) fn run_timers(
        &mut self,
        at: Time,
        dropped: &mut Vec<weir_queue::Dropped<P>>,
    ) -> bool {
        let is_due = self.queue.next_event().is_some_and(|due| due <= at);
        if is_due {
            self.queue.on_timer(at, dropped);
            self.held_until = Time::ZERO;
        }
        is_due
    }
}

/// The frame that a station contends for.
pub(crate) struct Head<P> {
    pub(crate) port: usize,
    pub(crate) packet: P,
    pub(crate) failures: u32,
}

/// A station: it contends as one for all its ports.
pub(crate) struct Radio<P> {
    pub(crate) ports: Vec<usize>,
    pub(crate) head: Option<Head<P>>,
    /// The contention window: backoff is drawn from 0 to this.
    pub(crate) window: u32,
    /// Idle slots still to count, from when the channel opens; `None` once they are counted and
    /// nothing was sent.
    pub(crate) backoff: Option<u64>,
    /// What the port chosen last had been served.
    pub(crate) served: u64,
    pub(crate) random: Random,
}

impl<P> Radio<P> {
    pub(crate) fn draw(&mut self) {
        self.backoff = Some(self.random.up_to(self.window.into()));
    }
}
