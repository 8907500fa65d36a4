//! Work that a peer has asked for by next to no bytes is done when nothing else is to be done.
//!
//! A hole of 64 MiB is told in 32 bytes, and its zeros are hashed all the same, because the hash
//! of the file is the ordinary one. So that a few bytes do not take this machine's processors
//! from others, zeros far beyond what came are hashed one connection at a time, by a thread of the
//! low priority.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Zeros that each data connection has without further ado: so many, and so many for each byte of
/// content that came on it.
const FREE: u64 = 1 << 30;
const FREE_PER_BYTE: u64 = 64;
/// A tenth of an ordinary claim on a processor: others go first, and a busy machine does it too.
const LOW: i32 = 10;

/// Held by the one that hashes zeros beyond what it has sent for.
static TURN: Mutex<()> = Mutex::new(());

/// What one data connection's thread has done for its peer in one operation.
#[derive(Debug, Default)]
pub(crate) struct ZeroBudget {
    sent: u64,
    zeros: u64,
    has_low_priority: bool,
}

impl ZeroBudget {
    /// Content of so many bytes is coming.
    pub(crate) fn count_sent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// A run of so many zeros is to be hashed: waits for its turn where they are too many. From
    /// then on this thread, which lives as long as the operation, has a low priority.
    pub(crate) fn before_zeros(&mut self, bytes: u64) -> Option<MutexGuard<'static, ()>> {
        self.zeros = self.zeros.saturating_add(bytes);
        if self.zeros <= FREE.saturating_add(self.sent.saturating_mul(FREE_PER_BYTE)) {
            return None;
        }
        if !self.has_low_priority {
            self.has_low_priority = true;
            // Linux lowers this thread alone; where it refuses, the turns remain.
            let _ = rustix::process::nice(LOW);
        }
        Some(TURN.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_cost_by_what_was_sent() {
        std::thread::spawn(|| {
            let nice = || rustix::process::getpriority_process(None).unwrap();
            let began = nice();
            let mut one = ZeroBudget::default();
            assert!(one.before_zeros(FREE).is_none());
            one.count_sent(100);
            assert!(one.before_zeros(100 * FREE_PER_BYTE).is_none());
            assert_eq!(nice(), began);
            let turn = one.before_zeros(1);
            assert!(turn.is_some() && TURN.try_lock().is_err());
            assert_eq!(nice(), (began + LOW).min(19));
        })
        .join()
        .unwrap();
    }
}
