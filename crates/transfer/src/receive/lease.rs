//! What lets other receivers write to a file in progress: a file of its own beside it, on the file
//! system that all of them share.
//!
//! Who receives the file makes it, and lends by it: whoever shows a lease that fits it may write,
//! for as long as it stands there and says so. That it is found by another host proves that the
//! file system is shared. Whoever writes looks at it before each write, and begins none later than
//! [`VALID`] after such a look; so after a lease was taken back nothing is written any more once
//! [`GRACE`] has passed, whatever became of the other host.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::AtFlags;
use rustix::time::ClockId;

use super::stage;
use crate::{random, root};

const MAGIC: [u8; 8] = *b"WEIRLEA1";
const SIZE: usize = 72;
const CHECKED: usize = SIZE - 8;
/// How long a look at a lease is good for.
const VALID: Duration = Duration::from_secs(1);
/// After this nobody writes by a lease that was taken back. Twice as long as a look is good for,
/// since clocks differ and a write takes a moment.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// How often a lease that seems damaged is looked at: its owner may be writing it.
const LOOKS: usize = 3;

/// What the file of leases says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terms {
    key: [u8; 32],
    /// The file in progress, by its inode: a device's number differs from host to host.
    inode: u64,
    /// Bytes that it is to have.
    size: u64,
    /// A bit for each of the others that may write.
    holders: u64,
}

impl Terms {
    fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..40].copy_from_slice(&self.key);
        bytes[40..48].copy_from_slice(&self.inode.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.size.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.holders.to_le_bytes());
        let check = blake3::hash(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&check.as_bytes()[..8]);
        bytes
    }

    fn decode(bytes: &[u8; SIZE]) -> Option<Self> {
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        let check = blake3::hash(&bytes[..CHECKED]);
        if bytes[..8] != MAGIC || bytes[CHECKED..] != check.as_bytes()[..8] {
            return None;
        }
        let mut key = [0; 32];
        key.copy_from_slice(&bytes[8..40]);
        Some(Self { key, inode: number(40), size: number(48), holders: number(56) })
    }

    /// What one of the others shows; nobody can guess it who cannot read the file of leases.
    fn lease(&self, helper: u8) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.inode.to_le_bytes()).update(&self.size.to_le_bytes());
        hasher.update(&[helper]).finalize()
    }
}

/// The file of leases at its owner's.
#[derive(Debug)]
pub(crate) struct Leases {
    file: File,
    terms: Terms,
}

impl Leases {
    /// Makes it anew for the file in progress `part`, which is to have `size` bytes.
    pub(crate) fn make(
        directory: BorrowedFd<'_>,
        name: &[u8],
        part: &File,
        size: u64,
    ) -> io::Result<Self> {
        let mut key = [0; 32];
        random::fill(&mut key)?;
        remove(directory, name)?;
        let file = stage::open_own(directory, name)?;
        let inode = rustix::fs::fstat(part)?.st_ino;
        Ok(Self { file, terms: Terms { key, inode, size, holders: 0 } })
    }

    /// Lets one of the others write from now on; returns its lease.
    pub(crate) fn lend(&mut self, helper: u8) -> io::Result<[u8; 32]> {
        self.terms.holders |= bit(helper);
        self.write()?;
        Ok(*self.terms.lease(helper).as_bytes())
    }

    /// Lets it write no more; says whether it might.
    pub(crate) fn take_back(&mut self, helper: u8) -> io::Result<bool> {
        let held = self.terms.holders & bit(helper) != 0;
        self.terms.holders &= !bit(helper);
        if held {
            self.write()?;
        }
        Ok(held)
    }

    /// Lets nobody write any more; says whether anybody might.
    pub(crate) fn take_all_back(&mut self) -> io::Result<bool> {
        let held = std::mem::take(&mut self.terms.holders) != 0;
        if held {
            self.write()?;
        }
        Ok(held)
    }

    fn write(&self) -> io::Result<()> {
        self.file.write_all_at(&self.terms.encode(), 0)
    }
}

/// Ends all leases of a file that another attempt left, and leaves the file; says whether there
/// is one.
pub(crate) fn end(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<bool> {
    match stage::open_existing(directory, name) {
        Ok(file) => file.set_len(0).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        // Nobody takes what is not this user's alone for a file of leases.
        Err(_) => remove(directory, name).map(|()| false),
    }
}

/// Removes a file of leases, if there is one.
pub(crate) fn remove(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What another receiver holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) helper: u8,
    pub(crate) lease: [u8; 32],
    /// The file that it has open.
    pub(crate) inode: u64,
    /// Bytes that the file is to have.
    pub(crate) size: u64,
}

/// When a lease was looked at that holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look(Duration);

impl Claim {
    /// An error unless the lease holds now.
    pub(crate) fn look(&self, directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<Look> {
        let look = Look(now());
        for _ in 0..LOOKS {
            // Opened each time: a file system over a network may show an old copy otherwise.
            let file = stage::open_existing(directory, name)?;
            let mut bytes = [0; SIZE];
            if root::read_full(&file, &mut bytes, 0)? < SIZE {
                continue;
            }
            if let Some(terms) = Terms::decode(&bytes) {
                return if self.fits(&terms) { Ok(look) } else { Err(over()) };
            }
        }
        Err(over())
    }

    fn fits(&self, terms: &Terms) -> bool {
        let is_open = terms.holders & bit(self.helper) != 0;
        // Compared in constant time.
        let fits = terms.lease(self.helper) == self.lease;
        is_open && fits && (terms.inode, terms.size) == (self.inode, self.size)
    }
}

impl Look {
    /// An error if it was too long ago to write by it.
    pub(crate) fn check(self) -> io::Result<()> {
        if now().saturating_sub(self.0) > VALID { Err(over()) } else { Ok(()) }
    }

    #[cfg(test)]
    pub(crate) fn of_long_ago() -> Self {
        Self(now().checked_sub(2 * VALID).unwrap())
    }
}

fn over() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "no lease for it holds here")
}

fn bit(helper: u8) -> u64 {
    1u64.checked_shl(helper.into()).unwrap_or(0)
}

/// Since some moment, with the time in which this machine slept.
fn now() -> Duration {
    let now = rustix::time::clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    const NAME: &[u8] = b".weir-0123456789abcdef.lease";

    struct Place {
        directory: tempfile::TempDir,
        fd: File,
        part: File,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let fd = File::open(directory.path()).unwrap();
            let part = File::create(directory.path().join("part")).unwrap();
            Self { directory, fd, part }
        }

        fn leases(&self) -> Leases {
            Leases::make(self.fd.as_fd(), NAME, &self.part, 9 << 20).unwrap()
        }

        fn claim(&self, helper: u8, lease: [u8; 32]) -> Claim {
            let inode = self.part.metadata().unwrap().ino();
            Claim { helper, lease, inode, size: 9 << 20 }
        }

        fn holds(&self, claim: &Claim) -> bool {
            claim.look(self.fd.as_fd(), NAME).is_ok()
        }
    }

    #[test]
    fn a_lease_holds_until_it_is_taken_back_and_for_nobody_else() {
        let place = Place::new();
        let mut leases = place.leases();
        let (first, second) = (leases.lend(1).unwrap(), leases.lend(2).unwrap());
        assert!(place.holds(&place.claim(1, first)) && place.holds(&place.claim(2, second)));
        for wrong in [
            place.claim(2, first),
            place.claim(3, second),
            place.claim(1, [0; 32]),
            Claim { inode: 7, ..place.claim(1, first) },
            Claim { size: 10 << 20, ..place.claim(1, first) },
        ] {
            assert!(!place.holds(&wrong), "{wrong:?}");
        }
        assert!(leases.take_back(1).unwrap());
        assert!(!leases.take_back(1).unwrap());
        assert!(!place.holds(&place.claim(1, first)) && place.holds(&place.claim(2, second)));
        assert!(leases.take_all_back().unwrap());
        assert!(!place.holds(&place.claim(2, second)));
    }

    #[test]
    fn a_lease_of_another_transfer_or_of_none_does_not_hold() {
        let place = Place::new();
        let old = place.leases().lend(1).unwrap();
        let new = place.leases().lend(1).unwrap();
        assert_ne!(old, new);
        assert!(!place.holds(&place.claim(1, old)) && place.holds(&place.claim(1, new)));
        assert!(end(place.fd.as_fd(), NAME).unwrap(), "there is one, and it stays");
        assert!(!place.holds(&place.claim(1, new)));
        assert!(end(place.fd.as_fd(), NAME).unwrap());
        remove(place.fd.as_fd(), NAME).unwrap();
        assert!(!end(place.fd.as_fd(), NAME).unwrap());
    }

    #[test]
    fn a_file_of_leases_that_another_could_have_made_lends_nothing() {
        let place = Place::new();
        let lease = place.leases().lend(1).unwrap();
        let path = place.directory.path().join(std::str::from_utf8(NAME).unwrap());
        let elsewhere = place.directory.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(!place.holds(&place.claim(1, lease)), "a link is not followed");
        std::fs::remove_file(&path).unwrap();
        std::fs::hard_link(&elsewhere, &path).unwrap();
        assert!(!place.holds(&place.claim(1, lease)), "it has two names");
        std::fs::remove_file(&elsewhere).unwrap();
        assert!(place.holds(&place.claim(1, lease)));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[57] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(!place.holds(&place.claim(1, lease)), "it is damaged");
    }

    #[test]
    fn a_look_is_not_good_for_ever() {
        assert!(Look(now()).check().is_ok());
        assert!(Look::of_long_ago().check().is_err());
        assert!(GRACE >= 2 * VALID);
    }
}
