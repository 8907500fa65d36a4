//! The client's side of a session: a control connection and a pool of data connections that
//! serves one operation after another.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustls::ClientConfig;
use weir_units::Time;

use crate::cert::Holder;
use crate::connection::Connection;
use crate::control::{self, ControlReader, ControlWriter};
use crate::error::TransferError;
use crate::escape::printable;
use crate::keys;
use crate::remote::Remote;
use crate::socket;
use crate::spare::Spare;
use crate::tls::TlsSession;
use crate::wire::{self, FailureCode, MESSAGE_LIMIT, Message, Role};

/// How long a connection attempt and its handshake may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// So many data connections join at the same time; a server bounds those of one address that it
/// does not know yet (64, of all clients there).
const AT_ONCE: usize = 16;

/// Sockets of a session, so that another thread can cut it.
#[derive(Default)]
pub(crate) struct Cutter {
    state: Mutex<CutterState>,
}

#[derive(Default)]
struct CutterState {
    sockets: Vec<Arc<TcpStream>>,
    cut: bool,
}

impl Cutter {
    fn add(&self, socket: &Arc<TcpStream>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.cut {
            Connection::shut_down(socket);
        }
        state.sockets.push(Arc::clone(socket));
    }

    /// Cuts all connections, also those still to come.
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.cut = true;
        state.sockets.iter().for_each(|socket| Connection::shut_down(socket));
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
    /// Opens a session with `streams` data connections and up to as many more as are to be spare,
    /// as many as the server allows.
    pub(crate) fn open(
        &self,
        streams: u16,
        spare: Option<&Spare>,
    ) -> Result<Session, TransferError> {
        let addresses = self.remote.resolve()?;
        let connection = self.dial(&addresses, None)?;
        let address = connection.socket.peer_addr();
        let address = address.map_err(|error| control::broken(&self.remote.to_string(), error))?;
        let (mut reader, control) = control::split(connection);
        control.send(&Message::Hello { role: Role::Control, token: wire::greeting() })?;
        let Message::Welcome { token, version, streams_max } = reader.expect(MESSAGE_LIMIT)? else {
            return Err(reader.unexpected("no welcome"));
        };
        control.set_version(version);
        if streams > streams_max {
            let (item, value) = ("streams", streams.to_string());
            return Err(TransferError::Setting { item, value, why: "more than the server allows" });
        }
        let more = spare.map_or(0, |spare| spare.streams);
        let packet = spare.and_then(|spare| spare.packet);
        let packets: Vec<_> = (0..streams.saturating_add(more).min(streams_max))
            .map(|index| packet.filter(|_| index >= streams))
            .collect();
        let data = self.join_all(&address, token, &packets)?;
        let patience =
            control::set_patience(control.socket(), Some(control::duration(self.silence)));
        patience.map_err(|error| control::broken(control.peer(), error))?;
        Ok(Session { reader, control, data })
    }

    /// Data connections in the order of the largest packets that each may have. They join side by
    /// side: one after the other each would take several round trips more.
    fn join_all(
        &self,
        address: &SocketAddr,
        token: [u8; 16],
        packets: &[Option<u16>],
    ) -> Result<Vec<Connection>, TransferError> {
        let mut data = Vec::with_capacity(packets.len());
        for some in packets.chunks(AT_ONCE) {
            let joined: Result<Vec<Connection>, TransferError> = thread::scope(|scope| {
                let join = |packet: &Option<u16>| {
                    let packet = *packet;
                    scope.spawn(move || self.join(address, token, packet))
                };
                let joining: Vec<_> = some.iter().map(join).collect();
                let ended = joining.into_iter();
                ended.map(|one| one.join().expect("joining threads do not panic")).collect()
            });
            data.extend(joined?);
        }
        Ok(data)
    }

    fn join(
        &self,
        address: &SocketAddr,
        token: [u8; 16],
        packet: Option<u16>,
    ) -> Result<Connection, TransferError> {
        let mut connection = self.dial(std::slice::from_ref(address), packet)?;
        let peer = connection.peer();
        let broken = |error| control::broken(&peer, error);
        let hello = Message::Hello { role: Role::Data, token };
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
    ) -> Result<Connection, TransferError> {
        let failed = |source| TransferError::Connect { address: self.remote.to_string(), source };
        let packet = packet.into_iter().chain(self.packet).min();
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            let connected = match packet {
                None => TcpStream::connect_timeout(address, CONNECT_TIMEOUT),
                Some(packet) => socket::connect_with_packets(address, CONNECT_TIMEOUT, packet),
            };
            match connected {
                Ok(stream) => return self.secure(stream),
                Err(error) => last = error,
            }
        }
        Err(failed(last))
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
