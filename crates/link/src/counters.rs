//! What only one kind of shared medium counts, of one port.

use serde::Serialize;
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

    /// As it is told, of a time of `span_s` seconds.
    pub fn told(self, span_s: f64) -> AirStatistics {
        AirStatistics {
            transmissions: self.transmissions,
            collisions: self.collisions,
            corrupted: self.corrupted,
            given_up: self.given_up,
            airtime_ns: self.airtime.as_ns(),
            airtime_share: if span_s > 0.0 { self.airtime.as_s() / span_s } else { 0.0 },
        }
    }
}

/// What the frames of one direction of a wireless link met, as simulator and labs tell it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AirStatistics {
    /// Frames sent, again and again included.
    pub transmissions: u64,
    /// How many of these collided.
    pub collisions: u64,
    /// How many of these the air corrupted.
    pub corrupted: u64,
    /// Packets given up at the retry limit; they are among those that the line lost.
    pub given_up: u64,
    /// What they took of the channel, with SIFS and acknowledgements.
    pub airtime_ns: u64,
    /// Share of the time; those of a channel sum up to less than 1, but for collisions.
    pub airtime_share: f64,
}

/// What only a port with credits counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditCounters {
    /// Time with a packet to send and no credits for it, while nothing was being sent.
    pub stalled: Time,
    /// The part of it in which the buffer at the far end held so much for one output that this was
    /// congested.
    pub stalled_at_congestion: Time,
    /// How often a stall began.
    pub stalls: u64,
    /// Time in which so much waited for this port in one input buffer that it was congested.
    pub congested: Time,
    /// The part of it in which some port that leads here was stalled.
    pub congested_and_seen: Time,
    /// Packets marked here.
    pub marked: u64,
    /// How often word came back of a marked packet that had begun its way here.
    pub told: u64,
}

impl CreditCounters {
    /// What came since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            stalled: self.stalled - before.stalled,
            stalled_at_congestion: self.stalled_at_congestion - before.stalled_at_congestion,
            stalls: self.stalls - before.stalls,
            congested: self.congested - before.congested,
            congested_and_seen: self.congested_and_seen - before.congested_and_seen,
            marked: self.marked - before.marked,
            told: self.told - before.told,
        }
    }
}
