//! What the kernel says, in words that need no knowledge of its numbers.

use std::io::{self, ErrorKind};

use rustix::io::Errno;

/// Why something failed, for whoever reads a relay's status: it follows what was tried.
pub(crate) fn words(error: &io::Error) -> String {
    let known = match error.kind() {
        ErrorKind::ConnectionRefused => "connections are refused there",
        ErrorKind::TimedOut => "no answer came in time",
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => "no way leads there",
        ErrorKind::NetworkDown => "the way there is down",
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            "the other end has reset it"
        }
        ErrorKind::UnexpectedEof => "the other end has closed it",
        ErrorKind::PermissionDenied => "this user may not",
        ErrorKind::AddrInUse => "the address is in use",
        ErrorKind::AddrNotAvailable => "this host has no such address, or no port is left",
        ErrorKind::OutOfMemory => "there is no memory for it",
        _ => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::MFILE) => "this process has as many files open as it may (ulimit -n)",
            Some(Errno::NFILE) => "this host has as many files open as it can (fs.file-max)",
            Some(Errno::NOBUFS) => "there is no memory for it",
            _ => return without_number(error),
        },
    };
    known.to_owned()
}

fn without_number(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(at) = text.find(" (os error ") {
        text.truncate(at);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that Linux has, and what is made up.
    #[test]
    fn no_error_is_told_by_its_number() {
        for number in 1..=133 {
            let told = words(&io::Error::from_raw_os_error(number));
            assert!(!told.contains("os error") && !told.trim().is_empty(), "{number}: {told}");
        }
        let refused = io::Error::from_raw_os_error(Errno::CONNREFUSED.raw_os_error());
        assert_eq!(words(&refused), "connections are refused there");
        assert_eq!(words(&ErrorKind::UnexpectedEof.into()), "the other end has closed it");
        assert_eq!(words(&io::Error::other("this relay was stopped")), "this relay was stopped");
    }
}
