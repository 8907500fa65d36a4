//! The receiving end of an operation, on whichever side of the connection it runs.
//!
//! The control thread answers offers and commits; one thread per data connection takes content
//! in ([`intake`]); a ticker reports progress, which is also the sign of life.

mod directory;
mod intake;
mod partial;
mod whole;

use std::collections::HashMap;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::bounds::Bounds;
use crate::connection::Connection;
use crate::control::{ControlReader, ControlWriter, HEARTBEAT};
use crate::error::{FileFailure, TransferError};
use crate::ledger::SettledFile;
use crate::progress::Progress;
use crate::root::{self, Root};
use crate::socket;
use crate::wire::{
    AGAIN, Answer, AnswerState, CHUNK_SIZE, ChunkRun, DirectoryEntry, FailureCode, FileEntry,
    HashKind, LinkEntry, MESSAGE_LIMIT, Message, Options, RelativePath, Settled, UNNUMBERED,
};
use directory::{Directories, Directory};
use intake::{Intake, IntakeError};
use partial::{Partial, StageNames};
use whole::WholeFile;

/// How often progress is reported while there is any.
const TICK: Duration = Duration::from_millis(50);
/// How long a broken data connection waits for the control connection to say why.
pub(crate) const REASON_WAIT: Duration = Duration::from_millis(500);
/// Files a sender may have offered and not yet delivered.
const OFFERED_MAX: usize = 1 << 14;
/// Largest file: its chunk table is 33 bytes per MiB.
const FILE_SIZE_MAX: u64 = 1 << 44;
/// How long nothing may arrive between the sender's last message and its last byte.
const DELIVERY_WAIT: Duration = Duration::from_secs(60);

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
}

/// What is known of an offered file that is not here yet.
#[derive(Clone)]
enum Incoming {
    Whole(Arc<WholeFile>),
    Partial(Arc<Partial>),
}

/// A file that stands under its name and has not been reported yet.
struct Done {
    settled: Settled,
    directory: Arc<Directory>,
    /// Bytes that become durable with the report.
    bytes: u64,
}

/// What all threads of one reception share.
struct Reception {
    control: ControlWriter,
    hash: HashKind,
    sync: bool,
    directories: Directories,
    root: Arc<Root>,
    base: RelativePath,
    bounds: Bounds,
    /// The single file goes to `base` itself instead of into it.
    exact: bool,
    files: Mutex<HashMap<u64, Incoming>>,
    /// Resumed files whose content was not the sender's, by their numbers.
    dropped: Mutex<HashMap<u64, (RelativePath, FileFailure)>>,
    settled: Mutex<Vec<Done>>,
    received: AtomicU64,
    durable: AtomicU64,
    progress: Arc<Progress>,
    /// Data connections that have not delivered their last frame.
    intakes: AtomicUsize,
    failure: Mutex<Option<TransferError>>,
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
            directories: Directories::new(Arc::clone(&root)),
            root,
            base: path.clone(),
            bounds: destination.bounds.clone(),
            exact,
            files: Mutex::default(),
            dropped: Mutex::default(),
            settled: Mutex::default(),
            received: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            progress: Arc::clone(progress),
            intakes: AtomicUsize::new(0),
            failure: Mutex::new(None),
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
            let path = entry.path.clone();
            match self.accept(file, &path, entry) {
                Ok(AnswerState::Missing(runs)) if runs.len() > 1 => {
                    let state = AnswerState::Missing(runs);
                    self.control.send(&Message::Answers(vec![Answer { file, state }]))?;
                }
                Ok(state) => answers.push(Answer { file, state }),
                Err(failure) => self.fail_taken(file, &path, failure),
            }
        }
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
        if files.len() + count > OFFERED_MAX {
            return Err(reader.unexpected("too many files on offer at once"));
        }
        let end = first.checked_add(count as u64).filter(|end| *end < UNNUMBERED);
        if end.is_none_or(|end| (first..end).any(|number| files.contains_key(&number))) {
            return Err(reader.unexpected("two files on offer with one number"));
        }
        Ok(())
    }

    /// Finds out what is here of an offered file and gets ready for the rest.
    fn accept(
        &self,
        file: u64,
        path: &RelativePath,
        entry: FileEntry,
    ) -> Result<AnswerState, FileFailure> {
        let (directory, name) = self.place(path)?;
        if !directory.fresh {
            let storage =
                |what: &'static str| move |error| FileFailure::storage(what, path, &error);
            let there = root::entry_stat(directory.fd(), &name);
            let there = there.map_err(storage("cannot look at"))?;
            if let Some(there) = there.filter(|stat| is_same(stat, &entry)) {
                if there.st_mode & 0o777 != u32::from(entry.mode) {
                    let set = root::set_entry_mode(directory.fd(), &name, entry.mode);
                    set.map_err(storage("cannot set the permissions of"))?;
                }
                if entry.size_bytes > CHUNK_SIZE {
                    StageNames::remove_stale(&directory, &name);
                }
                self.count_resumed(entry.size_bytes);
                self.progress.settle(SettledFile {
                    path: entry.path.as_bytes().to_vec(),
                    size_bytes: entry.size_bytes,
                    hash: None,
                    already_there: true,
                });
                return Ok(AnswerState::Present);
            }
        }
        if entry.size_bytes <= CHUNK_SIZE {
            let whole = Arc::new(WholeFile { entry, directory, name });
            self.files().insert(file, Incoming::Whole(whole));
            return Ok(AnswerState::Missing(vec![ChunkRun { first: 0, count: 1 }]));
        }
        if entry.size_bytes > FILE_SIZE_MAX {
            let message = format!("\"{path}\" is larger than 16 TiB");
            return Err(FileFailure { code: FailureCode::BadRequest, message });
        }
        let (partial, missing) = Partial::open(directory, &name, entry, self.hash, self.sync)?;
        self.count_resumed(partial.resumed_bytes());
        self.files().insert(file, Incoming::Partial(Arc::new(partial)));
        Ok(AnswerState::Missing(missing))
    }

    /// The directory and name for an entry of the operation.
    fn place(&self, path: &RelativePath) -> Result<(Arc<Directory>, Vec<u8>), FileFailure> {
        let target = self.target(path)?;
        let Some((parent, name)) = target.split_last() else {
            let message = "a file cannot replace the root itself".to_owned();
            return Err(FileFailure { code: FailureCode::BadRequest, message });
        };
        let directory = self.directories.get(&parent);
        let directory = directory
            .map_err(|error| FileFailure::storage("cannot use the directory of", path, &error))?;
        Ok((directory, name.to_vec()))
    }

    fn target(&self, path: &RelativePath) -> Result<RelativePath, FileFailure> {
        self.bounds.check(path)?;
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
        match partial.commit(hash) {
            Ok(hash) => {
                let directory = Arc::clone(&partial.directory);
                let settled = Settled { file, hash };
                self.settle(&partial.entry, Done { settled, directory, bytes: 0 });
            }
            Err(failure) => {
                if failure.code == FailureCode::Corrupt && partial.resumed_bytes() > 0 {
                    self.drop_resumed(file, &partial, failure);
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
        let made = allowed.and_then(|()| self.place(&link.path)).and_then(|(directory, name)| {
            let storage = |error| FileFailure::storage("cannot make the link", &link.path, &error);
            place_link(&directory, &name, &link.target).map_err(storage)
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
                let (fd, _) = self.root.make_directory(&target).map_err(storage)?;
                // A link within the root may lead back to it; its attributes are its owner's.
                if self.root.is(fd.as_fd()).map_err(storage)? {
                    return Ok(());
                }
                root::set_attributes(fd.as_fd(), entry.mode, entry.modified_ns).map_err(storage)
            });
            if let Err(failure) = made {
                self.fail_taken(UNNUMBERED, &entry.path, failure);
            }
        }
        self.fail_undelivered();
        self.fail_dropped();
        self.report()?;
        self.control.send(&Message::Finished)
    }

    /// What is still on offer after the last byte was never sent.
    fn fail_undelivered(&self) {
        let left: Vec<(u64, String)> = self
            .files()
            .iter()
            .map(|(number, file)| (*number, file.entry().path.to_string()))
            .collect();
        for (number, path) in left {
            let message = format!("\"{path}\" was offered and not sent");
            self.fail(number, FileFailure { code: FailureCode::Protocol, message });
        }
    }

    /// Waits until every data connection has delivered its last frame. The peer has said that it
    /// sent everything, so bytes keep arriving; where none do, it never will.
    fn await_delivery(&self, sockets: &[Arc<TcpStream>]) {
        let arrived =
            || -> u64 { sockets.iter().filter_map(|one| socket::bytes_received(one).ok()).sum() };
        let (mut last, mut since) = (arrived(), Instant::now());
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while self.intakes.load(Relaxed) > 0 && since.elapsed() < DELIVERY_WAIT {
            let waited = self.wake.wait_timeout(over, TICK);
            (over, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let now = arrived();
            if now != last {
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
        self.wake.notify_all();
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
            let waited = self.wake.wait_timeout(over, TICK);
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
            let batch = batch.iter().map(|done| done.settled).collect();
            self.control.send(&Message::Committed(batch))?;
        }
        let progress = Message::Progress { received_bytes: received, durable_bytes: durable };
        self.control.send(&progress)
    }

    fn sync_all(&self, settled: &[Done]) {
        let partials: Vec<Arc<Partial>> = self
            .files()
            .values()
            .filter_map(|file| match file {
                Incoming::Partial(partial) => Some(Arc::clone(partial)),
                Incoming::Whole(_) => None,
            })
            .collect();
        for partial in partials {
            match partial.flush() {
                Ok(bytes) => self.count_durable(bytes),
                Err(error) => self.abort(storage_failed(&partial.entry.path, error)),
            }
        }
        let mut synced: Vec<*const Directory> = Vec::new();
        for Done { directory, .. } in settled {
            if synced.contains(&Arc::as_ptr(directory)) {
                continue;
            }
            synced.push(Arc::as_ptr(directory));
            if let Err(error) = directory.sync() {
                self.abort(storage_failed(&RelativePath::default(), error));
            }
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

    fn settle_whole(&self, file: u64, whole: &WholeFile, hash: [u8; 32]) {
        let (directory, bytes) = (Arc::clone(&whole.directory), whole.entry.size_bytes);
        self.settle(&whole.entry, Done { settled: Settled { file, hash }, directory, bytes });
    }

    fn settle(&self, entry: &FileEntry, done: Done) {
        self.progress.settle(SettledFile {
            path: entry.path.as_bytes().to_vec(),
            size_bytes: entry.size_bytes,
            hash: (self.hash == HashKind::Blake3).then_some(done.settled.hash),
            already_there: false,
        });
        self.settled().push(done);
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
            self.fail_taken(file, &incoming.entry().path, failure);
        }
    }

    /// As `fail`, for what is not on offer any more or never was.
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
                self.progress.fail(Some(incoming.entry().path.as_bytes()), failure);
            }
            None if file == UNNUMBERED => self.progress.fail(None, failure),
            // It failed here before, and counts once.
            None => {}
        }
    }
}

impl Incoming {
    fn entry(&self) -> &FileEntry {
        match self {
            Self::Whole(file) => &file.entry,
            Self::Partial(file) => &file.entry,
        }
    }
}

fn storage_failed(path: &RelativePath, source: std::io::Error) -> TransferError {
    TransferError::Storage { path: path.to_string(), source }
}

/// The quick check that rsync users know: a regular file of the same size and time is the same.
fn is_same(stat: &rustix::fs::Stat, entry: &FileEntry) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
        && stat.st_size as u64 == entry.size_bytes
        && root::modified_ns(stat) == entry.modified_ns
}

fn place_link(directory: &Directory, name: &[u8], target: &[u8]) -> std::io::Result<()> {
    let fd = directory.fd();
    match rustix::fs::readlinkat(fd, name, Vec::new()) {
        Ok(there) if there.as_bytes() == target => return Ok(()),
        _ => {}
    }
    let stage = StageNames::of(name).part;
    match rustix::fs::unlinkat(fd, &stage, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    rustix::fs::symlinkat(target, fd, &stage)?;
    Ok(rustix::fs::renameat(fd, &stage, fd, name)?)
}
