//! Open handles of the directories that files are being received into.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use crate::root::Root;
use crate::wire::RelativePath;

/// Handles kept at once; beyond, the cache starts anew and in-use handles live on by their count.
const HANDLES_MAX: usize = 128;

/// A directory that files are received into.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    /// Made by this operation, so nothing the operation offers can be in it yet.
    pub(crate) fresh: bool,
}

impl Directory {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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
    open: Mutex<HashMap<RelativePath, Arc<Directory>>>,
}

impl Directories {
    pub(crate) fn new(root: Arc<Root>) -> Self {
        Self { root, open: Mutex::default() }
    }

    /// The directory at `path`, made with its parents where absent.
    pub(crate) fn get(&self, path: &RelativePath) -> io::Result<Arc<Directory>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(directory) = open.get(path) {
            return Ok(Arc::clone(directory));
        }
        let (fd, fresh) = self.root.make_directory(path)?;
        let directory = Arc::new(Directory { fd, fresh });
        if open.len() >= HANDLES_MAX {
            // `fresh` would be wrong on a directory that was seen before.
            open.clear();
        }
        open.insert(path.clone(), Arc::clone(&directory));
        Ok(directory)
    }
}
