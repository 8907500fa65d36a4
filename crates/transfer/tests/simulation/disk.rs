//! What a loss of power leaves of the files at risk: all that was synced, and of the rest as much
//! as the seed decides.
//!
//! A file is left with any content that each of its pages has had since the last sync, torn by
//! sectors now and then; with any of its sizes; with its attributes or without. A directory is left
//! with the first few changes of its names since it was synced, as a journal keeps them. Nothing
//! orders these among each other, so a name may be there before its content is, as POSIX allows.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString, c_char, c_int};
use std::fs::{self, File, Metadata, OpenOptions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use weir_random::Random;

const PAGE: u64 = 4096;
const SECTOR: usize = 512;
/// Versions of a page that are remembered.
const VERSIONS_MAX: usize = 4;
const BOOT_ID: &CStr = c"/proc/sys/kernel/random/boot_id";

static DISK: Mutex<Option<Disk>> = Mutex::new(None);

/// What is not on the disk yet.
struct Disk {
    /// The folder at risk.
    root: PathBuf,
    files: Vec<Unsynced>,
    names: BTreeMap<PathBuf, Vec<Change>>,
    random: Random,
    boots: u64,
}

/// A file's earlier states, as far as the disk may still have them.
struct Unsynced {
    identity: u64,
    file: File,
    pages: BTreeMap<u64, Vec<Vec<u8>>>,
    sizes: Vec<u64>,
    attributes: Option<Metadata>,
}

/// What happened to the names of a directory, and what it takes to undo it.
enum Change {
    Made(OsString),
    Removed(OsString, Kept),
    Renamed { from: OsString, to: OsString, displaced: Option<Kept> },
}

/// What lost its name.
enum Kept {
    File(File),
    Link(PathBuf),
}

/// From now on what is below `root` can be lost.
pub(crate) fn begin(seed: u64, root: PathBuf) {
    let random = Random::of_source(seed, &["power"]);
    let disk = Disk { root, files: Vec::new(), names: BTreeMap::new(), random, boots: 0 };
    if let Ok(mut place) = DISK.lock() {
        *place = Some(disk);
    }
}

/// Lets `note` look at the disk, if there is one. The simulator's own calls, within `note`, find
/// it taken and pass.
fn with<T>(note: impl FnOnce(&mut Disk) -> T) -> Option<T> {
    DISK.try_lock().ok()?.as_mut().map(note)
}

/// The power goes: the files become what the disk has of them.
pub(crate) fn lose_power() {
    with(Disk::lose);
}

/// To be called before bytes of a file are changed.
pub(crate) fn writes(fd: c_int, at: i64, count: usize) {
    with(|disk| {
        let unsynced = disk.unsynced(fd)?;
        let from = at as u64;
        unsynced.note(from, from + count as u64);
        Some(())
    });
}

/// To be called before a file gets another size.
pub(crate) fn resizes(fd: c_int, to: i64) {
    with(|disk| {
        let unsynced = disk.unsynced(fd)?;
        let size = unsynced.file.metadata().ok()?.len();
        unsynced.note((to as u64).min(size), size);
        Some(())
    });
}

/// To be called before a file's mode or times are set.
pub(crate) fn dresses(fd: c_int) {
    with(|disk| {
        let unsynced = disk.unsynced(fd)?;
        if unsynced.attributes.is_none() {
            unsynced.attributes = unsynced.file.metadata().ok();
        }
        Some(())
    });
}

/// As `dresses`, for a path that stands for a descriptor; the handle may be good for nothing else.
pub(crate) fn dresses_at(path: *const c_char) {
    // SAFETY: the caller passes a string that ends with a zero, as C does.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let number = path.strip_prefix(b"/proc/self/fd/").and_then(|fd| std::str::from_utf8(fd).ok());
    if let Some(fd) = number.and_then(|fd| fd.parse().ok()) {
        dresses(fd);
    }
}

/// A file's data, or a file or directory, is on the disk.
pub(crate) fn synced(fd: c_int, data_only: bool) {
    with(|disk| {
        let identity = identity(fd)?;
        if let Some(path) = path_of(fd) {
            disk.names.remove(&path);
        }
        let index = disk.files.iter().position(|file| file.identity == identity)?;
        if data_only && disk.files[index].attributes.is_some() {
            disk.files[index].pages.clear();
            disk.files[index].sizes.clear();
        } else {
            disk.files.remove(index);
        }
        Some(())
    });
}

/// To be called after a name was made.
pub(crate) fn made(at: c_int, name: *const c_char, result: isize) -> isize {
    if result >= 0 {
        with(|disk| {
            let (folder, name) = disk.place(at, name)?;
            disk.names.entry(folder).or_default().push(Change::Made(name));
            Some(())
        });
    }
    result
}

/// Removes a name by `act`.
pub(crate) fn removes(at: c_int, name: *const c_char, act: impl FnOnce() -> isize) -> isize {
    let kept = with(|disk| {
        let (folder, name) = disk.place(at, name)?;
        let kept = Kept::of(&folder.join(&name))?;
        Some((folder, Change::Removed(name, kept)))
    });
    note_name(kept.flatten(), act())
}

/// Gives a file another name of the same directory by `act`.
pub(crate) fn renames(
    at: c_int,
    from: *const c_char,
    to: *const c_char,
    act: impl FnOnce() -> isize,
) -> isize {
    let change = with(|disk| {
        let (folder, from) = disk.place(at, from)?;
        let (_, to) = disk.place(at, to)?;
        let displaced = Kept::of(&folder.join(&to));
        Some((folder, Change::Renamed { from, to, displaced }))
    });
    note_name(change.flatten(), act())
}

fn note_name(change: Option<(PathBuf, Change)>, result: isize) -> isize {
    if result == 0
        && let Some((folder, change)) = change
    {
        with(|disk| disk.names.entry(folder).or_default().push(change));
    }
    result
}

/// Where the name of this boot is to be read, if that is what `path` is for.
pub(crate) fn boot_id(path: *const c_char) -> Option<CString> {
    // SAFETY: the caller passes a string that ends with a zero, as C does.
    if unsafe { CStr::from_ptr(path) } != BOOT_ID {
        return None;
    }
    with(|disk| {
        let place = disk.root.with_file_name(format!("boot-{}", disk.boots));
        fs::write(&place, disk.boots.to_string()).ok()?;
        CString::new(place.into_os_string().into_vec()).ok()
    })
    .flatten()
}

fn path_of(fd: c_int) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{fd}")).ok()
}

/// A file by another handle, which shares neither place nor lock with the first.
fn reopen(fd: c_int) -> Option<File> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{fd}")).ok()
}

fn identity(fd: c_int) -> Option<u64> {
    fs::metadata(format!("/proc/self/fd/{fd}")).ok().map(|about| about.ino())
}

impl Disk {
    /// What is noted of an open file, if it is at risk.
    fn unsynced(&mut self, fd: c_int) -> Option<&mut Unsynced> {
        let identity = identity(fd)?;
        let index = match self.files.iter().position(|file| file.identity == identity) {
            Some(index) => index,
            None => {
                if !path_of(fd)?.starts_with(&self.root) {
                    return None;
                }
                let (pages, sizes, attributes) = (BTreeMap::new(), Vec::new(), None);
                let file = reopen(fd)?;
                self.files.push(Unsynced { identity, file, pages, sizes, attributes });
                self.files.len() - 1
            }
        };
        Some(&mut self.files[index])
    }

    /// The directory, if it is at risk, and name of an entry.
    fn place(&self, at: c_int, name: *const c_char) -> Option<(PathBuf, OsString)> {
        // SAFETY: the caller passes a string that ends with a zero, as C does.
        let name =
            Path::new(std::ffi::OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
        let path = if name.is_absolute() { name.to_owned() } else { path_of(at)?.join(name) };
        let (folder, name) = (path.parent()?.to_owned(), path.file_name()?.to_owned());
        folder.starts_with(&self.root).then_some((folder, name))
    }

    fn lose(&mut self) {
        self.boots += 1;
        for mut file in std::mem::take(&mut self.files) {
            file.lose(&mut self.random).expect("the run's folder can be written");
        }
        // What holds others comes first: with its name everything in it is gone.
        for (folder, mut changes) in std::mem::take(&mut self.names) {
            let count = changes.len() as u64;
            let kept = match self.random.up_to(3) {
                0 => 0,
                1 => count,
                _ => self.random.up_to(count),
            };
            if folder.is_dir() {
                changes.drain(kept as usize..).rev().for_each(|change| change.undo(&folder));
            }
        }
    }
}

impl Unsynced {
    /// Remembers the present size, and the pages from one place to another.
    fn note(&mut self, from: u64, to: u64) {
        let size = self.file.metadata().map_or(0, |about| about.len());
        if self.sizes.last() != Some(&size) {
            self.sizes.push(size);
        }
        for page in from / PAGE..to.div_ceil(PAGE) {
            let stands = self.page(page);
            let versions = self.pages.entry(page).or_default();
            if versions.last() != Some(&stands) {
                versions.push(stands);
            }
            // The first is what the disk has for certain.
            if versions.len() > VERSIONS_MAX {
                versions.remove(1);
            }
        }
    }

    /// A page without the zeros at its end.
    fn page(&self, number: u64) -> Vec<u8> {
        let mut bytes = vec![0; PAGE as usize];
        let count = self.file.read_at(&mut bytes, number * PAGE).unwrap_or(0);
        let count = bytes[..count].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(count);
        bytes
    }

    fn lose(&mut self, random: &mut Random) -> std::io::Result<()> {
        let about = self.file.metadata()?;
        self.sizes.push(about.len());
        // Some disks have written much, some nothing.
        let share = [0.0, 0.5, 0.95, 1.0][random.up_to(3) as usize];
        let size = match random.up_to(3) {
            0 => self.sizes[random.up_to(self.sizes.len() as u64 - 1) as usize],
            1 => self.sizes[0],
            _ => about.len(),
        };
        for (page, mut versions) in std::mem::take(&mut self.pages) {
            if random.chance(share) {
                continue;
            }
            let mut stands = self.page(page);
            let which = random.up_to(versions.len() as u64 - 1) as usize;
            let mut old = versions.swap_remove(which);
            stands.resize(PAGE as usize, 0);
            old.resize(PAGE as usize, 0);
            let torn = random.chance(0.1);
            for (now, before) in stands.chunks_mut(SECTOR).zip(old.chunks(SECTOR)) {
                if !torn || random.chance(0.5) {
                    now.copy_from_slice(before);
                }
            }
            self.file.write_all_at(&stands, page * PAGE)?;
        }
        self.file.set_len(size)?;
        let before = self.attributes.take();
        let mut kept = |one: &Metadata| {
            let old = before.as_ref().filter(|_| random.chance(0.5));
            old.unwrap_or(one).clone()
        };
        let (mode, time) = (kept(&about), kept(&about));
        dress(&self.file, &mode, &time)
    }
}

fn dress(file: &File, mode: &Metadata, time: &Metadata) -> std::io::Result<()> {
    file.set_modified(time.modified()?)?;
    file.set_permissions(mode.permissions())
}

impl Kept {
    fn of(path: &Path) -> Option<Self> {
        let about = fs::symlink_metadata(path).ok()?;
        if about.is_symlink() {
            return Some(Self::Link(fs::read_link(path).ok()?));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        about.is_file().then(|| options.open(path).ok().map(Self::File)).flatten()
    }

    /// The same under its old name; a file that had none in between is another one now.
    fn restore(self, path: &Path) -> std::io::Result<()> {
        match self {
            Self::Link(target) => std::os::unix::fs::symlink(target, path),
            Self::File(file) => {
                let about = file.metadata()?;
                let mut bytes = vec![0; about.len() as usize];
                file.read_exact_at(&mut bytes, 0)?;
                fs::write(path, bytes)?;
                dress(&OpenOptions::new().write(true).open(path)?, &about, &about)
            }
        }
    }
}

impl Change {
    fn undo(self, folder: &Path) {
        let done = match self {
            Self::Made(name) => {
                let path = folder.join(name);
                let directory = fs::symlink_metadata(&path).is_ok_and(|about| about.is_dir());
                if directory { fs::remove_dir_all(path) } else { fs::remove_file(path) }
            }
            Self::Removed(name, kept) => kept.restore(&folder.join(name)),
            Self::Renamed { from, to, displaced } => {
                let (from, to) = (folder.join(from), folder.join(to));
                let renamed = fs::rename(&to, &from);
                renamed.and_then(|()| displaced.map_or(Ok(()), |kept| kept.restore(&to)))
            }
        };
        done.expect("what was done can be undone");
    }
}
