//! Hashes what is not sent from here, and lets files take their names once they are confirmed.

use super::large::LargeFile;
use super::{Outgoing, Sending, Stage, Unhashed};
use crate::error::TransferError;
use crate::wire::{AGAIN, Message};

impl Sending {
    /// The thread that hashes what is not sent, while the rest is on its way.
    pub(super) fn hash_unsent(&self) -> Result<(), TransferError> {
        loop {
            self.wait_until(|files| !files.unhashed.is_empty() || files.may_deal);
            if !self.deal() {
                return Ok(());
            }
            let next = self.files().unhashed.pop_front();
            match next {
                None => {}
                Some(Unhashed::Resumed(large)) => self.confirm(&large)?,
                Some(Unhashed::Alike(number)) => self.compare(number)?,
            }
        }
    }

    /// Hashes what an earlier attempt delivered of a file.
    fn confirm(&self, large: &LargeFile) -> Result<(), TransferError> {
        // Whoever asks for chunks waits for no file to be read to its end.
        match large.hash_resumed(&|| self.deal()) {
            Ok(()) if self.files().over => Ok(()),
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
    pub(super) fn note_received(&self, number: u64) -> Result<(), TransferError> {
        let Some(Outgoing { stage: Stage::Large(large), .. }) = self.outgoing(number) else {
            return Ok(());
        };
        large.set_received();
        self.commit(&large)
    }

    /// A file that has arrived and is confirmed may take its name if it is still what was offered.
    pub(super) fn commit(&self, large: &LargeFile) -> Result<(), TransferError> {
        if !large.begin_commit() {
            return Ok(());
        }
        match large.check_unchanged() {
            Ok(()) => {
                self.retire(large.number);
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
    pub(super) fn offer_again(&self, number: u64, large: &LargeFile) -> Result<(), TransferError> {
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
        self.retire(number);
        self.progress.forget(entry.size_bytes, large.resumed_bytes());
        let text = format!("\"{}\" is sent anew: what was there is of other content", entry.path);
        self.progress.notice(text);
        self.control.send(&Message::Offer { first: again, files: vec![entry] })
    }
}
