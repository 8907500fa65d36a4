//! The baseline: the minimum rate if it is free, nothing otherwise (000-spec section 4.4).

use weir_topology::{LinkId, Path};

use super::book::Book;

/// What is free on the path, and the link that sets it; of several, the first.
pub(super) fn available(book: &Book, path: &Path) -> (LinkId, u64) {
    let residuals = path.links().iter().map(|link| (*link, book.link(*link).residual()));
    residuals.min_by_key(|(_, residual)| *residual).expect("a path has at least one link")
}
