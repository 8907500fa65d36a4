//! What a receiver says of the files on offer.

use super::WireError;
use super::codec::{Decoder, Encoder, LIST_LIMIT};

/// `count` chunks from chunk number `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRun {
    /// The first chunk's number.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// What the receiver has of an offered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerState {
    /// It is under the final name already: by its size and time or, where that was asked for, by
    /// its content.
    Present,
    /// A file of the same size has the final name: the sender is to tell the content's hash.
    Alike,
    /// These chunks are missing; the others are verified and durable.
    Missing(Vec<ChunkRun>),
}

/// The receiver's answer about one offered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The file's number.
    pub file: u64,
    /// What the receiver has of it.
    pub state: AnswerState,
}

/// A file that stands under its final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The file's number.
    pub file: u64,
    /// Its BLAKE3 hash; zeros when hashing is off.
    pub hash: [u8; 32],
}

impl Answer {
    pub(super) fn encode(&self, out: &mut Encoder) {
        out.u64(self.file);
        match &self.state {
            AnswerState::Present => out.u8(0),
            AnswerState::Alike => out.u8(2),
            AnswerState::Missing(runs) => out.u8(1).list(runs, |out, run| {
                out.u64(run.first).u64(run.count);
            }),
        };
    }

    pub(super) fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        let file = input.u64()?;
        let state = match input.u8()? {
            0 => AnswerState::Present,
            1 => AnswerState::Missing(input.list("missing chunks", LIST_LIMIT, |input| {
                Ok(ChunkRun { first: input.u64()?, count: input.u64()? })
            })?),
            2 => AnswerState::Alike,
            value => return Err(WireError::Value { field: "answer", value: value.into() }),
        };
        Ok(Self { file, state })
    }
}
