//! Messages of the control connection: `[length u32][kind u8][fields][check 8]`.

use super::WireError;
use super::codec::{Decoder, Encoder};
use super::path::{PATH_LIMIT, RelativePath};

/// The protocol's oldest version, which every message has unless the peer knows a newer one.
pub const VERSION: u16 = 1;
/// The first version whose receivers compare content and read back what they wrote; since version
/// 2, times are of any year and content is confirmed after every resume.
pub const DEMANDS: u16 = 3;
/// The newest version that is spoken here.
pub const NEWEST: u16 = DEMANDS;
/// The longest message in bytes, prefix excluded; the sender keeps batches far below.
pub const MESSAGE_LIMIT: usize = 1 << 20;
/// Bytes of the length prefix.
pub const PREFIX_SIZE: usize = 4;

/// The number in a failure of something that was not offered and so has none.
pub const UNNUMBERED: u64 = u64::MAX;

/// Added to the number of a file that is offered a second time, after what the receiver had of it
/// turned out to be of other content.
pub const AGAIN: u64 = 1 << 62;

const SECOND: i128 = 1_000_000_000;
const MAGIC: [u8; 8] = *b"WEIRMOVE";
const CHECK_SIZE: usize = 8;
const TEXT_LIMIT: usize = 2048;
const CONGESTION_LIMIT: usize = 15;
/// What a requester may demand of the receiver, as bits of one byte.
const SYNC: u8 = 1;
const CHECKSUM: u8 = 2;
const READ_BACK: u8 = 4;
const LIST_LIMIT: usize = 8192;

/// What a new connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Requests and everything about files but their content.
    Control,
    /// File content for the session that owns the token.
    Data,
}

/// How content is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashKind {
    /// BLAKE3 per chunk and per file.
    #[default]
    Blake3,
    /// TCP's (or TLS's) own protection only.
    None,
}

/// What a requester may choose about one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How content is verified.
    pub hash: HashKind,
    /// Bytes count as durable only after `fdatasync`, so that they survive a power loss.
    pub sync: bool,
    /// What is there already is the same only by its content. From [`DEMANDS`] on.
    pub checksum: bool,
    /// The receiver reads each file back before it takes its name. From [`DEMANDS`] on.
    pub read_back: bool,
    /// Follow symbolic links on the sending side instead of copying them as links.
    pub follow_links: bool,
    /// The sending side's pacing in bit/s over all data connections; `u64::MAX` is unpaced.
    pub rate_bps: u64,
    /// The sending side's congestion control; empty leaves the host's default.
    pub congestion: String,
    /// Data connections that carry the operation.
    pub streams: u16,
}

/// Why a request, a file or a session failed, as a number that both ends agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FailureCode {
    /// The request cannot be right: unknown root, bad path, missing file.
    BadRequest = 1,
    /// The peer may not do this.
    Denied = 2,
    /// The peer is at its limit; try later.
    Busy = 3,
    /// A file changed or vanished while it was read.
    Changed = 4,
    /// Content does not match its hash.
    Corrupt = 5,
    /// The receiving file system is full.
    DiskFull = 6,
    /// Another error of the file system.
    Storage = 7,
    /// The other side broke the protocol.
    Protocol = 8,
    /// The operation was cancelled.
    Cancelled = 9,
    /// A connection of the session broke.
    Lost = 10,
}

/// A regular file on offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Where it goes, below the operation's destination.
    pub path: RelativePath,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Modification time, nanoseconds since 1970.
    pub modified_ns: i128,
    /// Permission bits (0o777).
    pub mode: u16,
    /// It has holes, which the receiver shall keep.
    pub sparse: bool,
}

/// A directory, sent after all files so that its times and mode stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Where it goes.
    pub path: RelativePath,
    /// Modification time, nanoseconds since 1970.
    pub modified_ns: i128,
    /// Permission bits (0o777).
    pub mode: u16,
}

/// A symbolic link, copied as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEntry {
    /// Where it goes.
    pub path: RelativePath,
    /// What it says.
    pub target: Vec<u8>,
}

/// `count` chunks from chunk number `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRun {
    /// The first chunk's number.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// What the receiver has of an offered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerState {
    /// It is under the final name already: by its size and time or, where that was asked for, by
    /// its content.
    Present,
    /// A file of the same size has the final name: the sender is to tell the content's hash.
    Alike,
    /// These chunks are missing; the others are verified and durable.
    Missing(Vec<ChunkRun>),
}

/// The receiver's answer about one offered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The file's number.
    pub file: u64,
    /// What the receiver has of it.
    pub state: AnswerState,
}

/// A file that stands under its final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The file's number.
    pub file: u64,
    /// Its BLAKE3 hash; zeros when hashing is off.
    pub hash: [u8; 32],
}

/// Everything that travels on a control connection.
///
/// The *client* made the connection, the *server* accepted it; the *sender* has the files, the
/// *receiver* gets them; either may be the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Client to server, first on every connection.
    Hello {
        /// What the connection is for.
        role: Role,
        /// The session a data connection belongs to; see [`greeting`] on a control connection.
        token: [u8; 16],
    },
    /// Server to client: the session is open, or the data connection joined it.
    Welcome {
        /// What data connections must show.
        token: [u8; 16],
        /// The version that the server speaks in this session: at most the client's.
        version: u16,
        /// The most data connections the server accepts in this session.
        streams_max: u16,
    },
    /// The request, session or operation failed; nothing of it follows.
    Failure {
        /// What kind of failure.
        code: FailureCode,
        /// For a person.
        message: String,
    },
    /// Client to server: receive files.
    Put {
        /// The destination as typed, with its root's name; a trailing slash means a directory.
        destination: Vec<u8>,
        /// Choices.
        options: Options,
    },
    /// Client to server: send files.
    Get {
        /// The sources as typed, with their root's name.
        sources: Vec<Vec<u8>>,
        /// Choices.
        options: Options,
    },
    /// Client to server: tell what stands at a place, with the hash of each file. The answer is
    /// `Ready`, then, if anything is there, `Begin` and a mixture of `Offer`, each with
    /// `Committed` after it, `Links`, `Directories` and `FileFailed`; at the end `Finished`.
    Catalogue {
        /// The place as typed, with its root's name.
        place: Vec<u8>,
        /// Choices, of which only `follow_links` counts.
        options: Options,
    },
    /// Server to client: the request is accepted.
    Ready,
    /// Sender to receiver, before the first offer.
    Begin {
        /// There is exactly one source and it is a regular file.
        single_file: bool,
    },
    /// Sender to receiver: files, numbered from `first` on.
    Offer {
        /// The first entry's number.
        first: u64,
        /// The files.
        files: Vec<FileEntry>,
    },
    /// Receiver to sender.
    Answers(Vec<Answer>),
    /// Sender to receiver, where the answer was [`AnswerState::Alike`]: the hash of the content.
    Content {
        /// The file's number.
        file: u64,
        /// Its BLAKE3 hash.
        hash: [u8; 32],
    },
    /// Receiver to sender: every chunk of a file of several chunks is durable.
    Received {
        /// The file's number.
        file: u64,
    },
    /// Sender to receiver: the file did not change while it was read; give it its name.
    Commit {
        /// The file's number.
        file: u64,
        /// Its hash, where the sender hashed all of it.
        hash: Option<[u8; 32]>,
    },
    /// Receiver to sender: files that stand under their final names.
    Committed(Vec<Settled>),
    /// Either way: this file failed, others go on.
    FileFailed {
        /// The file's number, or [`UNNUMBERED`].
        file: u64,
        /// What kind of failure.
        code: FailureCode,
        /// For a person.
        message: String,
    },
    /// Receiver to sender, a few times a second; also the sign of life.
    Progress {
        /// Bytes taken off the data connections.
        received_bytes: u64,
        /// Bytes that survive a crash of this end.
        durable_bytes: u64,
    },
    /// Sender to receiver: how much there is, as far as the sources were read.
    Totals {
        /// Regular files.
        files: u64,
        /// Their bytes.
        size_bytes: u64,
        /// The sources were read to the end.
        complete: bool,
    },
    /// Sender to receiver: symbolic links.
    Links(Vec<LinkEntry>),
    /// Sender to receiver: directories, the deepest first.
    Directories(Vec<DirectoryEntry>),
    /// Sender to receiver: nothing more follows.
    Finish,
    /// Receiver to sender: everything asked for is in place.
    Finished,
    /// Client to a sending server: pace at this rate from now on; zero pauses.
    SetRate {
        /// In bit/s; `u64::MAX` is unpaced.
        rate_bps: u64,
    },
    /// Client to a sending server: switch the congestion control of the live connections.
    SetCongestion {
        /// The kernel's name of it.
        name: String,
    },
    /// A sign of life.
    Ping,
}

/// The length of the message that follows a prefix, or why it cannot be one.
pub fn message_length(prefix: [u8; PREFIX_SIZE], limit: usize) -> Result<usize, WireError> {
    let length = u32::from_be_bytes(prefix) as usize;
    if length > limit {
        return Err(WireError::TooLong { field: "message", length, limit });
    }
    if length <= CHECK_SIZE { Err(WireError::Truncated) } else { Ok(length) }
}

impl Message {
    /// The bytes on the wire for a peer of the newest version, prefix included.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_for(NEWEST)
    }

    /// The bytes on the wire for a peer that speaks `version`, prefix included.
    pub fn encode_for(&self, version: u16) -> Vec<u8> {
        let mut out = Encoder::default();
        out.u32(0);
        match self {
            Self::Offer { first, files }
                if version > VERSION && files.iter().any(|file| is_far(file.modified_ns)) =>
            {
                out.u8(45).u64(*first).list(files, |out, file| file.encode(out, far_time));
            }
            Self::Directories(list)
                if version > VERSION && list.iter().any(|one| is_far(one.modified_ns)) =>
            {
                out.u8(46).list(list, |out, one| one.encode(out, far_time));
            }
            _ => self.encode_fields(&mut out),
        }
        let mut bytes = out.finish();
        let check = super::check(&bytes[PREFIX_SIZE..]);
        bytes.extend_from_slice(&check);
        let length = u32::try_from(bytes.len() - PREFIX_SIZE).expect("batches are small");
        bytes[..PREFIX_SIZE].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    fn encode_fields(&self, out: &mut Encoder) {
        match self {
            Self::Hello { role, token } => {
                let role = if *role == Role::Control { 0 } else { 1 };
                out.u8(1).fixed(&MAGIC).u16(VERSION).u8(role).fixed(token);
            }
            Self::Welcome { token, version, streams_max } => {
                out.u8(2).u16(*version).fixed(token).u16(*streams_max);
            }
            Self::Failure { code, message } => {
                out.u8(3).u8(*code as u8).bytes(shortened(message));
            }
            Self::Put { destination, options } => {
                out.u8(16).bytes(destination);
                options.encode(out);
            }
            Self::Get { sources, options } => {
                out.u8(17).list(sources, |out, source| {
                    out.bytes(source);
                });
                options.encode(out);
            }
            Self::Catalogue { place, options } => {
                out.u8(19).bytes(place);
                options.encode(out);
            }
            Self::Ready => {
                out.u8(18);
            }
            Self::SetRate { rate_bps } => {
                out.u8(48).u64(*rate_bps);
            }
            Self::SetCongestion { name } => {
                out.u8(49).bytes(name.as_bytes());
            }
            Self::Ping => {
                out.u8(50);
            }
            _ => self.encode_file_fields(out),
        }
    }

    fn encode_file_fields(&self, out: &mut Encoder) {
        match self {
            Self::Begin { single_file } => {
                out.u8(32).u8((*single_file).into());
            }
            Self::Offer { first, files } => {
                out.u8(33).u64(*first).list(files, |out, file| file.encode(out, near_time));
            }
            Self::Answers(answers) => {
                out.u8(34).list(answers, |out, answer| answer.encode(out));
            }
            Self::Received { file } => {
                out.u8(35).u64(*file);
            }
            Self::Content { file, hash } => {
                out.u8(47).u64(*file).fixed(hash);
            }
            Self::Commit { file, hash } => {
                out.u8(36).u64(*file).u8(hash.is_some().into());
                out.fixed(hash.as_ref().map_or(&[], |hash| &hash[..]));
            }
            Self::Committed(settled) => {
                out.u8(37).list(settled, |out, one| {
                    out.u64(one.file).fixed(&one.hash);
                });
            }
            Self::FileFailed { file, code, message } => {
                out.u8(38).u64(*file).u8(*code as u8).bytes(shortened(message));
            }
            Self::Progress { received_bytes, durable_bytes } => {
                out.u8(39).u64(*received_bytes).u64(*durable_bytes);
            }
            Self::Totals { files, size_bytes, complete } => {
                out.u8(40).u64(*files).u64(*size_bytes).u8((*complete).into());
            }
            Self::Links(links) => {
                out.u8(41).list(links, |out, link| {
                    out.bytes(link.path.as_bytes()).bytes(&link.target);
                });
            }
            Self::Directories(directories) => {
                out.u8(42).list(directories, |out, one| one.encode(out, near_time));
            }
            Self::Finish => {
                out.u8(43);
            }
            Self::Finished => {
                out.u8(44);
            }
            _ => unreachable!("every other message is encoded by encode_fields"),
        }
    }

    /// Reads a message without its prefix.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let fields = bytes.len().checked_sub(CHECK_SIZE).ok_or(WireError::Truncated)?;
        let (fields, check) = bytes.split_at(fields);
        if super::check(fields) != check {
            return Err(WireError::Check);
        }
        let mut input = Decoder::new(fields);
        let message = Self::decode_fields(&mut input)?;
        input.end()?;
        Ok(message)
    }

    fn decode_fields(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            1 => Self::decode_hello(input)?,
            2 => {
                let version = match input.u16()? {
                    version @ VERSION..=NEWEST => version,
                    version => return Err(WireError::Version(version)),
                };
                Self::Welcome { version, token: input.fixed()?, streams_max: input.u16()? }
            }
            3 => Self::Failure {
                code: FailureCode::decode(input)?,
                message: input.text("message", TEXT_LIMIT)?,
            },
            16 => Self::Put {
                destination: input.bytes("destination", PATH_LIMIT)?.to_vec(),
                options: Options::decode(input)?,
            },
            17 => Self::Get {
                sources: input.list("sources", LIST_LIMIT, |input| {
                    Ok(input.bytes("source", PATH_LIMIT)?.to_vec())
                })?,
                options: Options::decode(input)?,
            },
            18 => Self::Ready,
            19 => Self::Catalogue {
                place: input.bytes("place", PATH_LIMIT)?.to_vec(),
                options: Options::decode(input)?,
            },
            48 => Self::SetRate { rate_bps: input.u64()? },
            49 => Self::SetCongestion { name: input.text("congestion", CONGESTION_LIMIT)? },
            50 => Self::Ping,
            kind => return Self::decode_file_fields(kind, input),
        })
    }

    fn decode_hello(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        if input.fixed()? != MAGIC {
            return Err(WireError::Magic);
        }
        check_version(input)?;
        let role = if input.flag()? { Role::Data } else { Role::Control };
        Ok(Self::Hello { role, token: input.fixed()? })
    }

    fn decode_file_fields(kind: u8, input: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(match kind {
            32 => Self::Begin { single_file: input.flag()? },
            33 => Self::Offer {
                first: input.u64()?,
                files: input
                    .list("offer", LIST_LIMIT, |input| FileEntry::decode(input, read_near_time))?,
            },
            45 => Self::Offer {
                first: input.u64()?,
                files: input
                    .list("offer", LIST_LIMIT, |input| FileEntry::decode(input, read_far_time))?,
            },
            34 => Self::Answers(input.list("answers", LIST_LIMIT, Answer::decode)?),
            35 => Self::Received { file: input.u64()? },
            47 => Self::Content { file: input.u64()?, hash: input.fixed()? },
            36 => {
                let (file, known) = (input.u64()?, input.flag()?);
                Self::Commit { file, hash: if known { Some(input.fixed()?) } else { None } }
            }
            37 => Self::Committed(input.list("committed", LIST_LIMIT, |input| {
                Ok(Settled { file: input.u64()?, hash: input.fixed()? })
            })?),
            38 => Self::FileFailed {
                file: input.u64()?,
                code: FailureCode::decode(input)?,
                message: input.text("message", TEXT_LIMIT)?,
            },
            39 => Self::Progress { received_bytes: input.u64()?, durable_bytes: input.u64()? },
            40 => Self::Totals {
                files: input.u64()?,
                size_bytes: input.u64()?,
                complete: input.flag()?,
            },
            41 => Self::Links(input.list("links", LIST_LIMIT, LinkEntry::decode)?),
            42 => Self::Directories(input.list("directories", LIST_LIMIT, |input| {
                DirectoryEntry::decode(input, read_near_time)
            })?),
            46 => Self::Directories(input.list("directories", LIST_LIMIT, |input| {
                DirectoryEntry::decode(input, read_far_time)
            })?),
            43 => Self::Finish,
            44 => Self::Finished,
            kind => return Err(WireError::Value { field: "message kind", value: kind.into() }),
        })
    }
}

fn check_version(input: &mut Decoder<'_>) -> Result<(), WireError> {
    match input.u16()? {
        VERSION => Ok(()),
        version => Err(WireError::Version(version)),
    }
}

/// What a control connection's `Hello` has for a token: the newest version that is spoken, which
/// a server of version 1 does not look at.
pub fn greeting() -> [u8; 16] {
    let mut token = [0; 16];
    token[..2].copy_from_slice(&NEWEST.to_be_bytes());
    token
}

/// The version to speak with a client that greets so.
pub fn version_of(greeting: [u8; 16]) -> u16 {
    u16::from_be_bytes([greeting[0], greeting[1]]).clamp(VERSION, NEWEST)
}

/// Whether a time is further from 1970 than 64 bits of nanoseconds hold: before 1677 or after 2262.
fn is_far(modified_ns: i128) -> bool {
    // The ends of the range stand for all that lies beyond.
    !(i128::from(i64::MIN) + 1..i128::from(i64::MAX)).contains(&modified_ns)
}

type WriteTime = fn(&mut Encoder, i128);
type ReadTime = fn(&mut Decoder<'_>) -> Result<i128, WireError>;

fn near_time(out: &mut Encoder, modified_ns: i128) {
    let near = modified_ns.clamp(i64::MIN.into(), i64::MAX.into());
    out.i64(near as i64);
}

fn read_near_time(input: &mut Decoder<'_>) -> Result<i128, WireError> {
    Ok(input.i64()?.into())
}

/// Seconds since 1970 and nanoseconds of the second.
fn far_time(out: &mut Encoder, modified_ns: i128) {
    out.i64(modified_ns.div_euclid(SECOND) as i64).u32(modified_ns.rem_euclid(SECOND) as u32);
}

fn read_far_time(input: &mut Decoder<'_>) -> Result<i128, WireError> {
    let (seconds, nanoseconds) = (input.i64()?, input.u32()?);
    if i128::from(nanoseconds) >= SECOND {
        return Err(WireError::Value { field: "nanoseconds", value: nanoseconds.into() });
    }
    Ok(i128::from(seconds) * SECOND + i128::from(nanoseconds))
}

/// At most [`TEXT_LIMIT`] bytes of `message`, cut between characters.
fn shortened(message: &str) -> &[u8] {
    &message.as_bytes()[..message.floor_char_boundary(TEXT_LIMIT)]
}

/// A relative path, checked.
fn decode_path(input: &mut Decoder<'_>) -> Result<RelativePath, WireError> {
    RelativePath::new(input.bytes("path", PATH_LIMIT)?)
}

/// Permission bits only: set-id bits from another machine never pass.
fn decode_mode(input: &mut Decoder<'_>) -> Result<u16, WireError> {
    match input.u16()? {
        mode if mode <= 0o777 => Ok(mode),
        mode => Err(WireError::Value { field: "mode", value: mode.into() }),
    }
}

impl Options {
    fn encode(&self, out: &mut Encoder) {
        let hash = if self.hash == HashKind::Blake3 { 1 } else { 0 };
        let demands = [(self.sync, SYNC), (self.checksum, CHECKSUM), (self.read_back, READ_BACK)];
        let demands = demands.iter().filter(|(wanted, _)| *wanted).map(|(_, bit)| bit).sum();
        out.u8(hash).u8(demands).u8(self.follow_links.into());
        out.u64(self.rate_bps).bytes(self.congestion.as_bytes()).u16(self.streams);
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        let hash = if input.flag()? { HashKind::Blake3 } else { HashKind::None };
        let demands = input.u8()?;
        if demands > SYNC | CHECKSUM | READ_BACK {
            return Err(WireError::Value { field: "demands", value: demands.into() });
        }
        Ok(Self {
            hash,
            sync: demands & SYNC != 0,
            checksum: demands & CHECKSUM != 0,
            read_back: demands & READ_BACK != 0,
            follow_links: input.flag()?,
            rate_bps: input.u64()?,
            congestion: input.text("congestion", CONGESTION_LIMIT)?,
            streams: input.u16()?,
        })
    }
}

impl FileEntry {
    fn encode(&self, out: &mut Encoder, time: WriteTime) {
        out.bytes(self.path.as_bytes()).u64(self.size_bytes);
        time(out, self.modified_ns);
        out.u16(self.mode).u8(self.sparse.into());
    }

    fn decode(input: &mut Decoder<'_>, time: ReadTime) -> Result<Self, WireError> {
        let path = decode_path(input)?;
        let size_bytes = input.u64()?;
        if size_bytes > i64::MAX as u64 {
            return Err(WireError::Value { field: "file size", value: size_bytes });
        }
        let (modified_ns, mode) = (time(input)?, decode_mode(input)?);
        Ok(Self { path, size_bytes, modified_ns, mode, sparse: input.flag()? })
    }
}

impl DirectoryEntry {
    fn encode(&self, out: &mut Encoder, time: WriteTime) {
        out.bytes(self.path.as_bytes());
        time(out, self.modified_ns);
        out.u16(self.mode);
    }

    fn decode(input: &mut Decoder<'_>, time: ReadTime) -> Result<Self, WireError> {
        let (path, modified_ns) = (decode_path(input)?, time(input)?);
        Ok(Self { path, modified_ns, mode: decode_mode(input)? })
    }
}

impl LinkEntry {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        let path = decode_path(input)?;
        Ok(Self { path, target: input.bytes("link target", PATH_LIMIT)?.to_vec() })
    }
}

impl Answer {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.file);
        match &self.state {
            AnswerState::Present => out.u8(0),
            AnswerState::Alike => out.u8(2),
            AnswerState::Missing(runs) => out.u8(1).list(runs, |out, run| {
                out.u64(run.first).u64(run.count);
            }),
        };
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        let file = input.u64()?;
        let state = match input.u8()? {
            0 => AnswerState::Present,
            1 => AnswerState::Missing(input.list("missing chunks", LIST_LIMIT, |input| {
                Ok(ChunkRun { first: input.u64()?, count: input.u64()? })
            })?),
            2 => AnswerState::Alike,
            value => return Err(WireError::Value { field: "answer", value: value.into() }),
        };
        Ok(Self { file, state })
    }
}

impl FailureCode {
    const ALL: [Self; 10] = [
        Self::BadRequest,
        Self::Denied,
        Self::Busy,
        Self::Changed,
        Self::Corrupt,
        Self::DiskFull,
        Self::Storage,
        Self::Protocol,
        Self::Cancelled,
        Self::Lost,
    ];

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        let value = input.u8()?;
        let known = Self::ALL.into_iter().find(|code| *code as u8 == value);
        known.ok_or(WireError::Value { field: "failure code", value: value.into() })
    }
}
