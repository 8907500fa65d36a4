//! What a queue may know about a packet.

use weir_units::Bytes;

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not capable: congestion can be signalled by a drop only.
    #[default]
    NotEct = 0b00,
    /// ECT(1), the identifier of L4S (RFC 9331).
    Ect1 = 0b01,
    /// ECT(0), classic ECN.
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// The codepoint in the low two bits of a type-of-service or traffic-class octet.
    pub const fn of_octet(octet: u8) -> Self {
        match octet & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Whether a mark may stand in for a drop.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// The differentiated-services codepoint of the IP header, 0 to 63 (RFC 2474).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dscp(u8);

impl Dscp {
    /// Best effort.
    pub const CS0: Self = Self(0);
    /// Class selector 1, "scavenger": below best effort, as in RFC 3662.
    pub const CS1: Self = Self(8);

    /// The codepoint in the high six bits of a type-of-service or traffic-class octet.
    pub const fn of_octet(octet: u8) -> Self {
        Self(octet >> 2)
    }

    /// The value, 0 to 63.
    pub const fn value(self) -> u8 {
        self.0
    }
}

/// A packet as queue disciplines see it; the simulator and the emulator each bring their own.
pub trait Packet {
    /// Length on the link, IP header included.
    fn size(&self) -> Bytes;
    /// The ECN codepoint as it would leave now.
    fn ecn(&self) -> Ecn;
    /// Sets congestion experienced; called only where [`Ecn::is_capable`] holds.
    fn mark_ce(&mut self);
    /// The differentiated-services codepoint.
    fn dscp(&self) -> Dscp;
    /// A hash of addresses, protocol and ports: equal within a flow.
    fn flow_hash(&self) -> u32;
}
