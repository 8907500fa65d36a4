//! The receiving end of an operation, on whichever side of the connection it runs.
//!
//! The control thread answers offers and commits; one thread per data connection takes content
//! in ([`intake`]); a ticker reports progress, which is also the sign of life. Where whole files
//! are to be read, one more thread does that ([`inspect`]).

mod admission;
mod directory;
mod humility;
mod inspect;
mod intake;
mod partial;
mod stage;
mod whole;

use std::collections::{HashMap, HashSet};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::bounds::Bounds;
use crate::connection::Connection;
use crate::control::{ControlReader, ControlWriter, HEARTBEAT, REASON_WAIT};
use crate::error::{FileFailure, TransferError};
use crate::ledger::SettledFile;
use crate::progress::Progress;
use crate::room::{Held, Room, Rooms};
use crate::root::{self, Root};
use crate::socket;
use crate::wire::{
    AGAIN, Answer, AnswerState, CHUNK_SIZE, ChunkRun, DirectoryEntry, FailureCode, FileEntry,
    HashKind, LinkEntry, MESSAGE_LIMIT, Message, Options, RelativePath, Settled, UNNUMBERED,
    VERSION,
};
use admission::Admission;
use directory::{Directories, Directory};
use inspect::{Candidate, Job};
use intake::{Intake, IntakeError};
use partial::{Choices, Partial, Reading};
use stage::StageNames;
pub(crate) use stage::{is_stage_name, remove_expired};
use whole::{Care, WholeFile};

/// How often progress is reported while there is any.
const TICK: Duration = Duration::from_millis(50);
/// Files a sender may have offered and not yet delivered.
const OFFERED_MAX: usize = 1 << 14;
/// Largest file: its chunk table is 33 bytes per MiB.
const FILE_SIZE_MAX: u64 = 1 << 44;
/// File systems keep times to 2 s at worst.
const ROUNDED_MAX_NS: u128 = 2_000_000_000;
/// Between the sender's last message and its last byte so much must arrive in each such span.
const DELIVERY_WAIT: Duration = Duration::from_secs(60);
const DELIVERY_LEAST: u64 = 4096;

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
    /// How much is taken.
    pub(crate) rooms: Arc<Rooms>,
    /// What is stored there by everybody, and how much that may be.
    pub(crate) held: Option<(Arc<Held>, u64)>,
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
    parent: RelativePath,
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
    directories: Directories,
    root: Arc<Root>,
    base: RelativePath,
    bounds: Bounds,
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
    failure: Mutex<Option<TransferError>>,
    /// There is a failure: what is on its way is not worth any work.
    given_up: AtomicBool,
    over: Mutex<bool>,
    wake: Condvar,
}

/// Receives one operation's files; returns the data connections for the next one. What became of
/// each file stands in `progress`, whose verdict is the operation's.
pub(crate) fn receive(
    reader: &mut ControlReader,
    control: &ControlWriter,
    mut data: Vec<Connection>,
    destination: &Destination,
    options: &Options,
    progress: &Arc<Progress>,
) -> Result<Vec<Connection>, TransferError> {
    let Message::Begin { single_file } = expect_past_pings(reader)? else {
        return Err(reader.unexpected("the first message was not the beginning"));
    };
    let reception = Reception::new(control, destination, options, progress, single_file);
    reception.intakes.store(data.len(), Relaxed);
    let reception = &reception;
    let result = thread::scope(|scope| {
        let sockets: Vec<_> = data.iter().map(|one| Arc::clone(&one.socket)).collect();
        let ticker = scope.spawn(|| reception.tick());
        let inspector =
            reception.take_jobs().map(|jobs| scope.spawn(|| reception.inspect_all(jobs)));
        let intakes: Vec<_> =
            data.iter_mut().map(|one| scope.spawn(|| reception.take_in(one))).collect();
        let followed = reception.follow(reader).map_err(|error| {
            reception.abort(error);
            sockets.iter().for_each(|socket| Connection::shut_down(socket));
        });
        if followed.is_ok() {
            reception.await_delivery(&sockets);
        }
        for intake in intakes {
            intake.join().expect("intake threads do not panic");
        }
        reception.end_jobs();
        if let Some(inspector) = inspector {
            inspector.join().expect("the inspecting thread does not panic");
        }
        reception.stop();
        ticker.join().expect("the ticker does not panic");
        followed.map(|directories| reception.conclude(&directories))
    });
    // The first failure is the cause; what other threads saw after it is not.
    let cause = reception.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (cause, result) {
        (Some(cause), _) => Err(cause),
        (None, Ok(concluded)) => concluded.map(|()| data),
        (None, Err(())) => Err(reader.unexpected("the operation ended without a reason")),
    }
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
            directories: Directories::new(
                Arc::clone(&root),
                Arc::clone(&destination.rooms),
                options.sync,
            ),
            root,
            base: path.clone(),
            bounds: destination.bounds.clone(),
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
            failure: Mutex::new(None),
            given_up: AtomicBool::new(false),
            over: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    /// Handles control messages until the sender has nothing more; returns the directories whose
    /// attributes are to be set last.
    fn follow(&self, reader: &mut ControlReader) -> Result<Vec<DirectoryEntry>, TransferError> {
        let mut directories = Vec::new();
        loop {
            match reader.expect(MESSAGE_LIMIT)? {
                Message::Offer { first, files } => self.answer(reader, first, files)?,
                Message::Content { file, hash } => self.note_content(file, hash),
                Message::Commit { file, hash } => self.commit(file, hash),
                Message::FileFailed { file, code, message } => {
                    self.note_failure(file, FileFailure { code, message });
                }
                Message::Totals { files, size_bytes, complete } => {
                    self.progress.set_totals(files, size_bytes, complete);
                }
                Message::Links(links) => links.iter().for_each(|link| self.make_link(link)),
                Message::Directories(mut more) => directories.append(&mut more),
                Message::Finish => return Ok(directories),
                Message::Ping | Message::SetRate { .. } | Message::SetCongestion { .. } => {}
                _ => return Err(reader.unexpected("a message that only a receiver sends")),
            }
            self.answer_waiting();
        }
    }

    fn answer(
        &self,
        reader: &ControlReader,
        first: u64,
        files: Vec<FileEntry>,
    ) -> Result<(), TransferError> {
        self.check_numbers(reader, first, files.len())?;
        let mut answers = Vec::new();
        for (index, entry) in files.into_iter().enumerate() {
            let file = first + index as u64;
            if file & AGAIN != 0 {
                self.dropped().remove(&(file & !AGAIN));
            }
            let Some(entry) = self.admission.admit(file, entry) else {
                continue;
            };
            match self.accept_or_fail(file, entry) {
                Some(AnswerState::Missing(runs)) if runs.len() > 1 => {
                    let state = AnswerState::Missing(runs);
                    self.control.send(&Message::Answers(vec![Answer { file, state }]))?;
                }
                Some(state) => answers.push(Answer { file, state }),
                None => {}
            }
        }
        self.send_answers(answers)
    }

    fn send_answers(&self, answers: Vec<Answer>) -> Result<(), TransferError> {
        // A file of which nothing is missing any more waits only for its name: the crash came
        // between its last chunk and its commit.
        let complete: Vec<u64> = answers
            .iter()
            .filter(|answer| answer.state == AnswerState::Missing(Vec::new()))
            .map(|answer| answer.file)
            .collect();
        if !answers.is_empty() {
            self.control.send(&Message::Answers(answers))?;
        }
        complete.into_iter().try_for_each(|file| self.control.send(&Message::Received { file }))
    }

    /// Each file on offer has a number of its own, which is how its outcome is told.
    fn check_numbers(
        &self,
        reader: &ControlReader,
        first: u64,
        count: usize,
    ) -> Result<(), TransferError> {
        let files = self.files();
        if files.len() + self.admission.waiting() + count > OFFERED_MAX {
            return Err(reader.unexpected("too many files on offer at once"));
        }
        let end = first.checked_add(count as u64).filter(|end| *end < UNNUMBERED);
        if end.is_none_or(|end| {
            (first..end).any(|number| files.contains_key(&number) || self.admission.has(number))
        }) {
            return Err(reader.unexpected("two files on offer with one number"));
        }
        Ok(())
    }

    /// Answers what had to wait for others, as far as it has its turn now.
    fn answer_waiting(&self) {
        while let Some((file, entry)) = self.admission.next() {
            if let Some(state) = self.accept_or_fail(file, entry) {
                let sent = self.send_answers(vec![Answer { file, state }]);
                sent.unwrap_or_else(|error| self.abort(error));
            }
        }
    }

    fn accept_or_fail(&self, file: u64, entry: FileEntry) -> Option<AnswerState> {
        let admitted = entry.clone();
        let accepted = self.accept(file, &admitted.path, entry);
        self.state_or_fail(file, &admitted, accepted)
    }

    /// What is to be answered of a file that was admitted, unless it has failed.
    fn state_or_fail(
        &self,
        file: u64,
        admitted: &FileEntry,
        accepted: Result<AnswerState, FileFailure>,
    ) -> Option<AnswerState> {
        match accepted {
            Ok(state) => {
                if state == AnswerState::Present {
                    self.admission.release(admitted);
                }
                Some(state)
            }
            Err(failure) => {
                self.admission.release(admitted);
                self.fail_taken(file, &admitted.path, failure);
                None
            }
        }
    }

    /// Finds out what is here of an offered file and gets ready for the rest.
    fn accept(
        &self,
        file: u64,
        path: &RelativePath,
        entry: FileEntry,
    ) -> Result<AnswerState, FileFailure> {
        let place = self.place(path)?;
        let Place { directory, name, .. } = &place;
        let storage = |what: &'static str| move |error| FileFailure::storage(what, path, &error);
        if !directory.fresh {
            let there = root::entry_stat(directory.fd(), name);
            let there = there.map_err(storage("cannot look at"))?;
            if there.is_some_and(|stat| !is_file(&stat)) {
                stage::check_replaceable(directory.fd(), name).map_err(storage("cannot write"))?;
            }
            if let Some(there) = there.filter(|stat| is_alike(stat, &entry)) {
                if self.checksum {
                    self.compare_later(file, entry);
                    return Ok(AnswerState::Alike);
                }
                if has_time(directory, &there, &entry) {
                    if there.st_mode & 0o777 != u32::from(entry.mode) {
                        let set = root::Handle::open(directory.fd(), name)
                            .and_then(|handle| handle.set_mode(entry.mode));
                        set.map_err(storage("cannot set the permissions of"))?;
                    }
                    return self.settle_present(&place, &entry, None);
                }
            }
        }
        self.expect(file, place, entry)
    }

    /// Books a file that is under its name already. With `sync` it counts once it is on the disk,
    /// where whoever wrote it need not have brought it.
    fn settle_present(
        &self,
        place: &Place,
        entry: &FileEntry,
        hash: Option<[u8; 32]>,
    ) -> Result<AnswerState, FileFailure> {
        let bytes = entry.size_bytes;
        if bytes > CHUNK_SIZE {
            StageNames::remove_stale(place.directory.fd(), &place.name);
        }
        if self.sync {
            root::sync_entry(place.directory.fd(), &place.name)
                .map_err(|error| FileFailure::storage("cannot sync", &entry.path, &error))?;
            self.progress.add_resumed(bytes);
            let parent = place.parent.clone();
            self.settled().push(Done { settled: None, parent, bytes });
        } else {
            self.count_resumed(bytes);
        }
        self.progress.settle(SettledFile {
            path: entry.path.as_bytes().to_vec(),
            size_bytes: bytes,
            hash,
            already_there: true,
        });
        Ok(AnswerState::Present)
    }

    /// Gets ready for what is missing of a file.
    fn expect(
        &self,
        file: u64,
        place: Place,
        entry: FileEntry,
    ) -> Result<AnswerState, FileFailure> {
        let Place { parent, directory, name } = place;
        if entry.size_bytes <= CHUNK_SIZE {
            self.files().insert(file, Incoming::Whole(Arc::new(WholeFile { entry })));
            return Ok(AnswerState::Missing(vec![ChunkRun { first: 0, count: 1 }]));
        }
        if entry.size_bytes > FILE_SIZE_MAX {
            let message = format!("\"{}\" is larger than 16 TiB", entry.path);
            return Err(FileFailure { code: FailureCode::BadRequest, message });
        }
        let resume = self.control.version() > VERSION;
        let choices = Choices { hash: self.hash, sync: self.sync, resume };
        let promised = self.partials().iter().map(|one| one.missing_bytes()).sum();
        let room = (self.room(&directory), promised);
        let (partial, missing) = Partial::open(parent, directory, &name, entry, choices, room)?;
        self.count_resumed(partial.resumed_bytes());
        self.files().insert(file, Incoming::Partial(Arc::new(partial)));
        Ok(AnswerState::Missing(missing))
    }

    /// The directory and name for an entry of the operation.
    fn place(&self, path: &RelativePath) -> Result<Place, FileFailure> {
        let target = self.target(path)?;
        let Some((parent, name)) = target.split_last() else {
            let message = "a file cannot replace the root itself".to_owned();
            return Err(FileFailure { code: FailureCode::BadRequest, message });
        };
        let directory = self.directories.get(&parent);
        let directory = directory
            .map_err(|error| FileFailure::storage("cannot use the directory of", path, &error))?;
        let name = name.to_vec();
        Ok(Place { parent, directory, name })
    }

    fn room(&self, directory: &Directory) -> Room {
        Room { space: Arc::clone(&directory.space), held: self.held.clone() }
    }

    fn target(&self, path: &RelativePath) -> Result<RelativePath, FileFailure> {
        self.bounds.check(path)?;
        if path.as_bytes().split(|byte| *byte == b'/').any(is_stage_name) {
            let message = format!("\"{path}\" is the name of a file in progress");
            return Err(FileFailure { code: FailureCode::BadRequest, message });
        }
        if self.exact {
            return Ok(self.base.clone());
        }
        self.base.join(path).map_err(|error| FileFailure {
            code: FailureCode::BadRequest,
            message: error.to_string(),
        })
    }

    fn commit(&self, file: u64, hash: Option<[u8; 32]>) {
        let Some(Incoming::Partial(partial)) = self.take(file) else {
            return;
        };
        if self.read_back {
            return self.give(Job::Commit { file, partial, hash });
        }
        let committed = partial.commit(hash, &Reading::Nothing);
        self.conclude_commit(file, &partial, committed);
    }

    fn conclude_commit(
        &self,
        file: u64,
        partial: &Partial,
        committed: Result<[u8; 32], FileFailure>,
    ) {
        match committed {
            Ok(hash) => {
                let (parent, settled) = (partial.parent.clone(), Some(Settled { file, hash }));
                self.settle(&partial.entry, Done { settled, parent, bytes: 0 });
            }
            Err(failure) => {
                self.admission.release(&partial.entry);
                if failure.code == FailureCode::Corrupt && partial.resumed_bytes() > 0 {
                    self.drop_resumed(file, partial, failure);
                } else {
                    self.fail_taken(file, &partial.entry.path, failure);
                }
            }
        }
    }

    /// What an earlier attempt left is of other content and none of it is kept: the file has
    /// failed unless the sender offers it again.
    fn drop_resumed(&self, file: u64, partial: &Partial, failure: FileFailure) {
        let size = partial.entry.size_bytes;
        self.durable.fetch_sub(size, Relaxed);
        self.progress.forget(size, partial.resumed_bytes());
        let FileFailure { code, message } = failure.clone();
        self.dropped().insert(file, (partial.entry.path.clone(), failure));
        let sent = self.control.send(&Message::FileFailed { file, code, message });
        sent.unwrap_or_else(|error| self.abort(error));
    }

    /// Books what was dropped and not offered again.
    fn fail_dropped(&self) {
        for (path, failure) in std::mem::take(&mut *self.dropped()).into_values() {
            self.progress.fail(Some(path.as_bytes()), failure);
        }
    }

    fn dropped(&self) -> MutexGuard<'_, HashMap<u64, (RelativePath, FileFailure)>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_link(&self, link: &LinkEntry) {
        let allowed = self.bounds.check_link(&link.path, &link.target);
        let made = allowed.and_then(|()| self.place(&link.path)).and_then(|place| {
            let storage = |error| FileFailure::storage("cannot make the link", &link.path, &error);
            stage::place_link(place.directory.fd(), &place.name, &link.target).map_err(storage)?;
            if self.sync {
                self.settled().push(Done { settled: None, parent: place.parent, bytes: 0 });
            }
            Ok(())
        });
        if let Err(failure) = made {
            self.fail_taken(UNNUMBERED, &link.path, failure);
        }
    }

    /// After the last byte: attributes of directories, then the last word.
    fn conclude(&self, directories: &[DirectoryEntry]) -> Result<(), TransferError> {
        for entry in directories {
            let made = self.target(&entry.path).and_then(|target| {
                let storage =
                    |error| FileFailure::storage("cannot make the directory", &entry.path, &error);
                let directory = self.directories.get(&target).map_err(storage)?;
                // A link within the root may lead back to it; its attributes are its owner's.
                if self.root.is(directory.fd()).map_err(storage)? {
                    return Ok(());
                }
                root::set_attributes(directory.fd(), entry.mode, entry.modified_ns)
                    .and_then(|()| if self.sync { directory.sync() } else { Ok(()) })
                    .map_err(storage)
            });
            if let Err(failure) = made {
                self.fail_taken(UNNUMBERED, &entry.path, failure);
            }
        }
        self.fail_undelivered();
        self.fail_dropped();
        self.make_base();
        self.report()?;
        self.control.send(&Message::Finished)
    }

    /// The content of a directory has a place to go to, also where there is none.
    fn make_base(&self) {
        // What failed before has told why, once for each file.
        if !self.into_directory || self.progress.snapshot().files_failed > 0 {
            return;
        }
        if let Err(error) = self.directories.get(&self.base) {
            let failure = FileFailure::storage("cannot make the directory", &self.base, &error);
            self.fail_taken(UNNUMBERED, &self.base, failure);
        }
    }

    /// What is still on offer after the last byte was never sent.
    fn fail_undelivered(&self) {
        let left: Vec<(u64, String)> = self
            .files()
            .iter()
            .map(|(number, file)| (*number, file.entry().path.to_string()))
            .collect();
        let unsent = |path: &dyn std::fmt::Display| FileFailure {
            code: FailureCode::Protocol,
            message: format!("\"{path}\" was offered and not sent"),
        };
        for (number, path) in left {
            self.fail(number, unsent(&path));
        }
        for (number, entry) in self.admission.withdraw_all() {
            self.fail_taken(number, &entry.path, unsent(&entry.path));
        }
    }

    /// Waits until every data connection has delivered its last frame. The peer has said that it
    /// sent everything, so bytes keep arriving; where none do, it never will.
    fn await_delivery(&self, sockets: &[Arc<TcpStream>]) {
        let arrived =
            || -> u64 { sockets.iter().filter_map(|one| socket::bytes_received(one).ok()).sum() };
        let (mut last, mut since) = (arrived(), Instant::now());
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let going = || self.intakes.load(Relaxed) > 0 && !self.given_up.load(Relaxed);
        while going() && since.elapsed() < DELIVERY_WAIT {
            let waited = self.wake.wait_timeout(over, TICK);
            (over, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let now = arrived();
            if now - last >= DELIVERY_LEAST {
                (last, since) = (now, Instant::now());
            }
        }
        drop(over);
        if self.intakes.load(Relaxed) > 0 {
            self.abort(TransferError::Silent { peer: self.control.peer().to_owned() });
            sockets.iter().for_each(|socket| Connection::shut_down(socket));
        }
    }

    /// The thread of one data connection.
    fn take_in(&self, connection: &mut Connection) {
        let peer = connection.peer();
        let result = Intake::new(connection, self).run();
        self.intakes.fetch_sub(1, Relaxed);
        // Under the lock, or whoever has just looked would sleep through it.
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        self.wake.notify_all();
        drop(over);
        let error = match result {
            Ok(()) => return,
            Err(IntakeError::Io(error)) => {
                // The peer's own word, on its way on the control connection, says more.
                self.await_reason();
                crate::control::broken(&peer, error)
            }
            Err(IntakeError::Wire(source)) => TransferError::Wire { peer, source },
        };
        self.abort(error);
    }

    /// Ends the operation: the first error is kept, the control connection is cut.
    fn abort(&self, error: TransferError) {
        let (code, message) = (error.code(), error.to_string());
        if self.note(error) {
            // The peer learns the reason where it still listens.
            let _ = self.control.send(&Message::Failure { code, message });
        }
        self.control.shut_down();
    }

    /// Keeps the first error; says whether this was it.
    fn note(&self, error: TransferError) -> bool {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let first = failure.is_none();
        failure.get_or_insert(error);
        self.given_up.store(true, Relaxed);
        drop(failure);
        self.wake.notify_all();
        first
    }

    /// Waits a moment for another thread to learn why the operation ends.
    fn await_reason(&self) {
        let end = Instant::now() + REASON_WAIT;
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.wake.wait_timeout(over, left);
            (over, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The thread that reports.
    fn tick(&self) {
        let mut said = Instant::now();
        let mut last = (0, 0);
        loop {
            let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
            // The end may have come while it reported.
            let waited = self.wake.wait_timeout_while(over, TICK, |over| !*over);
            let (over, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if *over {
                return;
            }
            drop(over);
            let now = (self.received.load(Relaxed), self.durable.load(Relaxed));
            if now != last || said.elapsed() >= HEARTBEAT || !self.settled().is_empty() {
                (last, said) = (now, Instant::now());
                if let Err(error) = self.report() {
                    self.abort(error);
                    return;
                }
            }
        }
    }

    fn stop(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_all();
    }

    /// Makes durable what is to be durable, then says so.
    fn report(&self) -> Result<(), TransferError> {
        let settled = std::mem::take(&mut *self.settled());
        if self.sync {
            self.sync_all(&settled);
        }
        self.count_durable(settled.iter().map(|done| done.bytes).sum());
        let (received, durable) = (self.received.load(Relaxed), self.durable.load(Relaxed));
        self.progress.set_durable(durable);
        for batch in settled.chunks(4096) {
            let batch: Vec<Settled> = batch.iter().filter_map(|done| done.settled).collect();
            if !batch.is_empty() {
                self.control.send(&Message::Committed(batch))?;
            }
        }
        let progress = Message::Progress { received_bytes: received, durable_bytes: durable };
        self.control.send(&progress)
    }

    fn sync_all(&self, settled: &[Done]) {
        for partial in self.partials() {
            match partial.flush() {
                Ok(bytes) => self.count_durable(bytes),
                Err(error) => self.abort(storage_failed(&partial.entry.path, error)),
            }
        }
        let parents: HashSet<&RelativePath> = settled.iter().map(|done| &done.parent).collect();
        for parent in parents {
            let synced = self.directories.get(parent).and_then(|directory| directory.sync());
            if let Err(error) = synced {
                self.abort(storage_failed(parent, error));
            }
        }
    }

    /// Files of several chunks in progress.
    fn partials(&self) -> Vec<Arc<Partial>> {
        let partial = |file: &Incoming| match file {
            Incoming::Partial(partial) => Some(Arc::clone(partial)),
            _ => None,
        };
        self.files().values().filter_map(partial).collect()
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

    fn count_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Relaxed);
        self.progress.add_done(bytes);
    }

    fn count_durable(&self, bytes: u64) {
        self.durable.fetch_add(bytes, Relaxed);
    }

    fn count_resumed(&self, bytes: u64) {
        self.durable.fetch_add(bytes, Relaxed);
        self.progress.add_resumed(bytes);
    }

    /// Writes a file of one chunk; returns the directory that it is in.
    fn write_whole(&self, whole: &WholeFile, content: &[u8]) -> Result<RelativePath, FileFailure> {
        let path = &whole.entry.path;
        let Place { parent, directory, name } = self.place(path)?;
        let lease = self.room(&directory).take(directory.fd(), content.len() as u64);
        let _lease = lease.map_err(|shortage| shortage.failure_of(path))?;
        let care = Care { sync: self.sync, read_back: self.read_back };
        let written = whole.write(directory.fd(), &name, content, care);
        written.map_err(|error| FileFailure::storage("cannot write", path, &error))?;
        Ok(parent)
    }

    /// Books a file of one chunk: its directory and hash, or why it failed.
    fn settle_whole(
        &self,
        file: u64,
        whole: &WholeFile,
        result: Result<(RelativePath, [u8; 32]), FileFailure>,
    ) {
        match result {
            Ok((parent, hash)) => {
                let settled = Some(Settled { file, hash });
                let bytes = whole.entry.size_bytes;
                self.settle(&whole.entry, Done { settled, parent, bytes });
            }
            Err(failure) => {
                self.admission.release(&whole.entry);
                self.fail_taken(file, &whole.entry.path, failure);
            }
        }
    }

    fn settle(&self, entry: &FileEntry, done: Done) {
        self.progress.settle(SettledFile {
            path: entry.path.as_bytes().to_vec(),
            size_bytes: entry.size_bytes,
            hash: done.settled.filter(|_| self.hash == HashKind::Blake3).map(|one| one.hash),
            already_there: false,
        });
        self.settled().push(done);
        self.admission.release(entry);
    }

    fn chunk_done(&self, file: u64, durable: u64, all_here: bool) {
        self.count_durable(durable);
        if all_here {
            let sent = self.control.send(&Message::Received { file });
            sent.unwrap_or_else(|error| self.abort(error));
        }
    }

    /// A file on offer failed here: the sender is told, others go on.
    fn fail(&self, file: u64, failure: FileFailure) {
        // What is gone has failed already, by another thread or at the other end.
        if let Some(incoming) = self.take(file) {
            self.admission.release(incoming.entry());
            self.fail_taken(file, &incoming.entry().path, failure);
        }
    }

    /// As `fail`, for what is neither on offer nor admitted any more, or never was.
    fn fail_taken(&self, file: u64, path: &RelativePath, failure: FileFailure) {
        let FileFailure { code, message } = failure.clone();
        self.progress.fail(Some(path.as_bytes()), failure);
        let sent = self.control.send(&Message::FileFailed { file, code, message });
        sent.unwrap_or_else(|error| self.abort(error));
    }

    /// A file failed at the other end.
    fn note_failure(&self, file: u64, failure: FileFailure) {
        match self.take(file) {
            Some(incoming) => {
                self.admission.release(incoming.entry());
                self.progress.fail(Some(incoming.entry().path.as_bytes()), failure);
            }
            None if self.admission.has(file) => {
                let entry = self.admission.withdraw(file);
                self.progress.fail(entry.as_ref().map(|entry| entry.path.as_bytes()), failure);
            }
            None if file == UNNUMBERED => self.progress.fail(None, failure),
            // It failed here before, and counts once.
            None => {}
        }
    }
}

/// Where an entry of the operation goes.
struct Place {
    /// Its directory, below the root.
    parent: RelativePath,
    directory: Arc<Directory>,
    name: Vec<u8>,
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

fn storage_failed(path: &RelativePath, source: std::io::Error) -> TransferError {
    TransferError::Storage { path: path.to_string(), source }
}

fn is_file(stat: &rustix::fs::Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
}

/// Whether it may be the file on offer: a regular one of its size.
fn is_alike(stat: &rustix::fs::Stat, entry: &FileEntry) -> bool {
    is_file(stat) && stat.st_size as u64 == entry.size_bytes
}

/// The rest of the quick check that rsync users know: a file of the same size and time is the same.
fn has_time(directory: &Directory, stat: &rustix::fs::Stat, entry: &FileEntry) -> bool {
    let there = root::modified_ns(stat);
    if is_end(entry.modified_ns) {
        return false;
    }
    let near = there.abs_diff(entry.modified_ns) <= ROUNDED_MAX_NS;
    there == entry.modified_ns || (near && directory.keeps(entry.modified_ns) == Some(there))
}

/// A peer of version 1 says this of every time beyond what 64 bits of nanoseconds hold, so that it
/// tells nothing.
fn is_end(modified_ns: i128) -> bool {
    modified_ns == i128::from(i64::MAX) || modified_ns == i128::from(i64::MIN)
}
