//! Another receiver, as the sender knows it: what it was lent, was sent, and says it has written.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::large::LargeFile;
use crate::connection::Connection;
use crate::control::ControlWriter;
use crate::socket;
use crate::wire::{CHUNK_SIZE, Message, WrittenChunk};

/// One of the other receivers.
pub(super) struct Helper {
    pub(super) number: u8,
    pub(super) name: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    control: Option<ControlWriter>,
    sockets: Vec<Arc<TcpStream>>,
    /// Data connections that may take more.
    at_work: usize,
    /// How it stands with each file that it is to help with.
    files: HashMap<u64, Standing>,
    /// What it was sent, by file and chunk, and has not said to be written.
    under_way: HashMap<(u64, u64), UnderWay>,
    /// What it had taken on its connections at the last look, and when it took some, or said to
    /// have written some.
    taken: u64,
    moved: Option<Instant>,
    /// What it has said to be written, of files that are not complete.
    told: HashSet<(u64, u64)>,
    /// It takes nothing more: it is lost, or all is done.
    over: bool,
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
    pub(super) fn new(number: usize, name: &str) -> Self {
        let number = u8::try_from(number).unwrap_or(u8::MAX);
        Self { number, name: name.to_owned(), state: Mutex::default() }
    }

    /// Its place among all receivers, of which the first one is 0.
    pub(super) fn place(&self) -> usize {
        usize::from(self.number) + 1
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is reached; false if nothing is to be done any more.
    pub(super) fn begin(&self, control: &ControlWriter, sockets: &[Arc<TcpStream>]) -> bool {
        let mut state = self.state();
        state.control = Some(control.clone());
        state.sockets = sockets.to_vec();
        state.at_work = sockets.len();
        !state.over
    }

    /// Whether it may have more of a file, as far as is known.
    pub(super) fn wants(&self, file: &LargeFile) -> bool {
        let standing = self.state().files.get(&file.number).copied();
        matches!(standing, None | Some(Standing::Open))
    }

    pub(super) fn next_of(&self, file: &LargeFile) -> Next {
        let mut state = self.state();
        if state.over {
            return Next::Wait;
        }
        match state.files.entry(file.number) {
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
        let is_open = state.files.get(&file.number) == Some(&Standing::Open);
        if state.over || !is_open {
            return false;
        }
        let under_way = UnderWay { file: Arc::clone(file), hash: None };
        state.under_way.insert((file.number, offset / CHUNK_SIZE), under_way);
        true
    }

    /// The content of a chunk has been handed to the kernel; false if it is not its any more.
    pub(super) fn note(&self, file: u64, offset: u64, hash: [u8; 32]) -> bool {
        let mut state = self.state();
        let under_way = state.under_way.get_mut(&(file, offset / CHUNK_SIZE));
        under_way.map(|one| one.hash = Some(hash)).is_some()
    }

    pub(super) fn tell(&self, message: &Message) {
        let control = self.state().control.clone();
        if let Some(control) = control
            && control.send(message).is_err()
        {
            // Whoever reads from it finds out now, though it may still talk.
            control.shut_down();
        }
    }

    /// Forgets a file; says, if it was lent, whether nothing of it is still to be written.
    pub(super) fn retire(&self, file: u64) -> Option<bool> {
        let mut state = self.state();
        state.told.retain(|(number, _)| *number != file);
        let before = state.under_way.len();
        state.under_way.retain(|(number, _), _| *number != file);
        let clean = state.under_way.len() == before;
        let standing = state.files.remove(&file)?;
        (standing != Standing::Refused).then_some(clean)
    }

    /// It takes nothing more; what is left of it, the first time.
    pub(super) fn end(&self) -> Option<Left> {
        let mut state = self.state();
        let was_over = std::mem::replace(&mut state.over, true);
        if let Some(control) = &state.control {
            control.shut_down();
        }
        state.sockets.iter().for_each(|socket| Connection::shut_down(socket));
        let lent = state.files.drain().filter(|(_, standing)| *standing != Standing::Refused);
        let files = lent.map(|(file, _)| file).collect();
        let under_way = std::mem::take(&mut state.under_way);
        (!was_over).then_some(Left { files, under_way })
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().over
    }

    /// How it stands with a file.
    pub(super) fn standing(&self, file: u64) -> Option<Standing> {
        self.state().files.get(&file).copied()
    }

    /// How it stands from now on with a file that it knows.
    pub(super) fn set_standing(&self, file: u64, standing: Standing) {
        if let Some(known) = self.state().files.get_mut(&file) {
            *known = standing;
        }
    }

    /// A data connection has sent all; says whether it was the last.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.state();
        state.at_work -= 1;
        state.at_work == 0
    }

    /// Nothing that it was sent is still to be written.
    pub(super) fn is_done(&self) -> bool {
        self.state().under_way.is_empty()
    }

    /// Whether it has had chunks for so long, and has neither taken more nor written any. While
    /// paused it may: what it has of a chunk is not all of it.
    pub(super) fn is_stuck(&self, silence: Duration, is_paused: bool) -> bool {
        let mut state = self.state();
        let taken = state.sockets.iter().filter_map(|one| socket::bytes_acked(one).ok()).sum();
        let has_some = state.under_way.values().any(|one| one.hash.is_some());
        if !has_some || is_paused || taken != std::mem::replace(&mut state.taken, taken) {
            state.moved = Some(Instant::now());
        }
        state.moved.is_some_and(|moved| moved.elapsed() >= silence)
    }

    /// Whether it has said that it wrote a chunk; from now on it has not.
    pub(super) fn take_told(&self, file: u64, chunk: u64) -> bool {
        self.state().told.remove(&(file, chunk))
    }

    /// It says it has written chunks: those with their hashes, none of a file that it does not
    /// have any more. `None`: it was not sent them.
    pub(super) fn take_stored(&self, file: u64, chunks: &[u64]) -> Option<Vec<WrittenChunk>> {
        let mut state = self.state();
        if !state.files.contains_key(&file) {
            return Some(Vec::new());
        }
        let hash_of = |chunk: &u64| {
            let hash = state.under_way.get(&(file, *chunk))?.hash?;
            Some(WrittenChunk { chunk: *chunk, hash })
        };
        // All or none: what stays under way is sent again when the helper is lost.
        let written: Vec<WrittenChunk> = chunks.iter().map(hash_of).collect::<Option<_>>()?;
        if !chunks.is_empty() {
            state.moved = Some(Instant::now());
        }
        for chunk in chunks {
            state.under_way.remove(&(file, *chunk));
            state.told.insert((file, *chunk));
        }
        Some(written)
    }
}
