//! Sockets. Each has a real one under its number, unconnected, which takes the options.

use std::ffi::{c_int, c_ulong, c_void};
use std::net::{Ipv4Addr, SocketAddrV4};

use super::file::own;
use crate::kernel::{Call, Key, Kind, MILLISECOND_NS, SECOND_NS, Socket};
use crate::network::Taken;
use crate::raw::{kernel, set_errno};

/// Where clients connect from.
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// A connection attempt that nobody answers.
const NOBODY_NS: u64 = 127 * SECOND_NS;

/// The simulated socket at `fd`, if that is one.
fn known(call: &mut Call, fd: c_int) -> Option<Socket> {
    call.world().socket(fd).map(|socket| socket.clone())
}

fn fail(call: Call, error: c_int) -> isize {
    drop(call);
    set_errno(error);
    -1
}

unsafe fn read_address(address: *const libc::sockaddr) -> Option<SocketAddrV4> {
    // SAFETY: the caller gives an address, whose family says how long it is.
    unsafe {
        if c_int::from((*address).sa_family) != libc::AF_INET {
            return None;
        }
        let v4 = &*address.cast::<libc::sockaddr_in>();
        let host = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
        Some(SocketAddrV4::new(host, u16::from_be(v4.sin_port)))
    }
}

unsafe fn write_address(
    address: SocketAddrV4,
    place: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) {
    if place.is_null() {
        return;
    }
    // SAFETY: the caller's place takes any address, as those of the standard library do.
    unsafe {
        let v4 = &mut *place.cast::<libc::sockaddr_in>();
        v4.sin_family = libc::AF_INET as u16;
        v4.sin_port = address.port().to_be();
        v4.sin_addr.s_addr = u32::from(*address.ip()).to_be();
        *length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let fd = kernel!(libc::SYS_socket, domain, kind, protocol);
    if domain == libc::AF_INET
        && let Some(mut call) = Call::begin()
    {
        own(&mut call, fd, Kind::Socket(Socket::default()));
    }
    fd as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bind(
    fd: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> c_int {
    let Some(mut call) = Call::begin() else {
        return kernel!(libc::SYS_bind, fd, address, length) as c_int;
    };
    // SAFETY: passes on what it was given.
    let Some(mut wanted) = (unsafe { read_address(address) }) else {
        return fail(call, libc::EADDRNOTAVAIL) as c_int;
    };
    let world = call.world();
    if wanted.port() == 0 {
        wanted.set_port(world.network.free_port());
    }
    if world.network.find(wanted).is_some() {
        return fail(call, libc::EADDRINUSE) as c_int;
    }
    if let Some(socket) = world.socket(fd) {
        socket.address = Some(wanted);
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    let Some(mut call) = Call::begin() else {
        return kernel!(libc::SYS_listen, fd, backlog) as c_int;
    };
    let process = call.process();
    let world = call.world();
    let Some(address) = world.socket(fd).and_then(|socket| socket.address) else {
        return fail(call, libc::EINVAL) as c_int;
    };
    if world.socket(fd).is_some_and(|socket| socket.listener.is_some()) {
        return 0; // only the length of its queue changes
    }
    let listener = world.network.listen(address, process);
    if let Some(socket) = world.socket(fd) {
        socket.listener = Some(listener);
    }
    call.step("listens", address.port().into());
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept4(
    fd: c_int,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
    flags: c_int,
) -> c_int {
    let Some(mut call) = Call::begin() else {
        return kernel!(libc::SYS_accept4, fd, address, length, flags) as c_int;
    };
    let Some(listener) = known(&mut call, fd).and_then(|socket| socket.listener) else {
        return fail(call, libc::EINVAL) as c_int;
    };
    let link = loop {
        let world = call.world();
        if !world.network.is_listening(listener) {
            return fail(call, libc::EINVAL) as c_int;
        }
        match world.network.accept(world.now_ns, listener) {
            Ok(link) => break link,
            Err(until) => call.wait(Key::Listener(listener), until),
        };
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    let new = kernel!(libc::SYS_socket, libc::AF_INET, kind, 0);
    own(&mut call, new, Kind::Socket(Socket { link: Some((link, 1)), ..Socket::default() }));
    let peer = call.world().network.address(link, 0);
    // SAFETY: passes on what it was given.
    unsafe { write_address(peer, address, length) };
    call.step("accepts", link as i64);
    new as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn connect(
    fd: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> c_int {
    let Some(mut call) = Call::begin() else {
        return kernel!(libc::SYS_connect, fd, address, length) as c_int;
    };
    // SAFETY: passes on what it was given.
    let Some(to) = (unsafe { read_address(address) }) else {
        return fail(call, libc::ENETUNREACH) as c_int;
    };
    call.step("connects", to.port().into());
    let (process, socket) = (call.process(), known(&mut call, fd).unwrap_or_default());
    let world = call.world();
    if world.network.is_silent(world.now_ns) {
        if let Some(socket) = world.socket(fd) {
            socket.never_connects = true;
        }
        if socket.blocks_not {
            return fail(call, libc::EINPROGRESS) as c_int;
        }
        let until = world.now_ns + NOBODY_NS;
        call.wait(Key::Time, Some(until));
        return fail(call, libc::ETIMEDOUT) as c_int;
    }
    let until = world.now_ns + 2 * world.network.plan.latency_ns;
    call.wait(Key::Time, Some(until));
    let world = call.world();
    let Some(listener) = world.network.find(to) else {
        return fail(call, libc::ECONNREFUSED) as c_int;
    };
    let from = SocketAddrV4::new(CLIENT, world.network.free_port());
    let link = world.network.connect(world.now_ns, from, process, listener);
    if let Some(socket) = world.socket(fd) {
        socket.link = Some((link, 0));
    }
    world.wake(Key::Listener(listener), usize::MAX);
    call.step("connected", link as i64);
    0
}

/// The address of one end of a connection, or of a listener.
unsafe fn name(
    fd: c_int,
    far: bool,
    place: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
    number: libc::c_long,
) -> c_int {
    let Some(mut call) = Call::begin() else {
        return kernel!(number, fd, place, length) as c_int;
    };
    let Some(socket) = known(&mut call, fd) else {
        return fail(call, libc::ENOTSOCK) as c_int;
    };
    let address = match socket.link {
        Some((link, side)) => {
            let side = if far { 1 - side } else { side };
            Some(call.world().network.address(link, side))
        }
        None if far => None,
        None => socket.address,
    };
    let Some(address) = address else {
        return fail(call, libc::ENOTCONN) as c_int;
    };
    // SAFETY: passes on what it was given.
    unsafe { write_address(address, place, length) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockname(
    fd: c_int,
    place: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: passes on what it was given.
    unsafe { name(fd, false, place, length, libc::SYS_getsockname) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpeername(
    fd: c_int,
    place: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: passes on what it was given.
    unsafe { name(fd, true, place, length, libc::SYS_getpeername) }
}

/// Timeouts and the class of traffic are kept here; the real socket takes, and checks, all options.
#[unsafe(no_mangle)]
unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    length: libc::socklen_t,
) -> c_int {
    if level == libc::SOL_SOCKET
        && matches!(option, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO)
        && let Some(mut call) = Call::begin()
        && let Some(socket) = call.world().socket(fd)
    {
        // SAFETY: these options have this type.
        let time = unsafe { &*value.cast::<libc::timeval>() };
        let time = time.tv_sec as u64 * SECOND_NS + time.tv_usec as u64 * 1000;
        let time = (time > 0).then_some(time);
        if option == libc::SO_RCVTIMEO {
            socket.read_timeout_ns = time;
        } else {
            socket.write_timeout_ns = time;
        }
    }
    if (level, option) == (libc::IPPROTO_IP, libc::IP_TOS)
        && let Some(mut call) = Call::begin()
        && let Some((link, side)) = known(&mut call, fd).and_then(|socket| socket.link)
    {
        // SAFETY: this option has this type.
        let lower = unsafe { *value.cast::<c_int>() } != 0;
        let world = call.world();
        world.network.set_lower(world.now_ns, link, side, lower);
        world.wake(Key::Link(link), usize::MAX);
        call.step("marks", lower.into());
    }
    kernel!(libc::SYS_setsockopt, fd, level, option, value, length) as c_int
}

/// What the kernel tells of a connection: the real socket's word, but for the bytes that went to
/// and fro.
#[unsafe(no_mangle)]
unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    length: *mut libc::socklen_t,
) -> c_int {
    /// Where `struct tcp_info` has them: the size of a segment, segments on the way, bytes
    /// acknowledged and received.
    const SEGMENT: usize = 16;
    const UNACKED: usize = 24;
    const ACKED: usize = 120;
    const RECEIVED: usize = 128;
    let result = kernel!(libc::SYS_getsockopt, fd, level, option, value, length) as c_int;
    if result == 0
        && (level, option) == (libc::IPPROTO_TCP, libc::TCP_INFO)
        && let Some(mut call) = Call::begin()
        && let Some((link, side)) = known(&mut call, fd).and_then(|socket| socket.link)
    {
        let world = call.world();
        let received = world.network.delivered(world.now_ns, link, side);
        let acked = world.network.delivered(world.now_ns, link, 1 - side);
        let unacked = world.network.on_the_way(link, side);
        // SAFETY: the kernel has just said how much room there is.
        unsafe {
            if *length as usize >= RECEIVED + 8 {
                let told = value.cast::<u8>();
                told.add(SEGMENT).cast::<u32>().write_unaligned(1);
                told.add(UNACKED).cast::<u32>().write_unaligned(unacked);
                told.add(ACKED).cast::<u64>().write_unaligned(acked);
                told.add(RECEIVED).cast::<u64>().write_unaligned(received);
            }
        }
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if request == libc::FIONBIO
        && let Some(mut call) = Call::begin()
        && let Some(socket) = call.world().socket(fd)
    {
        // SAFETY: this request has this type.
        socket.blocks_not = unsafe { *argument.cast::<c_int>() != 0 };
    }
    kernel!(libc::SYS_ioctl, fd, request, argument) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let Some(mut call) = Call::begin() else {
        return kernel!(libc::SYS_shutdown, fd, how) as c_int;
    };
    let socket = known(&mut call, fd).unwrap_or_default();
    let world = call.world();
    match (socket.link, socket.listener) {
        (Some((link, side)), _) => {
            world.network.shut_down(world.now_ns, link, side, how);
            world.wake(Key::Link(link), usize::MAX);
        }
        (None, Some(listener)) => {
            world.network.stop_listening(listener);
            world.wake(Key::Listener(listener), usize::MAX);
        }
        (None, None) => return fail(call, libc::ENOTCONN) as c_int,
    }
    call.step("shuts", how.into());
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(fd: c_int, place: *mut c_void, length: usize, flags: c_int) -> isize {
    let Some(call) = Call::begin() else {
        return kernel!(libc::SYS_recvfrom, fd, place, length, flags, 0, 0);
    };
    // SAFETY: the caller gives `length` bytes.
    let buffer = unsafe { std::slice::from_raw_parts_mut(place.cast::<u8>(), length) };
    receive(call, fd, buffer, flags)
}

/// Receives into `buffer` by the socket's own rules.
fn receive(mut call: Call, fd: c_int, buffer: &mut [u8], flags: c_int) -> isize {
    let Some(socket) = known(&mut call, fd) else {
        return fail(call, libc::ENOTSOCK);
    };
    let Some((link, side)) = socket.link else {
        return fail(call, libc::ENOTCONN);
    };
    call.step("receives", buffer.len() as i64);
    let give_up = socket.read_timeout_ns.map(|span| call.world().now_ns + span);
    let now_only = socket.blocks_not || flags & libc::MSG_DONTWAIT != 0;
    let mut filled = 0;
    loop {
        let world = call.world();
        let until = match world.network.take(world.now_ns, link, side, &mut buffer[filled..]) {
            Taken::Bytes(count) => {
                filled += count;
                // A writer may wait for the room.
                world.wake(Key::Link(link), usize::MAX);
                if flags & libc::MSG_WAITALL == 0 || filled == buffer.len() {
                    break;
                }
                continue;
            }
            Taken::End => break,
            Taken::Error(_) if filled > 0 => break,
            Taken::Error(error) => return fail(call, error),
            Taken::Nothing(until) => until,
        };
        if now_only || give_up.is_some_and(|give_up| world.now_ns >= give_up) {
            if filled > 0 {
                break;
            }
            return fail(call, libc::EAGAIN);
        }
        let until = until.into_iter().chain(give_up).min();
        call.wait(Key::Link(link), until);
    }
    call.step("received", filled as i64);
    filled as isize
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: c_int, from: *const c_void, length: usize, flags: c_int) -> isize {
    let Some(call) = Call::begin() else {
        return kernel!(libc::SYS_sendto, fd, from, length, flags, 0, 0);
    };
    // SAFETY: the caller gives `length` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length) };
    transmit(call, fd, bytes)
}

/// Sends what fits of `bytes`, at least one.
fn transmit(mut call: Call, fd: c_int, bytes: &[u8]) -> isize {
    let Some(socket) = known(&mut call, fd) else {
        return fail(call, libc::ENOTSOCK);
    };
    let Some((link, side)) = socket.link else {
        return fail(call, libc::ENOTCONN);
    };
    call.step("sends", bytes.len() as i64);
    let give_up = socket.write_timeout_ns.map(|span| call.world().now_ns + span);
    loop {
        let world = call.world();
        match world.network.room(world.now_ns, link, side) {
            Err(error) => return fail(call, error),
            Ok(0) => {}
            Ok(room) => {
                let count = room.min(bytes.len());
                world.network.send(world.now_ns, link, side, &bytes[..count]);
                world.wake(Key::Link(link), usize::MAX);
                call.step("sent", count as i64);
                return count as isize;
            }
        }
        if give_up.is_some_and(|give_up| world.now_ns >= give_up) {
            return fail(call, libc::EAGAIN);
        }
        // A link that goes silent while this waits is noticed on the way.
        let check = world.now_ns + SECOND_NS;
        let until = give_up.map_or(check, |give_up| give_up.min(check));
        call.wait(Key::Link(link), Some(until));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn poll(set: *mut libc::pollfd, count: libc::nfds_t, timeout_ms: c_int) -> c_int {
    let Some(call) = Call::begin() else {
        return kernel!(libc::SYS_poll, set, count, timeout_ms) as c_int;
    };
    // SAFETY: the caller gives `count` entries.
    let set = unsafe { std::slice::from_raw_parts_mut(set, count as usize) };
    let span = u64::try_from(timeout_ms).ok().map(|ms| ms * MILLISECOND_NS);
    wait_for_any(call, set, span)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(
    set: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: *const libc::timespec,
    mask: *const c_void,
) -> c_int {
    let Some(call) = Call::begin() else {
        return kernel!(libc::SYS_ppoll, set, count, timeout, mask, 8) as c_int;
    };
    // SAFETY: the caller gives `count` entries, and a time or none.
    let (set, timeout) =
        unsafe { (std::slice::from_raw_parts_mut(set, count as usize), timeout.as_ref()) };
    let span = timeout.map(|time| time.tv_sec as u64 * SECOND_NS + time.tv_nsec as u64);
    wait_for_any(call, set, span)
}

fn wait_for_any(mut call: Call, set: &mut [libc::pollfd], span: Option<u64>) -> c_int {
    call.step("polls", set.len() as i64);
    let give_up = span.map(|span| call.world().now_ns + span);
    loop {
        let mut key = Key::Time;
        let mut until = give_up;
        let mut ready = 0;
        for entry in &mut *set {
            entry.revents = 0;
            let Some(socket) = known(&mut call, entry.fd) else { continue };
            let Some((link, side)) = socket.link else { continue };
            key = Key::Link(link);
            let world = call.world();
            let (now_ns, events) = (world.now_ns, entry.events);
            if events & libc::POLLIN != 0 {
                match world.network.look(now_ns, link, side) {
                    Taken::Nothing(later) => until = until.into_iter().chain(later).min(),
                    _ => entry.revents |= libc::POLLIN,
                }
            }
            if events & libc::POLLOUT != 0 && world.network.room(now_ns, link, side) != Ok(0) {
                entry.revents |= libc::POLLOUT;
            }
            ready += c_int::from(entry.revents != 0);
        }
        let now_ns = call.world().now_ns;
        if ready > 0 || give_up.is_some_and(|give_up| now_ns >= give_up) {
            call.step("polled", ready.into());
            return ready;
        }
        call.wait(key, until);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile64(to: c_int, from: c_int, offset: *mut i64, count: usize) -> isize {
    let Some(call) = Call::begin() else {
        return kernel!(libc::SYS_sendfile, to, from, offset, count);
    };
    let mut bytes = vec![0_u8; count.min(1 << 16)];
    // SAFETY: the mover always says where to read.
    let at = unsafe { *offset };
    let read = kernel!(libc::SYS_pread64, from, bytes.as_mut_ptr(), bytes.len(), at);
    if read <= 0 {
        return read;
    }
    let sent = transmit(call, to, &bytes[..read as usize]);
    if sent > 0 {
        // SAFETY: as above.
        unsafe { *offset += sent as i64 };
    }
    sent
}

/// From a simulated socket into a pipe, or from a pipe into a file.
#[unsafe(no_mangle)]
unsafe extern "C" fn splice(
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    count: usize,
    flags: libc::c_uint,
) -> isize {
    let real = || kernel!(libc::SYS_splice, from, from_at, to, to_at, count, flags);
    let Some(mut call) = Call::begin() else {
        return real();
    };
    if known(&mut call, from).is_none() {
        drop(call);
        // SAFETY: the caller gives a place for the offset, or none.
        let at = unsafe { to_at.as_ref() }.copied().unwrap_or(0);
        return super::file::written("splices", || {
            crate::disk::writes(to, at, count);
            real()
        });
    }
    let mut bytes = vec![0_u8; count.min(1 << 16)];
    let received = receive(call, from, &mut bytes, 0);
    if received <= 0 {
        return received;
    }
    let put = kernel!(libc::SYS_write, to, bytes.as_ptr(), received);
    assert!(put == received, "the pipe holds what was asked for");
    received
}
