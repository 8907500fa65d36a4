//! The planner: walks the sources and offers files ahead of need.

use std::sync::Arc;

use super::source::{Found, Source};
use super::walk::Walk;
use super::{Outgoing, Sending, Stage, is_large};
use crate::error::{FileFailure, TransferError};
use crate::file_version::FileVersion;
use crate::wire::{DirectoryEntry, FileEntry, LinkEntry, Message, SKIPS, UNNUMBERED};

/// Files on offer and not yet sent; enough to hide the round trip of small files, and of what is
/// there already. A receiver takes 16 384.
pub(super) const AHEAD: usize = 12_288;
/// Large files open at once.
const LARGE_AHEAD: usize = 16;
/// Files per offer: few at first, so that sending starts at once.
const FIRST_BATCH: usize = 16;
pub(super) const BATCH: usize = 512;
/// Bytes of names per message, far below the limit on messages.
const BATCH_BYTES: usize = 1 << 16;

/// What the planner has gathered and not yet told.
#[derive(Default)]
struct Plan {
    next: u64,
    bytes: u64,
    batch: Vec<Outgoing>,
    batch_bytes: usize,
    /// Each of them is open from its answer on.
    batch_large: usize,
    links: Vec<LinkEntry>,
    links_bytes: usize,
    directories: Vec<DirectoryEntry>,
    directories_bytes: usize,
}

impl Sending {
    /// Walks the sources and offers what it finds; at the end says that nothing more follows.
    pub(super) fn plan(&self, sources: &[Source]) -> Result<(), TransferError> {
        let single_file = matches!(sources, [only] if only.is_single());
        self.control.send(&Message::Begin { single_file })?;
        let mut plan = Plan::default();
        for source in sources {
            for found in Walk::new(source.clone()) {
                self.plan_one(&mut plan, source, found)?;
                // Asked once for each offer, which may have waited.
                if plan.batch.is_empty() && self.files().over {
                    return Ok(());
                }
            }
        }
        self.offer(&mut plan)?;
        self.tell_totals(&plan, true)?;
        self.wait_until(|files| files.waiting == 0);
        self.queue.close();
        self.tell_links(&mut plan)?;
        self.tell_directories(&mut plan)?;
        self.files().all_told = true;
        self.finish()
    }

    fn plan_one(
        &self,
        plan: &mut Plan,
        source: &Source,
        found: Found,
    ) -> Result<(), TransferError> {
        match found {
            Found::File { path, stat, entry } => {
                plan.bytes += entry.size_bytes;
                plan.batch_large += usize::from(is_large(&entry));
                plan.batch_bytes += entry.path.as_bytes().len() + 32;
                plan.batch.push(Outgoing {
                    root: Arc::clone(&source.root),
                    path,
                    links: source.links,
                    version: FileVersion::of(&stat),
                    entry,
                    stage: Stage::Waiting,
                });
                let limit = if plan.next == 0 { FIRST_BATCH } else { BATCH };
                if plan.batch.len() >= limit
                    || plan.batch_bytes >= BATCH_BYTES
                    || plan.batch_large >= LARGE_AHEAD
                {
                    self.offer(plan)?;
                }
            }
            // A receiver takes both at any time, so that neither is kept here.
            Found::Link(link) => {
                plan.links_bytes += link.path.as_bytes().len() + link.target.len();
                plan.links.push(link);
                if plan.links.len() >= BATCH || plan.links_bytes >= BATCH_BYTES {
                    self.tell_links(plan)?;
                }
            }
            Found::Directory(directory) => {
                plan.directories_bytes += directory.path.as_bytes().len();
                plan.directories.push(directory);
                if plan.directories.len() >= BATCH || plan.directories_bytes >= BATCH_BYTES {
                    self.tell_directories(plan)?;
                }
            }
            Found::Skipped(message) => {
                if self.control.version() >= SKIPS {
                    self.control.send(&Message::Skipped { message: message.clone() })?;
                }
                self.progress.skip(message);
            }
            Found::Failed(failure) => {
                // It was not offered, so it has no number; the receiver counts it all the same.
                let FileFailure { code, message } = failure.clone();
                self.control.send(&Message::FileFailed { file: UNNUMBERED, code, message })?;
                self.progress.fail(None, failure);
            }
        }
        Ok(())
    }

    fn offer(&self, plan: &mut Plan) -> Result<(), TransferError> {
        if plan.batch.is_empty() {
            return Ok(());
        }
        self.wait_until(|files| files.waiting < AHEAD && files.waiting_large < LARGE_AHEAD);
        let first = plan.next;
        let files: Vec<FileEntry> = plan.batch.iter().map(|one| one.entry.clone()).collect();
        let mut known = self.files();
        for outgoing in plan.batch.drain(..) {
            known.waiting += 1;
            known.waiting_large += usize::from(is_large(&outgoing.entry));
            known.known.insert(plan.next, Box::new(outgoing));
            plan.next += 1;
        }
        drop(known);
        (plan.batch_bytes, plan.batch_large) = (0, 0);
        self.tell_totals(plan, false)?;
        self.control.send(&Message::Offer { first, files })
    }

    fn tell_links(&self, plan: &mut Plan) -> Result<(), TransferError> {
        plan.links_bytes = 0;
        match std::mem::take(&mut plan.links) {
            links if links.is_empty() => Ok(()),
            links => self.control.send(&Message::Links(links)),
        }
    }

    fn tell_directories(&self, plan: &mut Plan) -> Result<(), TransferError> {
        plan.directories_bytes = 0;
        match std::mem::take(&mut plan.directories) {
            list if list.is_empty() => Ok(()),
            list => self.control.send(&Message::Directories(list)),
        }
    }

    fn tell_totals(&self, plan: &Plan, complete: bool) -> Result<(), TransferError> {
        self.progress.set_totals(plan.next, plan.bytes, complete);
        let (files, size_bytes) = (plan.next, plan.bytes);
        self.control.send(&Message::Totals { files, size_bytes, complete })
    }
}
