//! What can be wrong with what is asked for, or with the machine.

use std::io;

/// Why an application cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// Not JSON, an unknown or missing key, or a value that nothing can have.
    #[error("{place}: {reason}")]
    Value {
        /// Where it stands.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The kernel cannot make packets that large.
    #[error("a payload of {payload_bytes} B does not fit the packets of the path")]
    TooLarge {
        /// Payload of a packet.
        payload_bytes: usize,
    },
    /// The kernel refuses.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl LiveError {
    pub(crate) fn value(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Value { place: place.into(), reason: reason.into() }
    }

    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { what, source: error.into() }
    }
}
