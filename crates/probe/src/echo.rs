//! Echo requests and their replies on a socket: by ICMP, which every host answers, or by our UDP.
//!
//! Round-trip times are differences of kernel timestamps where the kernel gives both
//! (Documentation/networking/timestamping.rst): what a busy machine does to this process in between
//! is not in them, and replies may be read long after they have come.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::str::FromStr;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, Timestamps, recvmsg, send};
use weir_units::Time;

use crate::message::{self, Token};
use crate::system;

/// Requests whose replies can still be told: minutes at most rates.
const REMEMBERED: u64 = 1 << 14;
/// More than a request with the headers of any link, which come back with its stamp.
const PACKET_BYTES: usize = 2048;
/// Packets read before time is looked at again.
const AT_ONCE_MAX: usize = 1024;
const ICMP_HEADER_BYTES: usize = 8;

/// What a socket wants around the payload (RFC 792, RFC 4443).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A UDP socket: nothing.
    Udp,
    /// A ping socket for IPv4: an ICMP header; the kernel fills in identifier and sum.
    Icmp,
    /// A raw socket for IPv4: an ICMP header with its sum, and replies with the IP header.
    RawIcmp,
    /// A ping or raw socket for IPv6: an ICMPv6 header; the kernel fills in the sum.
    Icmpv6,
}

/// The name is neither "udp", "icmp", "icmp-raw" nor "icmpv6".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFraming;

impl FromStr for Framing {
    type Err = UnknownFraming;

    fn from_str(name: &str) -> Result<Self, UnknownFraming> {
        match name {
            "udp" => Ok(Self::Udp),
            "icmp" => Ok(Self::Icmp),
            "icmp-raw" => Ok(Self::RawIcmp),
            "icmpv6" => Ok(Self::Icmpv6),
            _ => Err(UnknownFraming),
        }
    }
}

/// An answered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The number it was sent under.
    pub key: u64,
    /// From the request's way out to the reply's way in, less what the responder says that it
    /// kept the packet.
    pub rtt: Time,
    /// Whether the kernel stamped both ways; otherwise this process's wake-ups are in it.
    pub is_stamped: bool,
}

/// An instant by both clocks.
#[derive(Clone, Copy, Debug)]
struct Instant {
    /// By the wall clock, with which the kernel stamps.
    real: Time,
    monotonic: Time,
}

impl Instant {
    fn now() -> Self {
        Self { real: system::wall_clock(), monotonic: system::monotonic() }
    }
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    /// Whether `at.real` is the kernel's.
    is_stamped: bool,
}

/// Sends numbered requests to the one host that a socket is connected to, and tells the replies
/// apart.
#[derive(Debug)]
pub struct Echo {
    socket: OwnedFd,
    framing: Framing,
    token: Token,
    identifier: u16,
    sent: HashMap<u64, Sent>,
    stamped: u64,
    /// Requests whose stamps may still be on the error queue.
    unstamped: usize,
    refusal: Option<Errno>,
    packet: Box<[u8; PACKET_BYTES]>,
    control: Vec<u8>,
}

impl Echo {
    /// Echoes through what `socket` stands for, which stays the caller's: connected, and asked to
    /// stamp what it sends (`SOF_TIMESTAMPING_TX_SCHED`) and receives.
    ///
    /// # Errors
    ///
    /// The number is not a descriptor, or the process has no descriptor left.
    pub fn new(socket: RawFd, framing: Framing) -> io::Result<Self> {
        // Random keys of the process: enough to tell probers apart.
        let random = || RandomState::new().hash_one(0).to_be_bytes();
        let [high, low, ..] = random();
        Ok(Self {
            socket: system::duplicate(socket)?,
            framing,
            token: random(),
            identifier: u16::from_be_bytes([high, low]),
            sent: HashMap::new(),
            stamped: 0,
            unstamped: 0,
            refusal: None,
            packet: Box::new([0; PACKET_BYTES]),
            // The stamp, and what the error queue says beside it.
            control: cmsg_space!(Timestamps, libc::sock_extended_err, libc::sockaddr_in6),
        })
    }

    /// Sends request `key`. One that the network does not take counts as sent: it is lost.
    pub fn send(&mut self, key: u64) {
        let mut packet = [0; ICMP_HEADER_BYTES + message::SIZE];
        let packet = self.framing.wrap(&mut packet, self.token, self.identifier, key);
        self.sent.insert(key, Sent { at: Instant::now(), is_stamped: false });
        self.sent.remove(&key.wrapping_sub(REMEMBERED));
        // Counted even if the kernel does not take it: its stamp may have been made all the same.
        self.unstamped += 1;
        if let Err(error) = send(self.socket.as_raw_fd(), packet, MsgFlags::MSG_DONTWAIT) {
            self.refusal = Some(error);
        }
    }

    /// Takes the replies that have come since the last call; never waits.
    pub fn replies(&mut self, into: &mut Vec<Reply>) {
        // Unread stamps would make the socket look readable.
        while self.unstamped > 0
            && let Ok((size, stamp)) = self.receive(MsgFlags::MSG_ERRQUEUE)
        {
            self.unstamped -= 1;
            self.take_stamp(size, stamp);
        }
        for _ in 0..AT_ONCE_MAX {
            match self.receive(MsgFlags::empty()) {
                Ok((size, stamp)) => into.extend(self.reply(size, stamp, Instant::now())),
                Err(Errno::EAGAIN) => return,
                // An ICMP error that answered an earlier request; replies may stand behind it.
                Err(error) => self.refusal = Some(error),
            }
        }
    }

    /// What the network said when it did not take or deliver a request, `None` if nothing.
    pub fn refusal(&self) -> Option<&'static str> {
        self.refusal.map(Errno::desc)
    }

    /// Replies so far whose round-trip time is a difference of kernel timestamps.
    pub fn stamped(&self) -> u64 {
        self.stamped
    }

    /// The next packet's size and stamp.
    fn receive(&mut self, flags: MsgFlags) -> Result<(usize, Option<Time>), Errno> {
        let mut places = [IoSliceMut::new(&mut self.packet[..])];
        let flags = flags | MsgFlags::MSG_DONTWAIT;
        let fd = self.socket.as_raw_fd();
        let received = recvmsg::<()>(fd, &mut places, Some(&mut self.control), flags)?;
        let stamp = received.cmsgs().into_iter().flatten().find_map(|message| match message {
            ControlMessageOwned::ScmTimestampsns(stamps) => Some(system::since(&stamps.system)),
            _ => None,
        });
        Ok((received.bytes, stamp.filter(|stamp| *stamp > Time::ZERO)))
    }

    /// A request has come back from its way out, with all its headers in front.
    fn take_stamp(&mut self, size: usize, stamp: Option<Time>) {
        let payload = self.packet[..size].last_chunk::<{ message::SIZE }>();
        let told = payload.and_then(|payload| message::parse(payload));
        let (Some(told), Some(stamp)) = (told, stamp) else { return };
        if told.token == self.token
            && let Some(sent) = self.sent.get_mut(&told.key)
        {
            sent.at.real = stamp;
            sent.is_stamped = true;
        }
    }

    fn reply(&mut self, size: usize, stamp: Option<Time>, now: Instant) -> Option<Reply> {
        let told = message::parse(self.framing.payload(&self.packet[..size])?)?;
        if told.token != self.token || (self.framing == Framing::Udp && !told.is_reply) {
            return None;
        }
        // Taken out, so that a duplicate counts once.
        let sent = self.sent.remove(&told.key)?;
        let (rtt, is_stamped) = round_trip(sent, stamp, now);
        self.stamped += u64::from(is_stamped);
        let kept = u64::try_from(told.kept_ns).map_or(Time::ZERO, Time::from_ns);
        let kept = if kept <= rtt { kept } else { Time::ZERO };
        Some(Reply { key: told.key, rtt: rtt - kept, is_stamped })
    }
}

impl AsFd for Echo {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Framing {
    /// Request `key` as the socket wants it.
    fn wrap(
        self,
        packet: &mut [u8; ICMP_HEADER_BYTES + message::SIZE],
        token: Token,
        identifier: u16,
        key: u64,
    ) -> &[u8] {
        packet[ICMP_HEADER_BYTES..].copy_from_slice(&message::request(token, key));
        if self == Self::Udp {
            return &packet[ICMP_HEADER_BYTES..];
        }
        let (request, _) = self.icmp_types();
        packet[0] = request;
        packet[4..6].copy_from_slice(&identifier.to_be_bytes());
        packet[6..8].copy_from_slice(&(key as u16).to_be_bytes());
        if self == Self::RawIcmp {
            let sum = internet_checksum(packet);
            packet[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        packet
    }

    /// The payload of an echo reply; `None` if the packet is anything else.
    fn payload(self, packet: &[u8]) -> Option<&[u8]> {
        let icmp = match self {
            Self::Udp => return Some(packet),
            // Raw IPv4 sockets give the IP header, too, and see every ICMP packet of the peer.
            Self::RawIcmp => packet.get(usize::from(packet.first()? & 0x0F) * 4..)?,
            Self::Icmp | Self::Icmpv6 => packet,
        };
        let (header, payload) = icmp.split_at_checked(ICMP_HEADER_BYTES)?;
        (header[0] == self.icmp_types().1).then_some(payload)
    }

    /// The ICMP types of echo request and reply.
    fn icmp_types(self) -> (u8, u8) {
        if self == Self::Icmpv6 { (128, 129) } else { (8, 0) }
    }
}

/// The time from `sent` to a reply that the kernel stamped with `stamp` and that was read `now`,
/// and whether it is by stamps alone.
fn round_trip(sent: Sent, stamp: Option<Time>, now: Instant) -> (Time, bool) {
    let at_most = now.monotonic.saturating_sub(sent.at.monotonic);
    let came = stamp.unwrap_or(now.real);
    // Stamps are of the wall clock: where it disagrees, somebody has set it in between.
    if sent.at.real <= came && came - sent.at.real <= at_most {
        (came - sent.at.real, stamp.is_some() && sent.is_stamped)
    } else {
        (at_most, false)
    }
}

/// The ones' complement sum of RFC 1071 over an even number of bytes.
fn internet_checksum(packet: &[u8]) -> u16 {
    let words = packet.as_chunks().0.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    !((sum & 0xFFFF) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Instant = Instant { real: Time::from_ms(1_000_000), monotonic: Time::from_ms(50) };

    fn after_ms(ms: u64) -> Instant {
        let span = Time::from_ms(ms);
        Instant { real: SENT.real + span, monotonic: SENT.monotonic + span }
    }

    #[test]
    fn a_reply_that_is_read_late_took_what_the_stamps_say() {
        let stamp = SENT.real + Time::from_ms(20);
        let sent = Sent { at: SENT, is_stamped: true };
        assert_eq!(round_trip(sent, Some(stamp), after_ms(30)), (Time::from_ms(20), true));
        assert_eq!(round_trip(sent, None, after_ms(30)), (Time::from_ms(30), false));
        let unstamped = Sent { at: SENT, is_stamped: false };
        assert_eq!(round_trip(unstamped, Some(stamp), after_ms(30)), (Time::from_ms(20), false));
    }

    #[test]
    fn a_clock_that_is_set_meanwhile_spoils_no_round_trip() {
        let sent = Sent { at: SENT, is_stamped: true };
        let hour = Time::from_ms(3_600_000);
        let true_stamp = SENT.real + Time::from_ms(20);
        for stamp in [true_stamp + hour, SENT.real - Time::from_ns(1), Time::from_ns(1)] {
            assert_eq!(round_trip(sent, Some(stamp), after_ms(21)), (Time::from_ms(21), false));
        }
    }

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // Section 3: these eight bytes sum to ddf2, whose complement is sent.
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(internet_checksum(&example), 0xFFFF - 0xDDF2);
        assert_eq!(internet_checksum(&[0xFF; 4]), 0);
    }

    #[test]
    fn what_is_wrapped_for_a_raw_socket_sums_to_zero_and_is_told_from_behind_the_ip_header() {
        let mut packet = [0; ICMP_HEADER_BYTES + message::SIZE];
        Framing::RawIcmp.wrap(&mut packet, *b"12345678", 0xABCD, 70_000);
        assert_eq!(internet_checksum(&packet), 0);
        assert_eq!(packet[..2], [8, 0]);
        assert_eq!(packet[4..8], [0xAB, 0xCD, 0x11, 0x70]);
        for options in [0, 40] {
            let mut whole = vec![0; 20 + options];
            whole[0] = 0x45 + (options / 4) as u8;
            whole.extend(packet);
            // It is a request as yet.
            assert_eq!(Framing::RawIcmp.payload(&whole), None);
            whole[20 + options] = 0;
            assert_eq!(Framing::RawIcmp.payload(&whole), Some(&packet[ICMP_HEADER_BYTES..]));
        }
        for short in [&[][..], &[0x45], &[0x4F; 59], &[0x45; 27]] {
            assert_eq!(Framing::RawIcmp.payload(short), None);
        }
        assert_eq!(Framing::Icmpv6.payload(&[129; 9]), Some(&[129][..]));
        assert_eq!(Framing::Icmp.payload(&[129; 9]), None);
    }
}
