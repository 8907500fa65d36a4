//! Data frames: a fixed header, the payload, and a fixed trailer that carries its hash.
//!
//! The hash follows the payload, so that a sender hashes each piece while it is hot in the cache
//! on its way to the socket and nothing is read or hashed twice.

use super::WireError;
use super::codec::{Decoder, Encoder};

/// Bytes of file content hashed, verified and journalled as one; a power of two, so that the
/// BLAKE3 subtree of a chunk is a node of the whole file's BLAKE3 tree.
pub const CHUNK_SIZE: u64 = 1 << 20;
/// The most chunks one hole frame may stand for.
pub const HOLE_CHUNKS: u64 = 64;
/// Bytes of an encoded header.
pub const HEADER_SIZE: usize = 32;
/// Bytes of an encoded trailer.
pub const TRAILER_SIZE: usize = 40;

const CHECKED: usize = 24;

/// What follows a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// One chunk of a file: `length` bytes of payload, then a trailer.
    Chunk,
    /// `length` bytes of zeros that are not sent; no payload, no trailer.
    Hole,
    /// The sender has nothing more for this operation; the connection stays open.
    End,
}

/// The fixed start of every data frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// What follows.
    pub kind: FrameKind,
    /// The file's number in this operation, as offered.
    pub file: u64,
    /// Where in the file the payload belongs, in bytes; a multiple of [`CHUNK_SIZE`].
    pub offset: u64,
    /// Payload bytes: at most a chunk, or [`HOLE_CHUNKS`] chunks of hole.
    pub length: u32,
}

impl FrameHeader {
    /// The end-of-operation frame.
    pub const END: Self = Self { kind: FrameKind::End, file: 0, offset: 0, length: 0 };

    /// The 32 bytes on the wire; the last eight are a check of the others, so that a damaged
    /// header cannot send good data to the wrong place.
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let kind = match self.kind {
            FrameKind::Chunk => 1,
            FrameKind::Hole => 2,
            FrameKind::End => 3,
        };
        let mut fields = Encoder::default();
        fields.u8(kind).fixed(&[0; 3]).u32(self.length).u64(self.file).u64(self.offset);
        let mut bytes = [0; HEADER_SIZE];
        bytes[..CHECKED].copy_from_slice(&fields.finish());
        let check = super::check(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&check);
        bytes
    }

    /// Reads a header and checks every field against its limit.
    pub fn decode(bytes: &[u8; HEADER_SIZE]) -> Result<Self, WireError> {
        let (fields, check) = bytes.split_at(CHECKED);
        if super::check(fields) != check {
            return Err(WireError::Check);
        }
        let mut fields = Decoder::new(fields);
        let kind = match fields.u8()? {
            1 => FrameKind::Chunk,
            2 => FrameKind::Hole,
            3 => FrameKind::End,
            value => return Err(WireError::Value { field: "frame kind", value: value.into() }),
        };
        fields.take(3)?;
        let length = fields.u32()?;
        let header = Self { kind, length, file: fields.u64()?, offset: fields.u64()? };
        header.checked()
    }

    fn checked(self) -> Result<Self, WireError> {
        let limit = match self.kind {
            FrameKind::Chunk => CHUNK_SIZE,
            FrameKind::Hole => CHUNK_SIZE * HOLE_CHUNKS,
            FrameKind::End => 0,
        };
        if u64::from(self.length) > limit {
            let (length, limit) = (self.length as usize, limit as usize);
            return Err(WireError::TooLong { field: "frame", length, limit });
        }
        let end = self.offset.checked_add(u64::from(self.length));
        if !self.offset.is_multiple_of(CHUNK_SIZE) || end.is_none_or(|end| end > i64::MAX as u64) {
            return Err(WireError::Value { field: "frame offset", value: self.offset });
        }
        Ok(self)
    }
}

/// The fixed end of a chunk frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTrailer {
    /// False when the sender could not read the file to the end of the chunk: the payload was
    /// filled up with zeros and must be dropped.
    pub complete: bool,
    /// The chunk's BLAKE3 subtree value, or the file's hash where the file is one chunk; zeros
    /// when hashing is off.
    pub hash: [u8; 32],
}

impl FrameTrailer {
    /// The 40 bytes on the wire.
    pub fn encode(&self) -> [u8; TRAILER_SIZE] {
        let mut bytes = [0; TRAILER_SIZE];
        bytes[0] = self.complete.into();
        bytes[8..].copy_from_slice(&self.hash);
        bytes
    }

    /// Reads a trailer.
    pub fn decode(bytes: &[u8; TRAILER_SIZE]) -> Result<Self, WireError> {
        let mut fields = Decoder::new(bytes);
        let complete = fields.flag()?;
        fields.take(7)?;
        Ok(Self { complete, hash: fields.fixed()? })
    }
}
