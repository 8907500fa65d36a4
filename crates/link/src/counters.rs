//! What only one kind of shared medium counts, of one port.

use weir_units::Time;

/// What the frames of one port have met on the air.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AirCounters {
    /// Frames sent, again and again included.
    pub transmissions: u64,
    /// How many of these collided.
    pub collisions: u64,
    /// How many of these the loss model took.
    pub corrupted: u64,
    /// Packets given up at the retry limit.
    pub given_up: u64,
    /// What the frames took of the channel, with SIFS and acknowledgement where there was one.
    pub airtime: Time,
}

impl AirCounters {
    /// What came since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            transmissions: self.transmissions - before.transmissions,
            collisions: self.collisions - before.collisions,
            corrupted: self.corrupted - before.corrupted,
            given_up: self.given_up - before.given_up,
            airtime: self.airtime - before.airtime,
        }
    }
}

/// What only a port with credits counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditCounters {
    /// Time with a packet to send and no credits for it, while nothing was being sent.
    pub stalled: Time,
    /// How often that began.
    pub stalls: u64,
}

impl CreditCounters {
    /// What came since `before`.
    pub fn since(self, before: Self) -> Self {
        Self { stalled: self.stalled - before.stalled, stalls: self.stalls - before.stalls }
    }
}
