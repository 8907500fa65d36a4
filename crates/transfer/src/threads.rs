//! Threads, of which a system may allow no more: that is an error as any. A panic would leave the
//! threads that did begin waiting for the one that did not.

use std::io;
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

fn none_left(_: &io::Error) -> TransferError {
    TransferError::Busy { why: "this system allows no more threads" }
}
