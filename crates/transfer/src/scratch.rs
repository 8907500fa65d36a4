//! New files that nobody can have foreseen, and files without a name.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::random;

/// A new file, for reading and writing, that no name leads to.
pub(crate) fn scratch(directory: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    if let Ok(file) = unnamed(directory) {
        return Ok(file);
    }
    let (file, name) = create_random(directory)?;
    rustix::fs::unlinkat(directory, &name, AtFlags::empty())?;
    Ok(file)
}

/// A file that never had a name, where the file system has those.
pub(crate) fn unnamed(directory: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::openat(directory, ".", flags, Mode::RUSR | Mode::WUSR)
}

/// The name of a file in progress that nobody can foresee.
pub(crate) fn random_name() -> io::Result<Vec<u8>> {
    let mut bytes = [0; 8];
    random::fill(&mut bytes)?;
    Ok(format!(".weir-{:016x}.part", u64::from_ne_bytes(bytes)).into_bytes())
}

/// Makes a new file, for writing, under a name that nobody can foresee.
pub(crate) fn create_random(directory: BorrowedFd<'_>) -> io::Result<(OwnedFd, Vec<u8>)> {
    let name = random_name()?;
    Ok((create_new(directory, &name)?, name))
}

/// Makes a new file, for reading and writing, that only this user may open.
pub(crate) fn create_new(directory: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::io::retry_on_intr(|| {
        rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)
    })
}
