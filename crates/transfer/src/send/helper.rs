//! Another receiver, as the sender knows it: what it was lent, was sent, and says it has written.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_units::Rate;

use super::large::LargeFile;
use crate::wire::{CHUNK_SIZE, WrittenChunk};
use crate::{helper, socket};

/// One of the other receivers.
pub(super) type Helper = helper::Helper<Lent>;

/// What another receiver was lent and sent.
#[derive(Default)]
pub(crate) struct Lent {
    /// Data connections that take nothing more.
    done: usize,
    /// How it stands with each file that it is to help with.
    files: HashMap<u64, Standing>,
    /// What it was sent, by file and chunk, and has not said to be written.
    under_way: HashMap<(u64, u64), UnderWay>,
    /// What it has said to be written, of files that are not complete.
    told: HashSet<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The first receiver was asked to lend it.
    Asked,
    /// The helper has it open.
    Open,
    /// It is not lent.
    Refused,
}

/// A chunk that a helper was sent.
pub(super) struct UnderWay {
    pub(super) file: Arc<LargeFile>,
    /// Once all of its content was handed to the kernel.
    pub(super) hash: Option<[u8; 32]>,
}

/// What a data connection of a helper is to do about a file.
pub(super) enum Next {
    Take,
    Ask,
    Wait,
}

/// What a data connection of a helper is to send.
pub(super) enum Ahead {
    /// A chunk of a file, by its place and length.
    Chunk(Arc<LargeFile>, u64, usize),
    /// Nothing now.
    Nothing,
    /// Nothing more.
    Over,
}

/// What is left of a helper.
pub(super) struct Left {
    pub(super) files: Vec<u64>,
    pub(super) under_way: HashMap<(u64, u64), UnderWay>,
}

impl Helper {
    /// Whether it may have more of a file, as far as is known.
    pub(super) fn wants(&self, file: &LargeFile) -> bool {
        let standing = self.state().work.files.get(&file.number).copied();
        matches!(standing, None | Some(Standing::Open))
    }

    pub(super) fn next_of(&self, file: &LargeFile) -> Next {
        let mut state = self.state();
        if state.over {
            return Next::Wait;
        }
        match state.work.files.entry(file.number) {
            Entry::Occupied(known) if *known.get() == Standing::Open => Next::Take,
            Entry::Occupied(_) => Next::Wait,
            Entry::Vacant(unknown) => {
                unknown.insert(Standing::Asked);
                Next::Ask
            }
        }
    }

    /// A chunk goes to it; false if it takes nothing more.
    pub(super) fn take(&self, file: &Arc<LargeFile>, offset: u64) -> bool {
        let mut state = self.state();
        let is_open = state.work.files.get(&file.number) == Some(&Standing::Open);
        if state.over || !is_open {
            return false;
        }
        let under_way = UnderWay { file: Arc::clone(file), hash: None };
        state.work.under_way.insert((file.number, offset / CHUNK_SIZE), under_way);
        true
    }

    /// The content of a chunk has been handed to the kernel; false if it is not its any more.
    pub(super) fn note(&self, file: u64, offset: u64, hash: [u8; 32]) -> bool {
        let mut state = self.state();
        let under_way = state.work.under_way.get_mut(&(file, offset / CHUNK_SIZE));
        under_way.map(|one| one.hash = Some(hash)).is_some()
    }

    /// Forgets a file; says, if it was lent, whether nothing of it is still to be written.
    pub(super) fn retire(&self, file: u64) -> Option<bool> {
        let mut state = self.state();
        state.work.told.retain(|(number, _)| *number != file);
        let before = state.work.under_way.len();
        state.work.under_way.retain(|(number, _), _| *number != file);
        let clean = state.work.under_way.len() == before;
        let standing = state.work.files.remove(&file)?;
        (standing != Standing::Refused).then_some(clean)
    }

    /// It takes nothing more; what is left of it, the first time.
    pub(super) fn end(&self) -> Option<Left> {
        self.end_with(|work| {
            let lent = work.files.drain().filter(|(_, standing)| *standing != Standing::Refused);
            let files = lent.map(|(file, _)| file).collect();
            Left { files, under_way: std::mem::take(&mut work.under_way) }
        })
    }

    /// How it stands with a file.
    pub(super) fn standing(&self, file: u64) -> Option<Standing> {
        self.state().work.files.get(&file).copied()
    }

    /// How it stands from now on with a file that it knows.
    pub(super) fn set_standing(&self, file: u64, standing: Standing) {
        if let Some(known) = self.state().work.files.get_mut(&file) {
            *known = standing;
        }
    }

    /// A data connection has sent all; says whether it was the last.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.state();
        state.work.done += 1;
        state.work.done == state.sockets.len()
    }

    /// Nothing that it was sent is still to be written.
    pub(super) fn is_done(&self) -> bool {
        self.state().work.under_way.is_empty()
    }

    /// Whether it has had chunks for so long, and has neither taken more nor written any. While
    /// paused it may: what it has of a chunk is not all of it.
    pub(super) fn is_stuck(&self, silence: Duration, rate: Rate) -> bool {
        let mut state = self.state();
        let taken = state.sockets.iter().filter_map(|one| socket::bytes_acked(one).ok()).sum();
        let has_some = state.work.under_way.values().any(|one| one.hash.is_some());
        state.is_stuck((silence, rate), taken, !has_some)
    }

    /// Whether it has said that it wrote a chunk; from now on it has not.
    pub(super) fn take_told(&self, file: u64, chunk: u64) -> bool {
        self.state().work.told.remove(&(file, chunk))
    }

    /// It says it has written chunks: those with their hashes, none of a file that it does not
    /// have any more. `None`: it was not sent them.
    pub(super) fn take_stored(&self, file: u64, chunks: &[u64]) -> Option<Vec<WrittenChunk>> {
        let mut state = self.state();
        if !state.work.files.contains_key(&file) {
            return Some(Vec::new());
        }
        let hash_of = |chunk: &u64| {
            let hash = state.work.under_way.get(&(file, *chunk))?.hash?;
            Some(WrittenChunk { chunk: *chunk, hash })
        };
        // All or none: what stays under way is sent again when the helper is lost.
        let written: Vec<WrittenChunk> = chunks.iter().map(hash_of).collect::<Option<_>>()?;
        if !chunks.is_empty() {
            state.moved = Some(Instant::now());
        }
        for chunk in chunks {
            state.work.under_way.remove(&(file, *chunk));
            state.work.told.insert((file, *chunk));
        }
        Some(written)
    }
}
