//! Messages of a file that several receivers write together; `encoding` has all others.

use super::WireError;
use super::codec::{Decoder, Encoder, LIST_LIMIT};
use super::message::{Message, WrittenChunk};
use super::path::{PATH_LIMIT, RelativePath};

/// Receivers beside the first one.
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
