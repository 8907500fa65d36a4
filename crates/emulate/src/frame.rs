//! Ethernet frames, where a link ends at a switch's port: headers made for packets that came
//! without, and checksums done that a kernel would have done on the way out.
//!
//! Addresses follow from the packet's own (02:77 and the four bytes of the IPv4 address, so that
//! 10.77.0.1 is 02:77:0a:4d:00:01), as if every host knew every other by a static neighbour:
//! nobody asks by ARP, and a switch that learns addresses learns hosts. A device that carries
//! packets takes whatever a port sends it, as a kernel with one peer would.

use std::io::IoSlice;

use crate::arena::{Arena, SuperId};
use crate::headers::{ETHERNET_HEADER, IpHeader, ones_sum, put_u16};
use crate::offload::{Layout, Malformed, NEEDS_CSUM, VnetHeader};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Locally administered, unicast.
const PREFIX: [u8; 2] = [0x02, 0x77];

/// Reads a frame from a device that finishes packets itself. What is not IP is one opaque piece.
pub(crate) fn parse(vnet: VnetHeader, frame: &[u8]) -> Result<Layout, Malformed> {
    let (header, packet) = frame.split_at_checked(ETHERNET_HEADER).ok_or(Malformed)?;
    if packet.is_empty() || vnet != VnetHeader::default() {
        return Err(Malformed);
    }
    if carries_ip(header) {
        Layout::parse(vnet, packet)
    } else {
        Layout::opaque(vnet, packet.len())
    }
}

/// Whether an IP packet follows this header.
pub(crate) fn carries_ip(header: &[u8]) -> bool {
    matches!(u16::from_be_bytes([header[12], header[13]]), IPV4 | IPV6)
}

/// The header for a packet: its own if it came with one, else made from its addresses.
pub(crate) fn header(arena: &Arena, of: SuperId) -> [u8; ETHERNET_HEADER] {
    match arena.ethernet(of).map(TryFrom::try_from) {
        Some(Ok(own)) => own,
        _ => made_for(arena.bytes(of)),
    }
}

fn made_for(packet: &[u8]) -> [u8; ETHERNET_HEADER] {
    let mut header = [0; ETHERNET_HEADER];
    let Some(ip) = IpHeader::parse(packet) else { return header };
    let (source, destination, kind) = if ip.version == 4 {
        (&packet[12..16], v4_receiver(&packet[16..20]), IPV4)
    } else {
        (&packet[20..24], v6_receiver(&packet[24..40]), IPV6)
    };
    header[..6].copy_from_slice(&destination);
    header[6..12].copy_from_slice(&unicast(source));
    put_u16(&mut header, 12, kind);
    header
}

fn unicast(last: &[u8]) -> [u8; 6] {
    [PREFIX[0], PREFIX[1], last[0], last[1], last[2], last[3]]
}

fn v4_receiver(address: &[u8]) -> [u8; 6] {
    match address {
        [255, 255, 255, 255] => [0xff; 6],
        // RFC 1112 section 6.4.
        [224..=239, b, c, d] => [0x01, 0x00, 0x5e, b & 0x7f, *c, *d],
        _ => unicast(address),
    }
}

fn v6_receiver(address: &[u8]) -> [u8; 6] {
    let last = &address[12..];
    if address[0] == 0xff {
        [0x33, 0x33, last[0], last[1], last[2], last[3]] // RFC 2464 section 7
    } else {
        unicast(last)
    }
}

/// Does what `vnet` says is still to be done for the checksum of `headers` and `payload` together,
/// which begin with the IP header. The field holds the sum of the pseudo-header.
pub(crate) fn finish_checksum(vnet: &VnetHeader, headers: &mut [u8], payload: &[u8]) {
    let start = usize::from(vnet.csum_start);
    let at = start + usize::from(vnet.csum_offset);
    if vnet.flags & NEEDS_CSUM == 0 || at + 2 > headers.len() {
        return;
    }
    let sum = ones_sum(&headers[start..], payload);
    // RFC 768: a sum of zero would say that there is none; in TCP both mean the same.
    put_u16(headers, at, if sum == 0xffff { 0xffff } else { !sum });
}

/// The parts of a frame in one write: what precedes the packet, and the packet.
pub(crate) fn parts<'a>(before: &'a [u8], packet: &'a [u8]) -> [IoSlice<'a>; 2] {
    [IoSlice::new(before), IoSlice::new(packet)]
}
