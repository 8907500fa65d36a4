//! How a file ends: it settles at the receiver or fails, and is booked once at both ends.

use super::plan::{AHEAD, BATCH};
use super::{Files, Outgoing, Sending, Stage, is_large};
use crate::error::{FileFailure, TransferError};
use crate::ledger::SettledFile;
use crate::wire::{AGAIN, FailureCode, HashKind, Message, Settled, UNNUMBERED};

impl Sending {
    pub(super) fn settle(&self, settled: &[Settled]) {
        for Settled { file, hash } in settled {
            let Some(outgoing) = self.remove(*file) else {
                continue;
            };
            self.progress.settle(SettledFile {
                path: outgoing.entry.path.into_bytes(),
                size_bytes: outgoing.entry.size_bytes,
                hash: (self.hash == HashKind::Blake3).then_some(*hash),
                already_there: false,
            });
        }
    }

    /// All of a file has been handed over; what is kept of it is for the receiver's last word.
    pub(super) fn sent(&self, number: u64) {
        let mut files = self.files();
        let Some(known) = files.known.get_mut(&number) else {
            return;
        };
        let before = std::mem::replace(&mut known.stage, Stage::Sent);
        let large = is_large(&known.entry);
        self.waits_no_more(&mut files, &before, large);
    }

    /// Forgets a file that has its outcome.
    pub(super) fn remove(&self, number: u64) -> Option<Outgoing> {
        let mut files = self.files();
        let outgoing = files.known.remove(&number)?;
        self.waits_no_more(&mut files, &outgoing.stage, is_large(&outgoing.entry));
        Some(*outgoing)
    }

    /// Wakes the planner when it may go on; not for each of ten thousand files.
    pub(super) fn waits_no_more(&self, files: &mut Files, before: &Stage, large: bool) {
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
    pub(super) fn fail(&self, number: u64, failure: FileFailure) {
        let FileFailure { code, message } = failure.clone();
        let sent = self.control.send(&Message::FileFailed { file: number, code, message });
        self.drop_failed(number, failure);
        sent.unwrap_or_else(|error| self.abort(error));
    }

    /// The receiver failed a file.
    pub(super) fn note_failure(
        &self,
        number: u64,
        failure: FileFailure,
    ) -> Result<(), TransferError> {
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
            self.retire(number);
        }
        // A failure that both ends found counts once.
        if let Some(outgoing) = self.remove(number) {
            self.progress.fail(Some(outgoing.entry.path.as_bytes()), failure);
        }
        self.moved.notify_all();
    }
}
