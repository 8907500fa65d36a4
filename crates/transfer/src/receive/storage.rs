//! What `read_back` asks of the storage, whoever reads a file back.

use std::fs::File;
use std::io;

use rustix::fs::Advice;

/// Brings a file to the storage and has the kernel forget its content, so that the storage answers
/// who reads it next, as far as that can be had: memory is the only storage of a tmpfs.
pub(super) fn put_out_of_memory(file: &File) -> io::Result<()> {
    file.sync_all()?;
    // It is no more than advice.
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
    Ok(())
}

/// What was read back is not what was written.
pub(super) fn damaged() -> io::Error {
    let text = "what was read back from the storage is not what was written";
    io::Error::new(io::ErrorKind::InvalidData, text)
}
