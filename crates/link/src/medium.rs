//! Whatever carries packets from node to node, behind one face.

use weir_queue::{Backlog, Packet, QueueDiscipline};
use weir_units::{Bytes, Time};

use crate::{AirCounters, CreditCounters, Pipe, PipeCounters};

/// Directions of links that affect each other, each known by the number of its *port*, where
/// packets enter.
///
/// Input: [`arrive`](Self::arrive) or [`pass`](Self::pass), [`advance`](Self::advance). Output:
/// [`release`](Self::release) until `None`, [`discarded`](Self::discarded) likewise, and
/// [`next_wake`](Self::next_wake) for when to call again: not later, for what a packet meets next
/// may depend on it. `now` never goes back.
pub trait SharedMedium<P: Packet> {
    /// A packet arrives at `port` from another medium, or from its source.
    fn arrive(&mut self, port: usize, packet: P, now: Time);

    /// A packet that port `from` has released goes on by `port`, of the same medium.
    fn pass(&mut self, _from: usize, port: usize, packet: P, now: Time) {
        self.arrive(port, packet, now);
    }

    /// A packet of `size` that `port` has released goes on by another medium, or nowhere.
    fn leave(&mut self, _port: usize, _size: Bytes, _now: Time) {}

    /// Does all that falls due up to `now`.
    fn advance(&mut self, now: Time);

    /// The next packet that has come through up to `now`, with its port; to be followed by
    /// [`pass`](Self::pass) or [`leave`](Self::leave). Call [`advance`](Self::advance) first.
    fn release(&mut self, now: Time) -> Option<(usize, P)>;

    /// The instant to call [`advance`](Self::advance) and [`release`](Self::release) at if nothing
    /// arrives before; `None` if nothing is under way.
    fn next_wake(&self) -> Option<Time>;

    /// A packet that will never be released, for its owner to free.
    fn discarded(&mut self) -> Option<P>;

    /// What was counted of `port` so far.
    fn counters(&self, port: usize) -> &PipeCounters;

    /// What only this kind of medium counts, up to `now`.
    fn special(&self, port: usize, now: Time) -> MediumCounters;

    /// What waits for `port`.
    fn backlog(&self, port: usize) -> Backlog;

    /// The queue of `port`, for its counters.
    fn queue(&self, port: usize) -> &dyn QueueDiscipline<P>;
}

/// What only one kind of medium counts, of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediumCounters {
    /// Nothing more.
    #[default]
    Wired,
    /// Frames and their airtime.
    Wlan(AirCounters),
    /// Stalls.
    Credits(CreditCounters),
}

/// One of the three kinds of medium. Wired links, nearly all there are, are not called by way of a
/// table: it would cost a tenth of the simulator's speed.
#[expect(clippy::large_enum_variant, reason = "nearly all are the large one")]
pub enum Medium<P> {
    /// One direction of a wired link, which has its medium to itself: port 0.
    Wired(Pipe<P>),
    /// A wireless channel or a lossless subnet.
    Shared(Box<dyn SharedMedium<P> + Send>),
}

/// The methods are those of [`SharedMedium`].
#[expect(missing_docs, reason = "they are the trait's")]
impl<P: Packet> Medium<P> {
    #[inline]
    pub fn arrive(&mut self, port: usize, packet: P, now: Time) {
        match self {
            Self::Wired(pipe) => pipe.arrive(packet, now),
            Self::Shared(shared) => shared.arrive(port, packet, now),
        }
    }

    pub fn pass(&mut self, from: usize, port: usize, packet: P, now: Time) {
        match self {
            Self::Wired(pipe) => pipe.arrive(packet, now),
            Self::Shared(shared) => shared.pass(from, port, packet, now),
        }
    }

    #[inline]
    pub fn leave(&mut self, port: usize, size: Bytes, now: Time) {
        if let Self::Shared(shared) = self {
            shared.leave(port, size, now);
        }
    }

    #[inline]
    pub fn advance(&mut self, now: Time) {
        match self {
            Self::Wired(pipe) => pipe.advance(now),
            Self::Shared(shared) => shared.advance(now),
        }
    }

    #[inline]
    pub fn release(&mut self, now: Time) -> Option<(usize, P)> {
        match self {
            Self::Wired(pipe) => pipe.release(now).map(|(_, packet)| (0, packet)),
            Self::Shared(shared) => shared.release(now),
        }
    }

    #[inline]
    pub fn next_wake(&self) -> Option<Time> {
        match self {
            Self::Wired(pipe) => pipe.next_wake(),
            Self::Shared(shared) => shared.next_wake(),
        }
    }

    /// Whether [`discarded`](Self::discarded) may give any.
    #[inline]
    pub fn may_have_discarded(&self) -> bool {
        match self {
            Self::Wired(pipe) => pipe.has_discarded(),
            Self::Shared(_) => true,
        }
    }

    pub fn discarded(&mut self) -> Option<P> {
        match self {
            Self::Wired(pipe) => pipe.discarded().next(),
            Self::Shared(shared) => shared.discarded(),
        }
    }

    pub fn counters(&self, port: usize) -> &PipeCounters {
        match self {
            Self::Wired(pipe) => pipe.counters(),
            Self::Shared(shared) => shared.counters(port),
        }
    }

    pub fn special(&self, port: usize, now: Time) -> MediumCounters {
        match self {
            Self::Wired(_) => MediumCounters::Wired,
            Self::Shared(shared) => shared.special(port, now),
        }
    }

    /// Bytes of memory for packets on wired lines.
    pub fn line_memory(&self) -> usize {
        match self {
            Self::Wired(pipe) => pipe.line_memory(),
            Self::Shared(_) => 0,
        }
    }

    pub fn backlog(&self, port: usize) -> Backlog {
        match self {
            Self::Wired(pipe) => pipe.backlog(),
            Self::Shared(shared) => shared.backlog(port),
        }
    }

    pub fn queue(&self, port: usize) -> &dyn QueueDiscipline<P> {
        match self {
            Self::Wired(pipe) => pipe.queue(),
            Self::Shared(shared) => shared.queue(port),
        }
    }
}
