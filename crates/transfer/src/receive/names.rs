//! Names of one directory that lead to one place, as on file systems that tell no case, or take
//! one spelling of an accented letter for the other: what has the second would take the place of
//! what has the first, and be there for both.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, Stat};

use crate::root::entry_stat;

/// What was placed in a directory, or found there, as far as names may be one there.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Whether names are one that differ in case only; unknown until the first that has a case.
    folds: Option<bool>,
    /// What stands for the name of each inode, where another name may be one with it: names
    /// themselves would take much more.
    placed: HashMap<u64, u64>,
    digests: RandomState,
}

impl Names {
    /// Lets something take a name here, or be found under it, unless that is another's of this
    /// operation.
    pub(crate) fn place<T>(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        place: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut known = self.lock();
        let (swapped, spelled) = (swapped(name), has_other_spellings(name));
        let is_odd = spelled || shorter(name).is_some();
        if !is_odd && (known.folds == Some(false) || (known.folds.is_none() && swapped.is_none())) {
            drop(known);
            return place();
        }
        check_end(directory, name)?;
        if let Some(there) = only_name(entry_stat(directory, name)?) {
            known.check(there, name)?;
        }
        let placed = place()?;
        check_end(directory, name)?;
        let there = entry_stat(directory, name)?;
        if let (None, Some(there), Some(swapped)) = (known.folds, there, swapped) {
            let other = entry_stat(directory, &swapped).unwrap_or(None);
            known.folds = Some(other.is_some_and(|other| is_one(&other, &there)));
        }
        if let Some(there) = only_name(there).filter(|_| known.folds == Some(true) || spelled) {
            let digest = known.digests.hash_one(name);
            known.placed.insert(there, digest);
        }
        Ok(placed)
    }

    /// Whether more than one name leads to one place here.
    pub(crate) fn fold(&self) -> bool {
        self.lock().folds == Some(true)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn check(&self, there: u64, name: &[u8]) -> io::Result<()> {
        match self.placed.get(&there) {
            Some(digest) if *digest != self.digests.hash_one(name) => {
                let text = "another name of this transfer leads to the same file here";
                Err(io::Error::other(text))
            }
            _ => Ok(()),
        }
    }
}

/// The inode, unless it is a directory or has other names for sure.
fn only_name(stat: Option<Stat>) -> Option<u64> {
    let stat = stat.filter(|stat| stat.st_nlink <= 1)?;
    let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
    (!is_directory).then_some(stat.st_ino)
}

fn is_one(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// The name with capitals for small letters and the other way round; nothing if it has none.
fn swapped(name: &[u8]) -> Option<Vec<u8>> {
    let ascii = |byte: &u8| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte };
    let other: Vec<u8> = if name.iter().any(u8::is_ascii_alphabetic) {
        name.iter().map(ascii).collect()
    } else {
        let swap = |letter: char| -> String {
            if letter.is_lowercase() {
                letter.to_uppercase().collect()
            } else {
                letter.to_lowercase().collect()
            }
        };
        str::from_utf8(name).ok()?.chars().map(swap).collect::<String>().into_bytes()
    };
    (other != name).then_some(other)
}

/// An error where a name is found without the dots and blanks at its end: FAT and its like leave
/// them out, so that what is to have it would take the place of another.
fn check_end(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    let Some(shorter) = shorter(name) else {
        return Ok(());
    };
    let (there, other) = (entry_stat(directory, name)?, entry_stat(directory, shorter)?);
    if only_name(there).is_some() && only_name(there) == only_name(other) {
        return Err(io::Error::other("dots and blanks at the end of a name are left out here"));
    }
    Ok(())
}

/// The name without dots and blanks at its end; nothing if it has none.
fn shorter(name: &[u8]) -> Option<&[u8]> {
    let end = name.iter().rposition(|byte| !b". ".contains(byte))? + 1;
    (end < name.len()).then(|| &name[..end])
}

/// Whether Unicode may have another sequence for the same text, as for `é`, which file systems that
/// normalise names (ZFS, HFS+, ext4 with casefold) take for the same. Which text does is a table of
/// thousands; ASCII and the ideographs of Chinese do not, and bytes that are no text neither.
fn has_other_spellings(name: &[u8]) -> bool {
    let may = |letter: char| !letter.is_ascii() && !('\u{3400}'..='\u{9fff}').contains(&letter);
    !name.is_ascii() && str::from_utf8(name).is_ok_and(|name| name.chars().any(may))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn names_have_a_case_or_none() {
        let swapped = |name: &str| swapped(name.as_bytes()).map(|b| String::from_utf8(b).unwrap());
        assert_eq!(swapped("Run7.h5").as_deref(), Some("rUN7.H5"));
        assert_eq!(swapped("é7").as_deref(), Some("É7"));
        assert_eq!((swapped("0001.7"), swapped("数据")), (None, None));
        assert_eq!(super::swapped(b"\xffa"), Some(b"\xffA".to_vec()));
    }

    #[test]
    fn names_have_other_spellings_or_none() {
        let spelled = |name: &str| has_other_spellings(name.as_bytes());
        assert!(spelled("\u{e9}.h5") && spelled("e\u{301}") && spelled("\u{ac00}"));
        assert!(!spelled("run 7~.h5") && !spelled("数据.h5"));
        assert!(!has_other_spellings(b"\xe9.h5"));
    }

    #[test]
    fn names_end_with_dots_and_blanks_or_not() {
        assert_eq!(
            (shorter(b"1."), shorter(b"a. ."), shorter(b"a b.c")),
            (Some(&b"1"[..]), Some(&b"a"[..]), None)
        );
        assert_eq!((shorter(b"..."), shorter(b"a")), (None, None));
    }

    #[test]
    fn where_case_is_told_nothing_is_remembered_or_refused() {
        let place = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(place.path()).unwrap();
        let names = Names::default();
        for name in ["7", "A", "a", "A", "b"] {
            let write = || std::fs::write(place.path().join(name), name);
            names.place(directory.as_fd(), name.as_bytes(), write).unwrap();
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 4);
        assert!(names.lock().folds == Some(false) && names.lock().placed.is_empty());
    }
}
