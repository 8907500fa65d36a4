//! The end of an operation: what comes after the files, and the last word.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::report::TICK;
use super::{Done, Reception, stage};
use crate::connection::Connection;
use crate::error::{FileFailure, TransferError};
use crate::socket;
use crate::wire::{DirectoryEntry, FailureCode, LinkEntry, Message, RelativePath, UNNUMBERED};

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

    /// After the last byte: attributes of directories, then the last word.
    pub(super) fn conclude(&self, directories: &[DirectoryEntry]) -> Result<(), TransferError> {
        let mut known: HashMap<(u64, u64), &RelativePath> = HashMap::new();
        for entry in directories {
            let made = self.target(&entry.path).and_then(|target| {
                let storage =
                    |error| FileFailure::storage("cannot make the directory", &entry.path, &error);
                let directory = self.directories.get(&target).map_err(storage)?;
                // A link within the root may lead back to it; its attributes are its owner's.
                if self.root.is(directory.fd()).map_err(storage)? {
                    return Ok(());
                }
                let other = known.insert(directory.identity(), &entry.path);
                if let Some(other) = other.filter(|other| **other != entry.path) {
                    return Err(FileFailure::merged(&entry.path, other));
                }
                self.directories
                    .conclude(&target, entry.mode, entry.modified_ns)
                    .and_then(|()| if self.sync { directory.sync() } else { Ok(()) })
                    .map_err(storage)
            });
            if let Err(failure) = made {
                self.fail_taken(UNNUMBERED, &entry.path, failure);
            }
        }
        self.directories.close_up();
        self.fail_undelivered();
        self.fail_dropped();
        self.make_base();
        self.report()?;
        self.control.send(&Message::Finished)
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
