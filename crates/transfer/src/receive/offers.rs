//! What is answered of the files on offer: what of each is here already, and what is missing.

use std::sync::Arc;

use super::directory::Directory;
use super::partial::{Choices, Partial};
use super::place::Place;
use super::stage::StageNames;
use super::whole::WholeFile;
use super::{Done, Incoming, Reception, stage};
use crate::control::ControlReader;
use crate::error::{FileFailure, TransferError};
use crate::ledger::SettledFile;
use crate::root;
use crate::wire::{
    AGAIN, Answer, AnswerState, CHUNK_SIZE, ChunkRun, FailureCode, FileEntry, Message,
    RelativePath, UNNUMBERED, VERSION,
};

/// Files a sender may have offered and not yet delivered.
const OFFERED_MAX: usize = 1 << 14;
/// Largest file: its chunk table is 33 bytes per MiB.
const FILE_SIZE_MAX: u64 = 1 << 44;
/// File systems keep times to 2 s at worst.
const ROUNDED_MAX_NS: u128 = 2_000_000_000;

impl Reception {
    pub(super) fn answer(
        &self,
        reader: &ControlReader,
        first: u64,
        files: Vec<FileEntry>,
    ) -> Result<(), TransferError> {
        self.check_numbers(reader, first, files.len())?;
        let mut answers = Vec::new();
        for (index, entry) in files.into_iter().enumerate() {
            let file = first + index as u64;
            if file & AGAIN != 0 {
                self.dropped().remove(&(file & !AGAIN));
            }
            let Some(entry) = self.admission.admit(file, entry) else {
                continue;
            };
            match self.accept_or_fail(file, entry) {
                Some(AnswerState::Missing(runs)) if runs.len() > 1 => {
                    let state = AnswerState::Missing(runs);
                    self.control.send(&Message::Answers(vec![Answer { file, state }]))?;
                }
                Some(state) => answers.push(Answer { file, state }),
                None => {}
            }
        }
        self.send_answers(answers)
    }

    pub(super) fn send_answers(&self, answers: Vec<Answer>) -> Result<(), TransferError> {
        // A file of which nothing is missing any more waits only for its name: the crash came
        // between its last chunk and its commit.
        let complete: Vec<u64> = answers
            .iter()
            .filter(|answer| answer.state == AnswerState::Missing(Vec::new()))
            .map(|answer| answer.file)
            .collect();
        if !answers.is_empty() {
            self.control.send(&Message::Answers(answers))?;
        }
        complete.into_iter().try_for_each(|file| self.control.send(&Message::Received { file }))
    }

    /// Each file on offer has a number of its own, which is how its outcome is told.
    fn check_numbers(
        &self,
        reader: &ControlReader,
        first: u64,
        count: usize,
    ) -> Result<(), TransferError> {
        let files = self.files();
        if files.len() + self.admission.waiting() + count > OFFERED_MAX {
            return Err(reader.unexpected("too many files on offer at once"));
        }
        let end = first.checked_add(count as u64).filter(|end| *end < UNNUMBERED);
        if end.is_none_or(|end| {
            (first..end).any(|number| files.contains_key(&number) || self.admission.has(number))
        }) {
            return Err(reader.unexpected("two files on offer with one number"));
        }
        Ok(())
    }

    /// Answers what had to wait for others, as far as it has its turn now.
    pub(super) fn answer_waiting(&self) {
        while let Some((file, entry)) = self.admission.next() {
            if let Some(state) = self.accept_or_fail(file, entry) {
                let sent = self.send_answers(vec![Answer { file, state }]);
                sent.unwrap_or_else(|error| self.abort(error));
            }
        }
    }

    fn accept_or_fail(&self, file: u64, entry: FileEntry) -> Option<AnswerState> {
        let admitted = entry.clone();
        let accepted = self.accept(file, &admitted.path, entry);
        self.state_or_fail(file, &admitted, accepted)
    }

    /// What is to be answered of a file that was admitted, unless it has failed.
    pub(super) fn state_or_fail(
        &self,
        file: u64,
        admitted: &FileEntry,
        accepted: Result<AnswerState, FileFailure>,
    ) -> Option<AnswerState> {
        match accepted {
            Ok(state) => {
                if state == AnswerState::Present {
                    self.admission.release(admitted);
                }
                Some(state)
            }
            Err(failure) => {
                self.admission.release(admitted);
                self.fail_taken(file, &admitted.path, failure);
                None
            }
        }
    }

    /// Finds out what is here of an offered file and gets ready for the rest.
    fn accept(
        &self,
        file: u64,
        path: &RelativePath,
        entry: FileEntry,
    ) -> Result<AnswerState, FileFailure> {
        let place = self.place(path)?;
        let Place { directory, name, .. } = &place;
        let storage = |what: &'static str| move |error| FileFailure::storage(what, path, &error);
        if !directory.fresh {
            let there = root::entry_stat(directory.fd(), name);
            let there = there.map_err(storage("cannot look at"))?;
            if there.is_some_and(|stat| !is_file(&stat)) {
                stage::check_replaceable(directory.fd(), name).map_err(storage("cannot write"))?;
            }
            if let Some(there) = there.filter(|stat| is_alike(stat, &entry)) {
                if self.checksum {
                    self.compare_later(file, entry);
                    return Ok(AnswerState::Alike);
                }
                if has_time(directory, &there, &entry) {
                    if there.st_mode & 0o777 != u32::from(entry.mode) {
                        let set = root::Handle::open(directory.fd(), name)
                            .and_then(|handle| handle.set_mode(entry.mode));
                        set.map_err(storage("cannot set the permissions of"))?;
                    }
                    return self.settle_present(&place, &entry, None);
                }
            }
        }
        self.expect(file, place, entry)
    }

    /// Books a file that is under its name already. With `sync` it counts once it is on the disk,
    /// where whoever wrote it need not have brought it.
    pub(super) fn settle_present(
        &self,
        place: &Place,
        entry: &FileEntry,
        hash: Option<[u8; 32]>,
    ) -> Result<AnswerState, FileFailure> {
        let bytes = entry.size_bytes;
        if bytes > CHUNK_SIZE {
            StageNames::remove_stale(place.directory.fd(), &place.name);
        }
        if self.sync {
            root::sync_entry(place.directory.fd(), &place.name)
                .map_err(|error| FileFailure::storage("cannot sync", &entry.path, &error))?;
            self.progress.add_resumed(bytes);
            let parent = place.parent.clone();
            self.settled().push(Done { settled: None, parent, bytes });
        } else {
            self.count_resumed(bytes);
        }
        self.progress.settle(SettledFile {
            path: entry.path.as_bytes().to_vec(),
            size_bytes: bytes,
            hash,
            already_there: true,
        });
        Ok(AnswerState::Present)
    }

    /// Gets ready for what is missing of a file.
    pub(super) fn expect(
        &self,
        file: u64,
        place: Place,
        entry: FileEntry,
    ) -> Result<AnswerState, FileFailure> {
        let Place { parent, directory, name } = place;
        if entry.size_bytes <= CHUNK_SIZE {
            self.files().insert(file, Incoming::Whole(Arc::new(WholeFile { entry })));
            return Ok(AnswerState::Missing(vec![ChunkRun { first: 0, count: 1 }]));
        }
        if entry.size_bytes > FILE_SIZE_MAX {
            let message = format!("\"{}\" is larger than 16 TiB", entry.path);
            return Err(FileFailure { code: FailureCode::BadRequest, message });
        }
        let resume = self.control.version() > VERSION;
        let choices = Choices { hash: self.hash, sync: self.sync, resume };
        let promised = self.partials().iter().map(|one| one.missing_bytes()).sum();
        let room = (self.room(&directory), promised);
        let (partial, missing) = Partial::open(parent, directory, &name, entry, choices, room)?;
        self.count_resumed(partial.resumed_bytes());
        self.files().insert(file, Incoming::Partial(Arc::new(partial)));
        Ok(AnswerState::Missing(missing))
    }
}

fn is_file(stat: &rustix::fs::Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
}

/// Whether it may be the file on offer: a regular one of its size.
pub(super) fn is_alike(stat: &rustix::fs::Stat, entry: &FileEntry) -> bool {
    is_file(stat) && stat.st_size as u64 == entry.size_bytes
}

/// The rest of the quick check that rsync users know: a file of the same size and time is the same.
pub(super) fn has_time(directory: &Directory, stat: &rustix::fs::Stat, entry: &FileEntry) -> bool {
    let there = root::modified_ns(stat);
    if is_end(entry.modified_ns) {
        return false;
    }
    let near = there.abs_diff(entry.modified_ns) <= ROUNDED_MAX_NS;
    there == entry.modified_ns || (near && directory.keeps(entry.modified_ns) == Some(there))
}

/// A peer of version 1 says this of every time beyond what 64 bits of nanoseconds hold, so that it
/// tells nothing.
fn is_end(modified_ns: i128) -> bool {
    modified_ns == i128::from(i64::MAX) || modified_ns == i128::from(i64::MIN)
}
