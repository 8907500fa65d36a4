//! The sending end of an operation, on whichever side of the connection it runs.
//!
//! A planner walks the sources and offers files ahead of need ([`plan`]); the control thread takes
//! the receiver's answers ([`answers`]); one thread per data connection sends what is missing
//! ([`output`]), which may become more or fewer meanwhile ([`recruit`]), and one more hashes what
//! is not sent ([`confirm`]). Where some of the connections are of a lower class, another one
//! looks after those ([`lane`], [`anew`]), and one more runs their congestion control where the
//! kernel has none that yields ([`yielding`]). Where they go to several ports, one looks after
//! those routes ([`routes`]). Where other receivers help the first one, each has a thread, and
//! data connections of its own ([`stripe`]). Where other senders help this one, chunks are dealt
//! out to them ([`deal`]); such another sender sends those and nothing else ([`mod@supply`]).

mod anew;
mod answers;
mod compare;
mod confirm;
mod deal;
mod helper;
mod lane;
mod large;
mod outcome;
mod output;
mod plan;
mod queue;
mod reach;
mod recruit;
mod routes;
mod source;
mod stripe;
mod supply;
mod walk;
mod yielding;

use std::collections::{HashMap, VecDeque};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use weir_units::Rate;

use crate::connection::Connection;
use crate::control::{ControlReader, ControlWriter, HEARTBEAT};
use crate::error::{FileFailure, TransferError};
use crate::file_version::FileVersion;
use crate::hosts::Others;
use crate::pace::Pace;
use crate::progress::Progress;
use crate::root::{Links, Root};
use crate::route::Lost;
use crate::threads;
use crate::wire::{
    CHUNK_SIZE, DEALS, FailureCode, FileEntry, HashKind, MESSAGE_LIMIT, Message, RelativePath,
};
use deal::Ask;
use helper::Helper;
use lane::Lanes;
use large::LargeFile;
use queue::Queue;
use reach::Reach;
use recruit::Crew;
pub(crate) use recruit::{Joining, Recruits};
pub(crate) use source::{Found, Source};
pub(crate) use supply::supply;
pub(crate) use walk::Walk;

/// How long the data connections may take to end after the receiver said that it has everything.
const PARTING: Duration = Duration::from_secs(5);

/// A file on its way.
#[derive(Clone)]
struct Outgoing {
    root: Arc<Root>,
    path: RelativePath,
    links: Links,
    version: FileVersion,
    entry: FileEntry,
    stage: Stage,
}

#[derive(Clone)]
enum Stage {
    /// The receiver has not answered, or its turn has not come.
    Waiting,
    /// The receiver has one of the same size; its content is hashed here, or was.
    Alike(Option<[u8; 32]>),
    /// All of it has been handed to a connection.
    Sent,
    Large(Arc<LargeFile>),
}

/// What is to be hashed without being sent.
enum Unhashed {
    /// What an earlier attempt delivered.
    Resumed(Arc<LargeFile>),
    /// A file that is compared, by its number.
    Alike(u64),
}

#[derive(Default)]
struct Files {
    /// In boxes: a map in which thousands come and go has up to four places for each of them.
    known: HashMap<u64, Box<Outgoing>>,
    /// Neither sent nor failed.
    waiting: usize,
    waiting_large: usize,
    /// Everything was offered and the receiver was told so.
    all_told: bool,
    /// Threads of data connections that have not ended.
    outputs: usize,
    /// The other receivers that have not ended.
    helpers: usize,
    /// Files to be hashed of which the receiver has some, or one of the same size.
    unhashed: VecDeque<Unhashed>,
    /// What is asked for on behalf of other senders.
    asks: VecDeque<Ask>,
    /// Something has come that may be dealt out.
    may_deal: bool,
    over: bool,
}

/// How an operation's content goes out.
#[derive(Clone, Copy)]
pub(crate) struct How<'a> {
    pub(crate) hash: HashKind,
    pub(crate) pace: &'a Arc<Pace>,
    /// Where more connections come from; `None` is from nowhere. Only for one route, without spare
    /// connections.
    pub(crate) recruits: Option<&'a Recruits<'a>>,
    /// The other receivers; only for one route, without spare connections, and with hashes.
    pub(crate) others: Option<&'a Others<'a>>,
    /// Other senders may have chunks dealt out, where the receiver speaks of that.
    pub(crate) deals: bool,
}

/// What all threads of one sending operation share.
struct Sending {
    control: ControlWriter,
    hash: HashKind,
    pace: Arc<Pace>,
    progress: Arc<Progress>,
    queue: Queue,
    lanes: Lanes,
    /// So many of the connections, from the first one on, are the promise's.
    promised: usize,
    /// The routes that were lost, where there are several.
    lost: Option<Arc<Lost>>,
    files: Mutex<Files>,
    moved: Condvar,
    /// The connections that have not left.
    sockets: Mutex<Vec<Arc<TcpStream>>>,
    crew: Crew,
    helpers: Vec<Helper>,
    deals: bool,
    /// The receiver was told that nothing more follows.
    finished: Mutex<bool>,
    failure: Mutex<Option<TransferError>>,
}

/// The connections that content leaves on.
pub(crate) struct Outlets {
    pub(crate) data: Vec<Connection>,
    /// So many of them, from the first one on, are the promise's, and the others spare.
    pub(crate) promised: usize,
    /// The routes that were lost, where there are several.
    pub(crate) lost: Option<Arc<Lost>>,
}

impl Outlets {
    /// Connections of which none is spare, to one port.
    pub(crate) fn plain(data: Vec<Connection>) -> Self {
        Self { promised: data.len(), data, lost: None }
    }
}

/// Sends the sources; returns the data connections for the next operation. What became of each
/// file stands in `progress`, whose verdict is the operation's.
pub(crate) fn send(
    reader: &mut ControlReader,
    control: &ControlWriter,
    outlets: Outlets,
    sources: &[Source],
    how: How<'_>,
    progress: &Arc<Progress>,
) -> Result<Vec<Connection>, TransferError> {
    let How { pace, recruits, others, .. } = how;
    let (sending, mut data) = Sending::new(control, outlets, how, progress)?;
    let sending = &sending;
    thread::scope(|scope| {
        sending.begin(scope, || sending.beat());
        sending.begin(scope, || sending.hash_unsent().unwrap_or_else(|error| sending.abort(error)));
        sending.begin(scope, || sending.plan(sources).unwrap_or_else(|error| sending.abort(error)));
        if sending.promised < data.len() {
            sending.begin(scope, || sending.watch_lanes());
            if pace.yields() {
                sending.begin(scope, || sending.pace_lanes());
            }
        }
        if let Some(lost) = &sending.lost {
            sending.begin(scope, || sending.watch_routes(lost));
        }
        for (index, connection) in data.iter_mut().enumerate() {
            sending.begin(scope, move || sending.put_out(connection, index, 0));
        }
        if let Some(recruits) = recruits {
            sending.begin(scope, move || sending.recruit(scope, recruits));
        }
        if let Some(others) = others {
            for (number, helper) in sending.helpers.iter().enumerate() {
                let opening = (others.open)(number);
                let silence = others.silence;
                sending.begin(scope, move || sending.stripe_over(scope, helper, &opening, silence));
            }
        }
        let followed = sending.follow(reader).and_then(|()| sending.part(reader));
        match followed {
            Ok(()) => sending.part_with_helpers(),
            Err(error) => sending.abort(error),
        }
        sending.files().over = true;
        sending.moved.notify_all();
        sending.end_lanes();
        sending.end_helpers();
        recruits.inspect(|recruits| recruits.streams.end());
    });
    sending.result().map(|()| data)
}

impl Sending {
    /// Nothing of it has begun; with the connections that its content is to leave on.
    fn new(
        control: &ControlWriter,
        outlets: Outlets,
        how: How<'_>,
        progress: &Arc<Progress>,
    ) -> Result<(Self, Vec<Connection>), TransferError> {
        let How { hash, pace, others, deals, .. } = how;
        let names = others.iter().flat_map(|others| &others.names);
        let helpers: Vec<Helper> =
            names.enumerate().map(|(number, name)| Helper::new(number, name)).collect();
        let Outlets { data, promised, lost } = outlets;
        let sockets: Vec<_> = data.iter().map(|one| Arc::clone(&one.socket)).collect();
        pace.drive(sockets.clone(), promised)?;
        let sending = Self {
            control: control.clone(),
            hash,
            pace: Arc::clone(pace),
            progress: Arc::clone(progress),
            queue: Queue::default(),
            lanes: Lanes::new(&sockets, promised),
            promised,
            lost,
            files: Mutex::new(Files {
                outputs: data.len(),
                helpers: helpers.len(),
                ..Files::default()
            }),
            moved: Condvar::new(),
            sockets: Mutex::new(sockets),
            crew: Crew::new(data.len()),
            helpers,
            deals: deals && control.version() >= DEALS && hash == HashKind::Blake3,
            finished: Mutex::new(false),
            failure: Mutex::new(None),
        };
        Ok((sending, data))
    }

    /// Has a thread of the operation do some work; where that cannot be, the operation ends.
    fn begin<'scope>(
        &self,
        scope: &'scope thread::Scope<'scope, '_>,
        work: impl FnOnce() + Send + 'scope,
    ) {
        if let Err(error) = threads::begin_in(scope, work) {
            self.abort(error);
        }
    }

    fn wait_until(&self, condition: impl Fn(&Files) -> bool) {
        let mut files = self.files();
        while !condition(&files) && !files.over {
            files = self.moved.wait(files).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Handles control messages until the receiver says that everything is in place.
    fn follow(&self, reader: &mut ControlReader) -> Result<(), TransferError> {
        loop {
            match reader.expect(MESSAGE_LIMIT)? {
                Message::Answers(answers) => self.take_answers(reader, answers)?,
                Message::Received { file } => self.note_received(file)?,
                Message::Committed(settled) => self.settle(&settled),
                Message::FileFailed { file, code, message } => {
                    if code == FailureCode::DiskFull {
                        return Err(TransferError::DiskFull(message));
                    }
                    let failure = FileFailure { code, message };
                    self.note_failure(file, failure)?;
                }
                Message::Progress { durable_bytes, .. } => {
                    self.progress.set_durable(durable_bytes);
                }
                Message::Unset { message } => self.progress.notice(message),
                Message::SetRate { rate_bps } => {
                    self.pace.set_rate(Rate::from_bit_per_s(rate_bps));
                }
                Message::SetCongestion { name } => self.pace.set_congestion(&name)?,
                Message::Lent { file, helper, exact, lease } => {
                    self.take_lent(reader, file, helper, (exact, lease))?;
                }
                Message::Unseen { file, chunks } => self.take_unseen(reader, file, &chunks)?,
                Message::Ask { helper, chunks } if self.deals => {
                    self.note_ask(reader, helper, chunks)?;
                }
                Message::Return { file, chunks } if self.deals => {
                    self.take_returned(reader, file, &chunks)?;
                }
                Message::Finished => return self.check_all_settled(reader),
                Message::Ping => {}
                _ => return Err(reader.unexpected("a message that only a sender sends")),
            }
        }
    }

    /// The receiver's last word holds only when every file on offer has an outcome.
    fn check_all_settled(&self, reader: &ControlReader) -> Result<(), TransferError> {
        let files = self.files();
        if files.all_told && files.known.is_empty() {
            return Ok(());
        }
        drop(files);
        Err(reader.unexpected("it said that all is in place before all of it was delivered"))
    }

    /// Waits for the data connections to hand over their last bytes, which a receiver that has
    /// everything has read.
    fn part(&self, reader: &ControlReader) -> Result<(), TransferError> {
        let working = |files: &mut Files| files.outputs > 0 && !files.over;
        let waited = self.moved.wait_timeout_while(self.files(), PARTING, working);
        let (files, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if files.outputs == 0 || files.over {
            return Ok(());
        }
        drop(files);
        Err(reader.unexpected("it said that all is in place and did not read all of it"))
    }

    fn outgoing(&self, number: u64) -> Option<Outgoing> {
        self.files().known.get(&number).map(|known| Outgoing::clone(known))
    }

    /// The sign of life towards a receiver that waits for a slow disk or a paused transfer.
    fn beat(&self) {
        let mut reach = Reach::default();
        let mut files = self.files();
        while !files.over {
            let waited = self.moved.wait_timeout(files, HEARTBEAT);
            let (back, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() && !back.over {
                drop(back);
                self.beat_helpers();
                let told = self.check_reach(&mut reach);
                if let Err(error) = told.and_then(|()| self.control.send(&Message::Ping)) {
                    return self.abort(error);
                }
                files = self.files();
            } else {
                files = back;
            }
        }
    }

    /// Ends the operation: the first error is kept, all threads are woken.
    fn abort(&self, error: TransferError) {
        let (code, message) = (error.code(), error.to_string());
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let first = failure.is_none();
        failure.get_or_insert(error);
        drop(failure);
        if first {
            // The peer learns the reason where it still listens.
            let _ = self.control.send(&Message::Failure { code, message });
        }
        self.files().over = true;
        self.moved.notify_all();
        self.queue.abandon();
        self.end_lanes();
        self.pace.release();
        self.control.shut_down();
        self.end_helpers();
        self.sockets().iter().for_each(|socket| Connection::shut_down(socket));
    }

    fn result(&self) -> Result<(), TransferError> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<Arc<TcpStream>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_large(entry: &FileEntry) -> bool {
    entry.size_bytes > CHUNK_SIZE
}
