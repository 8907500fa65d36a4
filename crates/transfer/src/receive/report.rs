//! Reports of progress, which make durable what is to be durable before they say so.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::directory::Parent;
use super::partial::Partial;
use super::{Done, Incoming, Reception};
use crate::control::HEARTBEAT;
use crate::error::{FileFailure, TransferError};
use crate::wire::{Message, RelativePath, Settled, UNNUMBERED, UNSET};

/// How often progress is reported while there is any.
pub(super) const TICK: Duration = Duration::from_millis(50);

impl Reception {
    /// The thread that reports.
    pub(super) fn tick(&self) {
        let mut said = Instant::now();
        let mut beaten = said;
        let mut last = (0, 0);
        loop {
            let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
            // The end may have come while it reported.
            let waited = self.wake.wait_timeout_while(over, TICK, |over| !*over);
            let (over, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if *over {
                return;
            }
            drop(over);
            if beaten.elapsed() >= HEARTBEAT {
                beaten = Instant::now();
                self.beat_helpers();
            }
            let now = (self.received.load(Relaxed), self.durable.load(Relaxed));
            if now != last || said.elapsed() >= HEARTBEAT || !self.settled().is_empty() {
                (last, said) = (now, Instant::now());
                if let Err(error) = self.report() {
                    self.abort(error);
                    return;
                }
            }
        }
    }

    pub(super) fn stop(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_all();
    }

    /// Makes durable what is to be durable, then says so.
    pub(super) fn report(&self) -> Result<(), TransferError> {
        let settled = self.in_place(std::mem::take(&mut *self.settled()));
        if self.sync {
            self.sync_all(&settled);
        }
        self.count_durable(settled.iter().map(|done| done.bytes).sum());
        let (received, durable) = (self.received.load(Relaxed), self.durable.load(Relaxed));
        self.progress.set_durable(durable);
        for batch in settled.chunks(4096) {
            let batch: Vec<Settled> = batch.iter().filter_map(|done| done.settled).collect();
            if !batch.is_empty() {
                self.control.send(&Message::Committed(batch))?;
            }
        }
        for message in self.directories.take_unset() {
            if self.control.version() >= UNSET {
                self.control.send(&Message::Unset { message: message.clone() })?;
            }
            self.progress.notice(message);
        }
        let progress = Message::Progress { received_bytes: received, durable_bytes: durable };
        self.control.send(&progress)
    }

    /// What stands where it was to go. The others have failed: their directory is another by now,
    /// or is elsewhere.
    fn in_place(&self, mut settled: Vec<Done>) -> Vec<Done> {
        let mut known: HashMap<Arc<Parent>, bool> = HashMap::new();
        settled.retain(|done| {
            let looked = known.entry(Arc::clone(&done.parent));
            let in_place = *looked.or_insert_with(|| self.directories.has(&done.parent));
            if !in_place {
                if done.settled.is_some() {
                    self.progress.unsettle();
                }
                let file = done.settled.map_or(UNNUMBERED, |settled| settled.file);
                let path = &done.parent.path;
                self.fail_taken(file, path, FileFailure::moved(path));
            }
            in_place
        });
        settled
    }

    fn sync_all(&self, settled: &[Done]) {
        for partial in self.partials() {
            match partial.flush() {
                Ok(bytes) => self.count_durable(bytes),
                Err(error) => self.abort(storage_failed(&partial.entry.path, error)),
            }
        }
        let parents: HashSet<&RelativePath> =
            settled.iter().map(|done| &done.parent.path).collect();
        for parent in parents {
            let synced = self.directories.get(parent).and_then(|directory| directory.sync());
            if let Err(error) = synced {
                self.abort(storage_failed(parent, error));
            }
        }
    }

    /// Files of several chunks in progress.
    pub(super) fn partials(&self) -> Vec<Arc<Partial>> {
        let partial = |file: &Incoming| match file {
            Incoming::Partial(partial) => Some(Arc::clone(partial)),
            _ => None,
        };
        self.files().values().filter_map(partial).collect()
    }

    /// Content came from the first sender.
    pub(super) fn count_content(&self, bytes: u64) {
        self.count_received(bytes);
        self.progress.hosts.add(0, bytes);
    }

    pub(super) fn count_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Relaxed);
        self.progress.add_done(bytes);
    }

    pub(super) fn count_durable(&self, bytes: u64) {
        self.durable.fetch_add(bytes, Relaxed);
    }

    pub(super) fn count_resumed(&self, bytes: u64) {
        self.durable.fetch_add(bytes, Relaxed);
        self.progress.add_resumed(bytes);
    }
}

fn storage_failed(path: &RelativePath, source: std::io::Error) -> TransferError {
    TransferError::Storage { path: path.to_string(), source }
}
