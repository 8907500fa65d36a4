//! How a file ends: it settles under its name or fails, and is booked once at both ends.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::directory::Parent;
use super::inspect::Job;
use super::partial::{Partial, Reading};
use super::place::{Near, Place};
use super::whole::{Care, WholeFile};
use super::{Done, Incoming, Reception};
use crate::error::FileFailure;
use crate::ledger::SettledFile;
use crate::wire::{FailureCode, FileEntry, HashKind, Message, RelativePath, Settled, UNNUMBERED};

impl Reception {
    pub(super) fn commit(&self, file: u64, hash: Option<[u8; 32]>) {
        let Some(Incoming::Partial(partial)) = self.take(file) else {
            return;
        };
        if self.read_back {
            return self.give(Job::Commit { file, partial, hash });
        }
        let committed = partial.commit(hash, &Reading::Nothing);
        self.conclude_commit(file, &partial, committed);
    }

    pub(super) fn conclude_commit(
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

    /// Writes a file of one chunk; returns the directory that it is in.
    pub(super) fn write_whole(
        &self,
        near: &mut Option<Near>,
        whole: &WholeFile,
        content: &[u8],
    ) -> Result<Arc<Parent>, FileFailure> {
        let path = &whole.entry.path;
        let Place { parent, directory, name } = self.place_near(near, path)?;
        let lease = self.room(&directory).take(directory.fd(), content.len() as u64);
        let _lease = lease.map_err(|shortage| shortage.failure_of(path))?;
        let care = Care { sync: self.sync, read_back: self.read_back };
        let written = whole.write(&directory, &name, content, care);
        written.map_err(|error| FileFailure::storage("cannot write", path, &error))?;
        Ok(parent)
    }

    /// Books a file of one chunk: its directory and hash, or why it failed.
    pub(super) fn settle_whole(
        &self,
        file: u64,
        whole: &WholeFile,
        result: Result<(Arc<Parent>, [u8; 32]), FileFailure>,
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

    pub(super) fn chunk_done(&self, file: u64, durable: u64, all_here: bool) {
        self.count_durable(durable);
        if all_here {
            let sent = self.control.send(&Message::Received { file });
            sent.unwrap_or_else(|error| self.abort(error));
        }
    }

    /// A file on offer failed here: the sender is told, others go on.
    pub(super) fn fail(&self, file: u64, failure: FileFailure) {
        // What is gone has failed already, by another thread or at the other end.
        if let Some(incoming) = self.take(file) {
            self.admission.release(incoming.entry());
            self.fail_taken(file, &incoming.entry().path, failure);
        }
    }

    /// As `fail`, for what is neither on offer nor admitted any more, or never was.
    pub(super) fn fail_taken(&self, file: u64, path: &RelativePath, failure: FileFailure) {
        let FileFailure { code, message } = failure.clone();
        if code == FailureCode::DiskFull {
            let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
            full.get_or_insert(message.clone());
        }
        self.progress.fail(Some(path.as_bytes()), failure);
        let sent = self.control.send(&Message::FileFailed { file, code, message });
        sent.unwrap_or_else(|error| self.abort(error));
    }

    /// A file failed at the other end.
    pub(super) fn note_failure(&self, file: u64, failure: FileFailure) {
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
    pub(super) fn fail_dropped(&self) {
        for (path, failure) in std::mem::take(&mut *self.dropped()).into_values() {
            self.progress.fail(Some(path.as_bytes()), failure);
        }
    }

    pub(super) fn dropped(&self) -> MutexGuard<'_, HashMap<u64, (RelativePath, FileFailure)>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
