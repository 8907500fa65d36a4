//! Files beside a final name while its content is in progress: their names, who may have made
//! them, and how one of them gets the final name.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::interrupted::retry_interrupted;
use crate::root::{entry_stat, identity_of};
use crate::scratch::{create_new, create_random, random_name, unnamed};

/// How long a new transfer waits for a dying one to let go of the same file.
const TAKE_OVER: Duration = Duration::from_secs(3);
/// Files in progress that nobody has touched for so long are removed.
const EXPIRY: Duration = Duration::from_secs(7 * 24 * 3600);
/// This kernel has not refused yet to link a file by its descriptor alone.
static BY_DESCRIPTOR: AtomicBool = AtomicBool::new(true);
/// Attempts at a name that others make and remove meanwhile.
const TRIES: usize = 16;

/// The names of a resumable file in progress. Made from a hash, because a name of 255 bytes
/// leaves no room for a suffix.
#[derive(Debug)]
pub(crate) struct StageNames {
    pub(crate) part: Vec<u8>,
    pub(crate) journal: Vec<u8>,
    /// By which others may write to the part; seldom there.
    pub(crate) lease: Vec<u8>,
}

impl StageNames {
    pub(crate) fn of(name: &[u8]) -> Self {
        let hash = blake3::hash(name).to_hex();
        Self::with_stem(format!(".weir-{}", &hash[..16]).as_bytes())
    }

    fn with_stem(stem: &[u8]) -> Self {
        let with = |suffix: &[u8]| [stem, suffix].concat();
        Self { part: with(b".part"), journal: with(b".journal"), lease: with(b".lease") }
    }

    /// All of them.
    pub(crate) fn all(&self) -> [&[u8]; 3] {
        [&self.part, &self.journal, &self.lease]
    }

    /// Removes what an earlier attempt left of a file that is complete, unless another transfer
    /// is at it.
    pub(crate) fn remove_stale(directory: BorrowedFd<'_>, name: &[u8]) {
        let names = Self::of(name);
        if matches!(entry_stat(directory, &names.journal), Ok(Some(_))) {
            remove_unlocked(directory, &names);
        }
    }
}

/// Whether this is the name of a file in progress, which no content may have.
pub(crate) fn is_stage_name(name: &[u8]) -> bool {
    let stem = name.strip_prefix(b".weir-").and_then(|rest| rest.split_at_checked(16));
    stem.is_some_and(|(hash, suffix)| {
        hash.iter().all(u8::is_ascii_hexdigit)
            && matches!(suffix, b".part" | b".journal" | b".lease")
    })
}

/// Lets `act` have a file that is gone afterwards.
pub(crate) fn with_scratch<T>(
    directory: BorrowedFd<'_>,
    act: impl FnOnce(&OwnedFd) -> io::Result<T>,
) -> io::Result<T> {
    if let Ok(file) = unnamed(directory) {
        return act(&file);
    }
    let (file, name) = create_random(directory)?;
    let result = act(&file);
    remove(directory, &name)?;
    result
}

/// Opens a resumable file that only this user can have made and written; whatever else has its
/// name is set aside.
pub(crate) fn open_own(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<File> {
    for _ in 0..TRIES {
        match create_new(directory, name) {
            Err(Errno::EXIST) => {}
            result => return Ok(File::from(result?)),
        }
        // Looked at before it is opened, because opening a device or FIFO may do something.
        match entry_stat(directory, name)? {
            None => continue,
            Some(stat) if is_own(&stat) => match open_there(directory, name) {
                Ok(fd) if is_own(&rustix::fs::fstat(&fd)?) => return Ok(File::from(fd)),
                Ok(_) | Err(Errno::NOENT | Errno::LOOP) => continue,
                Err(error) => return Err(error.into()),
            },
            Some(_) => remove(directory, name)?,
        }
    }
    Err(io::Error::other("others keep making files of the name that it has while in progress"))
}

/// Opens what stands there if only this user can have made and written it; makes nothing.
pub(crate) fn open_existing(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<File> {
    let not_own = || io::Error::other("what has its name is not this user's alone");
    // Looked at before it is opened, because opening a device or FIFO may do something.
    match entry_stat(directory, name)? {
        None => return Err(Errno::NOENT.into()),
        Some(stat) if !is_own(&stat) => return Err(not_own()),
        Some(_) => {}
    }
    let fd = open_there(directory, name)?;
    if is_own(&rustix::fs::fstat(&fd)?) { Ok(File::from(fd)) } else { Err(not_own()) }
}

fn open_there(directory: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::io::retry_on_intr(|| rustix::fs::openat(directory, name, flags, Mode::empty()))
}

/// Whether a file in progress is this user's alone.
fn is_own(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_file()
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_nlink == 1
        && stat.st_mode & 0o022 == 0
}

fn remove(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Journals held in this process, where the file system has no locks.
static HELD: LazyLock<Mutex<HashSet<(u64, u64)>>> = LazyLock::new(Mutex::default);

fn held() -> MutexGuard<'static, HashSet<(u64, u64)>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A journal that is nobody else's as long as this lives.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) file: File,
    /// What stands for it in [`HELD`].
    held: Option<(u64, u64)>,
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Some(identity) = &self.held {
            held().remove(identity);
        }
    }
}

/// Keeps a file that has no journal from whoever removes what was left in progress, as long as it
/// is open: it has its source's time, which may be old. Where the file system has no locks it is
/// as safe as it is quick.
pub(crate) fn hold(file: BorrowedFd<'_>) {
    let _ = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
}

/// Whether somebody holds what has this name.
fn is_held(directory: BorrowedFd<'_>, name: &[u8]) -> bool {
    // By whichever right there is: its own permissions may be those that it is to have.
    let opened = [OFlags::RDWR, OFlags::RDONLY].into_iter().find_map(|right| {
        let flags = right | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(directory, name, flags, Mode::empty()).ok()
    });
    opened.is_some_and(|file| {
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        locked == Err(Errno::WOULDBLOCK)
    })
}

/// Locks a journal now or not at all.
fn try_lock(file: File) -> io::Result<Result<Locked, File>> {
    match rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Ok(Locked { file, held: None })),
        Err(Errno::WOULDBLOCK) => Ok(Err(file)),
        // Lustre without `-o flock`, NFS without lockd: at least this process agrees with itself.
        Err(Errno::NOSYS | Errno::NOLCK | Errno::OPNOTSUPP) => {
            let stat = rustix::fs::fstat(&file)?;
            let identity = (stat.st_dev, stat.st_ino);
            if !held().insert(identity) {
                return Ok(Err(file));
            }
            Ok(Ok(Locked { file, held: Some(identity) }))
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens and locks a journal; `None` when another transfer holds it for too long.
pub(crate) fn lock_journal(
    directory: BorrowedFd<'_>,
    names: &StageNames,
) -> io::Result<Option<Locked>> {
    let give_up = Instant::now() + TAKE_OVER;
    loop {
        match try_lock(open_own(directory, &names.journal)?)? {
            // A journal that was removed between opening and locking is nobody's.
            Ok(locked) if has_name(locked.file.as_fd(), directory, &names.journal)? => {
                return Ok(Some(locked));
            }
            Ok(_) if Instant::now() < give_up => {}
            Ok(_) => return Err(io::Error::other("others keep removing the journal that it has")),
            Err(_) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => return Ok(None),
        }
    }
}

/// Whether a name leads to `file`. How many names it has says less: some file systems count none.
fn has_name(file: BorrowedFd<'_>, directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<bool> {
    let there = entry_stat(directory, name)?.map(|stat| identity_of(&stat));
    Ok(there == Some(identity_of(&rustix::fs::fstat(file)?)))
}

/// Gives `file`, which is called `stage`, the name `name`, in place of a file of that name.
pub(crate) fn publish(
    file: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    stage: &[u8],
    name: &[u8],
) -> io::Result<()> {
    if !has_name(file, directory, stage)? {
        return Err(io::Error::other("its file in progress was replaced by another"));
    }
    check_replaceable(directory, name)?;
    Ok(rustix::fs::renameat(directory, stage, directory, name)?)
}

/// Gives the unnamed file `file` the name `name`, in place of a file of that name.
pub(crate) fn link_unnamed(
    file: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    name: &[u8],
) -> io::Result<()> {
    let link = |name: &[u8]| link_to(file, directory, name);
    match link(name) {
        Err(Errno::EXIST) => {}
        result => return Ok(result?),
    }
    check_replaceable(directory, name)?;
    let stage = random_name()?;
    hold(file);
    link(&stage)?;
    let renamed = rustix::fs::renameat(directory, &stage, directory, name);
    if renamed.is_err() {
        let _ = remove(directory, &stage);
    }
    Ok(renamed?)
}

/// Links a file by its descriptor, by the longer way through `/proc` where the kernel wants a
/// capability for that (before Linux 6.10).
fn link_to(file: BorrowedFd<'_>, directory: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<()> {
    if BY_DESCRIPTOR.load(Relaxed) {
        match rustix::fs::linkat(file, "", directory, name, AtFlags::EMPTY_PATH) {
            Err(Errno::NOENT) => BY_DESCRIPTOR.store(false, Relaxed),
            result => return result,
        }
    }
    let handle = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, &*handle, directory, name, AtFlags::SYMLINK_FOLLOW)
}

/// Makes a symbolic link `name`, in place of a file or link of that name.
pub(crate) fn place_link(directory: BorrowedFd<'_>, name: &[u8], target: &[u8]) -> io::Result<()> {
    match rustix::fs::readlinkat(directory, name, Vec::new()) {
        Ok(there) if there.as_bytes() == target => return Ok(()),
        _ => {}
    }
    check_replaceable(directory, name)?;
    let stage = random_name()?;
    rustix::fs::symlinkat(target, directory, &stage)?;
    let renamed = rustix::fs::renameat(directory, &stage, directory, name);
    if renamed.is_err() {
        let _ = remove(directory, &stage);
    }
    Ok(renamed?)
}

/// An error where a device, FIFO or socket has the name, or a link leads to one: a rename would
/// put a file in its place.
pub(crate) fn check_replaceable(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    let kind = |stat: Stat| FileType::from_raw_mode(stat.st_mode);
    let special = match entry_stat(directory, name)?.map(kind) {
        None | Some(FileType::RegularFile | FileType::Directory) => false,
        Some(FileType::Symlink) => {
            // `/dev/stdout` and its like stand for what this process has open.
            let target = rustix::fs::readlinkat(directory, name, Vec::new());
            let leads_to = rustix::fs::statat(directory, name, AtFlags::empty()).map(kind);
            target.is_ok_and(|target| target.as_bytes().starts_with(b"/proc/"))
                || leads_to
                    .is_ok_and(|kind| !matches!(kind, FileType::RegularFile | FileType::Directory))
        }
        Some(_) => true,
    };
    if special {
        let text = "what has this name is not a regular file, and is not replaced by one";
        return Err(io::Error::other(text));
    }
    Ok(())
}

/// Removes files in progress that nobody has touched for a week.
pub(crate) fn remove_expired(directory: BorrowedFd<'_>) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let limit = now.saturating_sub(EXPIRY).as_secs() as i64;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !is_stage_name(name) {
            continue;
        }
        let stem = &name[..name.iter().rposition(|byte| *byte == b'.').unwrap_or(name.len())];
        let names = StageNames::with_stem(stem);
        let touched = names
            .all()
            .into_iter()
            .filter_map(|name| entry_stat(directory, name).ok().flatten())
            .map(|stat| stat.st_mtime)
            .max();
        if touched.is_some_and(|touched| touched < limit) {
            remove_unlocked(directory, &names);
        }
    }
    Ok(())
}

/// Removes both files unless a transfer holds them or they are another user's.
fn remove_unlocked(directory: BorrowedFd<'_>, names: &StageNames) {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = retry_interrupted(|| {
        Ok(rustix::fs::openat(directory, &names.journal, flags, Mode::empty())?)
    });
    let lock = match opened {
        Ok(fd) => match try_lock(File::from(fd)) {
            Ok(Ok(locked)) => Some(locked),
            _ => return,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if is_held(directory, &names.part) {
                return;
            }
            None
        }
        Err(_) => return,
    };
    for name in names.all() {
        if matches!(entry_stat(directory, name), Ok(Some(stat)) if is_own(&stat)) {
            let _ = remove(directory, name);
        }
    }
    drop(lock);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn directory() -> (tempfile::TempDir, File) {
        let directory = tempfile::tempdir().unwrap();
        let fd = File::open(directory.path()).unwrap();
        (directory, fd)
    }

    #[test]
    fn what_others_could_have_made_is_set_aside() {
        let (place, fd) = directory();
        let path = place.path().join("part");
        let victim = place.path().join("victim");
        std::fs::write(&victim, "untouched").unwrap();
        let writable = || {
            std::fs::write(&path, "planted").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        };
        let linked = || std::fs::hard_link(&victim, &path).unwrap();
        let led = || symlink(&victim, &path).unwrap();
        let fifo = || {
            let mode = Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(CWD, &path, FileType::Fifo, mode, 0).unwrap();
        };
        for plant in [&writable as &dyn Fn(), &linked, &led, &fifo] {
            plant();
            let file = open_own(fd.as_fd(), b"part").unwrap();
            let made = file.metadata().unwrap();
            assert!(made.is_file() && made.len() == 0 && made.mode() & 0o777 == 0o600);
            assert_eq!(made.ino(), path.metadata().unwrap().ino());
            std::fs::remove_file(&path).unwrap();
        }
        assert_eq!(std::fs::read_to_string(victim).unwrap(), "untouched");
    }

    #[test]
    fn ones_own_part_is_opened_again() {
        let (place, fd) = directory();
        open_own(fd.as_fd(), b"part").unwrap().set_len(7).unwrap();
        assert_eq!(open_own(fd.as_fd(), b"part").unwrap().metadata().unwrap().len(), 7);
        drop(place);
    }

    #[test]
    fn a_journal_is_held_by_one() {
        let (_place, fd) = directory();
        let names = StageNames::of(b"f");
        let first = lock_journal(fd.as_fd(), &names).unwrap().unwrap();
        assert!(lock_journal(fd.as_fd(), &names).unwrap().is_none());
        StageNames::remove_stale(fd.as_fd(), b"f");
        assert!(entry_stat(fd.as_fd(), &names.journal).unwrap().is_some());
        drop(first);
        assert!(lock_journal(fd.as_fd(), &names).unwrap().is_some());
        StageNames::remove_stale(fd.as_fd(), b"f");
        assert!(entry_stat(fd.as_fd(), &names.journal).unwrap().is_none());
    }

    #[test]
    fn a_small_file_of_an_old_time_is_not_removed_before_it_has_its_name() {
        let (place, fd) = directory();
        for mode in [0o600, 0o400, 0] {
            let (file, stage) = create_random(fd.as_fd()).unwrap();
            hold(file.as_fd());
            crate::root::set_mode(&file, mode).unwrap();
            crate::root::set_modified(&file, 0).unwrap();
            remove_expired(fd.as_fd()).unwrap();
            publish(file.as_fd(), fd.as_fd(), &stage, b"old").unwrap();
            // What was left behind is held by nobody.
            let (left, _) = create_random(fd.as_fd()).unwrap();
            hold(left.as_fd());
            crate::root::set_mode(&left, mode).unwrap();
            crate::root::set_modified(&left, 0).unwrap();
            drop(left);
            remove_expired(fd.as_fd()).unwrap();
            assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "of mode {mode:o}");
        }
    }

    #[test]
    fn no_special_file_is_replaced() {
        let (place, fd) = directory();
        let (file, stage) = create_random(fd.as_fd()).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(&fd, "fifo", FileType::Fifo, mode, 0).unwrap();
        symlink("fifo", place.path().join("led")).unwrap();
        symlink("/proc/self/fd/1", place.path().join("stdout")).unwrap();
        for name in [&b"fifo"[..], b"led", b"stdout"] {
            let before = entry_stat(fd.as_fd(), name).unwrap().unwrap().st_ino;
            assert!(publish(file.as_fd(), fd.as_fd(), &stage, name).is_err());
            assert!(place_link(fd.as_fd(), name, b"x").is_err());
            assert_eq!(entry_stat(fd.as_fd(), name).unwrap().unwrap().st_ino, before);
        }
        symlink("nowhere", place.path().join("dangling")).unwrap();
        publish(file.as_fd(), fd.as_fd(), &stage, b"dangling").unwrap();
        assert!(place.path().join("dangling").is_file());
    }

    #[test]
    fn a_file_without_a_name_gets_one_by_either_way() {
        let (place, fd) = directory();
        for (way, name) in [(true, "by descriptor"), (false, "through proc")] {
            BY_DESCRIPTOR.store(way, Relaxed);
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&fd, ".", flags, Mode::RUSR).unwrap();
            rustix::io::write(&file, name.as_bytes()).unwrap();
            link_unnamed(file.as_fd(), fd.as_fd(), name.as_bytes()).unwrap();
            assert_eq!(std::fs::read(place.path().join(name)).unwrap(), name.as_bytes());
        }
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_part_that_was_replaced_is_not_published() {
        let (_place, fd) = directory();
        let (file, stage) = create_random(fd.as_fd()).unwrap();
        remove(fd.as_fd(), &stage).unwrap();
        create_new(fd.as_fd(), &stage).unwrap();
        assert!(publish(file.as_fd(), fd.as_fd(), &stage, b"f").is_err());
    }
}
