//! Bytes that nobody can foresee, from the kernel: for keys, tokens and names.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Fills all of `bytes`.
pub(crate) fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(())
}
