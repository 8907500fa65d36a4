//! Socket options that the mover depends on; the only place that calls `setsockopt` by number.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::error::TransferError;

/// A peer that acknowledges nothing for this long is gone.
const USER_TIMEOUT: Duration = Duration::from_secs(30);
/// Unsent bytes in the kernel above which a sender waits: little enough that a change of rate or
/// congestion control acts on nearly all that is still to come, enough to keep 20 Gbit/s busy.
pub(crate) const NOT_SENT_LOWAT: u32 = 1 << 20;
/// The same for a spare connection: what is unsent there may be stuck.
pub(crate) const SPARE_NOT_SENT_LOWAT: u32 = 1 << 17;

/// The largest segment that Linux lets a socket ask for (`MAX_TCP_WINDOW`).
const SEGMENT_MAX: u32 = 32_767;

/// The most bytes that are gathered before a reader is woken.
const LOW_WATER_MAX: usize = 1 << 18;

/// More than any kernel fills (248 bytes in Linux 6.18); it says how much it did.
const TCP_INFO_LIMIT: usize = 256;
/// Where `tcpi_bytes_received` stands in it.
const BYTES_RECEIVED: usize = 128;
/// Where `tcpi_bytes_acked` stands in it.
const BYTES_ACKED: usize = 120;
/// Where `tcpi_retransmits` stands in it, a byte.
const SENT_AGAIN: usize = 2;
/// Where `tcpi_probes` stands in it, a byte.
const PROBES: usize = 3;
/// Where `tcpi_ca_state` stands in it, a byte: what it is while nothing is taken for lost, and
/// after a time-out.
const CONTROL_STATE: usize = 1;
const OPEN: u8 = 0;
const LOSS: u8 = 4;
/// Where `tcpi_snd_mss`, `tcpi_unacked`, `tcpi_rtt`, `tcpi_snd_ssthresh`, `tcpi_snd_cwnd`,
/// `tcpi_total_retrans`, `tcpi_pacing_rate`, `tcpi_max_pacing_rate`, `tcpi_notsent_bytes` and
/// `tcpi_min_rtt` stand in it.
const SEGMENT: usize = 16;
const UNACKED: usize = 24;
const ROUND_TRIP: usize = 68;
const THRESHOLD: usize = 76;
const CONGESTION_WINDOW: usize = 80;
const RETRANSMITTED: usize = 100;
const PACE: usize = 104;
const PACE_MAX: usize = 112;
const NOT_SENT: usize = 144;
const LEAST_ROUND_TRIP: usize = 148;
/// Where `tcpi_snd_wnd` stands in it, since Linux 5.4.
const WINDOW: usize = 228;

/// Options of every connection: a vanished peer is noticed even when nothing is to be sent.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(4);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    stream.set_nodelay(true)
}

/// A connection whose packets have at most so many bytes, which only its begin can settle.
pub(crate) fn connect_with_packets(
    address: &SocketAddr,
    timeout: Duration,
    packet: u16,
) -> io::Result<TcpStream> {
    let headers = if address.is_ipv4() { 40 } else { 60 };
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_mss(u32::from(packet).saturating_sub(headers).min(SEGMENT_MAX))?;
    socket.connect_timeout(&(*address).into(), timeout)?;
    Ok(socket.into())
}

/// Lets this process open as many descriptors as it may; a long-running server or a wide tree
/// needs more than the usual 1024.
pub(crate) fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it fails, what was allowed before has to do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Options of a data connection.
pub(crate) fn prepare_data(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    set_unsent_max(stream, NOT_SENT_LOWAT)
}

/// Lets a sender wait once `bytes` are unsent in the kernel.
pub(crate) fn set_unsent_max(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    SockRef::from(stream).set_tcp_notsent_lowat(bytes)
}

/// Marks the packets of a connection from now on: DSCP times 4, the ECN bits are the kernel's.
pub(crate) fn set_traffic_class(stream: &TcpStream, class: u32) -> io::Result<()> {
    let socket = SockRef::from(stream);
    if stream.local_addr()?.is_ipv4() {
        return socket.set_tos_v4(class);
    }
    // A socket of IPv6 may carry IPv4 too.
    socket.set_tclass_v6(class)?;
    socket.set_tos_v4(class)
}

/// Switches the congestion control of a live connection.
pub(crate) fn set_congestion(stream: &TcpStream, name: &str) -> Result<(), TransferError> {
    SockRef::from(stream)
        .set_tcp_congestion(name.as_bytes())
        .map_err(|source| TransferError::Congestion { name: name.to_owned(), source })
}

/// The congestion control that a connection has.
pub(crate) fn congestion(stream: &TcpStream) -> io::Result<String> {
    let name = SockRef::from(stream).tcp_congestion()?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// The control under which a connection starts slowly again, whatever it has learnt.
const FORGETFUL: &[u8] = b"bbr";
/// Those that start slowly up to a threshold, above which they grow much slower.
const WITH_THRESHOLD: [&str; 2] = ["cubic", "reno"];

/// Has a connection look anew for what its path carries, as one does that has just begun: from the
/// window that it has, in slow start.
///
/// No option of Linux says so. But BBR has no use for the threshold where slow start ends, and
/// takes it away from whoever changes to it; back with its own control, the connection starts
/// slowly. Where this process may not use BBR, nothing changes.
pub(crate) fn begin_anew(stream: &TcpStream) -> io::Result<()> {
    let name = congestion(stream)?;
    if WITH_THRESHOLD.contains(&name.as_str()) {
        let socket = SockRef::from(stream);
        socket.set_tcp_congestion(FORGETFUL)?;
        socket.set_tcp_congestion(name.as_bytes())?;
    }
    Ok(())
}

/// Paces a connection's payload at `bytes_per_s`; `u64::MAX` is unpaced. No qdisc is needed:
/// TCP paces by its own timer where `fq` is absent.
pub(crate) fn set_pacing(stream: &TcpStream, bytes_per_s: u64) -> io::Result<()> {
    set_option(stream, libc::SO_MAX_PACING_RATE, bytes_per_s)
}

/// The mark at which a reader that needs `bytes` should be woken.
///
/// At most a piece that fits the cache, and never more than an eighth of the receive buffer:
/// below that the window has room for another segment, so what is waited for can arrive.
pub(crate) fn low_water_mark(stream: &TcpStream, bytes: usize) -> io::Result<u32> {
    let room = SockRef::from(stream).recv_buffer_size()? / 8;
    Ok(bytes.min(room).clamp(1, LOW_WATER_MAX) as u32)
}

/// Wakes the reader only once `bytes` are there, or the stream has ended: fewer wake-ups.
pub(crate) fn set_receive_low_water(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    set_option(stream, libc::SO_RCVLOWAT, bytes)
}

/// What the kernel tells of a connection: as much of `struct tcp_info` as it fills.
#[allow(unsafe_code)]
pub(crate) fn tcp_info(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut told = vec![0u8; TCP_INFO_LIMIT];
    let mut length = TCP_INFO_LIMIT as libc::socklen_t;
    // SAFETY: the descriptor is open while `stream` is borrowed, and the kernel writes at most
    // `length` bytes, which `told` has.
    let result = unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            told.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    told.truncate(length as usize);
    Ok(told)
}

/// Bytes that have arrived since the connection was made (`tcpi_bytes_received`).
pub(crate) fn bytes_received(stream: &TcpStream) -> io::Result<u64> {
    count_at(stream, BYTES_RECEIVED)
}

/// Bytes that the other end has taken since the connection was made (`tcpi_bytes_acked`).
pub(crate) fn bytes_acked(stream: &TcpStream) -> io::Result<u64> {
    count_at(stream, BYTES_ACKED)
}

/// How a connection's bytes fare.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outflow {
    /// Bytes that the other end has taken since the connection was made.
    pub(crate) acked: u64,
    /// Bytes that the kernel holds, at most a segment more: on their way, or not yet sent.
    pub(crate) held: u64,
    /// The smoothed round trip.
    pub(crate) round_trip: Duration,
    /// The least of the last minutes.
    pub(crate) least_round_trip: Duration,
    /// Bytes of a segment.
    pub(crate) segment: u32,
    /// Segments that were sent again since the connection was made.
    pub(crate) retransmitted: u32,
    /// The other end's window takes nothing more: it is its reader that is slow.
    pub(crate) is_blocked: bool,
    /// Bytes on their way.
    pub(crate) on_the_way: u64,
    /// It has more to send than its congestion control allows, whose window grows slowly: slow
    /// start is over.
    pub(crate) is_held_back: bool,
}

/// How the bytes fare that were handed to the kernel.
pub(crate) fn outflow(stream: &TcpStream) -> io::Result<Outflow> {
    let told = tcp_info(stream)?;
    let segment = u32_at(&told, SEGMENT)?;
    let unacked = u64::from(u32_at(&told, UNACKED)?) * u64::from(segment);
    let not_sent = u32_at(&told, NOT_SENT)?;
    let span = |place| Ok::<_, io::Error>(Duration::from_micros(u32_at(&told, place)?.into()));
    Ok(Outflow {
        acked: u64_at(&told, BYTES_ACKED)?,
        held: unacked + u64::from(not_sent),
        round_trip: span(ROUND_TRIP)?,
        least_round_trip: span(LEAST_ROUND_TRIP)?,
        segment,
        retransmitted: u32_at(&told, RETRANSMITTED)?,
        // An older kernel does not tell the window.
        is_blocked: u32_at(&told, WINDOW)
            .is_ok_and(|window| unacked + u64::from(segment) > u64::from(window)),
        on_the_way: unacked,
        is_held_back: not_sent > 0
            && matches!(told.get(CONTROL_STATE), Some(&(OPEN | LOSS)))
            && u32_at(&told, CONGESTION_WINDOW)? >= u32_at(&told, THRESHOLD)?
            && u64_at(&told, PACE)? < u64_at(&told, PACE_MAX)?,
    })
}

/// Bytes of a segment that a connection sends.
pub(crate) fn segment(stream: &TcpStream) -> io::Result<u32> {
    u32_at(&tcp_info(stream)?, SEGMENT)
}

/// How often in a row the oldest segment under way was sent again in vain, and the bytes of the
/// packets that a connection sends at most.
pub(crate) fn vain(stream: &TcpStream) -> io::Result<(u8, u32)> {
    let told = tcp_info(stream)?;
    // TCP's own header has its timestamps.
    let headers = if stream.peer_addr()?.is_ipv4() { 52 } else { 72 };
    let times = told.get(SENT_AGAIN).copied().ok_or(io::ErrorKind::Unsupported)?;
    Ok((times, u32_at(&told, SEGMENT)?.saturating_add(headers)))
}

/// How often in a row the other end did not answer what was sent again, or a probe of its window.
/// Probes stand for what could not even leave: a host that has no route any more.
pub(crate) fn unanswered(stream: &TcpStream) -> io::Result<u8> {
    let told = tcp_info(stream)?;
    let times = told.get(SENT_AGAIN..=PROBES).ok_or(io::ErrorKind::Unsupported)?;
    Ok(times.iter().copied().max().unwrap_or(0))
}

/// Whether a name was not resolved for want of a name server that answers (`EAI_AGAIN`), of which
/// the standard library keeps the words alone.
#[allow(unsafe_code)]
pub(crate) fn is_resolver_away(error: &io::Error) -> bool {
    // SAFETY: it returns a string that is never freed and ends with a zero.
    let words = unsafe { std::ffi::CStr::from_ptr(libc::gai_strerror(libc::EAI_AGAIN)) };
    error.to_string().ends_with(&*words.to_string_lossy())
}

fn count_at(stream: &TcpStream, place: usize) -> io::Result<u64> {
    u64_at(&tcp_info(stream)?, place)
}

fn u64_at(told: &[u8], place: usize) -> io::Result<u64> {
    let field = told.get(place..place + 8).and_then(|bytes| bytes.try_into().ok());
    field.map(u64::from_ne_bytes).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

fn u32_at(told: &[u8], place: usize) -> io::Result<u32> {
    let field = told.get(place..place + 4).and_then(|bytes| bytes.try_into().ok());
    field.map(u32::from_ne_bytes).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

#[allow(unsafe_code)]
fn set_option<T>(stream: &TcpStream, option: libc::c_int, value: T) -> io::Result<()> {
    // SAFETY: the descriptor is open while `stream` is borrowed, and the kernel reads
    // `size_of::<T>()` bytes of a plain integer that lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            stream.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(&value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_connection_that_begins_anew_has_its_own_control_again() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("it is bound"));
        let stream = stream.expect("it listens");
        set_congestion(&stream, "reno").expect("every kernel has it, for every user");
        let begun = begin_anew(&stream);
        assert_eq!(congestion(&stream).expect("it is connected"), "reno");
        // It fails only where this process may not use BBR.
        assert!(begun.is_ok() || set_congestion(&stream, "bbr").is_err(), "{begun:?}");
    }

    #[test]
    fn packets_may_be_as_large_as_those_of_ip() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        for packet in [1_500, 32_807, 32_808, u16::MAX] {
            let made = connect_with_packets(&address, Duration::from_secs(10), packet);
            assert!(made.is_ok(), "{packet} bytes: {made:?}");
        }
    }
}
