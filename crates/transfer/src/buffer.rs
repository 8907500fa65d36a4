//! Memory that the kernel copies content into and out of.

use std::ops::{Deref, DerefMut};

/// Content is taken, hashed and handed on in pieces that stay in the second-level cache.
pub(crate) const PIECE: usize = 1 << 18;

/// Where the kernel's cached content begins, and this memory too.
const PAGE: usize = 4096;

/// Zeroed bytes that begin where a page does.
///
/// Kernels copy by one instruction (`rep movsb`), which takes some processors (AMD's Zen 3) four to
/// six times as long where the destination lies 1 to 31 bytes further into its page than the
/// source into its own. Cached content begins a page; a large vector from the C library begins 16
/// bytes into one.
#[derive(Debug)]
pub(crate) struct PageBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl PageBuffer {
    /// So many bytes.
    pub(crate) fn new(length: usize) -> Self {
        let mut bytes = vec![0; length + PAGE - 1];
        let start = bytes.as_ptr().addr().wrapping_neg() % PAGE;
        bytes.truncate(start + length);
        Self { bytes, start }
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for PageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_a_page_and_is_as_long_as_it_should_be() {
        for length in [0, 1, 100, PAGE, PIECE, (1 << 20) + 72] {
            let mut kept: Vec<PageBuffer> = (0..8).map(|_| PageBuffer::new(length)).collect();
            for buffer in &mut kept {
                buffer.fill(7);
                assert_eq!((buffer.len(), buffer.as_ptr().addr() % PAGE), (length, 0));
            }
        }
    }
}
