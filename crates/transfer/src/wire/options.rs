//! What a requester may choose about one operation.

use super::WireError;
use super::codec::{Decoder, Encoder};

/// The longest name of a congestion control, as the kernel bounds it.
pub(crate) const CONGESTION_LIMIT: usize = 15;

/// What a requester may demand of the receiver, as bits of one byte.
const SYNC: u8 = 1;
const CHECKSUM: u8 = 2;
const READ_BACK: u8 = 4;

/// How content is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashKind {
    /// BLAKE3 per chunk and per file.
    #[default]
    Blake3,
    /// TCP's (or TLS's) own protection only.
    None,
}

/// What a requester may choose about one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How content is verified.
    pub hash: HashKind,
    /// Bytes count as durable only after `fdatasync`, so that they survive a power loss.
    pub sync: bool,
    /// What is there already is the same only by its content; since version
    /// [`DEMANDS`](super::DEMANDS).
    pub checksum: bool,
    /// The receiver reads each file back before it takes its name; since the same version.
    pub read_back: bool,
    /// Follow symbolic links on the sending side instead of copying them as links.
    pub follow_links: bool,
    /// The sending side's pacing in bit/s over all data connections; `u64::MAX` is unpaced.
    pub rate_bps: u64,
    /// The sending side's congestion control; empty leaves the host's default.
    pub congestion: String,
    /// Data connections that carry the operation.
    pub streams: u16,
}

impl Options {
    pub(super) fn encode(&self, out: &mut Encoder) {
        let hash = if self.hash == HashKind::Blake3 { 1 } else { 0 };
        let demands = [(self.sync, SYNC), (self.checksum, CHECKSUM), (self.read_back, READ_BACK)];
        let demands = demands.iter().filter(|(wanted, _)| *wanted).map(|(_, bit)| bit).sum();
        out.u8(hash).u8(demands).u8(self.follow_links.into());
        out.u64(self.rate_bps).bytes(self.congestion.as_bytes()).u16(self.streams);
    }

    pub(super) fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        let hash = if input.flag()? { HashKind::Blake3 } else { HashKind::None };
        let demands = input.u8()?;
        if demands > SYNC | CHECKSUM | READ_BACK {
            return Err(WireError::Value { field: "demands", value: demands.into() });
        }
        Ok(Self {
            hash,
            sync: demands & SYNC != 0,
            checksum: demands & CHECKSUM != 0,
            read_back: demands & READ_BACK != 0,
            follow_links: input.flag()?,
            rate_bps: input.u64()?,
            congestion: input.text("congestion", CONGESTION_LIMIT)?,
            streams: input.u16()?,
        })
    }
}
