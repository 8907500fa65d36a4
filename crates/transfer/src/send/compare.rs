//! Files that are compared with what the receiver has under their names, by their content.

use std::fs::File;
use std::io;

use super::{Outgoing, Sending, Stage, Unhashed};
use crate::error::{FileFailure, TransferError};
use crate::file_version::FileVersion;
use crate::root;
use crate::wire::Message;

impl Sending {
    /// Has a file hashed, which a receiver may ask for once while it is on offer.
    pub(super) fn compare_later(&self, number: u64) {
        let mut files = self.files();
        let waits = |known: &&mut Box<Outgoing>| matches!(known.stage, Stage::Waiting);
        if let Some(known) = files.known.get_mut(&number).filter(waits) {
            known.stage = Stage::Alike(None);
            files.unhashed.push_back(Unhashed::Alike(number));
            self.moved.notify_all();
        }
    }

    /// Hashes a file and tells the receiver.
    pub(super) fn compare(&self, number: u64) -> Result<(), TransferError> {
        let Some(outgoing) = self.outgoing(number) else {
            return Ok(());
        };
        match self.hash_unchanged(&outgoing) {
            Ok(None) => Ok(()),
            Ok(Some(hash)) => {
                if let Some(known) = self.files().known.get_mut(&number) {
                    known.stage = Stage::Alike(Some(hash));
                }
                self.control.send(&Message::Content { file: number, hash })
            }
            Err(failure) => {
                self.fail(number, failure);
                Ok(())
            }
        }
    }

    /// The hash of a file that stays what was offered while it is read; `None` at the end of the
    /// operation.
    fn hash_unchanged(&self, outgoing: &Outgoing) -> Result<Option<[u8; 32]>, FileFailure> {
        let shown = outgoing.root.show(&outgoing.path);
        let failed = |error: io::Error| FileFailure::storage("cannot read", &shown, &error);
        let file = outgoing.root.file(&outgoing.path, outgoing.links).map_err(failed)?;
        let file = File::from(file);
        let size = outgoing.entry.size_bytes;
        let hash = root::hash_of(&file, size, &|| self.deal()).map_err(failed)?;
        let stat = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
        if self.files().over {
            return Ok(None);
        }
        match hash {
            Some(hash) if FileVersion::of(&stat) == outgoing.version => Ok(Some(hash)),
            _ => Err(FileFailure::changed(&shown)),
        }
    }
}
