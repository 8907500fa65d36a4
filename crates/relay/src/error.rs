//! What can go wrong with an aggregate as a whole.

use std::io;
use std::time::Duration;

use weir_aggregate::ProtocolError;

use crate::words::words;

/// Why a relay, or one of its aggregates, ends.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The other end does not keep to the protocol.
    #[error("the other end of the aggregate does not keep to the protocol: {0}")]
    Protocol(String),
    /// The other end of the aggregate is gone.
    #[error("the aggregate ended: {}", words(.0))]
    Aggregate(io::Error),
    /// The other end's kernel may be there; it is not.
    #[error("the other end of the aggregate has said nothing for {} s: it is stopped, or hangs",
            .0.as_secs())]
    Silent(Duration),
    /// The kernel refused something that the relay cannot do without.
    #[error("{what}: {}", words(error))]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

impl From<ProtocolError> for RelayError {
    fn from(ProtocolError(reason): ProtocolError) -> Self {
        Self::Protocol(reason)
    }
}

impl RelayError {
    /// Turns what the kernel said into an error that names what was tried.
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { what, error: error.into() }
    }
}
