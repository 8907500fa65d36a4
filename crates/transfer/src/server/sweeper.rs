//! Removes what interrupted sessions left and nobody resumed.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::{Access, Shared};
use crate::error::TransferError;
use crate::receive;
use crate::room;
use crate::threads;

/// How often files in progress are looked for to which nobody came back.
const SWEEP: Duration = Duration::from_secs(24 * 3600);

/// The thread that removes files in progress to which nobody came back, wherever they lie.
pub(super) struct Sweeper {
    /// Dropped, it ends.
    going: mpsc::Sender<()>,
    /// Nothing comes; it is closed once the thread has let the roots go.
    ended: mpsc::Receiver<()>,
}

impl Sweeper {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, TransferError> {
        let (going, told) = mpsc::channel::<()>();
        let (ending, ended) = mpsc::channel();
        let shared = Arc::clone(shared);
        threads::begin(move || {
            // Whoever moves something goes first; where it is refused nothing is lost.
            let _ = rustix::process::nice(19);
            loop {
                shared.sweep();
                if !matches!(told.recv_timeout(SWEEP), Err(mpsc::RecvTimeoutError::Timeout)) {
                    break;
                }
            }
            drop(shared);
            drop(ending);
        })?;
        Ok(Self { going, ended })
    }

    /// Ends it, and waits until it has let the roots go, at most `patience`.
    pub(super) fn stop(self, patience: Duration) {
        drop(self.going);
        let _ = self.ended.recv_timeout(patience);
    }
}

impl Shared {
    /// Removes expired files in progress below all roots.
    fn sweep(&self) {
        let writable = self.settings.exports.iter();
        for export in writable.filter(|export| export.access == Access::ReadWrite) {
            let going = || !self.stopping.load(Relaxed);
            room::each_directory(&export.root, &going, &mut |directory| {
                // What cannot be listed may be written to all the same.
                let _ = receive::remove_expired(directory);
            });
        }
    }
}
