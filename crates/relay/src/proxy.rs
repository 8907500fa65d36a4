//! One relay alone: each client's connection ends here, and another one goes on to the server.
//!
//! What passes is moved by the kernel through a pipe, which a direction has only while something of
//! it is on its way.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::RelayError;
use crate::aggregate::{broken_by, reason_of};
use crate::control::{Control, TICK, Worker};
use crate::pipe::{PIPE, Pipe};
use crate::poll::{Event, Poll};
use crate::settings::ProxySettings;
use crate::socket::{self, Got, Listener};
use crate::status::{FlowStatus, Status};
use weir_aggregate::message::Reason;

/// The key of the listening socket's events; a connection's is twice its place, and one more for
/// the server's side.
const LISTENER: u64 = 2 << 32;
/// What a direction moves before others have their turn.
const TURN: usize = 1 << 20;
/// Pipes that are kept for the next direction that needs one.
const SPARE_PIPES: usize = 64;
/// How long a server may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// A proxy in a thread of its own. It ends when this is dropped; its clients then are reset.
pub struct Proxy {
    worker: Worker,
    address: SocketAddr,
}

impl Proxy {
    /// Listens and begins.
    ///
    /// # Errors
    ///
    /// [`RelayError::System`]: the address cannot be listened at.
    pub fn start(settings: ProxySettings) -> Result<Self, RelayError> {
        socket::check_congestion(settings.congestion.as_deref())?;
        socket::check_as_client(settings.as_client)?;
        let listener = socket::listen_for_clients(settings.listen, settings.server.is_none())?;
        let address = listener.local_addr().map_err(RelayError::system("listening"))?;
        let address = address.as_socket().unwrap_or(settings.listen);
        let listener = Listener::new(listener);
        let worker = Worker::start("weir-proxy", Control::new()?, move |control| {
            Runner::new(settings, listener, address)?.run(control)
        })?;
        Ok(Self { worker, address })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has happened.
    pub fn status(&self) -> Status {
        self.worker.status()
    }

    /// Whether it has ended by itself.
    pub fn is_over(&self) -> bool {
        self.worker.is_over()
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// Why it had ended by itself, if it had.
    pub fn stop(&mut self) -> Result<(), RelayError> {
        self.worker.stop()
    }
}

/// One end of a pair of connections, and the direction that begins there.
struct Side {
    socket: Socket,
    is_readable: bool,
    is_writable: bool,
    pipe: Option<Pipe>,
    /// Everything was read.
    is_read: bool,
    /// The other side was told so.
    is_told: bool,
    /// The kernel has said that it is broken.
    is_broken: bool,
    moved: u64,
}

impl Side {
    fn new(socket: Socket) -> Self {
        Self {
            socket,
            is_readable: false,
            is_writable: false,
            pipe: None,
            is_read: false,
            is_told: false,
            is_broken: false,
            moved: 0,
        }
    }

    /// What of it is on its way, in bytes.
    fn held(&self) -> usize {
        self.pipe.as_ref().map_or(0, Pipe::held)
    }
}

/// A client's connection and the server's.
struct Pair {
    client: SocketAddr,
    server: SocketAddr,
    sides: [Side; 2],
    connecting: Option<Instant>,
}

struct Runner {
    settings: ProxySettings,
    listener: Listener,
    address: SocketAddr,
    poll: Poll,
    pairs: Vec<Option<Pair>>,
    free: Vec<usize>,
    /// Places that are free once the events that were told together are done with.
    left: Vec<usize>,
    pipes: Vec<Pipe>,
    /// Places whose servers were asked, and since when, the first one first.
    asked: VecDeque<(Instant, usize)>,
    /// Directions that have had their turn and have more.
    again: Vec<usize>,
    status: Status,
}

impl Runner {
    fn new(
        settings: ProxySettings,
        listener: Listener,
        address: SocketAddr,
    ) -> Result<Self, RelayError> {
        Ok(Self {
            settings,
            listener,
            address,
            poll: Poll::new()?,
            pairs: Vec::new(),
            free: Vec::new(),
            left: Vec::new(),
            pipes: Vec::new(),
            asked: VecDeque::new(),
            again: Vec::new(),
            status: Status { is_connected: true, ..Status::default() },
        })
    }

    fn run(&mut self, control: &Control) -> Result<(), RelayError> {
        self.poll.add(self.listener.socket(), LISTENER)?;
        control.join(&self.poll)?;
        let mut looked = Instant::now();
        while !control.is_stopped() {
            let longest = if self.again.is_empty() { TICK } else { Duration::ZERO };
            let events = self.poll.wait(longest)?;
            for place in std::mem::take(&mut self.again) {
                self.pump(place)?;
            }
            for event in &events {
                self.serve(*event)?;
            }
            self.free.append(&mut self.left);
            if looked.elapsed() >= TICK {
                looked = Instant::now();
                self.give_up_connecting(looked);
                // Whom there were no descriptors for, no event tells of again.
                self.accept()?;
            }
            control.answer(|| self.told());
        }
        for pair in self.pairs.iter().flatten() {
            pair.sides.iter().for_each(|side| socket::reset(&side.socket));
        }
        Ok(())
    }

    fn serve(&mut self, event: Event) -> Result<(), RelayError> {
        if event.key == LISTENER {
            return self.accept();
        }
        let Ok(number) = usize::try_from(event.key) else { return Ok(()) };
        let Some(pair) = self.pairs.get_mut(number / 2).and_then(Option::as_mut) else {
            return Ok(());
        };
        let side = &mut pair.sides[number % 2];
        side.is_readable |= event.is_readable;
        side.is_writable |= event.is_writable;
        side.is_broken |= event.is_broken;
        if number % 2 == 1 && pair.connecting.is_some() && event.is_writable {
            match side.socket.take_error() {
                Ok(None) => pair.connecting = None,
                Ok(Some(error)) => return self.break_off(number / 2, reason_of(&error).as_str()),
                Err(_) => return self.break_off(number / 2, Reason::Reset.as_str()),
            }
        }
        self.pump(number / 2)
    }

    fn accept(&mut self) -> Result<(), RelayError> {
        while let Some((client, from)) = self.listener.accept(|why| self.status.note(why)) {
            let meant = client.local_addr().ok().and_then(|address| address.as_socket());
            let Some(server) = self.settings.server.or(meant) else {
                socket::reset(&client);
                self.status.note(format!("{from}: {}", Reason::Forbidden.as_str()));
                continue;
            };
            if let Err(reason) = self.open(&client, from, server) {
                socket::reset(&client);
                self.status.note(format!("{from} to {server}: {}", reason.as_str()));
            }
        }
        Ok(())
    }

    fn open(
        &mut self,
        client: &Socket,
        from: SocketAddr,
        server: SocketAddr,
    ) -> Result<(), Reason> {
        if self.settings.server.is_none() && server.port() == self.address.port() {
            return Err(Reason::Forbidden); // It would be sent to us again, and again.
        }
        let source = self.settings.as_client.then_some(from);
        let congestion = self.settings.congestion.as_deref();
        let socket =
            socket::connect(server, source, congestion).map_err(|error| reason_of(&error))?;
        let _ = client.set_tcp_nodelay(true);
        for end in [client, &socket] {
            socket::notice_silence(end, self.settings.gone_after);
        }
        let client = client.try_clone().map_err(|_| Reason::Full)?;
        let place = self.free.pop().unwrap_or(self.pairs.len());
        let key = 2 * place as u64;
        let added = self.poll.add(&client, key).and_then(|()| self.poll.add(&socket, key + 1));
        if added.is_err() {
            if place < self.pairs.len() {
                self.free.push(place);
            }
            return Err(Reason::Full);
        }
        let sides = [Side::new(client), Side::new(socket)];
        let now = Instant::now();
        self.asked.push_back((now, place));
        let pair = Some(Pair { client: from, server, sides, connecting: Some(now) });
        if place == self.pairs.len() {
            self.pairs.push(pair);
        } else {
            self.pairs[place] = pair;
        }
        Ok(())
    }

    /// Moves what can be moved between the two connections of a pair.
    fn pump(&mut self, place: usize) -> Result<(), RelayError> {
        let Some(pair) = self.pairs.get_mut(place).and_then(Option::as_mut) else {
            return Ok(());
        };
        if pair.connecting.is_some() {
            return Ok(());
        }
        let [client, server] = &mut pair.sides;
        let up = pass(client, server, &mut self.pipes);
        let down = pass(server, client, &mut self.pipes);
        match (up, down) {
            (Ok(up), Ok(down)) => {
                self.status.bytes_sent += up.bytes;
                self.status.bytes_received += down.bytes;
                if pair.sides.iter().all(|side| side.is_told) {
                    self.status.ended += 1;
                    self.remove(place);
                } else if up.has_more || down.has_more {
                    self.again.push(place);
                } else if let Some(broken) = pair.sides.iter().find(|side| side.is_broken) {
                    // It is not read now, and no reading would tell.
                    let error = broken.socket.take_error().ok().flatten();
                    let why = error.map_or(Reason::Reset, |error| broken_by(&error));
                    return self.break_off(place, why.as_str());
                }
                Ok(())
            }
            (Err(error), _) | (_, Err(error)) => self.break_off(place, broken_by(&error).as_str()),
        }
    }

    fn break_off(&mut self, place: usize, why: &str) -> Result<(), RelayError> {
        if let Some(pair) = self.remove(place) {
            pair.sides.iter().for_each(|side| socket::reset(&side.socket));
            self.status.note(format!("{} to {}: {why}", pair.client, pair.server));
        }
        Ok(())
    }

    fn remove(&mut self, place: usize) -> Option<Pair> {
        let pair = self.pairs.get_mut(place)?.take()?;
        self.left.push(place);
        Some(pair)
    }

    fn give_up_connecting(&mut self, now: Instant) {
        while let Some((since, place)) = self.asked.front().copied() {
            let pair = self.pairs.get(place).and_then(Option::as_ref);
            if pair.is_some_and(|pair| pair.connecting == Some(since)) {
                if now.duration_since(since) < CONNECT_TIMEOUT {
                    return;
                }
                let _ = self.break_off(place, Reason::Unreachable.as_str());
            }
            self.asked.pop_front();
        }
    }

    fn told(&self) -> Status {
        let of = |(place, pair): (usize, &Pair)| FlowStatus {
            uid: u16::try_from(place).unwrap_or(u16::MAX),
            client: pair.client,
            weight: 1,
            bytes_sent: pair.sides[0].moved,
            bytes_received: pair.sides[1].moved,
            bytes_waiting: pair.sides.iter().map(|side| side.held() as u64).sum(),
            bytes_acknowledged: None,
        };
        let pairs = self.pairs.iter().enumerate();
        let flows = pairs.filter_map(|(place, pair)| pair.as_ref().map(|pair| of((place, pair))));
        Status { flows: flows.collect(), ..self.status.clone() }
    }
}

/// What one direction has done in its turn.
struct Passed {
    bytes: u64,
    has_more: bool,
}

/// Moves what one side has to the other one.
fn pass(from: &mut Side, to: &mut Side, pipes: &mut Vec<Pipe>) -> io::Result<Passed> {
    let mut bytes = 0;
    while bytes < TURN {
        let was_idle = from.held() == 0;
        if was_idle && from.is_readable && !from.is_read && !fill(from, pipes)? {
            match copied(from, to)? {
                0 => break,
                count => bytes += count,
            }
            continue;
        }
        if from.held() == 0 || !to.is_writable {
            break;
        }
        bytes += drain(from, to)?;
    }
    if from.held() == 0 {
        if let Some(pipe) = from.pipe.take().filter(|_| pipes.len() < SPARE_PIPES) {
            pipes.push(pipe);
        }
        if from.is_read && !from.is_told {
            from.is_told = true;
            socket::shut(&to.socket)?;
        }
    }
    from.moved += bytes as u64;
    let has_more = bytes >= TURN;
    Ok(Passed { bytes: bytes as u64, has_more })
}

/// From the connection into the pipe; whether there is one.
fn fill(from: &mut Side, pipes: &mut Vec<Pipe>) -> io::Result<bool> {
    if from.pipe.is_none() {
        from.pipe = match pipes.pop().map_or_else(|| Pipe::new(PIPE), Ok) {
            Ok(pipe) => Some(pipe),
            Err(error) if socket::is_no_descriptor(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
    }
    let Some(pipe) = &mut from.pipe else { return Ok(false) };
    let got = pipe.fill(&from.socket, PIPE);
    note(from, got).map(|_| true)
}

/// What reading a connection brought, in bytes.
fn note(from: &mut Side, got: Got) -> io::Result<usize> {
    match got {
        Got::End => from.is_read = true,
        Got::Some(count) => return Ok(count),
        Got::Nothing => from.is_readable = false,
        Got::Broken(error) => return Err(error),
    }
    Ok(0)
}

/// From one connection into the other where there is no pipe for it; how much.
fn copied(from: &mut Side, to: &mut Side) -> io::Result<usize> {
    if !to.is_writable {
        return Ok(0);
    }
    let got = socket::copy(&from.socket, &to.socket)?;
    if matches!(got, Got::Some(0)) {
        to.is_writable = false;
    }
    note(from, got)
}

/// From the pipe into the other connection; how much.
fn drain(from: &mut Side, to: &mut Side) -> io::Result<usize> {
    let Some(pipe) = &mut from.pipe else { return Ok(0) };
    let count = pipe.drain(&to.socket, false)?;
    to.is_writable = count > 0;
    Ok(count)
}
