//! Which of the offered files are worked on now: a name by one at a time, and of large files only
//! as many as have room among this process's descriptors. The others wait for their answer.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::wire::{CHUNK_SIZE, FileEntry, RelativePath};

/// Files of several chunks in progress at once; each takes two descriptors.
const LARGE_MAX: usize = 32;

/// A file on offer and its number.
type Offered = (u64, FileEntry);

/// Who may go on, and who waits.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Names in progress, each with those who wait for it.
    busy: HashMap<RelativePath, VecDeque<Offered>>,
    large: usize,
    /// Who waits for room, or has waited for a name that is free now.
    queue: VecDeque<Offered>,
    waiting: HashSet<u64>,
}

impl Admission {
    /// Whether nobody waits and nobody works on this name, so that for the one thread that admits
    /// what is on offer it stays so.
    pub(crate) fn is_free(&self, path: &RelativePath) -> bool {
        let state = self.lock();
        state.queue.is_empty() && (state.busy.is_empty() || !state.busy.contains_key(path))
    }

    /// The entry, if it may be worked on now; otherwise it waits.
    pub(crate) fn admit(&self, file: u64, entry: FileEntry) -> Option<FileEntry> {
        self.lock().admit(file, entry)
    }

    /// A file that was admitted has its outcome.
    pub(crate) fn release(&self, entry: &FileEntry) {
        let mut state = self.lock();
        state.large -= usize::from(is_large(entry));
        for offered in state.busy.remove(&entry.path).unwrap_or_default().into_iter().rev() {
            state.queue.push_front(offered);
        }
    }

    /// The next file that has waited and is admitted now.
    pub(crate) fn next(&self) -> Option<Offered> {
        let mut state = self.lock();
        loop {
            let (_, first) = state.queue.front()?;
            if is_large(first) && state.large >= LARGE_MAX {
                return None;
            }
            let (file, entry) = state.queue.pop_front()?;
            state.waiting.remove(&file);
            if let Some(entry) = state.admit(file, entry) {
                return Some((file, entry));
            }
        }
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Whether this one waits.
    pub(crate) fn has(&self, file: u64) -> bool {
        self.lock().waiting.contains(&file)
    }

    /// Whether one of these waits.
    pub(crate) fn has_any(&self, mut files: Range<u64>) -> bool {
        let state = self.lock();
        !state.waiting.is_empty() && files.any(|file| state.waiting.contains(&file))
    }

    /// Takes one out that waits.
    pub(crate) fn withdraw(&self, file: u64) -> Option<FileEntry> {
        let mut state = self.lock();
        if !state.waiting.remove(&file) {
            return None;
        }
        let State { busy, queue, .. } = &mut *state;
        busy.values_mut().chain([queue]).find_map(|line| {
            let place = line.iter().position(|(number, _)| *number == file)?;
            line.remove(place).map(|(_, entry)| entry)
        })
    }

    /// Takes all out that wait.
    pub(crate) fn withdraw_all(&self) -> Vec<Offered> {
        let numbers: Vec<u64> = self.lock().waiting.iter().copied().collect();
        let withdrawn = |file| self.withdraw(file).map(|entry| (file, entry));
        numbers.into_iter().filter_map(withdrawn).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn admit(&mut self, file: u64, entry: FileEntry) -> Option<FileEntry> {
        if let Some(line) = self.busy.get_mut(&entry.path) {
            line.push_back((file, entry));
            self.waiting.insert(file);
            return None;
        }
        if is_large(&entry) {
            if self.large >= LARGE_MAX {
                self.queue.push_back((file, entry));
                self.waiting.insert(file);
                return None;
            }
            self.large += 1;
        }
        self.busy.insert(entry.path.clone(), VecDeque::new());
        Some(entry)
    }
}

fn is_large(entry: &FileEntry) -> bool {
    entry.size_bytes > CHUNK_SIZE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &[u8], size_bytes: u64) -> FileEntry {
        let path = RelativePath::new(path).unwrap();
        FileEntry { path, size_bytes, modified_ns: 0, mode: 0o644, sparse: false }
    }

    #[test]
    fn a_name_is_worked_on_by_one_at_a_time_in_order() {
        let admission = Admission::default();
        let first = admission.admit(0, entry(b"f", 1)).unwrap();
        assert!(admission.admit(1, entry(b"f", 2)).is_none());
        assert!(admission.admit(2, entry(b"f", 3)).is_none());
        assert!(admission.admit(3, entry(b"g", 1)).is_some());
        assert!(admission.next().is_none() && admission.has(1));
        admission.release(&first);
        let (file, second) = admission.next().unwrap();
        assert_eq!((file, admission.waiting()), (1, 1));
        assert!(admission.next().is_none());
        admission.release(&second);
        assert_eq!(admission.next().unwrap().0, 2);
    }

    #[test]
    fn large_files_wait_for_room_and_small_ones_do_not() {
        let admission = Admission::default();
        let large = |n: u64| entry(n.to_string().as_bytes(), 2 * CHUNK_SIZE);
        let all = 2 * LARGE_MAX as u64;
        let admitted: Vec<FileEntry> =
            (0..all).filter_map(|n| admission.admit(n, large(n))).collect();
        assert_eq!((admitted.len(), admission.waiting()), (LARGE_MAX, LARGE_MAX));
        assert!(admission.admit(all, entry(b"small", 1)).is_some());
        assert!(admission.withdraw(all - 1).is_some() && admission.withdraw(all - 1).is_none());
        admission.release(&admitted[0]);
        assert_eq!(admission.next().unwrap().0, LARGE_MAX as u64);
        assert!(admission.next().is_none());
        assert_eq!(admission.withdraw_all().len(), LARGE_MAX - 2);
        assert_eq!(admission.waiting(), 0);
    }
}
