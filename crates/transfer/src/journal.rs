//! The journal beside a file in progress: which chunks are verified and written.
//!
//! A record follows its chunk's data, so what the journal claims has reached the kernel and
//! survives a kill of this process; with `sync` it has reached the disk. A resumed transfer
//! checks every claimed chunk against its hash again, so that not even a power loss without
//! `sync` can bring damaged data under a final name.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::root;
use crate::wire::{CHUNK_SIZE, HashKind};

const MAGIC: [u8; 8] = *b"WEIRJRN2";
const HEADER_SIZE: usize = 64;
const RECORD_SIZE: usize = 48;
const CHECK_SIZE: usize = 8;

/// What a journal belongs to; a file offered with any difference starts anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) size: u64,
    pub(crate) modified_ns: i128,
    pub(crate) hash: HashKind,
    /// Set where unverifiable claims must not outlive a reboot: without hashes and `sync`.
    pub(crate) boot: [u8; 16],
    /// The part file's inode, set where its content cannot be checked: without hashes.
    pub(crate) part: u64,
}

/// A chunk that is written, and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) chunk: u64,
    pub(crate) hash: [u8; 32],
}

/// An open journal, appended to.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    end: u64,
}

impl Journal {
    /// Takes over the journal in `file` when it belongs to `identity`, else starts it anew.
    pub(crate) fn open(file: File, identity: &Identity) -> io::Result<Self> {
        let header = identity.encode();
        let mut there = [0; HEADER_SIZE];
        let whole = file.read_exact_at(&mut there, 0).is_ok();
        if !whole || there != header {
            file.set_len(0)?;
            file.write_all_at(&header, 0)?;
        }
        Ok(Self { file, end: HEADER_SIZE as u64 })
    }

    /// Passes the records that it holds to `each`, once, before anything is appended. They are
    /// never all in memory.
    pub(crate) fn replay(&mut self, mut each: impl FnMut(Record)) -> io::Result<()> {
        let mut block = vec![0; RECORD_SIZE * 1024];
        loop {
            let filled = root::read_full(&self.file, &mut block, self.end)?;
            // A record torn by a crash fails its check; it and all after it are overwritten.
            let records = block[..filled].chunks(RECORD_SIZE).map_while(Record::decode);
            let count = records.map(&mut each).count();
            self.end += (count * RECORD_SIZE) as u64;
            if count * RECORD_SIZE < block.len() {
                return Ok(());
            }
        }
    }

    /// Adds records; they are in the kernel when this returns.
    pub(crate) fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let bytes: Vec<u8> = records.iter().flat_map(Record::encode).collect();
        self.file.write_all_at(&bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Waits until the records are on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Forgets all records.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(HEADER_SIZE as u64)?;
        self.end = HEADER_SIZE as u64;
        Ok(())
    }
}

impl Identity {
    fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        let mut identity = blake3::Hasher::new();
        identity.update(&self.size.to_le_bytes()).update(&self.modified_ns.to_le_bytes());
        identity.update(&CHUNK_SIZE.to_le_bytes()).update(&[self.hash as u8]);
        identity.update(&self.boot).update(&self.part.to_le_bytes());
        bytes[8..40].copy_from_slice(identity.finalize().as_bytes());
        let check = check(&bytes[..HEADER_SIZE - CHECK_SIZE]);
        bytes[HEADER_SIZE - CHECK_SIZE..].copy_from_slice(&check);
        bytes
    }
}

impl Record {
    fn encode(&self) -> [u8; RECORD_SIZE] {
        let mut bytes = [0; RECORD_SIZE];
        bytes[..8].copy_from_slice(&self.chunk.to_le_bytes());
        bytes[8..40].copy_from_slice(&self.hash);
        let check = check(&bytes[..40]);
        bytes[40..].copy_from_slice(&check);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (fields, stored) = bytes.split_at_checked(RECORD_SIZE - CHECK_SIZE)?;
        if check(fields) != stored {
            return None;
        }
        let (chunk, hash) = fields.split_at(8);
        Some(Self {
            chunk: u64::from_le_bytes(chunk.try_into().ok()?),
            hash: hash.try_into().ok()?,
        })
    }
}

fn check(bytes: &[u8]) -> [u8; CHECK_SIZE] {
    let mut check = [0; CHECK_SIZE];
    check.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CHECK_SIZE]);
    check
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identity() -> Identity {
        Identity { size: 9 << 20, modified_ns: -5, hash: HashKind::Blake3, boot: [0; 16], part: 0 }
    }

    fn opened(file: &File, identity: &Identity) -> (Journal, Vec<Record>) {
        let mut journal = Journal::open(file.try_clone().unwrap(), identity).unwrap();
        let mut records = Vec::new();
        journal.replay(|record| records.push(record)).unwrap();
        (journal, records)
    }

    fn record(chunk: u64) -> Record {
        Record { chunk, hash: [chunk as u8; 32] }
    }

    proptest! {
        /// A crash can cut the journal anywhere: what is read back is a prefix of what was
        /// written, complete up to the cut, and appending after it works.
        #[test]
        fn a_cut_journal_keeps_every_whole_record(
            count in prop_oneof![0u64..9, 1020u64..1030],
            cut in prop_oneof![0usize..500, 49_000usize..50_000],
        ) {
            let file = tempfile::tempfile().unwrap();
            let (mut journal, none) = opened(&file, &identity());
            prop_assert!(none.is_empty());
            let written: Vec<Record> = (0..count).map(record).collect();
            journal.append(&written).unwrap();
            let length = (HEADER_SIZE + count as usize * RECORD_SIZE).min(cut);
            file.set_len(length as u64).unwrap();

            let (mut journal, read) = opened(&file, &identity());
            let whole = length.saturating_sub(HEADER_SIZE) / RECORD_SIZE;
            prop_assert_eq!(&read[..], &written[..whole]);
            journal.append(&[record(77)]).unwrap();
            let (_, again) = opened(&file, &identity());
            prop_assert_eq!(again.last(), Some(&record(77)));
            prop_assert_eq!(again.len(), whole + 1);
        }
    }

    #[test]
    fn a_journal_of_another_version_of_the_file_is_not_used() {
        let file = tempfile::tempfile().unwrap();
        let (mut journal, _) = opened(&file, &identity());
        journal.append(&[record(1)]).unwrap();
        assert_eq!(opened(&file, &identity()).1, [record(1)]);
        for other in [
            Identity { modified_ns: 7, ..identity() },
            Identity { size: 10 << 20, ..identity() },
            Identity { hash: HashKind::None, ..identity() },
            Identity { part: 77, ..identity() },
        ] {
            assert!(opened(&file, &other).1.is_empty());
            let (mut journal, _) = opened(&file, &identity());
            journal.append(&[record(1)]).unwrap();
        }
    }
}
