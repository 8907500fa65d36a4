//! What a discipline counts, per class.

use std::borrow::Cow;

use weir_units::{Bytes, Time};

use crate::{Histogram, Packet};

/// Why a discipline dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropCause {
    /// The buffer was full.
    Overflow,
    /// An AQM signalled congestion.
    Aqm,
    /// More than the traffic contract allows.
    Policed,
    /// ECN-capable, but marks alone no longer hold the queue (RFC 9332 section 4.2).
    Overload,
}

/// Packets and bytes waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets waiting.
    pub packets: u64,
    /// Their bytes.
    pub bytes: Bytes,
}

impl Backlog {
    /// Whether nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

impl std::iter::Sum for Backlog {
    fn sum<I: Iterator<Item = Self>>(backlogs: I) -> Self {
        backlogs.fold(Self::default(), |sum, one| Self {
            packets: sum.packets + one.packets,
            bytes: sum.bytes + one.bytes,
        })
    }
}

/// Everything one class of a discipline has seen. Always
/// `packets_in = packets_out + dropped + backlog.packets`, and the same in bytes.
#[derive(Clone, Debug)]
pub struct ClassCounters {
    /// What the class is called: "all", "high", "low", "l4s", "classic", "1".
    pub name: Cow<'static, str>,
    /// Packets offered, dropped ones included.
    pub packets_in: u64,
    /// Bytes offered, dropped ones included.
    pub bytes_in: Bytes,
    /// Packets that left by `dequeue`.
    pub packets_out: u64,
    /// Bytes that left by `dequeue`.
    pub bytes_out: Bytes,
    /// Packets dropped because a limit was reached.
    pub dropped_overflow: u64,
    /// Packets dropped to signal congestion.
    pub dropped_aqm: u64,
    /// Packets dropped because they were more than a traffic contract allows.
    pub dropped_policed: u64,
    /// Packets dropped, though ECN-capable, because marks alone no longer held the queue.
    pub dropped_overload: u64,
    /// Bytes of all packets dropped.
    pub dropped_bytes: Bytes,
    /// Congestion-experienced marks set here, those on packets that had one already included.
    pub marked: u64,
    /// What waits now.
    pub backlog: Backlog,
    /// How long each packet that left had waited.
    pub sojourn: Histogram,
}

impl ClassCounters {
    /// Counters of a class that has seen nothing.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            packets_in: 0,
            bytes_in: Bytes::ZERO,
            packets_out: 0,
            bytes_out: Bytes::ZERO,
            dropped_overflow: 0,
            dropped_aqm: 0,
            dropped_policed: 0,
            dropped_overload: 0,
            dropped_bytes: Bytes::ZERO,
            marked: 0,
            backlog: Backlog::default(),
            sojourn: Histogram::new(),
        }
    }

    /// Packets dropped for any cause.
    pub const fn dropped(&self) -> u64 {
        self.dropped_overflow + self.dropped_aqm + self.dropped_policed + self.dropped_overload
    }

    /// A packet was offered.
    #[inline]
    pub(crate) fn on_offer(&mut self, packet: &impl Packet) {
        self.packets_in += 1;
        self.bytes_in += packet.size();
    }

    /// An offered packet was taken into the queue.
    #[inline]
    pub(crate) fn on_queued(&mut self, packet: &impl Packet) {
        self.backlog.packets += 1;
        self.backlog.bytes += packet.size();
    }

    /// A queued packet was taken out; what becomes of it is told next.
    #[inline]
    pub(crate) fn on_taken(&mut self, packet: &impl Packet) {
        self.backlog.packets -= 1;
        self.backlog.bytes -= packet.size();
    }

    /// A packet that does not (or no longer) wait was dropped.
    pub(crate) fn on_dropped(&mut self, packet: &impl Packet, cause: DropCause) {
        self.dropped_bytes += packet.size();
        *match cause {
            DropCause::Overflow => &mut self.dropped_overflow,
            DropCause::Aqm => &mut self.dropped_aqm,
            DropCause::Policed => &mut self.dropped_policed,
            DropCause::Overload => &mut self.dropped_overload,
        } += 1;
    }

    /// A packet that was taken out leaves after waiting for `sojourn`.
    #[inline]
    pub(crate) fn on_left(&mut self, packet: &impl Packet, sojourn: Time) {
        self.packets_out += 1;
        self.bytes_out += packet.size();
        self.sojourn.record(sojourn);
    }
}
