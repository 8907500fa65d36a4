//! One TCP connection, plain or under TLS, split into a receiving and a sending half that two
//! threads may use at once.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::SpliceFlags;

use crate::interrupted::retry_interrupted;
use crate::socket;
use crate::tls::{TlsReceiver, TlsSender, TlsSession};

/// How long bytes below the low-water mark wait at most.
const TRICKLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A reader gathers what comes in so short a time before it is woken. One that gathers for longer
/// on a slow line has its kernel acknowledge just every second packet, and a full queue then drops
/// this stream's packets oftener than those of programs that read at once.
const MOMENT: Duration = Duration::from_millis(1);
/// With less in a moment than this, a reader is woken at once.
const WORTH_GATHERING: usize = 1 << 14;
/// The rate at which content comes is measured over so long.
const SPAN: Duration = Duration::from_millis(50);

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
    inflow: Inflow,
}

/// How fast content comes in.
struct Inflow {
    /// When the span that is being measured began.
    since: Instant,
    bytes: usize,
    /// Bytes in a [`MOMENT`] of the span before.
    in_a_moment: usize,
}

impl Inflow {
    fn new(now: Instant) -> Self {
        Self { since: now, bytes: 0, in_a_moment: 0 }
    }

    /// Counts what has just come.
    fn add(&mut self, bytes: usize, now: Instant) {
        self.bytes += bytes;
        let spent = now - self.since;
        if spent >= SPAN {
            let rate = self.bytes as f64 / spent.as_secs_f64();
            let in_a_moment = (rate * MOMENT.as_secs_f64()) as usize;
            *self = Self { in_a_moment, ..Self::new(now) };
        }
    }

    /// How many bytes a reader may gather before it is woken.
    fn worth_waiting_for(&self) -> usize {
        if self.in_a_moment < WORTH_GATHERING { 1 } else { self.in_a_moment }
    }
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
                inflow: Inflow::new(Instant::now()),
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
            self.inflow.add(count, Instant::now());
        }
        Ok(filled)
    }

    /// Moves up to `most` bytes into a pipe inside the kernel; 0 at the end of the stream.
    pub(crate) fn gather_into_pipe(&mut self, pipe: &OwnedFd, most: usize) -> io::Result<usize> {
        self.wait_for(most)?;
        let flags = SpliceFlags::MOVE | SpliceFlags::MORE;
        let count = retry_interrupted(|| {
            Ok(rustix::pipe::splice(&self.socket, None, pipe, None, most, flags)?)
        })?;
        self.inflow.add(count, Instant::now());
        Ok(count)
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
        let mark =
            socket::low_water_mark(&self.socket, bytes.min(self.inflow.worth_waiting_for()))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader may gather after `bytes` came in each of `spans` spans.
    fn worth_waiting_for(bytes: usize, spans: u32) -> usize {
        let start = Instant::now();
        let mut inflow = Inflow::new(start);
        for span in 1..=spans {
            inflow.add(bytes, start + SPAN * span);
        }
        inflow.worth_waiting_for()
    }

    #[test]
    fn a_reader_of_a_slow_stream_is_woken_at_once() {
        // 100 Mbit/s: 12.5 kB in a millisecond.
        assert_eq!(worth_waiting_for(625_000, 3), 1);
        // Nothing is known of a stream that has just begun.
        assert_eq!(worth_waiting_for(0, 0), 1);
    }

    #[test]
    fn a_reader_of_a_fast_stream_gathers_a_millisecond() {
        // 1 Gbit/s: 125 kB in a millisecond.
        assert_eq!(worth_waiting_for(6_250_000, 3), 125_000);
    }

    #[test]
    fn a_stream_that_becomes_slow_is_read_at_once_again() {
        let start = Instant::now();
        let mut inflow = Inflow::new(start);
        inflow.add(6_250_000, start + SPAN);
        inflow.add(1_448, start + SPAN + SPAN / 2);
        assert_eq!(inflow.worth_waiting_for(), 125_000, "a span is not over yet");
        inflow.add(1_448, start + SPAN * 2);
        assert_eq!(inflow.worth_waiting_for(), 1);
    }
}
