//! One direction of a link without its clock: loss, queue, rate server, delay line.

use std::collections::VecDeque;

use weir_queue::{AnyQueue, Backlog, Dropped, Packet, QueueDiscipline, Random};
use weir_units::{Bytes, Rate, Time};

use crate::Loss;
use crate::server::Server;

/// Constant one-way delay with uniform jitter; the order of packets is kept.
#[derive(Clone, Debug)]
pub struct Delay {
    constant: Time,
    jitter: Time,
    random: Random,
}

impl Delay {
    /// Delays each packet by `constant` plus a uniform draw from −`jitter` to +`jitter`, at least
    /// zero, and never past the packet before it.
    pub const fn new(constant: Time, jitter: Time, random: Random) -> Self {
        Self { constant, jitter, random }
    }

    fn draw(&mut self) -> Time {
        if self.jitter == Time::ZERO {
            return self.constant;
        }
        let jitter = self.jitter.as_ns();
        let shift = Time::from_ns(self.random.up_to(jitter.saturating_mul(2)));
        self.constant.saturating_add(shift).saturating_sub(self.jitter)
    }

    fn least(&self) -> Time {
        self.constant.saturating_sub(self.jitter)
    }
}

/// What a pipe has counted. Always `packets_in` = released + lost + dropped by the queue + waiting
/// + being delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipeCounters {
    /// Packets that arrived.
    pub packets_in: u64,
    /// Bytes that arrived.
    pub bytes_in: Bytes,
    /// Packets released at the far end.
    pub packets_out: u64,
    /// Bytes released at the far end.
    pub bytes_out: Bytes,
    /// Packets that the loss model took.
    pub lost: u64,
}

/// One direction of a link.
///
/// Input: [`arrive`](Self::arrive), [`advance`](Self::advance). Output: [`release`](Self::release)
/// until `None`, [`discarded`](Self::discarded), and [`next_wake`](Self::next_wake) for when to
/// call again. `now` never goes back. Calling late changes nothing but the moment of the call: a
/// packet starts at max(its arrival, the departure before it) and is due at its departure plus the
/// delay, whenever the caller gets round to it.
pub struct Pipe<P> {
    loss: Loss,
    queue: AnyQueue<P>,
    /// What the queue said after its last change: whether packets wait, and its next timer,
    /// [`Time::MAX`] if none. It is asked for these several times a packet.
    waits: bool,
    timer: Time,
    server: Server,
    delay: Delay,
    /// The server does not start before this: the arrival that ended an idle spell, or the instant
    /// at which a queue that held its packets back will let one go.
    ready_at: Time,
    delayed: VecDeque<(Time, P)>,
    last_due: Time,
    dropped: Vec<Dropped<P>>,
    lost: Vec<P>,
    counters: PipeCounters,
}

impl<P: Packet> Pipe<P> {
    /// An empty pipe; a `rate` of `None` is unlimited.
    pub fn new(loss: Loss, queue: AnyQueue<P>, rate: Option<Rate>, delay: Delay) -> Self {
        Self {
            loss,
            waits: !queue.backlog().is_empty(),
            timer: queue.next_event().unwrap_or(Time::MAX),
            queue,
            server: Server::new(rate),
            delay,
            ready_at: Time::ZERO,
            delayed: VecDeque::new(),
            last_due: Time::ZERO,
            dropped: Vec::new(),
            lost: Vec::new(),
            counters: PipeCounters::default(),
        }
    }

    /// A packet arrives at `now`.
    #[inline]
    pub fn arrive(&mut self, packet: P, now: Time) {
        self.advance(now);
        self.counters.packets_in += 1;
        self.counters.bytes_in += packet.size();
        if self.loss.strikes() {
            self.counters.lost += 1;
            self.lost.push(packet);
            return;
        }
        if !self.waits || self.ready_at > now {
            self.ready_at = now;
        }
        self.queue.enqueue(packet, now, &mut self.dropped);
        self.ask_queue();
        self.serve(now);
    }

    /// The queue has changed.
    #[inline]
    fn ask_queue(&mut self) {
        self.waits = !self.queue.backlog().is_empty();
        self.timer = self.queue.next_event().unwrap_or(Time::MAX);
    }

    /// Does all that falls due up to `now`: timers of the queue and starts of transmission.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        // Nearly always nothing is due: what arrived last was served then.
        if self.timer.min(self.next_start()) <= now {
            self.catch_up(now);
        }
    }

    fn catch_up(&mut self, now: Time) {
        while self.timer <= now && self.timer < Time::MAX {
            // A timer that is due with a start comes first: it may be what lets the packet go.
            let event = self.timer;
            self.serve_before(event);
            if self.timer == event {
                self.queue.on_timer(event, &mut self.dropped);
                self.ask_queue();
            }
        }
        self.serve(now);
    }

    /// Starts every transmission that can start before `event`.
    fn serve_before(&mut self, event: Time) {
        if let Some(last) = event.as_ns().checked_sub(1) {
            self.serve(Time::from_ns(last));
        }
    }

    /// Starts every transmission that can start up to `now`.
    #[inline]
    fn serve(&mut self, now: Time) {
        loop {
            let start = self.next_start();
            if start > now || start == Time::MAX {
                return;
            }
            let packet = self.queue.dequeue(start, &mut self.dropped);
            self.ask_queue();
            match packet {
                Some(packet) => {
                    let departure = self.server.send(start, packet.size());
                    let due = departure.saturating_add(self.delay.draw()).max(self.last_due);
                    self.last_due = due;
                    self.delayed.push_back((due, packet));
                }
                // Held back, or the last ones were dropped and there is no next start.
                None => {
                    debug_assert!(!self.waits || (start < self.timer && self.timer < Time::MAX));
                    self.ready_at = self.timer;
                }
            }
        }
    }

    /// When the next transmission can start, [`Time::MAX`] if none can.
    #[inline]
    fn next_start(&self) -> Time {
        if self.waits { self.server.free_at().max(self.ready_at) } else { Time::MAX }
    }

    /// The next packet due up to `now`, with the instant at which it was due. Call
    /// [`advance`](Self::advance) first.
    #[inline]
    pub fn release(&mut self, now: Time) -> Option<(Time, P)> {
        if self.delayed.front()?.0 > now {
            return None;
        }
        let (due, packet) = self.delayed.pop_front()?;
        self.counters.packets_out += 1;
        self.counters.bytes_out += packet.size();
        Some((due, packet))
    }

    /// The instant to call [`advance`](Self::advance) and [`release`](Self::release) at if nothing
    /// arrives before; `None` if nothing is under way.
    #[inline]
    pub fn next_wake(&self) -> Option<Time> {
        let due = self.delayed.front().map_or(Time::MAX, |(due, _)| *due);
        let start = self.next_start().saturating_add(self.delay.least());
        let wake = due.min(start).min(self.timer);
        (wake < Time::MAX).then_some(wake)
    }

    /// Packets that will never be released, for their owner to free.
    pub fn discarded(&mut self) -> impl Iterator<Item = P> + '_ {
        std::iter::from_fn(|| {
            self.lost.pop().or_else(|| self.dropped.pop().map(|dropped| dropped.packet))
        })
    }

    /// Whether there are [`discarded`](Self::discarded) packets; nearly always there are none.
    #[inline]
    pub(crate) fn has_discarded(&self) -> bool {
        !(self.lost.is_empty() && self.dropped.is_empty())
    }

    /// What was counted so far.
    pub const fn counters(&self) -> &PipeCounters {
        &self.counters
    }

    /// What waits in the queue.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// How many packets have left the queue and not yet been released.
    pub fn delayed(&self) -> u64 {
        self.delayed.len() as u64
    }

    /// Bytes of memory for packets that have left the queue and not yet been released.
    pub fn line_memory(&self) -> usize {
        self.delayed.capacity() * size_of::<(Time, P)>()
    }

    /// The queue, for its counters.
    pub fn queue(&self) -> &dyn QueueDiscipline<P> {
        &self.queue
    }
}
