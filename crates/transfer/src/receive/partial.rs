//! A file of several chunks on its way in: a part file and a journal beside the final name.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};

use super::directory::Directory;
use crate::connection::retry_interrupted;
use crate::error::FileFailure;
use crate::hash::{self, ChunkHasher};
use crate::journal::{Identity, Journal, Record};
use crate::root;
use crate::wire::{CHUNK_SIZE, ChunkRun, FailureCode, FileEntry, HashKind};

/// How long a new transfer waits for a dying one to let go of the same file.
const TAKE_OVER: Duration = Duration::from_secs(3);
/// Runs of missing chunks told to the sender; what is beyond is sent again.
const RUNS_MAX: usize = 4096;
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// What is known of one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Missing,
    /// A connection is writing it.
    Claimed,
    Here,
}

/// A file of several chunks on its way in.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) directory: Arc<Directory>,
    name: Vec<u8>,
    pub(crate) entry: FileEntry,
    pub(crate) file: File,
    sync: bool,
    hash: HashKind,
    /// Bytes that were here before this operation.
    resumed: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    journal: Journal,
    chunks: Vec<Chunk>,
    hashes: Vec<[u8; 32]>,
    missing: u64,
    /// Written but not yet journalled: only with `sync`, which journals in batches.
    unsynced: Vec<Record>,
}

impl Partial {
    /// Opens or takes over the part file of `name` and returns the chunks that are missing.
    pub(crate) fn open(
        directory: Arc<Directory>,
        name: &[u8],
        entry: FileEntry,
        hash: HashKind,
        sync: bool,
    ) -> Result<(Self, Vec<ChunkRun>), FileFailure> {
        let path = &entry.path.clone();
        let storage =
            |what: &'static str| move |error: io::Error| FileFailure::storage(what, path, &error);
        let names = StageNames::of(name);
        let journal = lock_journal(&directory, &names)
            .map_err(storage("cannot open the journal of"))?
            .ok_or_else(|| FileFailure {
                code: FailureCode::Busy,
                message: format!("another transfer is writing \"{}\"", entry.path),
            })?;
        let identity = Identity {
            size: entry.size_bytes,
            modified_ns: entry.modified_ns,
            hash,
            boot: unverifiable_boot(hash, sync),
        };
        let (journal, records) =
            Journal::open(journal, &identity).map_err(storage("cannot read the journal of"))?;
        let file = open_part(&directory, &names).map_err(storage("cannot create"))?;
        if records.is_empty() {
            file.set_len(0).map_err(storage("cannot empty"))?;
        }
        let count = entry.size_bytes.div_ceil(CHUNK_SIZE) as usize;
        let state = State {
            journal,
            chunks: vec![Chunk::Missing; count],
            hashes: vec![[0; 32]; count],
            missing: count as u64,
            unsynced: Vec::new(),
        };
        let name = name.to_vec();
        let state = Mutex::new(state);
        let mut partial = Self { directory, name, entry, file, sync, hash, resumed: 0, state };
        partial.restore(&records);
        partial.resumed = partial.bytes_here();
        let missing = partial.missing_runs();
        partial.make_room().map_err(storage("no room for"))?;
        Ok((partial, missing))
    }

    /// Takes over journalled chunks whose data is really there.
    fn restore(&self, records: &[Record]) {
        let mut state = self.lock();
        for record in records {
            let index = record.chunk as usize;
            if record.chunk >= state.chunks.len() as u64 || state.chunks[index] == Chunk::Here {
                continue;
            }
            if self.hash == HashKind::None || self.matches(record) {
                state.chunks[index] = Chunk::Here;
                state.hashes[index] = record.hash;
                state.missing -= 1;
            }
        }
    }

    fn matches(&self, record: &Record) -> bool {
        let (offset, length) = self.span(record.chunk);
        let mut data = vec![0; length as usize];
        if self.file.read_exact_at(&mut data, offset).is_err() {
            return false;
        }
        let mut hasher = ChunkHasher::new(offset, self.entry.size_bytes);
        hasher.update(&data);
        hasher.finish() == record.hash
    }

    fn span(&self, chunk: u64) -> (u64, u64) {
        let offset = chunk * CHUNK_SIZE;
        (offset, CHUNK_SIZE.min(self.entry.size_bytes - offset))
    }

    fn missing_runs(&self) -> Vec<ChunkRun> {
        let mut state = self.lock();
        let mut runs: Vec<ChunkRun> = Vec::new();
        for index in 0..state.chunks.len() {
            if state.chunks[index] == Chunk::Here {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.first + run.count == index as u64 => run.count += 1,
                _ => runs.push(ChunkRun { first: index as u64, count: 1 }),
            }
        }
        if runs.len() > RUNS_MAX {
            // The last run that is told swallows the rest, which is then missing as a whole.
            runs.truncate(RUNS_MAX);
            let last = &mut runs[RUNS_MAX - 1];
            last.count = state.chunks.len() as u64 - last.first;
            state.chunks[last.first as usize..].fill(Chunk::Missing);
            state.missing = runs.iter().map(|run| run.count).sum();
        }
        runs
    }

    /// Reserves the missing bytes, so that a full disk shows before the first byte is sent.
    fn make_room(&self) -> io::Result<()> {
        let missing = self.lock().missing * CHUNK_SIZE;
        let space = rustix::fs::fstatvfs(&self.file)?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if !self.entry.sparse && missing.min(self.entry.size_bytes) > free {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        // tmpfs would take every page at once and gain no layout by it.
        let on_tmpfs = rustix::fs::fstatfs(&self.file)?.f_type as i64 == TMPFS_MAGIC;
        if self.entry.sparse || on_tmpfs {
            return self.file.set_len(self.entry.size_bytes);
        }
        let size = self.entry.size_bytes;
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, size) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::INVAL) => self.file.set_len(size),
            result => Ok(result?),
        }
    }

    /// Bytes that were here before this operation.
    pub(crate) fn resumed_bytes(&self) -> u64 {
        self.resumed
    }

    fn bytes_here(&self) -> u64 {
        let state = self.lock();
        let here = state.chunks.iter().enumerate().filter(|(_, chunk)| **chunk == Chunk::Here);
        here.map(|(index, _)| self.span(index as u64).1).sum()
    }

    /// Claims a chunk for writing; false when its place or length is wrong, or when it is
    /// already verified or being written: such data must not touch the file.
    pub(crate) fn claim(&self, offset: u64, length: u64) -> bool {
        let chunk = offset / CHUNK_SIZE;
        let mut state = self.lock();
        match state.chunks.get_mut(chunk as usize) {
            Some(known) if *known == Chunk::Missing && self.span(chunk).1 == length => {
                *known = Chunk::Claimed;
                true
            }
            _ => false,
        }
    }

    /// Gives a claimed chunk back after its data turned out bad.
    pub(crate) fn release(&self, offset: u64) {
        self.lock().chunks[(offset / CHUNK_SIZE) as usize] = Chunk::Missing;
    }

    /// Records a claimed chunk as written and verified. Returns bytes that became durable by
    /// it, and whether it was the last one missing.
    pub(crate) fn complete(&self, offset: u64, hash: [u8; 32]) -> io::Result<(u64, bool)> {
        let record = Record { chunk: offset / CHUNK_SIZE, hash };
        let mut state = self.lock();
        state.chunks[record.chunk as usize] = Chunk::Here;
        state.hashes[record.chunk as usize] = hash;
        state.missing -= 1;
        let all_here = state.missing == 0;
        if !self.sync {
            state.journal.append(&[record])?;
            return Ok((self.span(record.chunk).1, all_here));
        }
        state.unsynced.push(record);
        drop(state);
        Ok((if all_here { self.flush()? } else { 0 }, all_here))
    }

    /// With `sync`: brings written data, then its journal records, to the disk. Returns the
    /// bytes that became durable.
    pub(crate) fn flush(&self) -> io::Result<u64> {
        let records = std::mem::take(&mut self.lock().unsynced);
        if records.is_empty() {
            return Ok(0);
        }
        self.file.sync_data()?;
        let mut state = self.lock();
        state.journal.append(&records)?;
        state.journal.sync()?;
        Ok(records.iter().map(|record| self.span(record.chunk).1).sum())
    }

    /// Gives the complete file its attributes and its name; returns its hash.
    pub(crate) fn commit(&self, expected: Option<[u8; 32]>) -> Result<[u8; 32], FileFailure> {
        let path = &self.entry.path;
        let mut state = self.lock();
        if state.missing > 0 {
            let message = format!("\"{path}\" was to be committed before all of it arrived");
            return Err(FileFailure { code: FailureCode::Protocol, message });
        }
        let hash = match self.hash {
            HashKind::Blake3 => hash::file_hash(&state.hashes, self.entry.size_bytes),
            HashKind::None => [0; 32],
        };
        // What an earlier attempt left may be of other content with the same size and time.
        let unconfirmed = expected.is_none() && self.resumed > 0 && self.hash == HashKind::Blake3;
        if unconfirmed || expected.is_some_and(|expected| expected != hash) {
            let message = format!("\"{path}\": the file's hash does not match the sender's");
            // Which chunk is wrong cannot be known, so none is kept.
            let cleared = state.journal.clear().and_then(|()| self.file.set_len(0));
            cleared.map_err(|error| FileFailure::storage("cannot clear", path, &error))?;
            return Err(FileFailure { code: FailureCode::Corrupt, message });
        }
        self.publish().map_err(|error| FileFailure::storage("cannot finish", path, &error))?;
        Ok(hash)
    }

    fn publish(&self) -> io::Result<()> {
        let names = StageNames::of(&self.name);
        self.file.set_len(self.entry.size_bytes)?;
        root::set_attributes(&self.file, self.entry.mode, self.entry.modified_ns)?;
        if self.sync {
            self.file.sync_all()?;
        }
        let directory = self.directory.fd();
        rustix::fs::renameat(directory, &names.part, directory, &self.name)?;
        if self.sync {
            self.directory.sync()?;
        }
        // The file stands; a journal that stays behind is taken over or replaced by the next.
        let _ = rustix::fs::unlinkat(directory, &names.journal, AtFlags::empty());
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names beside a final name while its file is in progress. Made from a hash, because a name of
/// 255 bytes leaves no room for a suffix.
#[derive(Debug)]
pub(crate) struct StageNames {
    pub(crate) part: Vec<u8>,
    pub(crate) journal: Vec<u8>,
}

impl StageNames {
    pub(crate) fn of(name: &[u8]) -> Self {
        let hash = blake3::hash(name).to_hex();
        let stem = format!(".weir-{}", &hash[..16]);
        Self {
            part: format!("{stem}.part").into_bytes(),
            journal: format!("{stem}.journal").into_bytes(),
        }
    }

    /// Removes a journal that outlived its file, once the file is known to be complete.
    pub(crate) fn remove_stale(directory: &Directory, name: &[u8]) {
        let names = Self::of(name);
        let _ = rustix::fs::unlinkat(directory.fd(), &names.journal, AtFlags::empty());
        let _ = rustix::fs::unlinkat(directory.fd(), &names.part, AtFlags::empty());
    }
}

fn create(directory: &Directory, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    retry_interrupted(|| Ok(rustix::fs::openat(directory.fd(), name, flags, mode)?))
}

fn open_part(directory: &Directory, names: &StageNames) -> io::Result<File> {
    create(directory, &names.part).map(File::from)
}

/// Opens and locks the journal; `None` when another transfer holds it for too long.
fn lock_journal(directory: &Directory, names: &StageNames) -> io::Result<Option<File>> {
    let give_up = Instant::now() + TAKE_OVER;
    loop {
        let fd = create(directory, &names.journal)?;
        match rustix::fs::flock(fd.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            // A journal that was removed between opening and locking is nobody's.
            Ok(()) if rustix::fs::fstat(&fd)?.st_nlink > 0 => return Ok(Some(fd.into())),
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The boot that claims are bound to when nothing can check them after a power loss.
fn unverifiable_boot(hash: HashKind, sync: bool) -> [u8; 16] {
    if hash == HashKind::Blake3 || sync {
        return [0; 16];
    }
    let text = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut boot = [0; 16];
    boot.copy_from_slice(&blake3::hash(&text).as_bytes()[..16]);
    boot
}

/// Makes a span read as zeros: a chunk written in vain by an earlier attempt may stand there.
pub(crate) fn clear(partial: &Partial, offset: u64, length: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(&partial.file, flags, offset, length) {
        Err(rustix::io::Errno::OPNOTSUPP) => {
            partial.file.write_all_at(&vec![0; length as usize], offset)
        }
        result => Ok(result?),
    }
}
