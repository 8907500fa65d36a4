//! A link that serves a queue in virtual time, its timers included.

use weir_queue::{Dropped, QueueDiscipline};
use weir_units::{Bytes, Rate, Time};

use super::TestPacket;

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its transmission began.
    Left,
    Dropped,
}

/// A queue and the link behind it.
pub(crate) struct Link {
    pub(crate) queue: super::Queue,
    rate: Rate,
    free_at: Time,
    /// When something happens next if nothing arrives.
    next: Option<Time>,
    dropped: Vec<Dropped<TestPacket>>,
}

impl Link {
    pub(crate) fn new(queue: super::Queue, rate: Rate) -> Self {
        Self { queue, rate, free_at: Time::ZERO, next: None, dropped: Vec::new() }
    }

    /// Does what happens up to `now`, the arrival of `arriving` last.
    pub(crate) fn step(
        &mut self,
        arriving: Option<TestPacket>,
        now: Time,
        mut fate: impl FnMut(TestPacket, Fate),
    ) -> Option<Time> {
        if self.queue.next_event().is_some_and(|at| at <= now) {
            self.queue.on_timer(now, &mut self.dropped);
        }
        if let Some(packet) = arriving {
            self.queue.enqueue(packet, now, &mut self.dropped);
        }
        let mut held = None;
        if self.free_at <= now && !self.queue.backlog().is_empty() {
            match self.queue.dequeue(now, &mut self.dropped) {
                Some(packet) => {
                    self.free_at = now + self.rate.time_for(Bytes::new(packet.size));
                    fate(packet, Fate::Left);
                }
                None => held = self.queue.next_event(),
            }
        }
        for dropped in self.dropped.drain(..) {
            fate(dropped.packet, Fate::Dropped);
        }
        if self.queue.backlog().is_empty() {
            return self.queue.next_event();
        }
        let start = self.free_at.max(held.unwrap_or(now));
        Some(self.queue.next_event().map_or(start, |event| event.min(start)))
    }

    /// Sends `arrivals`, in order of their time, and drains; `fate` gets each packet and when.
    pub(crate) fn run(
        &mut self,
        arrivals: impl Iterator<Item = TestPacket>,
        fate: impl FnMut(TestPacket, Fate, Time),
    ) {
        self.carry(arrivals, Time::MAX, fate);
    }

    /// The same up to `end`, which all arrivals are before.
    pub(crate) fn run_until(&mut self, arrivals: impl Iterator<Item = TestPacket>, end: Time) {
        self.carry(arrivals, end, |_, _, _| {});
    }

    fn carry(
        &mut self,
        arrivals: impl Iterator<Item = TestPacket>,
        end: Time,
        mut fate: impl FnMut(TestPacket, Fate, Time),
    ) {
        let mut arrivals = arrivals.peekable();
        loop {
            let arrival = arrivals.peek().map(|packet| packet.arrived);
            let rests = end == Time::MAX && arrival.is_none() && self.queue.backlog().is_empty();
            let own = self.next.filter(|_| !rests);
            let Some(now) = [own, arrival].into_iter().flatten().min() else { return };
            if now >= end {
                return;
            }
            let arriving = arrivals.next_if(|packet| packet.arrived <= now);
            self.next = self.step(arriving, now, |packet, how| fate(packet, how, now));
        }
    }
}
