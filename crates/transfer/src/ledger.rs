//! What became of everything that an operation was to move: one book, kept alike at both ends.
//!
//! Every path that data takes feeds it, and the summary, the exit code, the events, the log and
//! the Python interface are made from it, so that none of them can say more than happened.

use std::collections::VecDeque;
use std::iter;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{FileFailure, TransferError};

/// Outcomes kept for a reader that is slow to take them; older ones are dropped, not the counts.
const KEPT_MAX: usize = 100_000;
/// Failures kept with their words.
const FAILURES_MAX: usize = 10_000;

/// A file that stands verified under its final name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledFile {
    /// Its path below the destination, as bytes.
    pub path: Vec<u8>,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its BLAKE3 hash; `None` when hashing is off, or when the file was already there and its
    /// content was not compared.
    pub hash: Option<[u8; 32]>,
    /// It was already there with the same size and time or, where that was asked for, content.
    pub already_there: bool,
}

/// Something that was to be moved and was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedFile {
    /// Its path below the destination, where it is known: what could not even be read has none.
    pub path: Option<Vec<u8>>,
    /// Why, in kind and words.
    pub failure: FileFailure,
}

/// Outcomes of one attempt, as counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Files under their final names, those that were there before included.
    pub(crate) done: u64,
    /// Files, links and directories that were to be moved and are not.
    pub(crate) failed: u64,
    /// Kinds of file that are not copied, such as sockets.
    pub(crate) skipped: u64,
}

/// The book of one operation.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Files in place are counted and not kept for somebody to take.
    counts_only: AtomicBool,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    counts: Counts,
    first_failure: Option<FileFailure>,
    settled: VecDeque<SettledFile>,
    failures: VecDeque<FailedFile>,
}

impl Ledger {
    /// Nobody asks for single files that are in place.
    pub(crate) fn count_only(&self) {
        self.counts_only.store(true, Relaxed);
        self.lock().settled = VecDeque::new();
    }

    /// Starts an attempt: everything gets an outcome anew.
    pub(crate) fn restart(&self) {
        let mut entries = self.lock();
        entries.counts = Counts::default();
        entries.first_failure = None;
        entries.failures.clear();
    }

    pub(crate) fn settle(&self, file: SettledFile) {
        self.settle_all(iter::once(file));
    }

    pub(crate) fn settle_all(&self, files: impl Iterator<Item = SettledFile>) {
        let mut entries = self.lock();
        for file in files {
            entries.counts.done += 1;
            if !self.counts_only.load(Relaxed) {
                push_bounded(&mut entries.settled, file, KEPT_MAX);
            }
        }
    }

    pub(crate) fn unsettle(&self) {
        self.lock().counts.done -= 1;
    }

    pub(crate) fn fail(&self, file: FailedFile) {
        let mut entries = self.lock();
        entries.counts.failed += 1;
        entries.first_failure.get_or_insert_with(|| file.failure.clone());
        push_bounded(&mut entries.failures, file, FAILURES_MAX);
    }

    pub(crate) fn skip(&self) {
        self.lock().counts.skipped += 1;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    pub(crate) fn take_settled(&self) -> Vec<SettledFile> {
        self.lock().settled.drain(..).collect()
    }

    pub(crate) fn take_failures(&self) -> Vec<FailedFile> {
        self.lock().failures.drain(..).collect()
    }

    /// Whether everything is in place, once all of it has an outcome.
    pub(crate) fn verdict(&self) -> Result<(), TransferError> {
        let entries = self.lock();
        let Counts { done, failed, .. } = entries.counts;
        match &entries.first_failure {
            None => Ok(()),
            Some(failure) => Err(TransferError::Incomplete {
                failed,
                total: done + failed,
                first: failure.message.clone(),
                code: failure.code,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push_bounded<T>(list: &mut VecDeque<T>, item: T, most: usize) {
    if list.len() >= most {
        list.pop_front();
    }
    list.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FailureCode;

    fn failed(message: &str) -> FailedFile {
        let failure = FileFailure { code: FailureCode::Storage, message: message.to_owned() };
        FailedFile { path: None, failure }
    }

    fn settled() -> SettledFile {
        SettledFile { path: b"f".to_vec(), size_bytes: 1, hash: None, already_there: false }
    }

    #[test]
    fn one_failure_among_many_files_is_the_verdict() {
        let ledger = Ledger::default();
        (0..3).for_each(|_| ledger.settle(settled()));
        ledger.skip();
        assert!(ledger.verdict().is_ok());
        ledger.fail(failed("first"));
        ledger.fail(failed("second"));
        let text = ledger.verdict().unwrap_err().to_string();
        assert_eq!(text, "2 of 5 files failed: first");
        assert_eq!(ledger.counts(), Counts { done: 3, failed: 2, skipped: 1 });
    }

    #[test]
    fn what_nobody_takes_is_counted_all_the_same() {
        let ledger = Ledger::default();
        (0..=FAILURES_MAX).for_each(|_| ledger.fail(failed("x")));
        assert_eq!(ledger.take_failures().len(), FAILURES_MAX);
        assert_eq!(ledger.counts().failed, FAILURES_MAX as u64 + 1);
    }

    #[test]
    fn a_book_of_counts_keeps_no_file() {
        let ledger = Ledger::default();
        ledger.settle(settled());
        ledger.count_only();
        ledger.settle_all((0..50_000).map(|_| settled()));
        assert_eq!(ledger.counts().done, 50_001);
        assert_eq!(ledger.lock().settled.capacity(), 0);
    }

    #[test]
    fn a_new_attempt_is_judged_by_itself() {
        let ledger = Ledger::default();
        ledger.fail(failed("x"));
        ledger.restart();
        ledger.settle(settled());
        assert!(ledger.verdict().is_ok());
    }
}
