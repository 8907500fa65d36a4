//! A large tree of which nothing has changed: both ends compare it in bounded memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, SystemTime};

use weir_transfer::{
    Access, Direction, Export, Remote, Server, ServerSettings, Settings, Transfer, TransferError,
    TransferState,
};
use weir_units::Time;

/// In one directory, and in others of so many.
const FLAT: usize = 30_000;
const EACH: usize = 500;
const DIRECTORIES: usize = 60;
/// What both ends together may hold at once: about 13 000 files on offer and 8 000 names.
const HELD_MAX: usize = 8 << 20;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with a count.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn add(size: usize) {
    let now = IN_USE.fetch_add(size, Relaxed) + size;
    PEAK.fetch_max(now, Relaxed);
}

// SAFETY: the system's allocator does the work.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

/// The same tree every time. All its names stand for one file, which is as good as many where
/// nothing but their attributes is looked at.
fn make(top: &Path) -> io::Result<()> {
    std::fs::create_dir_all(top)?;
    let file = top.with_extension("file");
    std::fs::write(&file, b"content")?;
    let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_234_567_890_123_456_789);
    File::options().write(true).open(&file)?.set_modified(modified)?;
    let fill = |directory: &Path, count: usize| {
        std::fs::create_dir_all(directory)?;
        (0..count).try_for_each(|n| {
            std::fs::hard_link(&file, directory.join(format!("a-file-of-many-{n:06}")))
        })
    };
    fill(&top.join("flat"), FLAT)?;
    (0..DIRECTORIES).try_for_each(|n| fill(&top.join(format!("deep/er/{n:03}")), EACH))
}

fn serve(directory: &Path) -> Result<Server, TransferError> {
    let settings = ServerSettings {
        listen: "127.0.0.1:0".to_owned(),
        ports: 1,
        exports: vec![Export::open("", directory, Access::ReadWrite)?],
        tls: None,
        sync: false,
        silence: Time::from_ms(20_000),
        idle: Time::from_ms(60_000),
        reserve: Some(0),
        quota: None,
        rights: None,
        revoked: None,
    };
    Server::start(settings, Arc::new(|_| ()))
}

/// Stands before a server whose answers come only when its client has fallen silent: what may be
/// on offer is on offer by then.
fn answer_late(server: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || -> io::Result<()> {
        loop {
            let (client, server) = (listener.accept()?.0, TcpStream::connect(server)?);
            thread::spawn(move || pass_on(&client, &server));
        }
    });
    Ok(address)
}

fn pass_on(mut client: &TcpStream, mut server: &TcpStream) -> io::Result<()> {
    let mut piece = vec![0; 1 << 16];
    client.set_read_timeout(Some(Duration::from_millis(100)))?;
    server.set_read_timeout(Some(Duration::from_millis(1)))?;
    loop {
        match client.read(&mut piece) {
            Ok(0) => return server.shutdown(Shutdown::Both),
            Ok(size) => server.write_all(&piece[..size])?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => loop {
                match server.read(&mut piece) {
                    Ok(0) => return client.shutdown(Shutdown::Both),
                    Ok(size) => client.write_all(&piece[..size])?,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            },
            Err(error) => return Err(error),
        }
    }
}

#[test]
fn what_has_not_changed_is_compared_in_bounded_memory() {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("here/tree");
    for one in ["here/tree", "there/tree"] {
        make(&place.path().join(one)).unwrap();
    }
    let server = serve(&place.path().join("there")).unwrap();
    let address = answer_late(server.address()).unwrap();
    let remote = Remote::parse(address.to_string().as_bytes()).unwrap();
    let direction = Direction::Send { sources: vec![source], destination: remote };
    let transfer = Transfer::new(direction, Settings::default()).unwrap();
    transfer.details().count_only();
    let before = IN_USE.load(Relaxed);
    PEAK.store(before, Relaxed);
    transfer.start();
    assert!(transfer.wait(Some(Time::from_ms(120_000))));
    let (state, error) = transfer.state();
    assert_eq!(state, TransferState::Done, "{error:?}");
    let done = transfer.progress();
    let files = (FLAT + DIRECTORIES * EACH) as u64;
    assert_eq!((done.files_done, done.files_total, done.files_failed), (files, files, 0));
    assert_eq!(done.bytes_resumed, files * "content".len() as u64, "none of it was sent");
    assert!(transfer.details().take_settled().is_empty());
    let held = PEAK.load(Relaxed) - before;
    assert!(held < HELD_MAX, "{held} bytes were held for {files} files");
}
