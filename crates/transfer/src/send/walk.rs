//! The walk through a source: depth first, one item at a time, in memory that does not grow with
//! the tree.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, RawDir, Stat};

use super::source::{Found, Source};
use crate::error::FileFailure;
use crate::receive::is_stage_name;
use crate::root::{self, Links};
use crate::wire::{DirectoryEntry, FailureCode, FileEntry, LinkEntry, RelativePath};

/// Names of one directory that are held at once. They are visited in order, because files that
/// were made in the order of their names lie near each other; in a larger directory so many are.
const LISTED: usize = 8192;
/// Bytes of names taken from the kernel in one call, which are some hundreds.
const LISTING: usize = 1 << 15;
/// Directories above the present one that are held open; those further up are opened anew.
const OPEN_MAX: usize = 64;

/// Walks a source.
pub(crate) struct Walk {
    source: Source,
    stack: Vec<Level>,
    started: bool,
    buffer: Vec<u8>,
}

/// A directory that is being walked through.
struct Level {
    /// Below the root.
    path: RelativePath,
    /// Below the destination.
    name: RelativePath,
    stat: Stat,
    /// Its handle, at least as long as there is more to be listed.
    directory: Option<OwnedFd>,
    names: Names,
}

/// Some of the names of a directory, in one piece.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    /// Where each of those that are left begins and ends, the next one last.
    left: Vec<(u32, u32)>,
    /// The directory has others.
    more: bool,
}

impl Names {
    /// Takes the next names from a directory's handle, which remembers how far it has come.
    fn list(&mut self, directory: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> io::Result<()> {
        self.bytes.clear();
        self.more = false;
        buffer.clear();
        buffer.reserve(LISTING);
        let mut listing = RawDir::new(directory, buffer.spare_capacity_mut());
        while let Some(entry) = listing.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(name);
                self.left.push((start as u32, self.bytes.len() as u32));
            }
            if self.left.len() >= LISTED && listing.is_buffer_empty() {
                self.more = true;
                break;
            }
        }
        let bytes = &self.bytes;
        let name = |(start, end): (u32, u32)| &bytes[start as usize..end as usize];
        self.left.sort_unstable_by(|one, other| name(*other).cmp(name(*one)));
        Ok(())
    }

    /// All that were listed were taken, and there are others.
    fn is_used_up(&self) -> bool {
        self.more && self.left.is_empty()
    }

    fn next(&mut self) -> Option<&[u8]> {
        let (start, end) = self.left.pop()?;
        Some(&self.bytes[start as usize..end as usize])
    }
}

impl Walk {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, stack: Vec::new(), started: false, buffer: Vec::new() }
    }

    /// What the source itself is.
    fn begin(&mut self) -> Option<Found> {
        let (path, name) = (self.source.path.clone(), self.source.name.clone());
        match self.source.root.stat(&path, self.source.links) {
            Ok(stat) => self.visit(path, name, stat),
            Err(error) => Some(self.failed("cannot look at", &path, error)),
        }
    }

    fn visit(&mut self, path: RelativePath, name: RelativePath, stat: Stat) -> Option<Found> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if is_stage_name(path.split_bytes().1) => {
                let shown = self.source.root.show(&path);
                let message =
                    format!("left out \"{shown}\": it has the name of a file in progress");
                Some(Found::Failed(FileFailure { code: FailureCode::BadRequest, message }))
            }
            FileType::RegularFile => {
                let entry = file_entry(name, &stat);
                Some(Found::File { path, stat, entry })
            }
            FileType::Symlink => match self.source.root.link_target(&path) {
                Ok(target) => Some(Found::Link(LinkEntry { path: name, target })),
                Err(error) => Some(self.failed("cannot read the link", &path, error)),
            },
            FileType::Directory => match self.enter(path.clone(), name, stat) {
                Ok(()) => None,
                Err(error) => Some(self.failed("cannot read directory", &path, error)),
            },
            _ => {
                let shown = self.source.root.show(&path);
                let message = format!("skipped \"{shown}\": not a file, directory or link");
                Some(Found::Skipped(message))
            }
        }
    }

    fn failed(&self, what: &'static str, path: &RelativePath, error: io::Error) -> Found {
        let shown = self.source.root.show(path);
        Found::Failed(FileFailure::storage(what, &shown, &error))
    }

    fn enter(&mut self, path: RelativePath, name: RelativePath, stat: Stat) -> io::Result<()> {
        let same =
            |level: &Level| (level.stat.st_dev, level.stat.st_ino) == (stat.st_dev, stat.st_ino);
        if self.stack.iter().any(same) {
            return Err(io::Error::other("a symbolic link leads back to a directory above it"));
        }
        let directory = self.source.root.directory(&path)?;
        let mut names = Names::default();
        names.list(directory.as_fd(), &mut self.buffer)?;
        self.stack.push(Level { path, name, stat, directory: Some(directory), names });
        if let Some(far) = self.stack.len().checked_sub(OPEN_MAX + 1)
            && !self.stack[far].names.more
        {
            self.stack[far].directory = None;
        }
        Ok(())
    }

    /// Goes on to the next name; `None` once there is none anywhere.
    fn step(&mut self) -> Option<Step> {
        let level = self.stack.last_mut()?;
        if let (Some(directory), true) = (&level.directory, level.names.is_used_up())
            && let Err(error) = level.names.list(directory.as_fd(), &mut self.buffer)
        {
            // What could be listed of it is visited all the same.
            let path = level.path.clone();
            return Some(Step::Found(self.failed("cannot read directory", &path, error)));
        }
        let Some(next) = level.names.next() else {
            return Some(Step::Up);
        };
        let (Some(path), Some(name)) = (level.path.listed(next), level.name.listed(next)) else {
            let shown = self.source.root.show(&level.path);
            let message = format!("left out a path below \"{shown}\": longer than 4095 bytes");
            let code = FailureCode::BadRequest;
            return Some(Step::Found(Found::Failed(FileFailure { code, message })));
        };
        let looked = look(&self.source, level, &path);
        Some(match looked {
            Ok(stat) => Step::Visit(path, name, stat),
            Err(error) => Step::Found(self.failed("cannot look at", &path, error)),
        })
    }
}

/// Where a walk comes to next.
enum Step {
    /// A name of the present directory.
    Visit(RelativePath, RelativePath, Stat),
    /// Out of the present directory.
    Up,
    Found(Found),
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if !self.started {
            self.started = true;
            let found = self.begin();
            if found.is_some() {
                return found;
            }
        }
        loop {
            let found = match self.step()? {
                Step::Visit(path, name, stat) => self.visit(path, name, stat),
                Step::Found(found) => Some(found),
                // The destination's own attributes are its owner's business.
                Step::Up => self
                    .stack
                    .pop()
                    .filter(|level| !level.name.is_empty())
                    .map(|level| Found::Directory(directory_entry(level.name, &level.stat))),
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

/// What an entry of a directory is, by the directory's handle: the way to it is not gone again.
fn look(source: &Source, level: &mut Level, path: &RelativePath) -> io::Result<Stat> {
    let Source { root, links, .. } = source;
    let directory = match &level.directory {
        Some(directory) => directory,
        None => level.directory.insert(root.directory(&level.path)?),
    };
    let stat = rustix::fs::statat(directory, path.split_bytes().1, AtFlags::SYMLINK_NOFOLLOW)?;
    match (links, FileType::from_raw_mode(stat.st_mode)) {
        // Where a link may lead to is the root's to say.
        (Links::Follow, FileType::Symlink) => root.stat(path, Links::Follow),
        _ => Ok(stat),
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn walk(top: &Path, links: Links) -> Walk {
        let typed = top.join("");
        Walk::new(Source::local(&typed, links).unwrap())
    }

    #[test]
    fn a_large_directory_is_listed_in_parts_and_all_of_it_is_found() {
        let top = tempfile::tempdir().unwrap();
        let file = top.path().join("00000");
        std::fs::write(&file, "").unwrap();
        let count = 2 * LISTED + LISTED / 2;
        (1..count).for_each(|n| {
            std::fs::hard_link(&file, top.path().join(format!("{n:05}"))).unwrap();
        });
        let mut walk = walk(top.path(), Links::Keep);
        let (mut found, mut held) = (BTreeSet::new(), 0);
        while let Some(Found::File { path, entry, .. }) = walk.next() {
            assert_eq!(path, entry.path);
            assert!(found.insert(path));
            held = held.max(walk.stack[0].names.left.len());
        }
        assert_eq!(found.len(), count);
        // What one call of the kernel lists may come on top.
        assert!(held < LISTED + LISTING / 24, "{held} names were held");
    }

    #[test]
    fn a_deep_tree_is_walked_with_few_handles() {
        let top = tempfile::tempdir().unwrap();
        let depth = OPEN_MAX + 40;
        let mut path = top.path().to_owned();
        for _ in 0..depth {
            path.push("d");
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("z"), "after the directory beside it").unwrap();
        }
        let mut walk = walk(top.path(), Links::Keep);
        let (mut files, mut directories, mut open) = (0, 0, 0);
        while let Some(found) = walk.next() {
            match found {
                Found::File { .. } => files += 1,
                Found::Directory(_) => directories += 1,
                _ => panic!("nothing else is there"),
            }
            let handles = walk.stack.iter().filter(|level| level.directory.is_some()).count();
            open = open.max(handles);
        }
        assert_eq!((files, directories), (depth, depth));
        assert!(open <= OPEN_MAX + 1, "{open} directories were open");
    }

    #[test]
    fn names_come_in_order_and_links_as_they_are_wanted() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir(top.path().join("b")).unwrap();
        for file in ["c", "b/x", "a"] {
            std::fs::write(top.path().join(file), "content").unwrap();
        }
        std::os::unix::fs::symlink("c", top.path().join("l")).unwrap();
        let names = |links| -> Vec<String> {
            walk(top.path(), links)
                .map(|found| match found {
                    Found::File { entry, .. } => format!("{} {}", entry.path, entry.size_bytes),
                    Found::Directory(directory) => format!("{}/", directory.path),
                    Found::Link(link) => format!("{}@", link.path),
                    _ => "?".to_owned(),
                })
                .collect()
        };
        assert_eq!(names(Links::Keep), ["a 7", "b/x 7", "b/", "c 7", "l@"]);
        assert_eq!(names(Links::Follow), ["a 7", "b/x 7", "b/", "c 7", "l 7"]);
    }
}
