//! What two endpoints exchange.

use weir_units::Time;

/// Control bits of a segment (RFC 9293 section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Opens the connection.
    pub const SYN: Self = Self(0x002);
    /// Tears the connection down.
    pub const RST: Self = Self(0x004);
    /// The receiver should hand the data on at once.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgement field counts.
    pub const ACK: Self = Self(0x010);
    /// ECN echo (RFC 3168); low bit of ACE after an AccECN handshake.
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced (RFC 3168); middle bit of ACE.
    pub const CWR: Self = Self(0x080);
    /// Accurate ECN (RFC 9768); high bit of ACE.
    pub const AE: Self = Self(0x100);

    /// The bits as on the wire: byte 13 of the header and the lowest bit of byte 12.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The flags of these wire bits.
    pub const fn of_bits(bits: u16) -> Self {
        Self(bits & 0x1ff)
    }

    /// These and `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Bytes `start..end` of the stream that arrived out of order (RFC 2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

/// What a SYN offers (RFC 9293 section 3.7.1, RFC 7323, RFC 2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Most bytes of data that it takes in a segment.
    pub mss: u16,
    /// By how many bits its windows are shifted on the wire, at most 14.
    pub window_scale: Option<u8>,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps.
    pub timestamps: bool,
}

/// A TCP segment without its bytes: the worlds that exchange it carry lengths, not content.
///
/// Sequence numbers are absolute and never wrap: SYN has number 0, the first byte of data 1.
/// A capture takes them modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte (or of the SYN).
    pub seq: u64,
    /// Next byte expected from the other side, if [`Flags::ACK`].
    pub ack: u64,
    /// Bytes of data.
    pub len: u32,
    /// Receive window in bytes, scaling already applied.
    pub window: u32,
    /// Control bits.
    pub flags: Flags,
    /// How many of `sack` count, at most 3 (timestamps take the room of the fourth).
    pub sack_count: u8,
    /// The blocks that arrived out of order, latest first; the first may be a D-SACK (RFC 2883).
    pub sack: [SackBlock; 3],
    /// Timestamp option (RFC 7323): the sender's clock when this was sent.
    pub ts_val: Time,
    /// Timestamp option: the `ts_val` that this acknowledges, zero if none.
    pub ts_ecr: Time,
    /// AccECN option (RFC 9768 section 3.2.3): bytes received with CE and with ECT(1), as running
    /// totals; `None` where it was not negotiated or left out.
    pub accurate_ecn: Option<(u64, u64)>,
    /// The options of a SYN.
    pub offer: Option<Offer>,
}

impl Segment {
    /// The SACK blocks that count.
    pub fn sack_blocks(&self) -> &[SackBlock] {
        &self.sack[..usize::from(self.sack_count).min(self.sack.len())]
    }

    /// One past the last sequence number taken: SYN and FIN take one each.
    pub fn end(&self) -> u64 {
        self.seq
            + u64::from(self.len)
            + u64::from(self.flags.has(Flags::SYN))
            + u64::from(self.flags.has(Flags::FIN))
    }
}
