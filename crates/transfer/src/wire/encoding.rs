//! Messages as bytes: `[length u32][kind u8][fields][check 8]`.

use super::WireError;
use super::answer::{Answer, Settled};
use super::codec::{Decoder, Encoder, LIST_LIMIT};
use super::entry::{
    DirectoryEntry, FileEntry, LinkEntry, far_time, is_far, near_time, read_far_time,
    read_near_time,
};
use super::failure::{FailureCode, TEXT_LIMIT, shortened};
use super::message::{Message, NEWEST, PREFIX_SIZE, Role, VERSION};
use super::options::{CONGESTION_LIMIT, Options};
use super::path::PATH_LIMIT;

const MAGIC: [u8; 8] = *b"WEIRMOVE";
const CHECK_SIZE: usize = 8;

/// The length of the message that follows a prefix, or why it cannot be one.
pub fn message_length(prefix: [u8; PREFIX_SIZE], limit: usize) -> Result<usize, WireError> {
    let length = u32::from_be_bytes(prefix) as usize;
    if length > limit {
        return Err(WireError::TooLong { field: "message", length, limit });
    }
    if length <= CHECK_SIZE { Err(WireError::Truncated) } else { Ok(length) }
}

impl Message {
    /// The bytes on the wire for a peer of the newest version, prefix included.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_for(NEWEST)
    }

    /// The bytes on the wire for a peer that speaks `version`, prefix included.
    pub fn encode_for(&self, version: u16) -> Vec<u8> {
        let mut out = Encoder::default();
        out.u32(0);
        match self {
            Self::Offer { first, files }
                if version > VERSION && files.iter().any(|file| is_far(file.modified_ns)) =>
            {
                out.u8(45).u64(*first).list(files, |out, file| file.encode(out, far_time));
            }
            Self::Directories(list)
                if version > VERSION && list.iter().any(|one| is_far(one.modified_ns)) =>
            {
                out.u8(46).list(list, |out, one| one.encode(out, far_time));
            }
            _ => self.encode_fields(&mut out),
        }
        let mut bytes = out.finish();
        let check = super::check(&bytes[PREFIX_SIZE..]);
        bytes.extend_from_slice(&check);
        let length = u32::try_from(bytes.len() - PREFIX_SIZE).expect("batches are small");
        bytes[..PREFIX_SIZE].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    fn encode_fields(&self, out: &mut Encoder) {
        match self {
            Self::Hello { role, token } => {
                let role = if *role == Role::Control { 0 } else { 1 };
                out.u8(1).fixed(&MAGIC).u16(VERSION).u8(role).fixed(token);
            }
            Self::Welcome { token, version, streams_max } => {
                out.u8(2).u16(*version).fixed(token).u16(*streams_max);
            }
            Self::Failure { code, message } => {
                out.u8(3).u8(*code as u8).bytes(shortened(message));
            }
            Self::Put { destination, options } => {
                out.u8(16).bytes(destination);
                options.encode(out);
            }
            Self::Get { sources, options } => encode_sources(out, 17, sources, options),
            Self::Supply { sources, options } => encode_sources(out, 21, sources, options),
            Self::Catalogue { place, options } => {
                out.u8(19).bytes(place);
                options.encode(out);
            }
            Self::Assist { destination, options } => {
                out.u8(20).bytes(destination);
                options.encode(out);
            }
            Self::Ready => {
                out.u8(18);
            }
            Self::SetRate { rate_bps } => {
                out.u8(48).u64(*rate_bps);
            }
            Self::SetCongestion { name } => {
                out.u8(49).bytes(name.as_bytes());
            }
            Self::Ping => {
                out.u8(50);
            }
            Self::Joined { streams } => {
                out.u8(51).u16(*streams);
            }
            _ => self.encode_file_fields(out),
        }
    }

    fn encode_file_fields(&self, out: &mut Encoder) {
        match self {
            Self::Begin { single_file } => {
                out.u8(32).u8((*single_file).into());
            }
            Self::Offer { first, files } => {
                out.u8(33).u64(*first).list(files, |out, file| file.encode(out, near_time));
            }
            Self::Answers(answers) => {
                out.u8(34).list(answers, |out, answer| answer.encode(out));
            }
            Self::Received { file } => {
                out.u8(35).u64(*file);
            }
            Self::Content { file, hash } => {
                out.u8(47).u64(*file).fixed(hash);
            }
            Self::Commit { file, hash } => {
                out.u8(36).u64(*file).u8(hash.is_some().into());
                out.fixed(hash.as_ref().map_or(&[], |hash| &hash[..]));
            }
            Self::Committed(settled) => {
                out.u8(37).list(settled, |out, one| {
                    out.u64(one.file).fixed(&one.hash);
                });
            }
            Self::FileFailed { file, code, message } => {
                out.u8(38).u64(*file).u8(*code as u8).bytes(shortened(message));
            }
            Self::Progress { received_bytes, durable_bytes } => {
                out.u8(39).u64(*received_bytes).u64(*durable_bytes);
            }
            Self::Totals { files, size_bytes, complete } => {
                out.u8(40).u64(*files).u64(*size_bytes).u8((*complete).into());
            }
            Self::Links(links) => {
                out.u8(41).list(links, |out, link| {
                    out.bytes(link.path.as_bytes()).bytes(&link.target);
                });
            }
            Self::Directories(directories) => {
                out.u8(42).list(directories, |out, one| one.encode(out, near_time));
            }
            Self::Skipped { message } => {
                out.u8(64).bytes(shortened(message));
            }
            Self::Unset { message } => {
                out.u8(65).bytes(shortened(message));
            }
            Self::Finish => {
                out.u8(43);
            }
            Self::Finished => {
                out.u8(44);
            }
            _ => self.encode_stripe_fields(out),
        }
    }

    /// Reads a message without its prefix.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let fields = bytes.len().checked_sub(CHECK_SIZE).ok_or(WireError::Truncated)?;
        let (fields, check) = bytes.split_at(fields);
        if super::check(fields) != check {
            return Err(WireError::Check);
        }
        let mut input = Decoder::new(fields);
        let message = Self::decode_fields(&mut input)?;
        input.end()?;
        Ok(message)
    }

    fn decode_fields(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            1 => Self::decode_hello(input)?,
            2 => {
                let version = match input.u16()? {
                    version @ VERSION..=NEWEST => version,
                    version => return Err(WireError::Version(version)),
                };
                Self::Welcome { version, token: input.fixed()?, streams_max: input.u16()? }
            }
            3 => Self::Failure {
                code: FailureCode::decode(input)?,
                message: input.text("message", TEXT_LIMIT)?,
            },
            16 => Self::Put {
                destination: input.bytes("destination", PATH_LIMIT)?.to_vec(),
                options: Options::decode(input)?,
            },
            17 => Self::Get { sources: sources(input)?, options: Options::decode(input)? },
            21 => Self::Supply { sources: sources(input)?, options: Options::decode(input)? },
            20 => Self::Assist {
                destination: input.bytes("destination", PATH_LIMIT)?.to_vec(),
                options: Options::decode(input)?,
            },
            18 => Self::Ready,
            19 => Self::Catalogue {
                place: input.bytes("place", PATH_LIMIT)?.to_vec(),
                options: Options::decode(input)?,
            },
            48 => Self::SetRate { rate_bps: input.u64()? },
            49 => Self::SetCongestion { name: input.text("congestion", CONGESTION_LIMIT)? },
            50 => Self::Ping,
            51 => Self::Joined { streams: input.u16()? },
            kind => return Self::decode_file_fields(kind, input),
        })
    }

    fn decode_hello(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        if input.fixed()? != MAGIC {
            return Err(WireError::Magic);
        }
        check_version(input)?;
        let role = if input.flag()? { Role::Data } else { Role::Control };
        Ok(Self::Hello { role, token: input.fixed()? })
    }

    fn decode_file_fields(kind: u8, input: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(match kind {
            32 => Self::Begin { single_file: input.flag()? },
            33 => Self::Offer {
                first: input.u64()?,
                files: input
                    .list("offer", LIST_LIMIT, |input| FileEntry::decode(input, read_near_time))?,
            },
            45 => Self::Offer {
                first: input.u64()?,
                files: input
                    .list("offer", LIST_LIMIT, |input| FileEntry::decode(input, read_far_time))?,
            },
            34 => Self::Answers(input.list("answers", LIST_LIMIT, Answer::decode)?),
            35 => Self::Received { file: input.u64()? },
            47 => Self::Content { file: input.u64()?, hash: input.fixed()? },
            36 => {
                let (file, known) = (input.u64()?, input.flag()?);
                Self::Commit { file, hash: if known { Some(input.fixed()?) } else { None } }
            }
            37 => Self::Committed(input.list("committed", LIST_LIMIT, |input| {
                Ok(Settled { file: input.u64()?, hash: input.fixed()? })
            })?),
            38 => Self::FileFailed {
                file: input.u64()?,
                code: FailureCode::decode(input)?,
                message: input.text("message", TEXT_LIMIT)?,
            },
            39 => Self::Progress { received_bytes: input.u64()?, durable_bytes: input.u64()? },
            40 => Self::Totals {
                files: input.u64()?,
                size_bytes: input.u64()?,
                complete: input.flag()?,
            },
            41 => Self::Links(input.list("links", LIST_LIMIT, LinkEntry::decode)?),
            42 => Self::Directories(input.list("directories", LIST_LIMIT, |input| {
                DirectoryEntry::decode(input, read_near_time)
            })?),
            46 => Self::Directories(input.list("directories", LIST_LIMIT, |input| {
                DirectoryEntry::decode(input, read_far_time)
            })?),
            64 => Self::Skipped { message: input.text("message", TEXT_LIMIT)? },
            65 => Self::Unset { message: input.text("message", TEXT_LIMIT)? },
            43 => Self::Finish,
            44 => Self::Finished,
            kind => return Self::decode_stripe_fields(kind, input),
        })
    }
}

fn encode_sources(out: &mut Encoder, kind: u8, sources: &[Vec<u8>], options: &Options) {
    out.u8(kind).list(sources, |out, source| {
        out.bytes(source);
    });
    options.encode(out);
}

fn sources(input: &mut Decoder<'_>) -> Result<Vec<Vec<u8>>, WireError> {
    input.list("sources", LIST_LIMIT, |input| Ok(input.bytes("source", PATH_LIMIT)?.to_vec()))
}

fn check_version(input: &mut Decoder<'_>) -> Result<(), WireError> {
    match input.u16()? {
        VERSION => Ok(()),
        version => Err(WireError::Version(version)),
    }
}
