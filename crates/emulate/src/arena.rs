//! Where super-packets lie between the read and the last write of their pieces.
//!
//! Memory comes in chunks that the kernel reads into one super-packet after the other; a chunk is
//! used again from its start when all that lies in it has been released. Nothing is allocated per
//! packet once the high-water mark is reached.

use crate::headers::ETHERNET_HEADER;
use crate::offload::Layout;
use crate::realtime;

/// The longest packet that a TUN device hands out: 64 KiB of IPv4, or of IPv6 payload and header.
pub(crate) const MAX_PACKET: usize = 65_535 + 40;
const CHUNK: usize = 512 * 1024;

/// Names a super-packet of one [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SuperId(u32);

#[derive(Debug)]
struct SuperPacket {
    chunk: u32,
    start: u32,
    /// Pieces not yet released.
    pieces: u32,
    /// Whether the Ethernet header that it came with lies before it.
    framed: bool,
    layout: Layout,
}

#[derive(Debug)]
struct Chunk {
    memory: Box<[u8]>,
    used: usize,
    /// Super-packets that still lie here.
    live: u32,
}

/// A growing pool of super-packets with a ceiling on its memory.
#[derive(Debug)]
pub(crate) struct Arena {
    chunks: Vec<Chunk>,
    /// The chunk being filled.
    current: usize,
    free_chunks: Vec<u32>,
    supers: Vec<SuperPacket>,
    free_supers: Vec<u32>,
    max_chunks: usize,
    all_locked: bool,
}

impl Arena {
    /// An arena that takes at most `max_bytes`, in whole chunks and at least one.
    pub(crate) fn new(max_bytes: usize) -> Self {
        let mut arena = Self {
            chunks: Vec::new(),
            current: 0,
            free_chunks: Vec::new(),
            supers: Vec::new(),
            free_supers: Vec::new(),
            max_chunks: (max_bytes / CHUNK).max(1),
            all_locked: true,
        };
        arena.add_chunk();
        arena
    }

    /// Room for one packet of any length; `None` when the ceiling is reached.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        if self.chunks[self.current].used + MAX_PACKET > CHUNK {
            self.current = self.empty_chunk()?;
        }
        let chunk = &mut self.chunks[self.current];
        Some(&mut chunk.memory[chunk.used..chunk.used + MAX_PACKET])
    }

    /// Keeps the first `len` bytes of the [`room`](Self::room) last given, as a super-packet of
    /// `layout.segments` pieces; a `framed` one begins with its Ethernet header.
    pub(crate) fn keep(&mut self, len: usize, framed: bool, layout: Layout) -> SuperId {
        let chunk = &mut self.chunks[self.current];
        let before = if framed { ETHERNET_HEADER } else { 0 };
        let entry = SuperPacket {
            chunk: self.current as u32,
            start: (chunk.used + before) as u32,
            pieces: layout.segments.into(),
            framed,
            layout,
        };
        // Cache lines are not shared between packets.
        chunk.used += len.next_multiple_of(64);
        chunk.live += 1;
        match self.free_supers.pop() {
            Some(index) => {
                self.supers[index as usize] = entry;
                SuperId(index)
            }
            None => {
                self.supers.push(entry);
                SuperId(self.supers.len() as u32 - 1)
            }
        }
    }

    /// The layout of a super-packet.
    pub(crate) fn layout(&self, id: SuperId) -> &Layout {
        &self.supers[id.0 as usize].layout
    }

    /// The bytes of a super-packet.
    pub(crate) fn bytes(&self, id: SuperId) -> &[u8] {
        let found = &self.supers[id.0 as usize];
        let start = found.start as usize;
        &self.chunks[found.chunk as usize].memory[start..start + found.layout.len as usize]
    }

    /// The Ethernet header that a super-packet came with.
    pub(crate) fn ethernet(&self, id: SuperId) -> Option<&[u8]> {
        let found = &self.supers[id.0 as usize];
        let start = found.start as usize;
        let memory = &self.chunks[found.chunk as usize].memory;
        found.framed.then(|| &memory[start - ETHERNET_HEADER..start])
    }

    /// The same bytes as [`bytes`](Self::bytes), to edit.
    pub(crate) fn bytes_mut(&mut self, id: SuperId) -> &mut [u8] {
        let found = &self.supers[id.0 as usize];
        let start = found.start as usize;
        &mut self.chunks[found.chunk as usize].memory[start..start + found.layout.len as usize]
    }

    /// Gives back one piece of a super-packet; with its last piece the packet is gone.
    pub(crate) fn release(&mut self, id: SuperId) {
        let found = &mut self.supers[id.0 as usize];
        found.pieces -= 1;
        if found.pieces > 0 {
            return;
        }
        self.free_supers.push(id.0);
        let index = found.chunk;
        let chunk = &mut self.chunks[index as usize];
        chunk.live -= 1;
        if chunk.live == 0 {
            chunk.used = 0;
            if index as usize != self.current {
                self.free_chunks.push(index);
            }
        }
    }

    /// Whether all memory could be locked against paging.
    pub(crate) const fn is_locked(&self) -> bool {
        self.all_locked
    }

    fn empty_chunk(&mut self) -> Option<usize> {
        if let Some(index) = self.free_chunks.pop() {
            return Some(index as usize);
        }
        (self.chunks.len() < self.max_chunks).then(|| self.add_chunk())
    }

    fn add_chunk(&mut self) -> usize {
        let memory = vec![0; CHUNK].into_boxed_slice();
        self.all_locked &= realtime::lock(&memory);
        self.chunks.push(Chunk { memory, used: 0, live: 0 });
        self.chunks.len() - 1
    }
}
