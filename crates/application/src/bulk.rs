//! Greedy transfers: as much as the connections take, or a number of bytes on each.

use crate::sockets::Sockets;

/// What is written at a time: topping the buffer up at each acknowledgement would be for nothing.
const CHUNK: u64 = 1 << 20;

/// A kernel wakes its writer when a third of a small buffer is free (`sk_stream_min_wspace`).
const FREE_SHARE: u64 = 3;

/// So many connections that send all they can.
#[derive(Clone, Debug)]
pub struct Bulk {
    streams: u32,
    /// What each is to carry; `None` for no end.
    size: Option<u64>,
    /// Opening sides, in order, and what each has still to write.
    open: Vec<(u32, u64)>,
    /// The room that is waited for.
    chunk: u64,
}

impl Bulk {
    pub(crate) const fn new(streams: u32, size: Option<u64>) -> Self {
        Self { streams, size, open: Vec::new(), chunk: CHUNK }
    }

    /// The opening sides, which send.
    pub fn senders(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.open.iter().map(|(endpoint, _)| *endpoint)
    }

    pub(crate) fn start(&mut self, sockets: &mut impl Sockets) {
        self.open.reserve_exact(self.streams as usize);
        for _ in 0..self.streams {
            let endpoint = sockets.open();
            self.chunk = CHUNK.min(sockets.writable(endpoint) / FREE_SHARE).max(1);
            self.open.push((endpoint, self.size.unwrap_or(u64::MAX)));
            self.write(self.open.len() - 1, sockets);
        }
        self.open.sort_unstable();
    }

    pub(crate) fn on_progress(&mut self, endpoint: u32, sockets: &mut impl Sockets) {
        if endpoint % 2 == 1 {
            sockets.read(endpoint);
        } else if let Ok(index) = self.open.binary_search_by_key(&endpoint, |(open, _)| *open) {
            self.write(index, sockets);
        }
    }

    pub(crate) fn stop(&mut self, sockets: &mut impl Sockets) {
        self.open.iter().for_each(|(endpoint, _)| sockets.abort(*endpoint));
    }

    fn write(&mut self, index: usize, sockets: &mut impl Sockets) {
        let (endpoint, left) = &mut self.open[index];
        let room = sockets.writable(*endpoint);
        if *left == 0 || room < self.chunk.min(*left) {
            return;
        }
        let taken = sockets.write(*endpoint, room.min(*left));
        if self.size.is_some() {
            *left -= taken;
            if *left == 0 {
                sockets.close(*endpoint);
            }
        }
    }
}
