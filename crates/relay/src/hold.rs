//! Acknowledgements to clients that are held back until servers have given theirs.
//!
//! The kernel acknowledges what it receives, at once. A filter at the way out, hold.bpf.c in
//! weir/relay, knows each connection that this relay accepts from its SYN-ACK on, and lets no
//! acknowledgement pass that goes beyond what is released. When more is released the kernel has
//! nothing to say, so the relay speaks: it sends an acknowledgement by itself, with a mark by which
//! the filter knows it, reads from it what is released, and puts in what the kernel alone knows:
//! the sequence number, the window, the timestamps, and what has come beyond a hole.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::RelayError;
use crate::system;

/// IPPROTO_RAW: what is sent has its IP header with it.
const WITH_HEADER: i32 = 255;
const TCP: u8 = 6;
const ACK: u8 = 0x10;
/// A header, two bytes of padding, and room for the filter to fill in: timestamps, and three blocks
/// of what the client is told selectively.
const SEGMENT: usize = 60;
/// What the filter's maps have: two addresses and two ports, and what it knows of a connection.
const KEY: usize = 36;
const ENTRY: usize = 92;
/// The begin of an entry, which is another one for each connection between the same ends.
const BASE: usize = 4;

/// A filter of the kernel that is attached to the interfaces of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The descriptor of its map of connections that begin, or are over: whoever comes may have
    /// the oldest of them forgotten. It is open as long as the relay runs, as the next one is.
    pub passing: RawFd,
    /// That of the connections that a relay has accepted, and not let go of.
    pub kept: RawFd,
    /// What packets of held connections are marked with (SO_MARK).
    pub mark: u32,
    /// What acknowledgements are marked with that release something.
    pub releasing: u32,
}

/// A connection that the filter does not forget until it is let go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    key: [u8; KEY],
    base: [u8; BASE],
}

/// Holds acknowledgements, and releases them.
pub(crate) struct Hold {
    filter: Filter,
    ipv4: Socket,
    /// None where this host has no IPv6.
    ipv6: Option<Socket>,
}

impl Hold {
    pub(crate) fn new(filter: Filter) -> Result<Self, RelayError> {
        let ipv4 = raw(Domain::IPV4, filter.releasing)
            .map_err(RelayError::system("acknowledging on a raw socket"))?;
        Ok(Self { filter, ipv4, ipv6: raw(Domain::IPV6, filter.releasing).ok() })
    }

    /// What the listening socket is marked with.
    pub(crate) fn mark(&self) -> u32 {
        self.filter.mark
    }

    /// Has the filter know a connection until it is let go, however many others come; none if it
    /// does not know it, and so has not held its acknowledgements from the first.
    pub(crate) fn keep(&self, here: SocketAddr, client: SocketAddr) -> io::Result<Option<Kept>> {
        let key = key(here, client);
        let Some(entry) = system::map_entry::<KEY, ENTRY>(self.filter.passing, &key)? else {
            return Ok(None);
        };
        // What the kernel says meanwhile is not in it; it says more before long.
        system::set_map_entry(self.filter.kept, &key, &entry)?;
        let mut base = [0; BASE];
        base.copy_from_slice(&entry[..BASE]);
        Ok(Some(Kept { key, base }))
    }

    /// A connection is closed: its last packets are held as long as there is room.
    pub(crate) fn let_go(&self, kept: &Kept) {
        let entry = system::map_entry::<KEY, ENTRY>(self.filter.kept, &kept.key);
        // It may be another connection's already.
        if let Ok(Some(entry)) = entry
            && entry[..BASE] == kept.base
        {
            // What cannot be moved is left where it is.
            let _ = system::set_map_entry(self.filter.passing, &kept.key, &entry)
                .and_then(|()| system::remove_map_entry(self.filter.kept, &kept.key));
        }
    }

    /// Acknowledges to a client what it has sent up to this offset, its end included.
    pub(crate) fn release(
        &self,
        here: SocketAddr,
        client: SocketAddr,
        until: u64,
    ) -> io::Result<()> {
        let (here, client) = (canonical(here), canonical(client));
        let packet = acknowledgement(here, client, until);
        let socket = match client {
            SocketAddr::V4(_) => &self.ipv4,
            SocketAddr::V6(_) => self.ipv6.as_ref().ok_or(io::ErrorKind::Unsupported)?,
        };
        // A raw socket wants no port there.
        let mut to = client;
        to.set_port(0);
        socket.send_to(&packet, &SockAddr::from(to)).map(|_| ())
    }
}

fn raw(domain: Domain, mark: u32) -> io::Result<Socket> {
    let kind = Type::RAW.nonblocking().cloexec();
    let socket = Socket::new(domain, kind, Some(Protocol::from(WITH_HEADER)))?;
    socket.set_mark(mark)?;
    Ok(socket)
}

/// IPv4 as such, also where the kernel hands it out as IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// How the filter calls a connection: as its packets to the client do.
fn key(here: SocketAddr, client: SocketAddr) -> [u8; KEY] {
    let mut key = [0; KEY];
    key[..16].copy_from_slice(&octets(here.ip()));
    key[16..32].copy_from_slice(&octets(client.ip()));
    key[32..34].copy_from_slice(&here.port().to_be_bytes());
    key[34..].copy_from_slice(&client.port().to_be_bytes());
    key
}

/// An acknowledgement whose number is the offset itself: the filter knows what to add.
fn acknowledgement(here: SocketAddr, client: SocketAddr, until: u64) -> Vec<u8> {
    let mut segment = [0; SEGMENT];
    segment[0..2].copy_from_slice(&here.port().to_be_bytes());
    segment[2..4].copy_from_slice(&client.port().to_be_bytes());
    // Numbers of TCP go round.
    segment[8..12].copy_from_slice(&until.to_be_bytes()[4..]);
    segment[12] = (SEGMENT as u8 / 4) << 4;
    segment[13] = ACK;
    segment[20..24].copy_from_slice(&[1, 1, 8, 10]);
    segment[32..].fill(1); // no option
    let mut packet = match (here.ip(), client.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            // The kernel puts the length, an identification and the checksum in.
            let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, TCP, 0, 0];
            header.extend_from_slice(&from.octets());
            header.extend_from_slice(&to.octets());
            header
        }
        (from, to) => {
            let mut header = vec![0x60, 0, 0, 0, 0, SEGMENT as u8, TCP, 64];
            header.extend_from_slice(&octets(from));
            header.extend_from_slice(&octets(to));
            header
        }
    };
    let checksum = checksum(here.ip(), client.ip(), &segment);
    segment[16..18].copy_from_slice(&checksum.to_be_bytes());
    packet.extend_from_slice(&segment);
    packet
}

/// TCP's checksum (RFC 9293 section 3.1). The bytes ::ffff:0:0/96 that IPv4 has too many here are
/// all ones, which add nothing.
fn checksum(from: IpAddr, to: IpAddr, segment: &[u8]) -> u16 {
    let addresses = [octets(from), octets(to)].concat();
    let words = addresses.chunks_exact(2).chain(segment.chunks_exact(2));
    let mut sum: u32 = words.map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    sum += u32::from(TCP) + segment.len() as u32;
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a receiver adds up is all ones.
    fn is_sound(from: &[u8], to: &[u8], segment: &[u8]) -> bool {
        let length = (segment.len() as u32).to_be_bytes();
        let all = [from, to, &length, &[0, 0, 0, TCP], segment].concat();
        let sum: u64 = all.chunks(2).map(|two| u64::from(two[0]) << 8 | u64::from(two[1])).sum();
        sum.is_multiple_of(0xFFFF)
    }

    #[test]
    fn an_acknowledgement_is_one_of_the_connection() {
        let (here, client) = ("10.1.2.3:443", "[::ffff:192.0.2.9]:50000");
        let (here, client) = (here.parse().expect("one"), client.parse().expect("one"));
        let packet = acknowledgement(here, canonical(client), (1 << 32) + 0x0102_0304);
        assert_eq!(packet.len(), 80);
        assert_eq!(packet[12..20], [10, 1, 2, 3, 192, 0, 2, 9]);
        let segment = &packet[20..];
        assert_eq!(segment[..4], [1, 187, 0xC3, 0x50]);
        assert_eq!(segment[8..14], [1, 2, 3, 4, 0xF0, 0x10]);
        assert!(is_sound(&packet[12..16], &packet[16..20], segment));
    }

    #[test]
    fn one_of_ipv6_has_its_header() {
        let (here, client) = ("[fd00::1]:443", "[fd00::2]:50000");
        let (here, client) = (here.parse().expect("one"), client.parse().expect("one"));
        let packet = acknowledgement(here, client, 7);
        assert_eq!(packet.len(), 100);
        assert_eq!(packet[..8], [0x60, 0, 0, 0, 0, 60, 6, 64]);
        assert!(is_sound(&packet[8..24], &packet[24..40], &packet[40..]));
    }

    #[test]
    fn the_filter_calls_a_connection_as_its_packets_do() {
        let (here, client) = ("10.1.2.3:443", "[::ffff:192.0.2.9]:50000");
        let key = key(here.parse().expect("one"), client.parse().expect("one"));
        assert_eq!(key[8..18], [0, 0, 0xFF, 0xFF, 10, 1, 2, 3, 0, 0]);
        assert_eq!(key[28..], [192, 0, 2, 9, 1, 187, 0xC3, 0x50]);
    }
}
