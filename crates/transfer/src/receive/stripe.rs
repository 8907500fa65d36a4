//! Files that other receivers write to, too.
//!
//! What they write counts for nothing by their word: this end reads each such chunk through the
//! file system that they share, and takes it only if it has the hash that the sender told. So it is
//! in the file as whoever reads the file here will see it, and where the file systems are not the
//! same, or a host died before it wrote what it had in memory, the chunk is sent again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::inspect::Job;
use super::partial::{Partial, Sighting};
use super::{Incoming, Reception};
use crate::buffer::{PIECE, PageBuffer};
use crate::control::ControlReader;
use crate::error::{FileFailure, TransferError};
use crate::wire::{CHUNK_SIZE, Message, WrittenChunk};

/// Chunks that may be said to be written and were not looked for: 1 TiB, of which the words take
/// 40 MB.
const UNSIGHTED_MAX: usize = 1 << 20;

impl Reception {
    /// Lets another receiver write to a file.
    pub(super) fn lend(&self, file: u64, helper: u8) -> Result<(), TransferError> {
        let lease = match self.incoming(file) {
            Some(Incoming::Partial(partial)) => partial.lend(helper).unwrap_or_else(|error| {
                // Without others it goes on.
                self.progress.notice(format!("\"{}\" is not lent: {error}", partial.entry.path));
                None
            }),
            _ => None,
        };
        self.control.send(&Message::Lent { file, helper, exact: self.exact, lease })
    }

    /// Another receiver writes no more to a file.
    pub(super) fn take_back(&self, file: u64, helper: u8, clean: bool) {
        let Some(Incoming::Partial(partial)) = self.incoming(file) else {
            return;
        };
        if let Err(error) = partial.take_back(helper, clean) {
            let failure = FileFailure::storage("cannot take back", &partial.entry.path, &error);
            self.fail(file, failure);
        }
    }

    /// Chunks that others say they have written, to be looked for.
    pub(super) fn note_written(
        &self,
        reader: &ControlReader,
        file: u64,
        chunks: Vec<WrittenChunk>,
    ) -> Result<(), TransferError> {
        if let Some(Incoming::Partial(partial)) = self.incoming(file) {
            let count = chunks.len();
            if self.unsighted.fetch_add(count, Relaxed) + count > UNSIGHTED_MAX {
                let what = "more chunks are said to be written than are looked for at once";
                return Err(reader.unexpected(what));
            }
            self.give(Job::Written { file, partial, chunks });
        }
        Ok(())
    }

    /// Takes those of the chunks that are in the file, and tells of the others.
    pub(super) fn look_for(&self, file: u64, partial: &Arc<Partial>, chunks: &[WrittenChunk]) {
        let mut buffer = PageBuffer::new(PIECE);
        let mut unseen = Vec::new();
        for WrittenChunk { chunk, hash } in chunks {
            match partial.take_written(*chunk, *hash, &mut buffer) {
                Ok(Sighting::Known) => {}
                Ok(Sighting::Unseen) => unseen.push(*chunk),
                Ok(Sighting::Seen(durable, all_here)) => {
                    let left = partial.entry.size_bytes - chunk * CHUNK_SIZE;
                    self.count_received(left.min(CHUNK_SIZE));
                    self.chunk_done(file, durable, all_here);
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    let peer = self.control.peer().to_owned();
                    let what = "a chunk past the end is said to be written";
                    return self.abort(TransferError::Unexpected { peer, what });
                }
                Err(error) => {
                    let path = &partial.entry.path;
                    return self.fail(file, FileFailure::storage("cannot read", path, &error));
                }
            }
        }
        if !unseen.is_empty() {
            let sent = self.control.send(&Message::Unseen { file, chunks: unseen });
            sent.unwrap_or_else(|error| self.abort(error));
        }
    }
}
