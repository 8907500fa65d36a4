//! The control connection: whole messages in, whole messages out.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_units::Time;

use crate::connection::{Connection, ConnectionReceiver, ConnectionSender};
use crate::error::TransferError;
use crate::escape::printable;
use crate::wire::{Message, PREFIX_SIZE, VERSION, message_length};

/// A peer from which nothing at all arrives for this long, heartbeats included, is gone, unless
/// the configuration says otherwise.
pub(crate) const SILENCE: Time = Time::from_ms(20_000);
/// The least that can be asked for: several heartbeats must fit.
pub(crate) const SILENCE_MIN: Time = Time::from_ms(5_000);
/// How often a side that has nothing to say says so.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long a broken data connection waits for the control connection to say why.
pub(crate) const REASON_WAIT: Duration = Duration::from_millis(500);

/// Reads messages; owned by one thread.
pub(crate) struct ControlReader {
    receiver: ConnectionReceiver,
    peer: String,
    body: Vec<u8>,
}

/// Writes messages; shared by all threads of a session.
#[derive(Clone)]
pub(crate) struct ControlWriter {
    sender: Arc<Mutex<ConnectionSender>>,
    socket: Arc<TcpStream>,
    peer: Arc<str>,
    /// The protocol's version that the peer speaks too.
    version: Arc<AtomicU16>,
}

/// Splits a connection into its control halves.
pub(crate) fn split(connection: Connection) -> (ControlReader, ControlWriter) {
    let peer = connection.peer();
    let writer = ControlWriter {
        sender: Arc::new(Mutex::new(connection.sender)),
        socket: connection.socket,
        peer: peer.as_str().into(),
        version: Arc::new(AtomicU16::new(VERSION)),
    };
    (ControlReader { receiver: connection.receiver, peer, body: Vec::new() }, writer)
}

/// How long reads and writes may block; `None` is for ever.
pub(crate) fn set_patience(socket: &TcpStream, patience: Option<Duration>) -> io::Result<()> {
    socket.set_read_timeout(patience)?;
    socket.set_write_timeout(patience)
}

/// Checks a configured silence.
pub(crate) fn check_silence(silence: Time) -> Result<(), TransferError> {
    if silence < SILENCE_MIN {
        let (item, value) = ("silence", silence.to_string());
        return Err(TransferError::Setting { item, value, why: "at least 5 s are needed" });
    }
    Ok(())
}

/// A span as the standard library has it.
pub(crate) fn duration(span: Time) -> Duration {
    Duration::from_nanos(span.as_ns())
}

/// Turns an input/output error of a connection into what it means.
pub(crate) fn broken(peer: &str, error: io::Error) -> TransferError {
    let peer = peer.to_owned();
    let damaged = Some(&rustls::Error::DecryptError);
    if error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) == damaged {
        let source = io::Error::new(io::ErrorKind::InvalidData, "TLS found damaged data");
        return TransferError::Lost { peer, source };
    }
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return TransferError::Tls { peer, source: tls.clone() };
    }
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => TransferError::Silent { peer },
        _ => TransferError::Lost { peer, source: error },
    }
}

/// Whether these bytes begin a TLS alert or handshake record (RFC 8446, section 5.1). As the
/// length of a message they would be far over every limit.
fn is_tls_record(prefix: [u8; PREFIX_SIZE]) -> bool {
    matches!(prefix, [0x15 | 0x16, 3, ..])
}

impl ControlReader {
    /// The next message, of at most `limit` bytes; `None` at a clean end between messages.
    pub(crate) fn next(&mut self, limit: usize) -> Result<Option<Message>, TransferError> {
        let wire = |source| TransferError::Wire { peer: self.peer.clone(), source };
        let mut prefix = [0; PREFIX_SIZE];
        let first = self.receiver.receive_some(&mut prefix);
        let first = first.map_err(|error| broken(&self.peer, error))?;
        if first == 0 {
            return Ok(None);
        }
        let rest = self.receiver.receive(&mut prefix[first..]);
        rest.map_err(|error| broken(&self.peer, error))?;
        if self.receiver.bare_socket().is_some() && is_tls_record(prefix) {
            return Err(TransferError::SpeaksTls { peer: self.peer.clone() });
        }
        let length = message_length(prefix, limit).map_err(wire)?;
        self.body.resize(length, 0);
        let body = self.receiver.receive(&mut self.body);
        body.map_err(|error| broken(&self.peer, error))?;
        Message::decode(&self.body).map(Some).map_err(wire)
    }

    /// The next message of an operation: its end and the peer's failures are errors.
    pub(crate) fn expect(&mut self, limit: usize) -> Result<Message, TransferError> {
        match self.next(limit)? {
            Some(Message::Failure { code, message }) => {
                let message = printable(&message);
                Err(TransferError::Peer { peer: self.peer.clone(), code, message })
            }
            Some(Message::FileFailed { file, code, message }) => {
                Ok(Message::FileFailed { file, code, message: printable(&message) })
            }
            Some(Message::Skipped { message }) => {
                Ok(Message::Skipped { message: printable(&message) })
            }
            Some(Message::Unset { message }) => Ok(Message::Unset { message: printable(&message) }),
            Some(message) => Ok(message),
            None => {
                let source = io::Error::from(io::ErrorKind::UnexpectedEof);
                Err(TransferError::Lost { peer: self.peer.clone(), source })
            }
        }
    }

    /// An error for a message that is not allowed now.
    pub(crate) fn unexpected(&self, what: &'static str) -> TransferError {
        TransferError::Unexpected { peer: self.peer.clone(), what }
    }
}

impl ControlWriter {
    /// Sends a message; blocks while the peer does not read.
    pub(crate) fn send(&self, message: &Message) -> Result<(), TransferError> {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.send(&message.encode_for(self.version())).map_err(|error| broken(&self.peer, error))
    }

    /// The version of the protocol that both ends speak.
    pub(crate) fn version(&self) -> u16 {
        self.version.load(Relaxed)
    }

    /// Notes what version the peer speaks.
    pub(crate) fn set_version(&self, version: u16) {
        self.version.store(version, Relaxed);
    }

    /// Ends the connection, waking whoever reads from it.
    pub(crate) fn shut_down(&self) {
        Connection::shut_down(&self.socket);
    }

    /// The socket, for timeouts.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The socket, for whoever looks after it from another thread.
    pub(crate) fn shared_socket(&self) -> Arc<TcpStream> {
        Arc::clone(&self.socket)
    }

    /// Whether this is the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.socket, &other.socket)
    }

    /// The peer's address.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }
}
