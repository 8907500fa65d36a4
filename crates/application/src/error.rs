//! What can be wrong with an application that is asked for.

use std::borrow::Cow;

/// A value that nothing can have: which, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApplicationError(Cow<'static, str>);

impl From<&'static str> for ApplicationError {
    fn from(reason: &'static str) -> Self {
        Self(reason.into())
    }
}

impl From<String> for ApplicationError {
    fn from(reason: String) -> Self {
        Self(reason.into())
    }
}

/// Refuses what is not right, with `reason`.
pub(crate) fn require(is_right: bool, reason: &'static str) -> Result<(), ApplicationError> {
    if is_right { Ok(()) } else { Err(reason.into()) }
}
