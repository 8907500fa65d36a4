//! What the receiver has of each file, and so what is to be sent.

use std::collections::hash_map::Entry;
use std::fs::File;
use std::sync::Arc;

use super::large::{Confirm, LargeFile};
use super::{Outgoing, Sending, Stage, Unhashed, is_large};
use crate::control::ControlReader;
use crate::error::{FileFailure, TransferError};
use crate::ledger::SettledFile;
use crate::wire::{Answer, AnswerState, CHUNK_SIZE, ChunkRun, FileEntry, HashKind, VERSION};

impl Sending {
    pub(super) fn take_answers(
        &self,
        reader: &ControlReader,
        answers: Vec<Answer>,
    ) -> Result<(), TransferError> {
        let mut whole = Vec::new();
        self.skip_present(&answers);
        for Answer { file, state } in answers {
            if state == AnswerState::Present {
                continue;
            }
            let Some(outgoing) = self.outgoing(file) else {
                continue;
            };
            // What is being sent was answered before: a file is opened and counted once.
            if !matches!(outgoing.stage, Stage::Waiting | Stage::Alike(_)) {
                continue;
            }
            match state {
                AnswerState::Present => {}
                AnswerState::Alike => self.compare_later(file),
                AnswerState::Missing(_) if !is_large(&outgoing.entry) => whole.push(file),
                AnswerState::Missing(runs) => {
                    check_runs(&outgoing.entry, &runs)
                        .ok_or_else(|| reader.unexpected("a request for chunks past the end"))?;
                    self.start_large(file, &outgoing, &runs);
                    if runs.is_empty() {
                        // An attempt before this one delivered all of it and got no further; that
                        // it was received was said before the answer, when nothing could be done.
                        self.note_received(file)?;
                    }
                }
            }
        }
        self.queue.push_whole(whole);
        Ok(())
    }

    /// Books what the receiver has already, which may be all of a large tree: at one go.
    fn skip_present(&self, answers: &[Answer]) {
        let mut files = self.files();
        let mut skipped = Vec::new();
        for Answer { file, state } in answers {
            if *state == AnswerState::Present
                && let Entry::Occupied(known) = files.known.entry(*file)
                && matches!(known.get().stage, Stage::Waiting | Stage::Alike(_))
            {
                let outgoing = known.remove();
                self.waits_no_more(&mut files, &outgoing.stage, is_large(&outgoing.entry));
                skipped.push(outgoing);
            }
        }
        drop(files);
        self.progress.add_resumed(skipped.iter().map(|one| one.entry.size_bytes).sum());
        self.progress.settle_all(skipped.into_iter().map(|one| SettledFile {
            path: one.entry.path.into_bytes(),
            size_bytes: one.entry.size_bytes,
            hash: if let Stage::Alike(hash) = one.stage { hash } else { None },
            already_there: true,
        }));
    }

    fn start_large(&self, number: u64, outgoing: &Outgoing, runs: &[ChunkRun]) {
        let shown = outgoing.root.show(&outgoing.path);
        let opened = outgoing.root.file(&outgoing.path, outgoing.links);
        let file = match opened {
            Ok(fd) => File::from(fd),
            Err(error) => {
                return self.fail(number, FileFailure::storage("cannot read", &shown, &error));
            }
        };
        let (entry, version) = (outgoing.entry.clone(), outgoing.version);
        let confirm = match self.hash {
            HashKind::Blake3 => Confirm::Resumed,
            HashKind::None if self.control.version() > VERSION => Confirm::All,
            HashKind::None => Confirm::Nothing,
        };
        let large = Arc::new(LargeFile::new(number, entry, file, version, shown, runs, confirm));
        self.progress.add_resumed(large.resumed_bytes());
        if let Err(failure) = large.check_unchanged() {
            return self.fail(number, failure);
        }
        let mut files = self.files();
        if let Some(known) = files.known.get_mut(&number) {
            known.stage = Stage::Large(Arc::clone(&large));
        }
        if large.is_unconfirmed() {
            files.unhashed.push_back(Unhashed::Resumed(Arc::clone(&large)));
            self.moved.notify_all();
        }
        drop(files);
        self.queue.push_large(large);
        self.may_deal();
    }
}

/// Nothing unless the runs are in order, apart, and within the file.
fn check_runs(entry: &FileEntry, runs: &[ChunkRun]) -> Option<()> {
    let chunks = entry.size_bytes.div_ceil(CHUNK_SIZE);
    let mut next = 0;
    for run in runs {
        let end = run.first.checked_add(run.count)?;
        if run.count == 0 || run.first < next || end > chunks {
            return None;
        }
        next = end;
    }
    Some(())
}
