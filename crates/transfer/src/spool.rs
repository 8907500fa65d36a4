//! Records of which a peer, or a tree, may have more than memory has room for: what comes after
//! the first ones is kept in a file without a name, as they came ([`Spool`]) or in their order
//! ([`Sorter`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};

use crate::room::{Room, Rooms};
use crate::scratch::scratch;

/// Bytes of records that are held in memory before they are written out.
const HELD_MAX: usize = 1 << 20;
/// The same where they are sorted: so many are in order at a time.
const RUN_MAX: usize = 4 << 20;
/// Bytes that are read at once.
const PIECE: usize = 1 << 14;
/// No more is written, whatever room there is: about 10⁸ names.
const WRITTEN_MAX: u64 = 16 << 30;
/// What stands before each record: its length.
const LENGTH: usize = 4;

/// Makes the file, once it is needed, and says what room there is for it.
pub(crate) type Place<'a> = Box<dyn Fn() -> io::Result<(OwnedFd, Room)> + Send + 'a>;

/// A place for what is nobody else's business: `TMPDIR`, `/var/tmp` or `/tmp`, the first that there
/// is. As much of it stays free as a server leaves.
pub(crate) fn temporary() -> io::Result<(OwnedFd, Room)> {
    let asked = std::env::var_os("TMPDIR").map(PathBuf::from);
    let places = asked.into_iter().chain(["/var/tmp", "/tmp"].map(PathBuf::from));
    let mut failed = None;
    for place in places {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let made = rustix::fs::open(&place, flags, Mode::empty()).map_err(io::Error::from);
        let made = made.and_then(|directory| {
            let space = Rooms::default().space(std::os::fd::AsFd::as_fd(&directory))?;
            let room = Room { space, held: None };
            Ok((scratch(std::os::fd::AsFd::as_fd(&directory))?, room))
        });
        match made {
            Ok(made) => return Ok(made),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

/// What was written out.
struct Disk<'a> {
    place: Place<'a>,
    file: Option<(File, Room)>,
    bytes: u64,
}

impl<'a> Disk<'a> {
    fn new(place: Place<'a>) -> Self {
        Self { place, file: None, bytes: 0 }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let count = bytes.len() as u64;
        if self.bytes + count > WRITTEN_MAX {
            return Err(io::Error::other("there are more names than 16 GiB of them"));
        }
        let (file, room) = match &mut self.file {
            Some(made) => made,
            none => {
                let (file, room) = (self.place)()?;
                none.insert((File::from(file), room))
            }
        };
        let full = |_| io::Error::from_raw_os_error(libc::ENOSPC);
        let lease = room.take(&*file, count).map_err(full)?;
        file.write_all_at(bytes, self.bytes)?;
        drop(lease);
        self.bytes += count;
        Ok(())
    }
}

fn append(held: &mut Vec<u8>, record: &[u8]) {
    held.extend_from_slice(&(record.len() as u32).to_le_bytes());
    held.extend_from_slice(record);
}

/// The record that `bytes` begin with.
fn first(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    rest.get(..u32::from_le_bytes(*length) as usize)
}

/// Reads the records between two places of a file.
struct Reader {
    next: u64,
    end: u64,
    piece: Vec<u8>,
    taken: usize,
}

impl Reader {
    fn new(next: u64, end: u64) -> Self {
        Self { next, end, piece: Vec::new(), taken: 0 }
    }

    fn read(&mut self, file: &File) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(record) = first(&self.piece[self.taken..]) {
                self.taken += LENGTH + record.len();
                return Ok(Some(record.to_vec()));
            }
            let left = self.end - self.next;
            if left == 0 {
                return Ok(None);
            }
            self.piece.drain(..self.taken);
            self.taken = 0;
            let had = self.piece.len();
            self.piece.resize(had + left.min(PIECE as u64) as usize, 0);
            file.read_exact_at(&mut self.piece[had..], self.next)?;
            self.next += (self.piece.len() - had) as u64;
        }
    }
}

/// Records in the order in which they came.
pub(crate) struct Spool<'a> {
    held: Vec<u8>,
    disk: Disk<'a>,
}

impl<'a> Spool<'a> {
    pub(crate) fn new(place: Place<'a>) -> Self {
        Self { held: Vec::new(), disk: Disk::new(place) }
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, record: &[u8]) -> io::Result<()> {
        append(&mut self.held, record);
        if self.held.len() < HELD_MAX {
            return Ok(());
        }
        self.disk.write(&self.held)?;
        self.held.clear();
        Ok(())
    }

    /// The record that stands at a place that [`Self::records`] has told.
    pub(crate) fn read(&self, at: u64) -> io::Result<Vec<u8>> {
        let record = match (&self.disk.file, at.checked_sub(self.disk.bytes)) {
            (_, Some(at)) => first(&self.held[at as usize..]).map(<[u8]>::to_vec),
            (Some((file, _)), None) => Reader::new(at, self.disk.bytes).read(file)?,
            (None, None) => None,
        };
        record.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// All records, each with its place.
    pub(crate) fn records(&self) -> impl Iterator<Item = io::Result<(u64, Vec<u8>)>> {
        let (mut reader, mut at) = (Reader::new(0, self.disk.bytes), 0_u64);
        std::iter::from_fn(move || {
            let written = match &self.disk.file {
                Some((file, _)) => reader.read(file).transpose(),
                None => None,
            };
            let held = || first(self.held.get(at.checked_sub(self.disk.bytes)? as usize..)?);
            let record = written.or_else(|| held().map(|record| Ok(record.to_vec())))?;
            Some(record.map(|record| {
                let place = at;
                at += (LENGTH + record.len()) as u64;
                (place, record)
            }))
        })
    }
}

/// Records that come in any order and are wanted in theirs, as bytes.
pub(crate) struct Sorter<'a> {
    held: Vec<u8>,
    /// Where each of those begins.
    starts: Vec<u32>,
    /// Where those that were written out begin and end, each in its order.
    runs: Vec<(u64, u64)>,
    disk: Disk<'a>,
}

impl<'a> Sorter<'a> {
    pub(crate) fn new(place: Place<'a>) -> Self {
        Self { held: Vec::new(), starts: Vec::new(), runs: Vec::new(), disk: Disk::new(place) }
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, record: &[u8]) -> io::Result<()> {
        self.starts.push(self.held.len() as u32);
        append(&mut self.held, record);
        if self.held.len() + self.starts.len() * size_of::<u32>() < RUN_MAX {
            return Ok(());
        }
        self.sort();
        let begin = self.disk.bytes;
        let mut piece = Vec::new();
        for start in std::mem::take(&mut self.starts) {
            append(&mut piece, first(&self.held[start as usize..]).unwrap_or_default());
            if piece.len() >= HELD_MAX {
                self.disk.write(&piece)?;
                piece.clear();
            }
        }
        self.disk.write(&piece)?;
        self.runs.push((begin, self.disk.bytes));
        self.held.clear();
        Ok(())
    }

    fn sort(&mut self) {
        let held = &self.held;
        self.starts.sort_unstable_by_key(|start| first(&held[*start as usize..]));
    }

    /// All of them, in their order.
    pub(crate) fn sorted(mut self) -> io::Result<Sorted<'a>> {
        self.sort();
        let readers = self.runs.iter().map(|(begin, end)| Reader::new(*begin, *end)).collect();
        let mut sorted = Sorted {
            held: self.held,
            starts: self.starts.into_iter(),
            readers,
            heads: BinaryHeap::new(),
            disk: self.disk,
        };
        (0..=sorted.readers.len()).try_for_each(|run| sorted.advance(run))?;
        Ok(sorted)
    }
}

/// What a [`Sorter`] took, in its order.
pub(crate) struct Sorted<'a> {
    held: Vec<u8>,
    starts: std::vec::IntoIter<u32>,
    readers: Vec<Reader>,
    /// The next record of each run; those that are held are one more.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    disk: Disk<'a>,
}

impl Sorted<'_> {
    /// Puts the next record of a run among the heads, if it has one.
    fn advance(&mut self, run: usize) -> io::Result<()> {
        let next = match (self.readers.get_mut(run), &self.disk.file) {
            (Some(reader), Some((file, _))) => reader.read(file)?,
            _ => {
                let start = self.starts.next();
                start.and_then(|start| first(&self.held[start as usize..])).map(<[u8]>::to_vec)
            }
        };
        self.heads.extend(next.map(|record| Reverse((record, run))));
        Ok(())
    }
}

impl Iterator for Sorted<'_> {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((record, run)) = self.heads.pop()?;
        Some(self.advance(run).map(|()| record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in an order that repeats nothing, as text of many lengths.
    fn records(count: u64) -> Vec<Vec<u8>> {
        let mixed = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (0..count)
            .map(|n| {
                vec![b'x'; (n % 90) as usize].into_iter().chain(mixed(n).to_be_bytes()).collect()
            })
            .collect()
    }

    #[test]
    fn records_come_back_as_they_went_however_many_there_are() {
        for count in [0, 1, 5_000, 60_000] {
            let wanted = records(count);
            let mut spool = Spool::new(Box::new(temporary));
            wanted.iter().for_each(|record| spool.push(record).unwrap());
            assert!(spool.held.len() < HELD_MAX);
            assert_eq!(spool.disk.file.is_some(), count > 20_000);
            let read: Vec<_> = spool.records().map(Result::unwrap).collect();
            assert!(read.iter().map(|(_, record)| record).eq(&wanted));
            for (at, record) in read.iter().step_by(997) {
                assert_eq!(&spool.read(*at).unwrap(), record);
            }
        }
    }

    #[test]
    fn records_are_sorted_as_the_standard_library_sorts_them() {
        for count in [0, 1, 5_000, 200_000] {
            let mut wanted = records(count);
            let mut sorter = Sorter::new(Box::new(temporary));
            for record in &wanted {
                sorter.push(record).unwrap();
                assert!(sorter.held.len() < RUN_MAX);
            }
            assert_eq!(sorter.runs.len() > 1, count > 100_000);
            wanted.sort_unstable();
            assert!(sorter.sorted().unwrap().map(Result::unwrap).eq(wanted));
        }
    }

    #[test]
    fn what_has_no_room_is_an_error_of_a_full_disk() {
        let full = || {
            let (file, room) = temporary()?;
            let reserve = Rooms::new(Some(u64::MAX >> 1));
            let space = reserve.space(std::os::fd::AsFd::as_fd(&file))?;
            Ok((file, Room { space, ..room }))
        };
        let mut spool = Spool::new(Box::new(full));
        let record = [7; 4096];
        let ended = (0..1000).find_map(|_| spool.push(&record).err()).unwrap();
        assert_eq!(ended.raw_os_error(), Some(libc::ENOSPC));
    }
}
