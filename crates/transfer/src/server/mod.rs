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
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

use crate::connection::Connection;
use crate::error::TransferError;
use crate::room::Rooms;
use crate::socket;
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
    address: SocketAddr,
    acceptor: Option<thread::JoinHandle<()>>,
    watchman: Option<thread::JoinHandle<()>>,
    sweeper: Option<Sweeper>,
}

/// What all threads of a server share.
struct Shared {
    settings: ServerSettings,
    log: Journalist,
    rooms: Arc<Rooms>,
    listener: TcpListener,
    sessions: Mutex<HashMap<[u8; 16], SyncSender<Connection>>>,
    guests: Arc<Guests>,
    stopping: AtomicBool,
}

impl Server {
    /// Binds and starts to accept.
    pub fn start(settings: ServerSettings, log: Log) -> Result<Self, TransferError> {
        settings.check()?;
        let failed = |source| TransferError::Listen { address: settings.listen.clone(), source };
        let listener = TcpListener::bind(&settings.listen).map_err(failed)?;
        SockRef::from(&listener).listen(BACKLOG).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            listener,
            rooms: Arc::new(Rooms::new(settings.reserve)),
            settings,
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
        if let Some(sweeper) = self.sweeper.take() {
            sweeper.stop(STOP_WAIT);
        }
        acceptor.join().expect("the accepting thread does not panic");
        if let Some(watchman) = self.watchman.take() {
            watchman.join().expect("the watching thread does not panic");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
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
}
