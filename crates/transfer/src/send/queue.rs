//! Work that is ready to be sent, shared by all data connections of one operation.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::large::{LargeFile, Span};

/// One piece of work for one connection.
pub(crate) enum Work {
    /// A file of a single chunk, by its number.
    Whole(u64),
    /// A chunk, or a run of zeros, of a larger file.
    Span(Arc<LargeFile>, Span),
}

enum Item {
    Whole(u64),
    Large(Arc<LargeFile>),
}

/// What a look for a large file found.
pub(crate) enum Look {
    Found(Arc<LargeFile>),
    Nothing,
    /// There is no work and none will come.
    Over,
}

/// First in, first out; all connections take chunks of the same large file together.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    ready: Condvar,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    closed: bool,
}

impl Queue {
    pub(crate) fn push_whole(&self, files: impl IntoIterator<Item = u64>) {
        self.lock().items.extend(files.into_iter().map(Item::Whole));
        self.ready.notify_all();
    }

    pub(crate) fn push_large(&self, file: Arc<LargeFile>) {
        self.lock().items.push_back(Item::Large(file));
        self.ready.notify_all();
    }

    /// Nothing more will be pushed; `None` follows once the queue is empty.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_all();
    }

    /// Drops what waits, and closes.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        state.items.clear();
        state.closed = true;
        drop(state);
        self.ready.notify_all();
    }

    /// The next work if there is any now.
    pub(crate) fn try_next(&self) -> Option<Work> {
        Self::pop(&mut self.lock())
    }

    /// The next work; blocks until there is some, `None` at the end.
    pub(crate) fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if let Some(work) = Self::pop(&mut state) {
                return Some(work);
            }
            if state.closed {
                return None;
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The first large file that has something to send and that is `wanted`.
    pub(crate) fn look_for(&self, wanted: &dyn Fn(&LargeFile) -> bool) -> Look {
        let state = self.lock();
        let large = state.items.iter().filter_map(|item| match item {
            Item::Large(file) => Some(file),
            Item::Whole(_) => None,
        });
        match large.into_iter().find(|file| file.has_more() && wanted(file)) {
            Some(file) => Look::Found(Arc::clone(file)),
            None if state.closed && state.items.is_empty() => Look::Over,
            None => Look::Nothing,
        }
    }

    /// Waits until something may have come, at most `span`.
    pub(crate) fn wait(&self, span: Duration) {
        let state = self.lock();
        if !(state.closed && state.items.is_empty()) {
            drop(self.ready.wait_timeout(state, span));
        }
    }

    /// Lets everybody look who waits for something to come.
    pub(crate) fn wake(&self) {
        // Under the lock, so that nobody is between a look and the wait.
        drop(self.lock());
        self.ready.notify_all();
    }

    /// How many files and parts of files wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Whether no work waits now.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().items.is_empty()
    }

    /// Whether there is no work and none will come.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        state.closed && state.items.is_empty()
    }

    fn pop(state: &mut State) -> Option<Work> {
        loop {
            match state.items.front()? {
                Item::Whole(file) => {
                    let file = *file;
                    state.items.pop_front();
                    return Some(Work::Whole(file));
                }
                Item::Large(file) => {
                    if let Some(span) = file.next_span() {
                        return Some(Work::Span(Arc::clone(file), span));
                    }
                    state.items.pop_front();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
