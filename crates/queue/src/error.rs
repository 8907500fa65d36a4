//! Why a discipline cannot be built.

use weir_units::Time;

/// Why a discipline cannot be built as its configuration says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// A parameter outside its domain.
    #[error("{key} = {value}: {reason}")]
    Domain {
        /// The parameter's key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        reason: &'static str,
    },
    /// A parameter that means something only on a link with a rate.
    #[error("{key}: needs a link with a rate, and this one has none")]
    NoRate {
        /// The parameter's key.
        key: &'static str,
    },
}

/// Refuses `value` of `key` unless it `is_allowed`.
pub(crate) fn require(
    is_allowed: bool,
    key: &'static str,
    value: impl ToString,
    reason: &'static str,
) -> Result<(), QueueError> {
    if is_allowed {
        return Ok(());
    }
    Err(QueueError::Domain { key, value: value.to_string(), reason })
}

/// Refuses what is not a probability above 0.
pub(crate) fn require_probability(key: &'static str, value: f64) -> Result<(), QueueError> {
    let allowed = value > 0.0 && value <= 1.0;
    require(allowed, key, value, "a probability above 0 and up to 1 is allowed")
}

/// Refuses zero, negative, infinite and undefined numbers.
pub(crate) fn require_positive(key: &'static str, value: f64) -> Result<(), QueueError> {
    require(value > 0.0 && value.is_finite(), key, value, "a number above 0 is allowed")
}

/// Refuses the empty span and those of more than an hour, which are never meant.
pub(crate) fn require_span(key: &'static str, value: Time) -> Result<(), QueueError> {
    const HOUR: Time = Time::from_ms(3_600_000);
    require(value > Time::ZERO && value <= HOUR, key, value, "a time above 0, up to 1 h is allowed")
}
