//! The sending end of an operation, on whichever side of the connection it runs.
//!
//! A planner walks the sources and offers files ahead of need; the control thread takes the
//! receiver's answers; one thread per data connection sends what is missing ([`output`]).

mod compare;
mod large;
mod output;
mod queue;
mod source;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use weir_units::Rate;

use crate::connection::Connection;
use crate::control::{ControlReader, ControlWriter, HEARTBEAT, REASON_WAIT};
use crate::error::{FileFailure, TransferError};
use crate::file_version::FileVersion;
use crate::ledger::SettledFile;
use crate::pace::Pace;
use crate::progress::Progress;
use crate::root::{Links, Root};
use crate::wire::{
    AGAIN, Answer, AnswerState, CHUNK_SIZE, ChunkRun, DirectoryEntry, FailureCode, FileEntry,
    HashKind, LinkEntry, MESSAGE_LIMIT, Message, RelativePath, Settled, UNNUMBERED, VERSION,
};
use large::{Confirm, LargeFile};
use output::Output;
use queue::Queue;
pub(crate) use source::{Found, Source, Walk};

/// Files on offer and not yet sent; enough to hide the round trip of small files.
const AHEAD: usize = 4096;
/// Large files open at once.
const LARGE_AHEAD: usize = 16;
/// Files per offer: few at first, so that sending starts at once.
const FIRST_BATCH: usize = 16;
const BATCH: usize = 512;
/// Bytes of names per message, far below the limit on messages.
const BATCH_BYTES: usize = 1 << 16;
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
    known: HashMap<u64, Outgoing>,
    /// Neither sent nor failed.
    waiting: usize,
    waiting_large: usize,
    /// Everything was offered and the receiver was told so.
    all_told: bool,
    /// Threads of data connections that have not ended.
    outputs: usize,
    /// Files to be hashed of which the receiver has some, or one of the same size.
    unhashed: VecDeque<Unhashed>,
    over: bool,
}

/// What all threads of one sending operation share.
struct Sending {
    control: ControlWriter,
    hash: HashKind,
    pace: Arc<Pace>,
    progress: Arc<Progress>,
    queue: Queue,
    files: Mutex<Files>,
    moved: Condvar,
    sockets: Vec<Arc<std::net::TcpStream>>,
    failure: Mutex<Option<TransferError>>,
}

/// Sends the sources; returns the data connections for the next operation. What became of each
/// file stands in `progress`, whose verdict is the operation's.
pub(crate) fn send(
    reader: &mut ControlReader,
    control: &ControlWriter,
    mut data: Vec<Connection>,
    sources: &[Source],
    hash: HashKind,
    pace: &Arc<Pace>,
    progress: &Arc<Progress>,
) -> Result<Vec<Connection>, TransferError> {
    let sockets: Vec<_> = data.iter().map(|one| Arc::clone(&one.socket)).collect();
    pace.drive(sockets.clone())?;
    let sending = Sending {
        control: control.clone(),
        hash,
        pace: Arc::clone(pace),
        progress: Arc::clone(progress),
        queue: Queue::default(),
        files: Mutex::new(Files { outputs: data.len(), ..Files::default() }),
        moved: Condvar::new(),
        sockets,
        failure: Mutex::new(None),
    };
    let sending = &sending;
    thread::scope(|scope| {
        scope.spawn(|| sending.beat());
        scope.spawn(|| sending.hash_unsent().unwrap_or_else(|error| sending.abort(error)));
        scope.spawn(|| sending.plan(sources).unwrap_or_else(|error| sending.abort(error)));
        for connection in &mut data {
            scope.spawn(|| sending.put_out(connection));
        }
        let followed = sending.follow(reader).and_then(|()| sending.part(reader));
        followed.unwrap_or_else(|error| sending.abort(error));
        sending.files().over = true;
        sending.moved.notify_all();
    });
    sending.result().map(|()| data)
}

impl Sending {
    /// Walks the sources and offers what it finds; at the end says that nothing more follows.
    fn plan(&self, sources: &[Source]) -> Result<(), TransferError> {
        let single_file = matches!(sources, [only] if only.is_file());
        self.control.send(&Message::Begin { single_file })?;
        let mut plan = Plan::default();
        for source in sources {
            for found in Walk::new(source.clone()) {
                self.plan_one(&mut plan, source, found)?;
                if self.files().over {
                    return Ok(());
                }
            }
        }
        self.offer(&mut plan)?;
        self.tell_totals(&plan, true)?;
        self.wait_until(|files| files.waiting == 0);
        self.queue.close();
        for links in batches(&plan.links, |link| link.path.as_bytes().len() + link.target.len()) {
            self.control.send(&Message::Links(links))?;
        }
        for list in batches(&plan.directories, |one| one.path.as_bytes().len()) {
            self.control.send(&Message::Directories(list))?;
        }
        self.files().all_told = true;
        self.control.send(&Message::Finish)
    }

    fn plan_one(
        &self,
        plan: &mut Plan,
        source: &Source,
        found: Found,
    ) -> Result<(), TransferError> {
        match found {
            Found::File { path, stat, entry } => {
                plan.bytes += entry.size_bytes;
                plan.batch_large += usize::from(is_large(&entry));
                plan.batch_bytes += entry.path.as_bytes().len() + 32;
                plan.batch.push(Outgoing {
                    root: Arc::clone(&source.root),
                    path,
                    links: source.links,
                    version: FileVersion::of(&stat),
                    entry,
                    stage: Stage::Waiting,
                });
                let limit = if plan.next == 0 { FIRST_BATCH } else { BATCH };
                if plan.batch.len() >= limit
                    || plan.batch_bytes >= BATCH_BYTES
                    || plan.batch_large >= LARGE_AHEAD
                {
                    self.offer(plan)?;
                }
            }
            Found::Link(link) => plan.links.push(link),
            Found::Directory(directory) => plan.directories.push(directory),
            Found::Skipped(what) => self.progress.skip(what),
            Found::Failed(failure) => {
                // It was not offered, so it has no number; the receiver counts it all the same.
                let FileFailure { code, message } = failure.clone();
                self.control.send(&Message::FileFailed { file: UNNUMBERED, code, message })?;
                self.progress.fail(None, failure);
            }
        }
        Ok(())
    }

    fn offer(&self, plan: &mut Plan) -> Result<(), TransferError> {
        if plan.batch.is_empty() {
            return Ok(());
        }
        self.wait_until(|files| files.waiting < AHEAD && files.waiting_large < LARGE_AHEAD);
        let first = plan.next;
        let files: Vec<FileEntry> = plan.batch.iter().map(|one| one.entry.clone()).collect();
        let mut known = self.files();
        for outgoing in plan.batch.drain(..) {
            known.waiting += 1;
            known.waiting_large += usize::from(is_large(&outgoing.entry));
            known.known.insert(plan.next, outgoing);
            plan.next += 1;
        }
        drop(known);
        (plan.batch_bytes, plan.batch_large) = (0, 0);
        self.tell_totals(plan, false)?;
        self.control.send(&Message::Offer { first, files })
    }

    fn tell_totals(&self, plan: &Plan, complete: bool) -> Result<(), TransferError> {
        self.progress.set_totals(plan.next, plan.bytes, complete);
        let (files, size_bytes) = (plan.next, plan.bytes);
        self.control.send(&Message::Totals { files, size_bytes, complete })
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
                Message::SetRate { rate_bps } => {
                    self.pace.set_rate(Rate::from_bit_per_s(rate_bps));
                }
                Message::SetCongestion { name } => self.pace.set_congestion(&name)?,
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

    fn take_answers(
        &self,
        reader: &ControlReader,
        answers: Vec<Answer>,
    ) -> Result<(), TransferError> {
        let mut whole = Vec::new();
        for Answer { file, state } in answers {
            let Some(outgoing) = self.outgoing(file) else {
                continue;
            };
            // What is being sent was answered before: a file is opened and counted once.
            if !matches!(outgoing.stage, Stage::Waiting | Stage::Alike(_)) {
                continue;
            }
            match state {
                AnswerState::Present => self.skip_present(file, &outgoing),
                AnswerState::Alike => self.compare_later(file),
                AnswerState::Missing(_) if !is_large(&outgoing.entry) => whole.push(file),
                AnswerState::Missing(runs) => {
                    check_runs(&outgoing.entry, &runs)
                        .ok_or_else(|| reader.unexpected("a request for chunks past the end"))?;
                    self.start_large(file, &outgoing, &runs);
                    if runs.is_empty() {
                        // An attempt before this one delivered all of it and got no further; that
                        // it was received was said before the answer, when nothing could be done.
                        self.note_received(file)?;
                    }
                }
            }
        }
        self.queue.push_whole(whole);
        Ok(())
    }

    fn skip_present(&self, number: u64, outgoing: &Outgoing) {
        self.progress.add_resumed(outgoing.entry.size_bytes);
        let hash = if let Stage::Alike(hash) = outgoing.stage { hash } else { None };
        self.progress.settle(SettledFile {
            path: outgoing.entry.path.as_bytes().to_vec(),
            size_bytes: outgoing.entry.size_bytes,
            hash,
            already_there: true,
        });
        self.remove(number);
    }

    fn start_large(&self, number: u64, outgoing: &Outgoing, runs: &[ChunkRun]) {
        let shown = outgoing.root.show(&outgoing.path);
        let opened = outgoing.root.file(&outgoing.path, outgoing.links);
        let file = match opened {
            Ok(fd) => File::from(fd),
            Err(error) => {
                return self.fail(number, FileFailure::storage("cannot read", &shown, &error));
            }
        };
        let (entry, version) = (outgoing.entry.clone(), outgoing.version);
        let confirm = match self.hash {
            HashKind::Blake3 => Confirm::Resumed,
            HashKind::None if self.control.version() > VERSION => Confirm::All,
            HashKind::None => Confirm::Nothing,
        };
        let large = Arc::new(LargeFile::new(number, entry, file, version, shown, runs, confirm));
        self.progress.add_resumed(large.resumed_bytes());
        if let Err(failure) = large.check_unchanged() {
            return self.fail(number, failure);
        }
        let mut files = self.files();
        if let Some(known) = files.known.get_mut(&number) {
            known.stage = Stage::Large(Arc::clone(&large));
        }
        if large.is_unconfirmed() {
            files.unhashed.push_back(Unhashed::Resumed(Arc::clone(&large)));
            self.moved.notify_all();
        }
        drop(files);
        self.queue.push_large(large);
    }

    /// The thread that hashes what is not sent, while the rest is on its way.
    fn hash_unsent(&self) -> Result<(), TransferError> {
        loop {
            self.wait_until(|files| !files.unhashed.is_empty());
            let mut files = self.files();
            let next = files.unhashed.pop_front().filter(|_| !files.over);
            drop(files);
            match next {
                None => return Ok(()),
                Some(Unhashed::Resumed(large)) => self.confirm(&large)?,
                Some(Unhashed::Alike(number)) => self.compare(number)?,
            }
        }
    }

    /// Hashes what an earlier attempt delivered of a file.
    fn confirm(&self, large: &LargeFile) -> Result<(), TransferError> {
        let going = || !self.files().over;
        match large.hash_resumed(&going) {
            Ok(()) if !going() => Ok(()),
            Ok(()) => {
                large.set_confirmed();
                self.commit(large)
            }
            Err(failure) => {
                large.set_failed();
                self.fail(large.number, failure);
                Ok(())
            }
        }
    }

    /// All of a large file has arrived.
    fn note_received(&self, number: u64) -> Result<(), TransferError> {
        let Some(Outgoing { stage: Stage::Large(large), .. }) = self.outgoing(number) else {
            return Ok(());
        };
        large.set_received();
        self.commit(&large)
    }

    /// A file that has arrived and is confirmed may take its name if it is still what was offered.
    fn commit(&self, large: &LargeFile) -> Result<(), TransferError> {
        if !large.begin_commit() {
            return Ok(());
        }
        match large.check_unchanged() {
            Ok(()) => {
                let hash = large.hash();
                // Said before it counts as sent, after which the operation may be finished.
                self.control.send(&Message::Commit { file: large.number, hash })?;
                if !large.is_resumed() {
                    self.sent(large.number);
                }
                Ok(())
            }
            Err(failure) => {
                self.fail(large.number, failure);
                Ok(())
            }
        }
    }

    /// Offers a file anew of which the receiver holds old content: all of it will be sent.
    fn offer_again(&self, number: u64, large: &LargeFile) -> Result<(), TransferError> {
        let mut files = self.files();
        let Some(mut outgoing) = files.known.remove(&number) else {
            return Ok(());
        };
        outgoing.stage = Stage::Waiting;
        let entry = outgoing.entry.clone();
        let again = number | AGAIN;
        files.known.insert(again, outgoing);
        drop(files);
        large.set_failed();
        self.progress.forget(entry.size_bytes, large.resumed_bytes());
        let text = format!("\"{}\" is sent anew: what was there is of other content", entry.path);
        self.progress.notice(text);
        self.control.send(&Message::Offer { first: again, files: vec![entry] })
    }

    fn settle(&self, settled: &[Settled]) {
        for Settled { file, hash } in settled {
            let Some(outgoing) = self.remove(*file) else {
                continue;
            };
            self.progress.settle(SettledFile {
                path: outgoing.entry.path.as_bytes().to_vec(),
                size_bytes: outgoing.entry.size_bytes,
                hash: (self.hash == HashKind::Blake3).then_some(*hash),
                already_there: false,
            });
        }
    }

    fn outgoing(&self, number: u64) -> Option<Outgoing> {
        self.files().known.get(&number).cloned()
    }

    /// All of a file has been handed over; what is kept of it is for the receiver's last word.
    fn sent(&self, number: u64) {
        let mut files = self.files();
        let Some(known) = files.known.get_mut(&number) else {
            return;
        };
        let before = std::mem::replace(&mut known.stage, Stage::Sent);
        let large = is_large(&known.entry);
        self.waits_no_more(&mut files, &before, large);
    }

    /// Forgets a file that has its outcome.
    fn remove(&self, number: u64) -> Option<Outgoing> {
        let mut files = self.files();
        let outgoing = files.known.remove(&number)?;
        self.waits_no_more(&mut files, &outgoing.stage, is_large(&outgoing.entry));
        Some(outgoing)
    }

    /// Wakes the planner when it may go on; not for each of ten thousand files.
    fn waits_no_more(&self, files: &mut Files, before: &Stage, large: bool) {
        if matches!(before, Stage::Sent) {
            return;
        }
        files.waiting -= 1;
        files.waiting_large -= usize::from(large);
        if files.waiting == 0 || files.waiting == AHEAD - BATCH || files.waiting_large > 0 {
            self.moved.notify_all();
        }
    }

    /// A file failed on this side: the receiver drops it, others go on.
    fn fail(&self, number: u64, failure: FileFailure) {
        let FileFailure { code, message } = failure.clone();
        let sent = self.control.send(&Message::FileFailed { file: number, code, message });
        self.drop_failed(number, failure);
        sent.unwrap_or_else(|error| self.abort(error));
    }

    /// The receiver failed a file.
    fn note_failure(&self, number: u64, failure: FileFailure) -> Result<(), TransferError> {
        if number == UNNUMBERED {
            self.progress.fail(None, failure);
            return Ok(());
        }
        if let Some(Outgoing { stage: Stage::Large(large), .. }) = self.outgoing(number)
            && failure.code == FailureCode::Corrupt
            && large.is_resumed()
            && large.is_committed()
            && number & AGAIN == 0
        {
            return self.offer_again(number, &large);
        }
        self.drop_failed(number, failure);
        Ok(())
    }

    fn drop_failed(&self, number: u64, failure: FileFailure) {
        if let Some(Outgoing { stage: Stage::Large(large), .. }) = self.outgoing(number) {
            large.set_failed();
        }
        // A failure that both ends found counts once.
        if let Some(outgoing) = self.remove(number) {
            self.progress.fail(Some(outgoing.entry.path.as_bytes()), failure);
        }
        self.moved.notify_all();
    }

    /// The thread of one data connection.
    fn put_out(&self, connection: &mut Connection) {
        let peer = connection.peer();
        if let Err(error) = Output::new(connection, self).run() {
            // The peer's own word, on its way on the control connection, says more.
            let files = self.files();
            let waited = self.moved.wait_timeout_while(files, REASON_WAIT, |files| !files.over);
            drop(waited);
            self.abort(crate::control::broken(&peer, error));
        }
        self.files().outputs -= 1;
        self.moved.notify_all();
    }

    /// The sign of life towards a receiver that waits for a slow disk or a paused transfer.
    fn beat(&self) {
        let mut files = self.files();
        while !files.over {
            let waited = self.moved.wait_timeout(files, HEARTBEAT);
            let (back, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() && !back.over {
                drop(back);
                if let Err(error) = self.control.send(&Message::Ping) {
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
        self.pace.release();
        self.control.shut_down();
        self.sockets.iter().for_each(|socket| Connection::shut_down(socket));
    }

    fn result(&self) -> Result<(), TransferError> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the planner has gathered and not yet told.
#[derive(Default)]
struct Plan {
    next: u64,
    bytes: u64,
    batch: Vec<Outgoing>,
    batch_bytes: usize,
    /// Each of them is open from its answer on.
    batch_large: usize,
    links: Vec<LinkEntry>,
    directories: Vec<DirectoryEntry>,
}

fn is_large(entry: &FileEntry) -> bool {
    entry.size_bytes > CHUNK_SIZE
}

/// Nothing unless the runs are in order, apart, and within the file.
fn check_runs(entry: &FileEntry, runs: &[ChunkRun]) -> Option<()> {
    let chunks = entry.size_bytes.div_ceil(CHUNK_SIZE);
    let mut next = 0;
    for run in runs {
        let end = run.first.checked_add(run.count)?;
        if run.count == 0 || run.first < next || end > chunks {
            return None;
        }
        next = end;
    }
    Some(())
}

/// Splits a list into messages of bounded size.
fn batches<T: Clone>(items: &[T], size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut batches = Vec::new();
    let mut batch: Vec<T> = Vec::new();
    let mut bytes = 0;
    for item in items {
        bytes += size(item);
        batch.push(item.clone());
        if bytes >= BATCH_BYTES || batch.len() >= BATCH {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}
