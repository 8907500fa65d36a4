//! What is asked of the storage before a file takes its name.

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;

use rustix::fs::Advice;

/// Hears what the file system could not keep of what was written. One that writes later (NFS,
/// Lustre, CIFS, FUSE) tells whoever closes a descriptor that room or quota was short, and what it
/// could not write is lost.
#[allow(unsafe_code)]
pub(super) fn hand_over(file: &File) -> io::Result<()> {
    let twin = file.try_clone()?.into_raw_fd();
    // SAFETY: the descriptor was made here, and nothing else has it.
    if unsafe { libc::close(twin) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // Closed it is; how it went is not known.
        error if error.kind() == io::ErrorKind::Interrupted => file.sync_all(),
        error => Err(error),
    }
}

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
