//! What is to be sent: places named by a person or a peer.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};

use crate::error::{FileFailure, TransferError};
use crate::root::{self, Confinement, Links, Root};
use crate::wire::{DirectoryEntry, FileEntry, LinkEntry, RelativePath};

/// Longer ways to a directory are gone once, and count nothing in the paths below it.
const SHORT_MAX: usize = 255;

/// One place to send from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) root: Arc<Root>,
    /// Below the root.
    pub(crate) path: RelativePath,
    /// What it is called below the destination; empty sends a directory's content.
    pub(crate) name: RelativePath,
    pub(crate) links: Links,
}

/// What a [`Walk`](super::walk::Walk) comes by.
pub(crate) enum Found {
    File {
        path: RelativePath,
        stat: Stat,
        entry: FileEntry,
    },
    Link(LinkEntry),
    /// After everything in it.
    Directory(DirectoryEntry),
    /// Not a kind of file that is copied.
    Skipped(String),
    Failed(FileFailure),
}

impl Source {
    /// A place on this machine as its user names it. As with rsync, `DIR` is sent as a
    /// directory of that name, and `DIR/` (or `.`) as its content.
    pub(crate) fn local(typed: &Path, links: Links) -> Result<Self, TransferError> {
        let local = |source| TransferError::Local {
            what: "cannot send",
            path: typed.display().to_string(),
            source,
        };
        let stat = std::fs::metadata(typed).or_else(|error| match links {
            // A link that leads nowhere can still be copied as a link.
            Links::Keep => std::fs::symlink_metadata(typed),
            Links::Follow => Err(error),
        });
        let stat = stat.map_err(local)?;
        let is_directory = stat.is_dir();
        let special = !(is_directory || stat.is_file() || stat.is_symlink());
        let passing = links == Links::Keep && is_magic_link(typed);
        if passing || (special && !typed.is_symlink()) || (special && links == Links::Follow) {
            return Err(local(not_sendable()));
        }
        let bytes = typed.as_os_str().as_bytes();
        let content_only = bytes.ends_with(b"/") || typed.file_name().is_none();
        let confinement = walked(links);
        if is_directory && content_only {
            let root = Arc::new(Root::open(typed, confinement)?);
            let nothing = RelativePath::default();
            return Ok(Self { root, path: nothing.clone(), name: nothing, links });
        }
        let name = typed.file_name().unwrap_or(OsStr::new(""));
        let parent = match typed.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let root = Arc::new(Root::open(parent, confinement)?);
        let path = RelativePath::new(name.as_bytes()).map_err(TransferError::Path)?;
        Ok(Self { root, name: path.clone(), path, links })
    }

    /// A place below a directory that nothing leads out of, named as in [`Self::local`].
    pub(crate) fn below_root(
        root: &Arc<Root>,
        typed: &Path,
        links: Links,
    ) -> Result<Self, TransferError> {
        let bytes = typed.as_os_str().as_bytes();
        let path = RelativePath::from_typed(bytes).map_err(TransferError::Path)?;
        let shown = root.show(&path);
        let source = Self::below(Arc::clone(root), path, bytes.ends_with(b"/"), links);
        let local = |source| TransferError::Local { what: "cannot send", path: shown, source };
        source.check().map_err(local)
    }

    /// A place below a served root, as a peer names it.
    pub(crate) fn below(
        root: Arc<Root>,
        path: RelativePath,
        content_only: bool,
        links: Links,
    ) -> Self {
        let name = match path.split_last() {
            Some((_, name)) if !content_only => RelativePath::new(name).unwrap_or_default(),
            _ => RelativePath::default(),
        };
        Self { root, path, name, links }
    }

    /// This source, if there is something at its path that can be sent. The links on the way
    /// to a directory are resolved now and not again, and none is followed below it. It has a
    /// handle of its own only where there are some: one request may name thousands of sources.
    pub(crate) fn check(mut self) -> io::Result<Self> {
        let stat = self.root.stat(&self.path, self.links)?;
        let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
        if self.name.is_empty() && !is_directory {
            return Err(rustix::io::Errno::NOTDIR.into());
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::Symlink | FileType::Directory) {
            return Err(not_sendable());
        }
        if is_directory && self.links == Links::Keep {
            let unlinked = self.root.unlinked();
            let same = |found: &Stat| root::identity_of(found) == root::identity_of(&stat);
            // The paths below it are to be as long as any.
            let is_short = self.path.as_bytes().len() <= SHORT_MAX;
            if is_short && unlinked.stat(&self.path, Links::Keep).is_ok_and(|found| same(&found)) {
                self.root = Arc::new(unlinked);
            } else {
                self.root = Arc::new(self.root.below(&self.path)?);
                self.path = RelativePath::default();
            }
        }
        Ok(self)
    }

    /// Whether this is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        let stat = self.root.stat(&self.path, self.links);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
    }

    /// Whether this is a regular file.
    pub(crate) fn is_file(&self) -> bool {
        let stat = self.root.stat(&self.path, self.links);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file())
    }

    /// Whether this is one thing that may take another name: a regular file, or a link that is
    /// copied as a link.
    pub(crate) fn is_single(&self) -> bool {
        let stat = self.root.stat(&self.path, self.links);
        let kind = stat.map(|stat| FileType::from_raw_mode(stat.st_mode));
        kind.is_ok_and(|kind| kind.is_file() || kind.is_symlink())
    }
}

/// Where links are copied as links no way leads through one: a directory that becomes a link
/// while it is sent leads nowhere.
fn walked(links: Links) -> Confinement {
    match links {
        Links::Keep => Confinement::Unlinked,
        Links::Follow => Confinement::Open,
    }
}

fn not_sendable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no file, directory or link that stays")
}

/// Whether a name stands for what a process has open, as that of `<(command)` does: a copy of
/// such a link leads nowhere.
fn is_magic_link(typed: &Path) -> bool {
    let Ok(target) = std::fs::read_link(typed) else {
        return false;
    };
    let parent = typed.parent().map(std::fs::canonicalize);
    target.starts_with("/proc") || matches!(parent, Some(Ok(parent)) if parent.starts_with("/proc"))
}
