//! A receiver beside another one: it writes chunks to files that the other has in progress on a
//! file system that both share, and nothing else.
//!
//! It makes no file and no directory, follows no link, and opens only what has the name of a file
//! in progress of what the sender may store here, with a lease beside it that fits what the sender
//! shows ([`super::lease`]). A chunk is verified before any of it is written, each at most once,
//! and the lease is looked at before each.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::SeekFrom;

use super::chunk::{Chunk, invalid};
use super::lease::{Claim, Look};
use super::report::TICK;
use super::stage::{self, StageNames, is_stage_name};
use super::whole::write_sparse;
use super::{Destination, expect_past_pings};
use crate::buffer::PageBuffer;
use crate::connection::Connection;
use crate::control::{self, ControlReader, ControlWriter, HEARTBEAT, REASON_WAIT};
use crate::error::{FileFailure, TransferError};
use crate::hash::ChunkHasher;
use crate::progress::Progress;
use crate::room::Room;
use crate::threads;
use crate::wire::{CHUNK_SIZE, FailureCode, FrameHeader, FrameTrailer, Message, RelativePath};

/// Files open at once.
const FILES_MAX: usize = 64;
/// Chunks in one message.
const CHUNKS_MAX: usize = 4096;
/// Between the sender's last message and its last byte.
const DELIVERY_WAIT: Duration = Duration::from_secs(60);

/// A file in progress that is another receiver's.
#[derive(Debug)]
struct Borrowed {
    path: RelativePath,
    directory: OwnedFd,
    names: StageNames,
    file: File,
    /// Zeros are to stay holes.
    sparse: bool,
    claim: Claim,
    room: Room,
    /// Chunks that were written here, or are being.
    begun: Mutex<HashSet<u64>>,
}

/// What all threads share.
struct Assistance<'a> {
    control: ControlWriter,
    destination: &'a Destination,
    sync: bool,
    progress: Arc<Progress>,
    files: Mutex<HashMap<u64, Arc<Borrowed>>>,
    /// Written and not told yet.
    written: Mutex<Vec<(u64, Arc<Borrowed>, u64)>>,
    /// Data connections that have not delivered their last frame.
    intakes: AtomicUsize,
    failure: Mutex<Option<TransferError>>,
    given_up: AtomicBool,
    over: Mutex<bool>,
    wake: Condvar,
}

/// Writes what the sender has for the files of another receiver; returns the data connections for
/// the next operation. With `sync`, what is told to be written is on the disk.
pub(crate) fn assist(
    reader: &mut ControlReader,
    control: &ControlWriter,
    mut data: Vec<Connection>,
    destination: &Destination,
    sync: bool,
    progress: &Arc<Progress>,
) -> Result<Vec<Connection>, TransferError> {
    let assistance = Assistance {
        control: control.clone(),
        destination,
        sync,
        progress: Arc::clone(progress),
        files: Mutex::default(),
        written: Mutex::default(),
        intakes: AtomicUsize::new(data.len()),
        failure: Mutex::new(None),
        given_up: AtomicBool::new(false),
        over: Mutex::new(false),
        wake: Condvar::new(),
    };
    let assistance = &assistance;
    let sockets: Vec<Arc<TcpStream>> = data.iter().map(|one| Arc::clone(&one.socket)).collect();
    thread::scope(|scope| {
        let ticker = threads::begin_in(scope, || assistance.tick());
        let ticker = ticker.map_err(|error| assistance.abort(error)).ok();
        let begun = data.iter_mut().filter_map(|one| {
            let intake = threads::begin_in(scope, || assistance.take_in(one));
            intake.map_err(|error| assistance.abort(error)).ok()
        });
        let intakes: Vec<_> = begun.collect();
        match assistance.follow(reader) {
            Ok(()) => assistance.await_delivery(),
            Err(error) => assistance.abort(error),
        }
        if assistance.given_up.load(Relaxed) {
            sockets.iter().for_each(|socket| Connection::shut_down(socket));
        }
        for intake in intakes {
            intake.join().expect("intake threads do not panic");
        }
        *assistance.over() = true;
        assistance.wake.notify_all();
        if let Some(ticker) = ticker {
            ticker.join().expect("the ticker does not panic");
        }
    });
    let failure = assistance.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    failure.map_or(Ok(()), Err)?;
    assistance.report()?;
    control.send(&Message::Finished)?;
    Ok(data)
}

impl Assistance<'_> {
    fn over(&self) -> MutexGuard<'_, bool> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u64, Arc<Borrowed>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles control messages until the sender has nothing more.
    fn follow(&self, reader: &mut ControlReader) -> Result<(), TransferError> {
        loop {
            match expect_past_pings(reader)? {
                Message::Lease { file, helper, path, size_bytes, sparse, exact, lease } => {
                    let claim = Claim { helper, lease, inode: 0, size: size_bytes };
                    let borrowed = self.borrow(&path, (exact, sparse), claim);
                    self.open(file, borrowed)?;
                }
                Message::TakeBack { file, .. } => {
                    self.files().remove(&file);
                }
                Message::Finish => return Ok(()),
                _ => return Err(reader.unexpected("nothing that another receiver does")),
            }
        }
    }

    fn open(
        &self,
        file: u64,
        borrowed: Result<Borrowed, FileFailure>,
    ) -> Result<(), TransferError> {
        let answer = match borrowed {
            Ok(_) if self.files().len() >= FILES_MAX => Message::FileFailed {
                file,
                code: FailureCode::Busy,
                message: "too many files are lent here at once".to_owned(),
            },
            Ok(borrowed) => {
                self.files().insert(file, Arc::new(borrowed));
                Message::Opened { file }
            }
            Err(FileFailure { code, message }) => Message::FileFailed { file, code, message },
        };
        self.control.send(&answer)
    }

    /// Opens the file in progress that a lease is for.
    fn borrow(
        &self,
        path: &RelativePath,
        (exact, sparse): (bool, bool),
        claim: Claim,
    ) -> Result<Borrowed, FileFailure> {
        let Destination { root, path: base, bounds, rooms, held, .. } = self.destination;
        let refused = |message: String| FileFailure { code: FailureCode::BadRequest, message };
        bounds.check(path)?;
        let target = if exact { Ok(base.clone()) } else { base.join(path) };
        let target = target.map_err(|error| refused(error.to_string()))?;
        let is_stage =
            |path: &RelativePath| path.as_bytes().split(|b| *b == b'/').any(is_stage_name);
        let Some((parent, name)) = target.split_last().filter(|_| !is_stage(&target)) else {
            return Err(refused(format!("\"{target}\" is no name that a file may have")));
        };
        let none = |error: io::Error| FileFailure::storage("nobody has lent here", path, &error);
        // No link leads from the root to anywhere.
        let top = root.below(&RelativePath::default()).map_err(none)?;
        let directory = top.directory(&parent).map_err(none)?;
        let names = StageNames::of(name);
        let file = stage::open_existing(directory.as_fd(), &names.part).map_err(none)?;
        let inode = rustix::fs::fstat(&file).map_err(|error| none(error.into()))?.st_ino;
        let claim = Claim { inode, ..claim };
        claim.look(directory.as_fd(), &names.lease).map_err(none)?;
        let space = rooms.space(directory.as_fd()).map_err(none)?;
        let room = Room { space, held: held.clone() };
        let (path, begun) = (path.clone(), Mutex::default());
        Ok(Borrowed { path, directory, names, file, sparse, claim, room, begun })
    }

    /// The thread of one data connection.
    fn take_in(&self, connection: &mut Connection) {
        let peer = connection.peer();
        let result = self.take_frames(connection);
        self.intakes.fetch_sub(1, Relaxed);
        drop(self.over());
        self.wake.notify_all();
        if let Err(error) = result {
            self.await_reason();
            self.abort(control::broken(&peer, error));
        }
    }

    /// Receives until the sender says that nothing more follows.
    fn take_frames(&self, connection: &mut Connection) -> io::Result<()> {
        let mut buffer = PageBuffer::new(CHUNK_SIZE as usize);
        while let Some(Chunk { header, payload, trailer }) =
            Chunk::receive(connection, &mut buffer)?
        {
            // A file that was taken back, or failed, while this was on its way: it counts for
            // nothing, or whoever sends it would seem to do something.
            let Some(file) = self.files().get(&header.file).cloned() else { continue };
            self.progress.add_done(header.length.into());
            self.take_chunk(&header, &trailer, payload, &file)?;
        }
        Ok(())
    }

    /// Verifies a chunk and writes it. What is no chunk of the file, or came before, is an error
    /// of the sender that ends the session; all else is the file's.
    fn take_chunk(
        &self,
        header: &FrameHeader,
        trailer: &FrameTrailer,
        payload: &[u8],
        file: &Arc<Borrowed>,
    ) -> io::Result<()> {
        let (chunk, size) = (header.offset / CHUNK_SIZE, file.claim.size);
        let is_one =
            header.offset < size && payload.len() as u64 == CHUNK_SIZE.min(size - header.offset);
        let mut begun = file.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_one || !begun.insert(chunk) {
            return Err(invalid("data for a chunk that came before, or no chunk of the file"));
        }
        drop(begun);
        if !trailer.complete {
            return Ok(()); // The sender says on its other connections that the file has failed.
        }
        match write(header.offset, trailer, payload, file) {
            Ok(()) => {
                let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
                written.push((header.file, Arc::clone(file), chunk));
            }
            Err(FileFailure { code, message }) => {
                self.files().remove(&header.file);
                let failed = Message::FileFailed { file: header.file, code, message };
                self.control.send(&failed).unwrap_or_else(|error| self.abort(error));
            }
        }
        Ok(())
    }

    /// The thread that reports, which is also the sign of life.
    fn tick(&self) {
        let mut said = Instant::now();
        loop {
            let waited = self.wake.wait_timeout_while(self.over(), TICK, |over| !*over);
            let (over, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if *over {
                return;
            }
            drop(over);
            let told = match self.report() {
                Ok(false) if said.elapsed() >= HEARTBEAT => self.control.send(&Message::Ping),
                Ok(false) => continue,
                told => told.map(|_| ()),
            };
            said = Instant::now();
            if let Err(error) = told {
                return self.abort(error);
            }
        }
    }

    /// Tells what was written, after it was brought to the disk if it is to be; says whether there
    /// was anything.
    fn report(&self) -> Result<bool, TransferError> {
        let written =
            std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner));
        let mut files: HashMap<u64, (Arc<Borrowed>, Vec<u64>)> = HashMap::new();
        for (number, file, chunk) in written {
            files.entry(number).or_insert_with(|| (file, Vec::new())).1.push(chunk);
        }
        for (number, (file, chunks)) in &files {
            if self.sync {
                file.file.sync_data().map_err(|source| TransferError::Storage {
                    path: file.path.to_string(),
                    source,
                })?;
            }
            for chunks in chunks.chunks(CHUNKS_MAX) {
                self.control.send(&Message::Stored { file: *number, chunks: chunks.to_vec() })?;
            }
        }
        Ok(!files.is_empty())
    }

    /// Waits until every data connection has delivered its last frame.
    fn await_delivery(&self) {
        let going = |_: &mut bool| self.intakes.load(Relaxed) > 0 && !self.given_up.load(Relaxed);
        let waited = self.wake.wait_timeout_while(self.over(), DELIVERY_WAIT, going);
        drop(waited);
        if self.intakes.load(Relaxed) > 0 {
            self.abort(TransferError::Silent { peer: self.control.peer().to_owned() });
        }
    }

    /// Ends it: the first error is kept, the control connection is cut.
    fn abort(&self, error: TransferError) {
        let (code, message) = (error.code(), error.to_string());
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let first = failure.is_none();
        failure.get_or_insert(error);
        self.given_up.store(true, Relaxed);
        drop(failure);
        drop(self.over());
        self.wake.notify_all();
        if first {
            // The peer learns the reason where it still listens.
            let _ = self.control.send(&Message::Failure { code, message });
        }
        self.control.shut_down();
    }

    /// Waits a moment for another thread to learn why it ends.
    fn await_reason(&self) {
        let going = |_: &mut bool| !self.given_up.load(Relaxed);
        drop(self.wake.wait_timeout_while(self.over(), REASON_WAIT, going));
    }
}

/// Writes a chunk that is what the sender has, while the lease holds.
fn write(
    offset: u64,
    trailer: &FrameTrailer,
    payload: &[u8],
    file: &Borrowed,
) -> Result<(), FileFailure> {
    let path = &file.path;
    let mut hasher = ChunkHasher::new(offset, file.claim.size);
    hasher.update(payload);
    if hasher.finish() != trailer.hash {
        return Err(FileFailure::corrupt(path, offset));
    }
    let room = file.room.take(&file.file, payload.len() as u64);
    let _lease = room.map_err(|shortage| shortage.failure_of(path))?;
    let look = file.claim.look(file.directory.as_fd(), &file.names.lease);
    let written = look.and_then(|look| write_by(look, offset, payload, file));
    written.map_err(|error| FileFailure::storage("cannot write", path, &error))
}

/// Writes a chunk unless the look at the lease was too long ago.
fn write_by(look: Look, offset: u64, payload: &[u8], file: &Borrowed) -> io::Result<()> {
    // Nothing is punched out here: whoever comes late is to write nothing but content.
    let sparse = file.sparse && is_hole(&file.file, offset, payload.len() as u64);
    look.check()?;
    if sparse {
        write_sparse(&file.file, payload, offset)
    } else {
        file.file.write_all_at(payload, offset)
    }
}

/// Whether all of a span is known to read as zeros; what an earlier attempt left may be there.
fn is_hole(file: &File, offset: u64, length: u64) -> bool {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(data) => data >= offset + length,
        Err(error) => error == rustix::io::Errno::NXIO,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::receive::lease::{self, Leases};
    use crate::room::Rooms;
    use crate::root;

    const CONTENT: &[u8] = b"all of it";

    /// A file that was lent, here and where it was lent from.
    fn lent() -> (tempfile::TempDir, Borrowed, Leases) {
        let place = tempfile::tempdir().unwrap();
        let directory = OwnedFd::from(File::open(place.path()).unwrap());
        let names = StageNames::of(b"f");
        let file = stage::open_own(directory.as_fd(), &names.part).unwrap();
        let size = CONTENT.len() as u64;
        let mut leases = Leases::make(directory.as_fd(), &names.lease, &file, size).unwrap();
        let lease = leases.lend(0).unwrap();
        let inode = file.metadata().unwrap().ino();
        let claim = Claim { helper: 0, lease, inode, size };
        let space = Rooms::new(Some(0)).space(directory.as_fd()).unwrap();
        let (room, path) = (Room { space, held: None }, RelativePath::new(b"f").unwrap());
        let (sparse, begun) = (false, Mutex::default());
        (place, Borrowed { path, directory, names, file, sparse, claim, room, begun }, leases)
    }

    fn written(file: &Borrowed) -> Vec<u8> {
        let mut content = vec![0; CONTENT.len()];
        let read = root::read_full(&file.file, &mut content, 0).unwrap();
        content.truncate(read);
        content
    }

    #[test]
    fn nothing_is_written_unless_the_lease_holds_at_that_moment() {
        let (_place, file, mut leases) = lent();
        let hash = *blake3::hash(CONTENT).as_bytes();
        let trailer = FrameTrailer { complete: true, hash };
        leases.take_back(0).unwrap();
        assert!(write(0, &trailer, CONTENT, &file).is_err());
        leases.lend(0).unwrap();
        lease::remove(file.directory.as_fd(), &file.names.lease).unwrap();
        assert!(write(0, &trailer, CONTENT, &file).is_err());
        assert!(written(&file).is_empty());

        let (_place, file, _leases) = lent();
        assert!(write(0, &FrameTrailer { hash: [7; 32], ..trailer }, CONTENT, &file).is_err());
        assert!(written(&file).is_empty());
        write(0, &trailer, CONTENT, &file).unwrap();
        assert_eq!(written(&file), CONTENT);
    }

    #[test]
    fn nothing_is_written_by_a_look_that_was_long_ago() {
        let (_place, file, _leases) = lent();
        assert!(write_by(Look::of_long_ago(), 0, CONTENT, &file).is_err());
        assert!(written(&file).is_empty());
        let look = file.claim.look(file.directory.as_fd(), &file.names.lease).unwrap();
        write_by(look, 0, CONTENT, &file).unwrap();
        assert_eq!(written(&file), CONTENT);
    }
}
