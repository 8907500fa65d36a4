//! The file system below one directory, reached only by relative paths.
//!
//! A server's root is *confined*: the kernel itself (openat2 with RESOLVE_BENEATH) refuses every
//! path that would leave it, through `..`, an absolute name or a symbolic link, without a race
//! between check and use.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat};

use crate::buffer::{PIECE, PageBuffer};
use crate::error::TransferError;
use crate::escape::printable_bytes;
use crate::wire::RelativePath;

/// Who chose the paths that will be applied to a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// A peer: nothing outside the root may be reached.
    Beneath,
    /// A peer, to which not even links within the root are a way to somewhere else.
    Unlinked,
    /// This machine's user, whose symbolic links may lead anywhere.
    Open,
}

/// An open directory and the rule by which paths below it are resolved.
#[derive(Debug)]
pub struct Root {
    fd: Arc<OwnedFd>,
    resolve: ResolveFlags,
    /// Where it was when it was opened.
    place: PathBuf,
    /// What it is called to whoever is told of it.
    shown: PathBuf,
}

impl Root {
    /// Opens the directory `path`.
    pub fn open(path: &Path, confinement: Confinement) -> Result<Self, TransferError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| {
            let (what, path) = ("cannot open directory", path.display().to_string());
            TransferError::Local { what, path, source: error.into() }
        })?;
        let resolve = match confinement {
            Confinement::Beneath => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
            Confinement::Unlinked => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
            Confinement::Open => ResolveFlags::empty(),
        };
        Ok(Self { fd: Arc::new(fd), resolve, place: path.to_owned(), shown: path.to_owned() })
    }

    /// The same directory, called by the name that peers have for it: where it is on this machine
    /// is none of their business.
    pub(crate) fn shown_as(self, name: &str) -> Self {
        Self { shown: PathBuf::from(name), ..self }
    }

    /// The directory at `path` as a root of its own, below which no link is followed.
    pub(crate) fn below(&self, path: &RelativePath) -> io::Result<Self> {
        self.within(path, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
    }

    /// The directory at `path` as a root that nothing leads out of.
    pub(crate) fn beneath(&self, path: &RelativePath) -> io::Result<Self> {
        self.within(path, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
    }

    /// The same directory, by the same handle, below which no link is followed.
    pub(crate) fn unlinked(&self) -> Self {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let (fd, place, shown) = (Arc::clone(&self.fd), self.place.clone(), self.shown.clone());
        Self { fd, resolve, place, shown }
    }

    fn within(&self, path: &RelativePath, resolve: ResolveFlags) -> io::Result<Self> {
        let below = OsStr::from_bytes(path.as_bytes());
        let (place, shown) = (self.place.join(below), self.shown.join(below));
        Ok(Self { fd: Arc::new(self.directory(path)?), resolve, place, shown })
    }

    /// Whether it has the handle of another, and none of its own.
    pub(crate) fn shares(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.fd, &other.fd)
    }

    /// What tells this directory from all others: its device and inode.
    pub(crate) fn identity(&self) -> io::Result<(u64, u64)> {
        Ok(identity_of(&rustix::fs::fstat(&self.fd)?))
    }

    /// The same of the directory at `path`, if there is one.
    pub(crate) fn identity_at(&self, path: &RelativePath) -> Option<(u64, u64)> {
        let directory = self.directory(path).ok()?;
        Some(identity_of(&rustix::fs::fstat(directory).ok()?))
    }

    /// What tells this directory, and those above it, from all others.
    pub(crate) fn above(&self) -> io::Result<Vec<(u64, u64)>> {
        above(self.fd.as_fd())
    }

    /// Whether this directory still stands at the path that it was opened by: it may have been
    /// moved or removed, or another be mounted over it. What cannot be looked at may.
    pub(crate) fn is_in_place(&self) -> bool {
        let there = rustix::fs::stat(&self.place).map(|stat| identity_of(&stat));
        self.identity().map_or(true, |mine| is_still(there, mine))
    }

    /// Whether the directory at `path` still is the one of that identity, and this root in its
    /// place.
    pub(crate) fn leads_to(&self, path: &RelativePath, identity: (u64, u64)) -> bool {
        let bytes = if path.is_empty() { &b"."[..] } else { path.as_bytes() };
        let there = rustix::fs::statat(&self.fd, bytes, AtFlags::empty());
        is_still(there.map(|stat| identity_of(&stat)), identity) && self.is_in_place()
    }

    /// Whether `directory` is this root, by whichever way it was reached.
    pub(crate) fn is(&self, directory: BorrowedFd<'_>) -> io::Result<bool> {
        let (one, other) = (rustix::fs::fstat(&self.fd)?, rustix::fs::fstat(directory)?);
        Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
    }

    /// The path for people.
    pub fn show(&self, path: &RelativePath) -> String {
        let below = OsStr::from_bytes(path.as_bytes());
        let shown = if path.is_empty() { self.shown.clone() } else { self.shown.join(below) };
        let bytes = shown.as_os_str().as_bytes();
        printable_bytes(if bytes.is_empty() { b"." } else { bytes })
    }

    fn open_at(&self, path: &RelativePath, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let bytes = if path.is_empty() { &b"."[..] } else { path.as_bytes() };
        // EAGAIN: a rename elsewhere raced with the resolution of `..` in a link; try again.
        for _ in 0..16 {
            match rustix::fs::openat2(&self.fd, bytes, flags | OFlags::CLOEXEC, mode, self.resolve)
            {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                // The kernel's own words speak of devices, and of too many links.
                Err(rustix::io::Errno::XDEV) if self.resolve.contains(ResolveFlags::BENEATH) => {
                    return Err(io::Error::other("a symbolic link there leads out of the root"));
                }
                Err(rustix::io::Errno::LOOP)
                    if self.resolve.contains(ResolveFlags::NO_SYMLINKS)
                        && !flags.contains(OFlags::NOFOLLOW) =>
                {
                    let text = "a symbolic link is on the way, and none is followed here";
                    return Err(io::Error::other(text));
                }
                result => return Ok(result?),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// A handle on a directory, for operations on its entries.
    pub(crate) fn directory(&self, path: &RelativePath) -> io::Result<OwnedFd> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    /// A handle on a directory by which it can be looked at and given other permissions, whatever
    /// those that it has.
    pub(crate) fn directory_itself(&self, path: &RelativePath) -> io::Result<OwnedFd> {
        self.open_at(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
    }

    /// A regular file for reading. Does not block on a FIFO that took the file's place.
    pub(crate) fn file(&self, path: &RelativePath, links: Links) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        self.open_at(path, flags | links.open_flag(), Mode::empty())
    }

    /// What `path` is.
    pub(crate) fn stat(&self, path: &RelativePath, links: Links) -> io::Result<Stat> {
        let fd = self.open_at(path, OFlags::PATH | links.open_flag(), Mode::empty())?;
        Ok(rustix::fs::fstat(fd)?)
    }

    /// What a symbolic link says.
    pub(crate) fn link_target(&self, path: &RelativePath) -> io::Result<Vec<u8>> {
        let fd = self.open_at(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
        Ok(rustix::fs::readlinkat(fd, "", Vec::new())?.into_bytes())
    }

    /// A directory that is made, with its parents, where it does not exist; says whether the
    /// last component was made now. `mode` says what each may be that is made, before the umask.
    pub(crate) fn make_directory(
        &self,
        path: &RelativePath,
        mode: &dyn Fn(&RelativePath) -> u16,
    ) -> io::Result<(OwnedFd, bool)> {
        match self.directory(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return Ok((result?, false)),
        }
        let Some((parent, name)) = path.split_last() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let (parent, _) = self.make_directory(&parent, mode)?;
        let mode = Mode::from_raw_mode(mode(path).into());
        let made = match rustix::fs::mkdirat(&parent, name, mode) {
            Ok(()) => true,
            Err(rustix::io::Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        Ok((self.directory(path)?, made))
    }
}

/// What tells a file or directory from all others: its device and inode.
pub(crate) fn identity_of(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// The identities of a directory and of all above it, the nearest first.
pub(crate) fn above(directory: BorrowedFd<'_>) -> io::Result<Vec<(u64, u64)>> {
    let mut found = vec![identity_of(&rustix::fs::fstat(directory)?)];
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut next = rustix::fs::openat(directory, "..", flags, Mode::empty())?;
    loop {
        let identity = identity_of(&rustix::fs::fstat(&next)?);
        // Above the topmost is itself.
        if found.last() == Some(&identity) {
            return Ok(found);
        }
        found.push(identity);
        next = rustix::fs::openat(&next, "..", flags, Mode::empty())?;
    }
}

/// Whether what was found at a place is what was there before; nobody knows what cannot be found
/// out.
fn is_still(there: rustix::io::Result<(u64, u64)>, before: (u64, u64)) -> bool {
    use rustix::io::Errno;
    match there {
        Ok(identity) => identity == before,
        Err(error) => !matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP),
    }
}

/// What to do when the last component is a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// Use the link itself.
    Keep,
    /// Use what it leads to.
    Follow,
}

impl Links {
    fn open_flag(self) -> OFlags {
        match self {
            Self::Keep => OFlags::NOFOLLOW,
            Self::Follow => OFlags::empty(),
        }
    }
}

/// What `name` in `directory` is, links not followed; `None` when there is nothing.
pub(crate) fn entry_stat(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A regular file of which attributes are read and set: by a handle that needs no right to read,
/// and that no link can turn elsewhere.
pub(crate) struct Handle {
    fd: OwnedFd,
    pub(crate) stat: Stat,
}

impl Handle {
    /// A handle of the regular file `name`.
    pub(crate) fn open(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(directory, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(rustix::io::Errno::NOENT.into());
        }
        Ok(Self { fd, stat })
    }

    /// Sets the permission bits, if they are others.
    pub(crate) fn set_mode(&self, mode: u16) -> io::Result<()> {
        if self.stat.st_mode & 0o777 == u32::from(mode) {
            return Ok(());
        }
        set_mode_of(self.fd.as_fd(), mode)
    }

    /// Sets the modification time.
    pub(crate) fn set_modified(&self, modified_ns: i128) -> io::Result<()> {
        let (times, path) = (timestamps(modified_ns), path_of(self.fd.as_fd()));
        match rustix::fs::utimensat(rustix::fs::CWD, &*path, &times, AtFlags::empty()) {
            // Nothing is mounted at `/proc`.
            Err(rustix::io::Errno::NOENT) => {
                Ok(rustix::fs::utimensat(&self.fd, "", &times, AtFlags::EMPTY_PATH)?)
            }
            set => Ok(set?),
        }
    }
}

/// The BLAKE3 hash of a file of `size` bytes; `None` if it has fewer, or once `going` says no.
pub(crate) fn hash_of(
    file: &File,
    size: u64,
    going: &dyn Fn() -> bool,
) -> io::Result<Option<[u8; 32]>> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = PageBuffer::new(size.min(PIECE as u64) as usize);
    for offset in (0..size).step_by(PIECE) {
        let piece = &mut buffer[..(size - offset).min(PIECE as u64) as usize];
        if !going() || read_full(file, piece, offset)? < piece.len() {
            return Ok(None);
        }
        hasher.update(piece);
    }
    Ok(Some(*hasher.finalize().as_bytes()))
}

/// Waits until the regular file `name` is on the disk, whoever wrote it.
pub(crate) fn sync_entry(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => Ok(rustix::fs::fsync(file)?),
        // Who may not read it syncs what it is among.
        Err(rustix::io::Errno::ACCESS) => Ok(rustix::fs::syncfs(directory)?),
        Err(error) => Err(error.into()),
    }
}

/// Reads until `buffer` is full or the file ends; returns how much was read.
pub(crate) fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Modification time in nanoseconds since 1970.
pub(crate) fn modified_ns(stat: &Stat) -> i128 {
    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
}

/// A way to what a handle has, for calls that take none which was opened for nothing but that.
fn path_of(handle: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&handle))
}

/// Sets the permission bits of what was opened for nothing but to be looked at.
pub(crate) fn set_mode_of(handle: BorrowedFd<'_>, mode: u16) -> io::Result<()> {
    match rustix::fs::chmod(&*path_of(handle), Mode::from_raw_mode(mode.into())) {
        // Nothing is mounted at `/proc`.
        Err(rustix::io::Errno::NOENT) => set_mode_by_handle(handle, mode),
        set => Ok(set?),
    }
}

/// `fchmodat2`, on every architecture.
const FCHMODAT2: libc::c_long = 452;

/// The same without a path, which kernels before 6.6 do not know.
#[allow(unsafe_code)]
fn set_mode_by_handle(handle: BorrowedFd<'_>, mode: u16) -> io::Result<()> {
    let (fd, mode) = (std::os::fd::AsRawFd::as_raw_fd(&handle), libc::c_uint::from(mode));
    // SAFETY: the descriptor is open, and the empty path lives for the call.
    let set = unsafe { libc::syscall(FCHMODAT2, fd, c"".as_ptr(), mode, libc::AT_EMPTY_PATH) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets a file's permission bits.
pub(crate) fn set_mode(file: impl AsFd, mode: u16) -> io::Result<()> {
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(mode.into()))?)
}

/// Sets a file's modification time.
pub(crate) fn set_modified(file: impl AsFd, modified_ns: i128) -> io::Result<()> {
    Ok(rustix::fs::futimens(file, &timestamps(modified_ns))?)
}

fn timestamps(modified_ns: i128) -> rustix::fs::Timestamps {
    let last_modification = rustix::fs::Timespec {
        tv_sec: modified_ns.div_euclid(1_000_000_000) as i64,
        tv_nsec: modified_ns.rem_euclid(1_000_000_000) as _,
    };
    let last_access = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    rustix::fs::Timestamps { last_access, last_modification }
}
