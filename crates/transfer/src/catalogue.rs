//! What stands at a place, with the hash of each file, so that two places can be compared without
//! moving anything. A server tells it over the control connection, in messages that it has anyway.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use crate::bounds;
use crate::buffer::{PIECE, PageBuffer};
use crate::client::{Cutter, Dialer, Session};
use crate::control::{self, ControlReader, ControlWriter, HEARTBEAT};
use crate::error::{FileFailure, TransferError};
use crate::remote::Remote;
use crate::root::{Links, read_full};
use crate::send::{Found, Source, Walk};
use crate::spool::{self, Sorted, Sorter};
use crate::threads;
use crate::transfer::{Settings, check_place};
use crate::wire::{
    DirectoryEntry, FailureCode, FileEntry, HashKind, LinkEntry, MESSAGE_LIMIT, Message, Options,
    RelativePath, SKIPS, Settled, UNNUMBERED,
};

/// Items in one message: a path has up to 4 KiB, a link two of them, and a message 1 MiB.
const BATCH: usize = 64;
/// After so many bytes were hashed a message goes out, however few files they were.
const BATCH_BYTES: u64 = 64 << 20;

/// One thing below a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A regular file.
    File {
        /// Below the place; the name alone where the place is a file.
        path: RelativePath,
        /// Its size in bytes.
        size_bytes: u64,
        /// Its BLAKE3 hash.
        hash: [u8; 32],
    },
    /// A symbolic link and what it says.
    Link(LinkEntry),
    /// A directory.
    Directory(RelativePath),
    /// Something that could not be read, or is of another kind, in words.
    Unreadable(String),
}

/// What stands at a place, one item after the other: first what is unreadable, then by path. What
/// memory has no room for is in a temporary file.
pub struct Catalogue {
    /// The place itself is a regular file or a link.
    pub single: bool,
    /// How many regular files there are.
    pub files: u64,
    /// The bytes of all of them.
    pub bytes: u64,
    items: Sorted<'static>,
}

impl Iterator for Catalogue {
    type Item = Result<Item, TransferError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.items.next()?;
        Some(record.and_then(|record| unpacked(&record)).map_err(not_kept))
    }
}

/// Takes a catalogue as it is told.
struct Gathering {
    files: u64,
    bytes: u64,
    items: Sorter<'static>,
}

impl Gathering {
    fn new() -> Self {
        Self { files: 0, bytes: 0, items: Sorter::new(Box::new(spool::temporary)) }
    }

    fn add(&mut self, item: &Item) -> Result<(), TransferError> {
        if let Item::File { size_bytes, .. } = item {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(*size_bytes);
        }
        self.items.push(&packed(item)).map_err(not_kept)
    }

    fn end(self, single: bool) -> Result<Catalogue, TransferError> {
        let Self { files, bytes, items } = self;
        Ok(Catalogue { single, files, bytes, items: items.sorted().map_err(not_kept)? })
    }
}

/// An item as a record, whose order is that of the paths: none of them has a zero.
fn packed(item: &Item) -> Vec<u8> {
    match item {
        Item::File { path, size_bytes, hash } => {
            [path.as_bytes(), b"\0f", &size_bytes.to_be_bytes(), hash].concat()
        }
        Item::Link(link) => [link.path.as_bytes(), b"\0l", &link.target].concat(),
        Item::Directory(path) => [path.as_bytes(), b"\0d"].concat(),
        Item::Unreadable(why) => [b"\0u", why.as_bytes()].concat(),
    }
}

fn unpacked(record: &[u8]) -> io::Result<Item> {
    let read = || {
        let end = record.iter().position(|byte| *byte == 0)?;
        let (path, (kind, rest)) = (&record[..end], record[end + 1..].split_first()?);
        let path = RelativePath::new(path).ok()?;
        Some(match kind {
            b'f' => {
                let (size, hash) = rest.split_first_chunk()?;
                let size_bytes = u64::from_be_bytes(*size);
                Item::File { path, size_bytes, hash: hash.try_into().ok()? }
            }
            b'l' => Item::Link(LinkEntry { path, target: rest.to_vec() }),
            b'd' => Item::Directory(path),
            _ => Item::Unreadable(String::from_utf8_lossy(rest).into_owned()),
        })
    };
    read().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn not_kept(source: io::Error) -> TransferError {
    TransferError::Storage { path: "the list of what is there".to_owned(), source }
}

impl Catalogue {
    /// The catalogue of a local place; `None` if nothing is there.
    pub fn of_local(place: &Path, follow_links: bool) -> Result<Option<Self>, TransferError> {
        let source = match Source::local(place, links(follow_links)) {
            Ok(source) => source,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (single, mut gathering) = (source.is_single(), Gathering::new());
        let going = AtomicBool::new(true);
        read(source, &going, &mut |item| {
            gathering.add(&match item {
                Read::File(entry, hash) => {
                    let FileEntry { path, size_bytes, .. } = entry;
                    Item::File { path, size_bytes, hash }
                }
                Read::Link(link) => Item::Link(link),
                Read::Directory(directory) => Item::Directory(directory.path),
                Read::Failed(failure) => Item::Unreadable(failure.message),
            })
        })?;
        gathering.end(single).map(Some)
    }

    /// The catalogue of a server's place; `None` if nothing is there. Only the settings of the
    /// connection count, and whether links are followed.
    pub fn of_remote(remote: &Remote, settings: &Settings) -> Result<Option<Self>, TransferError> {
        control::check_silence(settings.silence)?;
        check_place(&remote.path)?;
        let dialer = Dialer {
            remote,
            tls: settings.tls.as_ref(),
            cutter: &Cutter::default(),
            silence: settings.silence,
            server_name: settings.server_name.as_deref(),
            revoked: settings.revoked.as_deref(),
            packet: None,
        };
        let mut session = dialer.open(&[remote.port], 0, None)?;
        let (place, options) = (remote.path.clone(), options(settings.follow_links));
        session.request(&Message::Catalogue { place, options }).map_err(hint_at_age)?;
        let Session { reader, control, .. } = &mut session;
        let name = (control.version() < SKIPS).then(|| bounds::sent_name(&remote.path)).flatten();
        collect(reader, name.as_deref())
    }
}

fn links(follow: bool) -> Links {
    if follow { Links::Follow } else { Links::Keep }
}

fn options(follow_links: bool) -> Options {
    Options {
        hash: HashKind::Blake3,
        sync: false,
        checksum: false,
        read_back: false,
        follow_links,
        rate_bps: u64::MAX,
        congestion: String::new(),
        streams: 0,
    }
}

/// Whether it says that nothing is at a place.
pub(crate) fn is_absent(error: &TransferError) -> bool {
    let TransferError::Local { source, .. } = error else {
        return false;
    };
    matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A server that does not know the request ends the connection.
fn hint_at_age(error: TransferError) -> TransferError {
    match error {
        TransferError::Lost { peer, source } => {
            let text = format!("{source}; its weir serve may be older than weir verify");
            TransferError::Lost { peer, source: io::Error::new(source.kind(), text) }
        }
        other => other,
    }
}

/// Takes what a server tells. An older one does not say that a place is a single link; that is of
/// the name `of_link`, and alone.
fn collect(
    reader: &mut ControlReader,
    of_link: Option<&[u8]>,
) -> Result<Option<Catalogue>, TransferError> {
    let mut told: Option<(bool, Gathering)> = None;
    let (mut first, mut offered) = (0, Vec::new().into_iter());
    let (mut count, mut link) = (0_u64, false);
    loop {
        let message = reader.expect(MESSAGE_LIMIT)?;
        let (message, gathering) = match (message, &mut told) {
            (Message::Begin { single_file }, None) => {
                told = Some((single_file, Gathering::new()));
                continue;
            }
            (Message::Finished, _) if offered.len() == 0 => break,
            (Message::Ping, _) => continue,
            (message, Some((_, gathering))) => (message, gathering),
            _ => return Err(reader.unexpected("no part of a catalogue")),
        };
        count += 1;
        match message {
            Message::Offer { first: number, files } if offered.len() == 0 => {
                (first, offered) = (number, files.into_iter());
            }
            Message::Committed(settled) => {
                for Settled { file, hash } in settled {
                    let next = offered.next().filter(|_| file == first);
                    let Some(FileEntry { path, size_bytes, .. }) = next else {
                        return Err(reader.unexpected("the hash of no file"));
                    };
                    first += 1;
                    gathering.add(&Item::File { path, size_bytes, hash })?;
                }
            }
            Message::Links(links) => {
                link = matches!(&links[..], [only] if Some(only.path.as_bytes()) == of_link);
                let mut items = links.into_iter().map(Item::Link);
                items.try_for_each(|item| gathering.add(&item))?;
            }
            Message::Directories(list) => {
                let mut items = list.into_iter().map(|one| Item::Directory(one.path));
                items.try_for_each(|item| gathering.add(&item))?;
            }
            Message::FileFailed { message, .. } => gathering.add(&Item::Unreadable(message))?,
            _ => return Err(reader.unexpected("no part of a catalogue")),
        }
    }
    let is_link = count == 1 && link;
    told.map(|(single, gathering)| gathering.end(single || is_link)).transpose()
}

/// How much was hashed for a client.
#[derive(Debug, Default)]
pub(crate) struct Hashed {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// Tells a client what stands at `source`.
pub(crate) fn tell(
    control: &ControlWriter,
    source: Source,
    hashed: &mut Hashed,
) -> Result<(), TransferError> {
    let is_told = control.version() >= SKIPS;
    let single_file = if is_told { source.is_single() } else { source.is_file() };
    control.send(&Message::Begin { single_file })?;
    let (going, over) = (AtomicBool::new(true), (Mutex::new(false), Condvar::new()));
    thread::scope(|scope| {
        threads::begin_in(scope, || beat(control, &going, &over))?;
        let mut batch = Batch::new(control);
        let told = read(source, &going, &mut |item| {
            if let Read::File(entry, _) = &item {
                hashed.files += 1;
                hashed.bytes += entry.size_bytes;
            }
            batch.add(item)
        });
        let told = told.and_then(|()| batch.flush());
        *over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        over.1.notify_all();
        told
    })?;
    control.send(&Message::Finished)
}

/// Signs of life, until it is over or nobody hears them.
fn beat(control: &ControlWriter, going: &AtomicBool, (over, ended): &(Mutex<bool>, Condvar)) {
    let mut is_over = over.lock().unwrap_or_else(PoisonError::into_inner);
    while !*is_over {
        let waited = ended.wait_timeout(is_over, HEARTBEAT);
        let (locked, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        is_over = locked;
        if timeout.timed_out() && control.send(&Message::Ping).is_err() {
            going.store(false, Relaxed);
            return;
        }
    }
}

/// Something that was read.
enum Read {
    File(FileEntry, [u8; 32]),
    Link(LinkEntry),
    Directory(DirectoryEntry),
    Failed(FileFailure),
}

/// Reads all of `source`, as long as it is `going`; paths are below it.
fn read(
    mut source: Source,
    going: &AtomicBool,
    tell: &mut dyn FnMut(Read) -> Result<(), TransferError>,
) -> Result<(), TransferError> {
    if source.is_directory() {
        source.name = RelativePath::default();
    }
    let mut buffer = PageBuffer::new(PIECE);
    for found in Walk::new(source.clone()) {
        tell(match found {
            Found::File { path, entry, .. } => {
                match hash(&source, &path, &entry, &mut buffer, going) {
                    Ok(hash) => Read::File(entry, hash),
                    Err(failure) => Read::Failed(failure),
                }
            }
            Found::Link(link) => Read::Link(link),
            Found::Directory(directory) => Read::Directory(directory),
            Found::Skipped(message) => {
                Read::Failed(FileFailure { code: FailureCode::Storage, message })
            }
            Found::Failed(failure) => Read::Failed(failure),
        })?;
        if !going.load(Relaxed) {
            return Err(TransferError::Cancelled);
        }
    }
    Ok(())
}

fn hash(
    source: &Source,
    path: &RelativePath,
    entry: &FileEntry,
    buffer: &mut [u8],
    going: &AtomicBool,
) -> Result<[u8; 32], FileFailure> {
    let shown = source.root.show(path);
    let failed = |error| FileFailure::storage("cannot read", &shown, &error);
    let file = source.root.file(path, source.links).map_err(failed)?.into();
    let mut hasher = blake3::Hasher::new();
    let mut offset = 0;
    while going.load(Relaxed) {
        let count = read_full(&file, buffer, offset).map_err(failed)?;
        hasher.update(&buffer[..count]);
        offset += count as u64;
        if count < buffer.len() {
            break;
        }
    }
    if offset == entry.size_bytes {
        Ok(*hasher.finalize().as_bytes())
    } else {
        Err(FileFailure::changed(&shown))
    }
}

/// Gathers what is told, so that many small files do not make as many messages.
struct Batch<'a> {
    control: &'a ControlWriter,
    next: u64,
    bytes: u64,
    files: Vec<FileEntry>,
    hashes: Vec<[u8; 32]>,
    links: Vec<LinkEntry>,
    directories: Vec<DirectoryEntry>,
}

impl<'a> Batch<'a> {
    fn new(control: &'a ControlWriter) -> Self {
        Self {
            control,
            next: 0,
            bytes: 0,
            files: Vec::new(),
            hashes: Vec::new(),
            links: Vec::new(),
            directories: Vec::new(),
        }
    }

    fn add(&mut self, item: Read) -> Result<(), TransferError> {
        match item {
            Read::File(entry, hash) => {
                self.bytes += entry.size_bytes;
                self.files.push(entry);
                self.hashes.push(hash);
            }
            Read::Link(link) => self.links.push(link),
            Read::Directory(directory) => self.directories.push(directory),
            Read::Failed(FileFailure { code, message }) => {
                let file = UNNUMBERED;
                self.control.send(&Message::FileFailed { file, code, message })?;
            }
        }
        let most = self.files.len().max(self.links.len()).max(self.directories.len());
        if most >= BATCH || self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), TransferError> {
        let files = std::mem::take(&mut self.files);
        let hashes = std::mem::take(&mut self.hashes);
        let links = std::mem::take(&mut self.links);
        let directories = std::mem::take(&mut self.directories);
        let (first, count) = (self.next, files.len() as u64);
        (self.next, self.bytes) = (first + count, 0);
        if count > 0 {
            self.control.send(&Message::Offer { first, files })?;
            let settled = (first..).zip(hashes).map(|(file, hash)| Settled { file, hash });
            self.control.send(&Message::Committed(settled.collect()))?;
        }
        if !links.is_empty() {
            self.control.send(&Message::Links(links))?;
        }
        if !directories.is_empty() {
            self.control.send(&Message::Directories(directories))?;
        }
        Ok(())
    }
}
