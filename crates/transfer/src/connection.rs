//! One TCP connection, plain or under TLS, split into a receiving and a sending half that two
//! threads may use at once.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::SpliceFlags;

use crate::interrupted::retry_interrupted;
use crate::socket;
use crate::tls::{TlsReceiver, TlsSender, TlsSession};

/// How long bytes below the low-water mark wait at most.
const TRICKLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Both halves of a connection and its socket.
pub(crate) struct Connection {
    pub(crate) socket: Arc<TcpStream>,
    pub(crate) receiver: ConnectionReceiver,
    pub(crate) sender: ConnectionSender,
}

/// The half that reads.
pub(crate) struct ConnectionReceiver {
    socket: Arc<TcpStream>,
    tls: Option<TlsReceiver>,
    /// SO_RCVLOWAT as it is set.
    low_water: u32,
}

/// The half that writes.
pub(crate) struct ConnectionSender {
    socket: Arc<TcpStream>,
    tls: Option<TlsSender>,
}

impl Connection {
    /// A connection without TLS.
    pub(crate) fn plain(socket: Arc<TcpStream>) -> Self {
        Self::new(socket, None)
    }

    /// A connection whose TLS handshake is done.
    pub(crate) fn secured(socket: Arc<TcpStream>, session: TlsSession) -> Self {
        Self::new(socket, Some(session))
    }

    fn new(socket: Arc<TcpStream>, session: Option<TlsSession>) -> Self {
        let (incoming, outgoing) = session.map(TlsSession::split).unzip();
        Self {
            receiver: ConnectionReceiver {
                socket: Arc::clone(&socket),
                tls: incoming,
                low_water: 1,
            },
            sender: ConnectionSender { socket: Arc::clone(&socket), tls: outgoing },
            socket,
        }
    }

    /// The peer's address, for messages.
    pub(crate) fn peer(&self) -> String {
        self.socket.peer_addr().map_or_else(|_| "the peer".to_owned(), |peer| peer.to_string())
    }

    /// Ends both directions at once, which also wakes any thread blocked on this connection.
    pub(crate) fn shut_down(socket: &TcpStream) {
        // An error means that the connection is already gone, which is what was wanted.
        let _ = socket.shutdown(Shutdown::Both);
    }
}

impl ConnectionReceiver {
    /// The socket, when content may be taken from it directly.
    pub(crate) fn bare_socket(&self) -> Option<&TcpStream> {
        if self.tls.is_none() { Some(&self.socket) } else { None }
    }

    /// At least one byte, or 0 at the end of the stream.
    pub(crate) fn receive_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => tls.receive(&self.socket, buffer),
            None => retry_interrupted(|| (&*self.socket).read(buffer)),
        }
    }

    /// At least `least` bytes of `buffer`, which the kernel gathers before it wakes this thread,
    /// and more where they are there already.
    pub(crate) fn gather_at_least(&mut self, buffer: &mut [u8], least: usize) -> io::Result<usize> {
        let mut filled = 0;
        while filled < least {
            let count = match &mut self.tls {
                Some(tls) => tls.receive(&self.socket, &mut buffer[filled..])?,
                None => match self.take_what_is_there(&mut buffer[filled..])? {
                    Some(count) => count,
                    None => {
                        self.wait_for(least - filled)?;
                        continue;
                    }
                },
            };
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += count;
        }
        Ok(filled)
    }

    /// Moves up to `most` bytes into a pipe inside the kernel; 0 at the end of the stream.
    pub(crate) fn gather_into_pipe(&mut self, pipe: &OwnedFd, most: usize) -> io::Result<usize> {
        self.wait_for(most)?;
        let flags = SpliceFlags::MOVE | SpliceFlags::MORE;
        retry_interrupted(|| Ok(rustix::pipe::splice(&self.socket, None, pipe, None, most, flags)?))
    }

    /// What a bare socket holds now; `None` when it holds nothing.
    fn take_what_is_there(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let taken = retry_interrupted(|| {
            let flags = RecvFlags::DONTWAIT;
            Ok(rustix::net::recv(&self.socket, &mut *buffer, flags)?.0)
        });
        match taken {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            result => result.map(Some),
        }
    }

    /// Waits until about `bytes` are there, or something is and a moment has passed.
    ///
    /// Waiting comes before taking: a reader that sleeps with part of its piece taken is not
    /// woken by a last part below the low-water mark.
    fn wait_for(&mut self, bytes: usize) -> io::Result<()> {
        let mark = socket::low_water_mark(&self.socket, bytes)?;
        if mark != self.low_water {
            socket::set_receive_low_water(&self.socket, mark)?;
            self.low_water = mark;
        }
        let mut set = [PollFd::new(&*self.socket, PollFlags::IN)];
        retry_interrupted(|| Ok(poll(&mut set, Some(&TRICKLE))?)).map(|_| ())
    }

    /// Exactly `buffer.len()` bytes.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.receive_part(&mut buffer[filled..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        Ok(())
    }

    /// As much of `buffer` as one call brings, if possible all.
    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => tls.receive(&self.socket, buffer),
            None => retry_interrupted(|| {
                let flags = RecvFlags::WAITALL;
                Ok(rustix::net::recv(&self.socket, &mut *buffer, flags)?.0)
            }),
        }
    }
}

impl ConnectionSender {
    /// Whether content may go from a file to the socket inside the kernel.
    pub(crate) fn is_bare(&self) -> bool {
        self.tls.is_none()
    }

    /// All of `bytes`.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.send(&self.socket, bytes),
            None => (&*self.socket).write_all(bytes),
        }
    }

    /// All of `bytes`, which the next call continues: they need not leave at once.
    pub(crate) fn send_more(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            return tls.send(&self.socket, bytes);
        }
        while !bytes.is_empty() {
            let count = retry_interrupted(|| {
                Ok(rustix::net::send(&self.socket, bytes, SendFlags::MORE | SendFlags::NOSIGNAL)?)
            })?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// `length` bytes of `file` from `offset`, inside the kernel; fewer at the file's end.
    pub(crate) fn send_file(
        &mut self,
        file: BorrowedFd<'_>,
        offset: u64,
        length: usize,
    ) -> io::Result<usize> {
        let mut position = offset;
        let mut sent = 0;
        while sent < length {
            let count = retry_interrupted(|| {
                let rest = length - sent;
                Ok(rustix::fs::sendfile(&self.socket, file, Some(&mut position), rest)?)
            });
            match count {
                Ok(0) => break,
                Ok(count) => sent += count,
                // What is sent counts; what failed fails again.
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}
