//! What is to be sent: places named by a person or a peer, and the walk through them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Dir, FileType, Stat};

use crate::error::{FileFailure, TransferError};
use crate::receive::is_stage_name;
use crate::root::{self, Confinement, Links, Root};
use crate::wire::{DirectoryEntry, FailureCode, FileEntry, LinkEntry, RelativePath};

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

/// What a walk comes by.
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
    /// to a directory are resolved now and not again, and none is followed below it.
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
            self.root = Arc::new(self.root.below(&self.path)?);
            self.path = RelativePath::default();
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
}

/// Where links are copied as links no way leads through one: a directory that becomes a link
/// while it is sent leads nowhere.
fn walked(links: Links) -> Confinement {
    match links {
        Links::Keep => Confinement::Unlinked,
        Links::Follow => Confinement::Open,
    }
}

/// Walks a source depth first, names in order, one item at a time.
pub(crate) struct Walk {
    source: Source,
    stack: Vec<Level>,
    started: bool,
}

struct Level {
    /// Below the root.
    path: RelativePath,
    /// Below the destination.
    name: RelativePath,
    stat: Stat,
    /// Names left, the next one last.
    names: Vec<Vec<u8>>,
}

impl Walk {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, stack: Vec::new(), started: false }
    }

    fn visit(&mut self, path: RelativePath, name: RelativePath) -> Option<Found> {
        let root = Arc::clone(&self.source.root);
        // Only where something is said of it: most files are moved in silence.
        let shown = || root.show(&path);
        let failed = |what, error: io::Error| {
            Some(Found::Failed(FileFailure::storage(what, &shown(), &error)))
        };
        let stat = match root.stat(&path, self.source.links) {
            Ok(stat) => stat,
            Err(error) => return failed("cannot look at", error),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if is_stage_file(&path) => {
                let message =
                    format!("left out \"{}\": it has the name of a file in progress", shown());
                Some(Found::Failed(FileFailure { code: FailureCode::BadRequest, message }))
            }
            FileType::RegularFile => {
                let entry = file_entry(name, &stat);
                Some(Found::File { path, stat, entry })
            }
            FileType::Symlink => match root.link_target(&path) {
                Ok(target) => Some(Found::Link(LinkEntry { path: name, target })),
                Err(error) => failed("cannot read the link", error),
            },
            FileType::Directory => match self.enter(path.clone(), name, stat) {
                Ok(()) => None,
                Err(error) => failed("cannot read directory", error),
            },
            _ => {
                let message = format!("skipped \"{}\": not a file, directory or link", shown());
                Some(Found::Skipped(message))
            }
        }
    }

    fn enter(&mut self, path: RelativePath, name: RelativePath, stat: Stat) -> io::Result<()> {
        let same =
            |level: &Level| (level.stat.st_dev, level.stat.st_ino) == (stat.st_dev, stat.st_ino);
        if self.stack.iter().any(same) {
            return Err(io::Error::other("a symbolic link leads back to a directory above it"));
        }
        let fd = self.source.root.directory(&path)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let entry = entry.file_name().to_bytes();
            if entry != b"." && entry != b".." {
                names.push(entry.to_vec());
            }
        }
        names.sort_unstable_by(|one, other| other.cmp(one));
        self.stack.push(Level { path, name, stat, names });
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if !self.started {
            self.started = true;
            let found = self.visit(self.source.path.clone(), self.source.name.clone());
            if found.is_some() {
                return found;
            }
        }
        loop {
            let level = self.stack.last_mut()?;
            let Some(next) = level.names.pop() else {
                let level = self.stack.pop()?;
                // The destination's own attributes are its owner's business.
                if !level.name.is_empty() {
                    return Some(Found::Directory(directory_entry(level.name, &level.stat)));
                }
                continue;
            };
            let paths = (level.path.child(&next), level.name.child(&next));
            let (Ok(path), Ok(name)) = paths else {
                let shown = self.source.root.show(&level.path);
                let message = format!("left out a path below \"{shown}\": longer than 4095 bytes");
                let code = FailureCode::BadRequest;
                return Some(Found::Failed(FileFailure { code, message }));
            };
            let found = self.visit(path, name);
            if found.is_some() {
                return found;
            }
        }
    }
}

/// What is in progress of another transfer into the same tree is nobody's content.
fn is_stage_file(path: &RelativePath) -> bool {
    path.split_last().is_some_and(|(_, name)| is_stage_name(name))
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

fn permissions(stat: &Stat) -> u16 {
    (stat.st_mode & 0o777) as u16
}

fn file_entry(path: RelativePath, stat: &Stat) -> FileEntry {
    FileEntry {
        path,
        size_bytes: stat.st_size as u64,
        modified_ns: root::modified_ns(stat),
        mode: permissions(stat),
        // Fewer blocks than bytes: it has holes (or is compressed, which does no harm).
        sparse: (stat.st_blocks as u64).saturating_mul(512) < stat.st_size as u64,
    }
}

fn directory_entry(path: RelativePath, stat: &Stat) -> DirectoryEntry {
    DirectoryEntry { path, modified_ns: root::modified_ns(stat), mode: permissions(stat) }
}
