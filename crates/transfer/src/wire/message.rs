//! Messages of the control connection; `encoding` has them as bytes.

use super::answer::{Answer, ChunkRun, Settled};
use super::entry::{DirectoryEntry, FileEntry, LinkEntry};
use super::failure::FailureCode;
use super::options::Options;
use super::path::RelativePath;

/// The protocol's oldest version, which every message has unless the peer knows a newer one.
pub const VERSION: u16 = 1;
/// The first version whose receivers compare content and read back what they wrote; since version
/// 2, times are of any year and content is confirmed after every resume.
pub const DEMANDS: u16 = 3;
/// The first version whose receivers take data connections that join while an operation runs.
pub const JOINS: u16 = 4;
/// The first version whose receivers write one file together, where they share a file system.
pub const STRIPES: u16 = 5;
/// The first version whose senders deal out chunks of a file that others send, too.
pub const DEALS: u16 = 6;
/// The first version whose receivers hear what the sender left out, and whose catalogues say that
/// a place is a single link.
pub const SKIPS: u16 = 7;
/// The first version whose senders hear which attributes could not be set.
pub const UNSET: u16 = 8;
/// The newest version that is spoken here.
pub const NEWEST: u16 = UNSET;
/// The longest message in bytes, prefix excluded; the sender keeps batches far below.
pub const MESSAGE_LIMIT: usize = 1 << 20;
/// Bytes of the length prefix.
pub const PREFIX_SIZE: usize = 4;

/// The number in a failure of something that was not offered and so has none.
pub const UNNUMBERED: u64 = u64::MAX;

/// Added to the number of a file that is offered a second time, after what the receiver had of it
/// turned out to be of other content.
pub const AGAIN: u64 = 1 << 62;

/// A chunk that another receiver has written, as the sender tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenChunk {
    /// Its number in the file.
    pub chunk: u64,
    /// Its hash, as in the trailer of its frame.
    pub hash: [u8; 32],
}

/// What a new connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Requests and everything about files but their content.
    Control,
    /// File content for the session that owns the token.
    Data,
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
    /// Client to server: write chunks of files that another receiver has in progress on a file
    /// system that both share; since version [`STRIPES`], as all that follows from it. After
    /// `Ready` the client sends `Lease`, `TakeBack`, `Ping` and `Finish`, the server `Opened`,
    /// `Stored`, `FileFailed`, `Ping` and, at the end, `Finished`.
    Assist {
        /// The destination as typed for this server, as in `Put`.
        destination: Vec<u8>,
        /// Choices, of which `sync` and `streams` count.
        options: Options,
    },
    /// Client to server: send chunks of files that another sender has on offer, of which this one
    /// has the same; since version [`DEALS`], as all that is dealt out. After `Ready` the client
    /// sends `Want`, `SetRate`, `SetCongestion`, `Ping` and `Finish`, the server `FileFailed`,
    /// `Ping` and, at the end, `Finished`.
    Supply {
        /// The sources as typed for this server, as in `Get`.
        sources: Vec<Vec<u8>>,
        /// Choices, as in `Get`.
        options: Options,
    },
    /// Server to client: the request is accepted.
    Ready,
    /// Sender to receiver, before the first offer.
    Begin {
        /// There is exactly one source and it is a regular file or a symbolic link.
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
    /// Sender to receiver, where the answer was `Alike`: the hash of the content.
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
    /// Sender to receiver: this is of a kind that is not copied, such as a socket; since version
    /// [`SKIPS`].
    Skipped {
        /// For a person, with its name.
        message: String,
    },
    /// Receiver to sender: the file system there lets attributes of this kind not be set; since
    /// version [`UNSET`].
    Unset {
        /// For a person, with the first file's name.
        message: String,
    },
    /// Sender to receiver: symbolic links.
    Links(Vec<LinkEntry>),
    /// Sender to receiver: directories, each after those in it; they get their attributes last.
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
    /// Sending client to server: so many more data connections have joined the session, and carry
    /// the operation from now on; since version [`JOINS`].
    Joined {
        /// How many.
        streams: u16,
    },
    /// Sender to receiver: let another receiver write to this file.
    Lend {
        /// The file's number.
        file: u64,
        /// Which of the others, at most 63.
        helper: u8,
    },
    /// Receiver to sender: what the other receiver is to show.
    Lent {
        /// The file's number.
        file: u64,
        /// Which of the others.
        helper: u8,
        /// The file goes to the destination itself instead of into it.
        exact: bool,
        /// A value that nobody can guess; none where the file is not lent.
        lease: Option<[u8; 32]>,
    },
    /// Sender to receiver: other receivers say that these chunks are in the file.
    Written {
        /// The file's number.
        file: u64,
        /// The chunks.
        chunks: Vec<WrittenChunk>,
    },
    /// Receiver to sender: these chunks were said to be written and cannot be read here.
    Unseen {
        /// The file's number.
        file: u64,
        /// The chunks' numbers.
        chunks: Vec<u64>,
    },
    /// Sender to both receivers: the other one writes nothing more to this file.
    TakeBack {
        /// The file's number.
        file: u64,
        /// Which of the others.
        helper: u8,
        /// Nothing that it was sent is still to be written there.
        clean: bool,
    },
    /// Sender to another receiver: write to the file in progress that this lease is for.
    Lease {
        /// The file's number.
        file: u64,
        /// Which of the others the receiver is.
        helper: u8,
        /// As it was offered.
        path: RelativePath,
        /// As it was offered.
        size_bytes: u64,
        /// As it was offered: zeros are to stay holes.
        sparse: bool,
        /// As `Lent` says.
        exact: bool,
        /// As `Lent` says.
        lease: [u8; 32],
    },
    /// Another receiver to the sender: it has the file open.
    Opened {
        /// The file's number.
        file: u64,
    },
    /// Another receiver to the sender: these chunks were verified and written.
    Stored {
        /// The file's number.
        file: u64,
        /// The chunks' numbers.
        chunks: Vec<u64>,
    },
    /// Receiver to sender: deal out chunks that another sender is to send.
    Ask {
        /// Which of the others, at most 63.
        helper: u8,
        /// The most chunks that are wanted.
        chunks: u16,
    },
    /// Sender to receiver: these chunks are not sent here; it has read each of them.
    Dealt {
        /// The file's number.
        file: u64,
        /// Which of the others.
        helper: u8,
        /// The first chunk's number.
        first: u64,
        /// The hash of each, as in the trailer of its frame.
        hashes: Vec<[u8; 32]>,
    },
    /// Receiver to sender: the other sender has not sent these chunks, which are to be sent here.
    Return {
        /// The file's number.
        file: u64,
        /// The chunks' numbers.
        chunks: Vec<u64>,
    },
    /// Receiver to another sender: send these chunks of the file that is on offer elsewhere.
    Want {
        /// The file's number there.
        file: u64,
        /// As it was offered.
        path: RelativePath,
        /// As it was offered.
        size_bytes: u64,
        /// As it was offered.
        modified_ns: i128,
        /// The chunks.
        run: ChunkRun,
    },
    /// A sign of life.
    Ping,
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
