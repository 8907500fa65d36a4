//! Chunks that other senders send: dealt out on request, and read here all the same.
//!
//! The receiver asks for so many chunks on behalf of another sender, a *helper*, which has the same
//! file. They are taken as a data connection would take them, but their hashes are told instead of
//! their content, so that nothing rests on what the helper reads. What it does not deliver comes
//! back, and is sent here or dealt out anew.

use std::sync::Arc;

use super::large::LargeFile;
use super::queue::Look;
use super::{Outgoing, Sending, Stage};
use crate::buffer::{PIECE, PageBuffer};
use crate::control::ControlReader;
use crate::error::{FileFailure, TransferError};
use crate::hash;
use crate::wire::{CHUNK_SIZE, ChunkRun, Message};

/// The most chunks that are dealt at once, whatever is asked for.
const DEALT_MAX: u16 = 256;

/// Chunks that are wanted for a helper.
#[derive(Clone, Copy)]
pub(super) struct Ask {
    helper: u8,
    chunks: u16,
}

impl Sending {
    /// The receiver asks for chunks that a helper is to send.
    pub(super) fn note_ask(
        &self,
        reader: &ControlReader,
        helper: u8,
        chunks: u16,
    ) -> Result<(), TransferError> {
        let mut files = self.files();
        if chunks == 0 || files.asks.iter().any(|ask| ask.helper == helper) {
            return Err(reader.unexpected("a second request for chunks before the first was met"));
        }
        files.asks.push_back(Ask { helper, chunks: chunks.min(DEALT_MAX) });
        drop(files);
        self.may_deal();
        Ok(())
    }

    /// There may be something to deal out that was not there before.
    pub(super) fn may_deal(&self) {
        self.files().may_deal = true;
        self.moved.notify_all();
    }

    /// Deals out chunks to those that ask, as long as there are some; says whether the operation
    /// goes on.
    pub(super) fn deal(&self) -> bool {
        loop {
            let mut files = self.files();
            files.may_deal = false;
            let asks = !files.over;
            let ask = files.asks.front().copied().filter(|_| asks);
            drop(files);
            let Some((ask, (large, run))) = ask.and_then(|ask| Some((ask, self.next_dealt(ask)?)))
            else {
                return asks;
            };
            match self.hashes_of(&large, run) {
                Ok(None) => return false,
                Ok(Some(hashes)) => {
                    self.files().asks.pop_front();
                    let (file, helper, first) = (large.number, ask.helper, run.first);
                    let dealt = Message::Dealt { file, helper, first, hashes };
                    if let Err(error) = self.control.send(&dealt) {
                        self.abort(error);
                        return false;
                    }
                }
                Err(failure) => {
                    if large.set_failed() {
                        self.fail(large.number, failure);
                    }
                }
            }
        }
    }

    /// Takes chunks out of what is to be sent.
    fn next_dealt(&self, ask: Ask) -> Option<(Arc<LargeFile>, ChunkRun)> {
        // Those of which only holes are left, as far as can be seen.
        let mut holes = Vec::new();
        loop {
            let wanted = |file: &LargeFile| !holes.contains(&file.number);
            let Look::Found(file) = self.queue.look_for(&wanted) else {
                return None;
            };
            match file.deal(ask.chunks.into()) {
                Some(run) => return Some((file, run)),
                None => holes.push(file.number),
            }
        }
    }

    /// Reads chunks; nothing where the operation ends meanwhile.
    fn hashes_of(
        &self,
        large: &LargeFile,
        run: ChunkRun,
    ) -> Result<Option<Vec<[u8; 32]>>, FileFailure> {
        let mut buffer = PageBuffer::new(PIECE);
        let mut hashes = Vec::new();
        for chunk in run.first..run.first + run.count {
            if self.files().over {
                return Ok(None);
            }
            let (offset, size) = (chunk * CHUNK_SIZE, large.entry.size_bytes);
            let hash = hash::of_chunk(&large.file, offset, size, &mut buffer);
            let hash =
                hash.map_err(|error| FileFailure::storage("cannot read", &large.shown(), &error))?;
            let hash = hash.ok_or_else(|| FileFailure::changed(&large.shown()))?;
            large.know(offset, hash);
            hashes.push(hash);
        }
        Ok(Some(hashes))
    }

    /// A helper has not delivered chunks that were dealt to it.
    pub(super) fn take_returned(
        &self,
        reader: &ControlReader,
        file: u64,
        chunks: &[u64],
    ) -> Result<(), TransferError> {
        let Some(Outgoing { stage: Stage::Large(large), .. }) = self.outgoing(file) else {
            return Ok(()); // It has failed.
        };
        if !large.take_dealt(chunks) {
            return Err(reader.unexpected("chunks came back that were not dealt out"));
        }
        chunks.iter().for_each(|chunk| self.send_again(&large, *chunk));
        self.may_deal();
        Ok(())
    }
}
