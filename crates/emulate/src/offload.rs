//! Super-packets: what the kernel hands over as one, cut into the packets that the link carries.
//!
//! A TUN device with a virtio-net header takes and gives TCP segments of up to 64 KiB with the
//! checksum still to be computed, which saves most system calls. The link must see real packets,
//! so each super-packet is cut on paper: a [`Layout`] says where each piece's payload lies, and
//! headers are written when a run of pieces leaves. What the pieces differ in is what Linux's own
//! segmentation makes them differ in: IP length and identification, TCP sequence number, PSH and
//! FIN on the last only, CWR on the first only, and the length within the partial checksum.

use crate::headers::{
    IpHeader, TCP, partial_sum_update, put_u16, put_u32, replace_v4_word, set_octet, u16_at, u32_at,
};

/// Length of the virtio-net header that precedes every packet on the device.
pub(crate) const VNET_HEADER: usize = 10;

pub(crate) const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// Added to the GSO type: CWR belongs on the first segment only.
const GSO_ECN: u8 = 0x80;

pub(crate) const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
pub(crate) const PSH: u8 = 0x08;
const URG: u8 = 0x20;
pub(crate) const CWR: u8 = 0x80;

pub(crate) const TCP_CSUM_OFFSET: u16 = 16;
const TCP_FLAGS: usize = 13;

/// The header of virtio 1.2 section 5.1.6 without its buffer count, in the machine's byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VnetHeader {
    pub(crate) flags: u8,
    pub(crate) gso_type: u8,
    pub(crate) header_len: u16,
    pub(crate) gso_size: u16,
    pub(crate) csum_start: u16,
    pub(crate) csum_offset: u16,
}

impl VnetHeader {
    pub(crate) fn parse(bytes: &[u8; VNET_HEADER]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            gso_type: bytes[1],
            header_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    pub(crate) fn emit(&self) -> [u8; VNET_HEADER] {
        let mut bytes = [0; VNET_HEADER];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        let words = [self.header_len, self.gso_size, self.csum_start, self.csum_offset];
        for (at, word) in words.into_iter().enumerate() {
            bytes[2 + 2 * at..4 + 2 * at].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// A packet from the kernel that makes no sense: a super-packet whose headers contradict its
/// virtio-net header, or one longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What a super-packet is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes of the whole super-packet, IP header included.
    pub(crate) len: u32,
    /// How many packets it is.
    pub(crate) segments: u16,
    /// Bytes of headers that every piece begins with; zero for a packet that is never touched but
    /// in its ECN field.
    pub(crate) header_len: u16,
    /// Payload of every piece but the last, which may have less.
    pub(crate) gso_size: u16,
    /// As read: flags, and where the checksum goes.
    pub(crate) vnet: VnetHeader,
    /// Type-of-service or traffic-class octet.
    pub(crate) octet: u8,
    pub(crate) flow_hash: u32,
}

impl Layout {
    /// Reads the headers of a packet, which is one opaque piece unless it is TCP with a partial
    /// checksum.
    pub(crate) fn parse(vnet: VnetHeader, bytes: &[u8]) -> Result<Self, Malformed> {
        let ip = IpHeader::parse(bytes);
        let tcp = ip.as_ref().and_then(|ip| tcp_header_len(&vnet, ip, bytes));
        let opaque = Self {
            octet: ip.map_or(0, |ip| ip.octet),
            flow_hash: ip.map_or(0, |ip| ip.flow_hash(bytes)),
            ..Self::opaque(vnet, bytes.len())?
        };
        match (vnet.gso_type & !GSO_ECN, ip, tcp) {
            (GSO_NONE, _, None) => Ok(opaque),
            (GSO_NONE, _, Some(header_len)) => {
                let gso_size = (bytes.len() - usize::from(header_len)) as u16;
                Ok(Self { header_len, gso_size, ..opaque })
            }
            (kind, Some(ip), Some(header_len)) if kind == gso_type(ip.version) => {
                let payload = bytes.len() - usize::from(header_len);
                let segments = payload.div_ceil(vnet.gso_size.max(1).into()).max(1);
                if vnet.gso_size == 0 {
                    return Err(Malformed);
                }
                let segments = u16::try_from(segments).map_err(|_| Malformed)?;
                Ok(Self { header_len, gso_size: vnet.gso_size, segments, ..opaque })
            }
            _ => Err(Malformed),
        }
    }

    /// One piece of `len` bytes of which nothing is known.
    pub(crate) fn opaque(vnet: VnetHeader, len: usize) -> Result<Self, Malformed> {
        let len = u32::try_from(len).map_err(|_| Malformed)?;
        Ok(Self { len, segments: 1, header_len: 0, gso_size: 0, vnet, octet: 0, flow_hash: 0 })
    }

    /// Whether pieces may be joined with others: TCP with a partial checksum.
    pub(crate) const fn is_tcp(&self) -> bool {
        self.header_len > 0
    }

    /// Length of the piece at `index`, IP header included.
    pub(crate) fn segment_size(&self, index: u16) -> u32 {
        if self.header_len == 0 {
            return self.len;
        }
        let payload = self.payload(index, 1);
        u32::from(self.header_len) + (payload.end - payload.start) as u32
    }

    /// Where the payload of `count` pieces from `index` on lies within the super-packet.
    pub(crate) fn payload(&self, index: u16, count: u16) -> std::ops::Range<usize> {
        let (header, each) = (usize::from(self.header_len), usize::from(self.gso_size));
        let start = header + usize::from(index) * each;
        let end = (start + usize::from(count) * each).min(self.len as usize);
        start..end
    }

    /// Whether the piece at `index` is the last.
    pub(crate) const fn is_last(&self, index: u16) -> bool {
        index + 1 == self.segments
    }

    /// TCP flags of the piece at `index`; `bytes` are the super-packet's.
    pub(crate) fn flags(&self, bytes: &[u8], index: u16) -> u8 {
        let mut flags = bytes[usize::from(self.vnet.csum_start) + TCP_FLAGS];
        if !self.is_last(index) {
            flags &= !(PSH | FIN);
        }
        if index > 0 && self.vnet.gso_type & GSO_ECN != 0 {
            flags &= !CWR;
        }
        flags
    }

    /// TCP sequence number of the piece at `index`.
    pub(crate) fn sequence(&self, bytes: &[u8], index: u16) -> u32 {
        let first = u32_at(bytes, usize::from(self.vnet.csum_start) + 4);
        first.wrapping_add(u32::from(index) * u32::from(self.gso_size))
    }

    /// IPv4 identification of the piece at `index`; zero in IPv6.
    pub(crate) fn identification(&self, bytes: &[u8], index: u16) -> u16 {
        if bytes[0] >> 4 == 4 { u16_at(bytes, 4).wrapping_add(index) } else { 0 }
    }

    /// Whether a piece with these flags must be the last of a super-packet: nothing may follow PSH
    /// or FIN, and what is special travels alone.
    pub(crate) const fn refuses_company(&self, flags: u8) -> bool {
        // With CWR on every piece, cutting again would take it off all but the first.
        let cwr_everywhere = flags & CWR != 0 && self.vnet.gso_type & GSO_ECN == 0;
        flags & (SYN | RST | URG | PSH | FIN) != 0 || cwr_everywhere
    }

    /// Whether two super-packets' headers differ at most in length, identification, checksums,
    /// sequence number, flags and the ECN octet. Both are TCP and their headers equally long.
    pub(crate) fn same_flow_headers(&self, ours: &[u8], theirs: &[u8]) -> bool {
        let same = |range: std::ops::Range<usize>| ours[range.clone()] == theirs[range];
        let tcp = usize::from(self.vnet.csum_start);
        let ip = if ours[0] >> 4 == 4 {
            same(0..1) && same(6..10) && same(12..tcp)
        } else {
            let no_class = |bytes: &[u8]| u32_at(bytes, 0) & 0xf00f_ffff;
            no_class(ours) == no_class(theirs) && same(6..tcp)
        };
        let header_len = usize::from(self.header_len);
        ip && same(tcp..tcp + 4)
            && same(tcp + 8..tcp + 13)
            && same(tcp + 14..tcp + 16)
            && same(tcp + 18..header_len)
    }

    /// Writes the headers of one packet that begins with the piece at `index` and carries
    /// `payload_len` bytes under `flags` and `octet`, to the end of `out`.
    pub(crate) fn write_headers(&self, bytes: &[u8], index: u16, cut: &Cut, out: &mut Vec<u8>) {
        let start = out.len();
        let header_len = usize::from(self.header_len);
        out.extend_from_slice(&bytes[..header_len]);
        let header = &mut out[start..];
        let packet_len = header_len + cut.payload_len;
        if header[0] >> 4 == 4 {
            replace_v4_word(header, 2, packet_len as u16);
            replace_v4_word(header, 4, self.identification(bytes, index));
        } else {
            put_u16(header, 4, (packet_len - 40) as u16);
        }
        set_octet(header, cut.octet);
        let tcp = usize::from(self.vnet.csum_start);
        put_u32(header, tcp + 4, self.sequence(bytes, index));
        header[tcp + TCP_FLAGS] = cut.flags;
        let old_len = (self.len as usize - tcp) as u16;
        let new_len = (packet_len - tcp) as u16;
        if old_len != new_len {
            let at = tcp + usize::from(TCP_CSUM_OFFSET);
            put_u16(header, at, partial_sum_update(u16_at(header, at), old_len, new_len));
        }
    }

    /// The virtio-net header of a packet that [`write_headers`](Self::write_headers) wrote;
    /// `gso_size` is the payload of each of its pieces, or `None` if it is a single one.
    pub(crate) fn vnet_for(&self, bytes: &[u8], cut: &Cut, gso_size: Option<u16>) -> VnetHeader {
        let ecn = if cut.flags & CWR != 0 { GSO_ECN } else { 0 };
        VnetHeader {
            flags: NEEDS_CSUM,
            gso_type: gso_size.map_or(GSO_NONE, |_| gso_type(bytes[0] >> 4) | ecn),
            header_len: self.header_len,
            gso_size: gso_size.unwrap_or(0),
            csum_start: self.vnet.csum_start,
            csum_offset: TCP_CSUM_OFFSET,
        }
    }
}

/// What a packet written from pieces carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) payload_len: usize,
    pub(crate) flags: u8,
    pub(crate) octet: u8,
}

const fn gso_type(version: u8) -> u8 {
    if version == 4 { GSO_TCPV4 } else { GSO_TCPV6 }
}

/// Length of the IP and TCP headers, if this is a whole TCP packet whose checksum is still to be
/// computed, with every length consistent.
fn tcp_header_len(vnet: &VnetHeader, ip: &IpHeader, bytes: &[u8]) -> Option<u16> {
    let start = usize::from(vnet.csum_start);
    let is_tcp = vnet.flags & NEEDS_CSUM != 0
        && vnet.csum_offset == TCP_CSUM_OFFSET
        && ip.protocol == TCP
        && ip.len == start
        && !ip.fragment
        && ip.total_len == bytes.len()
        && bytes.len() >= start + 20;
    if !is_tcp {
        return None;
    }
    let header_len = start + usize::from(bytes[start + 12] >> 4) * 4;
    (header_len >= start + 20 && header_len <= bytes.len()).then_some(header_len as u16)
}
