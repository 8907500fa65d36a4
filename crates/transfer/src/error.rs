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

/// Why a transfer, or the server, failed.
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
    /// Nobody says now what address a host has; a name server that answers may.
    #[error("no name server says where \"{host}\" is: {source}")]
    NameServer {
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
    /// The path drops packets for their size and does not say so (RFC 2923).
    #[error("packets of {bytes} bytes do not reach {peer}, small ones do: an MTU black hole")]
    LargePackets {
        /// The peer's address.
        peer: String,
        /// The size of those that are lost.
        bytes: u32,
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
        /// How many there were.
        total: u64,
        /// The first failure, with its file.
        first: String,
        /// What kind of failure that was.
        code: FailureCode,
    },
    /// The receiving file system is full.
    #[error("{0}")]
    DiskFull(String),
    /// Nothing gets through to one of several ports, while others are reached.
    #[error("port {port} is not reached any more")]
    RouteLost {
        /// Which.
        port: u16,
    },
    /// A port that was lost is reached again.
    #[error("port {port} is reached again")]
    RouteBack {
        /// Which.
        port: u16,
    },
    /// This end has as many guests as it takes.
    #[error("{why}; try again later")]
    Busy {
        /// What there is too much of.
        why: &'static str,
    },
    /// The server's version of the protocol lacks what was asked for.
    #[error("{peer} cannot do {item}: its weir serve is older than that")]
    TooOld {
        /// The server's address.
        peer: String,
        /// The option.
        item: &'static str,
    },
    /// The request is not allowed here.
    #[error("{why}")]
    Denied {
        /// Which rule forbids it.
        why: String,
    },
    /// This program is wrong somewhere.
    #[error("a fault of this program ended it; please report what it said before")]
    Fault,
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
            // The request may be right: this machine lacks something now, or its storage fails.
            Self::Local { source, .. } if is_full(source) || is_broken(source) => {
                ErrorClass::Failed
            }
            Self::Local { source, .. } if is_shortage(source) => ErrorClass::Unavailable,
            Self::Remote { .. }
            | Self::UnknownHost { .. }
            | Self::Listen { .. }
            | Self::Local { .. }
            | Self::Path(_)
            | Self::Setting { .. }
            | Self::Keys { .. }
            | Self::SpeaksTls { .. }
            | Self::Congestion { .. } => ErrorClass::BadInput,
            Self::NameServer { .. }
            | Self::Connect { .. }
            | Self::Lost { .. }
            | Self::Silent { .. }
            | Self::LargePackets { .. }
            | Self::RouteLost { .. }
            | Self::RouteBack { .. }
            | Self::Busy { .. } => ErrorClass::Unavailable,
            Self::Tls { .. } | Self::Denied { .. } | Self::TooOld { .. } => ErrorClass::Refused,
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
            Self::Storage { source, .. } | Self::Local { source, .. } if is_full(source) => {
                FailureCode::DiskFull
            }
            Self::Storage { .. } => FailureCode::Storage,
            Self::Local { source, .. } if is_broken(source) => FailureCode::Storage,
            _ => match self.class() {
                ErrorClass::BadInput => FailureCode::BadRequest,
                ErrorClass::Refused => FailureCode::Denied,
                ErrorClass::Unavailable => FailureCode::Lost,
                _ => FailureCode::Protocol,
            },
        }
    }

    /// Whether the same attempt may succeed later without anyone mending the request: a peer
    /// that is away, a name that does not resolve, a disk that is full, descriptors that are
    /// short. Of what was never reached, that is for the caller to say.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::UnknownHost { .. } | Self::DiskFull(_) => true,
            Self::Incomplete { code, .. } | Self::Peer { code, .. } => {
                matches!(code, FailureCode::DiskFull | FailureCode::Busy | FailureCode::Lost)
            }
            Self::Local { source, .. } | Self::Storage { source, .. } => is_shortage(source),
            _ => self.class() == ErrorClass::Unavailable,
        }
    }

    /// Whether waiting is worth it even before anything was ever reached: the peer itself asked to
    /// come again, so that it is certainly the right one, or a name server is away.
    pub(crate) fn asks_to_wait(&self) -> bool {
        matches!(self, Self::Peer { code: FailureCode::Busy, .. } | Self::NameServer { .. })
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// Whether it is the storage that failed.
fn is_broken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::ESTALE))
}

/// Whether there is too little of something now: space, descriptors, memory.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ENOSPC
                | libc::EDQUOT
                | libc::EMFILE
                | libc::ENFILE
                | libc::ENOMEM
                | libc::EAGAIN
                | libc::ETIMEDOUT
        )
    )
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
    /// A failure of the local file system on `path` while doing `what`; invalid data are content
    /// that was damaged there.
    pub(crate) fn storage(what: &str, path: &dyn std::fmt::Display, error: &io::Error) -> Self {
        let code = match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => FailureCode::DiskFull,
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => FailureCode::Denied,
            _ if error.kind() == io::ErrorKind::PermissionDenied => FailureCode::Denied,
            _ if error.kind() == io::ErrorKind::InvalidData => FailureCode::Corrupt,
            _ => FailureCode::Storage,
        };
        Self { code, message: format!("{what} \"{path}\": {error}") }
    }

    /// Two directories of the sender's are one here, by a link or because names differ in case.
    pub(crate) fn merged(one: &dyn std::fmt::Display, other: &dyn std::fmt::Display) -> Self {
        let message =
            format!("\"{one}\" and \"{other}\" are one directory here, with what came last in it");
        Self { code: FailureCode::Storage, message }
    }

    /// A file that is said to be empty, and is not.
    pub(crate) fn unsized_content(path: &dyn std::fmt::Display) -> Self {
        let message = format!("\"{path}\" has content, and a size of nothing: copy it first");
        Self { code: FailureCode::Storage, message }
    }

    pub(crate) fn changed(path: &dyn std::fmt::Display) -> Self {
        let message = format!("\"{path}\" changed while it was read");
        Self { code: FailureCode::Changed, message }
    }

    /// A directory below the destination is another than what files were stored in.
    pub(crate) fn moved(path: &crate::wire::RelativePath) -> Self {
        let shown =
            if path.is_empty() { "the destination".to_owned() } else { format!("\"{path}\"") };
        let message =
            format!("{shown} was moved, removed or replaced while files were stored in it");
        Self { code: FailureCode::Storage, message }
    }

    pub(crate) fn corrupt(path: &dyn std::fmt::Display, offset: u64) -> Self {
        let message = format!("\"{path}\": data at byte {offset} does not match its hash");
        Self { code: FailureCode::Corrupt, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_lacks_is_no_wrong_request() {
        let found = |errno| {
            let source = io::Error::from_raw_os_error(errno);
            let error = TransferError::Local { what: "x", path: "x".into(), source };
            (error.class(), error.code())
        };
        let (failed, away) = (ErrorClass::Failed, ErrorClass::Unavailable);
        assert_eq!(found(libc::EIO), (failed, FailureCode::Storage));
        assert_eq!(found(libc::ESTALE), (failed, FailureCode::Storage));
        assert_eq!(found(libc::EDQUOT), (failed, FailureCode::DiskFull));
        assert_eq!(found(libc::EMFILE), (away, FailureCode::Lost));
        assert_eq!(found(libc::ENOENT), (ErrorClass::BadInput, FailureCode::BadRequest));
    }

    #[test]
    fn what_may_pass_is_told_from_what_is_final() {
        let os = io::Error::from_raw_os_error;
        let local = |source| TransferError::Local { what: "x", path: "x".into(), source };
        let peer = |code| TransferError::Peer { peer: "x".into(), code, message: "x".into() };
        let connect = |source| TransferError::Connect { address: "x".into(), source };
        let incomplete =
            |code| TransferError::Incomplete { failed: 1, total: 1, first: "x".into(), code };
        for passing in [
            TransferError::UnknownHost { host: "x".into(), source: os(libc::ENOENT) },
            connect(os(libc::EHOSTUNREACH)),
            connect(os(libc::ENETUNREACH)),
            connect(os(libc::ECONNREFUSED)),
            TransferError::Lost { peer: "x".into(), source: os(libc::ECONNRESET) },
            TransferError::Silent { peer: "x".into() },
            TransferError::LargePackets { peer: "x".into(), bytes: 1_500 },
            TransferError::NameServer { host: "x".into(), source: os(libc::EAGAIN) },
            TransferError::DiskFull("x".into()),
            TransferError::Storage { path: "x".into(), source: os(libc::ENOSPC) },
            local(os(libc::EMFILE)),
            local(os(libc::EDQUOT)),
            peer(FailureCode::Busy),
            peer(FailureCode::DiskFull),
            incomplete(FailureCode::DiskFull),
        ] {
            assert!(passing.may_pass(), "{passing}");
        }
        for last in [
            local(os(libc::ENOENT)),
            local(os(libc::EACCES)),
            TransferError::Storage { path: "x".into(), source: os(libc::EIO) },
            peer(FailureCode::Denied),
            peer(FailureCode::BadRequest),
            incomplete(FailureCode::Changed),
            incomplete(FailureCode::Corrupt),
            TransferError::Denied { why: "x".into() },
            TransferError::Cancelled,
            TransferError::TooOld { peer: "x".into(), item: "x" },
        ] {
            assert!(!last.may_pass(), "{last}");
        }
    }
}
