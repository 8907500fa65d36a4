//! Other senders that have the same files as the first one, and send chunks of the large ones.
//!
//! The first sender has all files on offer, reads all of each, and has the outcome. On behalf of
//! another one, a *helper*, it is asked for chunks, and tells their hashes instead of sending them;
//! the helper is told to send those. A chunk from a helper is taken only if it has the hash that
//! the first sender told. What a helper owes when it is lost goes back to the first sender. Nothing
//! that happens to a helper ends the operation.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use super::chunk::{Chunk, invalid};
use super::helper::Helper;
use super::intake::make_ready;
use super::partial::Partial;
use super::report::TICK;
use super::whole::write_sparse;
use super::{Incoming, Reception};
use crate::buffer::PageBuffer;
use crate::connection::Connection;
use crate::control::{self, ControlReader};
use crate::error::{FileFailure, TransferError};
use crate::hash::ChunkHasher;
use crate::helper::{HelperSession, Opening};
use crate::hosts::Others;
use crate::pace::Pace;
use crate::threads;
use crate::wire::{CHUNK_SIZE, ChunkRun, FrameHeader, FrameTrailer, MESSAGE_LIMIT, Message};

/// How long helpers may take to end after all is in place.
const PARTING: Duration = Duration::from_secs(5);

/// The other senders of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) others: &'a Others<'a>,
    /// Which all of them keep together.
    pub(crate) pace: &'a Arc<Pace>,
}

impl Reception {
    /// Begins a thread for each of the other senders.
    pub(super) fn draw_from_all<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        sources: Sources<'scope>,
    ) {
        for (number, helper) in self.helpers.iter().enumerate() {
            let opening = (sources.others.open)(number);
            self.drawing.fetch_add(1, Relaxed);
            self.begin(scope, move || self.draw_from(scope, helper, &opening, sources));
        }
    }

    /// The thread of one of the other senders.
    fn draw_from<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        helper: &'scope Helper,
        opening: &Opening,
        sources: Sources<'scope>,
    ) {
        match helper.reached(opening, TICK, || true) {
            None => {}
            Some(Err(error)) => self.lose(helper, &error.to_string()),
            Some(Ok(reached)) => self.work_with(scope, helper, reached, sources),
        }
        if let Some(control) = helper.control() {
            sources.pace.forget(&control);
        }
        self.drawing.fetch_sub(1, Relaxed);
        // Under the lock, or whoever has just looked would sleep through it.
        drop(self.over.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_all();
    }

    fn work_with<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        helper: &'scope Helper,
        reached: HelperSession,
        sources: Sources<'scope>,
    ) {
        let HelperSession { mut reader, control, data } = reached;
        if !helper.begin(&control, &data) {
            return;
        }
        self.progress.hosts.find(helper.place());
        sources.pace.tell_too(control);
        for mut connection in data {
            let take = move || self.take_from(helper, &mut connection, sources);
            if let Err(error) = threads::begin_in(scope, take) {
                return self.lose(helper, &error.to_string());
            }
        }
        self.ask_for(helper);
        match self.follow_helper(helper, &mut reader, sources) {
            // Chunks may have been dealt to it since.
            Ok(None) => self.give_back(helper.end().unwrap_or_default()),
            Ok(Some(why)) => self.lose(helper, &why),
            Err(error) => self.lose(helper, &error.to_string()),
        }
    }

    /// Handles what a helper says until it has done all, or says why it cannot help.
    fn follow_helper(
        &self,
        helper: &Helper,
        reader: &mut ControlReader,
        sources: Sources<'_>,
    ) -> Result<Option<String>, TransferError> {
        loop {
            match reader.expect(MESSAGE_LIMIT)? {
                Message::FileFailed { message, .. } => return Ok(Some(message)),
                Message::Finished if helper.owes_nothing() => return Ok(None),
                Message::Finished => {
                    let what = "it ends before it has sent all that it was asked for";
                    return Err(reader.unexpected(what));
                }
                Message::Ping => {
                    if helper.is_stuck(sources.others.silence, sources.pace.rate()) {
                        let why = format!("{} sends nothing of what it was asked for", helper.name);
                        return Ok(Some(why));
                    }
                }
                _ => return Err(reader.unexpected("nothing that another sender says")),
            }
        }
    }

    /// Asks the first sender for chunks that a helper can send, if it is to have more.
    fn ask_for(&self, helper: &Helper) {
        if let Some(chunks) = helper.next_ask() {
            // Whoever reads from it finds out.
            let _ = self.control.send(&Message::Ask { helper: helper.number, chunks });
        }
    }

    /// The first sender leaves chunks to a helper.
    pub(super) fn take_dealt(
        &self,
        reader: &ControlReader,
        (file, helper): (u64, u8),
        first: u64,
        hashes: &[[u8; 32]],
    ) -> Result<(), TransferError> {
        let helper = self.helpers.get(usize::from(helper));
        let Some(helper) = helper.filter(|helper| helper.take_answer(hashes.len())) else {
            return Err(reader.unexpected("chunks for a helper that were not asked for"));
        };
        let count = hashes.len() as u64;
        if let Some(Incoming::Partial(partial)) = self.incoming(file) {
            let entry = &partial.entry;
            let end = first.checked_add(count);
            if end.is_none_or(|end| end > entry.size_bytes.div_ceil(CHUNK_SIZE)) {
                return Err(reader.unexpected("chunks past the end are left to a helper"));
            }
            if !helper.owe(file, first, hashes) {
                let chunks = (first..first + count).collect();
                return self.control.send(&Message::Return { file, chunks });
            }
            if let (Some(pace), Some(control)) = (&self.pace, helper.control()) {
                pace.set_busy(&control, true);
            }
            helper.tell(&Message::Want {
                file,
                path: entry.path.clone(),
                size_bytes: entry.size_bytes,
                modified_ns: entry.modified_ns,
                run: ChunkRun { first, count },
            });
        }
        self.ask_for(helper);
        Ok(())
    }

    /// The thread of one of a helper's data connections.
    fn take_from(&self, helper: &Helper, connection: &mut Connection, sources: Sources<'_>) {
        let peer = connection.peer();
        if let Err(error) = self.take_frames(helper, connection, sources) {
            self.lose(helper, &control::broken(&peer, error).to_string());
        }
    }

    /// Receives until the helper says that nothing more follows.
    fn take_frames(
        &self,
        helper: &Helper,
        connection: &mut Connection,
        sources: Sources<'_>,
    ) -> io::Result<()> {
        let mut buffer = PageBuffer::new(CHUNK_SIZE as usize);
        while let Some(Chunk { header, payload, trailer }) =
            Chunk::receive(connection, &mut buffer)?
        {
            let chunk = header.offset / CHUNK_SIZE;
            let Some((hash, is_idle)) = helper.take(header.file, chunk) else {
                return Err(invalid("a chunk that it was not asked for"));
            };
            if is_idle && let Some(control) = helper.control() {
                sources.pace.set_busy(&control, false);
            }
            self.progress.hosts.add(helper.place(), payload.len() as u64);
            if let Err(why) = self.take_chunk(&header, &trailer, payload, hash) {
                let chunks = vec![chunk];
                // Whoever reads from it finds out.
                let _ = self.control.send(&Message::Return { file: header.file, chunks });
                self.lose(helper, &format!("{} {why}", helper.name));
                return Ok(());
            }
            self.ask_for(helper);
            self.answer_waiting();
        }
        Ok(())
    }

    /// Takes a chunk that has the hash that the first sender told; else says why it is to be sent
    /// by another.
    fn take_chunk(
        &self,
        header: &FrameHeader,
        trailer: &FrameTrailer,
        payload: &[u8],
        hash: [u8; 32],
    ) -> Result<(), &'static str> {
        // The file may have failed while this was on its way.
        let Some(Incoming::Partial(file)) = self.incoming(header.file) else {
            return Ok(());
        };
        if !trailer.complete {
            return Err("cannot read the file to its end");
        }
        let mut hasher = ChunkHasher::new(header.offset, file.entry.size_bytes);
        hasher.update(payload);
        let came = hasher.finish();
        if came != trailer.hash {
            return Err("sends damaged content");
        }
        if came != hash {
            return Err("has other content than the first host");
        }
        self.count_received(payload.len() as u64);
        match write(header, payload, &file, hash) {
            Ok(Some((durable, all_here))) => self.chunk_done(header.file, durable, all_here),
            Ok(None) => {}
            Err(failure) => {
                file.release(header.offset);
                self.fail(header.file, failure);
            }
        }
        Ok(())
    }

    /// Goes on without a helper: what it owes goes back to the first sender.
    fn lose(&self, helper: &Helper, why: &str) {
        let Some(owed) = helper.end() else {
            return;
        };
        let is_over = *self.over.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_over && !self.given_up.load(Relaxed) {
            self.progress.hosts.lose(helper.place(), why);
            self.progress.notice(format!("going on without {}: {why}", helper.name));
        }
        self.give_back(owed);
    }

    /// What a helper owes is the first sender's to send.
    fn give_back(&self, owed: BTreeMap<u64, Vec<u64>>) {
        for (file, chunks) in owed {
            // Whoever reads from it finds out.
            let _ = self.control.send(&Message::Return { file, chunks });
        }
    }

    /// The sign of life.
    pub(super) fn beat_helpers(&self) {
        self.helpers.iter().for_each(|helper| helper.tell(&Message::Ping));
    }

    /// Lets helpers end, which have nothing left to do.
    pub(super) fn part_with_helpers(&self) {
        self.helpers.iter().for_each(|helper| helper.tell(&Message::Finish));
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let reached = || self.helpers.iter().any(|one| one.control().is_some() && !one.is_over());
        let working = |_: &mut bool| {
            self.drawing.load(Relaxed) > 0 && reached() && !self.given_up.load(Relaxed)
        };
        drop(self.wake.wait_timeout_while(over, PARTING, working));
    }

    /// Ends all of them now.
    pub(super) fn end_helpers(&self) {
        self.helpers.iter().for_each(|helper| drop(helper.end()));
    }
}

/// Writes a chunk and records it: bytes that became durable by it, and whether it was the last one
/// missing. Nothing where it is here already.
fn write(
    header: &FrameHeader,
    payload: &[u8],
    file: &Partial,
    hash: [u8; 32],
) -> Result<Option<(u64, bool)>, FileFailure> {
    if !file.claim(header.offset, payload.len() as u64) {
        return Ok(None);
    }
    let path = &file.entry.path;
    // Held until all of it is written.
    let _lease = make_ready(file, header)?;
    let written = if file.entry.sparse {
        write_sparse(&file.file, payload, header.offset)
    } else {
        file.file.write_all_at(payload, header.offset)
    };
    written.map_err(|error| FileFailure::storage("cannot write", path, &error))?;
    let completed = file.complete(header.offset, hash);
    completed.map(Some).map_err(|error| FileFailure::storage("cannot journal", path, &error))
}
