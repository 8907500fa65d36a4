//! What can be wrong with what the other end of an aggregate says.

/// How the other end does not keep to the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolError(pub String);
