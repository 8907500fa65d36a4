//! Permissions and times, which not every file system lets be set: FAT, exFAT or CIFS that another
//! user mounted, many in user space. What was delivered there stays; that it has others is told
//! once for each operation, not for each file.

use std::collections::HashSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::stage;
use crate::root;
use crate::wire::RelativePath;

/// What a file or directory is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attribute {
    /// Permission bits.
    Mode(u16),
    /// Modification time in nanoseconds since 1970.
    Time(i128),
}

/// What could not be set in one operation.
#[derive(Debug, Default)]
pub(crate) struct Unset(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Devices that let nothing of this kind be set.
    refusing: HashSet<(u64, Kind)>,
    told: HashSet<Kind>,
    /// Words that nobody has taken yet.
    untold: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Mode,
    Time,
}

impl Unset {
    /// Lets pass that an attribute was refused, if the file system refuses it of everything. Of
    /// what this operation has made it was; of what was there before, which may be another user's,
    /// it shows by a file that is made in `directory` and removed again.
    pub(crate) fn pass(
        &self,
        attribute: Attribute,
        (directory, device): (BorrowedFd<'_>, u64),
        (path, is_own): (&RelativePath, bool),
        result: io::Result<()>,
    ) -> io::Result<()> {
        let Some(error) = result.as_ref().err().filter(|error| is_refusal(error)) else {
            return result;
        };
        let place = (device, attribute.kind());
        let is_known = is_own || self.lock().refusing.contains(&place);
        if !is_known && !is_refused_of_all(attribute, directory) {
            return result;
        }
        let mut known = self.lock();
        known.refusing.insert(place);
        if known.told.insert(attribute.kind()) {
            known.untold.push(attribute.words(path, error));
        }
        Ok(())
    }

    /// What is to be told since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().untold)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attribute {
    fn kind(self) -> Kind {
        match self {
            Self::Mode(_) => Kind::Mode,
            Self::Time(_) => Kind::Time,
        }
    }

    fn words(self, path: &RelativePath, error: &io::Error) -> String {
        match self {
            Self::Mode(_) => format!(
                "the destination's file system lets no permissions be set: files and directories \
                 have those that it gives them (\"{path}\": {error})"
            ),
            Self::Time(_) => format!(
                "the destination's file system lets no times be set: without --checksum, the next \
                 attempt sends everything again (\"{path}\": {error})"
            ),
        }
    }
}

fn is_refused_of_all(attribute: Attribute, directory: BorrowedFd<'_>) -> bool {
    let tried = stage::with_scratch(directory, |file| {
        Ok(match attribute {
            Attribute::Mode(mode) => root::set_mode(file, mode),
            Attribute::Time(modified_ns) => root::set_modified(file, modified_ns),
        })
    });
    matches!(tried, Ok(Err(error)) if is_refusal(&error))
}

/// Whether it cannot be had, rather than having gone wrong.
fn is_refusal(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| {
        matches!(errno, Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::OPNOTSUPP)
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_a_file_alone_is_refused_is_no_file_systems_way() {
        let place = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(place.path()).unwrap();
        let (unset, path) = (Unset::default(), RelativePath::new(b"f").unwrap());
        let at = (directory.as_fd(), 1);
        let pass = |attribute, is_own, errno: i32| {
            let refused = Err(io::Error::from_raw_os_error(errno));
            unset.pass(attribute, at, (&path, is_own), refused)
        };
        for attribute in [Attribute::Mode(0o600), Attribute::Time(0)] {
            // Another user's, where one's own are given what they are to have.
            assert!(pass(attribute, false, libc::EPERM).is_err());
            assert!(pass(attribute, true, libc::EIO).is_err());
            assert!(unset.take().is_empty());
            assert!(pass(attribute, true, libc::EPERM).is_ok());
            assert!(pass(attribute, true, libc::ENOSYS).is_ok());
            assert_eq!(unset.take().len(), 1);
            // By now it is known of the file system.
            assert!(pass(attribute, false, libc::EPERM).is_ok());
            assert!(unset.take().is_empty());
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
