//! The directories that are served, and what a peer's path means among them.

use std::path::Path;
use std::sync::Arc;

use crate::error::TransferError;
use crate::root::{Confinement, Root};
use crate::wire::RelativePath;

/// What a peer may do below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only fetch.
    ReadOnly,
    /// Fetch and store.
    ReadWrite,
}

/// A directory that is served.
#[derive(Clone, Debug)]
pub struct Export {
    /// The first component of remote paths; empty for a server with a single root.
    pub name: String,
    /// The directory, opened.
    pub root: Arc<Root>,
    /// What a peer may do.
    pub access: Access,
}

impl Export {
    /// Opens `directory` for serving.
    pub fn open(name: &str, directory: &Path, access: Access) -> Result<Self, TransferError> {
        let root = Arc::new(Root::open(directory, Confinement::Beneath)?.shown_as(name));
        Ok(Self { name: name.to_owned(), root, access })
    }
}

/// Refuses names that do not tell one directory from another.
pub(super) fn check(exports: &[Export]) -> Result<(), TransferError> {
    let wrong =
        |value: &str, why| TransferError::Setting { item: "root", value: value.into(), why };
    let mut names: Vec<&str> = exports.iter().map(|export| export.name.as_str()).collect();
    names.sort_unstable();
    if exports.is_empty() {
        return Err(wrong("empty", "a server needs at least one root"));
    }
    for pair in names.windows(2) {
        if pair[0] == pair[1] {
            return Err(wrong(pair[0], "two roots have this name"));
        }
    }
    for name in &names {
        if name.is_empty() && names.len() > 1 {
            return Err(wrong("unnamed", "with several roots each needs a name, NAME=DIR"));
        }
        if name.contains('/') || matches!(*name, "." | "..") {
            return Err(wrong(name, "a name has no slash and is neither . nor .."));
        }
    }
    Ok(())
}

/// The export and the path below it that a peer means.
pub(super) fn locate<'a>(
    exports: &'a [Export],
    typed: &[u8],
) -> Result<(&'a Export, RelativePath), TransferError> {
    let path = RelativePath::from_typed(typed).map_err(TransferError::Path)?;
    if let [only] = exports
        && only.name.is_empty()
    {
        return Ok((only, path));
    }
    let (first, rest) = path.split_first().unwrap_or_default();
    let named = |export: &&Export| export.name.as_bytes() == first;
    let export = exports.iter().find(named).ok_or_else(|| {
        let value = String::from_utf8_lossy(first).into_owned();
        TransferError::Setting { item: "root", value, why: "this server has no such root" }
    })?;
    Ok((export, rest))
}
