//! Names of files as they travel: relative, made of plain components, any bytes but `/` and NUL.

use std::fmt;

use super::WireError;
use crate::escape::printable_bytes;

/// The longest path in bytes (Linux PATH_MAX, without the final NUL).
pub const PATH_LIMIT: usize = 4095;
/// So much is shown of a path that is longer.
const SHOWN: usize = 64;
/// The longest single name in bytes (Linux NAME_MAX).
pub const NAME_LIMIT: usize = 255;

/// A relative path of plain components: never absolute, no `.`, `..` or empty component.
///
/// The empty path names the place itself. A value of this type cannot climb out of the directory
/// it is applied to except through a symbolic link, which the file system layer refuses.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelativePath(Vec<u8>);

impl RelativePath {
    /// Checks `bytes`; a leading, trailing or double slash is an error here.
    pub fn new(bytes: &[u8]) -> Result<Self, WireError> {
        let wrong = |why| WireError::Path { path: Self(bytes.to_vec()).to_string(), why };
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        if bytes.len() > PATH_LIMIT {
            let path = Self(bytes[..SHOWN].to_vec()).to_string() + "…";
            return Err(WireError::Path { path, why: "is longer than 4095 bytes" });
        }
        for name in bytes.split(|byte| *byte == b'/') {
            match name {
                b"" => return Err(wrong("has an empty component or is absolute")),
                b"." | b".." => return Err(wrong("has a `.` or `..` component")),
                _ if name.len() > NAME_LIMIT => {
                    return Err(wrong("has a component longer than 255 bytes"));
                }
                _ if name.contains(&0) => return Err(wrong("contains a NUL byte")),
                _ => {}
            }
        }
        Ok(Self(bytes.to_vec()))
    }

    /// What a person typed: surplus slashes are dropped, `..` stays an error.
    pub fn from_typed(bytes: &[u8]) -> Result<Self, WireError> {
        let names: Vec<&[u8]> = bytes
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty() && *name != b".")
            .collect();
        Self::new(&names.join(&b'/'))
    }

    /// The bytes, components separated by `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this names the place itself.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The path without its last component, and that component; `None` for the empty path.
    pub fn split_last(&self) -> Option<(Self, &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (Self(self.0[..slash].to_vec()), &self.0[slash + 1..]),
            None => (Self::default(), &self.0[..]),
        })
    }

    /// What is left of this path below `above`; `None` when it is not there.
    pub(crate) fn below(&self, above: &Self) -> Option<Self> {
        if above.is_empty() {
            return Some(self.clone());
        }
        match self.0.strip_prefix(&above.0[..])? {
            [] => Some(Self::default()),
            [b'/', rest @ ..] => Some(Self(rest.to_vec())),
            _ => None,
        }
    }

    /// The first component and the rest; `None` for the empty path.
    pub fn split_first(&self) -> Option<(&[u8], Self)> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.0.iter().position(|byte| *byte == b'/') {
            Some(slash) => (&self.0[..slash], Self(self.0[slash + 1..].to_vec())),
            None => (&self.0[..], Self::default()),
        })
    }

    /// This path with `below` appended; the result is checked for length.
    pub fn join(&self, below: &Self) -> Result<Self, WireError> {
        match (self.is_empty(), below.is_empty()) {
            (true, _) => Ok(below.clone()),
            (_, true) => Ok(self.clone()),
            _ => Self::new(&[&self.0[..], b"/", &below.0[..]].concat()),
        }
    }

    /// This path with one more component.
    pub fn child(&self, name: &[u8]) -> Result<Self, WireError> {
        self.join(&Self::new(name)?)
    }

    /// This path with a name that a directory listing gave, which is a plain component; `None` if
    /// that is longer than a path may be.
    pub(crate) fn listed(&self, name: &[u8]) -> Option<Self> {
        let slash = usize::from(!self.0.is_empty());
        let length = self.0.len() + slash + name.len();
        if length > PATH_LIMIT {
            return None;
        }
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&self.0);
        bytes.extend_from_slice(&b"/"[..slash]);
        bytes.extend_from_slice(name);
        Some(Self(bytes))
    }

    /// The bytes alone.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The bytes of the path without its last component, empty if it has no other, and that.
    pub(crate) fn split_bytes(&self) -> (&[u8], &[u8]) {
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (&[], &self.0),
        }
    }
}

/// Printable: bytes that are not text or would disturb a terminal are escaped.
impl fmt::Display for RelativePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&printable_bytes(&self.0))
    }
}

impl fmt::Debug for RelativePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_escape_or_confuse_is_refused() {
        for wrong in [
            &b"/etc/passwd"[..],
            b"..",
            b"a/../b",
            b"a//b",
            b"a/",
            b"./a",
            b"a\0b",
            &[b'x'; 256],
            &b"ab/".repeat(2000),
        ] {
            assert!(RelativePath::new(wrong).is_err(), "{:?}", String::from_utf8_lossy(wrong));
        }
        assert!(RelativePath::from_typed(b"/a/../b").is_err());
    }

    #[test]
    fn odd_but_legal_names_pass_unchanged() {
        for right in [&b"a\nb"[..], b"\xff\xfe", b" ", b"...", b"-rf", &[b'x'; 255], b"a/b c"] {
            assert_eq!(RelativePath::new(right).unwrap().as_bytes(), right);
        }
        assert_eq!(RelativePath::from_typed(b"//a/./b/").unwrap().as_bytes(), b"a/b");
        assert_eq!(RelativePath::new(b"a\nb\xff").unwrap().to_string(), "a\\nb\\xff");
    }

    #[test]
    fn splitting_and_joining_are_inverse() {
        let path = RelativePath::new(b"a/b/c").unwrap();
        let (parent, name) = path.split_last().unwrap();
        assert_eq!(parent.child(name).unwrap(), path);
        let (first, rest) = path.split_first().unwrap();
        assert_eq!(RelativePath::new(first).unwrap().join(&rest).unwrap(), path);
    }
}
