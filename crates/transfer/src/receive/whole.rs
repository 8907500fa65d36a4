//! Files of a single chunk: written in one go and given their name at once.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, Mode, OFlags};

use super::directory::Directory;
use super::{stage, storage};
use crate::root::read_full;
use crate::scratch;
use crate::wire::FileEntry;

/// Zeros are left out of sparse files in blocks of this size.
pub(crate) const BLOCK: usize = 4096;

/// What is done before a file takes its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Care {
    /// It is brought to the disk.
    pub(crate) sync: bool,
    /// It is read back from there, too.
    pub(crate) read_back: bool,
}

/// A file of a single chunk, offered and not yet here. It holds no descriptor: thousands of them
/// are on offer at once.
#[derive(Debug)]
pub(crate) struct WholeFile {
    pub(crate) entry: FileEntry,
}

impl WholeFile {
    /// Writes the verified content as `name`; it appears complete or not at all.
    pub(crate) fn write(
        &self,
        directory: &Directory,
        name: &[u8],
        content: &[u8],
        care: Care,
    ) -> io::Result<()> {
        let at = directory.fd();
        match create_unnamed(at) {
            Ok(fd) => {
                let file = self.fill(directory, fd, content, care)?;
                let link = || stage::link_unnamed(file.as_fd(), at, name);
                match directory.names.place(at, name, link) {
                    // Where nothing is mounted at `/proc`, some users cannot name it.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        self.write_staged(directory, name, content, care)
                    }
                    linked => linked,
                }
            }
            // Not every file system can hold a file without a name (NFS, FUSE).
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
                self.write_staged(directory, name, content, care)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn write_staged(
        &self,
        directory: &Directory,
        name: &[u8],
        content: &[u8],
        care: Care,
    ) -> io::Result<()> {
        let at = directory.fd();
        let (fd, stage) = scratch::create_random(at)?;
        stage::hold(fd.as_fd());
        let written = self.fill(directory, fd, content, care).and_then(|file| {
            let publish = || stage::publish(file.as_fd(), at, &stage, name);
            directory.names.place(at, name, publish)
        });
        if written.is_err() {
            let _ = rustix::fs::unlinkat(at, &stage, AtFlags::empty());
        }
        written
    }

    fn fill(
        &self,
        directory: &Directory,
        fd: OwnedFd,
        content: &[u8],
        care: Care,
    ) -> io::Result<File> {
        let file = File::from(fd);
        if self.entry.sparse {
            file.set_len(self.entry.size_bytes)?;
            write_sparse(&file, content, 0)?;
        } else {
            file.write_all_at(content, 0)?;
        }
        directory.set_own(&file, &self.entry.path, self.entry.mode, self.entry.modified_ns)?;
        if care.read_back {
            storage::put_out_of_memory(&file)?;
            let mut read = vec![0; content.len()];
            if read_full(&file, &mut read, 0)? < content.len() || read != content {
                return Err(storage::damaged());
            }
        } else if care.sync {
            file.sync_all()?;
        } else {
            storage::hand_over(&file)?;
        }
        Ok(file)
    }
}

fn create_unnamed(directory: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::openat(directory, ".", flags, Mode::RUSR | Mode::WUSR)
}

/// Writes `data` at `offset` of a file that reads as zeros there, leaving holes for its zeros.
pub(crate) fn write_sparse(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
    let mut start = 0;
    while start < data.len() {
        let zero = is_zero(&data[start..data.len().min(start + BLOCK)]);
        let mut end = start;
        while end < data.len() && is_zero(&data[end..data.len().min(end + BLOCK)]) == zero {
            end = data.len().min(end + BLOCK);
        }
        if !zero {
            file.write_all_at(&data[start..end], offset + start as u64)?;
        }
        start = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn zeros_become_holes_and_read_back_as_zeros() {
        let mut file = tempfile::tempfile().unwrap();
        let mut data = vec![0_u8; 300_000];
        data[100_001] = 7;
        data[299_999] = 9;
        file.set_len(data.len() as u64).unwrap();
        write_sparse(&file, &data, 0).unwrap();
        let mut read = Vec::new();
        file.read_to_end(&mut read).unwrap();
        assert!(read == data);
        assert!(file.metadata().unwrap().blocks() * 512 <= 4 * BLOCK as u64);
    }
}
