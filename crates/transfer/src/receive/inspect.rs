//! Whole files that are read at the receiving end, while everything else goes on: what stands under
//! a final name, to be compared with the file on offer, and what was written, to be read back.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use rustix::fs::{Mode, OFlags};

use super::attributes::Attribute;
use super::offers::{has_mode, has_time, is_alike, is_alone};
use super::partial::{Partial, Reading};
use super::place::Place;
use super::{Incoming, Reception};
use crate::error::FileFailure;
use crate::file_version::FileVersion;
use crate::root::{self, Handle};
use crate::wire::{Answer, AnswerState, FileEntry, WrittenChunk};

/// Work for the thread that reads whole files.
pub(super) enum Job {
    /// Hash what has the name of this file.
    Compare(u64, Arc<Candidate>),
    /// Read a file back and give it its name.
    Commit { file: u64, partial: Arc<Partial>, hash: Option<[u8; 32]> },
    /// Look for what other receivers say they have written.
    Written { file: u64, partial: Arc<Partial>, chunks: Vec<WrittenChunk> },
}

/// A file on offer that may be here already, by its content.
pub(super) struct Candidate {
    pub(super) entry: FileEntry,
    known: Mutex<Known>,
}

#[derive(Clone, Default)]
struct Known {
    /// The hash that the sender told.
    theirs: Option<[u8; 32]>,
    /// What has the name here, once that was read; nothing if it could not be, or changed.
    ours: Option<Option<Present>>,
}

/// A file that stands under a final name.
#[derive(Clone, Copy)]
struct Present {
    hash: [u8; 32],
    version: FileVersion,
}

impl Reception {
    /// The jobs of the thread that reads whole files, if one is needed.
    pub(super) fn take_jobs(&self) -> Option<mpsc::Receiver<Job>> {
        if !self.checksum && !self.read_back && !self.lends {
            return None;
        }
        let (sender, jobs) = mpsc::channel();
        *self.jobs.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        Some(jobs)
    }

    /// Nothing more follows.
    pub(super) fn end_jobs(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(super) fn give(&self, job: Job) {
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            // The thread is gone when the operation has failed.
            let _ = jobs.send(job);
        }
    }

    /// The thread that reads whole files.
    pub(super) fn inspect_all(&self, jobs: mpsc::Receiver<Job>) {
        for job in jobs {
            if !self.is_going() {
                return;
            }
            match job {
                Job::Compare(file, candidate) => self.look_at(file, &candidate),
                Job::Commit { file, partial, hash } => {
                    let committed = partial.commit(hash, &Reading::Back(&|| self.is_going()));
                    self.conclude_commit(file, &partial, committed);
                }
                Job::Written { file, partial, chunks } => {
                    self.look_for(file, &partial, &chunks);
                    self.unsighted.fetch_sub(chunks.len(), Relaxed);
                }
            }
            self.answer_waiting();
        }
    }

    fn is_going(&self) -> bool {
        !self.given_up.load(Relaxed)
    }

    /// Has what stands under a file's name hashed.
    pub(super) fn compare_later(&self, file: u64, entry: FileEntry) {
        let candidate = Arc::new(Candidate { entry, known: Mutex::default() });
        self.files().insert(file, Incoming::Candidate(Arc::clone(&candidate)));
        self.give(Job::Compare(file, candidate));
    }

    fn look_at(&self, file: u64, candidate: &Arc<Candidate>) {
        // What cannot be read here is not the same: it is sent.
        let ours = self.hash_present(&candidate.entry).unwrap_or(None);
        self.learn(file, candidate, |known| known.ours = Some(ours));
    }

    /// The sender has told a file's hash.
    pub(super) fn note_content(&self, file: u64, hash: [u8; 32]) {
        if let Some(Incoming::Candidate(candidate)) = self.incoming(file) {
            self.learn(file, &candidate, |known| known.theirs = Some(hash));
        }
    }

    /// Compares once both hashes are known, in the thread that brings the second.
    fn learn(&self, file: u64, candidate: &Arc<Candidate>, note: impl FnOnce(&mut Known)) {
        let mut known = candidate.known.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut known);
        let Known { theirs: Some(theirs), ours: Some(ours) } = *known else {
            return;
        };
        drop(known);
        if !self.take_candidate(file, candidate) {
            return;
        }
        let same = ours.filter(|ours| ours.hash == theirs);
        let accepted = self.accept_compared(file, &candidate.entry, same);
        if let Some(state) = self.state_or_fail(file, &candidate.entry, accepted) {
            let sent = self.send_answers(vec![Answer { file, state }]);
            sent.unwrap_or_else(|error| self.abort(error));
        }
    }

    /// Whether this candidate was still on offer; it is not any more.
    fn take_candidate(&self, file: u64, candidate: &Arc<Candidate>) -> bool {
        let mut files = self.files();
        let is_it =
            |one: &Incoming| matches!(one, Incoming::Candidate(it) if Arc::ptr_eq(it, candidate));
        let on_offer = files.get(&file).is_some_and(is_it);
        if on_offer {
            files.remove(&file);
        }
        on_offer
    }

    /// Takes what is here for the file if it is the same, or gets ready for its content.
    fn accept_compared(
        &self,
        file: u64,
        entry: &FileEntry,
        same: Option<Present>,
    ) -> Result<AnswerState, FileFailure> {
        let place = self.place(&entry.path)?;
        match same {
            Some(present) if adopt(&place, entry, present)? => {
                self.settle_present(&place, entry, Some(present.hash))
            }
            _ => self.expect(file, place, entry.clone()),
        }
    }

    /// The hash of what stands under a file's name, if it is of its size and stays as it is.
    fn hash_present(&self, entry: &FileEntry) -> io::Result<Option<Present>> {
        let place = self.place(&entry.path).map_err(|failure| io::Error::other(failure.message))?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(place.directory.fd(), &place.name, flags, Mode::empty())?;
        let file = File::from(fd);
        let before = rustix::fs::fstat(&file)?;
        if !is_alike(&before, entry) {
            return Ok(None);
        }
        let hash = root::hash_of(&file, entry.size_bytes, &|| self.is_going())?;
        let version = FileVersion::of(&rustix::fs::fstat(&file)?);
        let unchanged = version == FileVersion::of(&before);
        Ok(hash.filter(|_| unchanged).map(|hash| Present { hash, version }))
    }
}

/// Gives a file of the right content the attributes of the one on offer; false if it is not what
/// was read any more.
fn adopt(place: &Place, entry: &FileEntry, present: Present) -> Result<bool, FileFailure> {
    let path = &entry.path;
    let storage =
        |what: &'static str| move |error: io::Error| FileFailure::storage(what, path, &error);
    let Ok(handle) = Handle::open(place.directory.fd(), &place.name) else {
        return Ok(false);
    };
    if FileVersion::of(&handle.stat) != present.version {
        return Ok(false);
    }
    let is_timely = has_time(&place.directory, &handle.stat, entry);
    let is_set = is_timely && has_mode(&handle.stat, entry);
    if !is_set && !is_alone(&handle.stat) {
        return Ok(false);
    }
    let pass = |attribute, set| place.directory.pass(attribute, (path, false), set);
    pass(Attribute::Mode(entry.mode), handle.set_mode(entry.mode))
        .map_err(storage("cannot set the permissions of"))?;
    if !is_timely {
        pass(Attribute::Time(entry.modified_ns), handle.set_modified(entry.modified_ns))
            .map_err(storage("cannot set the time of"))?;
    }
    Ok(true)
}
