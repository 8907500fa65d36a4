//! Open handles of the directories that files are being received into.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::stage;
use crate::room::{Rooms, Space};
use crate::root::{self, Root};
use crate::wire::RelativePath;

/// Handles kept at once; beyond, those that were not used for the longest time are closed.
const HANDLES_MAX: usize = 128;

/// Where a directory is below the root, and what tells it from another in its place.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Parent {
    pub(crate) path: RelativePath,
    identity: (u64, u64),
}

/// A directory that files are received into.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    identity: (u64, u64),
    /// Made by this operation, so nothing of earlier ones is in it.
    pub(crate) fresh: bool,
    /// Old files in progress were looked for.
    swept: AtomicBool,
    /// The file system that it is on.
    pub(crate) space: Arc<Space>,
}

impl Directory {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The directory at `path`, which this is.
    pub(crate) fn at(&self, path: RelativePath) -> Parent {
        Parent { path, identity: self.identity }
    }

    /// Removes files in progress that have expired, the first time it is called.
    pub(crate) fn sweep(&self) {
        if !self.fresh && !self.swept.swap(true, Relaxed) {
            // Who cannot list a directory may write to it all the same.
            let _ = stage::remove_expired(self.fd());
        }
    }

    /// What this file system makes of a file's modification time: some keep whole seconds or two.
    pub(crate) fn keeps(&self, modified_ns: i128) -> Option<i128> {
        stage::with_scratch(self.fd(), |file| {
            root::set_attributes(file, 0o600, modified_ns)?;
            Ok(root::modified_ns(&rustix::fs::fstat(file)?))
        })
        .ok()
    }

    /// Waits until the names in this directory are on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }
}

/// Directories by their path below the root, made on demand.
#[derive(Debug)]
pub(crate) struct Directories {
    root: Arc<Root>,
    /// Directories are on the disk before anything is received into them.
    sync: bool,
    rooms: Arc<Rooms>,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    open: HashMap<RelativePath, (Arc<Directory>, u64)>,
    uses: u64,
}

impl Directories {
    pub(crate) fn new(root: Arc<Root>, rooms: Arc<Rooms>, sync: bool) -> Self {
        Self { root, rooms, sync, cache: Mutex::default() }
    }

    /// The directory at `path`, made with its parents where absent.
    pub(crate) fn get(&self, path: &RelativePath) -> io::Result<Arc<Directory>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(self, path)
    }

    /// Whether a directory is still where files were received into it. It is held open, and would
    /// take them wherever it is now.
    pub(crate) fn has(&self, parent: &Parent) -> bool {
        self.root.leads_to(&parent.path, parent.identity)
    }
}

impl Cache {
    fn get(&mut self, of: &Directories, path: &RelativePath) -> io::Result<Arc<Directory>> {
        self.uses += 1;
        if let Some((directory, used)) = self.open.get_mut(path) {
            *used = self.uses;
            return Ok(Arc::clone(directory));
        }
        // A parent that may not be listed cannot be synced either.
        let above = path.split_last().filter(|_| of.sync);
        let above = above.and_then(|(parent, _)| self.get(of, &parent).ok());
        let (fd, fresh) = of.root.make_directory(path)?;
        // An attempt without `sync` may have made it.
        above.map_or(Ok(()), |parent| parent.sync())?;
        let space = of.rooms.space(fd.as_fd())?;
        let identity = root::identity_of(&rustix::fs::fstat(&fd)?);
        let swept = AtomicBool::new(false);
        let directory = Arc::new(Directory { fd, identity, fresh, swept, space });
        if self.open.len() >= HANDLES_MAX {
            self.close_oldest();
        }
        self.open.insert(path.clone(), (Arc::clone(&directory), self.uses));
        Ok(directory)
    }

    /// Closes the older half, so that this is done for one in many.
    fn close_oldest(&mut self) {
        let mut uses: Vec<u64> = self.open.values().map(|(_, used)| *used).collect();
        let middle = uses.len() / 2;
        let (_, limit, _) = uses.select_nth_unstable(middle);
        let limit = *limit;
        self.open.retain(|_, (_, used)| *used >= limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Confinement;

    #[test]
    fn a_directory_that_was_moved_or_replaced_is_not_in_its_place() {
        let top = tempfile::tempdir().unwrap();
        let path = |name: &str| RelativePath::new(name.as_bytes()).unwrap();
        let served = top.path().join("root");
        std::fs::create_dir_all(served.join("a/b")).unwrap();
        let root = Arc::new(Root::open(&served, Confinement::Beneath).unwrap());
        let directories = Directories::new(Arc::clone(&root), Arc::default(), false);
        let parent = |name: &str| directories.get(&path(name)).unwrap().at(path(name));
        let (above, below, itself) = (parent("a"), parent("a/b"), parent(""));
        assert!(directories.has(&above) && directories.has(&below) && directories.has(&itself));
        std::fs::rename(served.join("a"), served.join("c")).unwrap();
        assert!(!directories.has(&above) && !directories.has(&below) && directories.has(&itself));
        std::fs::create_dir_all(served.join("a/b")).unwrap();
        assert!(!directories.has(&above) && !directories.has(&below), "others have their names");
        std::fs::remove_dir_all(served.join("a")).unwrap();
        std::os::unix::fs::symlink("c", served.join("a")).unwrap();
        assert!(directories.has(&below), "a link leads there");
        std::fs::rename(&served, top.path().join("elsewhere")).unwrap();
        assert!(!directories.has(&itself) && !root.is_in_place());
        std::fs::create_dir(&served).unwrap();
        assert!(!directories.has(&itself) && !root.is_in_place());
    }

    #[test]
    fn handles_are_bounded_and_the_latest_stay() {
        let top = tempfile::tempdir().unwrap();
        let root = Arc::new(Root::open(top.path(), Confinement::Beneath).unwrap());
        let directories = Directories::new(root, Arc::default(), false);
        let path = |n: usize| RelativePath::new(format!("d{n}").as_bytes()).unwrap();
        for n in 0..3 * HANDLES_MAX {
            assert!(directories.get(&path(n)).unwrap().fresh);
            assert!(directories.cache.lock().unwrap().open.len() <= HANDLES_MAX);
            // The first is used again and again, and stays.
            assert!(directories.get(&path(0)).unwrap().fresh);
        }
        assert!(!directories.get(&path(1)).unwrap().fresh, "it was made and closed");
    }
}
