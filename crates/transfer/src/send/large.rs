//! A file of several chunks on its way out.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use rustix::fs::SeekFrom;

use super::Version;
use crate::error::FileFailure;
use crate::hash;
use crate::wire::{CHUNK_SIZE, ChunkRun, FileEntry, HOLE_CHUNKS};

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
    version: Version,
    shown: String,
    runs: Mutex<VecDeque<ChunkRun>>,
    hashes: Mutex<Hashes>,
    failed: AtomicBool,
}

#[derive(Debug)]
struct Hashes {
    chunks: Vec<[u8; 32]>,
    unknown: usize,
}

impl LargeFile {
    /// `missing` is what the receiver asked for.
    pub(crate) fn new(
        number: u64,
        entry: FileEntry,
        file: File,
        version: Version,
        shown: String,
        missing: &[ChunkRun],
    ) -> Self {
        let count = entry.size_bytes.div_ceil(CHUNK_SIZE) as usize;
        Self {
            number,
            entry,
            file,
            version,
            shown,
            runs: Mutex::new(missing.iter().copied().collect()),
            hashes: Mutex::new(Hashes { chunks: vec![[0; 32]; count], unknown: count }),
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
        let zeros = if self.entry.sparse { self.zero_chunks(*run) } else { 0 };
        let chunks = zeros.max(1);
        run.first += chunks;
        run.count -= chunks;
        if run.count == 0 {
            runs.pop_front();
        }
        let length = (chunks * CHUNK_SIZE).min(self.entry.size_bytes - offset);
        Some(if zeros > 0 { Span::Zeros { offset, length } } else { Span::Data { offset, length } })
    }

    /// How many chunks at the start of `run` lie wholly in a hole.
    fn zero_chunks(&self, run: ChunkRun) -> u64 {
        let start = run.first * CHUNK_SIZE;
        let data = match rustix::fs::seek(&self.file, SeekFrom::Data(start)) {
            Ok(data) => data,
            // Beyond the last data there is only hole.
            Err(rustix::io::Errno::NXIO) => self.entry.size_bytes.next_multiple_of(CHUNK_SIZE),
            // The file system cannot tell: it is all data.
            Err(_) => return 0,
        };
        ((data - start) / CHUNK_SIZE).min(run.count).min(HOLE_CHUNKS)
    }

    /// Remembers a sent chunk's hash.
    pub(crate) fn know(&self, offset: u64, hash: [u8; 32]) {
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        hashes.chunks[(offset / CHUNK_SIZE) as usize] = hash;
        hashes.unknown = hashes.unknown.saturating_sub(1);
    }

    /// The file's hash, if this end hashed all of it (not so after a resume).
    pub(crate) fn hash(&self) -> Option<[u8; 32]> {
        let hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        (hashes.unknown == 0).then(|| hash::file_hash(&hashes.chunks, self.entry.size_bytes))
    }

    /// An error if the file is not the one that was offered any more.
    pub(crate) fn check_unchanged(&self) -> Result<(), FileFailure> {
        let now = rustix::fs::fstat(&self.file).map_err(|error| {
            FileFailure::storage("cannot look at", &self.shown, &io::Error::from(error))
        })?;
        if Version::of(&now) == self.version {
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
        let version = Version::of(&rustix::fs::fstat(&file).unwrap());
        LargeFile::new(1, entry, file, version, "f".to_owned(), runs)
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
}
