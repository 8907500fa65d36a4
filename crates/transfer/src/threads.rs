//! Threads, of which a system may allow no more: that is an error as any. A panic would leave the
//! threads that did begin waiting for the one that did not.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use crate::error::TransferError;

/// Has a thread do some work.
pub(crate) fn begin(work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, TransferError> {
    Builder::new().spawn(work).map_err(|error| none_left(&error))
}

/// Has a thread of a scope do some work.
pub(crate) fn begin_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, TransferError> {
    Builder::new().spawn_scoped(scope, work).map_err(|error| none_left(&error))
}

/// What some work results in, or that it panicked: whoever waits for its end is not to wait for
/// ever. The panic has told its place by then.
pub(crate) fn ended<T>(
    work: impl FnOnce() -> Result<T, TransferError>,
) -> Result<T, TransferError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(TransferError::Fault))
}

fn none_left(_: &io::Error) -> TransferError {
    TransferError::Busy { why: "this system allows no more threads" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_panics_ends_as_work_that_fails() {
        assert_eq!(ended(|| Ok(7)).unwrap(), 7);
        let failed = ended::<()>(|| Err(TransferError::Cancelled));
        assert!(matches!(failed, Err(TransferError::Cancelled)));
        let panicked = ended::<()>(|| panic!("as a fault would"));
        assert!(matches!(panicked, Err(TransferError::Fault)));
    }
}
