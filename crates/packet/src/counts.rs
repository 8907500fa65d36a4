//! What a traffic sent and what arrived of it.

/// Packets and bytes of a flow, IP headers included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
    /// Arrived with congestion experienced.
    pub(crate) marked_packets: u64,
    /// Application bytes that arrived, in order where that means something.
    pub(crate) delivered_bytes: u64,
}

impl Counts {
    pub(crate) fn on_departure(&mut self, size: u16) {
        self.sent_packets += 1;
        self.sent_bytes += u64::from(size);
    }

    pub(crate) fn on_arrival(&mut self, size: u16, marked: u64) {
        self.received_packets += 1;
        self.received_bytes += u64::from(size);
        self.marked_packets += marked;
    }

    /// What came since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            sent_packets: self.sent_packets - before.sent_packets,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            received_packets: self.received_packets - before.received_packets,
            received_bytes: self.received_bytes - before.received_bytes,
            marked_packets: self.marked_packets - before.marked_packets,
            delivered_bytes: self.delivered_bytes - before.delivered_bytes,
        }
    }
}
