//! Where an entry of the operation goes, below the root.

use std::sync::Arc;

use super::Reception;
use super::directory::{Directory, Parent};
use super::kept::READ_ONLY;
use super::stage::is_stage_name;
use crate::error::FileFailure;
use crate::room::Room;
use crate::wire::{FailureCode, PATH_LIMIT, RelativePath};

/// Where an entry of the operation goes.
pub(super) struct Place {
    /// Its directory.
    pub(super) parent: Arc<Parent>,
    pub(super) directory: Arc<Directory>,
    pub(super) name: Vec<u8>,
}

/// The directory of the entry before, where the next one usually goes too.
pub(super) struct Near {
    /// Below the destination.
    above: Vec<u8>,
    parent: Arc<Parent>,
    directory: Arc<Directory>,
}

impl Reception {
    /// The directory and name for an entry of the operation.
    pub(super) fn place(&self, path: &RelativePath) -> Result<Place, FileFailure> {
        let target = self.target(path)?;
        let Some((parent, name)) = target.split_last() else {
            let message = "a file cannot replace the root itself".to_owned();
            return Err(FileFailure { code: FailureCode::BadRequest, message });
        };
        let directory = self.directories.get(&parent);
        let directory = directory
            .map_err(|error| FileFailure::storage("cannot use the directory of", path, &error))?;
        let (parent, name) = (Arc::new(directory.at(parent)), name.to_vec());
        Ok(Place { parent, directory, name })
    }

    /// As `place`, for one entry of several in a row.
    pub(super) fn place_near(
        &self,
        near: &mut Option<Near>,
        path: &RelativePath,
    ) -> Result<Place, FileFailure> {
        let (above, name) = path.split_bytes();
        if let Some(near) = near.as_ref().filter(|near| near.above == above)
            && near.parent.path.as_bytes().len() + 1 + name.len() <= PATH_LIMIT
            && !is_stage_name(name)
        {
            let (parent, directory) = (Arc::clone(&near.parent), Arc::clone(&near.directory));
            return Ok(Place { parent, directory, name: name.to_vec() });
        }
        let place = self.place(path)?;
        // What goes into the destination itself is looked at one by one: it must be asked for.
        *near = (!above.is_empty() && !self.exact).then(|| Near {
            above: above.to_vec(),
            parent: Arc::clone(&place.parent),
            directory: Arc::clone(&place.directory),
        });
        Ok(place)
    }

    pub(super) fn room(&self, directory: &Directory) -> Room {
        Room { space: Arc::clone(&directory.space), held: self.held.clone() }
    }

    pub(super) fn target(&self, path: &RelativePath) -> Result<RelativePath, FileFailure> {
        self.bounds.check(path)?;
        if path.as_bytes().split(|byte| *byte == b'/').any(is_stage_name) {
            let message = format!("\"{path}\" is the name of a file in progress");
            return Err(FileFailure { code: FailureCode::BadRequest, message });
        }
        let target = if self.exact { Ok(self.base.clone()) } else { self.base.join(path) };
        let target = target.map_err(|error| FileFailure {
            code: FailureCode::BadRequest,
            message: error.to_string(),
        })?;
        if !self.kept.admits(&target) {
            let message = format!("cannot write \"{path}\": {READ_ONLY}");
            return Err(FileFailure { code: FailureCode::Denied, message });
        }
        Ok(target)
    }
}
