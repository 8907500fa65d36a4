//! Everything that can go wrong with a transfer, by what the caller can do about it.

use std::io;

use crate::wire::{FailureCode, WireError};

/// Which of the package's error classes (and exit codes) an error belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The request is wrong: mend it (exit 2).
    BadInput,
    /// This machine lacks something (exit 3).
    Unsupported,
    /// The peer turned the request down (exit 4).
    Refused,
    /// The transfer stopped; what was delivered stays resumable (exit 5).
    Failed,
    /// The peer could not be reached or broke off: try again (exit 6).
    Unavailable,
}

/// Why a transfer, or the daemon, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A remote place is not written `HOST:PORT/PATH`.
    #[error("\"{text}\" is not a remote place: {why}; write HOST:PORT/PATH")]
    Remote {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An address to listen on is not usable.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// What was given.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A host name has no address.
    #[error("unknown host \"{host}\": {source}")]
    UnknownHost {
        /// The name.
        host: String,
        /// The resolver's reason.
        source: io::Error,
    },
    /// Nothing answers there.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Host and port.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A connection broke.
    #[error("the connection to {peer} broke: {source}")]
    Lost {
        /// The peer's address.
        peer: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The peer is connected but says nothing.
    #[error("{peer} has been silent for too long")]
    Silent {
        /// The peer's address.
        peer: String,
    },
    /// The peer sent what the protocol does not allow.
    #[error("{peer} broke the protocol: {source}")]
    Wire {
        /// The peer's address.
        peer: String,
        /// What was wrong.
        source: WireError,
    },
    /// The peer speaks TLS and this end does not.
    #[error("{peer} speaks TLS; leave out --insecure and give the keys that it knows")]
    SpeaksTls {
        /// The peer's address.
        peer: String,
    },
    /// The peer sent a well-formed message at the wrong time.
    #[error("{peer} broke the protocol: {what}")]
    Unexpected {
        /// The peer's address.
        peer: String,
        /// What was wrong.
        what: &'static str,
    },
    /// TLS refused the peer, or the peer refused these keys.
    #[error("TLS with {peer} failed: {source}")]
    Tls {
        /// The peer's address.
        peer: String,
        /// What TLS says.
        source: rustls::Error,
    },
    /// A key directory lacks something or holds something unusable.
    #[error("keys in {directory}: {reason}")]
    Keys {
        /// The directory.
        directory: String,
        /// What is missing or wrong, and what to do.
        reason: String,
    },
    /// The peer reported a failure.
    #[error("{peer}: {message}")]
    Peer {
        /// The peer's address.
        peer: String,
        /// What kind of failure.
        code: FailureCode,
        /// Its words.
        message: String,
    },
    /// A local file, directory or root cannot be used.
    #[error("{what} \"{path}\": {source}")]
    Local {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Received data cannot be brought to the disk.
    #[error("cannot bring \"{path}\" to the disk: {source}")]
    Storage {
        /// Which file.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A path or name cannot be sent or served.
    #[error(transparent)]
    Path(WireError),
    /// The kernel does not offer a congestion control, or not to this user.
    #[error("congestion control \"{name}\": {source}")]
    Congestion {
        /// The name.
        name: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Some files failed; all others are in place.
    #[error("{failed} of {total} files failed: {first}")]
    Incomplete {
        /// How many failed.
        failed: u64,
        /// Of how many.
        total: u64,
        /// The first failure, with its file.
        first: String,
        /// What kind of failure that was.
        code: FailureCode,
    },
    /// The receiving file system is full.
    #[error("{0}")]
    DiskFull(String),
    /// This end has as many guests as it takes.
    #[error("{why}; try again later")]
    Busy {
        /// Of what there is too much.
        why: &'static str,
    },
    /// The request is not allowed here.
    #[error("{why}")]
    Denied {
        /// Which rule forbids it.
        why: String,
    },
    /// The caller cancelled it.
    #[error("cancelled; the same command resumes it")]
    Cancelled,
    /// A setting is out of its range.
    #[error("{item} cannot be {value}: {why}")]
    Setting {
        /// Which setting.
        item: &'static str,
        /// What was given.
        value: String,
        /// The range.
        why: &'static str,
    },
}

impl TransferError {
    /// What the caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Remote { .. }
            | Self::UnknownHost { .. }
            | Self::Listen { .. }
            | Self::Local { .. }
            | Self::Path(_)
            | Self::Setting { .. }
            | Self::Keys { .. }
            | Self::SpeaksTls { .. }
            | Self::Congestion { .. } => ErrorClass::BadInput,
            Self::Connect { .. } | Self::Lost { .. } | Self::Silent { .. } | Self::Busy { .. } => {
                ErrorClass::Unavailable
            }
            Self::Tls { .. } | Self::Denied { .. } => ErrorClass::Refused,
            // Another transfer holds the file, perhaps a dying one.
            Self::Incomplete { code: FailureCode::Busy, .. } => ErrorClass::Unavailable,
            Self::Peer { code, .. } => match code {
                FailureCode::BadRequest => ErrorClass::BadInput,
                FailureCode::Denied => ErrorClass::Refused,
                FailureCode::Busy | FailureCode::Lost => ErrorClass::Unavailable,
                _ => ErrorClass::Failed,
            },
            _ => ErrorClass::Failed,
        }
    }

    /// What the peer is told.
    pub(crate) fn code(&self) -> FailureCode {
        match self {
            Self::Cancelled => FailureCode::Cancelled,
            Self::Busy { .. } => FailureCode::Busy,
            Self::DiskFull(_) => FailureCode::DiskFull,
            Self::Incomplete { code, .. } | Self::Peer { code, .. } => *code,
            Self::Storage { .. } => FailureCode::Storage,
            _ => match self.class() {
                ErrorClass::BadInput => FailureCode::BadRequest,
                ErrorClass::Refused => FailureCode::Denied,
                ErrorClass::Unavailable => FailureCode::Lost,
                _ => FailureCode::Protocol,
            },
        }
    }

    /// Whether the same attempt may succeed a moment later without anyone's help.
    pub fn is_transient(&self) -> bool {
        self.class() == ErrorClass::Unavailable
    }
}

/// Why one file failed while others go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFailure {
    /// What kind of failure.
    pub code: FailureCode,
    /// For a person, with the file's name.
    pub message: String,
}

impl FileFailure {
    /// A failure of the local file system on `path` while doing `what`.
    pub(crate) fn storage(what: &str, path: &dyn std::fmt::Display, error: &io::Error) -> Self {
        let code = match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => FailureCode::DiskFull,
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => FailureCode::Denied,
            _ => FailureCode::Storage,
        };
        Self { code, message: format!("{what} \"{path}\": {error}") }
    }

    pub(crate) fn changed(path: &dyn std::fmt::Display) -> Self {
        let message = format!("\"{path}\" changed while it was read");
        Self { code: FailureCode::Changed, message }
    }

    pub(crate) fn corrupt(path: &dyn std::fmt::Display, offset: u64) -> Self {
        let message = format!("\"{path}\": data at byte {offset} does not match its hash");
        Self { code: FailureCode::Corrupt, message }
    }
}
