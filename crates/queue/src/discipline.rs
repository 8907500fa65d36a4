//! The contract between a queue and the link that serves it.

use weir_units::Time;

use crate::{Backlog, ClassCounters, DropCause, Packet};

/// A packet that the discipline gave up, handed back so that its owner can free it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped<P> {
    /// The packet.
    pub packet: P,
    /// Why it was dropped.
    pub cause: DropCause,
}

/// Decides which packet leaves next, which is marked and which is dropped.
///
/// The caller owns the clock: every call carries `now`, and `now` never goes back from one call
/// to the next. Input: [`enqueue`](Self::enqueue), [`on_timer`](Self::on_timer). Output:
/// [`dequeue`](Self::dequeue), called when the link can start to send a packet, so a packet being
/// sent is no longer in the queue. Any call may drop packets, not only the one just offered (CoDel
/// drops when dequeuing, FQ-CoDel from the longest queue): they go to `dropped`, a buffer that the
/// caller keeps and empties, so that nothing is allocated per packet.
///
/// Every packet offered comes out exactly once, by `dequeue` or by `dropped`.
///
/// A periodic timer keeps its phase: it is due at whole multiples of its interval since the origin,
/// and is not due at all while running it would change nothing (an idle queue at rest).
pub trait QueueDiscipline<P: Packet> {
    /// Takes a packet that arrives at `now`.
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>);

    /// The packet to send at `now`. `None` while packets wait means that none may leave before
    /// [`next_event`](Self::next_event), which is then later than `now`.
    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Dropped<P>>) -> Option<P>;

    /// The next instant at which the discipline wants [`on_timer`](Self::on_timer), though nothing
    /// arrives or leaves; `None` if never.
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// Runs the timers that are due at `now`; afterwards `next_event` is later than `now`.
    fn on_timer(&mut self, _now: Time, _dropped: &mut Vec<Dropped<P>>) {}

    /// What waits, over all classes.
    fn backlog(&self) -> Backlog;

    /// One entry per class, in order of precedence.
    fn classes(&self) -> Vec<&ClassCounters>;
}
