//! TLS 1.3 with mutual authentication over a blocking socket, through rustls' unbuffered
//! interface: large reads and writes, and one thread may read while another writes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, ServerConfig};

use crate::cert::{self, Holder};
use crate::interrupted::retry_interrupted;

/// Plaintext encrypted per call: 16 records, which stay in the second-level cache.
const SEND_BATCH: usize = 1 << 18;
/// Ciphertext taken from the socket per call; holds at least one record of 16 KiB and overhead.
const RECEIVE_BATCH: usize = 1 << 18;
/// Room for record overhead, and for alerts and key updates that go before the payload.
const SEND_ROOM: usize = SEND_BATCH + (1 << 14);

/// The name that every Weir server's certificate carries. Peers are known by the key directory's
/// authority, not by DNS: a host may have many names and addresses, or none.
pub(crate) const SERVER_NAME: &str = "weir-server";

enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// A TLS session whose handshake is done.
pub(crate) struct TlsSession {
    shared: Arc<Mutex<Shared>>,
    incoming: Incoming,
}

struct Shared {
    side: Side,
    /// Records that answer the peer (key updates, alerts); they go before the next payload.
    pending: Vec<u8>,
}

/// The reading half.
pub(crate) struct TlsReceiver {
    shared: Arc<Mutex<Shared>>,
    incoming: Incoming,
}

/// The writing half.
pub(crate) struct TlsSender {
    shared: Arc<Mutex<Shared>>,
    outgoing: Vec<u8>,
}

/// Ciphertext from the socket, and plaintext that did not fit the caller's buffer.
struct Incoming {
    ciphertext: Vec<u8>,
    start: usize,
    end: usize,
    plaintext: Vec<u8>,
    taken: usize,
}

enum Step {
    Again,
    NeedInput,
    Ready,
    Closed,
}

impl TlsSession {
    /// The client's side of the handshake.
    pub(crate) fn connect(socket: &TcpStream, config: Arc<ClientConfig>) -> io::Result<Self> {
        let name = ServerName::try_from(SERVER_NAME).map_err(io::Error::other)?;
        let client = UnbufferedClientConnection::new(config, name).map_err(io::Error::other)?;
        Self::handshake(socket, Side::Client(client), || {})
    }

    /// The server's side of the handshake; `greeted` is called once the peer has begun it as a
    /// client does. How long it may take is for the caller to bound.
    pub(crate) fn accept(
        socket: &TcpStream,
        config: Arc<ServerConfig>,
        greeted: impl Fn(),
    ) -> io::Result<Self> {
        let server = UnbufferedServerConnection::new(config).map_err(io::Error::other)?;
        Self::handshake(socket, Side::Server(server), greeted)
    }

    /// Whose certificate the peer has shown.
    pub(crate) fn holder(&self) -> Option<Holder> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = match &shared.side {
            Side::Client(client) => client.peer_certificates(),
            Side::Server(server) => server.peer_certificates(),
        };
        cert::holder(shown?.first()?)
    }

    fn handshake(socket: &TcpStream, side: Side, greeted: impl Fn()) -> io::Result<Self> {
        let mut shared = Shared { side, pending: Vec::new() };
        let mut incoming = Incoming::new();
        loop {
            match shared.advance(&mut incoming, &mut []) {
                Ok((_, step)) => {
                    if !shared.pending.is_empty() {
                        // There is an answer, so what came made sense.
                        greeted();
                    }
                    shared.flush(socket)?;
                    match step {
                        Step::Again => {}
                        Step::NeedInput => incoming.fill(socket)?,
                        Step::Ready => break,
                        Step::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
                    }
                }
                Err(error) => {
                    shared.send_alert(socket, &mut incoming);
                    return Err(io::Error::other(error));
                }
            }
        }
        Ok(Self { shared: Arc::new(Mutex::new(shared)), incoming })
    }

    /// The two halves.
    pub(crate) fn split(self) -> (TlsReceiver, TlsSender) {
        let sender = TlsSender { shared: Arc::clone(&self.shared), outgoing: vec![0; SEND_ROOM] };
        (TlsReceiver { shared: self.shared, incoming: self.incoming }, sender)
    }
}

impl Shared {
    /// Processes what has arrived until there is plaintext or nothing more to do; returns how
    /// many bytes of `buffer` were filled.
    fn advance(
        &mut self,
        incoming: &mut Incoming,
        buffer: &mut [u8],
    ) -> Result<(usize, Step), rustls::Error> {
        let Incoming { ciphertext, start, end, plaintext, .. } = incoming;
        let input = &mut ciphertext[*start..*end];
        let mut out = Plaintext { buffer, filled: 0, spill: plaintext };
        let (discard, step) = match &mut self.side {
            Side::Client(client) => {
                handle(client.process_tls_records(input), &mut out, &mut self.pending)?
            }
            Side::Server(server) => {
                handle(server.process_tls_records(input), &mut out, &mut self.pending)?
            }
        };
        let filled = out.filled;
        *start += discard;
        Ok((filled, step))
    }

    fn flush(&mut self, socket: &TcpStream) -> io::Result<()> {
        if !self.pending.is_empty() {
            (&*socket).write_all(&self.pending)?;
            self.pending.clear();
        }
        Ok(())
    }

    /// Tells the peer why the handshake failed; a peer that is gone need not know.
    fn send_alert(&mut self, socket: &TcpStream, incoming: &mut Incoming) {
        for _ in 0..4 {
            if self.advance(incoming, &mut []).is_err() {
                break;
            }
        }
        let _ = self.flush(socket);
    }

    fn encrypt(&mut self, plaintext: &[u8], outgoing: &mut [u8]) -> io::Result<usize> {
        // What TLS itself has to say goes first, else the session would not accept payload.
        let mut nothing = Incoming::empty();
        while let (_, Step::Again) =
            self.advance(&mut nothing, &mut []).map_err(io::Error::other)?
        {}
        let status = match &mut self.side {
            Side::Client(client) => {
                encrypt(client.process_tls_records(&mut []), plaintext, outgoing)
            }
            Side::Server(server) => {
                encrypt(server.process_tls_records(&mut []), plaintext, outgoing)
            }
        };
        status.map_err(io::Error::other)
    }
}

/// Where decrypted bytes go: the caller's buffer first, what is over into a spill.
struct Plaintext<'a> {
    buffer: &'a mut [u8],
    filled: usize,
    spill: &'a mut Vec<u8>,
}

impl Plaintext<'_> {
    fn add(&mut self, payload: &[u8]) {
        let room = (self.buffer.len() - self.filled).min(payload.len());
        let (now, later) = payload.split_at(room);
        self.buffer[self.filled..self.filled + room].copy_from_slice(now);
        self.filled += room;
        self.spill.extend_from_slice(later);
    }
}

fn handle<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Plaintext<'_>,
    pending: &mut Vec<u8>,
) -> Result<(usize, Step), rustls::Error> {
    let UnbufferedStatus { mut discard, state } = status;
    let step = match state? {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record?;
                discard += record.discard;
                out.add(record.payload);
            }
            Step::Again
        }
        ConnectionState::EncodeTlsData(mut data) => {
            let start = pending.len();
            pending.resize(start + 1024, 0);
            let mut result = data.encode(&mut pending[start..]);
            if let Err(EncodeError::InsufficientSize(size)) = &result {
                pending.resize(start + size.required_size, 0);
                result = data.encode(&mut pending[start..]);
            }
            pending.truncate(start + result.unwrap_or(0));
            Step::Again
        }
        ConnectionState::TransmitTlsData(data) => {
            // The callers flush `pending` before anything else is sent.
            data.done();
            Step::Again
        }
        ConnectionState::BlockedHandshake => Step::NeedInput,
        ConnectionState::WriteTraffic(_) => Step::Ready,
        _ => Step::Closed,
    };
    Ok((discard, step))
}

fn encrypt<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plaintext: &[u8],
    outgoing: &mut [u8],
) -> Result<usize, rustls::Error> {
    match status.state? {
        ConnectionState::WriteTraffic(mut traffic) => {
            traffic.encrypt(plaintext, outgoing).map_err(|error| match error {
                EncryptError::InsufficientSize(_) => {
                    rustls::Error::General("the record buffer is too small".to_owned())
                }
                EncryptError::EncryptExhausted => rustls::Error::EncryptError,
            })
        }
        _ => Err(rustls::Error::General("the session cannot carry data now".to_owned())),
    }
}

impl Incoming {
    fn new() -> Self {
        // Grown only once the peer is known: a stranger's handshake needs little.
        Self { ciphertext: vec![0; 1 << 14], ..Self::empty() }
    }

    fn empty() -> Self {
        Self { ciphertext: Vec::new(), start: 0, end: 0, plaintext: Vec::new(), taken: 0 }
    }

    /// Takes what the socket has, at least one byte.
    fn fill(&mut self, socket: &TcpStream) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.ciphertext.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.ciphertext.len() {
            let larger = self.ciphertext.len() * 2;
            if larger > RECEIVE_BATCH {
                return Err(io::Error::other("a TLS record is larger than TLS allows"));
            }
            self.ciphertext.resize(larger, 0);
        }
        match retry_interrupted(|| (&*socket).read(&mut self.ciphertext[self.end..]))? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.end += count;
                Ok(())
            }
        }
    }

    fn take_spill(&mut self, buffer: &mut [u8]) -> usize {
        let rest = &self.plaintext[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        if self.taken == self.plaintext.len() {
            self.plaintext.clear();
            self.taken = 0;
        }
        count
    }
}

impl TlsReceiver {
    /// Some plaintext, or 0 once the peer has closed the session or the stream ended.
    pub(crate) fn receive(&mut self, socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = self.incoming.take_spill(buffer);
        if self.incoming.ciphertext.len() < RECEIVE_BATCH {
            self.incoming.ciphertext.resize(RECEIVE_BATCH, 0);
        }
        while filled < buffer.len() {
            let step = {
                let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
                let result = shared.advance(&mut self.incoming, &mut buffer[filled..]);
                let (count, step) = result.map_err(io::Error::other)?;
                filled += count;
                step
            };
            match step {
                Step::Again => {}
                Step::Closed => break,
                Step::NeedInput | Step::Ready if filled > 0 => break,
                Step::NeedInput | Step::Ready => match self.incoming.fill(socket) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                    result => result?,
                },
            }
        }
        Ok(filled)
    }
}

impl TlsSender {
    /// Encrypts and sends all of `bytes`.
    pub(crate) fn send(&mut self, socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        for batch in bytes.chunks(SEND_BATCH) {
            let (pending, length) = {
                let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
                let length = shared.encrypt(batch, &mut self.outgoing)?;
                (std::mem::take(&mut shared.pending), length)
            };
            if !pending.is_empty() {
                (&*socket).write_all(&pending)?;
            }
            (&*socket).write_all(&self.outgoing[..length])?;
        }
        Ok(())
    }
}
