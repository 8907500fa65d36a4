//! The server: accepts connections, finds out whose they are ([`greeting`]), and hands them to
//! sessions ([`session`]); who crowds out others goes ([`guests`]).

mod export;
mod greeting;
mod guests;
mod log;
mod peer;
mod rights;
mod session;
mod settings;
mod sweeper;

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

use crate::addresses;
use crate::connection::Connection;
use crate::error::TransferError;
use crate::room::Rooms;
use crate::socket;
use crate::threads;
pub use export::{Access, Export};
use guests::Guests;
use log::Journalist;
pub use log::{Account, Entry, Log};
pub use rights::Grant;
pub use settings::ServerSettings;
use sweeper::Sweeper;

/// Connections that wait to be accepted, as far as the system allows. Beyond the 128 of the
/// standard library the kernel would drop a known client's among a crowd of strangers', to be sent
/// again after one second, then two, then four.
const BACKLOG: i32 = 4096;
/// How long stopping waits for sessions to end.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// A running server; it stops when dropped.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    acceptors: Vec<thread::JoinHandle<()>>,
    watchman: Option<thread::JoinHandle<()>>,
    sweeper: Option<Sweeper>,
}

/// What all threads of a server share.
struct Shared {
    settings: ServerSettings,
    log: Journalist,
    rooms: Arc<Rooms>,
    listeners: Vec<TcpListener>,
    sessions: Mutex<HashMap<[u8; 16], SyncSender<Connection>>>,
    guests: Arc<Guests>,
    stopping: AtomicBool,
}

impl Server {
    /// Binds and starts to accept.
    pub fn start(settings: ServerSettings, log: Log) -> Result<Self, TransferError> {
        settings.check()?;
        let (listeners, addresses) = listen(&settings)?;
        let shared = Arc::new(Shared {
            listeners,
            rooms: Arc::new(Rooms::new(settings.reserve)),
            settings,
            log: Journalist::new(log),
            sessions: Mutex::default(),
            guests: Arc::default(),
            stopping: AtomicBool::new(false),
        });
        socket::raise_descriptor_limit();
        let (acceptors, watchman, sweeper) = (Vec::new(), None, None);
        let mut server = Self { shared, addresses, acceptors, watchman, sweeper };
        server.begin()?;
        Ok(server)
    }

    /// Begins its threads; where one cannot begin, the others end with the server.
    fn begin(&mut self) -> Result<(), TransferError> {
        for index in 0..self.addresses.len() {
            let accepting = Arc::clone(&self.shared);
            let accept = move || accepting.accept(&accepting.listeners[index]);
            self.acceptors.push(threads::begin(accept)?);
        }
        let guests = Arc::clone(&self.shared.guests);
        self.watchman = Some(threads::begin(move || guests.watch())?);
        self.sweeper = Some(Sweeper::start(&self.shared)?);
        Ok(())
    }

    /// Where it listens; the first port, if there are several.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// All ports where it listens.
    pub fn ports(&self) -> Vec<u16> {
        self.addresses.iter().map(SocketAddr::port).collect()
    }

    /// Cuts all sessions, which stay resumable, and ends.
    pub fn stop(&mut self) {
        if self.acceptors.is_empty() {
            return;
        }
        self.shared.stopping.store(true, Relaxed);
        // Shutting a listener down is what wakes a blocked accept on Linux.
        for listener in &self.shared.listeners {
            let _ = SockRef::from(listener).shutdown(std::net::Shutdown::Both);
        }
        // Sessions let go of the roots as they end; one that waits for a disk is not waited for.
        self.shared.guests.dismiss(STOP_WAIT);
        if let Some(sweeper) = self.sweeper.take() {
            sweeper.stop(STOP_WAIT);
        }
        for acceptor in self.acceptors.drain(..) {
            acceptor.join().expect("the accepting thread does not panic");
        }
        if let Some(watchman) = self.watchman.take() {
            watchman.join().expect("the watching thread does not panic");
        }
    }
}

/// A listener at each port, and where they are: one after the other, or as the system chooses.
fn listen(settings: &ServerSettings) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), TransferError> {
    let failed = |source| TransferError::Listen { address: settings.listen.clone(), source };
    let place = addresses::of_listener(&settings.listen).map_err(failed)?;
    let first = listen_at(&place[..]).map_err(failed)?;
    let asked = settings.listen.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    let is_chosen = matches!(asked, Some(Ok(0)));
    let (mut listeners, mut addresses) = (vec![first], Vec::new());
    let mut address = listeners[0].local_addr().map_err(failed)?;
    addresses.push(address);
    for _ in 1..settings.ports {
        let next = if is_chosen { Some(0) } else { address.port().checked_add(1) };
        let beyond = || failed(io::Error::other("there are not so many ports above it"));
        address.set_port(next.ok_or_else(beyond)?);
        let listener = listen_at(address)
            .map_err(|source| TransferError::Listen { address: address.to_string(), source })?;
        address = listener.local_addr().map_err(failed)?;
        addresses.push(address);
        listeners.push(listener);
    }
    Ok((listeners, addresses))
}

fn listen_at(place: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(place)?;
    SockRef::from(&listener).listen(BACKLOG)?;
    Ok(listener)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while !self.stopping.load(Relaxed) {
            match listener.accept() {
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
}
