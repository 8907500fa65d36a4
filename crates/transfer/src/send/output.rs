//! One data connection at the sending end: work in, frames out.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use weir_units::Rate;

use super::helper::{Ahead, Helper};
use super::lane::LOOK;
use super::large::{LargeFile, Span};
use super::queue::Work;
use super::{Outgoing, Sending, Stage};
use crate::buffer::{PIECE, PageBuffer};
use crate::connection::Connection;
use crate::control::REASON_WAIT;
use crate::error::FileFailure;
use crate::file_version::FileVersion;
use crate::hash::{self, ChunkHasher};
use crate::root::read_full;
use crate::wire::{CHUNK_SIZE, FrameHeader, FrameKind, FrameTrailer, HashKind};

/// Small files are packed together until this many bytes are worth a call.
const PACK: usize = 1 << 18;

/// The writing end of one data connection.
pub(super) struct Output<'a> {
    connection: &'a mut Connection,
    sending: &'a Sending,
    /// Its number among the connections.
    index: usize,
    /// The same, if it is a spare one.
    lane: Option<usize>,
    /// The other receiver that it goes to, if it does not go to the first one.
    helper: Option<&'a Helper>,
    piece: PageBuffer,
    packed: Packed,
}

/// Frames of small files that wait to leave together, in memory that is not cleared for each.
#[derive(Default)]
struct Packed {
    bytes: Vec<u8>,
    filled: usize,
    /// How much of it is content.
    content: u64,
}

impl Packed {
    /// The next so many bytes, which are there to be filled.
    fn next(&mut self, length: usize) -> &mut [u8] {
        let start = self.filled;
        self.filled += length;
        if self.bytes.len() < self.filled {
            self.bytes.resize(self.filled, 0);
        }
        &mut self.bytes[start..self.filled]
    }

    fn put(&mut self, bytes: &[u8]) {
        self.next(bytes.len()).copy_from_slice(bytes);
    }
}

impl Sending {
    /// The thread of one data connection, which may be a spare one.
    pub(super) fn put_out(&self, connection: &mut Connection, index: usize, renewal: u64) {
        let peer = connection.peer();
        if let Err(error) = Output::new(connection, self, index).run(renewal) {
            // The peer's own word, on its way on the control connection, says more.
            let files = self.files();
            let waited = self.moved.wait_timeout_while(files, REASON_WAIT, |files| !files.over);
            drop(waited);
            self.abort(self.broken(index, &peer, error));
        }
        self.files().outputs -= 1;
        self.moved.notify_all();
    }
}

impl<'a> Output<'a> {
    pub(super) fn new(connection: &'a mut Connection, sending: &'a Sending, index: usize) -> Self {
        let lane = sending.lanes.has(index).then_some(index);
        let (piece, packed) = (PageBuffer::new(PIECE), Packed::default());
        Self { connection, sending, index, lane, helper: None, piece, packed }
    }

    /// Sends until there is no more work in this operation, or others are to send in its place.
    fn run(&mut self, renewal: u64) -> io::Result<()> {
        loop {
            let Some(work) = self.next_or_leave(renewal)? else {
                return self.connection.sender.send(&FrameHeader::END.encode());
            };
            self.sending.pace.wait_while_paused();
            match work {
                Work::Whole(file) => self.whole(file)?,
                Work::Span(file, span) => self.span(&file, span)?,
            }
        }
    }

    /// As `run`, to another receiver than the first one.
    pub(super) fn run_for(&mut self, helper: &'a Helper) -> io::Result<()> {
        self.helper = Some(helper);
        let (pace, socket) = (&self.sending.pace, Arc::clone(&self.connection.socket));
        // It has its part of the rate only while it has something to send.
        let mut is_paced = false;
        loop {
            match self.sending.next_for(helper) {
                Ahead::Over => break,
                Ahead::Nothing => {
                    if std::mem::take(&mut is_paced) {
                        pace.let_go(&socket);
                    }
                    self.sending.queue.wait(LOOK);
                }
                Ahead::Chunk(file, offset, length) => {
                    if !std::mem::replace(&mut is_paced, true) {
                        pace.take_on(&socket);
                    }
                    pace.wait_while_paused();
                    self.chunk(&file, offset, length)?;
                }
            }
        }
        self.connection.sender.send(&FrameHeader::END.encode())
    }

    /// The next work; `None` at the end, and where this connection is one too many.
    fn next_or_leave(&mut self, renewal: u64) -> io::Result<Option<Work>> {
        if self.sending.crew.lets_go(renewal) {
            self.flush()?;
            self.sending.pace.let_go(&self.connection.socket);
            return Ok(None);
        }
        if let Some(work) = self.try_next() {
            return Ok(Some(work));
        }
        // Nothing to wait for company with: what is packed leaves now.
        self.flush()?;
        Ok(self.next())
    }

    /// The next work, if there is some that this connection may take now.
    fn try_next(&self) -> Option<Work> {
        let may_take = match self.lane {
            Some(lane) => self.sending.is_open(lane),
            None if self.sending.has_routes() => self.sending.is_worth(self.index),
            // Beside spare connections, which go on, a paused one takes nothing that it would hold.
            None => self.sending.lanes.is_empty() || self.sending.promised_rate() != Rate::ZERO,
        };
        let work = if may_take { self.sending.queue.try_next() } else { None };
        if let (Some(lane), Some(_)) = (self.lane, &work) {
            self.sending.begin_on(lane);
        }
        work
    }

    /// The next work; blocks until there is some, `None` at the end.
    fn next(&self) -> Option<Work> {
        if self.sending.lanes.is_empty() && !self.sending.has_routes() {
            return self.sending.queue.next();
        }
        if let Some(lane) = self.lane {
            self.sending.end_on(lane);
        }
        loop {
            if let Some(work) = self.try_next() {
                return Some(work);
            }
            if self.sending.queue.is_over() {
                return None;
            }
            self.sending.queue.wait(LOOK);
        }
    }

    /// Counts content that the kernel has taken.
    fn count(&self, bytes: u64) {
        if self.helper.is_some() {
            return; // Counted with its chunk, which may have to be taken back.
        }
        self.sending.progress.add_done(bytes);
        self.sending.progress.hosts.add(0, bytes);
        if self.lane.is_some() {
            self.sending.progress.add_spare(bytes);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.packed.filled > 0 {
            self.connection.sender.send(&self.packed.bytes[..self.packed.filled])?;
            self.packed.filled = 0;
            let content = std::mem::take(&mut self.packed.content);
            self.count(content);
        }
        Ok(())
    }

    /// Packs a file of a single chunk: nothing of it leaves before all of it was read unchanged.
    fn whole(&mut self, number: u64) -> io::Result<()> {
        let Some(outgoing) = self.sending.outgoing(number) else {
            return Ok(());
        };
        if matches!(outgoing.stage, Stage::Sent) {
            return Ok(());
        }
        let start = self.packed.filled;
        match self.pack(number, &outgoing) {
            Ok(()) => {
                self.packed.content += outgoing.entry.size_bytes;
                self.sending.sent(number);
            }
            Err(failure) => {
                self.packed.filled = start;
                self.sending.fail(number, failure);
            }
        }
        if self.packed.filled >= PACK { self.flush() } else { Ok(()) }
    }

    fn pack(&mut self, number: u64, outgoing: &Outgoing) -> Result<(), FileFailure> {
        let shown = || outgoing.root.show(&outgoing.path);
        let read_error = |error| FileFailure::storage("cannot read", &shown(), &error);
        let file = outgoing.root.file(&outgoing.path, outgoing.links).map_err(read_error)?;
        let file = File::from(file);
        let size = outgoing.entry.size_bytes;
        let length = size as u32;
        let header = FrameHeader { kind: FrameKind::Chunk, file: number, offset: 0, length };
        self.packed.put(&header.encode());
        let content = self.packed.next(size as usize);
        let read = read_full(&file, content, 0).map_err(read_error)?;
        let stat = rustix::fs::fstat(&file).map_err(|error| read_error(error.into()))?;
        if read < size as usize || FileVersion::of(&stat) != outgoing.version {
            return Err(FileFailure::changed(&shown()));
        }
        // Files of the kernel's, and of some servers, have content and no size.
        if size == 0 && read_full(&file, &mut [0], 0).map_err(read_error)? > 0 {
            return Err(FileFailure::unsized_content(&shown()));
        }
        let hash = match self.sending.hash {
            HashKind::Blake3 => {
                let mut hasher = ChunkHasher::new(0, size);
                hasher.update(content);
                hasher.finish()
            }
            HashKind::None => [0; 32],
        };
        self.packed.put(&FrameTrailer { complete: true, hash }.encode());
        Ok(())
    }

    fn span(&mut self, file: &Arc<LargeFile>, span: Span) -> io::Result<()> {
        self.flush()?;
        match span {
            Span::Zeros { offset, length } => self.zeros(file, offset, length),
            Span::Data { offset, length } => self.chunk(file, offset, length as usize),
        }
    }

    fn zeros(&mut self, file: &LargeFile, offset: u64, length: u64) -> io::Result<()> {
        let size = file.entry.size_bytes;
        if self.sending.hash == HashKind::Blake3 {
            for start in (offset..offset + length).step_by(CHUNK_SIZE as usize) {
                let length = CHUNK_SIZE.min(size - start);
                file.know(start, hash::zeros(start, length, size));
            }
        }
        let (kind, length) = (FrameKind::Hole, length as u32);
        let header = FrameHeader { kind, file: file.number, offset, length };
        self.connection.sender.send(&header.encode())?;
        self.sending.progress.add_done(length.into());
        Ok(())
    }

    fn chunk(&mut self, file: &Arc<LargeFile>, offset: u64, length: usize) -> io::Result<()> {
        let kind = FrameKind::Chunk;
        let header = FrameHeader { kind, file: file.number, offset, length: length as u32 };
        self.connection.sender.send_more(&header.encode())?;
        let hash = if self.sending.hash == HashKind::None && self.connection.sender.is_bare() {
            self.send_inside_kernel(file, offset, length)?
        } else {
            self.send_hashed(file, offset, length)?
        };
        let trailer = match hash {
            Ok(hash) => {
                file.know(offset, hash);
                // Noted before the trailer leaves, after which it may be written at any time.
                if let Some(helper) = self.helper {
                    self.sending.progress.add_done(length as u64);
                    self.sending.progress.hosts.add(helper.place(), length as u64);
                    if !helper.note(file.number, offset, hash) {
                        self.sending.progress.take_back(length as u64);
                    }
                }
                FrameTrailer { complete: true, hash }
            }
            Err(failure) => {
                if file.set_failed() {
                    self.sending.fail(file.number, failure);
                }
                FrameTrailer { complete: false, hash: [0; 32] }
            }
        };
        self.connection.sender.send(&trailer.encode())
    }

    /// Sends the payload without seeing it. A file that shrank is filled up with zeros to keep
    /// the frame whole; the trailer then says to drop it.
    fn send_inside_kernel(
        &mut self,
        file: &LargeFile,
        offset: u64,
        length: usize,
    ) -> io::Result<Result<[u8; 32], FileFailure>> {
        let mut sent = 0;
        while sent < length {
            self.sending.pace.wait_while_paused();
            let want = (length - sent).min(PIECE);
            let place = offset + sent as u64;
            let failure = match self.connection.sender.send_file(file.file.as_fd(), place, want) {
                Ok(0) => FileFailure::changed(&file.shown()),
                Ok(count) => {
                    sent += count;
                    self.count(count as u64);
                    continue;
                }
                // The kernel does not say which end failed: read and sent apart they tell, and some
                // file systems can do no more.
                Err(_) => match read_full(&file.file, &mut self.piece[..want], place) {
                    Ok(count) if count == want => {
                        self.connection.sender.send_more(&self.piece[..want])?;
                        sent += want;
                        self.count(want as u64);
                        continue;
                    }
                    Ok(_) => FileFailure::changed(&file.shown()),
                    Err(error) => FileFailure::storage("cannot read", &file.shown(), &error),
                },
            };
            self.fill_up(length - sent)?;
            return Ok(Err(failure));
        }
        Ok(Ok([0; 32]))
    }

    fn send_hashed(
        &mut self,
        file: &LargeFile,
        offset: u64,
        length: usize,
    ) -> io::Result<Result<[u8; 32], FileFailure>> {
        let mut hasher = ChunkHasher::new(offset, file.entry.size_bytes);
        let verify = self.sending.hash == HashKind::Blake3;
        let mut sent = 0;
        while sent < length {
            self.sending.pace.wait_while_paused();
            let piece = &mut self.piece[..(length - sent).min(PIECE)];
            let failure = match read_full(&file.file, piece, offset + sent as u64) {
                Ok(count) if count == piece.len() => None,
                Ok(_) => Some(FileFailure::changed(&file.shown())),
                Err(error) => Some(FileFailure::storage("cannot read", &file.shown(), &error)),
            };
            if let Some(failure) = failure {
                self.fill_up(length - sent)?;
                return Ok(Err(failure));
            }
            if verify {
                hasher.update(piece);
            }
            let count = piece.len();
            self.connection.sender.send_more(piece)?;
            sent += count;
            self.count(count as u64);
        }
        Ok(Ok(if verify { hasher.finish() } else { [0; 32] }))
    }

    fn fill_up(&mut self, mut left: usize) -> io::Result<()> {
        self.piece.fill(0);
        while left > 0 {
            let count = left.min(PIECE);
            self.connection.sender.send_more(&self.piece[..count])?;
            left -= count;
        }
        Ok(())
    }
}
