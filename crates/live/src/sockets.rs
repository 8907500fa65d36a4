//! The kernel's sockets as an application sees them.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use weir_application::{Sockets, TcpConfig, peer_of};
use weir_units::Time;

use crate::LiveError;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4_096;
/// What is sent or received at a time.
const CHUNK: usize = 256 << 10;
/// What an application may have written that the kernel has not taken: as in the simulator.
const PENDING_MAX: u64 = 64 << 20;
/// The listening socket among the events.
pub(crate) const LISTENER: u64 = u64::MAX;

/// How the sockets of a traffic are made.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) address: SocketAddrV4,
    pub(crate) dscp: u8,
    pub(crate) congestion: Option<String>,
    pub(crate) tcp: TcpConfig,
}

/// One end of a connection.
#[derive(Debug, Default)]
struct Side {
    /// `None` before it is accepted and once it is over.
    socket: Option<Socket>,
    /// What arrived and the application has not taken.
    readable: u64,
    /// All that arrived so far.
    received: u64,
    /// What the application wrote and the kernel has not taken.
    pending: u64,
    /// The peer has sent all, or the connection broke.
    is_at_end: bool,
    is_closing: bool,
    is_shut: bool,
}

impl Side {
    fn is_over(&self) -> bool {
        self.is_at_end && self.is_shut
    }
}

#[derive(Debug, Default)]
struct Pair {
    sides: [Side; 2],
    /// Counts the connections that were here; events of earlier ones are not for this one.
    generation: u32,
}

/// All connections of a traffic.
pub(crate) struct KernelSockets {
    pub(crate) now: Time,
    pub(crate) poll: OwnedFd,
    setup: Setup,
    listener: Option<Socket>,
    pairs: Vec<Pair>,
    free: Vec<u32>,
    /// Opening sides that have not been accepted, by their port.
    by_port: HashMap<u16, u32>,
    buffer: Box<[u8]>,
    pub(crate) delivered_bytes: u64,
    /// Connections that broke or could not be made.
    pub(crate) failed: u64,
}

impl KernelSockets {
    pub(crate) fn new(setup: Setup) -> Result<Self, LiveError> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(LiveError::system("epoll_create"))?;
        Ok(Self {
            now: Time::ZERO,
            poll,
            setup,
            listener: None,
            pairs: Vec::new(),
            free: Vec::new(),
            by_port: HashMap::new(),
            buffer: vec![0; CHUNK].into_boxed_slice(),
            delivered_bytes: 0,
            failed: 0,
        })
    }

    /// Accepts from now on, in the namespace of the calling thread.
    pub(crate) fn listen(&mut self) -> Result<(), LiveError> {
        let make = || -> io::Result<Socket> {
            let listener = self.setup.socket()?;
            listener.set_reuse_address(true)?;
            listener.bind(&SockAddr::from(self.setup.address))?;
            listener.listen(BACKLOG)?;
            epoll::add(&self.poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
            Ok(listener)
        };
        self.listener = Some(make().map_err(LiveError::system("listening"))?);
        Ok(())
    }

    /// Accepts what has come, each as the peer of the side that opened it.
    pub(crate) fn accept(&mut self) {
        while let Some(Ok((socket, from))) = self.listener.as_ref().map(Socket::accept) {
            let port = from.as_socket_ipv4().map_or(0, |address| address.port());
            let Some(opener) = self.by_port.remove(&port) else { continue };
            let endpoint = peer_of(opener);
            let ready = self.setup.control(&socket).and_then(|()| self.setup.options(&socket));
            if ready.and_then(|()| self.watch(endpoint, &socket)).is_err() {
                self.fail(endpoint);
                continue;
            }
            self.side(endpoint).socket = Some(socket);
            self.flush(endpoint);
        }
    }

    /// The endpoint of an event, if the connection is still the one that it is of.
    pub(crate) fn endpoint_of(&self, event: u64) -> Option<u32> {
        let (generation, endpoint) = ((event >> 32) as u32, event as u32);
        let pair = self.pairs.get(endpoint as usize / 2)?;
        (pair.generation == generation).then_some(endpoint)
    }

    /// Moves what can be moved between the kernel and the application.
    pub(crate) fn on_event(&mut self, endpoint: u32, flags: EventFlags) {
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP)
        {
            self.receive(endpoint);
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(endpoint);
        }
    }

    fn side(&mut self, endpoint: u32) -> &mut Side {
        &mut self.pairs[endpoint as usize / 2].sides[endpoint as usize % 2]
    }

    fn data(&self, endpoint: u32) -> EventData {
        let generation = self.pairs[endpoint as usize / 2].generation;
        EventData::new_u64(u64::from(generation) << 32 | u64::from(endpoint))
    }

    fn watch(&self, endpoint: u32, socket: &Socket) -> io::Result<()> {
        Ok(epoll::add(&self.poll, socket, self.data(endpoint), EventFlags::IN)?)
    }

    /// Asks for the events that mean something in the state of an endpoint.
    fn rewatch(&mut self, endpoint: u32) {
        let data = self.data(endpoint);
        let side = &self.pairs[endpoint as usize / 2].sides[endpoint as usize % 2];
        let Some(socket) = &side.socket else { return };
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, !side.is_at_end);
        flags.set(EventFlags::OUT, side.pending > 0);
        if epoll::modify(&self.poll, socket, data, flags).is_err() {
            self.fail(endpoint);
        }
    }

    fn receive(&mut self, endpoint: u32) {
        let side = &mut self.pairs[endpoint as usize / 2].sides[endpoint as usize % 2];
        let Some(socket) = &mut side.socket else { return };
        loop {
            match socket.read(&mut self.buffer) {
                Ok(0) => {
                    side.is_at_end = true;
                    self.settle(endpoint);
                    return self.rewatch(endpoint);
                }
                Ok(bytes) => {
                    side.readable += bytes as u64;
                    side.received += bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.fail(endpoint),
            }
        }
    }

    /// Gives the kernel what it takes of what was written.
    fn flush(&mut self, endpoint: u32) {
        let side = &mut self.pairs[endpoint as usize / 2].sides[endpoint as usize % 2];
        let Some(socket) = &mut side.socket else { return };
        let was_waiting = side.pending > 0;
        while side.pending > 0 {
            let chunk = side.pending.min(CHUNK as u64) as usize;
            match socket.write(&self.buffer[..chunk]) {
                Ok(bytes) => side.pending -= bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return self.fail(endpoint),
            }
        }
        self.settle(endpoint);
        if was_waiting {
            self.rewatch(endpoint);
        }
    }

    /// Ends the stream if all has been sent, and gives the socket back once both ways have ended.
    fn settle(&mut self, endpoint: u32) {
        let side = self.side(endpoint);
        let Some(socket) = &side.socket else { return };
        if side.is_closing && side.pending == 0 && !side.is_shut {
            // One that the peer reset is shut as well.
            let _ = socket.shutdown(Shutdown::Write);
            side.is_shut = true;
        }
        if side.is_over() {
            side.socket = None;
        }
    }

    /// The connection is no more.
    fn fail(&mut self, endpoint: u32) {
        self.failed += 1;
        for end in [endpoint, peer_of(endpoint)] {
            let side = self.side(end);
            (side.is_at_end, side.is_shut, side.pending, side.socket) = (true, true, 0, None);
        }
    }

    fn connect(&self, endpoint: u32) -> io::Result<(Socket, u16)> {
        let socket = self.setup.socket()?;
        match socket.connect(&SockAddr::from(self.setup.address)) {
            Err(error)
                if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
            {
                return Err(error);
            }
            _ => {}
        }
        self.setup.control(&socket)?;
        let port = socket.local_addr()?.as_socket_ipv4().map_or(0, |address| address.port());
        self.watch(endpoint, &socket)?;
        Ok((socket, port))
    }
}

impl Setup {
    fn socket(&self) -> io::Result<Socket> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        self.control(&socket)?;
        self.options(&socket)?;
        Ok(socket)
    }

    /// Gives a socket its congestion control, where there is one: before it connects, so that what
    /// asks for ECN does, and again once it has begun to, or was accepted, since a route that has
    /// a control puts that in its place then (`tcp_ca_dst_init`).
    fn control(&self, socket: &Socket) -> io::Result<()> {
        match &self.congestion {
            Some(congestion) => socket.set_tcp_congestion(congestion.as_bytes()),
            None => Ok(()),
        }
    }

    fn options(&self, socket: &Socket) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(!self.tcp.nagle)?;
        socket.set_tcp_thin_linear_timeouts(self.tcp.thin)?;
        socket.set_tos_v4(u32::from(self.dscp) << 2)
    }
}

impl Sockets for KernelSockets {
    fn now(&self) -> Time {
        self.now
    }

    fn open(&mut self) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.pairs.push(Pair::default());
            self.pairs.len() as u32 - 1
        });
        let endpoint = 2 * number;
        match self.connect(endpoint) {
            Ok((socket, port)) => {
                self.by_port.insert(port, endpoint);
                self.side(endpoint).socket = Some(socket);
            }
            Err(_) => self.fail(endpoint),
        }
        endpoint
    }

    fn write(&mut self, endpoint: u32, bytes: u64) -> u64 {
        let taken = bytes.min(self.writable(endpoint));
        let side = self.side(endpoint);
        let was_idle = side.pending == 0;
        side.pending += taken;
        if was_idle {
            self.flush(endpoint);
        }
        taken
    }

    fn writable(&mut self, endpoint: u32) -> u64 {
        let side = self.side(endpoint);
        if side.is_closing || side.is_shut { 0 } else { PENDING_MAX - side.pending }
    }

    fn read(&mut self, endpoint: u32) -> u64 {
        let bytes = self.take(endpoint);
        self.delivered_bytes += bytes;
        bytes
    }

    fn take(&mut self, endpoint: u32) -> u64 {
        std::mem::take(&mut self.side(endpoint).readable)
    }

    /// What the application's other side has: half a round trip earlier than the acknowledgement.
    fn acked(&mut self, endpoint: u32) -> u64 {
        self.side(peer_of(endpoint)).received
    }

    fn is_at_end(&mut self, endpoint: u32) -> bool {
        let side = self.side(endpoint);
        side.is_at_end && side.readable == 0
    }

    fn close(&mut self, endpoint: u32) {
        self.side(endpoint).is_closing = true;
        self.settle(endpoint);
    }

    fn abort(&mut self, endpoint: u32) {
        for end in [endpoint, peer_of(endpoint)] {
            let side = self.side(end);
            if let Some(socket) = side.socket.take() {
                // A reset instead of an orderly end; without it the end is an orderly one.
                let _ = socket.set_linger(Some(std::time::Duration::ZERO));
            }
            (side.is_at_end, side.is_shut, side.pending) = (true, true, 0);
        }
    }

    fn is_over(&mut self, endpoint: u32) -> bool {
        [endpoint, peer_of(endpoint)].into_iter().all(|end| self.side(end).is_over())
    }

    fn free(&mut self, endpoint: u32) {
        let number = endpoint / 2;
        let pair = &mut self.pairs[number as usize];
        *pair = Pair { generation: pair.generation.wrapping_add(1), ..Pair::default() };
        self.free.push(number);
    }
}
