//! A sender beside another one: it sends chunks of files that the other has on offer, as the
//! receiver wants them, and nothing else.
//!
//! It opens only what the receiver could get here by itself, at the place that it names for both
//! senders, and only a file of the size and time that the other has offered. Whether its content is
//! the same as well the receiver finds out, which has the other's hashes.

use std::fs::File;
use std::sync::Arc;
use std::thread;

use rustix::fs::FileType;
use weir_units::Rate;

use super::large::{Confirm, LargeFile};
use super::{How, Outlets, Sending, Source};
use crate::connection::Connection;
use crate::control::{ControlReader, ControlWriter};
use crate::error::{FileFailure, TransferError};
use crate::file_version::FileVersion;
use crate::progress::Progress;
use crate::receive::is_stage_name;
use crate::root;
use crate::wire::{
    CHUNK_SIZE, ChunkRun, FailureCode, FileEntry, MESSAGE_LIMIT, Message, RelativePath,
};

/// Runs of chunks that may be wanted at once; each has its file open.
const WANTED_MAX: usize = 64;

/// Sends what the receiver wants of the sources; returns the data connections for the next
/// operation.
pub(crate) fn supply(
    reader: &mut ControlReader,
    control: &ControlWriter,
    data: Vec<Connection>,
    sources: &[Source],
    how: How<'_>,
    progress: &Arc<Progress>,
) -> Result<Vec<Connection>, TransferError> {
    let (sending, mut data) = Sending::new(control, Outlets::plain(data), how, progress)?;
    let sending = &sending;
    thread::scope(|scope| {
        sending.begin(scope, || sending.beat());
        for (index, connection) in data.iter_mut().enumerate() {
            sending.begin(scope, move || sending.put_out(connection, index, 0));
        }
        let followed = sending.follow_wants(reader, sources).and_then(|()| sending.part(reader));
        if let Err(error) = followed.and_then(|()| control.send(&Message::Finished)) {
            sending.abort(error);
        }
        sending.files().over = true;
        sending.moved.notify_all();
    });
    sending.result().map(|()| data)
}

impl Sending {
    /// Handles control messages until the receiver wants nothing more.
    fn follow_wants(
        &self,
        reader: &mut ControlReader,
        sources: &[Source],
    ) -> Result<(), TransferError> {
        loop {
            match reader.expect(MESSAGE_LIMIT)? {
                Message::Want { file, path, size_bytes, modified_ns, run } => {
                    if self.queue.len() >= WANTED_MAX {
                        return Err(reader.unexpected("too many chunks are wanted at once"));
                    }
                    let entry = FileEntry { path, size_bytes, modified_ns, mode: 0, sparse: false };
                    check_run(run, size_bytes)
                        .ok_or_else(|| reader.unexpected("a request for chunks past the end"))?;
                    match open(sources, file, entry, run) {
                        Ok(large) => self.queue.push_large(Arc::new(large)),
                        Err(failure) => {
                            let FileFailure { code, message } = failure.clone();
                            self.progress.fail(None, failure);
                            self.control.send(&Message::FileFailed { file, code, message })?;
                        }
                    }
                }
                Message::SetRate { rate_bps } => {
                    self.pace.set_rate(Rate::from_bit_per_s(rate_bps));
                }
                Message::SetCongestion { name } => self.pace.set_congestion(&name)?,
                Message::Finish => {
                    self.queue.close();
                    return Ok(());
                }
                Message::Ping => {}
                _ => return Err(reader.unexpected("nothing that another sender is asked for")),
            }
        }
    }
}

/// Opens a file to send a run of its chunks, if it is the one on offer elsewhere.
fn open(
    sources: &[Source],
    number: u64,
    entry: FileEntry,
    run: ChunkRun,
) -> Result<LargeFile, FileFailure> {
    let path = &entry.path;
    let none = || {
        let message = format!("\"{path}\" is not there as it is at the first host");
        FileFailure { code: FailureCode::Changed, message }
    };
    if is_stage_name(path.split_bytes().1) {
        return Err(none());
    }
    let mut failure = None;
    for source in sources {
        let Some(below) = source.place_of(path) else { continue };
        let opened = source.root.file(&below, source.links);
        let shown = source.root.show(&below);
        let looked = opened.and_then(|fd| Ok((rustix::fs::fstat(&fd)?, File::from(fd))));
        match looked {
            Ok((stat, file)) if is_on_offer(&stat, &entry) => {
                let version = FileVersion::of(&stat);
                let (runs, confirm) = ([run], Confirm::Nothing);
                return Ok(LargeFile::new(number, entry, file, version, shown, &runs, confirm));
            }
            Ok(_) => {}
            Err(error) => {
                failure.get_or_insert(FileFailure::storage("cannot read", &shown, &error));
            }
        }
    }
    Err(failure.unwrap_or_else(none))
}

/// Whether it is a regular file of that size and time.
fn is_on_offer(stat: &rustix::fs::Stat, entry: &FileEntry) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_file()
        && stat.st_size as u64 == entry.size_bytes
        && root::modified_ns(stat) == entry.modified_ns
}

/// Nothing unless the run is within the file.
fn check_run(run: ChunkRun, size: u64) -> Option<()> {
    let end = run.first.checked_add(run.count)?;
    (run.count > 0 && end <= size.div_ceil(CHUNK_SIZE)).then_some(())
}

impl Source {
    /// Where below its root a file is that is offered under this name; `None` if it is none of it.
    fn place_of(&self, offered: &RelativePath) -> Option<RelativePath> {
        self.path.join(&offered.below(&self.name)?).ok()
    }
}
