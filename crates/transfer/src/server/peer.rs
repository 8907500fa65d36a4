//! What is known of the other end of a connection.

/// Who is at the other end of a connection.
pub(super) struct Peer {
    pub(super) address: String,
    /// The name in its certificate.
    pub(super) client: Option<String>,
}
