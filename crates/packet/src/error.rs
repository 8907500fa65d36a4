//! What can be wrong with what is asked for.

/// Why a simulation cannot be what was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// Not JSON, an unknown or missing key, or a value that nothing can have.
    #[error("{place}: {reason}")]
    Value {
        /// Where it stands: `link "bottleneck" forward.rate_bps`.
        place: String,
        /// What was given, what is wrong with it, what would be right.
        reason: String,
    },
    /// A capture or a trace that could not be written.
    #[error("{place}: {source}")]
    Write {
        /// The file.
        place: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl PacketError {
    pub(crate) fn value(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Value { place: place.into(), reason: reason.into() }
    }
}
