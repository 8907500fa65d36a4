//! Why something failed, as a number for the peer and in words for a person.

use super::WireError;
use super::codec::Decoder;

/// The longest text for a person, in bytes.
pub(super) const TEXT_LIMIT: usize = 2048;

/// Why a request, a file or a session failed, as a number that both ends agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FailureCode {
    /// The request cannot be right: unknown root, bad path, missing file.
    BadRequest = 1,
    /// The peer may not do this.
    Denied = 2,
    /// The peer is at its limit; try later.
    Busy = 3,
    /// A file changed or vanished while it was read.
    Changed = 4,
    /// Content does not match its hash.
    Corrupt = 5,
    /// The receiving file system is full.
    DiskFull = 6,
    /// Another error of the file system.
    Storage = 7,
    /// The other side broke the protocol.
    Protocol = 8,
    /// The operation was cancelled.
    Cancelled = 9,
    /// A connection of the session broke.
    Lost = 10,
}

impl FailureCode {
    const ALL: [Self; 10] = [
        Self::BadRequest,
        Self::Denied,
        Self::Busy,
        Self::Changed,
        Self::Corrupt,
        Self::DiskFull,
        Self::Storage,
        Self::Protocol,
        Self::Cancelled,
        Self::Lost,
    ];

    pub(super) fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        let value = input.u8()?;
        let known = Self::ALL.into_iter().find(|code| *code as u8 == value);
        known.ok_or(WireError::Value { field: "failure code", value: value.into() })
    }
}

/// At most [`TEXT_LIMIT`] bytes of `message`, cut between characters.
pub(super) fn shortened(message: &str) -> &[u8] {
    &message.as_bytes()[..message.floor_char_boundary(TEXT_LIMIT)]
}
