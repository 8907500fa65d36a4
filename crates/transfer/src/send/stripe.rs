//! Other receivers that share the destination's file system, and take chunks of its large files.
//!
//! The first receiver has all files, their names and their outcomes. Another one, a *helper*, is
//! *lent* a file by it, takes chunks as any data connection does, and says what it has written. The
//! first receiver is told, looks for itself, and only then is a chunk there. What a helper was sent
//! and had not written when it broke off, or what the first receiver does not see, goes to others.
//! Nothing that happens to a helper ends the operation.

use std::sync::Arc;
use std::thread::Scope;
use std::time::Duration;

use super::helper::{Ahead, Helper, Left, Next, Standing, UnderWay};
use super::lane::LOOK;
use super::large::LargeFile;
use super::output::Output;
use super::queue::Look;
use super::{Outgoing, PARTING, Sending, Stage};
use crate::connection::Connection;
use crate::control::{self, ControlReader};
use crate::error::TransferError;
use crate::helper::{HelperSession, Opening};
use crate::threads;
use crate::wire::{CHUNK_SIZE, MESSAGE_LIMIT, Message};

impl Sending {
    /// The thread of one of the other receivers.
    pub(super) fn stripe_over<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        helper: &'scope Helper,
        opening: &Opening,
        silence: Duration,
    ) {
        match helper.reached(opening, LOOK, || !self.queue.is_over()) {
            None => {}
            Some(Err(error)) => self.lose(helper, &error.to_string()),
            Some(Ok(reached)) => self.work_with(scope, helper, reached, silence),
        }
        self.files().helpers -= 1;
        self.moved.notify_all();
    }

    fn work_with<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        helper: &'scope Helper,
        reached: HelperSession,
        silence: Duration,
    ) {
        let HelperSession { mut reader, control, data } = reached;
        if !helper.begin(&control, &data) {
            return;
        }
        self.progress.hosts.find(helper.place());
        for connection in data {
            self.sockets().push(Arc::clone(&connection.socket));
            let begun = threads::begin_in(scope, move || self.put_out_to(helper, connection));
            if let Err(error) = begun {
                return self.lose(helper, &error.to_string());
            }
        }
        match self.follow_helper(helper, &mut reader, silence) {
            // Chunks may have been taken for it since.
            Ok(None) => drop(helper.end().map(|left| self.give_others(helper, left))),
            Ok(Some(why)) => self.lose(helper, &why),
            Err(error) => self.lose(helper, &error.to_string()),
        }
    }

    /// The thread of one of a helper's data connections.
    fn put_out_to(&self, helper: &Helper, mut connection: Connection) {
        let peer = connection.peer();
        let result = Output::new(&mut connection, self, usize::MAX).run_for(helper);
        self.pace.let_go(&connection.socket);
        self.sockets().retain(|socket| !Arc::ptr_eq(socket, &connection.socket));
        match result {
            Ok(()) => {
                if helper.leave() {
                    helper.tell(&Message::Finish);
                }
            }
            Err(error) => self.lose(helper, &control::broken(&peer, error).to_string()),
        }
    }

    /// Handles what a helper says until it has done all, or says why it cannot help.
    fn follow_helper(
        &self,
        helper: &Helper,
        reader: &mut ControlReader,
        silence: Duration,
    ) -> Result<Option<String>, TransferError> {
        loop {
            match reader.expect(MESSAGE_LIMIT)? {
                Message::Opened { file } => {
                    helper.set_standing(file, Standing::Open);
                    self.queue.wake();
                }
                Message::Stored { file, chunks } => {
                    let Some(chunks) = helper.take_stored(file, &chunks) else {
                        let what = "it was not sent the chunk that it says it has written";
                        return Err(reader.unexpected(what));
                    };
                    if !chunks.is_empty() {
                        // Where the first receiver is gone, whoever reads from it finds out.
                        let _ = self.control.send(&Message::Written { file, chunks });
                    }
                }
                Message::FileFailed { file, message, .. } => {
                    if helper.standing(file).is_some() {
                        return Ok(Some(message));
                    }
                }
                Message::Finished if helper.is_done() => return Ok(None),
                Message::Ping => {}
                _ => return Err(reader.unexpected("nothing that another receiver says")),
            }
            if helper.is_stuck(silence, self.pace.rate()) {
                return Ok(Some(format!("{} writes nothing of what it was sent", helper.name)));
            }
        }
    }

    /// What a helper's connection is to send now.
    pub(super) fn next_for(&self, helper: &Helper) -> Ahead {
        // Those of which only holes are left, as far as can be seen: the first receiver has them.
        let mut holes = Vec::new();
        while !helper.is_over() {
            let wanted = |file: &LargeFile| helper.wants(file) && !holes.contains(&file.number);
            let file = match self.queue.look_for(&wanted) {
                Look::Over => return Ahead::Over,
                Look::Nothing => return Ahead::Nothing,
                Look::Found(file) => file,
            };
            match helper.next_of(&file) {
                Next::Wait => return Ahead::Nothing,
                Next::Ask => {
                    let lend = Message::Lend { file: file.number, helper: helper.number };
                    let _ = self.control.send(&lend); // Whoever reads from it finds out.
                }
                Next::Take => {
                    let Some((offset, length)) = file.next_content() else {
                        holes.push(file.number);
                        continue;
                    };
                    if helper.take(&file, offset) {
                        return Ahead::Chunk(file, offset, length);
                    }
                    self.send_again(&file, offset / CHUNK_SIZE);
                }
            }
        }
        Ahead::Over
    }

    /// The first receiver has lent a file, or not.
    pub(super) fn take_lent(
        &self,
        reader: &ControlReader,
        file: u64,
        helper: u8,
        (exact, lease): (bool, Option<[u8; 32]>),
    ) -> Result<(), TransferError> {
        let Some(helper) = self.helpers.get(usize::from(helper)) else {
            return Err(reader.unexpected("a lease for nobody"));
        };
        let is_asked = helper.standing(file) == Some(Standing::Asked);
        match (lease, self.outgoing(file)) {
            (Some(lease), Some(Outgoing { entry, .. })) if is_asked => {
                helper.tell(&Message::Lease {
                    file,
                    helper: helper.number,
                    path: entry.path,
                    size_bytes: entry.size_bytes,
                    sparse: entry.sparse,
                    exact,
                    lease,
                });
                Ok(())
            }
            // The helper was lost meanwhile, or the file has its outcome.
            (Some(_), _) => {
                self.control.send(&Message::TakeBack { file, helper: helper.number, clean: true })
            }
            (None, _) => {
                if is_asked {
                    helper.set_standing(file, Standing::Refused);
                }
                Ok(())
            }
        }
    }

    /// The first receiver does not see what a helper has written.
    pub(super) fn take_unseen(
        &self,
        reader: &ControlReader,
        file: u64,
        chunks: &[u64],
    ) -> Result<(), TransferError> {
        let Some(Outgoing { stage: Stage::Large(large), .. }) = self.outgoing(file) else {
            return Ok(());
        };
        for chunk in chunks {
            let said = |helper: &&Helper| helper.take_told(file, *chunk);
            let Some(helper) = self.helpers.iter().find(said) else {
                return Err(reader.unexpected("it misses a chunk that nobody else has written"));
            };
            let first = &self.control;
            let why =
                format!("{} does not see what it wrote: no file system of both", first.peer());
            self.lose(helper, &why);
            self.take_back_count(&large, *chunk);
            self.send_again(&large, *chunk);
        }
        Ok(())
    }

    /// Goes on without a helper: what it has not written goes to others.
    fn lose(&self, helper: &Helper, why: &str) {
        let Some(left) = helper.end() else {
            return;
        };
        if !self.files().over {
            self.progress.hosts.lose(helper.place(), why);
            self.progress.notice(format!("going on without {}: {why}", helper.name));
        }
        self.give_others(helper, left);
    }

    /// What is left of a helper: it writes no more to what it was lent, and others have its chunks.
    fn give_others(&self, helper: &Helper, Left { files, under_way }: Left) {
        for file in files {
            let clean = !under_way.keys().any(|(number, _)| *number == file);
            let taken = Message::TakeBack { file, helper: helper.number, clean };
            let _ = self.control.send(&taken); // Whoever reads from it finds out.
        }
        for ((_, chunk), UnderWay { file, hash }) in under_way {
            if hash.is_some() {
                self.take_back_count(&file, chunk);
            }
            self.send_again(&file, chunk);
        }
    }

    fn take_back_count(&self, file: &LargeFile, chunk: u64) {
        let left = file.entry.size_bytes - chunk * CHUNK_SIZE;
        self.progress.take_back(left.min(CHUNK_SIZE));
    }

    pub(super) fn send_again(&self, file: &Arc<LargeFile>, chunk: u64) {
        file.put_back(chunk);
        self.queue.push_large(Arc::clone(file));
    }

    /// A file has all its chunks, or has failed: helpers write nothing more to it.
    pub(super) fn retire(&self, file: u64) {
        for helper in &self.helpers {
            if let Some(clean) = helper.retire(file) {
                let taken = Message::TakeBack { file, helper: helper.number, clean };
                helper.tell(&taken);
                let _ = self.control.send(&taken); // Whoever reads from it finds out.
            }
        }
    }

    /// The sign of life.
    pub(super) fn beat_helpers(&self) {
        self.helpers.iter().for_each(|helper| helper.tell(&Message::Ping));
    }

    /// Lets helpers end, which have nothing left to do.
    pub(super) fn part_with_helpers(&self) {
        let working = |files: &mut super::Files| files.helpers > 0 && !files.over;
        drop(self.moved.wait_timeout_while(self.files(), PARTING, working));
    }

    /// Ends all of them now.
    pub(super) fn end_helpers(&self) {
        self.helpers.iter().for_each(|helper| drop(helper.end()));
    }
}
