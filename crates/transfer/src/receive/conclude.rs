//! The end of an operation: what comes after the files, and the last word.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::report::TICK;
use super::{Done, Reception, stage};
use crate::connection::Connection;
use crate::error::{FileFailure, TransferError};
use crate::scratch::scratch;
use crate::socket;
use crate::spool::{self, Place, Sorter, Spool};
use crate::wire::{DirectoryEntry, FailureCode, LinkEntry, Message, RelativePath, UNNUMBERED};

/// A directory as a record.
pub(super) fn packed(entry: &DirectoryEntry) -> Vec<u8> {
    let head = (entry.mode.to_be_bytes(), entry.modified_ns.to_be_bytes());
    [&head.0[..], &head.1, entry.path.as_bytes()].concat()
}

fn unpacked(record: &[u8]) -> io::Result<DirectoryEntry> {
    let read = || {
        let (mode, rest) = record.split_first_chunk()?;
        let (modified_ns, path) = rest.split_first_chunk()?;
        let (mode, modified_ns) = (u16::from_be_bytes(*mode), i128::from_be_bytes(*modified_ns));
        Some(DirectoryEntry { path: RelativePath::new(path).ok()?, modified_ns, mode })
    };
    read().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The names of directories, which are needed at the end, could not be kept until then.
pub(super) fn not_kept(source: io::Error) -> TransferError {
    TransferError::Storage { path: "the list of directories".to_owned(), source }
}

/// Between the sender's last message and its last byte so much must arrive in each such span.
const DELIVERY_WAIT: Duration = Duration::from_secs(60);
const DELIVERY_LEAST: u64 = 4096;

impl Reception {
    /// Waits until every data connection has delivered its last frame. The peer has said that it
    /// sent everything, so bytes keep arriving; where none do, it never will.
    pub(super) fn await_delivery(&self, sockets: &[Arc<TcpStream>]) {
        let arrived =
            || -> u64 { sockets.iter().filter_map(|one| socket::bytes_received(one).ok()).sum() };
        let (mut last, mut since) = (arrived(), Instant::now());
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let going = || self.intakes.load(Relaxed) > 0 && !self.given_up.load(Relaxed);
        while going() && since.elapsed() < DELIVERY_WAIT {
            let waited = self.wake.wait_timeout(over, TICK);
            (over, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let now = arrived();
            if now - last >= DELIVERY_LEAST {
                (last, since) = (now, Instant::now());
            }
        }
        drop(over);
        if self.intakes.load(Relaxed) > 0 {
            self.abort(TransferError::Silent { peer: self.control.peer().to_owned() });
            sockets.iter().for_each(|socket| Connection::shut_down(socket));
        }
    }

    /// After the last byte: attributes of directories.
    pub(super) fn conclude(&self, directories: &Spool<'_>) -> Result<(), TransferError> {
        let mut known = Sorter::new(self.beside_the_files());
        for record in directories.records() {
            let (at, record) = record.map_err(not_kept)?;
            let entry = unpacked(&record).map_err(not_kept)?;
            match self.conclude_one(&entry) {
                Ok(None) => {}
                Ok(Some((device, inode))) => {
                    let record = [device, inode, at].map(u64::to_be_bytes);
                    known.push(record.as_flattened()).map_err(not_kept)?;
                }
                Err(failure) => self.fail_taken(UNNUMBERED, &entry.path, failure),
            }
        }
        self.directories.close_up();
        self.fail_merged(directories, known).map_err(not_kept)
    }

    /// The last word.
    pub(super) fn end(&self) -> Result<(), TransferError> {
        self.fail_undelivered();
        self.fail_dropped();
        self.make_base();
        self.report()?;
        self.control.send(&Message::Finished)
    }

    /// Gives a directory its attributes; returns what tells it from all others, unless those are
    /// its owner's business.
    fn conclude_one(&self, entry: &DirectoryEntry) -> Result<Option<(u64, u64)>, FileFailure> {
        let target = self.target(&entry.path)?;
        let storage =
            |error| FileFailure::storage("cannot make the directory", &entry.path, &error);
        let directory = self.directories.get(&target).map_err(storage)?;
        // What was made or filled here before may have been removed, or moved, since.
        if !self.directories.has(&directory.at(target.clone())) {
            return Err(FileFailure::moved(&entry.path));
        }
        // A link within the root may lead back to it.
        if self.root.is(directory.fd()).map_err(storage)? {
            return Ok(None);
        }
        self.directories
            .conclude(&target, entry.mode, entry.modified_ns)
            .and_then(|()| if self.sync { directory.sync() } else { Ok(()) })
            .map_err(|error| {
                let what = "cannot set time and permissions of the directory";
                FileFailure::storage(what, &entry.path, &error)
            })?;
        Ok(Some(directory.identity()))
    }

    /// Fails what came to a directory that another one of the operation had come to before.
    fn fail_merged(&self, directories: &Spool<'_>, known: Sorter<'_>) -> io::Result<()> {
        let path = |at: &[u8]| {
            let at = u64::from_be_bytes(at.try_into().expect("three numbers are written"));
            unpacked(&directories.read(at)?).map(|entry| entry.path)
        };
        let mut before = Vec::new();
        for record in known.sorted()? {
            let record = record?;
            let (identity, at) = record.split_at(2 * size_of::<u64>());
            match before.strip_prefix(identity) {
                // What is told twice is no other.
                Some(other) if path(at)? != path(other)? => {
                    let path_here = path(at)?;
                    let failure = FileFailure::merged(&path_here, &path(other)?);
                    self.fail_taken(UNNUMBERED, &path_here, failure);
                }
                Some(_) => {}
                None => before = record,
            }
        }
        Ok(())
    }

    /// Room for names that are too many for the memory: where the files go, so that what is kept
    /// free there, and what may be held, bounds it; else where temporary files are.
    pub(super) fn beside_the_files(&self) -> Place<'_> {
        Box::new(|| {
            let above = self.base.split_last().filter(|_| self.exact);
            let path = above.map_or_else(|| self.base.clone(), |(above, _)| above);
            let made = self
                .directories
                .get(&path)
                .and_then(|directory| Ok((scratch(directory.fd())?, self.room(&directory))));
            made.or_else(|_| spool::temporary())
        })
    }

    pub(super) fn make_link(&self, link: &LinkEntry) {
        let allowed = self.bounds.check_link(&link.path, &link.target);
        let made = allowed.and_then(|()| self.place(&link.path)).and_then(|place| {
            let storage = |error| FileFailure::storage("cannot make the link", &link.path, &error);
            let (directory, name) = (place.directory.fd(), &place.name[..]);
            let make = || stage::place_link(directory, name, &link.target);
            place.directory.names.place(directory, name, make).map_err(storage)?;
            if !self.directories.has(&place.parent) {
                return Err(FileFailure::moved(&place.parent.path));
            }
            if self.sync {
                self.settled().push(Done { settled: None, parent: place.parent, bytes: 0 });
            }
            Ok(())
        });
        if let Err(failure) = made {
            self.fail_taken(UNNUMBERED, &link.path, failure);
        }
    }

    /// The content of a directory has a place to go to, also where there is none.
    fn make_base(&self) {
        // What failed before has told why, once for each file.
        if !self.into_directory || self.progress.snapshot().files_failed > 0 {
            return;
        }
        if let Err(error) = self.directories.get(&self.base) {
            let failure = FileFailure::storage("cannot make the directory", &self.base, &error);
            self.fail_taken(UNNUMBERED, &self.base, failure);
        }
    }

    /// What is still on offer after the last byte was never sent.
    fn fail_undelivered(&self) {
        let left: Vec<(u64, String)> = self
            .files()
            .iter()
            .map(|(number, file)| (*number, file.entry().path.to_string()))
            .collect();
        let unsent = |path: &dyn std::fmt::Display| FileFailure {
            code: FailureCode::Protocol,
            message: format!("\"{path}\" was offered and not sent"),
        };
        for (number, path) in left {
            self.fail(number, unsent(&path));
        }
        for (number, entry) in self.admission.withdraw_all() {
            self.fail_taken(number, &entry.path, unsent(&entry.path));
        }
    }
}
