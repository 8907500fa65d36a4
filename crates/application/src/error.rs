//! What can be wrong with an application that is asked for.

/// A value that nothing can have: which, and what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApplicationError(&'static str);

/// Refuses what is not right, with `reason`.
pub(crate) fn require(is_right: bool, reason: &'static str) -> Result<(), ApplicationError> {
    if is_right { Ok(()) } else { Err(ApplicationError(reason)) }
}
