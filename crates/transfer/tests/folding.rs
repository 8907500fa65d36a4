//! A destination that takes names for one that differ in case only: two files of the source meet
//! there, and one of them has failed.
//!
//! Functions of the C library are replaced by ones that use small letters for all names in one
//! directory, as such a file system would find them.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_void};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use weir_transfer::{
    Access, Direction, Export, Remote, Server, ServerSettings, Settings, Transfer,
};
use weir_units::Time;

const MIB: usize = 1 << 20;

/// What is below it takes no capitals.
static FOLDING: OnceLock<PathBuf> = OnceLock::new();

/// The name that a file system would find which tells no case.
fn folded(at: c_int, name: *const c_char) -> CString {
    // SAFETY: the caller of the C library vouches for the name.
    let name = unsafe { CStr::from_ptr(name) };
    let mut bytes = name.to_bytes().to_vec();
    let place = std::fs::read_link(format!("/proc/self/fd/{at}"));
    let folds = |place: PathBuf| FOLDING.get().is_some_and(|folding| place.starts_with(folding));
    if place.is_ok_and(folds) {
        bytes.make_ascii_lowercase();
    }
    CString::new(bytes).expect("it was one")
}

fn kernel(number: c_long, arguments: [usize; 5]) -> c_long {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the caller's arguments, but for names that live until it returns.
    unsafe { libc::syscall(number, a, b, c, d, e) }
}

macro_rules! folding {
    ($name:ident, $number:expr, ($($before:ident: $kind:ty),*), $at:ident, $path:ident,
     ($($after:ident: $other:ty),*)) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($before: $kind,)* $at: c_int, $path: *const c_char, $($after: $other),*
        ) -> c_int {
            let name = folded($at, $path);
            let mut arguments = [0; 5];
            let given = [$($before as usize,)* $at as usize, name.as_ptr() as usize,
                $($after as usize),*];
            arguments[..given.len()].copy_from_slice(&given);
            kernel($number, arguments) as c_int
        }
    };
}

folding!(openat, libc::SYS_openat, (), at, name, (flags: c_int, mode: c_uint));
folding!(openat64, libc::SYS_openat, (), at, name, (flags: c_int, mode: c_uint));
folding!(fstatat, libc::SYS_newfstatat, (), at, name, (into: *mut c_void, flags: c_int));
folding!(fstatat64, libc::SYS_newfstatat, (), at, name, (into: *mut c_void, flags: c_int));
folding!(unlinkat, libc::SYS_unlinkat, (), at, name, (flags: c_int));
folding!(symlinkat, libc::SYS_symlinkat, (target: *const c_char), at, name, ());
folding!(linkat, libc::SYS_linkat, (from: c_int, old: *const c_char), at, name, (flags: c_int));

#[unsafe(no_mangle)]
unsafe extern "C" fn readlinkat(
    at: c_int,
    name: *const c_char,
    into: *mut c_char,
    size: usize,
) -> isize {
    let name = folded(at, name);
    kernel(libc::SYS_readlinkat, [at as usize, name.as_ptr() as usize, into as usize, size, 0])
        as isize
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat(
    from: c_int,
    old: *const c_char,
    to: c_int,
    new: *const c_char,
) -> c_int {
    let (old, new) = (folded(from, old), folded(to, new));
    let names = [from as usize, old.as_ptr() as usize, to as usize, new.as_ptr() as usize, 0];
    kernel(libc::SYS_renameat2, names) as c_int
}

fn serve(directory: &Path) -> Server {
    let settings = ServerSettings {
        listen: "127.0.0.1:0".to_owned(),
        ports: 1,
        exports: vec![Export::open("", directory, Access::ReadWrite).expect("it is there")],
        tls: None,
        sync: false,
        silence: Time::from_ms(20_000),
        idle: Time::from_ms(60_000),
        reserve: Some(0),
        quota: None,
        rights: None,
        revoked: None,
    };
    Server::start(settings, Arc::new(|_| ())).expect("it listens")
}

/// How many files failed, and why the first one did.
fn ended(direction: Direction, checksum: bool) -> (u64, String) {
    let settings = Settings { checksum, streams: 3, ..Settings::default() };
    let transfer = Transfer::new(direction, settings).expect("it may be tried");
    transfer.start();
    assert!(transfer.wait(Some(Time::from_ms(60_000))));
    let why = transfer.state().1.map(|error| error.to_string()).unwrap_or_default();
    (transfer.progress().files_failed, why)
}

/// All that is in a directory and one below it, in order.
fn names_in(directory: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for place in [directory.to_owned(), directory.join("sub")] {
        for entry in std::fs::read_dir(place).expect("a place of the test's own") {
            let path = entry.expect("a place of the test's own").path();
            all.push(
                path.strip_prefix(directory)
                    .expect("a place of the test's own")
                    .to_string_lossy()
                    .into_owned(),
            );
        }
    }
    // What came of a large one may be of use yet.
    all.retain(|name| !name.starts_with(".weir-"));
    all.sort_unstable();
    all
}

/// Files of one size and time, each with a content of its own.
fn fill(directory: &Path, names: &[&str], size: usize) {
    for (number, name) in names.iter().enumerate() {
        let path = directory.join(name);
        std::fs::write(&path, vec![b'0' + number as u8; size]).expect("a place of the test's own");
        let file =
            std::fs::File::options().write(true).open(&path).expect("a place of the test's own");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
            .expect("a place of the test's own");
    }
}

fn clear(directory: &Path) {
    for entry in std::fs::read_dir(directory).expect("a place of the test's own") {
        let path = entry.expect("a place of the test's own").path();
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
            .expect("a place of the test's own");
    }
}

#[test]
fn two_names_that_are_one_there_are_no_success() {
    let top = tempfile::tempdir().unwrap();
    let (source, there) = (top.path().join("source"), top.path().join("there"));
    for directory in [&source, &source.join("sub"), &there] {
        std::fs::create_dir(directory).unwrap();
    }
    FOLDING.set(there.canonicalize().unwrap()).unwrap();
    fill(&source, &["Small", "small", "SMALL"], 5);
    fill(&source, &["Large", "LARGE"], 2 * MIB);
    fill(&source, &["Alone", "7", "Mixed"], 3);
    fill(&source.join("sub"), &["x", "X"], 7);
    symlink("one", source.join("Link")).unwrap();
    symlink("another", source.join("link")).unwrap();
    symlink("elsewhere", source.join("mixed")).unwrap();
    let (giving, taking) = (serve(&source), serve(&there));
    let remote = |server: &Server| Remote::parse(server.address().to_string().as_bytes()).unwrap();
    let send = || Direction::Send { sources: vec![source.join("")], destination: remote(&taking) };
    let get = || {
        let (remote, sources, destination) = (remote(&giving), vec![vec![]], there.clone());
        Direction::Get { remote, sources, destination }
    };
    let meets = "another name of this transfer leads to the same file here";
    for way in [&send as &dyn Fn() -> Direction, &get] {
        clear(&there);
        // What the first attempt stored is there, of one size and time with what it did not.
        for checksum in [false, false, true] {
            let (failed, why) = ended(way(), checksum);
            assert!(failed == 6 && why.contains(meets), "{failed} failed: {why}");
            let names: Vec<String> = names_in(&there);
            assert_eq!(names, ["7", "alone", "large", "link", "mixed", "small", "sub", "sub/x"]);
        }
    }
    for lost in ["small", "SMALL", "LARGE", "link", "mixed", "sub/x"] {
        std::fs::remove_file(source.join(lost)).unwrap();
    }
    for way in [&send as &dyn Fn() -> Direction, &get] {
        assert_eq!(ended(way(), true), (0, String::new()));
    }
    assert_eq!(std::fs::read(there.join("large")).unwrap(), vec![b'0'; 2 * MIB]);
    assert_eq!(std::fs::read(there.join("sub/x")).unwrap(), b"1111111");
}
