//! The client's side of a session: a control connection and a pool of data connections that
//! serves one operation after another.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rustls::ClientConfig;
use weir_units::Time;

use crate::addresses;
use crate::cert::Holder;
use crate::connection::Connection;
use crate::control::{self, ControlReader, ControlWriter};
use crate::error::TransferError;
use crate::escape::printable;
use crate::keys;
use crate::remote::Remote;
use crate::socket;
use crate::spare::Spare;
use crate::threads;
use crate::tls::TlsSession;
use crate::wire::{self, FailureCode, MESSAGE_LIMIT, Message, Role};

/// How long a connection attempt and its handshake may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for one of several routes, without which the others go on.
const ROUTE_TIMEOUT: Duration = Duration::from_secs(4);
/// So many data connections join at the same time; a server bounds those of one address that it
/// does not know yet (64, of all clients there).
const AT_ONCE: usize = 16;

/// Sockets of a session, as long as it has them, so that another thread can cut it.
#[derive(Default)]
pub(crate) struct Cutter {
    state: Mutex<CutterState>,
}

#[derive(Default)]
struct CutterState {
    sockets: Vec<Weak<TcpStream>>,
    cut: bool,
}

impl Cutter {
    fn add(&self, socket: &Arc<TcpStream>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.cut {
            Connection::shut_down(socket);
        }
        state.sockets.retain(|known| known.strong_count() > 0);
        state.sockets.push(Arc::downgrade(socket));
    }

    /// Cuts all connections, also those still to come.
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.cut = true;
        let sockets = state.sockets.iter().filter_map(Weak::upgrade);
        sockets.for_each(|socket| Connection::shut_down(&socket));
    }

    /// Forgets the connections of an attempt that is over.
    pub(crate) fn forget(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).sockets.clear();
    }
}

/// An open session with a server.
pub(crate) struct Session {
    pub(crate) reader: ControlReader,
    pub(crate) control: ControlWriter,
    pub(crate) data: Vec<Connection>,
    /// So many of `data`, from the first one on, are no spare ones.
    pub(crate) promised: usize,
    /// Ports that were to have data connections and have none.
    pub(crate) missed: Vec<u16>,
    /// Where it is, and what further data connections show there.
    pub(crate) door: Door,
}

/// Where data connections join a session.
#[derive(Clone, Copy)]
pub(crate) struct Door {
    address: SocketAddr,
    token: [u8; 16],
}

impl Session {
    /// Makes a request and waits until the server accepts it.
    pub(crate) fn request(&mut self, request: &Message) -> Result<(), TransferError> {
        self.control.send(request)?;
        match self.reader.expect(MESSAGE_LIMIT)? {
            Message::Ready => Ok(()),
            _ => Err(self.reader.unexpected("no answer to the request")),
        }
    }
}

/// A data connection that is to be opened.
#[derive(Clone, Copy)]
struct Wanted {
    port: u16,
    is_spare: bool,
    /// Its largest packet; `None` is what the path carries.
    packet: Option<u16>,
}

/// The data connections of a session, spare ones last.
struct Plan {
    each: Vec<Wanted>,
}

impl Plan {
    /// `streams` for each port, fewer where all of them were more than the server allows.
    fn new(
        ports: &[u16],
        streams: u16,
        spare: Option<&Spare>,
        most: u16,
    ) -> Result<Self, TransferError> {
        if streams > most {
            let (item, value) = ("streams", streams.to_string());
            return Err(TransferError::Setting { item, value, why: "more than the server allows" });
        }
        let (most, several) = (usize::from(most), ports.len().max(1));
        let streams = usize::from(streams).min((most / several).max(1));
        let streams = if ports.is_empty() { 0 } else { streams };
        let own = |port: &u16| {
            let wanted = Wanted { port: *port, is_spare: false, packet: None };
            std::iter::repeat_n(wanted, streams)
        };
        let mut each: Vec<Wanted> = ports.iter().flat_map(own).take(most).collect();
        if let (Some(spare), Some(first)) = (spare, ports.first()) {
            let wanted = Wanted { port: *first, is_spare: true, packet: spare.packet };
            let room = most.saturating_sub(each.len()).min(spare.streams.into());
            each.extend(std::iter::repeat_n(wanted, room));
        }
        Ok(Self { each })
    }
}

/// Whether it is a route's failure that others may do without.
fn is_unreached(error: &TransferError) -> bool {
    use TransferError::{Connect, Lost, Silent};
    matches!(error, Connect { .. } | Lost { .. } | Silent { .. })
}

fn is_to(connection: &Connection, port: u16) -> bool {
    connection.socket.peer_addr().is_ok_and(|address| address.port() == port)
}

/// What it takes to open connections.
pub(crate) struct Dialer<'a> {
    pub(crate) remote: &'a Remote,
    pub(crate) tls: Option<&'a Arc<ClientConfig>>,
    pub(crate) cutter: &'a Cutter,
    pub(crate) silence: Time,
    /// The name that the server's certificate must have.
    pub(crate) server_name: Option<&'a str>,
    pub(crate) revoked: Option<&'a Path>,
    /// The largest packets of all connections; `None` is what the path carries.
    pub(crate) packet: Option<u16>,
}

impl Dialer<'_> {
    /// Opens a session with `streams` data connections to each port and up to as many more as are
    /// to be spare, as many as the server allows. The first port that is reached has the control
    /// connection and the spare ones.
    pub(crate) fn open(
        &self,
        ports: &[u16],
        streams: u16,
        spare: Option<&Spare>,
    ) -> Result<Session, TransferError> {
        let (connection, ports, mut missed) = self.dial_first(ports)?;
        let address = connection.socket.peer_addr();
        let address = address.map_err(|error| control::broken(&self.remote.to_string(), error))?;
        let (mut reader, control) = control::split(connection);
        control.send(&Message::Hello { role: Role::Control, token: wire::greeting() })?;
        let Message::Welcome { token, version, streams_max } = reader.expect(MESSAGE_LIMIT)? else {
            return Err(reader.unexpected("no welcome"));
        };
        control.set_version(version);
        let plan = Plan::new(ports, streams, spare, streams_max)?;
        let door = Door { address, token };
        let joined = self.join_all(door, &plan.each)?;
        let promised =
            joined.iter().zip(&plan.each).filter(|(one, wanted)| one.is_some() && !wanted.is_spare);
        let promised = promised.count();
        let data: Vec<Connection> = joined.into_iter().flatten().collect();
        let is_joined = |port: u16| data[..promised].iter().any(|one| is_to(one, port));
        missed.extend(ports.iter().filter(|port| !is_joined(**port)));
        let patience =
            control::set_patience(control.socket(), Some(control::duration(self.silence)));
        patience.map_err(|error| control::broken(control.peer(), error))?;
        Ok(Session { reader, control, data, promised, missed, door })
    }

    /// The control connection, to the first of `ports` that is reached; that port and those after
    /// it, and those that were not reached.
    fn dial_first<'p>(
        &self,
        ports: &'p [u16],
    ) -> Result<(Connection, &'p [u16], Vec<u16>), TransferError> {
        let mut addresses = self.remote.resolve()?;
        let mut missed = Vec::new();
        for (index, port) in ports.iter().enumerate() {
            addresses.iter_mut().for_each(|address| address.set_port(*port));
            let timeout = if ports.len() > 1 { ROUTE_TIMEOUT } else { CONNECT_TIMEOUT };
            match self.dial(&addresses, None, timeout) {
                Ok(connection) => return Ok((connection, &ports[index..], missed)),
                Err(error) if index + 1 == ports.len() || !is_unreached(&error) => {
                    return Err(error);
                }
                Err(_) => missed.push(*port),
            }
        }
        Err(self.failed(io::Error::from(io::ErrorKind::AddrNotAvailable)))
    }

    /// So many more data connections for a session that is open.
    pub(crate) fn join_more(
        &self,
        door: Door,
        more: u16,
    ) -> Result<Vec<Connection>, TransferError> {
        let wanted = Wanted { port: door.address.port(), is_spare: false, packet: None };
        let joined = self.join_all(door, &vec![wanted; more.into()])?;
        Ok(joined.into_iter().flatten().collect())
    }

    /// Data connections as they are wanted; none for those that do not reach a port other than the
    /// session's. They join side by side: one after the other each would take several round
    /// trips more.
    fn join_all(
        &self,
        door: Door,
        wanted: &[Wanted],
    ) -> Result<Vec<Option<Connection>>, TransferError> {
        let mut data = Vec::with_capacity(wanted.len());
        for some in wanted.chunks(AT_ONCE) {
            let joined: Result<Vec<_>, TransferError> = thread::scope(|scope| {
                let join = |one: &Wanted| {
                    let one = *one;
                    threads::begin_in(scope, move || match self.join(door, one) {
                        Err(error) if one.port != door.address.port() && is_unreached(&error) => {
                            Ok(None)
                        }
                        joined => joined.map(Some),
                    })
                };
                let joining: Vec<_> = some.iter().map(join).collect();
                let ended = joining.into_iter();
                ended.map(|one| one?.join().expect("joining threads do not panic")).collect()
            });
            data.extend(joined?);
        }
        Ok(data)
    }

    fn join(&self, door: Door, wanted: Wanted) -> Result<Connection, TransferError> {
        let mut to = door.address;
        to.set_port(wanted.port);
        let timeout = if to == door.address { CONNECT_TIMEOUT } else { ROUTE_TIMEOUT };
        let mut connection = self.dial(std::slice::from_ref(&to), wanted.packet, timeout)?;
        let peer = connection.peer();
        let broken = |error| control::broken(&peer, error);
        let hello = Message::Hello { role: Role::Data, token: door.token };
        connection.sender.send(&hello.encode()).map_err(broken)?;
        // One byte says that the connection has joined; a refusal is a message or closes it.
        let mut joined = [0];
        connection.receiver.receive(&mut joined).map_err(broken)?;
        if joined != [1] {
            let (code, message) = (FailureCode::Busy, "it takes no more connections".to_owned());
            return Err(TransferError::Peer { peer, code, message });
        }
        socket::prepare_data(&connection.socket).map_err(broken)?;
        Ok(connection)
    }

    fn dial(
        &self,
        addresses: &[SocketAddr],
        packet: Option<u16>,
        timeout: Duration,
    ) -> Result<Connection, TransferError> {
        let packet = packet.into_iter().chain(self.packet).min();
        match addresses::connect(addresses, timeout, packet) {
            Ok(stream) => self.secure(stream),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, source: io::Error) -> TransferError {
        TransferError::Connect { address: self.remote.to_string(), source }
    }

    fn secure(&self, stream: TcpStream) -> Result<Connection, TransferError> {
        let stream = Arc::new(stream);
        self.cutter.add(&stream);
        let broken = |error| control::broken(&self.remote.to_string(), error);
        socket::prepare(&stream).map_err(broken)?;
        control::set_patience(&stream, Some(CONNECT_TIMEOUT)).map_err(broken)?;
        match self.tls {
            None => Ok(Connection::plain(stream)),
            Some(config) => {
                let session = TlsSession::connect(&stream, Arc::clone(config));
                let session = session.map_err(|error| broken(hint_at_no_tls(error)))?;
                self.check_holder(session.holder().as_ref())?;
                Ok(Connection::secured(stream, session))
            }
        }
    }
}

impl Dialer<'_> {
    /// Whether the server is the one that is meant; that it has a certificate of the same
    /// authority was seen before.
    fn check_holder(&self, holder: Option<&Holder>) -> Result<(), TransferError> {
        let Some(holder) = holder else {
            return Ok(());
        };
        keys::check_revoked(self.revoked, holder)?;
        match self.server_name {
            Some(name) if name != holder.name => {
                let (remote, found) = (self.remote, printable(&holder.name));
                let why = format!("{remote} is \"{found}\" by its certificate, not \"{name}\"");
                Err(TransferError::Denied { why })
            }
            _ => Ok(()),
        }
    }
}

/// A server without TLS ends the connection when it is greeted in TLS, as a dying one does.
fn hint_at_no_tls(error: io::Error) -> io::Error {
    match error.kind() {
        kind @ (io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof) => {
            io::Error::new(kind, format!("{error}; does the server run with --insecure?"))
        }
        _ => error,
    }
}
