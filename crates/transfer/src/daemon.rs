//! The daemon: accepts connections, finds out whose they are, and hands them to sessions.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustls::ServerConfig;
use socket2::SockRef;
use weir_units::Time;

use crate::connection::Connection;
use crate::control;
use crate::error::TransferError;
use crate::guests::{self, GREETING_TIMEOUT, Guests};
use crate::keys;
use crate::log::{Entry, Journalist, Log};
use crate::receive;
use crate::rights::{self, Grant};
use crate::room::{self, Rooms};
use crate::root::{Confinement, Root};
use crate::session::{STREAMS_MAX, Session};
use crate::socket;
use crate::tls::TlsSession;
use crate::wire::{self, FailureCode, Message, PREFIX_SIZE, RelativePath, Role, message_length};

/// The longest first message: a `Hello` is 40 bytes.
const HELLO_LIMIT: usize = 128;
/// The least that can be asked for: an honest client must be able to begin.
const IDLE_MIN: Time = Time::from_ms(1_000);
/// Connections that wait to be accepted, as far as the system allows. Beyond the 128 of the
/// standard library the kernel would drop a known client's among a crowd of strangers', to be sent
/// again after one second, then two, then four.
const BACKLOG: i32 = 4096;
/// How long stopping waits for sessions to end.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// How often files in progress are looked for to which nobody came back.
const SWEEP: Duration = Duration::from_secs(24 * 3600);

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
    /// A session in which nothing is done for this long ends, signs of life or not; 1 s or more.
    pub idle: Time,
    /// Bytes that stay free of each file system; `None` is 1 % of it, at most 1 GB.
    pub reserve: Option<u64>,
    /// Bytes that each root may hold, or with rights each path of a grant.
    pub quota: Option<u64>,
    /// Which client may do what; `None` lets every one do what the roots allow. Needs `tls`.
    pub rights: Option<Vec<Grant>>,
    /// A list of clients whose certificates do not count any more (`keys::revoke`), read anew
    /// for every connection.
    pub revoked: Option<PathBuf>,
}

/// A running daemon; it stops when dropped.
pub struct Daemon {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<thread::JoinHandle<()>>,
    watchman: Option<thread::JoinHandle<()>>,
    sweeper: Option<Sweeper>,
}

/// The thread that removes files in progress to which nobody came back, wherever they lie.
struct Sweeper {
    /// Dropped, it ends.
    going: mpsc::Sender<()>,
    /// Nothing comes; it is closed once the thread has let the roots go.
    ended: mpsc::Receiver<()>,
}

pub(crate) struct Shared {
    pub(crate) config: DaemonConfig,
    pub(crate) log: Journalist,
    pub(crate) rooms: Arc<Rooms>,
    listener: TcpListener,
    sessions: Mutex<HashMap<[u8; 16], SyncSender<Connection>>>,
    guests: Arc<Guests>,
    stopping: AtomicBool,
}

impl Daemon {
    /// Binds and starts to accept.
    pub fn start(config: DaemonConfig, log: Log) -> Result<Self, TransferError> {
        check_exports(&config.exports)?;
        control::check_silence(config.silence)?;
        check_idle(config.idle)?;
        check_rights(&config)?;
        let failed = |source| TransferError::Listen { address: config.listen.clone(), source };
        let listener = TcpListener::bind(&config.listen).map_err(failed)?;
        SockRef::from(&listener).listen(BACKLOG).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            listener,
            rooms: Arc::new(Rooms::new(config.reserve)),
            config,
            log: Journalist::new(log),
            sessions: Mutex::default(),
            guests: Arc::default(),
            stopping: AtomicBool::new(false),
        });
        socket::raise_descriptor_limit();
        let (accepting, guests) = (Arc::clone(&shared), Arc::clone(&shared.guests));
        let acceptor = Some(thread::spawn(move || accepting.accept()));
        let watchman = Some(thread::spawn(move || guests.watch()));
        let sweeper = Some(Sweeper::start(&shared));
        Ok(Self { shared, address, acceptor, watchman, sweeper })
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
        // Sessions let go of the roots as they end; one that waits for a disk is not waited for.
        self.shared.guests.dismiss(STOP_WAIT);
        if let Some(Sweeper { going, ended }) = self.sweeper.take() {
            drop(going);
            let _ = ended.recv_timeout(STOP_WAIT);
        }
        acceptor.join().expect("the accepting thread does not panic");
        if let Some(watchman) = self.watchman.take() {
            watchman.join().expect("the watching thread does not panic");
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Sweeper {
    fn start(shared: &Arc<Shared>) -> Self {
        let (going, told) = mpsc::channel::<()>();
        let (ending, ended) = mpsc::channel();
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // Whoever moves something goes first; where it is refused nothing is lost.
            let _ = rustix::process::nice(19);
            loop {
                shared.sweep();
                if !matches!(told.recv_timeout(SWEEP), Err(mpsc::RecvTimeoutError::Timeout)) {
                    break;
                }
            }
            drop(shared);
            drop(ending);
        });
        Self { going, ended }
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

fn check_idle(idle: Time) -> Result<(), TransferError> {
    if idle < IDLE_MIN {
        let (item, value) = ("idle", idle.to_string());
        return Err(TransferError::Setting { item, value, why: "at least 1 s is needed" });
    }
    Ok(())
}

fn check_rights(config: &DaemonConfig) -> Result<(), TransferError> {
    match &config.rights {
        Some(_) if config.tls.is_none() => Err(TransferError::Setting {
            item: "rights",
            value: "without keys".to_owned(),
            why: "only certificates tell one client from another",
        }),
        Some(grants) => rights::check(grants, &config.exports),
        None => Ok(()),
    }
}

/// Who is at the other end of a connection.
pub(crate) struct Peer {
    pub(crate) address: String,
    /// The name in its certificate.
    pub(crate) client: Option<String>,
}

impl Shared {
    fn accept(self: &Arc<Self>) {
        while !self.stopping.load(Relaxed) {
            match self.listener.accept() {
                Ok((stream, peer)) => self.receive_guest(stream, peer),
                Err(_) if self.stopping.load(Relaxed) => {}
                Err(error) => {
                    self.log.tell(Entry::trouble(&format!("cannot accept: {error}")));
                    // Out of descriptors: the sessions that hold them need a moment to end.
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Removes expired files in progress below all roots.
    fn sweep(&self) {
        let writable = self.config.exports.iter();
        for export in writable.filter(|export| export.access == Access::ReadWrite) {
            let going = || !self.stopping.load(Relaxed);
            room::each_directory(&export.root, &going, &mut |directory| {
                // What cannot be listed may be written to all the same.
                let _ = receive::remove_expired(directory);
            });
        }
    }

    fn receive_guest(self: &Arc<Self>, stream: TcpStream, address: SocketAddr) {
        let shared = Arc::clone(self);
        let stream = Arc::new(stream);
        let place = self.guests.admit(Arc::clone(&stream), address);
        let spawned = thread::Builder::new().name("weir-guest".to_owned()).spawn(move || {
            let mut peer = Peer { address: address.to_string(), client: None };
            if let Err(error) = shared.serve_guest(stream, &mut peer, &place) {
                shared.tell_of_refusal(&peer, &place, &error);
            }
        });
        if let Err(error) = spawned {
            self.log.tell(Entry::refused(&address.to_string(), None, &error));
        }
    }

    fn tell_of_refusal(&self, peer: &Peer, place: &guests::Place, error: &TransferError) {
        let client = peer.client.as_deref();
        let entry = match place.put_out() {
            _ if self.stopping.load(Relaxed) => return,
            Some(why) => Entry::refused(&peer.address, client, &format!("put out: {why}")),
            None => Entry::refused(&peer.address, client, error),
        };
        self.log.tell(entry);
    }

    /// Finds out who it is and what it is for. The guests' deadline bounds all of it.
    fn serve_guest(
        &self,
        stream: Arc<TcpStream>,
        peer: &mut Peer,
        place: &guests::Place,
    ) -> Result<(), TransferError> {
        let broken = |error| control::broken(&peer.address, error);
        socket::prepare(&stream).map_err(broken)?;
        control::set_patience(&stream, Some(GREETING_TIMEOUT)).map_err(broken)?;
        let mut connection = match &self.config.tls {
            None => Connection::plain(stream),
            Some(config) => {
                let greeted = || place.greet();
                let session = TlsSession::accept(&stream, Arc::clone(config), greeted);
                let session = session.map_err(broken)?;
                let holder = session.holder();
                let mut connection = Connection::secured(stream, session);
                if let Some(holder) = holder {
                    let admitted = keys::check_revoked(self.config.revoked.as_deref(), &holder)
                        .and_then(|()| place.identify(&holder.name));
                    peer.client = Some(holder.name);
                    admitted.map_err(|error| turn_away(&mut connection, error))?;
                }
                connection
            }
        };
        let (role, token) = read_hello(&mut connection, &peer.address)?;
        if peer.client.is_none() {
            let admitted = place.identify(host(&peer.address));
            admitted.map_err(|error| turn_away(&mut connection, error))?;
        }
        match role {
            Role::Control => self.serve_session(connection, peer, place, wire::version_of(token)),
            Role::Data => self.join_session(connection, token),
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

    fn serve_session(
        &self,
        connection: Connection,
        peer: &Peer,
        place: &guests::Place,
        version: u16,
    ) -> Result<(), TransferError> {
        let (reader, control) = control::split(connection);
        control.set_version(version);
        let mut token = [0; 16];
        fill_random(&mut token).map_err(|error| control::broken(control.peer(), error))?;
        let (sender, joined) = mpsc::sync_channel(STREAMS_MAX.into());
        self.sessions().insert(token, sender);
        let session = Session { shared: self, peer, place, control, joined, data: Vec::new() };
        let result = session.run(reader, token);
        self.sessions().remove(&token);
        result
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<[u8; 16], SyncSender<Connection>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The export and the path below it that a peer means.
    pub(crate) fn locate(&self, typed: &[u8]) -> Result<(&Export, RelativePath), TransferError> {
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

/// Tells a peer that is known, but not wanted now, why.
fn turn_away(connection: &mut Connection, error: TransferError) -> TransferError {
    let (code, message) = (error.code(), error.to_string());
    // Where the peer is gone it cannot be told.
    let _ = connection.sender.send(&Message::Failure { code, message }.encode());
    error
}

/// The address without its port.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags)?;
    }
    Ok(())
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
