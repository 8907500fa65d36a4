//! One data connection at the receiving end: frames in, verified file content out.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use rustix::pipe::{PipeFlags, SpliceFlags};

use super::partial::Partial;
use super::place::Near;
use super::whole::{WholeFile, write_sparse};
use super::zeros::ZeroBudget;
use super::{Incoming, Reception};
use crate::buffer::{PIECE, PageBuffer};
use crate::connection::Connection;
use crate::control;
use crate::error::{FileFailure, TransferError};
use crate::hash::{self, ChunkHasher};
use crate::interrupted::retry_interrupted;
use crate::room::Lease;
use crate::wire::{
    CHUNK_SIZE, FrameHeader, FrameKind, FrameTrailer, HEADER_SIZE, HashKind, TRAILER_SIZE,
    WireError,
};

/// Bytes that pass through a pipe at once where nothing needs to see them; the kernel's default
/// limit for an unprivileged process.
const PIPE_SIZE: usize = 1 << 20;

/// Why a data connection ended early.
#[derive(Debug, thiserror::Error)]
enum IntakeError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// The reading end of one data connection.
struct Intake<'a> {
    connection: &'a mut Connection,
    reception: &'a Reception,
    buffer: PageBuffer,
    /// What has arrived and is not taken yet, of the buffer.
    start: usize,
    end: usize,
    /// The last frame was a small file's, and so the next ones may be: what has arrived of them is
    /// taken with it.
    ahead: bool,
    pipe: Option<(OwnedFd, OwnedFd)>,
    zeros: ZeroBudget,
    /// Where the last small file went.
    near: Option<Near>,
}

impl Reception {
    /// The thread of one data connection.
    pub(super) fn take_in(&self, connection: &mut Connection) {
        let peer = connection.peer();
        let result = Intake::new(connection, self).run();
        self.intakes.fetch_sub(1, Relaxed);
        // Under the lock, or whoever has just looked would sleep through it.
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        self.wake.notify_all();
        drop(over);
        let error = match result {
            Ok(()) => return,
            Err(IntakeError::Io(error)) => {
                // The peer's own word, on its way on the control connection, says more.
                self.await_reason();
                control::broken(&peer, error)
            }
            Err(IntakeError::Wire(source)) => TransferError::Wire { peer, source },
        };
        self.abort(error);
    }
}

impl<'a> Intake<'a> {
    fn new(connection: &'a mut Connection, reception: &'a Reception) -> Self {
        let direct =
            reception.hash == HashKind::None && connection.receiver.bare_socket().is_some();
        Self {
            connection,
            reception,
            buffer: PageBuffer::new(CHUNK_SIZE as usize + TRAILER_SIZE + HEADER_SIZE),
            start: 0,
            end: 0,
            ahead: false,
            // Without pipes, as under a low limit on them, content takes the ordinary way.
            pipe: if direct { open_pipe().ok() } else { None },
            zeros: ZeroBudget::default(),
            near: None,
        }
    }

    /// Receives until the sender says that nothing more follows in this operation.
    fn run(&mut self) -> Result<(), IntakeError> {
        loop {
            let header = self.next_header()?;
            if self.reception.given_up.load(Relaxed) {
                // What has arrived by then may stand for far more work than it has bytes.
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
            }
            match header.kind {
                FrameKind::End if self.start < self.end => {
                    let what = "data after the last frame";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what).into());
                }
                FrameKind::End => return Ok(()),
                FrameKind::Hole => self.hole(&header)?,
                FrameKind::Chunk => {
                    self.zeros.count_sent(header.length.into());
                    self.chunk(&header)?;
                }
            }
            self.reception.answer_waiting();
        }
    }

    /// Has the next `least` bytes in one piece in the buffer, and up to `most` where they have
    /// arrived; what is received without anything before it begins a page.
    fn have(&mut self, least: usize, most: usize) -> io::Result<()> {
        let there = self.end - self.start;
        if there < least {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, there);
            let room = &mut self.buffer[there..most];
            self.end += self.connection.receiver.gather_at_least(room, least - there)?;
        }
        Ok(())
    }

    /// Takes the next `N` bytes, with up to `most` where they have arrived.
    fn take<const N: usize>(&mut self, most: usize) -> io::Result<[u8; N]> {
        self.have(N, most)?;
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.buffer[self.start..self.start + N]);
        self.start += N;
        Ok(bytes)
    }

    fn next_header(&mut self) -> Result<FrameHeader, IntakeError> {
        // The content of a large file is received by itself.
        let most = if self.ahead { PIECE } else { HEADER_SIZE };
        Ok(FrameHeader::decode(&self.take(most)?)?)
    }

    /// The trailer, and as much of the next header as has arrived with it.
    fn trailer(&mut self) -> Result<FrameTrailer, IntakeError> {
        Ok(FrameTrailer::decode(&self.take(TRAILER_SIZE + HEADER_SIZE)?)?)
    }

    fn chunk(&mut self, header: &FrameHeader) -> Result<(), IntakeError> {
        let incoming = self.reception.incoming(header.file);
        self.ahead = matches!(incoming, Some(Incoming::Whole(_)));
        match incoming {
            Some(Incoming::Whole(file)) => self.whole(header, &file),
            Some(Incoming::Partial(file)) => self.part(header, &file),
            // The file failed while this was on its way, or nobody asked for it: it counts for
            // nothing, or whoever sends it would seem to do something.
            Some(Incoming::Candidate(_)) | None => {
                self.discard(header.length as usize)?;
                self.trailer().map(|_| ())
            }
        }
    }

    /// Passes the payload, hot from the socket, to `each` with its place in the chunk.
    fn payload(
        &mut self,
        header: &FrameHeader,
        mut each: impl FnMut(u64, &[u8]),
    ) -> Result<(), IntakeError> {
        let length = header.length as usize;
        let mut position = 0;
        while position < length {
            let count = (length - position).min(PIECE);
            self.have(count, count)?;
            each(position as u64, &self.buffer[self.start..self.start + count]);
            self.start += count;
            position += count;
            self.reception.count_content(count as u64);
        }
        Ok(())
    }

    fn whole(&mut self, header: &FrameHeader, file: &Arc<WholeFile>) -> Result<(), IntakeError> {
        let length = header.length as usize;
        let mut hasher = ChunkHasher::new(0, file.entry.size_bytes);
        let verify = self.reception.hash == HashKind::Blake3;
        let all = length + TRAILER_SIZE;
        self.have(all, PIECE.max(all + HEADER_SIZE))?;
        self.reception.count_content(length as u64);
        let content = self.start..self.start + length;
        self.start = content.end;
        let trailer = self.trailer()?;
        if verify {
            hasher.update(&self.buffer[content.clone()]);
        }
        let Some(Incoming::Whole(file)) = self.reception.take(header.file) else {
            return Ok(());
        };
        let path = &file.entry.path;
        let result = if !trailer.complete || length as u64 != file.entry.size_bytes {
            Err(FileFailure::changed(path))
        } else if verify && hasher.finish() != trailer.hash {
            Err(FileFailure::corrupt(path, 0))
        } else {
            self.reception.write_whole(&mut self.near, &file, &self.buffer[content])
        };
        self.reception.settle_whole(
            header.file,
            &file,
            result.map(|parent| (parent, trailer.hash)),
        );
        Ok(())
    }

    fn part(&mut self, header: &FrameHeader, file: &Arc<Partial>) -> Result<(), IntakeError> {
        if !file.claim(header.offset, header.length.into()) {
            self.payload(header, |_, _| ())?;
            self.trailer()?;
            let what = "data for a chunk that is already here, or no chunk of the file";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what).into());
        }
        // Held until all of it is written.
        let _lease = match make_ready(file, header) {
            Ok(lease) => lease,
            Err(failure) => {
                self.payload(header, |_, _| ())?;
                self.trailer()?;
                file.release(header.offset);
                self.reception.fail(header.file, failure);
                return Ok(());
            }
        };
        let (written, hash) = if self.pipe.is_some() && !file.entry.sparse {
            (self.splice(header, file)?, None)
        } else {
            self.hash_and_write(header, file)?
        };
        let trailer = self.trailer()?;
        let path = &file.entry.path;
        let result = match written {
            Err(error) => Err(FileFailure::storage("cannot write", path, &error)),
            Ok(()) if !trailer.complete => Err(FileFailure::changed(path)),
            Ok(()) if hash.is_some_and(|hash| hash != trailer.hash) => {
                Err(FileFailure::corrupt(path, header.offset))
            }
            Ok(()) => file
                .complete(header.offset, trailer.hash)
                .map_err(|error| FileFailure::storage("cannot journal", path, &error)),
        };
        match result {
            Ok((durable, all_here)) => self.reception.chunk_done(header.file, durable, all_here),
            Err(failure) => {
                file.release(header.offset);
                self.reception.fail(header.file, failure);
            }
        }
        Ok(())
    }

    /// Hashes and writes each piece while it is hot; returns how writing went, and the hash.
    #[allow(clippy::type_complexity)]
    fn hash_and_write(
        &mut self,
        header: &FrameHeader,
        file: &Partial,
    ) -> Result<(io::Result<()>, Option<[u8; 32]>), IntakeError> {
        let verify = self.reception.hash == HashKind::Blake3;
        let mut hasher = ChunkHasher::new(header.offset, file.entry.size_bytes);
        let mut written = Ok(());
        let sparse = file.entry.sparse;
        self.payload(header, |position, piece| {
            if verify {
                hasher.update(piece);
            }
            if written.is_ok() {
                let offset = header.offset + position;
                written = if sparse {
                    write_sparse(&file.file, piece, offset)
                } else {
                    file.file.write_all_at(piece, offset)
                };
            }
        })?;
        Ok((written, verify.then(|| hasher.finish())))
    }

    /// Moves the payload from the socket to the file inside the kernel: one copy fewer.
    fn splice(
        &mut self,
        header: &FrameHeader,
        file: &Partial,
    ) -> Result<io::Result<()>, IntakeError> {
        let mut left = header.length as usize;
        let mut offset = header.offset;
        // What came with a small file is here already.
        let here = self.start..self.end.min(self.start + left);
        if !here.is_empty() {
            left -= here.len();
            self.start = here.end;
            self.reception.count_content(here.len() as u64);
            if let Err(error) = file.file.write_all_at(&self.buffer[here.clone()], offset) {
                self.discard(left)?;
                return Ok(Err(error));
            }
            offset += here.len() as u64;
        }
        let Some((out, into)) = &self.pipe else {
            return Ok(Ok(()));
        };
        while left > 0 {
            let count = self.connection.receiver.gather_into_pipe(into, left)?;
            if count == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            left -= count;
            self.reception.count_content(count as u64);
            if let Err(error) = drain(out, file, &mut offset, count) {
                // The pipe holds the rest of what was taken; a new one starts clean.
                self.pipe = None;
                self.discard(left)?;
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    fn discard(&mut self, mut left: usize) -> Result<(), IntakeError> {
        while left > 0 {
            let count = left.min(PIECE);
            self.have(count, count)?;
            self.start += count;
            left -= count;
        }
        Ok(())
    }

    /// Records chunks that are all zeros, and makes the file read as zeros there.
    fn hole(&mut self, header: &FrameHeader) -> Result<(), IntakeError> {
        let Some(Incoming::Partial(file)) = self.reception.incoming(header.file) else {
            return Ok(());
        };
        let end = header.offset + u64::from(header.length);
        let chunks = || (header.offset..end).step_by(CHUNK_SIZE as usize);
        for offset in chunks() {
            if !file.claim(offset, CHUNK_SIZE.min(end - offset)) {
                let what = "a hole over a chunk that is already here, or no chunk of the file";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what).into());
            }
        }
        let mut filled = super::partial::clear(&file, header.offset, header.length.into());
        for offset in chunks() {
            if self.reception.given_up.load(Relaxed) {
                return Ok(());
            }
            let length = CHUNK_SIZE.min(end - offset);
            let hash = self.hash_hole(&file, offset, length);
            self.reception.count_received(length);
            match filled.and_then(|()| file.complete_hole(offset, hash)) {
                Ok((durable, all_here)) => {
                    self.reception.chunk_done(header.file, durable, all_here);
                }
                Err(error) => {
                    let path = &file.entry.path;
                    let failure = FileFailure::storage("cannot write", path, &error);
                    self.reception.fail(header.file, failure);
                    return Ok(());
                }
            }
            filled = Ok(());
        }
        Ok(())
    }

    fn hash_hole(&mut self, file: &Partial, offset: u64, length: u64) -> [u8; 32] {
        let _turn = self.zeros.before_zeros(length);
        match self.reception.hash {
            HashKind::Blake3 => hash::zeros(offset, length, file.entry.size_bytes),
            HashKind::None => [0; 32],
        }
    }
}

/// Makes room for a claimed chunk.
pub(super) fn make_ready(
    file: &Partial,
    header: &FrameHeader,
) -> Result<Option<Lease>, FileFailure> {
    let (path, length) = (&file.entry.path, u64::from(header.length));
    let lease = file.make_room(header.offset, length);
    let lease = lease.map_err(|shortage| shortage.failure_of(path))?;
    if file.entry.sparse {
        // Zeros are left out, so nothing of an earlier attempt may show through.
        let cleared = super::partial::clear(file, header.offset, length);
        cleared.map_err(|error| FileFailure::storage("cannot write", path, &error))?;
    }
    Ok(lease)
}

fn open_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (out, into) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::pipe::fcntl_setpipe_size(&into, PIPE_SIZE)?;
    Ok((out, into))
}

fn drain(out: &OwnedFd, file: &Partial, offset: &mut u64, mut count: usize) -> io::Result<()> {
    while count > 0 {
        let written = retry_interrupted(|| {
            let target = file.file.as_fd();
            Ok(rustix::pipe::splice(out, None, target, Some(offset), count, SpliceFlags::MOVE)?)
        })?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        count -= written;
    }
    Ok(())
}
