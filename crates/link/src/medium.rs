//! Whatever carries packets from node to node, behind one face.

use weir_queue::{Backlog, Packet, QueueDiscipline};
use weir_units::{Bytes, Time};

use crate::{AirCounters, Channel, CreditCounters, Pipe, PipeCounters, Subnet};

/// Directions of links that affect each other, each known by the number of its *port*, where
/// packets enter.
///
/// Input: [`arrive`](Self::arrive) or [`pass`](Self::pass), [`advance`](Self::advance). Output:
/// [`release`](Self::release) until `None`, [`discarded`](Self::discarded), and
/// [`next_wake`](Self::next_wake) for when to call again. `now` never goes back.
#[expect(clippy::large_enum_variant, reason = "nearly all are wired, and looked at per packet")]
pub enum Medium<P> {
    /// One direction of a wired link, which has its medium to itself: port 0.
    Wired(Pipe<P>),
    /// The ports of all stations of a channel.
    Wlan(Channel<P>),
    /// The ports of all credit-based links of a network.
    Credits(Subnet<P>),
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

impl<P: Packet> Medium<P> {
    /// A packet arrives at `port` from another medium, or from its source.
    pub fn arrive(&mut self, port: usize, packet: P, now: Time) {
        match self {
            Self::Wired(pipe) => pipe.arrive(packet, now),
            Self::Wlan(channel) => channel.arrive(port, packet, now),
            Self::Credits(subnet) => subnet.arrive(port, packet, now),
        }
    }

    /// A packet that port `from` has released goes on by `port`, of the same medium.
    pub fn pass(&mut self, from: usize, port: usize, packet: P, now: Time) {
        match self {
            Self::Credits(subnet) => subnet.pass(from, port, packet, now),
            _ => self.arrive(port, packet, now),
        }
    }

    /// A packet of `size` that `port` has released goes on by another medium, or nowhere.
    pub fn leave(&mut self, port: usize, size: Bytes, now: Time) {
        if let Self::Credits(subnet) = self {
            subnet.leave(port, size, now);
        }
    }

    /// Does all that falls due up to `now`.
    pub fn advance(&mut self, now: Time) {
        match self {
            Self::Wired(pipe) => pipe.advance(now),
            Self::Wlan(channel) => channel.advance(now),
            Self::Credits(subnet) => subnet.advance(now),
        }
    }

    /// The next packet that has come through up to `now`, with its port; to be followed by
    /// [`pass`](Self::pass) or [`leave`](Self::leave).
    pub fn release(&mut self, now: Time) -> Option<(usize, P)> {
        match self {
            Self::Wired(pipe) => pipe.release(now).map(|(_, packet)| (0, packet)),
            Self::Wlan(channel) => channel.release(now),
            Self::Credits(subnet) => subnet.release(now),
        }
    }

    /// The instant to call [`advance`](Self::advance) and [`release`](Self::release) at if nothing
    /// arrives before; `None` if nothing is under way.
    pub fn next_wake(&self) -> Option<Time> {
        match self {
            Self::Wired(pipe) => pipe.next_wake(),
            Self::Wlan(channel) => channel.next_wake(),
            Self::Credits(subnet) => subnet.next_wake(),
        }
    }

    /// Hands over packets that will never be released, for their owner to free.
    pub fn discarded(&mut self, free: impl FnMut(P)) {
        match self {
            Self::Wired(pipe) => pipe.discarded().for_each(free),
            Self::Wlan(channel) => channel.discarded().for_each(free),
            Self::Credits(subnet) => subnet.discarded().for_each(free),
        }
    }

    /// What was counted of `port` so far.
    pub fn counters(&self, port: usize) -> &PipeCounters {
        match self {
            Self::Wired(pipe) => pipe.counters(),
            Self::Wlan(channel) => channel.counters(port),
            Self::Credits(subnet) => subnet.counters(port),
        }
    }

    /// What only this kind of medium counts, up to `now`.
    pub fn special(&self, port: usize, now: Time) -> MediumCounters {
        match self {
            Self::Wired(_) => MediumCounters::Wired,
            Self::Wlan(channel) => MediumCounters::Wlan(*channel.air(port)),
            Self::Credits(subnet) => MediumCounters::Credits(subnet.stalls(port, now)),
        }
    }

    /// What waits for `port`.
    pub fn backlog(&self, port: usize) -> Backlog {
        match self {
            Self::Wired(pipe) => pipe.backlog(),
            Self::Wlan(channel) => channel.backlog(port),
            Self::Credits(subnet) => subnet.backlog(port),
        }
    }

    /// The queue of `port`, for its counters.
    pub fn queue(&self, port: usize) -> &dyn QueueDiscipline<P> {
        match self {
            Self::Wired(pipe) => pipe.queue(),
            Self::Wlan(channel) => channel.queue(port),
            Self::Credits(subnet) => subnet.queue(port),
        }
    }
}
