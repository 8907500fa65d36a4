//! Messages of a file that several receivers write together, or several senders send; `encoding`
//! has all others.

use super::WireError;
use super::answer::ChunkRun;
use super::codec::{Decoder, Encoder, LIST_LIMIT};
use super::entry::{far_time, read_far_time};
use super::message::{Message, WrittenChunk};
use super::path::{PATH_LIMIT, RelativePath};

/// Receivers, or senders, beside the first one.
const HELPERS_MAX: u8 = 64;

impl Message {
    pub(super) fn encode_stripe_fields(&self, out: &mut Encoder) {
        match self {
            Self::Lend { file, helper } => {
                out.u8(52).u64(*file).u8(*helper);
            }
            Self::Lent { file, helper, exact, lease } => {
                out.u8(53).u64(*file).u8(*helper).u8((*exact).into()).u8(lease.is_some().into());
                out.fixed(lease.as_ref().map_or(&[], |lease| &lease[..]));
            }
            Self::Written { file, chunks } => {
                out.u8(54).u64(*file).list(chunks, |out, one| {
                    out.u64(one.chunk).fixed(&one.hash);
                });
            }
            Self::Unseen { file, chunks } => encode_chunks(out, 55, *file, chunks),
            Self::TakeBack { file, helper, clean } => {
                out.u8(56).u64(*file).u8(*helper).u8((*clean).into());
            }
            Self::Lease { file, helper, path, size_bytes, sparse, exact, lease } => {
                out.u8(57).u64(*file).u8(*helper).bytes(path.as_bytes()).u64(*size_bytes);
                out.u8((*sparse).into()).u8((*exact).into()).fixed(lease);
            }
            Self::Opened { file } => {
                out.u8(58).u64(*file);
            }
            Self::Stored { file, chunks } => encode_chunks(out, 59, *file, chunks),
            Self::Ask { helper, chunks } => {
                out.u8(60).u8(*helper).u16(*chunks);
            }
            Self::Dealt { file, helper, first, hashes } => {
                out.u8(61).u64(*file).u8(*helper).u64(*first).list(hashes, |out, hash| {
                    out.fixed(hash);
                });
            }
            Self::Return { file, chunks } => encode_chunks(out, 62, *file, chunks),
            Self::Want { file, path, size_bytes, modified_ns, run } => {
                out.u8(63).u64(*file).bytes(path.as_bytes()).u64(*size_bytes);
                far_time(out, *modified_ns);
                out.u64(run.first).u64(run.count);
            }
            _ => unreachable!("every other message is encoded elsewhere"),
        }
    }

    pub(super) fn decode_stripe_fields(
        kind: u8,
        input: &mut Decoder<'_>,
    ) -> Result<Self, WireError> {
        Ok(match kind {
            52 => Self::Lend { file: input.u64()?, helper: helper(input)? },
            53 => {
                let (file, helper, exact) = (input.u64()?, helper(input)?, input.flag()?);
                let lease = if input.flag()? { Some(input.fixed()?) } else { None };
                Self::Lent { file, helper, exact, lease }
            }
            54 => Self::Written {
                file: input.u64()?,
                chunks: input.list("written", LIST_LIMIT, |input| {
                    Ok(WrittenChunk { chunk: input.u64()?, hash: input.fixed()? })
                })?,
            },
            55 => Self::Unseen { file: input.u64()?, chunks: chunks(input)? },
            56 => {
                Self::TakeBack { file: input.u64()?, helper: helper(input)?, clean: input.flag()? }
            }
            57 => Self::Lease {
                file: input.u64()?,
                helper: helper(input)?,
                path: RelativePath::new(input.bytes("path", PATH_LIMIT)?)?,
                size_bytes: input.u64()?,
                sparse: input.flag()?,
                exact: input.flag()?,
                lease: input.fixed()?,
            },
            58 => Self::Opened { file: input.u64()? },
            59 => Self::Stored { file: input.u64()?, chunks: chunks(input)? },
            60 => Self::Ask { helper: helper(input)?, chunks: input.u16()? },
            61 => Self::Dealt {
                file: input.u64()?,
                helper: helper(input)?,
                first: input.u64()?,
                hashes: input.list("dealt", LIST_LIMIT, Decoder::fixed)?,
            },
            62 => Self::Return { file: input.u64()?, chunks: chunks(input)? },
            63 => Self::Want {
                file: input.u64()?,
                path: RelativePath::new(input.bytes("path", PATH_LIMIT)?)?,
                size_bytes: input.u64()?,
                modified_ns: read_far_time(input)?,
                run: ChunkRun { first: input.u64()?, count: input.u64()? },
            },
            kind => return Err(WireError::Value { field: "message kind", value: kind.into() }),
        })
    }
}

fn encode_chunks(out: &mut Encoder, kind: u8, file: u64, chunks: &[u64]) {
    out.u8(kind).u64(file).list(chunks, |out, chunk| {
        out.u64(*chunk);
    });
}

fn chunks(input: &mut Decoder<'_>) -> Result<Vec<u64>, WireError> {
    input.list("chunks", LIST_LIMIT, Decoder::u64)
}

fn helper(input: &mut Decoder<'_>) -> Result<u8, WireError> {
    match input.u8()? {
        helper @ ..HELPERS_MAX => Ok(helper),
        value => Err(WireError::Value { field: "helper", value: value.into() }),
    }
}
