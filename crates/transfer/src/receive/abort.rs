//! How an operation ends early: the first error is kept, and all threads learn of it.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::Reception;
use crate::control::REASON_WAIT;
use crate::error::{ErrorClass, TransferError};
use crate::wire::Message;

impl Reception {
    /// Ends the operation: the first error is kept, the control connection is cut.
    pub(super) fn abort(&self, error: TransferError) {
        let (code, message) = (error.code(), error.to_string());
        if self.note(error) {
            // The peer learns the reason where it still listens.
            let _ = self.control.send(&Message::Failure { code, message });
        }
        self.control.shut_down();
    }

    /// Why the operation ended: the sender hangs up when it hears that the disk here is full, and
    /// what was being told it then could not be told any more.
    pub(super) fn cause_of(&self, error: TransferError) -> TransferError {
        let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        match full.take() {
            Some(full) if error.class() == ErrorClass::Unavailable => TransferError::DiskFull(full),
            _ => error,
        }
    }

    /// Keeps the first error; says whether this was it.
    fn note(&self, error: TransferError) -> bool {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let first = failure.is_none();
        failure.get_or_insert(error);
        self.given_up.store(true, Relaxed);
        drop(failure);
        self.wake.notify_all();
        first
    }

    /// Waits a moment for another thread to learn why the operation ends.
    pub(super) fn await_reason(&self) {
        let end = Instant::now() + REASON_WAIT;
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.wake.wait_timeout(over, left);
            (over, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
