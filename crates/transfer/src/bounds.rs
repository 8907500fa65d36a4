//! What a receiver takes of what its peer offers.
//!
//! A path by itself cannot climb out of the destination ([`RelativePath`]), and the kernel lets
//! none of them pass through a symbolic link that leads out ([`crate::root`]). Here stands the
//! rest: that a server sends only what it was asked for, and that no link is laid which would
//! lead later programs astray.

use crate::error::FileFailure;
use crate::wire::{FailureCode, RelativePath};

/// What may be received into a destination.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// First components that were asked for; `None` takes any.
    names: Option<Vec<Vec<u8>>>,
    /// Links must stay below what was asked for.
    inward_links: bool,
}

impl Bounds {
    /// What a server takes from a client: any names, and links as they are, which it never
    /// follows out of its root.
    pub(crate) fn of_server() -> Self {
        Self::default()
    }

    /// What a client takes that has asked for `sources`, as typed.
    pub(crate) fn of_client(sources: &[Vec<u8>], unsafe_links: bool) -> Self {
        let names: Option<Vec<_>> = sources.iter().map(|typed| sent_name(typed)).collect();
        Self { names, inward_links: !unsafe_links }
    }

    /// Whether this entry may be here at all.
    pub(crate) fn check(&self, path: &RelativePath) -> Result<(), FileFailure> {
        let Some((first, _)) = path.split_first() else {
            return Err(denied("the destination itself is not the sender's to change".to_owned()));
        };
        if self.admits(first) {
            return Ok(());
        }
        Err(denied(format!("refused \"{path}\": it was not asked for")))
    }

    /// Whether the link `path` may lead to `target`.
    pub(crate) fn check_link(&self, path: &RelativePath, target: &[u8]) -> Result<(), FileFailure> {
        self.check(path)?;
        if !self.inward_links || self.stays_within(path, target) {
            return Ok(());
        }
        let message = format!(
            "refused the link \"{path}\": it leads out of what was asked for (--unsafe-links \
             takes it)"
        );
        Err(denied(message))
    }

    fn admits(&self, first: &[u8]) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|name| name == first))
    }

    /// By its words alone: the directories above a received link are not links themselves, so
    /// `..` at the beginning means what it says. After a name it might not: that is refused.
    fn stays_within(&self, path: &RelativePath, target: &[u8]) -> bool {
        if target.starts_with(b"/") {
            return false;
        }
        let mut place: Vec<&[u8]> = path.as_bytes().split(|byte| *byte == b'/').collect();
        place.pop();
        let mut descended = false;
        for name in target.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." if descended || place.pop().is_none() => return false,
                b".." => {}
                name => {
                    descended = true;
                    place.push(name);
                }
            }
        }
        place.first().map_or(self.names.is_none(), |first| self.admits(first))
    }
}

/// The name under which a source as typed arrives; `None` for the content of a directory.
pub(crate) fn sent_name(typed: &[u8]) -> Option<Vec<u8>> {
    if typed.ends_with(b"/") {
        return None;
    }
    let path = RelativePath::from_typed(typed).ok()?;
    path.split_last().map(|(_, name)| name.to_vec())
}

fn denied(message: String) -> FileFailure {
    FileFailure { code: FailureCode::Denied, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text.as_bytes()).unwrap()
    }

    fn asked(sources: &[&str]) -> Bounds {
        let sources: Vec<Vec<u8>> = sources.iter().map(|one| one.as_bytes().to_vec()).collect();
        Bounds::of_client(&sources, false)
    }

    #[test]
    fn only_what_was_asked_for_is_taken() {
        let bounds = asked(&["out/tree", "report.txt"]);
        for right in ["tree", "tree/a/b", "report.txt"] {
            assert!(bounds.check(&path(right)).is_ok(), "{right}");
        }
        for wrong in ["", ".bashrc", "out", "out/tree", "report.txt2", "tree2/a", "a/tree"] {
            assert!(bounds.check(&path(wrong)).is_err(), "{wrong}");
        }
        // The content of a directory may have any name; the destination itself stays what it is.
        for content in [&["tree/"][..], &[""], &["report.txt", "."]] {
            assert!(asked(content).check(&path("anything/below")).is_ok(), "{content:?}");
            assert!(asked(content).check(&path("")).is_err(), "{content:?}");
        }
    }

    #[test]
    fn links_stay_below_what_was_asked_for() {
        let (tree, content) = (asked(&["tree"]), asked(&["tree/"]));
        let inward = ["b", "./b", "../tree/b", "a/b/c", "..", "../a/b", "x//y/", "."];
        let outward =
            ["/", "/etc/passwd", "../..", "../../.ssh", "a/../../..", "b/../c", "../../tree2/x"];
        for target in inward {
            assert!(tree.check_link(&path("tree/d/l"), target.as_bytes()).is_ok(), "{target}");
            assert!(content.check_link(&path("d/l"), target.as_bytes()).is_ok(), "{target}");
        }
        for target in outward {
            assert!(tree.check_link(&path("tree/d/l"), target.as_bytes()).is_err(), "{target}");
        }
        for target in ["/", "../..", "../../a", "a/../../.."] {
            assert!(content.check_link(&path("d/l"), target.as_bytes()).is_err(), "{target}");
        }
        // Within the destination, but beside the tree.
        assert!(tree.check_link(&path("tree/l"), b"../.ssh").is_err());
        assert!(tree.check_link(&path("tree/l"), b"..").is_err());
        assert!(content.check_link(&path("l"), b".ssh").is_ok());
    }

    #[test]
    fn whoever_wants_outward_links_gets_them_and_a_daemon_takes_them_as_they_are() {
        let wanted = Bounds::of_client(&[b"tree".to_vec()], true);
        assert!(wanted.check_link(&path("tree/l"), b"/etc").is_ok());
        assert!(wanted.check_link(&path("other/l"), b"x").is_err());
        assert!(Bounds::of_server().check_link(&path("any/l"), b"/etc").is_ok());
    }
}
