//! The wire protocol (`docs/transfer-protocol.md`), as pure functions between bytes and values.
//!
//! A control connection carries [`Message`]s, data connections carry [`FrameHeader`]s with
//! payload. Everything read from the wire passes a limit here before it is used elsewhere.

mod answer;
mod codec;
mod encoding;
mod entry;
mod failure;
mod frame;
mod message;
mod options;
mod path;
mod stripe;

pub use answer::{Answer, AnswerState, ChunkRun, Settled};
pub(crate) use codec::LIST_LIMIT;
pub use encoding::message_length;
pub use entry::{DirectoryEntry, FileEntry, LinkEntry};
pub use failure::FailureCode;
pub use frame::{
    CHUNK_SIZE, FrameHeader, FrameKind, FrameTrailer, HEADER_SIZE, HOLE_CHUNKS, TRAILER_SIZE,
};
pub use message::{
    AGAIN, DEALS, DEMANDS, JOINS, MESSAGE_LIMIT, Message, NEWEST, PREFIX_SIZE, Role, SKIPS,
    STRIPES, UNNUMBERED, UNSET, VERSION, WrittenChunk, greeting, version_of,
};
pub(crate) use options::CONGESTION_LIMIT;
pub use options::{HashKind, Options};
pub use path::{NAME_LIMIT, PATH_LIMIT, RelativePath};

/// Why bytes from the wire are not a message or frame of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The message ends inside a field.
    #[error("the message ends inside a field")]
    Truncated,
    /// Bytes are left after the last field.
    #[error("{0} bytes after the last field")]
    Trailing(usize),
    /// The check over the bytes does not match: they were damaged on the way.
    #[error("the check over the bytes does not match: they were damaged on the way")]
    Check,
    /// A length or count is over its limit.
    #[error("{field} of length {length}, the limit is {limit}")]
    TooLong {
        /// Which field.
        field: &'static str,
        /// Its length on the wire.
        length: usize,
        /// The most that is accepted.
        limit: usize,
    },
    /// A number has no meaning in its field.
    #[error("{field} cannot be {value}")]
    Value {
        /// Which field.
        field: &'static str,
        /// What it held.
        value: u64,
    },
    /// A text field is not UTF-8.
    #[error("{field} is not UTF-8 text")]
    NotText {
        /// Which field.
        field: &'static str,
    },
    /// A path that is not relative and plain.
    #[error("path \"{path}\" {why}")]
    Path {
        /// The path, printable.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The peer does not speak this protocol at all.
    #[error("the peer does not speak Weir's transfer protocol")]
    Magic,
    /// The peer speaks another version.
    #[error("the peer speaks version {0} of the protocol, this is version {VERSION}")]
    Version(u16),
}

/// Eight bytes of BLAKE3 over `bytes`: against damage, not against an adversary (TLS is for that).
fn check(bytes: &[u8]) -> [u8; 8] {
    let mut check = [0; 8];
    check.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    check
}
