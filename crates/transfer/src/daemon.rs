//! The daemon: accepts sessions and carries out their requests within its roots.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use socket2::SockRef;
use weir_units::{Rate, Time};

use crate::bounds::Bounds;
use crate::connection::Connection;
use crate::control::{self, ControlReader, ControlWriter};
use crate::error::TransferError;
use crate::pace::Pace;
use crate::progress::Progress;
use crate::receive::{self, Destination};
use crate::root::{Confinement, Links, Root};
use crate::send::{self, Source};
use crate::socket;
use crate::tls::TlsSession;
use crate::wire::{
    FailureCode, MESSAGE_LIMIT, Message, Options, PREFIX_SIZE, RelativePath, Role, message_length,
};

/// A stranger has this long for the TLS handshake and the first message.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest first message: a `Hello` is 40 bytes.
const HELLO_LIMIT: usize = 128;
/// A session without a request for this long is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// How long stopping waits for sessions to end.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// Connections at once, strangers included.
const CONNECTIONS_MAX: usize = 512;
/// Data connections per session.
const STREAMS_MAX: u16 = 64;

/// What a peer may do below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only fetch.
    ReadOnly,
    /// Fetch and store.
    ReadWrite,
}

/// A directory that is served.
#[derive(Clone, Debug)]
pub struct Export {
    /// The first component of remote paths; empty for a daemon with a single root.
    pub name: String,
    /// The directory, opened.
    pub root: Arc<Root>,
    /// What a peer may do.
    pub access: Access,
}

/// How a daemon serves.
#[derive(Clone)]
pub struct DaemonConfig {
    /// Host and port to listen on; port 0 lets the system choose.
    pub listen: String,
    /// What is served.
    pub exports: Vec<Export>,
    /// Keys; without them anyone who can connect may do what the roots allow.
    pub tls: Option<Arc<ServerConfig>>,
    /// Everything received counts as durable only once it is on the disk.
    pub sync: bool,
    /// A peer that says nothing for this long during an operation is gone; 5 s or more.
    pub silence: Time,
}

/// What a daemon tells about its work, one line of text each.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// A running daemon; it stops when dropped.
pub struct Daemon {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<thread::JoinHandle<()>>,
}

struct Shared {
    config: DaemonConfig,
    log: Log,
    listener: TcpListener,
    sessions: Mutex<HashMap<[u8; 16], SyncSender<Connection>>>,
    connections: AtomicUsize,
    /// Every open socket, so that stopping wakes every thread.
    sockets: Mutex<HashMap<usize, Arc<TcpStream>>>,
    next_socket: AtomicUsize,
    stopping: AtomicBool,
}

impl Daemon {
    /// Binds and starts to accept.
    pub fn start(config: DaemonConfig, log: Log) -> Result<Self, TransferError> {
        check_exports(&config.exports)?;
        control::check_silence(config.silence)?;
        let failed = |source| TransferError::Listen { address: config.listen.clone(), source };
        let listener = TcpListener::bind(&config.listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            listener,
            config,
            log,
            sessions: Mutex::default(),
            connections: AtomicUsize::new(0),
            sockets: Mutex::default(),
            next_socket: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = thread::spawn(move || accepting.accept());
        Ok(Self { shared, address, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all sessions, which stay resumable, and ends.
    pub fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else {
            return;
        };
        self.shared.stopping.store(true, Relaxed);
        // Shutting a listener down is what wakes a blocked accept on Linux.
        let _ = SockRef::from(&self.shared.listener).shutdown(std::net::Shutdown::Both);
        acceptor.join().expect("the accepting thread does not panic");
        self.shared.sockets().values().for_each(|socket| Connection::shut_down(socket));
        // Sessions let go of the roots as they end; one that waits for a disk is not waited for.
        let give_up = Instant::now() + STOP_WAIT;
        while self.shared.connections.load(Relaxed) > 0 && Instant::now() < give_up {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

fn check_exports(exports: &[Export]) -> Result<(), TransferError> {
    let wrong =
        |value: &str, why| TransferError::Setting { item: "root", value: value.into(), why };
    let mut names: Vec<&str> = exports.iter().map(|export| export.name.as_str()).collect();
    names.sort_unstable();
    if exports.is_empty() {
        return Err(wrong("empty", "a daemon needs at least one root"));
    }
    for pair in names.windows(2) {
        if pair[0] == pair[1] {
            return Err(wrong(pair[0], "two roots have this name"));
        }
    }
    for name in &names {
        if name.is_empty() && names.len() > 1 {
            return Err(wrong("unnamed", "with several roots each needs a name, NAME=DIR"));
        }
        if name.contains('/') || matches!(*name, "." | "..") {
            return Err(wrong(name, "a name has no slash and is neither . nor .."));
        }
    }
    Ok(())
}

/// Keeps count of a connection and its socket for as long as its thread runs.
struct Guest<'a> {
    shared: &'a Shared,
    number: usize,
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.shared.sockets().remove(&self.number);
        self.shared.connections.fetch_sub(1, Relaxed);
    }
}

impl Shared {
    fn accept(self: &Arc<Self>) {
        while !self.stopping.load(Relaxed) {
            match self.listener.accept() {
                Ok((stream, peer)) => self.receive_guest(stream, peer),
                Err(_) if self.stopping.load(Relaxed) => {}
                Err(error) => {
                    (self.log)(&format!("cannot accept a connection: {error}"));
                    // Out of descriptors: the sessions that hold them need a moment to end.
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn receive_guest(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        if self.connections.fetch_add(1, Relaxed) >= CONNECTIONS_MAX {
            self.connections.fetch_sub(1, Relaxed);
            (self.log)(&format!("{peer}: refused, {CONNECTIONS_MAX} connections are open"));
            return;
        }
        let shared = Arc::clone(self);
        let stream = Arc::new(stream);
        let number = self.next_socket.fetch_add(1, Relaxed);
        self.sockets().insert(number, Arc::clone(&stream));
        let spawned = thread::Builder::new().name("weir-guest".to_owned()).spawn(move || {
            let _guest = Guest { shared: &shared, number };
            if let Err(error) = shared.serve_guest(stream) {
                (shared.log)(&format!("{peer}: {error}"));
            }
        });
        if let Err(error) = spawned {
            self.sockets().remove(&number);
            self.connections.fetch_sub(1, Relaxed);
            (self.log)(&format!("{peer}: refused, no thread for it: {error}"));
        }
    }

    fn serve_guest(&self, stream: Arc<TcpStream>) -> Result<(), TransferError> {
        let peer = stream.peer_addr().map_or_else(|_| "a peer".to_owned(), |peer| peer.to_string());
        let broken = |error| control::broken(&peer, error);
        socket::prepare(&stream).map_err(broken)?;
        control::set_patience(&stream, Some(HANDSHAKE_TIMEOUT)).map_err(broken)?;
        let mut connection = match &self.config.tls {
            None => Connection::plain(stream),
            Some(config) => {
                let session = TlsSession::accept(&stream, Arc::clone(config)).map_err(broken)?;
                Connection::secured(stream, session)
            }
        };
        match read_hello(&mut connection, &peer)? {
            (Role::Control, _) => self.serve_session(connection),
            (Role::Data, token) => self.join_session(connection, token),
        }
    }

    /// Hands a data connection to its session, whose control connection answers for it.
    fn join_session(
        &self,
        mut connection: Connection,
        token: [u8; 16],
    ) -> Result<(), TransferError> {
        let peer = connection.peer();
        let broken = |error| control::broken(&peer, error);
        let session = self.sessions().get(&token).cloned();
        let Some(session) = session else {
            return Err(TransferError::Unexpected { peer, what: "a token of no session" });
        };
        socket::prepare_data(&connection.socket).map_err(broken)?;
        connection.sender.send(&[1]).map_err(broken)?;
        // A session that ended, or has too many already, drops the connection, which closes it.
        let _ = session.try_send(connection);
        Ok(())
    }

    fn serve_session(&self, connection: Connection) -> Result<(), TransferError> {
        let (reader, control) = control::split(connection);
        let mut token = [0; 16];
        fill_random(&mut token).map_err(|error| control::broken(control.peer(), error))?;
        let (sender, joined) = mpsc::sync_channel(STREAMS_MAX.into());
        self.sessions().insert(token, sender);
        let session = Session { shared: self, control, joined, data: Vec::new() };
        let result = session.run(reader, token);
        self.sessions().remove(&token);
        result
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<[u8; 16], SyncSender<Connection>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sockets(&self) -> MutexGuard<'_, HashMap<usize, Arc<TcpStream>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The export and the path below it that a peer means.
    fn locate(&self, typed: &[u8]) -> Result<(&Export, RelativePath), TransferError> {
        let path = RelativePath::from_typed(typed).map_err(TransferError::Path)?;
        if let [only] = &self.config.exports[..]
            && only.name.is_empty()
        {
            return Ok((only, path));
        }
        let (first, rest) = path.split_first().unwrap_or_default();
        let named = |export: &&Export| export.name.as_bytes() == first;
        let export = self.config.exports.iter().find(named).ok_or_else(|| {
            let value = String::from_utf8_lossy(first).into_owned();
            TransferError::Setting { item: "root", value, why: "this server has no such root" }
        })?;
        Ok((export, rest))
    }
}

/// Reads the first message with the least possible trust: its length is bounded before any of it
/// is kept.
fn read_hello(connection: &mut Connection, peer: &str) -> Result<(Role, [u8; 16]), TransferError> {
    let wire = |source| TransferError::Wire { peer: peer.to_owned(), source };
    let broken = |error| control::broken(peer, error);
    let mut prefix = [0; PREFIX_SIZE];
    connection.receiver.receive(&mut prefix).map_err(broken)?;
    let length = message_length(prefix, HELLO_LIMIT).map_err(wire)?;
    let mut body = vec![0; length];
    connection.receiver.receive(&mut body).map_err(broken)?;
    match Message::decode(&body) {
        Ok(Message::Hello { role, token }) => Ok((role, token)),
        Ok(_) => Err(TransferError::Unexpected { peer: peer.to_owned(), what: "no hello" }),
        Err(source) => {
            // A peer of another version learns why.
            let (code, message) = (FailureCode::Protocol, source.to_string());
            let _ = connection.sender.send(&Message::Failure { code, message }.encode());
            Err(wire(source))
        }
    }
}

fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags)?;
    }
    Ok(())
}

/// One client's session on the daemon's side.
struct Session<'a> {
    shared: &'a Shared,
    control: ControlWriter,
    joined: Receiver<Connection>,
    /// Data connections between operations.
    data: Vec<Connection>,
}

impl Session<'_> {
    fn run(mut self, mut reader: ControlReader, token: [u8; 16]) -> Result<(), TransferError> {
        self.control.send(&Message::Welcome { token, streams_max: STREAMS_MAX })?;
        loop {
            self.be_patient(IDLE_TIMEOUT)?;
            let Some(message) = reader.next(MESSAGE_LIMIT)? else {
                return Ok(());
            };
            self.be_patient(control::duration(self.shared.config.silence))?;
            let done = match message {
                Message::Put { destination, options } => {
                    self.put(&mut reader, &destination, &options)
                }
                Message::Get { sources, options } => self.get(&mut reader, &sources, &options),
                Message::Ping => Ok(()),
                _ => Err(reader.unexpected("no request")),
            };
            if let Err(error) = done {
                let (code, message) = (error.code(), error.to_string());
                // Where the peer is gone it cannot be told.
                let _ = self.control.send(&Message::Failure { code, message });
                return Err(error);
            }
        }
    }

    fn be_patient(&self, patience: Duration) -> Result<(), TransferError> {
        let set = control::set_patience(self.control.socket(), Some(patience));
        set.map_err(|error| control::broken(self.control.peer(), error))
    }

    fn put(
        &mut self,
        reader: &mut ControlReader,
        typed: &[u8],
        options: &Options,
    ) -> Result<(), TransferError> {
        let (export, path) = self.shared.locate(typed)?;
        if export.access == Access::ReadOnly {
            return Err(self.denied("this root is read-only"));
        }
        let root = Arc::clone(&export.root);
        let bounds = Bounds::of_daemon();
        let destination = Destination { root, path, is_directory: typed.ends_with(b"/"), bounds };
        let data = self.gather(options.streams)?;
        self.control.send(&Message::Ready)?;
        let sync = options.sync || self.shared.config.sync;
        let options = Options { sync, ..options.clone() };
        let progress = Arc::new(Progress::default());
        self.data =
            receive::receive(reader, &self.control, data, &destination, &options, &progress)?;
        self.log_outcome("received", &progress, progress.snapshot().bytes_durable);
        Ok(())
    }

    fn get(
        &mut self,
        reader: &mut ControlReader,
        typed: &[Vec<u8>],
        options: &Options,
    ) -> Result<(), TransferError> {
        let mut sources = Vec::new();
        for typed in typed {
            sources.push(self.source(typed, options)?);
        }
        let pace = Arc::new(Pace::new(Rate::from_bit_per_s(options.rate_bps), &options.congestion));
        let data = self.gather(options.streams)?;
        self.control.send(&Message::Ready)?;
        let progress = Arc::new(Progress::default());
        let control = &self.control;
        let sent = send::send(reader, control, data, &sources, options.hash, &pace, &progress);
        pace.release();
        self.data = sent?;
        self.log_outcome("sent", &progress, progress.snapshot().bytes_done);
        Ok(())
    }

    /// What became of an operation. The peer was told of each file that failed, so the session
    /// goes on.
    fn log_outcome(&self, what: &str, progress: &Progress, bytes: u64) {
        let (peer, files) = (self.control.peer(), progress.snapshot().files_done);
        (self.shared.log)(&format!("{peer}: {what} {files} files, {bytes} B"));
        if let Err(error) = progress.verdict() {
            (self.shared.log)(&format!("{peer}: {error}"));
        }
    }

    fn source(&self, typed: &[u8], options: &Options) -> Result<Source, TransferError> {
        let (export, path) = self.shared.locate(typed)?;
        let links = if options.follow_links { Links::Follow } else { Links::Keep };
        let root = Arc::clone(&export.root);
        let mut source = Source::below(root, path, typed.ends_with(b"/"), links);
        if source.path.is_empty() && !typed.is_empty() && !typed.ends_with(b"/") {
            // A root that was asked for by its name is sent under it, as any directory.
            source.name = RelativePath::new(export.name.as_bytes()).map_err(TransferError::Path)?;
        }
        source.check().map_err(|source| TransferError::Local {
            what: "cannot send",
            path: String::from_utf8_lossy(typed).into_owned(),
            source,
        })
    }

    /// The data connections of an operation: those kept from the last one, and new ones.
    fn gather(&mut self, streams: u16) -> Result<Vec<Connection>, TransferError> {
        let wanted = usize::from(streams);
        if !(1..=STREAMS_MAX).contains(&streams) {
            let (item, value) = ("streams", streams.to_string());
            return Err(TransferError::Setting { item, value, why: "1 to 64 are allowed" });
        }
        let mut data = std::mem::take(&mut self.data);
        while data.len() < wanted {
            match self.joined.recv_timeout(HANDSHAKE_TIMEOUT) {
                Ok(connection) => data.push(connection),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let peer = self.control.peer().to_owned();
                    let what = "fewer data connections joined than the request needs";
                    return Err(TransferError::Unexpected { peer, what });
                }
            }
        }
        data.truncate(wanted);
        Ok(data)
    }

    fn denied(&self, why: &str) -> TransferError {
        TransferError::Denied { why: why.to_owned() }
    }
}

impl Export {
    /// Opens `directory` for serving.
    pub fn open(
        name: &str,
        directory: &std::path::Path,
        access: Access,
    ) -> Result<Self, TransferError> {
        let root = Arc::new(Root::open(directory, Confinement::Beneath)?);
        Ok(Self { name: name.to_owned(), root, access })
    }
}
