//! One client's session on the server's side: requests, one after another.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use weir_units::Rate;

use super::export::{self, Access};
use super::guests::{self, Activity, GREETING_TIMEOUT};
use super::log::{Account, Entry};
use super::peer::Peer;
use super::{Shared, rights};
use crate::bounds::Bounds;
use crate::catalogue;
use crate::connection::Connection;
use crate::control::{self, ControlReader, ControlWriter};
use crate::error::TransferError;
use crate::escape::printable_bytes;
use crate::pace::Pace;
use crate::progress::Progress;
use crate::receive::{self, Destination, Kept};
use crate::root::{Links, Root};
use crate::send::{self, How, Source};
use crate::socket;
use crate::streams::{STREAMS_MAX, check_streams};
use crate::transfer::check_read_back;
use crate::wire::{DEALS, MESSAGE_LIMIT, Message, Options, RelativePath, STRIPES};

/// A session without a request for this long in all is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Directories among the sources of one request that need a handle of their own.
const HANDLES_MAX: usize = 64;

/// One client's session on the server's side.
pub(super) struct Session<'a> {
    pub(super) shared: &'a Shared,
    pub(super) peer: &'a Peer,
    pub(super) place: &'a guests::Place,
    pub(super) control: ControlWriter,
    pub(super) joined: Receiver<Connection>,
    /// Data connections between operations.
    pub(super) data: Vec<Connection>,
}

impl Session<'_> {
    pub(super) fn run(
        mut self,
        mut reader: ControlReader,
        token: [u8; 16],
    ) -> Result<(), TransferError> {
        self.control.send(&Message::Welcome {
            token,
            version: self.control.version(),
            streams_max: STREAMS_MAX,
        })?;
        loop {
            let most = IDLE_TIMEOUT.min(control::duration(self.shared.settings.idle));
            self.place.rest(most);
            self.be_patient(most)?;
            let Some(request) = next_past_pings(&mut reader)? else {
                return Ok(());
            };
            // What it ended had ended here before it said so: the log has that already.
            if matches!(request, Message::Failure { .. }) {
                return Ok(());
            }
            self.be_patient(control::duration(self.shared.settings.silence))?;
            if let Err(error) = self.carry_out(&mut reader, &request) {
                let (code, message) = (error.code(), error.to_string());
                // Where the peer is gone it cannot be told.
                let _ = self.control.send(&Message::Failure { code, message });
                // The log says of a session that this end cut why it did.
                return if self.place.put_out().is_some() { Err(error) } else { Ok(()) };
            }
        }
    }

    /// Carries out one request and tells the log of it.
    fn carry_out(
        &mut self,
        reader: &mut ControlReader,
        request: &Message,
    ) -> Result<(), TransferError> {
        let began = Instant::now();
        let progress = Arc::new(Progress::default());
        progress.count_only();
        self.watch(request, &progress);
        let mut hashed = catalogue::Hashed::default();
        let (request, path, result) = match request {
            Message::Put { destination, options } => {
                let result = self.put(reader, destination, options, &progress);
                ("put", printable_bytes(destination), result)
            }
            Message::Assist { destination, options } if self.control.version() >= STRIPES => {
                let result = self.assist(reader, destination, options, &progress);
                ("assist", printable_bytes(destination), result)
            }
            Message::Get { sources, options } => {
                let result = self.get(reader, sources, options, &progress, true);
                ("get", shown(sources), result)
            }
            Message::Supply { sources, options } if self.control.version() >= DEALS => {
                let result = self.get(reader, sources, options, &progress, false);
                ("supply", shown(sources), result)
            }
            Message::Catalogue { place, options } => {
                let result = self.tell(place, options, &mut hashed);
                ("verify", printable_bytes(place), result)
            }
            _ => ("nothing", String::new(), Err(reader.unexpected("no request"))),
        };
        let done = progress.snapshot();
        let moved = if request == "put" { done.bytes_durable } else { done.bytes_done };
        let (files, bytes) = (done.files_done + hashed.files, moved + hashed.bytes);
        let seconds = began.elapsed().as_secs_f64();
        let account = Account { request, path, files, bytes, seconds };
        let Peer { address, client } = self.peer;
        // The peer was told of each file that failed, so the session goes on after those.
        let verdict = progress.verdict().err();
        let outcome = result.as_ref().err().or(verdict.as_ref());
        self.shared.log.tell(Entry::transfer(address, client.as_deref(), account, outcome));
        result
    }

    /// Lets the session end where nothing is done for too long.
    fn watch(&self, request: &Message, progress: &Arc<Progress>) {
        let idle = control::duration(self.shared.settings.idle);
        let (progress, socket) = (Arc::clone(progress), self.control.shared_socket());
        let taken = move || socket::bytes_acked(&socket).unwrap_or_default();
        let activity: Activity = match request {
            // Hashing is this end's work: whoever hears that it lives waits for it.
            Message::Catalogue { .. } => Box::new(taken),
            _ => Box::new(move || progress.activity()),
        };
        self.place.work(activity, idle);
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
        progress: &Arc<Progress>,
    ) -> Result<(), TransferError> {
        let destination = self.destination(typed)?;
        check_read_back(options.read_back, options.hash)?;
        let data = self.gather(options.streams)?;
        self.control.send(&Message::Ready)?;
        let sync = options.sync || self.shared.settings.sync;
        let options = Options { sync, ..options.clone() };
        let control = &self.control;
        let join = |at_work: usize, more: u16| {
            // Some of those at work may have left, and what they sent last is on its way.
            check_streams(more.into())?;
            check_streams((at_work + usize::from(more)).div_ceil(2))?;
            self.await_joined(more.into())
        };
        let alone = (&join as &receive::Join<'_>, None);
        self.data =
            receive::receive(reader, control, data, &destination, &options, progress, alone)?;
        Ok(())
    }

    /// Writes chunks of files that another receiver has in progress.
    fn assist(
        &mut self,
        reader: &mut ControlReader,
        typed: &[u8],
        options: &Options,
        progress: &Arc<Progress>,
    ) -> Result<(), TransferError> {
        let destination = self.destination(typed)?;
        let data = self.gather(options.streams)?;
        self.control.send(&Message::Ready)?;
        let sync = options.sync || self.shared.settings.sync;
        self.data = receive::assist(reader, &self.control, data, &destination, sync, progress)?;
        Ok(())
    }

    /// Where what is sent to a place goes, if this client may store there.
    fn destination(&self, typed: &[u8]) -> Result<Destination, TransferError> {
        let place = self.locate(typed)?;
        if place.access == Access::ReadOnly {
            return Err(self.denied("this root is read-only"));
        }
        let (settings, rooms) = (&self.shared.settings, &self.shared.rooms);
        let held = |quota| rooms.held(&place.root).map(|held| (held, quota));
        let held = place.quota.or(settings.quota).map(held).transpose();
        let local = |source| TransferError::Local {
            what: "cannot look at",
            path: printable_bytes(typed),
            source,
        };
        let held = held.map_err(local)?;
        let kept = self.kept(&place).map_err(local)?;
        Ok(Destination {
            root: place.root,
            path: place.path,
            is_directory: typed.ends_with(b"/"),
            bounds: Bounds::of_server(),
            kept,
            rooms: Arc::clone(rooms),
            held,
            lends: true,
        })
    }

    /// What is below a place that this client may change, and that it may not: what it was allowed
    /// to read only, and roots that are only read.
    fn kept(&self, place: &rights::Place) -> io::Result<Kept> {
        let exports = self.shared.settings.exports.iter();
        let read_only = exports.filter(|export| export.access == Access::ReadOnly);
        let read_only = read_only.map(|export| &export.root);
        Kept::new(&place.root, place.others.clone(), read_only)
    }

    /// Sends files: all of them, or only chunks that are wanted beside what another server sends.
    fn get(
        &mut self,
        reader: &mut ControlReader,
        typed: &[Vec<u8>],
        options: &Options,
        progress: &Arc<Progress>,
        all: bool,
    ) -> Result<(), TransferError> {
        let (mut sources, mut handles) = (Vec::new(), Handles::default());
        for typed in typed {
            sources.push(self.source(typed, options, &mut handles)?);
        }
        let pace = Arc::new(Pace::new(Rate::from_bit_per_s(options.rate_bps), &options.congestion));
        let data = self.gather(options.streams)?;
        self.control.send(&Message::Ready)?;
        let control = &self.control;
        let hash = options.hash;
        let how = How { hash, pace: &pace, recruits: None, others: None, deals: all };
        let sent = if all {
            send::send(reader, control, send::Outlets::plain(data), &sources, how, progress)
        } else {
            send::supply(reader, control, data, &sources, how, progress)
        };
        pace.release();
        self.data = sent?;
        Ok(())
    }

    /// Tells what stands at a place.
    fn tell(
        &mut self,
        typed: &[u8],
        options: &Options,
        hashed: &mut catalogue::Hashed,
    ) -> Result<(), TransferError> {
        let source = match self.source(typed, options, &mut Handles::default()) {
            Ok(source) => Some(source),
            Err(error) if catalogue::is_absent(&error) => None,
            Err(error) => return Err(error),
        };
        self.control.send(&Message::Ready)?;
        match source {
            Some(source) => catalogue::tell(&self.control, source, hashed),
            None => self.control.send(&Message::Finished),
        }
    }

    fn source(
        &self,
        typed: &[u8],
        options: &Options,
        handles: &mut Handles,
    ) -> Result<Source, TransferError> {
        let (export, _) = export::locate(&self.shared.settings.exports, typed)?;
        let place = self.locate(typed)?;
        let root = handles.known(place.root);
        let links = if options.follow_links { Links::Follow } else { Links::Keep };
        let is_root = place.path.is_empty();
        let mut source = Source::below(Arc::clone(&root), place.path, typed.ends_with(b"/"), links);
        if is_root && !typed.is_empty() && !typed.ends_with(b"/") {
            // A root that was asked for by its name is sent under it, as any directory.
            let asked = RelativePath::from_typed(typed).map_err(TransferError::Path)?;
            let name = asked.split_last().map_or(export.name.as_bytes(), |(_, name)| name);
            source.name = RelativePath::new(name).map_err(TransferError::Path)?;
        }
        let source = source.check().map_err(|source| TransferError::Local {
            what: "cannot send",
            path: printable_bytes(typed),
            source,
        })?;
        handles.count(!source.root.shares(&root))?;
        Ok(source)
    }

    /// What this client means by a path, if it may use it.
    fn locate(&self, typed: &[u8]) -> Result<rights::Place, TransferError> {
        let (export, path) = export::locate(&self.shared.settings.exports, typed)?;
        if !export.root.is_in_place() {
            let why = "the directory that is served is not where it was when this server began";
            return Err(TransferError::Busy { why });
        }
        let grants = self.shared.settings.rights.as_deref();
        rights::place(export, path, grants, self.peer.client.as_deref())
    }

    /// The data connections of an operation: those kept from the last one, and new ones.
    fn gather(&mut self, streams: u16) -> Result<Vec<Connection>, TransferError> {
        let wanted = usize::from(streams);
        check_streams(wanted)?;
        let mut data = std::mem::take(&mut self.data);
        data.append(&mut self.await_joined(wanted.saturating_sub(data.len()))?);
        data.truncate(wanted);
        Ok(data)
    }

    /// So many connections that have joined, or are about to.
    fn await_joined(&self, count: usize) -> Result<Vec<Connection>, TransferError> {
        let idle = control::duration(self.shared.settings.idle);
        let end = Instant::now() + GREETING_TIMEOUT.min(idle);
        let mut data = Vec::new();
        while data.len() < count {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(connection) = self.joined.recv_timeout(left) else {
                let peer = self.control.peer().to_owned();
                let what = "fewer data connections joined than the request needs";
                return Err(TransferError::Unexpected { peer, what });
            };
            data.push(connection);
        }
        Ok(data)
    }

    fn denied(&self, why: &str) -> TransferError {
        TransferError::Denied { why: why.to_owned() }
    }
}

/// Directories that the sources of one request hold open.
#[derive(Default)]
struct Handles {
    /// What this client may use of the roots.
    roots: Vec<Arc<Root>>,
    /// Those of single sources.
    own: usize,
}

impl Handles {
    /// The same directory as it is known already, if it is, so that one handle serves all.
    fn known(&mut self, root: Arc<Root>) -> Arc<Root> {
        let identity = root.identity().ok();
        let same = |one: &&Arc<Root>| identity.is_some() && one.identity().ok() == identity;
        let known = self.roots.iter().find(same).cloned();
        known.unwrap_or_else(|| {
            self.roots.push(Arc::clone(&root));
            root
        })
    }

    fn count(&mut self, own: bool) -> Result<(), TransferError> {
        self.own += usize::from(own);
        if self.own <= HANDLES_MAX {
            return Ok(());
        }
        let (item, value) = ("sources", self.own.to_string());
        let why =
            "so many directories that links, or long ways, lead to are too many for a request";
        Err(TransferError::Setting { item, value, why })
    }
}

fn shown(sources: &[Vec<u8>]) -> String {
    let sources: Vec<String> = sources.iter().map(|one| printable_bytes(one)).collect();
    sources.join("\", \"")
}

/// The next message that is more than a sign of life; those do not move the deadline.
fn next_past_pings(reader: &mut ControlReader) -> Result<Option<Message>, TransferError> {
    loop {
        match reader.next(MESSAGE_LIMIT)? {
            Some(Message::Ping) => {}
            message => return Ok(message),
        }
    }
}
