//! Messages and frames as a hostile peer may send them: mostly well formed, at the wrong time and
//! with values at and beyond every limit; sometimes damaged.

use weir_random::Random;
use weir_transfer::HashKind;
use weir_transfer::wire::{
    Answer, AnswerState, CHUNK_SIZE, ChunkRun, DirectoryEntry, FailureCode, FileEntry, FrameHeader,
    FrameKind, FrameTrailer, LinkEntry, Message, Options, RelativePath, Settled,
};

/// Draws what a hostile peer says.
pub(crate) struct Noise {
    pub(crate) random: Random,
    /// What every name that is made up here begins with.
    prefix: &'static str,
}

impl Noise {
    pub(crate) fn new(random: Random, prefix: &'static str) -> Self {
        Self { random, prefix }
    }

    pub(crate) fn up_to(&mut self, max: u64) -> u64 {
        self.random.up_to(max)
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.random.up_to(choices.len() as u64 - 1) as usize].clone()
    }

    fn number(&mut self) -> u64 {
        let near = self.random.up_to(8);
        self.pick(&[near, near, near, 1 << 14, u64::from(u32::MAX), u64::MAX - near, u64::MAX])
    }

    fn size(&mut self) -> u64 {
        let small = self.random.up_to(5_000);
        self.pick(&[
            0,
            small,
            small,
            CHUNK_SIZE,
            CHUNK_SIZE + 1,
            3 * CHUNK_SIZE,
            1 << 40,
            (1 << 44) - 1,
            1 << 44,
            i64::MAX as u64,
            u64::MAX,
        ])
    }

    fn path(&mut self) -> RelativePath {
        let number = self.random.up_to(5);
        let text = match self.random.up_to(8) {
            0 => String::new(),
            1 => format!("{}-link/x{number}", self.prefix),
            2 => format!("{}-link", self.prefix),
            3 => format!("{}-{number}/deep/down", self.prefix),
            4 => format!("{}-{}", self.prefix, "long/".repeat(200).trim_end_matches('/')),
            _ => format!("{}-{number}", self.prefix),
        };
        RelativePath::new(text.as_bytes()).unwrap_or_default()
    }

    fn hash(&mut self) -> [u8; 32] {
        let byte = self.random.up_to(255) as u8;
        [byte; 32]
    }

    fn code(&mut self) -> FailureCode {
        use FailureCode::{BadRequest, Busy, Changed, Corrupt, Denied, DiskFull, Lost, Storage};
        self.pick(&[BadRequest, Busy, Changed, Corrupt, Denied, DiskFull, Lost, Storage])
    }

    pub(crate) fn entry(&mut self) -> FileEntry {
        FileEntry {
            path: self.path(),
            size_bytes: self.size(),
            modified_ns: self.pick(&[
                0,
                -1,
                i64::MAX.into(),
                i64::MIN.into(),
                1 << 80,
                1_700_000_000_000_000_000,
            ]),
            mode: self.pick(&[0o644, 0o777, 0, 0o7777]),
            sparse: self.random.chance(0.4),
        }
    }

    pub(crate) fn options(&mut self, streams: u16) -> Options {
        Options {
            hash: self.pick(&[HashKind::Blake3, HashKind::None]),
            sync: self.random.chance(0.3),
            checksum: self.random.chance(0.3),
            read_back: self.random.chance(0.3),
            follow_links: self.random.chance(0.5),
            rate_bps: self.pick(&[u64::MAX, 0, 1, 8_000_000]),
            congestion: self.pick(&[String::new(), "reno".to_owned(), "nothing".to_owned()]),
            streams: if self.random.chance(0.9) { streams } else { self.pick(&[0, 64, 65535]) },
        }
    }

    pub(crate) fn request(&mut self, streams: u16) -> Message {
        let options = self.options(streams);
        if self.random.chance(0.5) {
            let destination =
                self.pick(&[&b""[..], b"hostile/", b"../x", b"/etc/", b"hostile/./a"]).to_vec();
            return Message::Put { destination, options };
        }
        let count = self.pick(&[0, 1, 1, 1, 3]);
        let choices = [&b"shared"[..], b"shared/", b"", b"..", b"/", b"nothing", b"shared/big"];
        let sources = (0..count).map(|_| self.pick(&choices).to_vec()).collect();
        Message::Get { sources, options }
    }

    /// Any message of an operation.
    pub(crate) fn message(&mut self) -> Message {
        match self.random.up_to(16) {
            0 => Message::Begin { single_file: self.random.chance(0.5) },
            1 | 2 => {
                let count = self.pick(&[0, 1, 1, 2, 5, 60]);
                let files = (0..count).map(|_| self.entry()).collect();
                Message::Offer { first: self.number(), files }
            }
            3 | 4 => {
                let count = self.pick(&[0, 1, 1, 8]);
                Message::Answers((0..count).map(|_| self.answer()).collect())
            }
            5 => Message::Received { file: self.number() },
            6 => {
                let hash = self.hash();
                Message::Commit { file: self.number(), hash: self.pick(&[None, Some(hash)]) }
            }
            7 => Message::Committed(vec![Settled { file: self.number(), hash: self.hash() }]),
            8 => {
                let message = "hostile \u{1b}[31m words\n".to_owned();
                Message::FileFailed { file: self.number(), code: self.code(), message }
            }
            9 => Message::Totals {
                files: self.number(),
                size_bytes: self.number(),
                complete: self.random.chance(0.5),
            },
            10 => Message::Links(vec![self.link()]),
            11 => Message::Directories(vec![DirectoryEntry {
                path: self.path(),
                modified_ns: self.pick(&[0, i64::MAX.into()]),
                mode: self.pick(&[0o755, 0o777, 0]),
            }]),
            12 => self.pick(&[Message::Finish, Message::Finished, Message::Ready]),
            13 => Message::SetRate { rate_bps: self.number() },
            14 => Message::SetCongestion { name: "nothing".to_owned() },
            15 => Message::Content { file: self.number(), hash: self.hash() },
            _ => Message::Ping,
        }
    }

    fn link(&mut self) -> LinkEntry {
        let path = RelativePath::new(format!("{}-link", self.prefix).as_bytes());
        let targets = [&b"../outside"[..], b"/etc", b"../../..", b"shared", b""];
        LinkEntry { path: path.unwrap_or_default(), target: self.pick(&targets).to_vec() }
    }

    fn answer(&mut self) -> Answer {
        let runs = (0..self.pick(&[0, 1, 1, 4]))
            .map(|_| ChunkRun { first: self.number(), count: self.number() })
            .collect();
        let states = [AnswerState::Present, AnswerState::Alike, AnswerState::Missing(runs)];
        let state = self.pick(&states);
        Answer { file: self.number(), state }
    }

    /// A frame for a data connection.
    pub(crate) fn frame(&mut self) -> Vec<u8> {
        let kind =
            self.pick(&[FrameKind::Chunk, FrameKind::Chunk, FrameKind::Hole, FrameKind::End]);
        let length = match kind {
            FrameKind::Chunk => self.pick(&[0, 1, 3_000, CHUNK_SIZE as u32]),
            FrameKind::Hole => self.pick(&[0, CHUNK_SIZE as u32, 64 << 20]),
            FrameKind::End => 0,
        };
        let offset = self.random.up_to(4) * CHUNK_SIZE;
        let mut bytes = FrameHeader { kind, file: self.number(), offset, length }.encode().to_vec();
        if kind == FrameKind::Chunk {
            bytes.resize(bytes.len() + length as usize, 7);
            let hash = self.hash();
            bytes.extend(FrameTrailer { complete: self.random.chance(0.7), hash }.encode());
        }
        bytes
    }

    /// Bytes as they are, cut short or damaged.
    pub(crate) fn spoil(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if bytes.is_empty() || self.random.chance(0.9) {
            return bytes;
        }
        let place = self.random.up_to(bytes.len() as u64 - 1) as usize;
        if self.random.chance(0.5) {
            bytes.truncate(place);
        } else {
            bytes[place] ^= 1 << self.random.up_to(7);
        }
        bytes
    }
}
