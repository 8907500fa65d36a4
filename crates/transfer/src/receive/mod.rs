//! The receiving end of an operation, on whichever side of the connection it runs.
//!
//! The control thread answers offers ([`offers`]) and commits ([`outcome`]); one thread per data
//! connection takes content in ([`intake`]); a ticker reports progress ([`report`]), which is also
//! the sign of life. Where whole files are to be read, one more thread does that ([`inspect`]),
//! which also looks for what other receivers have written to a file ([`stripe`]) that was lent to
//! them ([`lease`]). Such another receiver does no more than that ([`mod@assist`]). Where other
//! senders help the first one, each has a thread, and data connections of its own ([`draw`]).

mod abort;
mod admission;
mod assist;
mod attributes;
mod chunk;
mod conclude;
mod directory;
mod draw;
mod helper;
mod inspect;
mod intake;
mod kept;
mod lease;
mod names;
mod offers;
mod outcome;
mod partial;
mod place;
mod report;
mod stage;
mod storage;
mod stripe;
mod whole;
mod zeros;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use crate::bounds::Bounds;
use crate::connection::Connection;
use crate::control::{ControlReader, ControlWriter};
use crate::error::{FileFailure, TransferError};
use crate::pace::Pace;
use crate::progress::Progress;
use crate::room::{Held, Rooms};
use crate::root::Root;
use crate::spool::Spool;
use crate::threads;
use crate::wire::{
    FileEntry, HashKind, JOINS, MESSAGE_LIMIT, Message, Options, RelativePath, SKIPS, STRIPES,
    Settled,
};
use admission::Admission;
pub(crate) use assist::assist;
use conclude::packed;
use directory::{Directories, Parent};
pub(crate) use draw::Sources;
use helper::Helper;
use inspect::{Candidate, Job};
pub(crate) use kept::Kept;
use partial::Partial;
pub(crate) use stage::{is_stage_name, remove_expired};
use whole::WholeFile;

/// Where an operation's files go.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) root: Arc<Root>,
    /// Below the root, as typed.
    pub(crate) path: RelativePath,
    /// It was typed with a trailing slash: certainly a directory.
    pub(crate) is_directory: bool,
    /// What is taken.
    pub(crate) bounds: Bounds,
    /// What is below it and not the sender's.
    pub(crate) kept: Kept,
    /// How much is taken.
    pub(crate) rooms: Arc<Rooms>,
    /// What is stored there by everybody, and how much that may be.
    pub(crate) held: Option<(Arc<Held>, u64)>,
    /// Files may be lent to other receivers, where the sender speaks of that.
    pub(crate) lends: bool,
}

/// What is known of an offered file that is not here yet.
#[derive(Clone)]
enum Incoming {
    /// Perhaps it is: its content is being compared.
    Candidate(Arc<Candidate>),
    Whole(Arc<WholeFile>),
    Partial(Arc<Partial>),
}

/// What stands under its name and has not been reported yet.
struct Done {
    /// What the sender is told: nothing of links and of what was there.
    settled: Option<Settled>,
    /// The directory that it is in.
    parent: Arc<Parent>,
    /// Bytes that become durable with the report.
    bytes: u64,
}

/// What all threads of one reception share.
struct Reception {
    control: ControlWriter,
    hash: HashKind,
    sync: bool,
    checksum: bool,
    read_back: bool,
    lends: bool,
    helpers: Vec<Helper>,
    /// What the other senders keep, if there are any.
    pace: Option<Arc<Pace>>,
    /// Threads of other senders that have not ended.
    drawing: AtomicUsize,
    directories: Directories,
    root: Arc<Root>,
    base: RelativePath,
    bounds: Bounds,
    kept: Kept,
    held: Option<(Arc<Held>, u64)>,
    /// The single file goes to `base` itself instead of into it.
    exact: bool,
    /// What comes goes into `base`, which is a directory even if nothing comes.
    into_directory: bool,
    admission: Admission,
    files: Mutex<HashMap<u64, Incoming>>,
    /// Resumed files whose content was not the sender's, by their numbers.
    dropped: Mutex<HashMap<u64, (RelativePath, FileFailure)>>,
    settled: Mutex<Vec<Done>>,
    /// Work for the thread that reads whole files, as long as there may be more.
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    received: AtomicU64,
    durable: AtomicU64,
    progress: Arc<Progress>,
    /// Data connections that have not delivered their last frame.
    intakes: AtomicUsize,
    /// Chunks that others are said to have written, and that were not looked for.
    unsighted: AtomicUsize,
    failure: Mutex<Option<TransferError>>,
    /// For which file the disk here was full: the sender ends the operation when it hears of that.
    full: Mutex<Option<String>>,
    /// There is a failure: what is on its way is not worth any work.
    given_up: AtomicBool,
    over: Mutex<bool>,
    wake: Condvar,
}

/// The connections that have joined: told how many are at work, and how many more are said to come.
pub(crate) type Join<'a> = dyn Fn(usize, u16) -> Result<Vec<Connection>, TransferError> + 'a;

/// Receives one operation's files; returns the data connections for the next one. What became of
/// each file stands in `progress`, whose verdict is the operation's. `join` has connections that
/// the sender says have joined since, told how many are at work; they are for this operation alone.
/// Other senders come from `sources`; they are for an operation with hashes, of a first sender of
/// version [`DEALS`](crate::wire::DEALS).
pub(crate) fn receive(
    reader: &mut ControlReader,
    control: &ControlWriter,
    mut data: Vec<Connection>,
    destination: &Destination,
    options: &Options,
    progress: &Arc<Progress>,
    (join, sources): (&Join<'_>, Option<Sources<'_>>),
) -> Result<Vec<Connection>, TransferError> {
    let Message::Begin { single_file } = expect_past_pings(reader)? else {
        return Err(reader.unexpected("the first message was not the beginning"));
    };
    let mut reception = Reception::new(control, destination, options, progress, single_file);
    if let Some(Sources { others, pace, .. }) = sources {
        let each = others.names.iter().enumerate();
        reception.helpers = each.map(|(number, name)| Helper::new(number, name)).collect();
        reception.pace = Some(Arc::clone(pace));
    }
    reception.intakes.store(data.len(), Relaxed);
    let reception = &reception;
    let result = thread::scope(|scope| {
        let ticker = reception.begin(scope, || reception.tick());
        let jobs = reception.take_jobs();
        let inspector =
            jobs.and_then(|jobs| reception.begin(scope, || reception.inspect_all(jobs)));
        let begun = data.iter_mut().filter_map(|one| {
            let socket = Arc::downgrade(&one.socket);
            reception.begin(scope, || reception.take_in(one)).map(|intake| (socket, intake))
        });
        let mut intakes: Vec<_> = begun.collect();
        if let Some(sources) = sources {
            reception.draw_from_all(scope, sources);
        }
        let followed = reception.follow(reader, &mut |more| {
            let joined = join(reception.intakes.load(Relaxed), more)?;
            reception.intakes.fetch_add(joined.len(), Relaxed);
            // Others may come in the place of those that have left again and again.
            intakes.retain(|(_, intake)| !intake.is_finished());
            for mut one in joined {
                let socket = Arc::downgrade(&one.socket);
                let begun = reception.begin(scope, move || reception.take_in(&mut one));
                intakes.extend(begun.map(|intake| (socket, intake)));
            }
            Ok(())
        });
        let sockets: Vec<_> = intakes.iter().filter_map(|(socket, _)| socket.upgrade()).collect();
        let followed = followed.map_err(|error| {
            reception.abort(error);
            sockets.iter().for_each(|socket| Connection::shut_down(socket));
        });
        if followed.is_ok() {
            reception.await_delivery(&sockets);
            reception.part_with_helpers();
        }
        reception.end_helpers();
        for (_, intake) in intakes {
            intake.join().expect("intake threads do not panic");
        }
        reception.end_jobs();
        if let Some(inspector) = inspector {
            inspector.join().expect("the inspecting thread does not panic");
        }
        // As many as there may be, the sender hears meanwhile that this end lives.
        let followed = followed.map(|directories| reception.conclude(&directories));
        reception.stop();
        if let Some(ticker) = ticker {
            ticker.join().expect("the ticker does not panic");
        }
        followed.map(|concluded| concluded.and_then(|()| reception.end()))
    });
    // The first failure is the cause; what other threads saw after it is not.
    let cause = reception.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    let ended = match (cause, result) {
        (Some(cause), _) => Err(cause),
        (None, Ok(concluded)) => concluded.map(|()| data),
        (None, Err(())) => Err(reader.unexpected("the operation ended without a reason")),
    };
    ended.map_err(|error| reception.cause_of(error))
}

/// The next message that is more than a sign of life.
fn expect_past_pings(reader: &mut ControlReader) -> Result<Message, TransferError> {
    loop {
        match reader.expect(MESSAGE_LIMIT)? {
            Message::Ping => {}
            message => return Ok(message),
        }
    }
}

impl Reception {
    fn new(
        control: &ControlWriter,
        destination: &Destination,
        options: &Options,
        progress: &Arc<Progress>,
        single_file: bool,
    ) -> Self {
        let root = Arc::clone(&destination.root);
        let path = &destination.path;
        let exact = single_file
            && !destination.is_directory
            && !path.is_empty()
            && root.directory(path).is_err();
        Self {
            control: control.clone(),
            hash: options.hash,
            sync: options.sync,
            checksum: options.checksum,
            read_back: options.read_back,
            helpers: Vec::new(),
            pace: None,
            drawing: AtomicUsize::new(0),
            lends: destination.lends
                && control.version() >= STRIPES
                && options.hash == HashKind::Blake3,
            directories: Directories::new(
                Arc::clone(&root),
                (path.clone(), destination.kept.clone()),
                Arc::clone(&destination.rooms),
                options.sync,
            ),
            root,
            base: path.clone(),
            bounds: destination.bounds.clone(),
            kept: destination.kept.clone(),
            held: destination.held.clone(),
            exact,
            into_directory: !single_file,
            admission: Admission::default(),
            files: Mutex::default(),
            dropped: Mutex::default(),
            settled: Mutex::default(),
            jobs: Mutex::default(),
            received: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            progress: Arc::clone(progress),
            intakes: AtomicUsize::new(0),
            unsighted: AtomicUsize::new(0),
            failure: Mutex::new(None),
            full: Mutex::default(),
            given_up: AtomicBool::new(false),
            over: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    /// Has a thread of the operation do some work; where that cannot be, the operation ends.
    fn begin<'scope>(
        &self,
        scope: &'scope thread::Scope<'scope, '_>,
        work: impl FnOnce() + Send + 'scope,
    ) -> Option<thread::ScopedJoinHandle<'scope, ()>> {
        threads::begin_in(scope, work).map_err(|error| self.abort(error)).ok()
    }

    /// Handles control messages until the sender has nothing more; returns the directories whose
    /// attributes are to be set last.
    fn follow(
        &self,
        reader: &mut ControlReader,
        join: &mut dyn FnMut(u16) -> Result<(), TransferError>,
    ) -> Result<Spool<'_>, TransferError> {
        let mut directories = Spool::new(self.beside_the_files());
        loop {
            match reader.expect(MESSAGE_LIMIT)? {
                Message::Offer { first, files } => self.answer(reader, first, files)?,
                Message::Content { file, hash } => self.note_content(file, hash),
                Message::Commit { file, hash } => self.commit(file, hash),
                Message::FileFailed { file, code, message } => {
                    self.note_failure(file, FileFailure { code, message });
                }
                Message::Skipped { message } if self.control.version() >= SKIPS => {
                    self.progress.skip(message);
                }
                Message::Totals { files, size_bytes, complete } => {
                    self.progress.set_totals(files, size_bytes, complete);
                }
                Message::Links(links) => links.iter().for_each(|link| self.make_link(link)),
                Message::Directories(more) => {
                    let mut each = more.iter();
                    each.try_for_each(|entry| directories.push(&packed(entry)))
                        .map_err(conclude::not_kept)?;
                }
                Message::Joined { streams } if self.control.version() >= JOINS => join(streams)?,
                Message::Lend { file, helper } if self.lends => self.lend(file, helper)?,
                Message::TakeBack { file, helper, clean } if self.lends => {
                    self.take_back(file, helper, clean);
                }
                Message::Written { file, chunks } if self.lends => {
                    self.note_written(reader, file, chunks)?;
                }
                Message::Dealt { file, helper, first, hashes } if !self.helpers.is_empty() => {
                    self.take_dealt(reader, (file, helper), first, &hashes)?;
                }
                Message::Finish => return Ok(directories),
                Message::Ping | Message::SetRate { .. } | Message::SetCongestion { .. } => {}
                _ => return Err(reader.unexpected("a message that only a receiver sends")),
            }
            self.answer_waiting();
        }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u64, Incoming>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settled(&self) -> MutexGuard<'_, Vec<Done>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn incoming(&self, file: u64) -> Option<Incoming> {
        self.files().get(&file).cloned()
    }

    fn take(&self, file: u64) -> Option<Incoming> {
        self.files().remove(&file)
    }
}

impl Incoming {
    fn entry(&self) -> &FileEntry {
        match self {
            Self::Candidate(candidate) => &candidate.entry,
            Self::Whole(file) => &file.entry,
            Self::Partial(file) => &file.entry,
        }
    }
}
