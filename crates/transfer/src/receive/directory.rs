//! Open handles of the directories that files are being received into.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Access, AtFlags};

use super::attributes::{Attribute, Unset};
use super::kept::Kept;
use super::names::Names;
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
    pub(crate) names: Arc<Names>,
    /// The operation's.
    unset: Arc<Unset>,
}

impl Directory {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What tells it from all others.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
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
            root::set_modified(file, modified_ns)?;
            Ok(root::modified_ns(&rustix::fs::fstat(file)?))
        })
        .ok()
    }

    /// Sets its time and permissions once all is in it. That its files get its group, or are only
    /// their owners' to remove, is for those to say whose file system it is: no peer tells it.
    fn conclude(&self, path: &RelativePath, mode: u16, modified_ns: i128) -> io::Result<()> {
        let kept = rustix::fs::fstat(&self.fd)?.st_mode & 0o3000;
        self.set(&self.fd, (path, self.fresh), mode | kept as u16, modified_ns)
    }

    /// Gives a file in it, which this operation has made, what it is to have, as far as the file
    /// system lets that be set.
    pub(crate) fn set_own(
        &self,
        file: &File,
        path: &RelativePath,
        mode: u16,
        modified_ns: i128,
    ) -> io::Result<()> {
        self.set(file, (path, true), mode, modified_ns)
    }

    /// `which`: as in `pass`.
    fn set(
        &self,
        of: impl AsFd,
        which: (&RelativePath, bool),
        mode: u16,
        modified_ns: i128,
    ) -> io::Result<()> {
        self.pass(Attribute::Mode(mode), which, root::set_mode(&of, mode))?;
        self.pass(Attribute::Time(modified_ns), which, root::set_modified(&of, modified_ns))
    }

    /// Lets pass what this file system refuses of everything, and has it told, once. `which`: what
    /// it was refused of, and whether this operation has made that.
    pub(crate) fn pass(
        &self,
        attribute: Attribute,
        which: (&RelativePath, bool),
        result: io::Result<()>,
    ) -> io::Result<()> {
        self.unset.pass(attribute, (self.fd(), self.identity.0), which, result)
    }

    /// Lets its owner write into it, where that has taken the right from itself, as rsync does;
    /// returns the mode that it had.
    fn open_up(&self, root: &Root) -> io::Result<Option<u16>> {
        let stat = rustix::fs::fstat(&self.fd)?;
        let may = Access::WRITE_OK | Access::EXEC_OK;
        if stat.st_mode & 0o300 == 0o300
            || rustix::fs::accessat(&self.fd, ".", may, AtFlags::EACCESS).is_ok()
            || root.is(self.fd())?
        {
            return Ok(None);
        }
        let mode = (stat.st_mode & 0o7777) as u16;
        // Who does not own it may not: what goes into it says so.
        Ok(root::set_mode(&self.fd, mode | 0o300).is_ok().then_some(mode))
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
    /// The destination: what is below it is the operation's, to write into.
    base: RelativePath,
    /// What is below it and not the operation's.
    kept: Kept,
    /// Directories are on the disk before anything is received into them.
    sync: bool,
    rooms: Arc<Rooms>,
    unset: Arc<Unset>,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    open: HashMap<RelativePath, (Arc<Directory>, u64)>,
    uses: u64,
    /// Those that their owner was let write into, with the modes that they had.
    opened: BTreeMap<RelativePath, u16>,
    /// The names of those that were closed, where some may be one.
    folding: HashMap<(u64, u64), Arc<Names>>,
}

impl Drop for Directories {
    fn drop(&mut self) {
        self.close_up();
    }
}

impl Directories {
    pub(crate) fn new(
        root: Arc<Root>,
        (base, kept): (RelativePath, Kept),
        rooms: Arc<Rooms>,
        sync: bool,
    ) -> Self {
        let (unset, cache) = (Arc::default(), Mutex::default());
        Self { root, base, kept, sync, rooms, unset, cache }
    }

    /// Gives a directory the attributes that it is to have.
    pub(crate) fn conclude(&self, path: &RelativePath, mode: u16, time_ns: i128) -> io::Result<()> {
        self.get(path)?.conclude(path, mode, time_ns)?;
        self.cache().opened.remove(path);
        Ok(())
    }

    /// Lets its owner pass a directory, and list it, where that has taken the right from itself;
    /// returns the mode that it had.
    fn unlock(&self, path: &RelativePath) -> io::Result<u16> {
        let directory = self.root.directory_itself(path)?;
        self.kept.check(&self.root, directory.as_fd())?;
        // A link may lead back to it.
        if self.root.is(directory.as_fd())? {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mode = (rustix::fs::fstat(&directory)?.st_mode & 0o7777) as u16;
        root::set_mode_of(directory.as_fd(), mode | 0o700)?;
        Ok(mode)
    }

    /// Gives directories that were opened up, and not concluded, their modes again.
    pub(crate) fn close_up(&self) {
        let opened = std::mem::take(&mut self.cache().opened);
        // What is in them comes first, while they can be passed.
        for (path, mode) in opened.into_iter().rev() {
            let _ = self.root.directory(&path).and_then(|fd| root::set_mode(fd, mode));
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_below_base(&self, path: &RelativePath) -> bool {
        let below = path.as_bytes().strip_prefix(self.base.as_bytes());
        below.is_some_and(|rest| {
            !rest.is_empty() && (self.base.is_empty() || rest.starts_with(b"/"))
        })
    }

    /// What a directory may be that is made. One of the operation's is its owner's alone until all
    /// is in it and its permissions are known: those of the files in it may rely on them.
    fn first_mode(&self, path: &RelativePath) -> u16 {
        if self.is_below_base(path) { 0o700 } else { 0o777 }
    }

    /// The directory at `path`, made with its parents where absent.
    pub(crate) fn get(&self, path: &RelativePath) -> io::Result<Arc<Directory>> {
        self.cache().get(self, path)
    }

    /// What could not be set of files and directories, to be told, since the last call.
    pub(crate) fn take_unset(&self) -> Vec<String> {
        self.unset.take()
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
        // Nothing is made in what is not the operation's.
        if !of.kept.is_empty()
            && let Some((parent, _)) = path.split_last()
            && of.root.identity_at(path).is_none()
        {
            self.get(of, &parent)?;
        }
        let make = || of.root.make_directory(path, &|path| of.first_mode(path));
        let (fd, fresh) = match make() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.unlock(of, path)?;
                make()?
            }
            made => made?,
        };
        of.kept.check(&of.root, fd.as_fd())?;
        // An attempt without `sync` may have made it.
        above.map_or(Ok(()), |parent| parent.sync())?;
        let space = of.rooms.space(fd.as_fd())?;
        let identity = root::identity_of(&rustix::fs::fstat(&fd)?);
        let swept = AtomicBool::new(false);
        let names = self.folding.get(&identity).cloned().unwrap_or_default();
        let unset = Arc::clone(&of.unset);
        let directory = Arc::new(Directory { fd, identity, fresh, swept, space, names, unset });
        if !fresh
            && of.is_below_base(path)
            && let Some(mode) = directory.open_up(&of.root)?
        {
            self.opened.entry(path.clone()).or_insert(mode);
        }
        if self.open.len() >= HANDLES_MAX {
            self.close_oldest();
        }
        self.open.insert(path.clone(), (Arc::clone(&directory), self.uses));
        Ok(directory)
    }

    /// Has a directory, and those above it, let their owner in.
    fn unlock(&mut self, of: &Directories, path: &RelativePath) -> io::Result<()> {
        if of.is_below_base(path)
            && let Some((parent, _)) = path.split_last()
        {
            self.get(of, &parent)?;
            // What is not there, or another's, says so when it is asked for again.
            if let Ok(mode) = of.unlock(path) {
                self.opened.entry(path.clone()).or_insert(mode);
            }
        }
        Ok(())
    }

    /// Closes the older half, so that this is done for one in many.
    fn close_oldest(&mut self) {
        let mut uses: Vec<u64> = self.open.values().map(|(_, used)| *used).collect();
        let middle = uses.len() / 2;
        let (_, limit, _) = uses.select_nth_unstable(middle);
        let limit = *limit;
        for (path, (directory, _)) in self.open.extract_if(|_, (_, used)| *used < limit) {
            // Nobody is at it: it is opened up again when it is asked for again.
            if let (1, Some(mode)) = (Arc::strong_count(&directory), self.opened.get(&path))
                && root::set_mode(&directory.fd, *mode).is_ok()
            {
                self.opened.remove(&path);
            }
            if directory.names.fold() {
                self.folding.insert(directory.identity, Arc::clone(&directory.names));
            }
        }
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
        let directories =
            Directories::new(Arc::clone(&root), (path(""), Kept::default()), Arc::default(), false);
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
        let directories = Directories::new(root, Default::default(), Arc::default(), false);
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
