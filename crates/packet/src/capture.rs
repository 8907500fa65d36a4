//! What a node sends and receives, as pcapng: IPv4 with TCP and UDP headers, options included,
//! without the data, which the simulator does not carry.
//!
//! Blocks after draft-ietf-opsawg-pcapng: a section header, an interface of link type RAW with a
//! resolution of one nanosecond, one enhanced packet block for each packet, cut after its headers.
//! Sequence numbers are taken modulo 2^32; the timestamp option counts milliseconds.

use std::collections::BTreeMap;
use std::io::Write;

use weir_queue::Ecn;
use weir_tcp::{Flags, Segment};
use weir_units::Time;

use crate::PacketError;
use crate::arena::Handle;

const SECTION: u32 = 0x0A0D_0D0A;
const BYTE_ORDER: u32 = 0x1A2B_3C4D;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// LINKTYPE_RAW: the packet begins with its IP header.
const LINKTYPE_RAW: u16 = 101;
const OPTION_RESOLUTION: u16 = 9;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// 10.77.0.1 is the first node, as in the lab.
const FIRST_ADDRESS: u32 = 0x0A4D_0001;

/// One open capture.
pub(crate) struct Capture {
    pub(crate) node: usize,
    out: Box<dyn Write + Send>,
    place: String,
    /// The first error; nothing is written after it.
    failed: Option<std::io::Error>,
    block: Vec<u8>,
    /// The window scale that each sender offered in its SYN.
    scales: BTreeMap<Ends, u8>,
}

/// Where a packet comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) ports: [u16; 2],
}

impl Capture {
    /// A capture at `node` into `out`, which messages call `place`.
    pub(crate) fn new(node: usize, out: Box<dyn Write + Send>, place: String) -> Self {
        let mut capture =
            Self { node, out, place, failed: None, block: Vec::new(), scales: BTreeMap::new() };
        // Unknown length of the section.
        let mut section = Vec::new();
        put32(&mut section, BYTE_ORDER);
        section.extend([1, 0, 0, 0]);
        section.extend(u64::MAX.to_le_bytes());
        capture.write(SECTION, &section);
        let mut interface = Vec::new();
        interface.extend(LINKTYPE_RAW.to_le_bytes());
        interface.extend([0; 6]); // reserved, and no limit to the length
        interface.extend(OPTION_RESOLUTION.to_le_bytes());
        interface.extend([1, 0, 9, 0, 0, 0, 0, 0, 0, 0]); // 10^-9 s, padded; end of options
        capture.write(INTERFACE, &interface);
        capture
    }

    /// A TCP segment passes the node.
    pub(crate) fn tcp(&mut self, now: Time, handle: &Handle, ends: Ends, segment: &Segment) {
        let mut header = Vec::with_capacity(100);
        if let Some(offer) = &segment.offer {
            self.scales.insert(ends, offer.window_scale.unwrap_or(0));
        }
        let is_syn = segment.flags.has(Flags::SYN);
        let scale = if is_syn { 0 } else { self.scales.get(&ends).copied().unwrap_or(0) };
        tcp_header(&mut header, ends, segment, scale);
        self.packet(now, handle, ends, TCP, &header);
    }

    /// A datagram passes the node.
    pub(crate) fn udp(&mut self, now: Time, handle: &Handle, ends: Ends) {
        let mut header = Vec::with_capacity(8);
        header.extend(ends.ports[0].to_be_bytes());
        header.extend(ends.ports[1].to_be_bytes());
        header.extend(handle.size.saturating_sub(20).to_be_bytes());
        header.extend([0, 0]); // no checksum
        self.packet(now, handle, ends, UDP, &header);
    }

    /// Writes what is left and says whether all could be written.
    pub(crate) fn finish(mut self) -> Result<(), PacketError> {
        let flushed = self.out.flush();
        match self.failed.map_or(flushed, Err) {
            Ok(()) => Ok(()),
            Err(source) => Err(PacketError::Write { place: self.place, source }),
        }
    }

    fn packet(&mut self, now: Time, handle: &Handle, ends: Ends, protocol: u8, transport: &[u8]) {
        let mut packet = Vec::with_capacity(160);
        ip_header(&mut packet, handle, ends, protocol);
        packet.extend(transport);
        let captured = packet.len().min(handle.size.into());
        packet.truncate(captured);
        let mut body = Vec::with_capacity(packet.len() + 24);
        put32(&mut body, 0);
        put32(&mut body, (now.as_ns() >> 32) as u32);
        put32(&mut body, now.as_ns() as u32);
        put32(&mut body, captured as u32);
        put32(&mut body, u32::from(handle.size));
        body.extend(&packet);
        self.write(PACKET, &body);
    }

    fn write(&mut self, kind: u32, body: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let padded = body.len().next_multiple_of(4);
        let length = (padded + 12) as u32;
        self.block.clear();
        put32(&mut self.block, kind);
        put32(&mut self.block, length);
        self.block.extend(body);
        self.block.resize(8 + padded, 0);
        put32(&mut self.block, length);
        self.failed = self.out.write_all(&self.block).err();
    }
}

fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend(value.to_le_bytes());
}

fn ip_header(out: &mut Vec<u8>, handle: &Handle, ends: Ends, protocol: u8) {
    let ecn = match handle.ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    out.extend([0x45, (handle.dscp.value() << 2) | ecn]);
    out.extend(handle.size.to_be_bytes());
    out.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]); // do not fragment, 64 hops, checksum below
    out.extend((FIRST_ADDRESS + ends.from).to_be_bytes());
    out.extend((FIRST_ADDRESS + ends.to).to_be_bytes());
    let words = out.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    out[10..12].copy_from_slice(&checksum.to_be_bytes());
}

fn tcp_header(out: &mut Vec<u8>, ends: Ends, segment: &Segment, scale: u8) {
    let mut options = Vec::with_capacity(40);
    if let Some(offer) = &segment.offer {
        options.extend([2, 4]);
        options.extend(offer.mss.to_be_bytes());
        if offer.sack {
            options.extend([1, 1, 4, 2]);
        }
        if let Some(scale) = offer.window_scale {
            options.extend([1, 3, 3, scale]);
        }
    }
    if segment.ts_val > Time::ZERO || segment.ts_ecr > Time::ZERO {
        options.extend([1, 1, 8, 10]);
        options.extend(((segment.ts_val.as_ns() / 1_000_000) as u32).to_be_bytes());
        options.extend(((segment.ts_ecr.as_ns() / 1_000_000) as u32).to_be_bytes());
    }
    if let Some((ce, ect1)) = segment.accurate_ecn {
        // RFC 9768 section 3.2.3, order 1: EE1B, ECEB; the rest is left out.
        options.extend([174, 8]);
        options.extend(&(ect1 as u32).to_be_bytes()[1..]);
        options.extend(&(ce as u32).to_be_bytes()[1..]);
    }
    // What the header has room for.
    let room = (40 - options.len().min(38) - 2) / 8;
    let blocks = &segment.sack_blocks()[..segment.sack_blocks().len().min(room)];
    if !blocks.is_empty() {
        options.extend([5, 2 + 8 * blocks.len() as u8]);
        for block in blocks {
            options.extend((block.start as u32).to_be_bytes());
            options.extend((block.end as u32).to_be_bytes());
        }
    }
    options.resize(options.len().next_multiple_of(4), 1);
    let words = 5 + options.len() as u16 / 4;
    out.extend(ends.ports[0].to_be_bytes());
    out.extend(ends.ports[1].to_be_bytes());
    out.extend((segment.seq as u32).to_be_bytes());
    let ack = if segment.flags.has(Flags::ACK) { segment.ack as u32 } else { 0 };
    out.extend(ack.to_be_bytes());
    out.extend(((words << 12) | segment.flags.bits()).to_be_bytes());
    out.extend(((segment.window >> scale).min(0xffff) as u16).to_be_bytes());
    out.extend([0; 4]); // checksum and urgent pointer
    out.extend(&options);
}
