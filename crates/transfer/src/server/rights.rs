//! Which client may do what below which root.

use std::sync::Arc;

use super::export::{Access, Export};
use crate::error::TransferError;
use crate::root::Root;
use crate::wire::RelativePath;

/// What one client may do below one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The name in the client's certificate.
    pub client: String,
    /// The root's name; empty for the only one.
    pub root: String,
    /// Whether it may store.
    pub access: Access,
    /// Only what is below this path.
    pub prefix: RelativePath,
    /// What that may hold, in bytes; `None` is the server's.
    pub quota: Option<u64>,
}

/// A place that a request named, as far as the client may use it.
pub(super) struct Place {
    pub(super) root: Arc<Root>,
    /// Below `root`.
    pub(super) path: RelativePath,
    pub(super) access: Access,
    /// What other grants say of paths below `root`, and whether they let it store there.
    pub(super) others: Vec<(RelativePath, bool)>,
    /// What `root` may hold, where its grant says so.
    pub(super) quota: Option<u64>,
}

/// The place `path` below `export` for `client`; `grants` of `None` let everyone do what the
/// root allows.
pub(super) fn place(
    export: &Export,
    path: RelativePath,
    grants: Option<&[Grant]>,
    client: Option<&str>,
) -> Result<Place, TransferError> {
    let root = Arc::clone(&export.root);
    let Some(grants) = grants else {
        let (access, others) = (export.access, Vec::new());
        return Ok(Place { root, path, access, others, quota: None });
    };
    let its = |grant: &&Grant| Some(grant.client.as_str()) == client && grant.root == export.name;
    let fits = |grant: &&Grant| path.below(&grant.prefix).is_some();
    // The nearest one speaks for the path.
    let its = grants.iter().filter(its);
    let nearest = its.clone().filter(fits).max_by_key(|grant| grant.prefix.as_bytes().len());
    let Some(Grant { access, prefix, quota, .. }) = nearest else {
        let why = format!("this client may not use \"{path}\" here");
        return Err(TransferError::Denied { why });
    };
    let access = if export.access == Access::ReadOnly { Access::ReadOnly } else { *access };
    let below = its.filter(|grant| grant.prefix != *prefix);
    let others = below
        .filter_map(|grant| Some((grant.prefix.below(prefix)?, grant.access == Access::ReadWrite)));
    let others = others.collect();
    if prefix.is_empty() {
        return Ok(Place { root, path, access, others, quota: *quota });
    }
    // A root of its own: no link leads from it to what others have.
    let own = if access == Access::ReadWrite {
        export.root.make_directory(prefix, &|_| 0o777).and_then(|_| export.root.beneath(prefix))
    } else {
        export.root.beneath(prefix)
    };
    let root = own.map_err(|source| TransferError::Local {
        what: "cannot use",
        path: prefix.to_string(),
        source,
    })?;
    let path = path.below(prefix).unwrap_or_default();
    Ok(Place { root: Arc::new(root), path, access, others, quota: *quota })
}

/// Refuses grants that can never apply.
pub(super) fn check(grants: &[Grant], exports: &[Export]) -> Result<(), TransferError> {
    let unknown = |grant: &&Grant| !exports.iter().any(|export| export.name == grant.root);
    match grants.iter().find(unknown) {
        None => Ok(()),
        Some(Grant { client, root, .. }) => Err(TransferError::Setting {
            item: "rights",
            value: format!("of {client} on \"{root}\""),
            why: "no root has this name",
        }),
    }
}
