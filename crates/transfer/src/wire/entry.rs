//! What is copied: files, directories and links, with their attributes.

use super::WireError;
use super::codec::{Decoder, Encoder};
use super::path::{PATH_LIMIT, RelativePath};

const SECOND: i128 = 1_000_000_000;

/// A regular file on offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Where it goes, below the operation's destination.
    pub path: RelativePath,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Modification time, nanoseconds since 1970.
    pub modified_ns: i128,
    /// Permission bits (0o777).
    pub mode: u16,
    /// It has holes, which the receiver shall keep.
    pub sparse: bool,
}

/// A directory, sent after all files so that its times and mode stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Where it goes.
    pub path: RelativePath,
    /// Modification time, nanoseconds since 1970.
    pub modified_ns: i128,
    /// Permission bits (0o777).
    pub mode: u16,
}

/// A symbolic link, copied as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEntry {
    /// Where it goes.
    pub path: RelativePath,
    /// What it says.
    pub target: Vec<u8>,
}

impl FileEntry {
    pub(super) fn encode(&self, out: &mut Encoder, time: WriteTime) {
        out.bytes(self.path.as_bytes()).u64(self.size_bytes);
        time(out, self.modified_ns);
        out.u16(self.mode).u8(self.sparse.into());
    }

    pub(super) fn decode(input: &mut Decoder<'_>, time: ReadTime) -> Result<Self, WireError> {
        let path = decode_path(input)?;
        let size_bytes = input.u64()?;
        if size_bytes > i64::MAX as u64 {
            return Err(WireError::Value { field: "file size", value: size_bytes });
        }
        let (modified_ns, mode) = (time(input)?, decode_mode(input)?);
        Ok(Self { path, size_bytes, modified_ns, mode, sparse: input.flag()? })
    }
}

impl DirectoryEntry {
    pub(super) fn encode(&self, out: &mut Encoder, time: WriteTime) {
        out.bytes(self.path.as_bytes());
        time(out, self.modified_ns);
        out.u16(self.mode);
    }

    pub(super) fn decode(input: &mut Decoder<'_>, time: ReadTime) -> Result<Self, WireError> {
        let (path, modified_ns) = (decode_path(input)?, time(input)?);
        Ok(Self { path, modified_ns, mode: decode_mode(input)? })
    }
}

impl LinkEntry {
    pub(super) fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        let path = decode_path(input)?;
        Ok(Self { path, target: input.bytes("link target", PATH_LIMIT)?.to_vec() })
    }
}

/// A relative path, checked.
fn decode_path(input: &mut Decoder<'_>) -> Result<RelativePath, WireError> {
    RelativePath::new(input.bytes("path", PATH_LIMIT)?)
}

/// Permission bits only: set-id bits from another machine never pass.
fn decode_mode(input: &mut Decoder<'_>) -> Result<u16, WireError> {
    match input.u16()? {
        mode if mode <= 0o777 => Ok(mode),
        mode => Err(WireError::Value { field: "mode", value: mode.into() }),
    }
}

/// Whether a time is further from 1970 than 64 bits of nanoseconds hold: before 1677 or after 2262.
pub(super) fn is_far(modified_ns: i128) -> bool {
    // The ends of the range stand for all that lies beyond.
    !(i128::from(i64::MIN) + 1..i128::from(i64::MAX)).contains(&modified_ns)
}

pub(super) type WriteTime = fn(&mut Encoder, i128);
pub(super) type ReadTime = fn(&mut Decoder<'_>) -> Result<i128, WireError>;

pub(super) fn near_time(out: &mut Encoder, modified_ns: i128) {
    let near = modified_ns.clamp(i64::MIN.into(), i64::MAX.into());
    out.i64(near as i64);
}

pub(super) fn read_near_time(input: &mut Decoder<'_>) -> Result<i128, WireError> {
    Ok(input.i64()?.into())
}

/// Seconds since 1970 and nanoseconds of the second.
pub(super) fn far_time(out: &mut Encoder, modified_ns: i128) {
    out.i64(modified_ns.div_euclid(SECOND) as i64).u32(modified_ns.rem_euclid(SECOND) as u32);
}

pub(super) fn read_far_time(input: &mut Decoder<'_>) -> Result<i128, WireError> {
    let (seconds, nanoseconds) = (input.i64()?, input.u32()?);
    if i128::from(nanoseconds) >= SECOND {
        return Err(WireError::Value { field: "nanoseconds", value: nanoseconds.into() });
    }
    Ok(i128::from(seconds) * SECOND + i128::from(nanoseconds))
}
