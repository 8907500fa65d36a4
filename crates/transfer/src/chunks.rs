//! Which chunks of a file are known, and their hashes: memory grows with what is known, never
//! with what a file's size says.

use std::collections::BTreeMap;

use crate::hash;
use crate::wire::{CHUNK_SIZE, ChunkRun};

/// Chunks that are kept together; as a power of two they are a node of the file's BLAKE3 tree.
const GROUP: u64 = 64;
const GROUP_SIZE: u64 = GROUP * CHUNK_SIZE;

/// The known chunks of one file.
#[derive(Debug)]
pub(crate) struct ChunkTable {
    size: u64,
    count: u64,
    hashing: bool,
    groups: BTreeMap<u64, Group>,
    known: u64,
}

#[derive(Debug, Default)]
struct Group {
    /// A bit for each chunk that is known.
    known: u64,
    /// Their hashes in order; a single one of all of them once the group is whole.
    hashes: Vec<[u8; 32]>,
}

impl ChunkTable {
    /// For a file of `size` bytes of which nothing is known.
    pub(crate) fn new(size: u64, hashing: bool) -> Self {
        let count = size.div_ceil(CHUNK_SIZE);
        Self { size, count, hashing, groups: BTreeMap::new(), known: 0 }
    }

    /// How many chunks the file has.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn is_hashing(&self) -> bool {
        self.hashing
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.known == self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known == 0
    }

    pub(crate) fn contains(&self, chunk: u64) -> bool {
        let group = self.groups.get(&(chunk / GROUP));
        group.is_some_and(|group| group.known & bit(chunk) != 0)
    }

    /// Adds a chunk of the file; nothing happens when it is known.
    pub(crate) fn insert(&mut self, chunk: u64, hash: [u8; 32]) {
        if self.contains(chunk) {
            return;
        }
        self.known += 1;
        let group = self.groups.entry(chunk / GROUP).or_default();
        let place = (group.known & (bit(chunk) - 1)).count_ones() as usize;
        group.known |= bit(chunk);
        if !self.hashing {
            return;
        }
        group.hashes.insert(place, hash);
        if group.known == u64::MAX && self.count > GROUP {
            group.hashes = vec![hash::subtree(&group.hashes, CHUNK_SIZE, GROUP_SIZE)];
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.groups.clear();
        self.known = 0;
    }

    /// The bytes of all known chunks.
    pub(crate) fn bytes_known(&self) -> u64 {
        let short = self.count * CHUNK_SIZE - self.size;
        let last = self.count > 0 && self.contains(self.count - 1);
        self.known * CHUNK_SIZE - if last { short } else { 0 }
    }

    /// The chunks that are not known, as at most `most` runs: what lies behind the beginning of
    /// the last of them is forgotten to keep to that.
    pub(crate) fn missing_runs(&mut self, most: usize) -> Vec<ChunkRun> {
        let mut runs = self.runs(most);
        if runs.len() > most {
            runs.truncate(most);
            let last = &mut runs[most - 1];
            last.count = self.count - last.first;
            self.forget_from(last.first);
        }
        runs
    }

    /// The missing runs in order; ends after one more than `most`.
    fn runs(&self, most: usize) -> Vec<ChunkRun> {
        let mut runs: Vec<ChunkRun> = Vec::new();
        let mut add = |first: u64, end: u64| match runs.last_mut() {
            _ if first >= end => true,
            Some(run) if run.first + run.count == first => {
                run.count += end - first;
                true
            }
            _ => {
                runs.push(ChunkRun { first, count: end - first });
                runs.len() <= most
            }
        };
        let mut next = 0;
        for (number, group) in &self.groups {
            let start = number * GROUP;
            let end = self.count.min(start + GROUP);
            let missing = (start..end).filter(|chunk| group.known & bit(*chunk) == 0);
            if !add(next, start) || !missing.into_iter().all(|chunk| add(chunk, chunk + 1)) {
                return runs;
            }
            next = end;
        }
        add(next, self.count);
        runs
    }

    /// Forgets all chunks from a missing one on.
    fn forget_from(&mut self, chunk: u64) {
        self.groups.split_off(&(chunk / GROUP + 1));
        if let Some(group) = self.groups.get_mut(&(chunk / GROUP)) {
            // Not whole, because one is missing, so its hashes are not merged yet.
            group.known &= bit(chunk) - 1;
            if self.hashing {
                group.hashes.truncate(group.known.count_ones() as usize);
            }
        }
        self.known = self.groups.values().map(|group| u64::from(group.known.count_ones())).sum();
    }

    /// The file's BLAKE3 hash, once it is complete.
    pub(crate) fn file_hash(&self) -> [u8; 32] {
        if self.count <= GROUP {
            let hashes = self.groups.values().next().map_or(&[][..], |group| &group.hashes);
            return hash::root(hashes, CHUNK_SIZE, self.size);
        }
        let rest = self.size % GROUP_SIZE;
        let values: Vec<[u8; 32]> = self
            .groups
            .values()
            .map(|group| match &group.hashes[..] {
                [only] => *only,
                hashes => hash::subtree(hashes, CHUNK_SIZE, rest),
            })
            .collect();
        hash::root(&values, GROUP_SIZE, self.size)
    }
}

/// The bit of a chunk in its group.
fn bit(chunk: u64) -> u64 {
    1 << (chunk % GROUP)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::hash::ChunkHasher;

    proptest! {
        /// The oracle is a plain set.
        #[test]
        fn runs_and_chunks_are_complements(
            count in 1u64..300,
            picks in prop::collection::vec(0u64..300, 0..400),
            most in 1usize..40,
        ) {
            let mut table = ChunkTable::new(count * CHUNK_SIZE - 5, true);
            let mut set = BTreeSet::new();
            for chunk in picks.into_iter().filter(|chunk| *chunk < count) {
                table.insert(chunk, [chunk as u8; 32]);
                set.insert(chunk);
            }
            let known = set.len() as u64 * CHUNK_SIZE;
            let short = if set.contains(&(count - 1)) { 5 } else { 0 };
            prop_assert_eq!(table.bytes_known(), known - short);
            let runs = table.missing_runs(most);
            prop_assert!(runs.len() <= most);
            let told: BTreeSet<u64> =
                runs.iter().flat_map(|run| run.first..run.first + run.count).collect();
            for chunk in 0..count {
                prop_assert_eq!(table.contains(chunk), !told.contains(&chunk));
                prop_assert!(set.contains(&chunk) || told.contains(&chunk));
            }
            prop_assert_eq!(table.is_complete(), told.is_empty());
        }
    }

    /// The oracle is the blake3 crate's own hash of the whole input, at sizes around groups.
    #[test]
    fn hashes_of_groups_merge_into_the_ordinary_hash() {
        let group = GROUP_SIZE as usize;
        let data: Vec<u8> = (0..2 * group + 5_000_000).map(|i| (i * 31 % 251) as u8).collect();
        for size in [1, group - 1, group, group + 1, 2 * group, data.len()] {
            let mut table = ChunkTable::new(size as u64, true);
            for chunk in (0..table.count()).rev() {
                let offset = chunk * CHUNK_SIZE;
                let end = size.min((offset + CHUNK_SIZE) as usize);
                let mut hasher = ChunkHasher::new(offset, size as u64);
                hasher.update(&data[offset as usize..end]);
                table.insert(chunk, hasher.finish());
            }
            assert!(table.is_complete());
            assert_eq!(table.file_hash(), *blake3::hash(&data[..size]).as_bytes(), "{size}");
        }
    }

    #[test]
    fn a_size_alone_takes_no_memory() {
        let mut table = ChunkTable::new(1 << 44, true);
        assert_eq!(table.missing_runs(10), [ChunkRun { first: 0, count: 1 << 24 }]);
        assert!(table.groups.is_empty());
        (0..GROUP * 100).for_each(|chunk| table.insert(chunk, [0; 32]));
        assert_eq!(table.groups.values().map(|group| group.hashes.len()).sum::<usize>(), 100);
    }
}
