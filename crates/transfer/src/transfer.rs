//! A transfer as its owner sees it: started, watched, re-paced, cancelled; it reconnects and
//! resumes by itself when the peer breaks off.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use weir_units::{Rate, Time};

use crate::bounds::{self, Bounds};
use crate::client::{Cutter, Dialer, Door, Session};
use crate::control::{self, ControlWriter};
use crate::error::TransferError;
use crate::helper::{HelperSession, Opening};
use crate::hosts::Others;
use crate::pace::Pace;
use crate::packet_limit::{PacketLimit, Reached};
use crate::progress::{Progress, Snapshot};
use crate::receive::{self, Destination, Kept};
use crate::remote::Remote;
use crate::room::Rooms;
use crate::root::{Confinement, Links, Root};
use crate::route::{self, Lost, Route};
use crate::send::{self, How, Joining, Outlets, Recruits, Source};
use crate::socket;
use crate::spare::Spare;
use crate::streams::{Streams, check_streams};
use crate::threads;
use crate::wire::{
    CONGESTION_LIMIT, DEALS, DEMANDS, HashKind, JOINS, LIST_LIMIT as SOURCES_MAX, MESSAGE_LIMIT,
    Message, Options, PATH_LIMIT, RelativePath, STRIPES,
};

/// Pauses between attempts to reconnect.
const BACK_OFF: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(1000),
    Duration::from_millis(2000),
];

/// With several routes it is tried again for so long at least: where one broke, and the peer saw it
/// first, the next attempt finds out which.
const ROUTES_PATIENCE: Duration = Duration::from_secs(10);

/// Hosts that receive, or send, one transfer together.
const HOSTS_MAX: usize = 8;

/// Bytes of one request's sources: what a message has room for, less what else is in it.
const SOURCES_BYTES_MAX: usize = MESSAGE_LIMIT - 256;

/// What moves where.
#[derive(Clone, Debug)]
pub enum Direction {
    /// From here to a server.
    Send {
        /// Local files and directories; `DIR/` means the content of `DIR`.
        sources: Vec<PathBuf>,
        /// Where they go.
        destination: Remote,
    },
    /// From a server to here.
    Get {
        /// The server; its `path` is not used.
        remote: Remote,
        /// Remote paths as typed.
        sources: Vec<Vec<u8>>,
        /// Where they go; with a trailing slash, or where it exists, a directory.
        destination: PathBuf,
    },
}

/// Choices for a transfer.
#[derive(Clone)]
pub struct Settings {
    /// Keys; `None` sends in the clear, to anyone.
    pub tls: Option<Arc<ClientConfig>>,
    /// Pacing over all data connections; `Rate::MAX` is unpaced, zero starts paused. Not used with
    /// `routes`.
    pub rate: Rate,
    /// Parallel data connections, of each route if there are several.
    pub streams: u16,
    /// `Send` goes to these ports of the receiver, each at a rate of its own, instead of the
    /// destination's; none is that one alone.
    pub routes: Vec<Route>,
    /// `Send` has chunks of large files written by these receivers too, which share a file system
    /// with the destination's; the path of each is where that sees the destination. `Get` has them
    /// sent by these servers too, which have the same files at the same paths; the paths of these
    /// are not used.
    pub others: Vec<Remote>,
    /// `Send` uses what the path has left, beside `rate`; `None` leaves it to others.
    pub spare: Option<Spare>,
    /// Congestion control; empty leaves the host's default.
    pub congestion: String,
    /// How content is verified.
    pub hash: HashKind,
    /// Bytes count as durable only once they are on the receiver's disk.
    pub sync: bool,
    /// What is there already is the same only by its content, not by its size and time.
    pub checksum: bool,
    /// The receiver reads each file back from the storage before it takes its name; needs hashes.
    pub read_back: bool,
    /// Follow symbolic links instead of copying them as links.
    pub follow_links: bool,
    /// The name that the server's certificate must have; `None` takes any of the authority.
    pub server_name: Option<String>,
    /// A list of holders whose certificates do not count any more (`keys::revoke`).
    pub revoked: Option<PathBuf>,
    /// What `Send` names is below this directory, and nothing outside it is read.
    pub root: Option<PathBuf>,
    /// `Get` takes links that lead out of what was asked for.
    pub unsafe_links: bool,
    /// For how long to try again, without any progress, after the peer broke off.
    pub retry: Time,
    /// A peer that says nothing for this long is gone; 5 s or more.
    pub silence: Time,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tls: None,
            rate: Rate::MAX,
            streams: 1,
            routes: Vec::new(),
            others: Vec::new(),
            spare: None,
            congestion: String::new(),
            hash: HashKind::Blake3,
            sync: false,
            checksum: false,
            read_back: false,
            follow_links: false,
            server_name: None,
            revoked: None,
            root: None,
            unsafe_links: false,
            retry: Time::ZERO,
            silence: control::SILENCE,
        }
    }
}

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// Not started, connecting, or waiting to connect again.
    Connecting,
    /// Files are moving (or paused).
    Running,
    /// Everything is in place and verified.
    Done,
    /// It ended with an error.
    Failed,
    /// Its owner ended it; the same request resumes it.
    Cancelled,
}

/// Local and remote address of one data connection.
pub type Ports = (SocketAddr, SocketAddr);

/// One transfer, carried out by its own threads.
pub struct Transfer {
    shared: Arc<Shared>,
}

struct Shared {
    direction: Direction,
    settings: Settings,
    progress: Arc<Progress>,
    pace: Arc<Pace>,
    packets: PacketLimit,
    lost: Arc<Lost>,
    cutter: Cutter,
    streams: Streams,
    cancelled: AtomicBool,
    status: Mutex<Status>,
    moved: Condvar,
}

struct Status {
    state: TransferState,
    started: bool,
    error: Option<Arc<TransferError>>,
    ports: Vec<Ports>,
}

impl Transfer {
    /// Checks the request as far as this machine can tell; nothing moves before `start`.
    pub fn new(direction: Direction, settings: Settings) -> Result<Self, TransferError> {
        if settings.streams == 0 {
            let (item, value) = ("streams", "0".to_owned());
            return Err(TransferError::Setting { item, value, why: "at least one is needed" });
        }
        control::check_silence(settings.silence)?;
        check_read_back(settings.read_back, settings.hash)?;
        check_congestion(&settings.congestion)?;
        check_spare(&direction, &settings)?;
        check_routes(&direction, &settings)?;
        check_others(&direction, &settings)?;
        let pace = Pace::new(settings.rate, &settings.congestion);
        let pace = pace.with_spare(settings.spare.clone()).with_routes(&settings.routes);
        let pace = Arc::new(pace);
        let progress = Arc::new(Progress::default());
        progress.hosts.name(hosts(&direction, &settings.others));
        let status = Status {
            state: TransferState::Connecting,
            started: false,
            error: None,
            ports: Vec::new(),
        };
        let shared = Shared {
            direction,
            settings,
            progress,
            pace,
            packets: PacketLimit::default(),
            lost: Arc::default(),
            cutter: Cutter::default(),
            streams: Streams::default(),
            cancelled: AtomicBool::new(false),
            status: Mutex::new(status),
            moved: Condvar::new(),
        };
        shared.check()?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Begins; a second call does nothing.
    pub fn start(&self) {
        let mut status = self.shared.status();
        if std::mem::replace(&mut status.started, true) {
            return;
        }
        drop(status);
        socket::raise_descriptor_limit();
        let shared = Arc::clone(&self.shared);
        if let Err(error) = threads::begin(move || shared.run()) {
            self.shared.end(Err(error));
        }
    }

    /// Paces at `rate` over all data connections but spare ones from now on; zero pauses them. With
    /// several routes each has the same part of it.
    pub fn set_rate(&self, rate: Rate) {
        self.shared.pace.set_rate(rate);
    }

    /// Paces each route at a rate of its own from now on; routes that are not named keep theirs.
    /// One at zero takes nothing more.
    pub fn set_routes(&self, rates: &[Route]) {
        let before = self.shared.pace.routes();
        let was_paused =
            |port| before.iter().any(|route| route.port == port && route.rate == Rate::ZERO);
        for route in rates {
            // Whoever gives it a rate again knows of something to try.
            if route.rate != Rate::ZERO && was_paused(route.port) {
                self.shared.lost.try_now(route.port);
            }
        }
        self.shared.pace.set_routes(rates);
    }

    /// Bounds all spare connections together from now on; zero lets them end the chunk that each
    /// has begun and take no other. Nothing happens without spare connections.
    pub fn set_spare_rate(&self, rate: Rate) {
        self.shared.pace.set_spare_rate(rate);
    }

    /// Switches the congestion control of the live connections.
    pub fn set_congestion(&self, name: &str) -> Result<(), TransferError> {
        check_congestion(name)?;
        self.shared.pace.set_congestion(name)
    }

    /// Lets so many bytes wait unsent in the kernel, of each data connection that this end sends
    /// on; `None` is the 1 MiB that it begins with. The less, the sooner a pause is silent.
    pub fn set_unsent_max(&self, bytes: Option<u32>) {
        self.shared.pace.set_unsent_max(bytes.unwrap_or(socket::NOT_SENT_LOWAT));
    }

    /// Sends on so many data connections from now on: more join, or some leave when they have sent
    /// what they have begun. Nothing happens where connections cannot join (`can_join`).
    pub fn set_streams(&self, streams: u16) -> Result<(), TransferError> {
        check_streams(streams.into())?;
        self.shared.streams.want(streams.into());
        Ok(())
    }

    /// Sends on new data connections in place of those that there are, which leave when they have
    /// sent what they have begun. Nothing happens where connections cannot join (`can_join`).
    pub fn renew_streams(&self) {
        self.shared.streams.renew();
    }

    /// Whether data connections can join now: this end sends, to one port and without spare
    /// connections, and the server is of version [`JOINS`].
    pub fn can_join(&self) -> bool {
        self.shared.streams.can_join()
    }

    /// The counters now.
    pub fn progress(&self) -> Snapshot {
        self.shared.progress.snapshot()
    }

    /// The full counters, for settled files and notices.
    pub fn details(&self) -> &Progress {
        &self.shared.progress
    }

    /// Where it stands, and why it failed if it did.
    pub fn state(&self) -> (TransferState, Option<Arc<TransferError>>) {
        let status = self.shared.status();
        (status.state, status.error.clone())
    }

    /// The data connections' addresses, for whoever shapes flows at the network's edge.
    pub fn ports(&self) -> Vec<Ports> {
        let sends_on = self.shared.pace.sockets();
        if sends_on.is_empty() {
            return self.shared.status().ports.clone();
        }
        sends_on.iter().filter_map(|socket| ports(socket)).collect()
    }

    /// `struct tcp_info` of each data connection but spare ones that this end sends on, as much of
    /// it as the kernel fills; none while there is no connection, and none of those that it
    /// receives on.
    pub fn tcp_info(&self) -> Vec<Vec<u8>> {
        self.shared.pace.tcp_info()
    }

    /// The congestion control that the data connections have, which may be a route's choice; none
    /// while there is no connection, and of connections that this end receives on.
    pub fn congestion(&self) -> Option<String> {
        self.shared.pace.congestion()
    }

    /// Waits until it is over, at most `timeout`; says whether it is.
    pub fn wait(&self, timeout: Option<Time>) -> bool {
        // A span past what the clock can add is as good as for ever.
        let limit = timeout
            .and_then(|timeout| Instant::now().checked_add(Duration::from_nanos(timeout.as_ns())));
        let mut status = self.shared.status();
        while !status.is_over() {
            let left = match limit {
                None => Duration::from_secs(3600),
                Some(limit) => limit.saturating_duration_since(Instant::now()),
            };
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.moved.wait_timeout(status, left);
            (status, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Ends it, resumable: the peer keeps what is verified.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Relaxed);
        self.shared.cutter.cut();
        self.shared.pace.release();
        let mut status = self.shared.status();
        if !status.started {
            status.state = TransferState::Cancelled;
        }
        drop(status);
        self.shared.moved.notify_all();
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Status {
    fn is_over(&self) -> bool {
        !matches!(self.state, TransferState::Connecting | TransferState::Running)
    }
}

impl Shared {
    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_state(&self, state: TransferState) {
        self.status().state = state;
        self.moved.notify_all();
    }

    /// Finds what is wrong before anything is connected.
    fn check(&self) -> Result<(), TransferError> {
        match &self.direction {
            Direction::Send { destination, .. } => {
                let places = [destination].into_iter().chain(&self.settings.others);
                places.map(|place| &place.path).try_for_each(|path| check_place(path))?;
                self.local_sources().map(|_| ())
            }
            Direction::Get { sources, .. } => {
                for source in sources {
                    check_place(source)?;
                    RelativePath::from_typed(source).map_err(TransferError::Path)?;
                }
                check_request(sources)?;
                let names = sources.iter().filter_map(|source| bounds::sent_name(source));
                check_names(names.filter_map(|name| RelativePath::new(&name).ok()))?;
                self.local_destination().map(|_| ())
            }
        }
    }

    fn run(self: &Arc<Self>) {
        self.end(threads::ended(|| self.attempt_repeatedly()));
    }

    fn end(&self, result: Result<(), TransferError>) {
        let mut status = self.status();
        status.state = match &result {
            Ok(()) => TransferState::Done,
            Err(_) if self.cancelled.load(Relaxed) => TransferState::Cancelled,
            Err(_) => TransferState::Failed,
        };
        status.error = match result {
            Ok(()) => None,
            Err(_) if self.cancelled.load(Relaxed) => Some(TransferError::Cancelled.into()),
            Err(error) => Some(error.into()),
        };
        drop(status);
        self.moved.notify_all();
    }

    fn attempt_repeatedly(self: &Arc<Self>) -> Result<(), TransferError> {
        let several = self.settings.routes.len() > 1;
        let least = if several { ROUTES_PATIENCE } else { Duration::ZERO };
        let patience = control::duration(self.settings.retry).max(least);
        let mut best = 0;
        let mut moved = Instant::now();
        let mut tries = 0;
        let mut told = String::new();
        loop {
            let started = self.attempt();
            self.pace.release();
            self.cutter.forget();
            let Err(error) = started else {
                return Ok(());
            };
            let was_running =
                std::mem::replace(&mut self.status().state, TransferState::Connecting)
                    == TransferState::Running;
            let durable = self.progress.snapshot().bytes_durable;
            if durable > best || (was_running && tries == 0) {
                (best, moved, tries) = (best.max(durable), Instant::now(), 0);
            }
            if self.turn(&error) && !self.cancelled.load(Relaxed) {
                (moved, tries) = (Instant::now(), 0);
                continue;
            }
            if let Some(bytes) = self.packets.lower(&error, self.reached(was_running))
                && !self.cancelled.load(Relaxed)
            {
                let words = format!("{error}; trying again with packets of {bytes} bytes at most");
                self.progress.notice(words);
                (moved, tries) = (Instant::now(), 0);
                continue;
            }
            // A first connection that fails is told at once: it is likelier wrong than down.
            let ever_ran = was_running || best > 0 || tries > 0 || error.asks_to_wait();
            let give_up = !error.may_pass() || !ever_ran || moved.elapsed() >= patience;
            if give_up || self.cancelled.load(Relaxed) {
                return Err(error);
            }
            let words = format!("{error}; trying again");
            if words != told {
                self.progress.notice(words.clone());
                told = words;
            }
            self.pause(BACK_OFF[tries.min(BACK_OFF.len() - 1)]);
            tries += 1;
        }
    }

    /// Whether the next attempt is to go another way at once: over other routes than this one.
    fn turn(&self, error: &TransferError) -> bool {
        let words = match error {
            TransferError::RouteLost { port } => {
                self.lost.note(*port);
                "going on by the others"
            }
            TransferError::RouteBack { .. } => "going on by it too",
            _ => return false,
        };
        self.progress.notice(format!("{error}; {words}"));
        true
    }

    /// How far the attempt came that has just failed.
    fn reached(&self, was_running: bool) -> Reached {
        let now = self.progress.snapshot();
        match self.direction {
            _ if !was_running => Reached::Greeting,
            Direction::Get { .. } if now.bytes_done <= now.bytes_resumed => Reached::Nothing,
            _ => Reached::Content,
        }
    }

    /// Waits before the next attempt, or until cancelled.
    fn pause(&self, span: Duration) {
        let end = Instant::now() + span;
        let mut status = self.status();
        while !self.cancelled.load(Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.moved.wait_timeout(status, left);
            (status, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn attempt(self: &Arc<Self>) -> Result<(), TransferError> {
        match &self.direction {
            Direction::Send { destination, .. } => {
                let sources = self.local_sources()?;
                let session = self.open(destination)?;
                self.send(session, destination, &sources)
            }
            Direction::Get { remote, sources, .. } => {
                let destination = self.local_destination()?;
                let session = self.open(remote)?;
                self.get(session, sources, &destination)
            }
        }
    }

    fn open(&self, remote: &Remote) -> Result<Session, TransferError> {
        let tried = self.lost.worth_trying(&route::ports(&self.pace.routes(), remote));
        let (streams, spare) = (self.settings.streams, self.settings.spare.as_ref());
        let session = self.dialer(remote).open(&tried, streams, spare).inspect_err(|_| {
            // Where all fail, each has its turn.
            tried.iter().for_each(|port| self.lost.note(*port));
        })?;
        for port in &session.missed {
            self.turn(&TransferError::RouteLost { port: *port });
        }
        self.progress.restart();
        self.status().ports = session.data.iter().filter_map(|one| ports(&one.socket)).collect();
        Ok(session)
    }

    fn dialer<'a>(&'a self, remote: &'a Remote) -> Dialer<'a> {
        Dialer {
            remote,
            tls: self.settings.tls.as_ref(),
            cutter: &self.cutter,
            silence: self.settings.silence,
            server_name: self.settings.server_name.as_deref(),
            revoked: self.settings.revoked.as_deref(),
            packet: self.packets.bytes(),
        }
    }

    /// What the server is told; to it, spare connections are data connections as any.
    fn options(&self, session: &Session) -> Options {
        let (rate, congestion) = self.pace.values();
        Options {
            hash: self.settings.hash,
            sync: self.settings.sync,
            checksum: self.settings.checksum,
            read_back: self.settings.read_back,
            follow_links: self.settings.follow_links,
            rate_bps: rate.as_bit_per_s(),
            congestion,
            streams: u16::try_from(session.data.len()).unwrap_or(u16::MAX),
        }
    }

    fn send(
        self: &Arc<Self>,
        mut session: Session,
        destination: &Remote,
        sources: &[Source],
    ) -> Result<(), TransferError> {
        let (destination, options) = (destination.path.clone(), self.options(&session));
        require(&session, options.checksum, "--checksum")?;
        require(&session, options.read_back, "--read-back")?;
        session.request(&Message::Put { destination, options })?;
        self.set_state(TransferState::Running);
        let Session { mut reader, control, data, promised, door, .. } = session;
        let several = self.settings.routes.len() > 1;
        let lost = several.then(|| Arc::clone(&self.lost));
        let outlets = Outlets { data, promised, lost };
        let is_plain = !several && self.settings.spare.is_none();
        let join = |more| self.begin_to_join(door, more);
        let recruits = Recruits { streams: &self.streams, join: &join };
        let recruits = (is_plain && control.version() >= JOINS).then_some(&recruits);
        self.streams.begin(recruits.is_some());
        let open = |index| self.begin_to_reach(index);
        let names = self.settings.others.iter().map(Remote::to_string).collect();
        let silence = control::duration(self.settings.silence);
        let others = Others { names, open: &open, silence };
        let others =
            self.can_share(&control, STRIPES, "lent to other receivers").then_some(&others);
        let (hash, pace) = (self.settings.hash, &self.pace);
        let how = How { hash, pace, recruits, others, deals: false };
        let sent = send::send(&mut reader, &control, outlets, sources, how, &self.progress);
        if sent.is_err() && self.streams.broke() {
            let words = "no more streams: the transfer broke off each time that some had joined";
            self.progress.notice(words.to_owned());
        }
        sent?;
        self.progress.verdict()
    }

    /// Whether the first host lets others help, if there are any; where it is too old for that it
    /// is used alone.
    fn can_share(&self, control: &ControlWriter, since: u16, files_are: &str) -> bool {
        let others = self.settings.others.len();
        if others == 0 || control.version() >= since {
            return others > 0;
        }
        let (peer, speaks) = (control.peer(), control.version());
        let words = format!(
            "going on with {peer} alone: it speaks version {speaks} of the protocol, and files are \
             {files_are} from version {since} on"
        );
        (1..=others).for_each(|place| self.progress.hosts.lose(place, &words));
        self.progress.notice(words);
        false
    }

    /// Makes more data connections in a thread that nobody waits for: where the path fails they
    /// may take longer than all that there is to send.
    fn begin_to_join(self: &Arc<Self>, door: Door, more: u16) -> Joining {
        let (made, joining) = mpsc::channel();
        let shared = Arc::clone(self);
        // Where no thread begins, nobody joins.
        let _ = threads::begin(move || {
            if let Direction::Send { destination, .. } = &shared.direction {
                // Where all is over by now they are closed.
                let _ = made.send(shared.dialer(destination).join_more(door, more));
            }
        });
        joining
    }

    /// Opens a session with one of the other hosts, in a thread that nobody waits for.
    fn begin_to_reach(self: &Arc<Self>, index: usize) -> Opening {
        let (made, opening) = mpsc::channel();
        let shared = Arc::clone(self);
        let _ = threads::begin(move || {
            // Where all is over by now it is closed.
            let _ = made.send(shared.reach(&shared.settings.others[index]));
        });
        opening
    }

    fn reach(&self, remote: &Remote) -> Result<HelperSession, TransferError> {
        let dialer = self.dialer(remote);
        let mut session = dialer.open(&[remote.port], self.settings.streams, None)?;
        let options = self.options(&session);
        let (since, item, request) = match &self.direction {
            Direction::Send { .. } => {
                let destination = remote.path.clone();
                (STRIPES, "several receivers", Message::Assist { destination, options })
            }
            Direction::Get { sources, .. } => {
                let (sources, options) = (sources.clone(), told_to_server(options));
                (DEALS, "several senders", Message::Supply { sources, options })
            }
        };
        if session.control.version() < since {
            let peer = session.control.peer().to_owned();
            return Err(TransferError::TooOld { peer, item });
        }
        session.request(&request)?;
        let Session { reader, control, data, .. } = session;
        if matches!(self.direction, Direction::Get { .. }) {
            self.status().ports.extend(data.iter().filter_map(|one| ports(&one.socket)));
        }
        Ok(HelperSession { reader, control, data })
    }

    fn get(
        self: &Arc<Self>,
        mut session: Session,
        sources: &[Vec<u8>],
        destination: &Destination,
    ) -> Result<(), TransferError> {
        let (sources, options) = (sources.to_vec(), self.options(&session));
        require(&session, options.checksum, "--checksum")?;
        let told = told_to_server(options.clone());
        session.request(&Message::Get { sources, options: told })?;
        self.set_state(TransferState::Running);
        self.pace.tell(session.control.clone());
        let Session { reader, control, data, .. } = &mut session;
        let data = std::mem::take(data);
        let nobody = |_, _| {
            let (peer, what) = (control.peer().to_owned(), "only what is sent has more streams");
            Err(TransferError::Unexpected { peer, what })
        };
        let open = |index| self.begin_to_reach(index);
        let names = self.settings.others.iter().map(Remote::to_string).collect();
        let silence = control::duration(self.settings.silence);
        let others = Others { names, open: &open, silence };
        let several = self.can_share(control, DEALS, "sent by other hosts too");
        let sources = several.then_some(receive::Sources { others: &others, pace: &self.pace });
        let more = (&nobody as &receive::Join<'_>, sources);
        receive::receive(reader, control, data, destination, &options, &self.progress, more)?;
        self.progress.verdict()
    }

    fn local_sources(&self) -> Result<Vec<Source>, TransferError> {
        let Direction::Send { sources, .. } = &self.direction else {
            return Ok(Vec::new());
        };
        let links = if self.settings.follow_links { Links::Follow } else { Links::Keep };
        let sources: Result<Vec<Source>, TransferError> = match &self.settings.root {
            None => sources.iter().map(|typed| Source::local(typed, links)).collect(),
            Some(root) => {
                let root = Arc::new(Root::open(root, Confinement::Beneath)?);
                let below = |typed: &PathBuf| Source::below_root(&root, typed, links);
                sources.iter().map(below).collect()
            }
        };
        let sources = sources?;
        let names = sources.iter().map(|source| source.name.clone());
        check_names(names.filter(|name| !name.is_empty()))?;
        Ok(sources)
    }

    /// A local destination; the directories above it are made, as at a server, once something
    /// comes.
    fn local_destination(&self) -> Result<Destination, TransferError> {
        let Direction::Get { destination, sources, .. } = &self.direction else {
            return Err(TransferError::Cancelled);
        };
        let typed = std::os::unix::ffi::OsStrExt::as_bytes(destination.as_os_str());
        let several = sources.len() > 1;
        let bounds = Bounds::of_client(sources, self.settings.unsafe_links);
        if destination.is_dir() || destination.file_name().is_none() {
            let root = Arc::new(Root::open(destination, Confinement::Unlinked)?);
            let path = RelativePath::default();
            return Ok(own_place(root, path, true, bounds));
        }
        let parent = match destination.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let name = destination.file_name().unwrap_or_default();
        let name = RelativePath::new(std::os::unix::ffi::OsStrExt::as_bytes(name));
        let (root, above) = open_nearest(&parent)?;
        let path = name.and_then(|name| above.join(&name)).map_err(TransferError::Path)?;
        let is_directory = typed.ends_with(b"/") || several;
        Ok(own_place(Arc::new(root), path, is_directory, bounds))
    }
}

/// The directory `wanted`, or the nearest one above it that is there, and the way from that.
fn open_nearest(wanted: &Path) -> Result<(Root, RelativePath), TransferError> {
    let mut place = wanted;
    loop {
        let error = match Root::open(place, Confinement::Unlinked) {
            Ok(root) => {
                let below = wanted.strip_prefix(place).unwrap_or(wanted).as_os_str();
                let below = RelativePath::from_typed(below.as_bytes());
                return Ok((root, below.map_err(TransferError::Path)?));
            }
            Err(error) => error,
        };
        let is_absent = matches!(&error, TransferError::Local { source, .. }
            if source.kind() == io::ErrorKind::NotFound);
        place = match (place.parent(), is_absent) {
            (Some(above), true) if above.as_os_str().is_empty() => Path::new("."),
            (Some(above), true) if place.file_name().is_some() => above,
            _ => return Err(error),
        };
    }
}

/// Refuses a place that no message has room for; it is sent as it was typed.
pub(crate) fn check_place(typed: &[u8]) -> Result<(), TransferError> {
    if typed.len() <= PATH_LIMIT {
        return Ok(());
    }
    RelativePath::new(typed).map(drop).map_err(TransferError::Path)
}

/// Refuses more sources than one request has room for.
fn check_request(sources: &[Vec<u8>]) -> Result<(), TransferError> {
    let bytes: usize = sources.iter().map(|source| source.len() + 2).sum();
    if sources.len() > SOURCES_MAX || bytes > SOURCES_BYTES_MAX {
        let (item, value) = ("sources", sources.len().to_string());
        let why = "one request has room for 8192, of 1 MB in all: get a directory, or in parts";
        return Err(TransferError::Setting { item, value, why });
    }
    Ok(())
}

/// Refuses a name that no kernel has, and no message room for.
fn check_congestion(name: &str) -> Result<(), TransferError> {
    if name.len() > CONGESTION_LIMIT {
        let value = format!("\"{}…\"", &name[..name.floor_char_boundary(CONGESTION_LIMIT)]);
        let (item, why) = ("congestion control", "names have at most 15 bytes");
        return Err(TransferError::Setting { item, value, why });
    }
    Ok(())
}

/// What arrives under one name is one: the other would be lost.
fn check_names(names: impl Iterator<Item = RelativePath>) -> Result<(), TransferError> {
    let mut names: Vec<RelativePath> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(TransferError::Setting {
            item: "sources",
            value: pair[0].to_string(),
            why: "two of them have this name",
        }),
    }
}

/// Whether the server can do what is `wanted`.
fn require(session: &Session, wanted: bool, item: &'static str) -> Result<(), TransferError> {
    if wanted && session.control.version() < DEMANDS {
        return Err(TransferError::TooOld { peer: session.control.peer().to_owned(), item });
    }
    Ok(())
}

/// What a receiver does is no business of the server's.
fn told_to_server(options: Options) -> Options {
    Options { checksum: false, read_back: false, ..options }
}

/// Spare connections are of this end, which sends; a session has only so many in all.
fn check_spare(direction: &Direction, settings: &Settings) -> Result<(), TransferError> {
    let Some(spare) = &settings.spare else {
        return Ok(());
    };
    let why = match direction {
        Direction::Get { .. } => "only what is sent from here has spare connections",
        Direction::Send { .. } if spare.streams == 0 => "at least one is needed",
        Direction::Send { .. } => return Ok(()),
    };
    let (item, value) = ("spare streams", spare.streams.to_string());
    Err(TransferError::Setting { item, value, why })
}

/// Routes are of this end, which sends.
fn check_routes(direction: &Direction, settings: &Settings) -> Result<(), TransferError> {
    if matches!(direction, Direction::Get { .. }) && !settings.routes.is_empty() {
        let (item, value) = ("routes", settings.routes.len().to_string());
        let why = "only what is sent from here has routes";
        return Err(TransferError::Setting { item, value, why });
    }
    route::check(&settings.routes)
}

/// Other hosts take or send a part, which is checked by its hash.
fn check_others(direction: &Direction, settings: &Settings) -> Result<(), TransferError> {
    if settings.others.is_empty() {
        return Ok(());
    }
    let all = hosts(direction, &settings.others);
    let twice = (1..all.len()).find(|index| all[..*index].contains(&all[*index]));
    let why = match twice {
        Some(index) => {
            let (item, value) = ("host", all[index].clone());
            return Err(TransferError::Setting { item, value, why: "it is there twice" });
        }
        None if all.len() > HOSTS_MAX => "8 are allowed",
        None if settings.hash == HashKind::None => {
            "what several take or send is checked by its hash"
        }
        None if !settings.routes.is_empty() => "routes lead to one",
        None if settings.spare.is_some() => "spare connections lead to one",
        None => return Ok(()),
    };
    let (item, value) = ("hosts", all.len().to_string());
    Err(TransferError::Setting { item, value, why })
}

/// The names of all hosts that receive, or send, together; none where one does.
fn hosts(direction: &Direction, others: &[Remote]) -> Vec<String> {
    match direction {
        Direction::Send { destination: first, .. } | Direction::Get { remote: first, .. }
            if !others.is_empty() =>
        {
            [first].into_iter().chain(others).map(Remote::to_string).collect()
        }
        _ => Vec::new(),
    }
}

/// What is read back is compared by its hash.
pub(crate) fn check_read_back(read_back: bool, hash: HashKind) -> Result<(), TransferError> {
    if read_back && hash == HashKind::None {
        let (item, value) = ("hash", "none".to_owned());
        let why = "what is read back (--read-back) is compared by its hash";
        return Err(TransferError::Setting { item, value, why });
    }
    Ok(())
}

/// A place of this machine's user, whose disk is his to fill.
fn own_place(
    root: Arc<Root>,
    path: RelativePath,
    is_directory: bool,
    bounds: Bounds,
) -> Destination {
    let rooms = Arc::new(Rooms::new(Some(0)));
    let kept = Kept::default();
    Destination { root, path, is_directory, bounds, kept, rooms, held: None, lends: false }
}

fn ports(socket: &TcpStream) -> Option<Ports> {
    Some((socket.local_addr().ok()?, socket.peer_addr().ok()?))
}
