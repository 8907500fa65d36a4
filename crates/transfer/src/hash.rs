//! BLAKE3 of a file from its chunks, so that no byte is hashed twice.
//!
//! A chunk is a power of two of BLAKE3's own 1 KiB blocks, so its subtree value (a *chaining
//! value*) is a node of the tree whose root is the ordinary BLAKE3 hash of the whole file: what
//! `b3sum` prints. The value depends on the chunk's place, so a chunk at the wrong offset fails.

use std::fs::File;
use std::io;

use blake3::hazmat::{self, HasherExt, Mode};

use crate::buffer::PIECE;
use crate::root::read_full;
use crate::wire::CHUNK_SIZE;

/// Hashes one chunk as its pieces come by.
pub(crate) struct ChunkHasher {
    hasher: blake3::Hasher,
    whole_file: bool,
}

impl ChunkHasher {
    /// For the chunk at `offset` of a file of `size` bytes.
    pub(crate) fn new(offset: u64, size: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        let whole_file = size <= CHUNK_SIZE;
        if !whole_file {
            hasher.set_input_offset(offset);
        }
        Self { hasher, whole_file }
    }

    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
    }

    /// The subtree value, or the file's hash when the file is a single chunk.
    pub(crate) fn finish(&self) -> [u8; 32] {
        if self.whole_file {
            *self.hasher.finalize().as_bytes()
        } else {
            self.hasher.finalize_non_root()
        }
    }
}

/// The value of the chunk at `offset` of an open file of `size` bytes, read through `buffer`, which
/// has room for a piece; `None` if the file ends before the chunk does.
pub(crate) fn of_chunk(
    file: &File,
    offset: u64,
    size: u64,
    buffer: &mut [u8],
) -> io::Result<Option<[u8; 32]>> {
    let end = size.min(offset + CHUNK_SIZE);
    let mut hasher = ChunkHasher::new(offset, size);
    for place in (offset..end).step_by(PIECE) {
        let piece = &mut buffer[..(end - place).min(PIECE as u64) as usize];
        if read_full(file, piece, place)? < piece.len() {
            return Ok(None);
        }
        hasher.update(piece);
    }
    Ok(Some(hasher.finish()))
}

/// The value of a chunk of `length` zero bytes.
pub(crate) fn zeros(offset: u64, length: u64, size: u64) -> [u8; 32] {
    const ZEROS: [u8; 1 << 14] = [0; 1 << 14];
    let mut hasher = ChunkHasher::new(offset, size);
    let mut left = length as usize;
    while left > 0 {
        let piece = left.min(ZEROS.len());
        hasher.update(&ZEROS[..piece]);
        left -= piece;
    }
    hasher.finish()
}

/// The BLAKE3 hash of a file of `size` bytes from the values of all its pieces of `unit` bytes, in
/// order; a unit is a chunk or a power of two of them.
pub(crate) fn root(values: &[[u8; 32]], unit: u64, size: u64) -> [u8; 32] {
    match values {
        [] => *blake3::hash(b"").as_bytes(),
        [only] => *only,
        _ => {
            let (left, right) = children(values, unit, size);
            *hazmat::merge_subtrees_root(&left, &right, Mode::Hash).as_bytes()
        }
    }
}

fn children(values: &[[u8; 32]], unit: u64, size: u64) -> ([u8; 32], [u8; 32]) {
    let left_size = hazmat::left_subtree_len(size);
    let (left, right) = values.split_at((left_size / unit) as usize);
    (subtree(left, unit, left_size), subtree(right, unit, size - left_size))
}

/// The value of a part of a file, from those of its pieces.
pub(crate) fn subtree(values: &[[u8; 32]], unit: u64, size: u64) -> [u8; 32] {
    match values {
        [only] => *only,
        _ => {
            let (left, right) = children(values, unit, size);
            hazmat::merge_subtrees_non_root(&left, &right, Mode::Hash)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oracle is the blake3 crate's own hash of the whole input.
    #[test]
    fn chunk_values_merge_into_the_ordinary_hash_of_the_file() {
        let data: Vec<u8> = (0..11 * CHUNK_SIZE + 12_345).map(|i| (i * 31 % 251) as u8).collect();
        let chunk = CHUNK_SIZE as usize;
        for size in [
            0,
            1,
            chunk - 1,
            chunk,
            chunk + 1,
            2 * chunk,
            3 * chunk,
            3 * chunk + 1,
            8 * chunk,
            data.len(),
        ] {
            let data = &data[..size];
            let values: Vec<[u8; 32]> = data
                .chunks(chunk)
                .enumerate()
                .map(|(index, piece)| {
                    let mut hasher = ChunkHasher::new(index as u64 * CHUNK_SIZE, size as u64);
                    piece.chunks(100_000).for_each(|part| hasher.update(part));
                    hasher.finish()
                })
                .collect();
            assert_eq!(
                root(&values, CHUNK_SIZE, size as u64),
                *blake3::hash(data).as_bytes(),
                "{size}"
            );
        }
    }

    #[test]
    fn zero_chunks_hash_as_zeros() {
        let size = 2 * CHUNK_SIZE + 5;
        let values = [
            zeros(0, CHUNK_SIZE, size),
            zeros(CHUNK_SIZE, CHUNK_SIZE, size),
            zeros(2 * CHUNK_SIZE, 5, size),
        ];
        let expected = blake3::hash(&vec![0; size as usize]);
        assert_eq!(root(&values, CHUNK_SIZE, size), *expected.as_bytes());
    }
}
