//! Files of a single chunk: written in one go and given their name at once.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};

use super::directory::Directory;
use super::partial::StageNames;
use crate::root;
use crate::wire::FileEntry;

/// Zeros are left out of sparse files in blocks of this size.
pub(crate) const BLOCK: usize = 4096;

/// A file of a single chunk, offered and not yet here.
#[derive(Debug)]
pub(crate) struct WholeFile {
    pub(crate) entry: FileEntry,
    pub(crate) directory: Arc<Directory>,
    pub(crate) name: Vec<u8>,
}

impl WholeFile {
    /// Writes the verified content; the file appears complete under its name or not at all.
    pub(crate) fn write(&self, content: &[u8], sync: bool) -> io::Result<()> {
        match self.create_unnamed() {
            Ok(fd) => {
                let file = self.fill(fd, content, sync)?;
                let stage = StageNames::of(&self.name).part;
                root::link_file(file.as_fd(), self.directory.fd(), &self.name, &stage)
            }
            // Not every file system can hold a file without a name (NFS, FUSE).
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
                self.write_staged(content, sync)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn create_unnamed(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(self.directory.fd(), ".", flags, Mode::RUSR | Mode::WUSR)
    }

    fn write_staged(&self, content: &[u8], sync: bool) -> io::Result<()> {
        let stage = StageNames::of(&self.name).part;
        let directory = self.directory.fd();
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = rustix::fs::openat(directory, &stage, flags | OFlags::CLOEXEC, mode)?;
        let written = self
            .fill(fd, content, sync)
            .and_then(|_| Ok(rustix::fs::renameat(directory, &stage, directory, &self.name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(directory, &stage, AtFlags::empty());
        }
        written
    }

    fn fill(&self, fd: OwnedFd, content: &[u8], sync: bool) -> io::Result<File> {
        let file = File::from(fd);
        if self.entry.sparse {
            file.set_len(self.entry.size_bytes)?;
            write_sparse(&file, content, 0)?;
        } else {
            file.write_all_at(content, 0)?;
        }
        root::set_attributes(&file, self.entry.mode, self.entry.modified_ns)?;
        if sync {
            file.sync_all()?;
        }
        Ok(file)
    }
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
