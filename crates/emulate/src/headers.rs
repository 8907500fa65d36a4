//! The few header fields that a link reads or edits, straight in the packet's bytes.

use weir_queue::Ecn;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
/// Length of an Ethernet header without tags.
pub(crate) const ETHERNET_HEADER: usize = 14;
const IPV6_HEADER: usize = 40;

/// Where the IP header of a packet ends and what it says; read once per super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpHeader {
    /// 4 or 6.
    pub(crate) version: u8,
    /// Where the upper layer begins.
    pub(crate) len: usize,
    /// The upper layer; meaningless in a fragment.
    pub(crate) protocol: u8,
    /// The whole packet's length as the header gives it.
    pub(crate) total_len: usize,
    /// Type-of-service or traffic-class octet.
    pub(crate) octet: u8,
    /// More fragments, or not the first.
    pub(crate) fragment: bool,
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

impl IpHeader {
    /// Reads the header; `None` if `bytes` do not begin with a whole IPv4 or IPv6 header.
    /// Extension headers of IPv6 are not followed: such a packet has that header's protocol.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::parse_v4(bytes),
            6 => Self::parse_v6(bytes),
            _ => None,
        }
    }

    fn parse_v4(bytes: &[u8]) -> Option<Self> {
        let len = usize::from(bytes[0] & 0xf) * 4;
        if len < 20 || bytes.len() < len {
            return None;
        }
        Some(Self {
            version: 4,
            len,
            protocol: bytes[9],
            total_len: u16_at(bytes, 2).into(),
            octet: bytes[1],
            fragment: u16_at(bytes, 6) & 0x3fff != 0,
        })
    }

    fn parse_v6(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < IPV6_HEADER {
            return None;
        }
        Some(Self {
            version: 6,
            len: IPV6_HEADER,
            protocol: bytes[6],
            total_len: IPV6_HEADER + usize::from(u16_at(bytes, 4)),
            octet: (u16_at(bytes, 0) >> 4) as u8,
            fragment: false,
        })
    }

    /// A hash of addresses, protocol and, outside fragments, ports.
    pub(crate) fn flow_hash(&self, bytes: &[u8]) -> u32 {
        let addresses = if self.version == 4 { &bytes[12..20] } else { &bytes[8..40] };
        let has_ports = !self.fragment && matches!(self.protocol, TCP | UDP);
        let ports = has_ports.then(|| bytes.get(self.len..self.len + 4)).flatten();
        let words = addresses.chunks_exact(4).chain(ports);
        let hash = words.fold(u64::from(self.protocol), |hash, word| {
            // One round of the splitmix finaliser per word: cheap, and every bit counts.
            let mixed = (hash ^ u64::from(u32_at(word, 0))).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed ^ (mixed >> 29)
        });
        (hash >> 32) as u32 ^ hash as u32
    }
}

/// The checksum after a 16-bit word it covers changed from `old` to `new` (RFC 1624, equation 3:
/// HC' = ~(~HC + ~m + m')).
pub(crate) fn checksum_update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u32::from(!checksum) + u32::from(!old) + u32::from(new))
}

/// The same for an uncomplemented partial sum, as the kernel leaves it in the checksum field of a
/// packet whose checksum is still to be computed.
pub(crate) fn partial_sum_update(sum: u16, old: u16, new: u16) -> u16 {
    fold(u32::from(sum) + u32::from(!old) + u32::from(new))
}

/// The ones' complement sum (RFC 1071) of `first`, whose length is even, and `second`.
pub(crate) fn ones_sum(first: &[u8], second: &[u8]) -> u16 {
    debug_assert!(second.is_empty() || first.len().is_multiple_of(2), "headers come in words");
    let mut sum = native_sum(first) + native_sum(second);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // The sum of swapped words is the swapped sum.
    u16::from_be(sum as u16)
}

/// The sum of the 16-bit words in the machine's byte order, taken two at a time.
fn native_sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let sum: u64 =
        words.by_ref().map(|w| u64::from(u32::from_ne_bytes([w[0], w[1], w[2], w[3]]))).sum();
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    sum + u64::from(u32::from_ne_bytes(last))
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// Replaces a 16-bit word of an IPv4 header, checksum included.
pub(crate) fn replace_v4_word(header: &mut [u8], at: usize, new: u16) {
    let old = u16_at(header, at);
    if old != new {
        let checksum = checksum_update(u16_at(header, 10), old, new);
        put_u16(header, at, new);
        put_u16(header, 10, checksum);
    }
}

/// Writes the type-of-service or traffic-class octet in place. Neither TCP's nor UDP's checksum
/// covers it; IPv4's header checksum is updated.
pub(crate) fn set_octet(header: &mut [u8], octet: u8) {
    match header[0] >> 4 {
        4 => replace_v4_word(header, 0, u16::from_be_bytes([header[0], octet])),
        6 => {
            let word = u16_at(header, 0) & 0xf00f | u16::from(octet) << 4;
            put_u16(header, 0, word);
        }
        _ => {}
    }
}

/// The octet with its ECN field set to congestion experienced.
pub(crate) const fn with_ce(octet: u8) -> u8 {
    octet | Ecn::Ce as u8
}
