//! Places below a destination that its sender may read and not change, by whichever way it comes
//! to them: by their names, through a link, or by other names that lead there.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::root::{self, Root};
use crate::wire::RelativePath;

/// What is kept from the sender. Most keep nothing, and are asked nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// By their paths below the destination's root, be they there or not, with whether they may be
    /// changed after all; the nearest one decides.
    paths: Vec<(RelativePath, bool)>,
    /// By what tells a directory from all others.
    places: Vec<(u64, u64)>,
}

impl Kept {
    /// Keeps `paths` below `root` that may not be changed, and those of the directories `others`
    /// that are below it.
    pub(crate) fn new<'a>(
        root: &Root,
        paths: Vec<(RelativePath, bool)>,
        others: impl Iterator<Item = &'a Arc<Root>>,
    ) -> io::Result<Self> {
        let (mut places, top) = (Vec::new(), root.identity()?);
        for other in others {
            let above = other.above()?;
            if above[0] != top && above.contains(&top) {
                places.push(above[0]);
            }
        }
        Ok(Self { paths, places })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.paths.iter().all(|(_, may)| *may)
    }

    /// Whether what is at `path` may be changed, as far as its name tells.
    pub(crate) fn admits(&self, path: &RelativePath) -> bool {
        let fits = |one: &&(RelativePath, bool)| path.below(&one.0).is_some();
        let nearest = self.paths.iter().filter(fits).max_by_key(|(kept, _)| kept.as_bytes().len());
        nearest.is_none_or(|(_, may)| *may)
    }

    /// An error if the directory, which was reached somehow, is one of those or below one.
    pub(crate) fn check(&self, root: &Root, directory: BorrowedFd<'_>) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let top = root.identity()?;
        // Looked for each time: what is there may have changed.
        let named =
            self.paths.iter().filter_map(|(path, may)| Some((root.identity_at(path)?, *may)));
        let known: HashMap<(u64, u64), bool> =
            self.places.iter().map(|place| (*place, false)).chain(named).collect();
        let above = root::above(directory)?;
        match above.iter().take_while(|one| **one != top).find_map(|one| known.get(one)) {
            Some(false) => Err(io::Error::new(io::ErrorKind::PermissionDenied, READ_ONLY)),
            _ => Ok(()),
        }
    }
}

/// Why it may not be changed.
pub(super) const READ_ONLY: &str = "this client may only read there";
