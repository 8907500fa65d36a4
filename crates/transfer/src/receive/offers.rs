//! What is answered of the files on offer: what of each is here already, and what is missing.

use std::io;
use std::sync::Arc;

use rustix::fs::Stat;

use super::attributes::Attribute;
use super::directory::Directory;
use super::partial::{Choices, Partial};
use super::place::{Near, Place};
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

/// Where an offered file goes, and what stands there.
struct Looked {
    place: Place,
    there: Option<Stat>,
}

impl Reception {
    pub(super) fn answer(
        &self,
        reader: &ControlReader,
        first: u64,
        files: Vec<FileEntry>,
    ) -> Result<(), TransferError> {
        self.check_numbers(reader, first, files.len())?;
        let (mut answers, mut near) = (Vec::new(), None);
        for (index, entry) in files.into_iter().enumerate() {
            let file = first + index as u64;
            if file & AGAIN != 0 {
                self.dropped().remove(&(file & !AGAIN));
            }
            match self.answer_one(&mut near, file, entry) {
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

    /// What is to be answered of an offer now, if that can be said. A file that is here is
    /// admitted to nothing: what nobody else works on is looked at before.
    fn answer_one(
        &self,
        near: &mut Option<Near>,
        file: u64,
        entry: FileEntry,
    ) -> Option<AnswerState> {
        let is_free = self.admission.is_free(&entry.path);
        let looked = is_free.then(|| self.look(near, &entry.path));
        if let Some(Ok(Looked { place, there: Some(there) })) = &looked
            && self.is_same(place, there, &entry)
        {
            let taken = self.take_same(place, there, &entry);
            return taken.map_err(|failure| self.fail_taken(file, &entry.path, failure)).ok();
        }
        let entry = self.admission.admit(file, entry)?;
        let admitted = entry.clone();
        let looked = looked.unwrap_or_else(|| self.look(near, &admitted.path));
        let accepted = looked.and_then(|looked| self.accept(file, looked, entry));
        self.state_or_fail(file, &admitted, accepted)
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
        let is_known = |end| {
            (!files.is_empty() && (first..end).any(|number| files.contains_key(&number)))
                || self.admission.has_any(first..end)
        };
        if end.is_none_or(is_known) {
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
        let looked = self.look(&mut None, &admitted.path);
        let accepted = looked.and_then(|looked| self.accept(file, looked, entry));
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

    /// What stands where an offered file goes.
    fn look(&self, near: &mut Option<Near>, path: &RelativePath) -> Result<Looked, FileFailure> {
        let place = self.place_near(near, path)?;
        let storage = |what: &'static str| move |error| FileFailure::storage(what, path, &error);
        let Place { directory, name, .. } = &place;
        if directory.fresh {
            return Ok(Looked { place, there: None });
        }
        let there = root::entry_stat(directory.fd(), name);
        let there = there.map_err(storage("cannot look at"))?;
        // Told before all of it is sent, which would be in vain.
        if there.is_some_and(|stat| is_directory(&stat)) {
            return Err(storage("cannot write")(rustix::io::Errno::ISDIR.into()));
        }
        if there.is_some_and(|stat| !is_file(&stat)) {
            stage::check_replaceable(directory.fd(), name).map_err(storage("cannot write"))?;
        }
        Ok(Looked { place, there })
    }

    /// Finds out what is here of an offered file and gets ready for the rest.
    fn accept(
        &self,
        file: u64,
        looked: Looked,
        entry: FileEntry,
    ) -> Result<AnswerState, FileFailure> {
        let Looked { place, there } = looked;
        match there {
            Some(there) if self.checksum && is_alike(&there, &entry) => {
                self.compare_later(file, entry);
                Ok(AnswerState::Alike)
            }
            Some(there) if self.is_same(&place, &there, &entry) => {
                self.take_same(&place, &there, &entry)
            }
            _ => self.expect(file, place, entry),
        }
    }

    /// Whether what is there is the file on offer, where its content need not be compared.
    fn is_same(&self, place: &Place, there: &Stat, entry: &FileEntry) -> bool {
        !self.checksum
            && is_alike(there, entry)
            && has_time(&place.directory, there, entry)
            && (has_mode(there, entry) || is_alone(there))
    }

    /// Takes what is there for the file on offer.
    fn take_same(
        &self,
        place: &Place,
        there: &Stat,
        entry: &FileEntry,
    ) -> Result<AnswerState, FileFailure> {
        if !has_mode(there, entry) {
            let set = root::Handle::open(place.directory.fd(), &place.name).and_then(|handle| {
                // Looked at again: another may have been put there meanwhile.
                if !is_alone(&handle.stat) {
                    return Err(io::Error::other("it has other names by now"));
                }
                let which = (&entry.path, false);
                place.directory.pass(
                    Attribute::Mode(entry.mode),
                    which,
                    handle.set_mode(entry.mode),
                )
            });
            let what = "cannot set the permissions of";
            set.map_err(|error| FileFailure::storage(what, &entry.path, &error))?;
        }
        self.settle_present(place, entry, None)
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
        let found = place.directory.names.place(place.directory.fd(), &place.name, || Ok(()));
        found.map_err(|error| FileFailure::storage("cannot take", &entry.path, &error))?;
        if bytes > CHUNK_SIZE {
            StageNames::remove_stale(place.directory.fd(), &place.name);
        }
        if self.sync {
            root::sync_entry(place.directory.fd(), &place.name)
                .map_err(|error| FileFailure::storage("cannot sync", &entry.path, &error))?;
            self.progress.add_resumed(bytes);
            let parent = Arc::clone(&place.parent);
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

fn is_file(stat: &Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
}

fn is_directory(stat: &Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir()
}

/// Whether it may be the file on offer: a regular one of its size.
pub(super) fn is_alike(stat: &Stat, entry: &FileEntry) -> bool {
    is_file(stat) && stat.st_size as u64 == entry.size_bytes
}

pub(super) fn has_mode(stat: &Stat, entry: &FileEntry) -> bool {
    stat.st_mode & 0o777 == u32::from(entry.mode)
}

/// Whether no other name leads to a file, of which nobody here knows whose it is: what is set of
/// one is set of all.
pub(super) fn is_alone(stat: &Stat) -> bool {
    stat.st_nlink <= 1
}

/// The rest of the quick check that rsync users know: a file of the same size and time is the same.
pub(super) fn has_time(directory: &Directory, stat: &Stat, entry: &FileEntry) -> bool {
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
