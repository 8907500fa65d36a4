//! What may still be stored: what is to stay free of a file system, and what a place may hold.
//!
//! Both are asked before anything grows, by whatever session, and for whatever is offered. How
//! full a file system is the kernel knows; what a place holds is counted when it is first needed
//! and again when it seems full, so that nothing about it has to be kept.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Dir, FileType, OFlags, Stat};
use weir_units::Bytes;

use crate::error::FileFailure;
use crate::root::{Root, entry_stat};
use crate::wire::{FailureCode, RelativePath};

/// Without a word about it, so much of a file system stays free at most, or this share of it.
const RESERVE_DEFAULT: u64 = 1_000_000_000;
const RESERVE_SHARE: u64 = 100;
/// How long a look at a file system counts, while there is plenty of room.
const LOOK_AGE: Duration = Duration::from_secs(1);
/// Where there is less than this, it is looked at for each piece.
const PLENTY: u64 = 256 << 20;
/// A full place is not counted again before this, nor before this many times what that took.
const COUNT_AGE: Duration = Duration::from_secs(5);
const COUNT_AGE_TIMES: u32 = 20;

/// Why there is no room for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Less would stay free than is kept for others.
    Reserve(Bytes),
    /// The place would hold more than it may.
    Quota(Bytes),
}

impl Shortage {
    /// Why the file at `path` is not stored: more would be taken than is kept for others, or
    /// than this client may.
    pub(crate) fn failure_of(self, path: &dyn fmt::Display) -> FileFailure {
        let message = format!("no room for \"{path}\": {self}");
        FileFailure { code: FailureCode::DiskFull, message }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // In the words of the system that everybody looks for.
            Self::Reserve(Bytes::ZERO) => f.write_str("No space left on device"),
            Self::Reserve(kept) => {
                write!(f, "No space left on device beyond the {kept} kept free for others")
            }
            Self::Quota(most) => write!(f, "{most} is the most that may be stored there"),
        }
    }
}

/// All file systems and places that a process stores into.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    /// What stays free of each; `None` is the default.
    reserve: Option<u64>,
    spaces: Mutex<HashMap<u64, Arc<Space>>>,
    places: Mutex<HashMap<(u64, u64), Arc<Held>>>,
}

impl Rooms {
    /// With `reserve` bytes that stay free of each file system.
    pub(crate) fn new(reserve: Option<u64>) -> Self {
        Self { reserve, ..Self::default() }
    }

    /// The file system that `directory` is on.
    pub(crate) fn space(&self, directory: BorrowedFd<'_>) -> io::Result<Arc<Space>> {
        let device = rustix::fs::fstat(directory)?.st_dev as u64;
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(space) = spaces.get(&device) {
            return Ok(Arc::clone(space));
        }
        let all = rustix::fs::fstatvfs(directory)?;
        let all = all.f_blocks.saturating_mul(all.f_frsize);
        let reserve = self.reserve.unwrap_or(RESERVE_DEFAULT.min(all / RESERVE_SHARE));
        let space = Arc::new(Space { reserve, state: Mutex::default() });
        spaces.insert(device, Arc::clone(&space));
        Ok(space)
    }

    /// The place that `root` is, whoever stores there.
    pub(crate) fn held(&self, root: &Arc<Root>) -> io::Result<Arc<Held>> {
        let identity = root.identity()?;
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let held = places
            .entry(identity)
            .or_insert_with(|| Arc::new(Held { root: Arc::clone(root), state: Mutex::default() }));
        Ok(Arc::clone(held))
    }
}

/// One file system.
#[derive(Debug)]
pub(crate) struct Space {
    reserve: u64,
    state: Mutex<Looked>,
}

#[derive(Debug, Default)]
struct Looked {
    /// May be taken without another look.
    left: u64,
    at: Option<Instant>,
    /// Taken, and perhaps not yet written.
    pending: u64,
}

/// Room that was taken; given back, to the file system's own count, when dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    space: Arc<Space>,
    bytes: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.space.lock().pending -= self.bytes;
    }
}

impl Space {
    fn lock(&self) -> MutexGuard<'_, Looked> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that `bytes` more may be stored; `file` is any of the file system.
    fn check(&self, state: &mut Looked, file: BorrowedFd<'_>, bytes: u64) -> Result<(), Shortage> {
        let fresh = state.at.is_some_and(|at| at.elapsed() < LOOK_AGE);
        if fresh && bytes <= state.left {
            return Ok(());
        }
        // Where the system does not say, the write will.
        let told = rustix::fs::fstatvfs(file).ok();
        let Some(stat) = told.filter(|stat| stat.f_blocks > 0) else {
            return Ok(());
        };
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let margin = free.saturating_sub(self.reserve).saturating_sub(state.pending);
        // Others write too: no more than half of it before the next look.
        state.left = if margin > PLENTY { margin / 2 } else { 0 };
        state.at = Some(Instant::now());
        if bytes > margin { Err(Shortage::Reserve(Bytes::new(self.reserve))) } else { Ok(()) }
    }

    fn take(self: &Arc<Self>, file: BorrowedFd<'_>, bytes: u64) -> Result<Lease, Shortage> {
        let mut state = self.lock();
        // Where nothing is kept free, the write knows best whether there is room.
        if self.reserve > 0 {
            self.check(&mut state, file, bytes)?;
        }
        state.left = state.left.saturating_sub(bytes);
        state.pending += bytes;
        drop(state);
        Ok(Lease { space: Arc::clone(self), bytes })
    }
}

/// What one place holds.
#[derive(Debug)]
pub(crate) struct Held {
    root: Arc<Root>,
    state: Mutex<Option<Count>>,
}

#[derive(Debug)]
struct Count {
    bytes: u64,
    at: Instant,
    took: Duration,
}

impl Held {
    /// Makes sure that with `bytes` more it holds no more than `quota`, and counts `taken` of
    /// them as stored.
    fn check(&self, quota: u64, bytes: u64, taken: u64) -> Result<(), Shortage> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |count: &Count| count.bytes.saturating_add(bytes) <= quota;
        let is_old = |count: &Count| {
            count.at.elapsed() >= COUNT_AGE.max(count.took.saturating_mul(COUNT_AGE_TIMES))
        };
        if state.as_ref().is_none_or(|count| !fits(count) && is_old(count)) {
            let began = Instant::now();
            let bytes = held_below(&self.root);
            *state = Some(Count { bytes, at: Instant::now(), took: began.elapsed() });
        }
        match &mut *state {
            Some(count) if fits(count) => {
                count.bytes += taken;
                Ok(())
            }
            _ => Err(Shortage::Quota(Bytes::new(quota))),
        }
    }
}

/// The room of one directory: its file system's, and what is left of its place's quota.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub(crate) space: Arc<Space>,
    /// With what it may hold.
    pub(crate) held: Option<(Arc<Held>, u64)>,
}

impl Room {
    /// Whether `bytes` more would have room now.
    pub(crate) fn check(&self, file: impl AsFd, bytes: u64) -> Result<(), Shortage> {
        self.space.check(&mut self.space.lock(), file.as_fd(), bytes)?;
        self.check_quota(bytes, 0)
    }

    /// Takes room for `bytes` more, until they are written.
    pub(crate) fn take(&self, file: impl AsFd, bytes: u64) -> Result<Lease, Shortage> {
        let lease = self.space.take(file.as_fd(), bytes)?;
        self.check_quota(bytes, bytes)?;
        Ok(lease)
    }

    fn check_quota(&self, bytes: u64, taken: u64) -> Result<(), Shortage> {
        match &self.held {
            Some((held, quota)) => held.check(*quota, bytes, taken),
            None => Ok(()),
        }
    }
}

/// The bytes that the files below a root take, parts and journals among them.
fn held_below(root: &Root) -> u64 {
    let mut bytes: u64 = 0;
    each_directory(root, &|| true, &mut |directory| {
        let _ = each_entry(directory, |name, _| {
            if let Ok(Some(stat)) = entry_stat(directory, name)
                && FileType::from_raw_mode(stat.st_mode).is_file()
            {
                bytes = bytes.saturating_add(taken_by(&stat));
            }
        });
    });
    bytes
}

/// What a file takes of the disk; one with several names is counted for each.
fn taken_by(stat: &Stat) -> u64 {
    (stat.st_blocks as u64).saturating_mul(512)
}

/// Visits a root and all directories below it that are on its file system, as long as it is
/// `going`. What cannot be read is left out.
pub(crate) fn each_directory(
    root: &Root,
    going: &dyn Fn() -> bool,
    visit: &mut dyn FnMut(BorrowedFd<'_>),
) {
    let device = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).ok().map(|stat| stat.st_dev);
    let mut waiting = vec![RelativePath::default()];
    let mut own = None;
    while let Some(path) = waiting.pop() {
        let Ok(directory) = root.directory(&path) else {
            continue;
        };
        let directory = directory.as_fd();
        if !going() || device(directory).is_none() {
            return;
        }
        if *own.get_or_insert(device(directory)) != device(directory) {
            continue;
        }
        visit(directory);
        let _ = each_entry(directory, |name, kind| {
            let is_directory = match kind {
                FileType::Unknown => entry_stat(directory, name).is_ok_and(|stat| {
                    stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
                }),
                kind => kind.is_dir(),
            };
            let below = RelativePath::new(name).and_then(|name| path.join(&name));
            if let (true, Ok(below)) = (is_directory, below) {
                waiting.push(below);
            }
        });
    }
}

fn each_entry(directory: BorrowedFd<'_>, mut visit: impl FnMut(&[u8], FileType)) -> io::Result<()> {
    // An open file description of its own, or two readers would share one place in the list.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = rustix::fs::openat(directory, ".", flags, rustix::fs::Mode::empty())?;
    for entry in Dir::new(own)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            visit(name, entry.file_type());
        }
    }
    Ok(())
}
