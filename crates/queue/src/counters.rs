//! What a discipline counts, per class.

use weir_units::Bytes;

use crate::{DropCause, Histogram, Packet};
use weir_units::Time;

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

/// Everything one class of a discipline has seen. Always
/// `packets_in = packets_out + dropped + backlog.packets`, and the same in bytes.
#[derive(Clone, Debug)]
pub struct ClassCounters {
    /// What the class is called: "all", "high", "low".
    pub name: &'static str,
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
    /// Bytes of all packets dropped.
    pub dropped_bytes: Bytes,
    /// Packets that got the congestion-experienced mark here.
    pub marked: u64,
    /// What waits now.
    pub backlog: Backlog,
    /// How long each packet that left had waited.
    pub sojourn: Histogram,
}

impl ClassCounters {
    /// Counters of a class that has seen nothing.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            packets_in: 0,
            bytes_in: Bytes::ZERO,
            packets_out: 0,
            bytes_out: Bytes::ZERO,
            dropped_overflow: 0,
            dropped_bytes: Bytes::ZERO,
            marked: 0,
            backlog: Backlog::default(),
            sojourn: Histogram::new(),
        }
    }

    /// Packets dropped for any cause.
    pub const fn dropped(&self) -> u64 {
        self.dropped_overflow
    }

    /// A packet was offered.
    pub(crate) fn on_offer(&mut self, packet: &impl Packet) {
        self.packets_in += 1;
        self.bytes_in += packet.size();
    }

    /// An offered packet was taken into the queue.
    pub(crate) fn on_queued(&mut self, packet: &impl Packet) {
        self.backlog.packets += 1;
        self.backlog.bytes += packet.size();
    }

    /// A packet was dropped on arrival, never having been queued.
    pub(crate) fn on_refused(&mut self, packet: &impl Packet, cause: DropCause) {
        self.dropped_bytes += packet.size();
        match cause {
            DropCause::Overflow => self.dropped_overflow += 1,
        }
    }

    /// A queued packet left after waiting for `sojourn`.
    pub(crate) fn on_left(&mut self, packet: &impl Packet, sojourn: Time) {
        self.backlog.packets -= 1;
        self.backlog.bytes -= packet.size();
        self.packets_out += 1;
        self.bytes_out += packet.size();
        self.sojourn.record(sojourn);
    }
}
