//! The kernel's sockets as relays want them: none of these ever waits.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

use crate::RelayError;
use crate::announced::Offered;
use crate::system;
use crate::words::words;

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 4_096;
/// What is copied at a time where there is no pipe.
const COPIED: usize = 16 << 10;
/// What the kernel keeps of an aggregate that it has not sent yet: turns are decided as late as can
/// be, so that a flow that has just come does not wait behind what others had queued.
const NOT_SENT_MAX: u32 = 128 << 10;

/// The shortest segments that the kernel lets a socket ask for (TCP_MIN_MSS).
const MSS_MIN: u32 = 88;
/// The most bits by which windows are shifted (RFC 7323).
const WINDOW_SCALE_MAX: u8 = 14;
/// Marks of connections to servers whose client did not offer something; by the lowest bits, SACK,
/// timestamps, a scale of windows.
const NOT_OFFERED: u32 = 0x5747_0000;
/// How often an end that is silent is asked whether it is there before it is given up.
const ASKED: u32 = 4;

/// What reading brought.
pub(crate) enum Got {
    /// So many bytes.
    Some(usize),
    /// Nothing now.
    Nothing,
    /// Everything was read.
    End,
    /// The connection is broken.
    Broken(io::Error),
}

/// Reads what is there.
pub(crate) fn read(mut socket: &Socket, into: &mut [u8]) -> Got {
    loop {
        return match socket.read(into) {
            Ok(0) => Got::End,
            Ok(count) => Got::Some(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Got::Nothing,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Got::Broken(error),
        };
    }
}

/// Writes what the kernel takes; how much that was.
pub(crate) fn write(mut socket: &Socket, from: &[u8]) -> io::Result<usize> {
    loop {
        return match socket.write(from) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            done => done,
        };
    }
}

/// Copies from one connection into another, where there is no pipe between them, as much as that
/// takes at once; how much that was. The rest stays in the kernel.
pub(crate) fn copy(from: &Socket, to: &Socket) -> io::Result<Got> {
    let mut buffer = [0; COPIED];
    let there = loop {
        match recv(from, &mut buffer[..], RecvFlags::PEEK) {
            Ok((0, _)) => return Ok(Got::End),
            Ok((count, _)) => break count,
            Err(Errno::AGAIN) => return Ok(Got::Nothing),
            Err(Errno::INTR) => {}
            Err(error) => return Ok(Got::Broken(error.into())),
        }
    };
    let count = write(to, &buffer[..there])?;
    let mut left = count;
    while left > 0 {
        match read(from, &mut buffer[..left]) {
            Got::Some(taken) => left -= taken,
            Got::Broken(error) => return Ok(Got::Broken(error)),
            Got::End | Got::Nothing => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
    Ok(Got::Some(count))
}

/// Writes what something else is to follow at once, so that both leave together.
pub(crate) fn write_before(socket: &Socket, from: &[u8]) -> io::Result<usize> {
    loop {
        return match socket.send_with_flags(from, libc::MSG_MORE) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            done => done,
        };
    }
}

/// Sends what the kernel has kept for what was to follow.
pub(crate) fn push(socket: &Socket) {
    // Whatever it cannot be told, it sends after a while.
    let _ = socket.set_tcp_nodelay(true);
}

/// Listens for clients, those of several paths (MPTCP, RFC 8684) among them where this host's
/// kernel has that; with `is_transparent` also for what is on its way to others.
pub(crate) fn listen_for_clients(
    address: SocketAddr,
    is_transparent: bool,
) -> Result<Socket, RelayError> {
    // Who comes by plain TCP gets a plain connection from such a listener, too.
    let multipath = stream(address, Protocol::MPTCP).map_err(RelayError::system("a socket"));
    match multipath.and_then(|socket| bound(socket, address, is_transparent, None)) {
        Ok(listener) => Ok(listener),
        Err(_) => listen(address, is_transparent, None, None),
    }
}

/// Listens by plain TCP; with `is_transparent` also for what is on its way to others. With a mark
/// all that the kernel sends of the connections that are accepted carries it. They begin with the
/// congestion control, which is there before anybody can come.
pub(crate) fn listen(
    address: SocketAddr,
    is_transparent: bool,
    mark: Option<u32>,
    congestion: Option<&str>,
) -> Result<Socket, RelayError> {
    bound(stream_with(address, congestion)?, address, is_transparent, mark)
}

/// Whether servers can be connected to in a client's name here, before the first client comes.
pub(crate) fn check_as_client(is_wanted: bool) -> Result<(), RelayError> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let socket = stream_with(any, None)?;
    if is_wanted { transparent(&socket, any) } else { Ok(()) }
}

fn transparent(socket: &Socket, like: SocketAddr) -> Result<(), RelayError> {
    let what = "taking part in what is on its way to others (root, or CAP_NET_ADMIN)";
    set_transparent(socket, like, true).map_err(RelayError::system(what))
}

/// Whether this host has a congestion control, before it is needed.
pub(crate) fn check_congestion(congestion: Option<&str>) -> Result<(), RelayError> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    congestion.map_or(Ok(()), |name| stream_with(any, Some(name)).map(|_| ()))
}

fn stream_with(like: SocketAddr, congestion: Option<&str>) -> Result<Socket, RelayError> {
    let socket = stream(like, Protocol::TCP).map_err(RelayError::system("a socket"))?;
    set_congestion(&socket, congestion)
        .map_err(RelayError::system("setting the congestion control"))?;
    Ok(socket)
}

fn bound(
    socket: Socket,
    address: SocketAddr,
    is_transparent: bool,
    mark: Option<u32>,
) -> Result<Socket, RelayError> {
    if is_transparent {
        transparent(&socket, address)?;
    }
    let done = socket.set_reuse_address(true).and_then(|()| {
        mark.map_or(Ok(()), |mark| socket.set_mark(mark))?;
        socket.bind(&SockAddr::from(address))?;
        socket.listen(BACKLOG)
    });
    done.map_err(RelayError::system("listening"))?;
    Ok(socket)
}

/// A listening socket. Where no descriptor is left for those who come, they are turned away with
/// one that is kept for that: else they would wait in the kernel, without a word, until others
/// leave.
pub(crate) struct Listener {
    socket: Socket,
    reserve: Option<OwnedFd>,
}

impl Listener {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, reserve: reserve() }
    }

    /// The listening socket itself.
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Who has come, and from where; none if nobody waits. Those for whom there is no descriptor
    /// are reset, and told of in words.
    pub(crate) fn accept(
        &mut self,
        mut turned_away: impl FnMut(String),
    ) -> Option<(Socket, SocketAddr)> {
        loop {
            if self.reserve.is_none() {
                self.reserve = reserve();
            }
            let error = match accept(&self.socket) {
                Ok(came) => return came,
                Err(error) => error,
            };
            self.reserve = None;
            let (client, from) = accept(&self.socket).ok().flatten()?;
            reset(&client);
            turned_away(format!("{from}: {}", words(&error)));
        }
    }
}

fn reserve() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

/// A client that has come, and its address; none if nobody waits; an error if there is no
/// descriptor for one.
fn accept(listener: &Socket) -> io::Result<Option<(Socket, SocketAddr)>> {
    loop {
        match listener.accept() {
            Ok((socket, from)) => {
                if let (Ok(()), Some(from)) = (socket.set_nonblocking(true), from.as_socket()) {
                    return Ok(Some((socket, from)));
                }
            }
            // It has gone again.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if is_no_descriptor(&error) => return Err(error),
            Err(_) => return Ok(None),
        }
    }
}

/// Whether there is no descriptor left, or no memory for one.
pub(crate) fn is_no_descriptor(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS))
}

/// Begins to connect to a server, from a client's address if there is one.
pub(crate) fn connect(
    server: SocketAddr,
    client: Option<SocketAddr>,
    congestion: Option<&str>,
) -> io::Result<Socket> {
    let socket = stream(server, Protocol::TCP)?;
    // Before it begins: see `Join`.
    set_congestion(&socket, congestion)?;
    if let Some(client) = client {
        set_transparent(&socket, client, true)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SockAddr::from(client))?;
    }
    begin(socket, server)
}

/// Begins to connect to a server from an address, offering it what a client has offered us.
///
/// What the kernel does not let a socket say is marked, for `nft` to take it out of the SYN.
/// Without the right to mark it is offered as this host offers it.
pub(crate) fn connect_offering(
    server: SocketAddr,
    source: Option<SocketAddr>,
    offered: Offered,
) -> io::Result<Socket> {
    let socket = stream(server, Protocol::TCP)?;
    if let Some(source) = source {
        socket.set_reuse_address(true)?;
        socket.bind(&SockAddr::from(source))?;
    }
    if let Some(mss) = offered.mss {
        socket.set_tcp_mss(u32::from(mss).max(MSS_MIN))?;
    }
    if let Some(bits) = offered.window_scale {
        // The kernel derives the shift from the longest window that it may have to tell.
        system::clamp_window(&socket, u32::from(u16::MAX) << bits.min(WINDOW_SCALE_MAX))?;
    }
    let lacks = [!offered.has_sack, !offered.has_timestamps, offered.window_scale.is_none()];
    let marks = lacks.into_iter().enumerate().map(|(bit, lacks)| u32::from(lacks) << bit);
    let mark = marks.sum::<u32>();
    if mark != 0 {
        let _ = socket.set_mark(NOT_OFFERED | mark);
    }
    begin(socket, server)
}

/// Has the kernel find out within so long that the other end of an idle connection is gone.
pub(crate) fn notice_silence(socket: &Socket, gone_after: Duration) {
    let interval = (gone_after / 10).max(Duration::from_secs(1));
    let idle = gone_after.saturating_sub(interval * ASKED).max(Duration::from_secs(1));
    let asked = TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(ASKED);
    // Where it cannot be asked, the connection stays until somebody sends.
    let _ = socket.set_tcp_keepalive(&asked);
}

fn begin(socket: Socket, server: SocketAddr) -> io::Result<Socket> {
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&SockAddr::from(server)) {
        Err(error)
            if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
        {
            Err(error)
        }
        _ => Ok(socket),
    }
}

/// Sets an aggregate's connection up; within so long its other end is to be heard of.
pub(crate) fn prepare_aggregate(
    socket: &Socket,
    congestion: Option<&str>,
    heard_within: Duration,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(NOT_SENT_MAX)?;
    // One whose host is gone while nothing is under way is to be found as soon.
    let asked = (heard_within / 4).max(Duration::from_secs(1));
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(asked).with_interval(asked))?;
    socket.set_tcp_user_timeout(Some(heard_within * 3 / 4))?;
    set_congestion(socket, congestion)
}

/// Gives a connection another congestion control than this host's default.
pub(crate) fn set_congestion(socket: &Socket, congestion: Option<&str>) -> io::Result<()> {
    congestion.map_or(Ok(()), |name| socket.set_tcp_congestion(name.as_bytes()))
}

/// Ends a connection so that its other end is told that it broke.
pub(crate) fn reset(socket: &Socket) {
    // What cannot be set is closed in order, which is all that is left.
    let _ = socket.set_linger(Some(Duration::ZERO));
}

/// Ends a connection in order when it is closed, whatever [`reset`] has said before.
pub(crate) fn end_in_order(socket: &Socket) {
    let _ = socket.set_linger(None);
}

/// Whether the other end has said that nothing more comes, also where that is not read yet.
pub(crate) fn has_ended(socket: &Socket) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::RDHUP)];
    poll(&mut asked, Some(&Timespec::default())).is_ok()
        && asked[0].revents().contains(PollFlags::RDHUP)
}

/// Tells the other end that nothing more comes.
pub(crate) fn shut(socket: &Socket) -> io::Result<()> {
    socket.shutdown(Shutdown::Write)
}

fn stream(like: SocketAddr, protocol: Protocol) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    Socket::new(Domain::for_address(like), kind, Some(protocol))
}

/// Whether a socket has to do with what is on its way to others. A listening one that has not is no
/// longer found by the router's rule (TPROXY), which then lets new connections pass.
pub(crate) fn set_transparent(socket: &Socket, like: SocketAddr, is_so: bool) -> io::Result<()> {
    if like.is_ipv4() {
        socket.set_ip_transparent_v4(is_so)
    } else {
        socket.set_ip_transparent_v6(is_so)
    }
}
