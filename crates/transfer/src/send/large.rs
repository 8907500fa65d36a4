//! A file of several chunks on its way out.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::SeekFrom;

use crate::buffer::{PIECE, PageBuffer};
use crate::chunks::ChunkTable;
use crate::error::FileFailure;
use crate::file_version::FileVersion;
use crate::hash;
use crate::wire::{CHUNK_SIZE, ChunkRun, FileEntry, HOLE_CHUNKS};

/// How many runs of missing chunks are looked through for content; others send what is before it.
const RUNS_AHEAD: usize = 64;

/// Another sender is dealt at most this part of what is left of a file.
const DEALT_OF_LEFT: u64 = 8;

/// Bytes of a large file that one connection sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Data { offset: u64, length: u64 },
    Zeros { offset: u64, length: u64 },
}

/// A file of several chunks, open while it is sent.
#[derive(Debug)]
pub(crate) struct LargeFile {
    pub(crate) number: u64,
    pub(crate) entry: FileEntry,
    pub(crate) file: File,
    version: FileVersion,
    shown: String,
    runs: Mutex<VecDeque<ChunkRun>>,
    /// Chunks that other senders send.
    dealt: Mutex<HashSet<u64>>,
    /// What the receiver has of an earlier attempt is to be hashed here too.
    resumed: Option<Vec<ChunkRun>>,
    /// Nothing is hashed on its way, so all of it is hashed for the commit.
    hashed_apart: bool,
    hashes: Mutex<ChunkTable>,
    commit: Mutex<Commit>,
    failed: AtomicBool,
}

/// What is hashed of a file of which the receiver had some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirm {
    /// What it had: the rest is hashed on its way.
    Resumed,
    /// All of it: nothing is hashed on its way.
    All,
    /// Nothing: the receiver cannot compare it.
    Nothing,
}

/// What a file waits for before it may take its name.
#[derive(Debug)]
struct Commit {
    /// The receiver has every chunk.
    received: bool,
    /// All of it was hashed here, or need not be.
    confirmed: bool,
    begun: bool,
}

impl LargeFile {
    /// `missing` is what the receiver asked for.
    pub(crate) fn new(
        number: u64,
        entry: FileEntry,
        file: File,
        version: FileVersion,
        shown: String,
        missing: &[ChunkRun],
        confirm: Confirm,
    ) -> Self {
        let chunks = entry.size_bytes.div_ceil(CHUNK_SIZE);
        let present = complement(missing, chunks);
        let confirmed = present.is_empty() || confirm == Confirm::Nothing;
        let hashed_apart = !confirmed && confirm == Confirm::All;
        let hashing = confirm == Confirm::Resumed || hashed_apart;
        let hashes = Mutex::new(ChunkTable::new(entry.size_bytes, hashing));
        Self {
            number,
            entry,
            file,
            version,
            shown,
            runs: Mutex::new(missing.iter().copied().collect()),
            dealt: Mutex::default(),
            hashes,
            commit: Mutex::new(Commit { received: false, confirmed, begun: false }),
            hashed_apart,
            resumed: (!present.is_empty()).then_some(present),
            failed: AtomicBool::new(false),
        }
    }

    /// The next bytes to send; `None` when all are taken or the file has failed.
    pub(crate) fn next_span(&self) -> Option<Span> {
        if self.failed.load(Relaxed) {
            return None;
        }
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let run = runs.front_mut()?;
        let offset = run.first * CHUNK_SIZE;
        let zeros = self.zero_chunks(*run).min(HOLE_CHUNKS);
        let chunks = zeros.max(1);
        run.first += chunks;
        run.count -= chunks;
        if run.count == 0 {
            runs.pop_front();
        }
        let length = (chunks * CHUNK_SIZE).min(self.entry.size_bytes - offset);
        Some(if zeros > 0 { Span::Zeros { offset, length } } else { Span::Data { offset, length } })
    }

    /// The place and length of the next chunk that is no hole; holes are left to others. `None`:
    /// there is none near.
    pub(crate) fn next_content(&self) -> Option<(u64, usize)> {
        let offset = self.next_contents(1)?.first * CHUNK_SIZE;
        Some((offset, CHUNK_SIZE.min(self.entry.size_bytes - offset) as usize))
    }

    /// The next chunks in a row that are no holes, which another sender sends: at most so many, and
    /// few where little is left, so that all senders end together.
    pub(crate) fn deal(&self, most: u64) -> Option<ChunkRun> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let left: u64 = runs.iter().map(|run| run.count).sum();
        drop(runs);
        let run = self.next_contents(most.min(left / DEALT_OF_LEFT).max(1))?;
        let mut dealt = self.dealt.lock().unwrap_or_else(PoisonError::into_inner);
        dealt.extend(run.first..run.first + run.count);
        Some(run)
    }

    /// Chunks that were dealt are not any more; false if one was not.
    pub(crate) fn take_dealt(&self, chunks: &[u64]) -> bool {
        let mut dealt = self.dealt.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.iter().all(|chunk| dealt.remove(chunk))
    }

    /// The next chunks in a row that are no holes, at most so many.
    fn next_contents(&self, most: u64) -> Option<ChunkRun> {
        if self.failed.load(Relaxed) {
            return None;
        }
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        for index in 0..runs.len().min(RUNS_AHEAD) {
            let run = runs[index];
            let zeros = self.zero_chunks(run);
            if zeros == run.count {
                continue;
            }
            let first = run.first + zeros;
            let most = most.min(run.count - zeros);
            let is_content =
                |more: &u64| self.zero_chunks(ChunkRun { first: first + more, count: 1 }) == 0;
            let count = 1 + (1..most).take_while(is_content).count() as u64;
            let next = first + count;
            let rest = ChunkRun { first: next, count: run.count - zeros - count };
            let before = ChunkRun { first: run.first, count: zeros };
            runs.remove(index);
            for left in [rest, before].into_iter().filter(|run| run.count > 0) {
                runs.insert(index, left);
            }
            return Some(ChunkRun { first, count });
        }
        None
    }

    /// Whether there is something left to be taken.
    pub(crate) fn has_more(&self) -> bool {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        !runs.is_empty() && !self.failed.load(Relaxed)
    }

    /// A chunk that was taken is to be sent again, before all others.
    pub(crate) fn put_back(&self, chunk: u64) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.push_front(ChunkRun { first: chunk, count: 1 });
    }

    /// How many chunks at the start of `run` lie wholly in a hole of a sparse file.
    fn zero_chunks(&self, run: ChunkRun) -> u64 {
        if !self.entry.sparse {
            return 0;
        }
        let start = run.first * CHUNK_SIZE;
        let data = match rustix::fs::seek(&self.file, SeekFrom::Data(start)) {
            Ok(data) => data,
            // Beyond the last data there is only hole.
            Err(rustix::io::Errno::NXIO) => self.entry.size_bytes.next_multiple_of(CHUNK_SIZE),
            // The file system cannot tell: it is all data.
            Err(_) => return 0,
        };
        ((data - start) / CHUNK_SIZE).min(run.count)
    }

    /// Remembers a sent chunk's hash.
    pub(crate) fn know(&self, offset: u64, hash: [u8; 32]) {
        if !self.hashed_apart {
            self.learn(offset, hash);
        }
    }

    fn learn(&self, offset: u64, hash: [u8; 32]) {
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        hashes.insert(offset / CHUNK_SIZE, hash);
    }

    /// Whether it waits to be hashed before it may be committed.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        !self.commit().confirmed
    }

    /// Whether the receiver had some of it.
    pub(crate) fn is_resumed(&self) -> bool {
        self.resumed.is_some()
    }

    /// Bytes that the receiver had.
    pub(crate) fn resumed_bytes(&self) -> u64 {
        let size = self.entry.size_bytes;
        let end = |run: &ChunkRun| size.min((run.first + run.count) * CHUNK_SIZE);
        let runs = self.resumed.iter().flatten();
        runs.map(|run| end(run) - run.first * CHUNK_SIZE).sum()
    }

    /// Hashes what is not sent again, so that old content cannot pass for this file's. Ends early
    /// when the file fails, or nobody is `going` on.
    pub(crate) fn hash_resumed(&self, going: &dyn Fn() -> bool) -> Result<(), FileFailure> {
        let mut buffer = PageBuffer::new(PIECE);
        let all = [ChunkRun { first: 0, count: self.entry.size_bytes.div_ceil(CHUNK_SIZE) }];
        let resumed = self.resumed.as_deref().unwrap_or_default();
        for run in if self.hashed_apart { &all } else { resumed } {
            for chunk in run.first..run.first + run.count {
                if self.failed.load(Relaxed) || !going() {
                    return Ok(());
                }
                let offset = chunk * CHUNK_SIZE;
                let hash = hash::of_chunk(&self.file, offset, self.entry.size_bytes, &mut buffer);
                let hash =
                    hash.map_err(|error| FileFailure::storage("cannot read", &self.shown, &error))?;
                let hash = hash.ok_or_else(|| FileFailure::changed(&self.shown))?;
                self.learn(offset, hash);
            }
        }
        Ok(())
    }

    /// The receiver has all of it.
    pub(crate) fn set_received(&self) {
        self.commit().received = true;
    }

    /// All of it is hashed.
    pub(crate) fn set_confirmed(&self) {
        self.commit().confirmed = true;
    }

    /// Whether the caller is to commit it: once, when it is received and confirmed.
    pub(crate) fn begin_commit(&self) -> bool {
        let mut commit = self.commit();
        let begins = commit.received && commit.confirmed && !commit.begun;
        commit.begun |= begins;
        begins
    }

    /// Whether `begin_commit` has been true.
    pub(crate) fn is_committed(&self) -> bool {
        self.commit().begun
    }

    fn commit(&self) -> MutexGuard<'_, Commit> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file's hash, once all of it is hashed.
    pub(crate) fn hash(&self) -> Option<[u8; 32]> {
        let hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        (hashes.is_hashing() && hashes.is_complete()).then(|| hashes.file_hash())
    }

    /// An error if the file is not the one that was offered any more.
    pub(crate) fn check_unchanged(&self) -> Result<(), FileFailure> {
        let now = rustix::fs::fstat(&self.file).map_err(|error| {
            FileFailure::storage("cannot look at", &self.shown, &io::Error::from(error))
        })?;
        if FileVersion::of(&now) == self.version {
            Ok(())
        } else {
            Err(FileFailure::changed(&self.shown))
        }
    }

    /// Stops sending it; says whether this was the first failure.
    pub(crate) fn set_failed(&self) -> bool {
        !self.failed.swap(true, Relaxed)
    }

    /// The file's name for people.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }
}

/// The chunks of `chunks` that are in none of the runs, which are in order.
fn complement(runs: &[ChunkRun], chunks: u64) -> Vec<ChunkRun> {
    let mut rest = Vec::new();
    let mut next = 0;
    for run in runs.iter().chain([&ChunkRun { first: chunks, count: 0 }]) {
        if run.first > next {
            rest.push(ChunkRun { first: next, count: run.first - next });
        }
        next = run.first + run.count;
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::RelativePath;

    fn sparse_file(size: u64, runs: &[ChunkRun]) -> LargeFile {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"x", 5 * CHUNK_SIZE + 77).unwrap();
        let path = RelativePath::new(b"f").unwrap();
        let (modified_ns, mode) = (0, 0o644);
        let entry = FileEntry { path, size_bytes: size, modified_ns, mode, sparse: true };
        let version = FileVersion::of(&rustix::fs::fstat(&file).unwrap());
        LargeFile::new(1, entry, file, version, "f".to_owned(), runs, Confirm::Nothing)
    }

    #[test]
    fn what_is_hashed_and_what_is_sent_make_up_the_file() {
        let runs = [ChunkRun { first: 2, count: 3 }, ChunkRun { first: 9, count: 1 }];
        let rest = [(0, 2), (5, 4), (10, 2)].map(|(first, count)| ChunkRun { first, count });
        assert_eq!(complement(&runs, 12), rest);
        assert_eq!(complement(&[], 3), [ChunkRun { first: 0, count: 3 }]);
        assert_eq!(complement(&[ChunkRun { first: 0, count: 3 }], 3), []);
    }

    #[test]
    fn holes_are_told_from_data_and_every_missing_byte_comes_once() {
        let size = 100 * CHUNK_SIZE + 5;
        let runs = [ChunkRun { first: 0, count: 50 }, ChunkRun { first: 60, count: 41 }];
        let file = sparse_file(size, &runs);
        let spans: Vec<Span> = std::iter::from_fn(|| file.next_span()).collect();
        let chunk = CHUNK_SIZE;
        assert_eq!(
            spans,
            [
                Span::Zeros { offset: 0, length: 5 * chunk },
                Span::Data { offset: 5 * chunk, length: chunk },
                Span::Zeros { offset: 6 * chunk, length: 44 * chunk },
                Span::Zeros { offset: 60 * chunk, length: 40 * chunk + 5 },
            ]
        );
    }

    #[test]
    fn what_is_dealt_is_content_in_a_row_and_comes_back_once() {
        let run = |first, count| ChunkRun { first, count };
        let file = sparse_file(80 * CHUNK_SIZE, &[run(0, 80)]);
        for chunk in [6, 7, 9] {
            let place = chunk * CHUNK_SIZE;
            std::os::unix::fs::FileExt::write_all_at(&file.file, b"x", place).unwrap();
        }
        assert_eq!(file.deal(2), Some(run(5, 2)));
        assert_eq!(file.deal(64), Some(run(7, 1)));
        assert_eq!(file.deal(64), Some(run(9, 1)));
        assert_eq!(file.deal(64), None);
        assert!(file.take_dealt(&[5, 9]));
        assert!(!file.take_dealt(&[5]) && !file.take_dealt(&[8]));
        file.put_back(5);
        assert_eq!(file.deal(64), Some(run(5, 1)));
        let spans = std::iter::from_fn(|| file.next_span());
        assert!(spans.into_iter().all(|span| matches!(span, Span::Zeros { .. })));
    }

    #[test]
    fn another_sender_is_dealt_little_where_little_is_left() {
        let file = sparse_file(80 * CHUNK_SIZE, &[ChunkRun { first: 0, count: 80 }]);
        let content = vec![1; (80 * CHUNK_SIZE) as usize];
        std::os::unix::fs::FileExt::write_all_at(&file.file, &content, 0).unwrap();
        let counts: Vec<u64> = std::iter::from_fn(|| file.deal(64)).map(|run| run.count).collect();
        assert_eq!(counts[..4], [10, 8, 7, 6]);
        assert_eq!((counts.last(), counts.iter().sum()), (Some(&1), 80));
    }

    #[test]
    fn content_is_taken_past_holes_which_are_left() {
        let run = |first, count| ChunkRun { first, count };
        let file = sparse_file(100 * CHUNK_SIZE + 5, &[run(0, 3), run(4, 90), run(97, 4)]);
        assert_eq!(file.next_content(), Some((5 * CHUNK_SIZE, CHUNK_SIZE as usize)));
        assert_eq!(file.next_content(), None);
        let spans: Vec<Span> = std::iter::from_fn(|| file.next_span()).collect();
        let zeros = |first, count, more| {
            let (offset, length) = (first * CHUNK_SIZE, count * CHUNK_SIZE + more);
            Span::Zeros { offset, length }
        };
        let left = [zeros(0, 3, 0), zeros(4, 1, 0), zeros(6, 64, 0), zeros(70, 24, 0)];
        assert_eq!(spans[..4], left);
        assert_eq!(spans[4..], [zeros(97, 3, 5)]);
        file.put_back(5);
        assert_eq!(file.next_content(), Some((5 * CHUNK_SIZE, CHUNK_SIZE as usize)));
    }
}
