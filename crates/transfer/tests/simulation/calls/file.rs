//! Files: the real ones, with faults in between.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

use crate::disk;
use crate::kernel::{Call, Descriptor, Kind};
use crate::raw::{kernel, set_errno};
use crate::storage::Act;

/// Lets a simulated thread act on files, unless its storage fails just then.
fn acts(what: &str, act: Act, real: impl FnOnce() -> isize) -> isize {
    let Some(mut call) = Call::begin() else {
        return real();
    };
    if let Some(error) = fails(&mut call, act) {
        call.step("fails", error.into());
        drop(call);
        set_errno(error);
        return -1;
    }
    call.step(what, 0);
    real()
}

fn fails(call: &mut Call, act: Act) -> Option<c_int> {
    let process = call.process();
    let world = call.world();
    world.storage.fails(world.now_ns, process, act)
}

/// Opens a file for the calling process.
pub(super) fn opened(what: &str, real: impl FnOnce() -> isize) -> isize {
    let Some(mut call) = Call::begin() else {
        return real();
    };
    call.step(what, 0);
    let fd = real();
    own(&mut call, fd, Kind::File);
    fd
}

/// Notes whose a new descriptor is.
pub(super) fn own(call: &mut Call, fd: isize, kind: Kind) {
    if fd >= 0 {
        let process = call.process();
        call.world().descriptors.insert(fd as c_int, Descriptor { process, kind });
    }
}

fn create(flags: c_int, real: impl FnOnce() -> isize) -> isize {
    if flags & (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) != 0
        && let Some(mut call) = Call::begin()
        && let Some(error) = fails(&mut call, Act::Create)
    {
        call.step("fails", error.into());
        drop(call);
        set_errno(error);
        return -1;
    }
    opened("opens", real)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    let boot_id = disk::boot_id(path);
    let path = boot_id.as_ref().map_or(path, |other| other.as_ptr());
    create(flags, || kernel!(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    create(flags, || kernel!(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    create(flags, || {
        let fd = kernel!(libc::SYS_openat, at, path, flags, mode);
        let makes = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
        if makes { disk::made(at, path, fd) } else { fd }
    }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat64(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    create(flags, || {
        let fd = kernel!(libc::SYS_openat, at, path, flags, mode);
        let makes = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
        if makes { disk::made(at, path, fd) } else { fd }
    }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    let Some(mut call) = Call::begin() else {
        return kernel!(libc::SYS_close, fd) as c_int;
    };
    call.step("closes", 0);
    call.world().close(fd) as c_int
}

/// A second number for a descriptor is the same process's.
#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    let result = kernel!(libc::SYS_fcntl, fd, command, argument);
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC)
        && let Some(mut call) = Call::begin()
    {
        let kind = call.world().descriptors.get(&fd).map_or(Kind::File, |one| one.kind.clone());
        own(&mut call, result, kind);
    }
    result as c_int
}

/// The directory stream closes its descriptor inside the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn fdopendir(fd: c_int) -> *mut c_void {
    type Open = extern "C" fn(c_int) -> *mut c_void;
    // SAFETY: the C library's function has this type.
    let open: Open = unsafe { std::mem::transmute(crate::raw::original(c"fdopendir")) };
    if let Some(mut call) = Call::begin() {
        call.world().descriptors.remove(&fd);
    }
    open(fd)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pipe2(ends: *mut c_int, flags: c_int) -> c_int {
    let result = kernel!(libc::SYS_pipe2, ends, flags);
    if result == 0
        && let Some(mut call) = Call::begin()
    {
        // SAFETY: the kernel has just filled both places.
        let (one, other) = unsafe { (*ends, *ends.add(1)) };
        own(&mut call, one as isize, Kind::File);
        own(&mut call, other as isize, Kind::File);
    }
    result as c_int
}

/// A write of `count` bytes, perhaps of fewer.
fn writes(count: usize, real: impl FnOnce(usize) -> isize) -> isize {
    let part = Call::begin().map_or(count, |mut call| call.world().storage.part(count));
    acts("writes", Act::Write, || real(part))
}

fn reads(count: usize, real: impl FnOnce(usize) -> isize) -> isize {
    let part = Call::begin().map_or(count, |mut call| call.world().storage.part(count));
    acts("reads", Act::Read, || real(part))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, from: *const c_void, count: usize, at: i64) -> isize {
    let damaged = Call::begin().filter(|_| count > 0).and_then(|mut call| {
        // SAFETY: the caller vouches for as many bytes there.
        let data = unsafe { std::slice::from_raw_parts(from.cast(), count) };
        let process = call.process();
        let world = call.world();
        world.storage.damaged(world.now_ns, process, data)
    });
    let from = damaged.as_ref().map_or(from, |data| data.as_ptr().cast());
    writes(count, |count| {
        disk::writes(fd, at, count);
        kernel!(libc::SYS_pwrite64, fd, from, count, at)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pread64(fd: c_int, into: *mut c_void, count: usize, at: i64) -> isize {
    reads(count, |count| kernel!(libc::SYS_pread64, fd, into, count, at))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fallocate64(fd: c_int, mode: c_int, offset: i64, length: i64) -> c_int {
    acts("reserves", Act::Reserve, || {
        if mode & libc::FALLOC_FL_PUNCH_HOLE != 0 {
            disk::writes(fd, offset, length as usize);
        } else {
            disk::resizes(fd, i64::MAX);
        }
        kernel!(libc::SYS_fallocate, fd, mode, offset, length)
    }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(fd: c_int, length: i64) -> c_int {
    acts("cuts", Act::Write, || {
        disk::resizes(fd, length);
        kernel!(libc::SYS_ftruncate, fd, length)
    }) as c_int
}

/// The files are in memory, where the mover reserves nothing; here they are to be on a disk.
#[unsafe(no_mangle)]
unsafe extern "C" fn fstatfs64(fd: c_int, about: *mut libc::statfs64) -> c_int {
    let result = kernel!(libc::SYS_fstatfs, fd, about);
    if result == 0 && Call::begin().is_some() {
        // SAFETY: the kernel has just filled it.
        unsafe { (*about).f_type = libc::EXT4_SUPER_MAGIC };
    }
    result as c_int
}

/// The real disk need not be waited for: what this run's disk has is noted.
#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    sync(fd, libc::SYS_fsync)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync(fd, libc::SYS_fdatasync)
}

fn sync(fd: c_int, number: c_long) -> c_int {
    let simulated = Call::begin().is_some();
    let real = || {
        disk::synced(fd, number == libc::SYS_fdatasync);
        if simulated { 0 } else { kernel!(number, fd) }
    };
    acts("syncs", Act::Sync, real) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from: c_int,
    name: *const c_char,
    to: c_int,
    new: *const c_char,
    flags: c_int,
) -> c_int {
    acts("links", Act::Name, || {
        disk::made(to, new, kernel!(libc::SYS_linkat, from, name, to, new, flags))
    }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat(
    from: c_int,
    name: *const c_char,
    to: c_int,
    new: *const c_char,
) -> c_int {
    rename(from, name, new, || kernel!(libc::SYS_renameat2, from, name, to, new, 0))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat2(
    from: c_int,
    name: *const c_char,
    to: c_int,
    new: *const c_char,
    flags: c_uint,
) -> c_int {
    rename(from, name, new, || kernel!(libc::SYS_renameat2, from, name, to, new, flags))
}

/// The mover gives another name within a directory only.
fn rename(
    at: c_int,
    from: *const c_char,
    to: *const c_char,
    real: impl FnOnce() -> isize,
) -> c_int {
    acts("renames", Act::Name, || disk::renames(at, from, to, real)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn symlinkat(target: *const c_char, at: c_int, name: *const c_char) -> c_int {
    acts("links", Act::Name, || {
        disk::made(at, name, kernel!(libc::SYS_symlinkat, target, at, name))
    }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdirat(at: c_int, name: *const c_char, mode: libc::mode_t) -> c_int {
    acts("makes a directory", Act::Create, || {
        disk::made(at, name, kernel!(libc::SYS_mkdirat, at, name, mode))
    }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(at: c_int, name: *const c_char, flags: c_int) -> c_int {
    acts("removes", Act::Name, || {
        disk::removes(at, name, || kernel!(libc::SYS_unlinkat, at, name, flags))
    }) as c_int
}

pub(super) fn fchmod(fd: c_int, mode: libc::mode_t) -> c_int {
    acts("sets the mode", Act::Name, || {
        disk::dresses(fd);
        kernel!(libc::SYS_fchmod, fd, mode)
    }) as c_int
}

/// The mover names files by their descriptors only.
#[unsafe(no_mangle)]
unsafe extern "C" fn chmod(path: *const c_char, mode: libc::mode_t) -> c_int {
    acts("sets the mode", Act::Name, || {
        disk::dresses_at(path);
        kernel!(libc::SYS_fchmodat, libc::AT_FDCWD, path, mode)
    }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn futimens(fd: c_int, times: *const libc::timespec) -> c_int {
    let nowhere = std::ptr::null::<c_char>();
    acts("sets the times", Act::Name, || {
        disk::dresses(fd);
        kernel!(libc::SYS_utimensat, fd, nowhere, times, 0)
    }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn utimensat(
    at: c_int,
    path: *const c_char,
    times: *const libc::timespec,
    flags: c_int,
) -> c_int {
    acts("sets the times", Act::Name, || {
        disk::dresses_at(path);
        kernel!(libc::SYS_utimensat, at, path, times, flags)
    }) as c_int
}

/// A write that the kernel carries out on its own.
pub(super) fn written(what: &str, real: impl FnOnce() -> isize) -> isize {
    acts(what, Act::Write, real)
}
