//! How far a transfer is, written by its threads and read by anyone at any time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::error::{FileFailure, TransferError};
use crate::hosts::{HostShare, Hosts};
use crate::ledger::{FailedFile, Ledger, SettledFile};

/// Notices kept.
const NOTICES_MAX: usize = 1_000;

/// Counters of one transfer over all its attempts.
#[derive(Debug, Default)]
pub struct Progress {
    bytes_done: AtomicU64,
    bytes_durable: AtomicU64,
    bytes_total: AtomicU64,
    bytes_resumed: AtomicU64,
    bytes_spare: AtomicU64,
    files_total: AtomicU64,
    total_is_known: AtomicBool,
    ledger: Ledger,
    pub(crate) hosts: Hosts,
    notices: Mutex<Vec<String>>,
}

/// A reading of [`Progress`]; counts are of the current attempt, what was there before included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Bytes handed to, or taken from, the network, and bytes that were already there.
    pub bytes_done: u64,
    /// Bytes that survive a crash of the receiving end.
    pub bytes_durable: u64,
    /// Bytes of all files, as far as known.
    pub bytes_total: u64,
    /// Bytes that were already there.
    pub bytes_resumed: u64,
    /// Those of `bytes_done` that were handed to spare connections.
    pub bytes_spare: u64,
    /// Files under their final names.
    pub files_done: u64,
    /// Files, links and directories that were to be moved and are not.
    pub files_failed: u64,
    /// Kinds of file that are not copied, such as sockets.
    pub files_skipped: u64,
    /// Regular files, as far as known.
    pub files_total: u64,
    /// The sources were read to the end, so the totals are final.
    pub total_is_known: bool,
}

impl Progress {
    /// Files in place are counted from now on and not kept for [`Self::take_settled`], so that
    /// memory does not grow with their number.
    pub fn count_only(&self) {
        self.ledger.count_only();
    }

    /// The counters now.
    pub fn snapshot(&self) -> Snapshot {
        let counts = self.ledger.counts();
        Snapshot {
            bytes_done: self.bytes_done.load(Relaxed),
            bytes_durable: self.bytes_durable.load(Relaxed),
            bytes_total: self.bytes_total.load(Relaxed),
            bytes_resumed: self.bytes_resumed.load(Relaxed),
            bytes_spare: self.bytes_spare.load(Relaxed),
            files_done: counts.done,
            files_failed: counts.failed,
            files_skipped: counts.skipped,
            files_total: self.files_total.load(Relaxed),
            total_is_known: self.total_is_known.load(Relaxed),
        }
    }

    /// What each of several receiving hosts took; nothing where there is one.
    pub fn hosts(&self) -> Vec<HostShare> {
        self.hosts.shares()
    }

    /// A number that changes with whatever is done. What a peer can say without having done
    /// anything changes nothing: that bytes are durable there, that a file failed or was skipped.
    pub(crate) fn activity(&self) -> u64 {
        self.bytes_done.load(Relaxed).wrapping_add(self.ledger.counts().done)
    }

    /// Starts an attempt: the peer will say anew what it has.
    pub(crate) fn restart(&self) {
        for counter in [
            &self.bytes_done,
            &self.bytes_durable,
            &self.bytes_total,
            &self.bytes_resumed,
            &self.bytes_spare,
            &self.files_total,
        ] {
            counter.store(0, Relaxed);
        }
        self.total_is_known.store(false, Relaxed);
        self.ledger.restart();
    }

    pub(crate) fn add_done(&self, bytes: u64) {
        self.bytes_done.fetch_add(bytes, Relaxed);
    }

    /// Bytes that `add_done` counts too went by a spare connection.
    pub(crate) fn add_spare(&self, bytes: u64) {
        self.bytes_spare.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn add_resumed(&self, bytes: u64) {
        self.bytes_done.fetch_add(bytes, Relaxed);
        self.bytes_resumed.fetch_add(bytes, Relaxed);
    }

    /// Takes back what `add_done` counted of a chunk that is to be sent again.
    pub(crate) fn take_back(&self, bytes: u64) {
        self.bytes_done.fetch_sub(bytes, Relaxed);
    }

    /// Takes back what was counted of a file that is to be sent anew.
    pub(crate) fn forget(&self, bytes: u64, resumed: u64) {
        self.bytes_done.fetch_sub(bytes, Relaxed);
        self.bytes_resumed.fetch_sub(resumed, Relaxed);
    }

    pub(crate) fn set_durable(&self, bytes: u64) {
        self.bytes_durable.store(bytes, Relaxed);
    }

    pub(crate) fn set_totals(&self, files: u64, bytes: u64, complete: bool) {
        self.files_total.store(files, Relaxed);
        self.bytes_total.store(bytes, Relaxed);
        self.total_is_known.store(complete, Relaxed);
    }

    /// A file stands under its final name.
    pub(crate) fn settle(&self, file: SettledFile) {
        self.ledger.settle(file);
    }

    /// Files stand under their final names.
    pub(crate) fn settle_all(&self, files: impl Iterator<Item = SettledFile>) {
        self.ledger.settle_all(files);
    }

    /// A file that stood under its final name does not any more.
    pub(crate) fn unsettle(&self) {
        self.ledger.unsettle();
    }

    /// Something that was to be moved is not; `path` is where it should have gone, where known.
    pub(crate) fn fail(&self, path: Option<&[u8]>, failure: FileFailure) {
        self.notice(failure.message.clone());
        self.ledger.fail(FailedFile { path: path.map(<[u8]>::to_vec), failure });
    }

    /// Something is of a kind that is not copied, said in `text`.
    pub(crate) fn skip(&self, text: String) {
        self.notice(text);
        self.ledger.skip();
    }

    /// An error if anything that was to be moved is not in place.
    pub(crate) fn verdict(&self) -> Result<(), TransferError> {
        self.ledger.verdict()
    }

    /// The files settled since the last call.
    pub fn take_settled(&self) -> Vec<SettledFile> {
        self.ledger.take_settled()
    }

    /// What failed since the last call, in this attempt.
    pub fn take_failures(&self) -> Vec<FailedFile> {
        self.ledger.take_failures()
    }

    pub(crate) fn notice(&self, text: String) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() < NOTICES_MAX {
            notices.push(text);
        }
    }

    /// What was left out or went on after a retry, in words, since the last call.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
