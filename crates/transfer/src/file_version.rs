//! Whether a file is still the one that was looked at.

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileVersion {
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
    identity: (u64, u64),
}

impl FileVersion {
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Self {
        Self {
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
            identity: (stat.st_dev, stat.st_ino),
        }
    }
}
