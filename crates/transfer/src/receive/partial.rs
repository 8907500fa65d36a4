//! A file of several chunks on its way in: a part file and a journal beside the final name.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::fs::{AtFlags, FallocateFlags};

use super::attributes::Attribute;
use super::directory::{Directory, Parent};
use super::lease::{self, GRACE, Leases};
use super::stage::{self, Locked, StageNames};
use super::storage;
use crate::buffer::{PIECE, PageBuffer};
use crate::chunks::ChunkTable;
use crate::error::FileFailure;
use crate::hash;
use crate::journal::{Identity, Journal, Record};
use crate::random;
use crate::room::{Lease, Room, Shortage};
use crate::root;
use crate::wire::{CHUNK_SIZE, ChunkRun, FailureCode, FileEntry, HashKind};

/// Room is taken for at least so many bytes ahead of what has come, and at most.
const RESERVE_MIN: u64 = 64 << 20;
const RESERVE_MAX: u64 = 1 << 30;
/// Runs of missing chunks told to the sender; what is beyond is sent again.
const RUNS_MAX: usize = 4096;
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// A file of several chunks on its way in.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) parent: Arc<Parent>,
    directory: Arc<Directory>,
    name: Vec<u8>,
    pub(crate) entry: FileEntry,
    pub(crate) file: File,
    room: Room,
    sync: bool,
    hash: HashKind,
    /// Bytes that were here before this operation.
    resumed: u64,
    state: Mutex<State>,
    lent: Mutex<Lent>,
    _locked: Locked,
}

/// Who else may write to the file.
#[derive(Debug, Default)]
struct Lent {
    /// Nothing before it was first lent.
    leases: Option<Leases>,
    /// When a lease was last taken back of one who may still have something to write.
    unclean: Option<Instant>,
    /// It is lent no more.
    closed: bool,
}

/// What became of a chunk that another receiver has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// It was here before, or a connection of this end is writing it.
    Known,
    /// It is in the file: so many bytes became durable by it, and whether it was the last one
    /// missing.
    Seen(u64, bool),
    /// It is not in the file as this host sees it.
    Unseen,
}

/// Whether a file is read back before it takes its name.
pub(crate) enum Reading<'a> {
    Nothing,
    /// All of it, as long as this says yes.
    Back(&'a dyn Fn() -> bool),
}

/// How a file's content is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices {
    pub(crate) hash: HashKind,
    pub(crate) sync: bool,
    /// What is here may be resumed: the sender confirms all of it.
    pub(crate) resume: bool,
}

#[derive(Debug)]
struct State {
    journal: Journal,
    chunks: ChunkTable,
    /// Chunks that connections are writing.
    claimed: Vec<u64>,
    /// Written but not yet journalled: only with `sync`, which journals in batches.
    unsynced: Vec<Record>,
    /// The place up to which room was taken, where the file system can do that.
    reserved: u64,
    reserves: bool,
    /// It has its final name.
    published: bool,
    /// The file system has lost some of it, nobody knows what.
    lost: bool,
}

impl Partial {
    /// Opens or takes over the part file of `name` and returns the chunks that are missing.
    /// `promised` bytes are already taken of `room`.
    pub(crate) fn open(
        parent: Arc<Parent>,
        directory: Arc<Directory>,
        name: &[u8],
        entry: FileEntry,
        options: Choices,
        (room, promised): (Room, u64),
    ) -> Result<(Self, Vec<ChunkRun>), FileFailure> {
        let path = &entry.path.clone();
        let storage =
            |what: &'static str| move |error: io::Error| FileFailure::storage(what, path, &error);
        let names = StageNames::of(name);
        directory.sweep();
        let locked = stage::lock_journal(directory.fd(), &names)
            .map_err(storage("cannot open the journal of"))?
            .ok_or_else(|| FileFailure {
                code: FailureCode::Busy,
                message: format!("another transfer is writing \"{path}\""),
            })?;
        // Others that an earlier attempt lent the file to, and did not hear of again, may be about
        // to write to it; nobody is to read it before they cannot any more.
        if lease::end(directory.fd(), &names.lease).map_err(storage("cannot take back"))? {
            thread::sleep(GRACE);
            // Only now, or an attempt that dies here would leave the next one without a sign.
            lease::remove(directory.fd(), &names.lease).map_err(storage("cannot take back"))?;
        }
        let file =
            stage::open_own(directory.fd(), &names.part).map_err(storage("cannot create"))?;
        let journal = open_journal(&locked, &file, &entry, options)
            .map_err(storage("cannot read the journal of"))?;
        let state = State {
            journal,
            chunks: ChunkTable::new(entry.size_bytes, options.hash == HashKind::Blake3),
            claimed: Vec::new(),
            unsynced: Vec::new(),
            reserved: 0,
            reserves: !entry.sparse,
            published: false,
            lost: false,
        };
        let name = name.to_vec();
        let state = Mutex::new(state);
        let Choices { hash, sync, resume } = options;
        let mut partial = Self {
            parent,
            directory,
            name,
            entry,
            file,
            room,
            sync,
            hash,
            resumed: 0,
            state,
            lent: Mutex::default(),
            _locked: locked,
        };
        partial.restore(resume).map_err(storage("cannot read the journal of"))?;
        partial.sync_names().map_err(storage("cannot sync"))?;
        let mut state = partial.lock();
        let missing = state.chunks.missing_runs(RUNS_MAX);
        let resumed = state.chunks.bytes_known();
        drop(state);
        partial.resumed = resumed;
        partial.lock().reserved = missing.first().map_or(0, |run| run.first * CHUNK_SIZE);
        partial.check_room(promised)?;
        Ok((partial, missing))
    }

    /// With `sync`: brings both names to the disk, and what an attempt without `sync` has left.
    fn sync_names(&self) -> io::Result<()> {
        if !self.sync {
            return Ok(());
        }
        let state = self.lock();
        if !state.chunks.is_empty() {
            self.file.sync_data()?;
            state.journal.sync()?;
        }
        self.directory.sync()
    }

    /// Takes over journalled chunks whose data is really there.
    fn restore(&self, resume: bool) -> io::Result<()> {
        let mut state = self.lock();
        let State { journal, chunks, .. } = &mut *state;
        if !resume {
            journal.clear()?;
        }
        let mut any = false;
        let mut buffer = None;
        journal.replay(|record| {
            any = true;
            let known = record.chunk >= chunks.count() || chunks.contains(record.chunk);
            let mut matches = || {
                let buffer = buffer.get_or_insert_with(|| PageBuffer::new(PIECE));
                self.matches(&record, buffer)
            };
            if !known && (self.hash == HashKind::None || matches()) {
                chunks.insert(record.chunk, record.hash);
            }
        })?;
        if any { Ok(()) } else { self.file.set_len(0) }
    }

    fn matches(&self, record: &Record, buffer: &mut [u8]) -> bool {
        let offset = record.chunk * CHUNK_SIZE;
        let hash = hash::of_chunk(&self.file, offset, self.entry.size_bytes, buffer);
        matches!(hash, Ok(Some(hash)) if hash == record.hash)
    }

    fn span(&self, chunk: u64) -> (u64, u64) {
        let offset = chunk * CHUNK_SIZE;
        (offset, CHUNK_SIZE.min(self.entry.size_bytes - offset))
    }

    /// Compares the missing bytes with the room that there is, so that a full disk shows before
    /// the first byte is sent.
    fn check_room(&self, promised: u64) -> Result<(), FileFailure> {
        if self.entry.sparse {
            return Ok(());
        }
        let path = &self.entry.path;
        let missing = self.missing_bytes().saturating_add(promised);
        let checked = self.room.check(&self.file, missing);
        checked.map_err(|shortage| shortage.failure_of(path))?;
        let system = rustix::fs::fstatfs(&self.file)
            .map_err(|error| FileFailure::storage("no room for", path, &error.into()))?;
        // tmpfs would take every page at once and gain no layout by it.
        if system.f_type as i64 == TMPFS_MAGIC {
            self.lock().reserves = false;
        }
        Ok(())
    }

    /// What is still to come of a file that is not a hole; nothing of one that has holes.
    pub(crate) fn missing_bytes(&self) -> u64 {
        let known = self.lock().chunks.bytes_known();
        if self.entry.sparse { 0 } else { self.entry.size_bytes - known }
    }

    /// Takes room for a claimed chunk, and for what follows it: never much more than has come
    /// already, so that an offer by itself takes none. `None`: it was taken before.
    pub(crate) fn make_room(&self, offset: u64, length: u64) -> Result<Option<Lease>, Shortage> {
        let mut state = self.lock();
        let (from, end) = (state.reserved, offset + length);
        if end <= from && state.reserves {
            return Ok(None);
        }
        let ahead = state.chunks.bytes_known().clamp(RESERVE_MIN, RESERVE_MAX);
        let to = self.entry.size_bytes.min(end + ahead);
        if state.reserves
            && offset <= from.saturating_add(ahead)
            && let Ok(_lease) = self.room.take(&self.file, to - from)
        {
            let flags = FallocateFlags::empty();
            if rustix::fs::fallocate(&self.file, flags, from, to - from).is_ok() {
                state.reserved = to;
                return Ok(None);
            }
            state.reserves = false;
        }
        drop(state);
        self.room.take(&self.file, length).map(Some)
    }

    /// Bytes that were here before this operation.
    pub(crate) fn resumed_bytes(&self) -> u64 {
        self.resumed
    }

    /// Claims a chunk for writing; false when its place or length is wrong, or when it is
    /// already verified or being written: such data must not touch the file.
    pub(crate) fn claim(&self, offset: u64, length: u64) -> bool {
        let chunk = offset / CHUNK_SIZE;
        let mut state = self.lock();
        let missing = chunk < state.chunks.count()
            && !state.chunks.contains(chunk)
            && !state.claimed.contains(&chunk);
        if !missing || self.span(chunk).1 != length {
            return false;
        }
        state.claimed.push(chunk);
        true
    }

    /// Gives a claimed chunk back after its data turned out bad.
    pub(crate) fn release(&self, offset: u64) {
        self.lock().claimed.retain(|chunk| *chunk != offset / CHUNK_SIZE);
    }

    /// Records a claimed chunk as written and verified. Returns bytes that became durable by
    /// it, and whether it was the last one missing.
    pub(crate) fn complete(&self, offset: u64, hash: [u8; 32]) -> io::Result<(u64, bool)> {
        let record = Record { chunk: offset / CHUNK_SIZE, hash };
        let mut state = self.lock();
        state.check()?;
        let all_here = state.complete(record);
        if !self.sync {
            state.journal.append(&[record])?;
            return Ok((self.span(record.chunk).1, all_here));
        }
        state.unsynced.push(record);
        drop(state);
        Ok((if all_here { self.flush()? } else { 0 }, all_here))
    }

    /// As `complete`, for zeros that were not sent. They are not journalled: a resume asks for
    /// them again, which costs a frame, while the disk would hold more of them than were sent.
    pub(crate) fn complete_hole(&self, offset: u64, hash: [u8; 32]) -> io::Result<(u64, bool)> {
        let record = Record { chunk: offset / CHUNK_SIZE, hash };
        let mut state = self.lock();
        state.check()?;
        let all_here = state.complete(record);
        drop(state);
        let others = if all_here { self.flush()? } else { 0 };
        Ok((self.span(record.chunk).1 + others, all_here))
    }

    /// Lets another receiver write to the file; returns its lease. `None`: this file is for one.
    pub(crate) fn lend(&self, helper: u8) -> io::Result<Option<[u8; 32]>> {
        let mut lent = self.lent();
        if self.hash == HashKind::None || lent.closed {
            return Ok(None);
        }
        let leases = match &mut lent.leases {
            Some(leases) => leases,
            None => {
                if self.entry.sparse {
                    // Zeros at the end of a chunk that another writes are there to be read.
                    self.file.set_len(self.entry.size_bytes)?;
                }
                let (directory, names) = (self.directory.fd(), StageNames::of(&self.name));
                let made =
                    Leases::make(directory, &names.lease, &self.file, self.entry.size_bytes)?;
                lent.leases.insert(made)
            }
        };
        leases.lend(helper).map(Some)
    }

    /// Lets it write no more. It is `clean` if it has written all that it was sent.
    pub(crate) fn take_back(&self, helper: u8, clean: bool) -> io::Result<()> {
        let mut lent = self.lent();
        let Some(leases) = &mut lent.leases else {
            return Ok(());
        };
        leases.take_back(helper)?;
        if !clean {
            lent.unclean = Some(Instant::now());
        }
        Ok(())
    }

    /// Lets nobody else write to the file, and returns once nobody does.
    fn take_all_back(&self) -> io::Result<()> {
        let mut lent = self.lent();
        lent.closed = true;
        let Some(leases) = &mut lent.leases else {
            return Ok(());
        };
        if leases.take_all_back()? {
            lent.unclean = Some(Instant::now());
        }
        let since = lent.unclean.map_or(GRACE, |unclean| unclean.elapsed());
        thread::sleep(GRACE.saturating_sub(since));
        lease::remove(self.directory.fd(), &StageNames::of(&self.name).lease)?;
        lent.leases = None;
        Ok(())
    }

    /// Takes a chunk that another receiver says it has written, if the file has it as this host
    /// sees it: read here, and of the sender's hash.
    pub(crate) fn take_written(
        &self,
        chunk: u64,
        hash: [u8; 32],
        buffer: &mut [u8],
    ) -> io::Result<Sighting> {
        let size = self.entry.size_bytes;
        if chunk >= size.div_ceil(CHUNK_SIZE) {
            let what = "another receiver is said to have written a chunk past the end";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let offset = chunk * CHUNK_SIZE;
        if !self.claim(offset, self.span(chunk).1) {
            return Ok(Sighting::Known);
        }
        let there = if self.hash == HashKind::Blake3 {
            hash::of_chunk(&self.file, offset, size, buffer)
        } else {
            Ok(None)
        };
        if !matches!(there, Ok(Some(there)) if there == hash) {
            self.release(offset);
            return there.map(|_| Sighting::Unseen);
        }
        let (durable, all_here) = self.complete(offset, hash)?;
        Ok(Sighting::Seen(durable, all_here))
    }

    /// With `sync`: brings written data, then its journal records, to the disk. Returns the
    /// bytes that became durable.
    pub(crate) fn flush(&self) -> io::Result<u64> {
        let records = std::mem::take(&mut self.lock().unsynced);
        if records.is_empty() {
            return Ok(0);
        }
        self.file.sync_data().inspect_err(|_| self.give_up())?;
        let mut state = self.lock();
        state.check()?;
        state.journal.append(&records)?;
        state.journal.sync()?;
        Ok(records.iter().map(|record| self.span(record.chunk).1).sum())
    }

    /// Gives the complete file its attributes and its name; returns its hash.
    pub(crate) fn commit(
        &self,
        expected: Option<[u8; 32]>,
        reading: &Reading<'_>,
    ) -> Result<[u8; 32], FileFailure> {
        let path = &self.entry.path;
        let storage =
            |what: &'static str| move |error: io::Error| FileFailure::storage(what, path, &error);
        let state = self.lock();
        if !state.chunks.is_complete() {
            let message = format!("\"{path}\" was to be committed before all of it arrived");
            return Err(FileFailure { code: FailureCode::Protocol, message });
        }
        // Nobody else is to write to what has its name.
        drop(state);
        self.take_all_back().map_err(storage("cannot take back"))?;
        let mut state = self.lock();
        // Before it is read: a hole at the end was never written.
        self.file.set_len(self.entry.size_bytes).map_err(storage("cannot finish"))?;
        let hash = match (self.hash, expected) {
            (HashKind::Blake3, _) => state.chunks.file_hash(),
            (HashKind::None, None) => [0; 32],
            (HashKind::None, Some(_)) => {
                self.hash_written(&|| true).map_err(storage("cannot read"))?
            }
        };
        // What an earlier attempt left may be of other content with the same size and time.
        let unconfirmed = expected.is_none() && self.resumed > 0;
        if unconfirmed || expected.is_some_and(|expected| expected != hash) {
            let message = format!("\"{path}\": the file's hash does not match the sender's");
            state.clear(&self.file).map_err(storage("cannot clear"))?;
            return Err(FileFailure { code: FailureCode::Corrupt, message });
        }
        drop(state);
        if let Reading::Back(going) = reading
            && let Err(error) = self.read_back(hash, *going)
        {
            if error.kind() == io::ErrorKind::InvalidData {
                self.lock().clear(&self.file).map_err(storage("cannot clear"))?;
            }
            return Err(storage("cannot keep")(error));
        }
        self.publish().map_err(storage("cannot finish"))?;
        Ok(hash)
    }

    /// The hash of what is in the part file.
    fn hash_written(&self, going: &dyn Fn() -> bool) -> io::Result<[u8; 32]> {
        let hash = root::hash_of(&self.file, self.entry.size_bytes, going)?;
        hash.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// An error of kind `InvalidData` if the storage does not give back what was written.
    fn read_back(&self, hash: [u8; 32], going: &dyn Fn() -> bool) -> io::Result<()> {
        storage::put_out_of_memory(&self.file).inspect_err(|_| self.give_up())?;
        if self.hash_written(going)? == hash { Ok(()) } else { Err(storage::damaged()) }
    }

    fn publish(&self) -> io::Result<()> {
        let names = StageNames::of(&self.name);
        // Until it is named the next attempt must be able to take it over, and nobody else to
        // write to it.
        let (mode, staged) = (self.entry.mode, self.entry.mode & !0o022 | 0o600);
        let (path, modified_ns) = (&self.entry.path, self.entry.modified_ns);
        self.directory.set_own(&self.file, path, staged, modified_ns)?;
        let kept = if self.sync { self.file.sync_all() } else { storage::hand_over(&self.file) };
        kept.inspect_err(|_| self.give_up())?;
        let directory = self.directory.fd();
        let publish = || stage::publish(self.file.as_fd(), directory, &names.part, &self.name);
        self.directory.names.place(directory, &self.name, publish)?;
        self.lock().published = true;
        if self.sync {
            self.directory.sync()?;
        }
        if mode != staged {
            let set = root::set_mode(&self.file, mode);
            self.directory.pass(Attribute::Mode(mode), (path, true), set)?;
            if self.sync {
                self.file.sync_all()?;
            }
        }
        // The file stands; a journal that stays behind is taken over or replaced by the next.
        let _ = rustix::fs::unlinkat(directory, &names.journal, AtFlags::empty());
        Ok(())
    }

    /// Drops all that came, now that the file system has lost some of it: it tells that once, and
    /// may give back from its memory what it did not write.
    fn give_up(&self) {
        let mut state = self.lock();
        state.lost = true;
        state.unsynced.clear();
        // Nothing is claimed any more, and the names go with the last handle.
        let _ = state.clear(&self.file);
    }

    fn lent(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check(&self) -> io::Result<()> {
        if self.lost {
            return Err(io::Error::other("the file system has lost some of it"));
        }
        Ok(())
    }

    /// Drops all that came: which chunk is wrong cannot be known, so none is kept.
    fn clear(&mut self, file: &File) -> io::Result<()> {
        self.chunks.clear();
        self.journal.clear().and_then(|()| file.set_len(0))
    }

    /// Whether the file is complete with this chunk.
    fn complete(&mut self, record: Record) -> bool {
        self.claimed.retain(|chunk| *chunk != record.chunk);
        self.chunks.insert(record.chunk, record.hash);
        self.chunks.is_complete()
    }
}

/// Removes the part of a file of which nothing came.
impl Drop for Partial {
    fn drop(&mut self) {
        let names = StageNames::of(&self.name);
        let mut lent = self.lent();
        if let Some(leases) = &mut lent.leases {
            let taken = leases.take_all_back();
            // Where one may still write, what stays behind says so to the next attempt.
            if matches!(taken, Ok(false)) && lent.unclean.is_none_or(|one| one.elapsed() > GRACE) {
                let _ = lease::remove(self.directory.fd(), &names.lease);
            }
        }
        drop(lent);
        let state = self.lock();
        if state.published || !state.chunks.is_empty() {
            return;
        }
        drop(state);
        for name in names.all() {
            let _ = rustix::fs::unlinkat(self.directory.fd(), name, AtFlags::empty());
        }
    }
}

fn open_journal(
    locked: &Locked,
    part: &File,
    entry: &FileEntry,
    options: Choices,
) -> io::Result<Journal> {
    let verifiable = options.hash == HashKind::Blake3;
    let identity = Identity {
        size: entry.size_bytes,
        modified_ns: entry.modified_ns,
        hash: options.hash,
        boot: unverifiable_boot(options.hash, options.sync),
        part: if verifiable { 0 } else { rustix::fs::fstat(part)?.st_ino },
    };
    Journal::open(locked.file.try_clone()?, &identity)
}

/// The boot that claims are bound to when nothing can check them after a power loss.
fn unverifiable_boot(hash: HashKind, sync: bool) -> [u8; 16] {
    if hash == HashKind::Blake3 || sync {
        return [0; 16];
    }
    let mut boot = [0; 16];
    let Ok(text) = std::fs::read("/proc/sys/kernel/random/boot_id") else {
        // Nobody tells one from another, so no claim is taken over.
        let _ = random::fill(&mut boot);
        return boot;
    };
    boot.copy_from_slice(&blake3::hash(&text).as_bytes()[..16]);
    boot
}

/// Makes a span read as zeros: a chunk written in vain by an earlier attempt may stand there.
pub(crate) fn clear(partial: &Partial, offset: u64, length: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(&partial.file, flags, offset, length) {
        Err(rustix::io::Errno::OPNOTSUPP) => {
            let full = |_| io::Error::from_raw_os_error(libc::ENOSPC);
            let _lease = partial.room.take(&partial.file, length).map_err(full)?;
            partial.file.write_all_at(&vec![0; length as usize], offset)
        }
        result => Ok(result?),
    }
}
