//! Which of a host's addresses answers: none that is dead holds up those after it (RFC 8305).

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::{socket, threads};

/// How long an address is waited for before the next one is tried beside it.
const NEXT_AFTER: Duration = Duration::from_millis(250);
/// Addresses that are tried; a name may have hundreds.
const TRIED_MAX: usize = 16;

/// A connection to the first of `addresses` that takes one, each tried for `timeout`, with packets
/// of at most `packet` bytes.
pub(crate) fn connect(
    addresses: &[SocketAddr],
    timeout: Duration,
    packet: Option<u16>,
) -> io::Result<TcpStream> {
    if let [only] = addresses {
        return try_one(only, timeout, packet);
    }
    let mut waiting = addresses.iter().take(TRIED_MAX).copied();
    let (made, connected) = mpsc::channel();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut trying = 0;
    loop {
        let wait = if let Some(address) = waiting.next() {
            let made = made.clone();
            // Nobody waits for one that is dead: it ends by itself.
            let begun = threads::begin(move || {
                let _ = made.send(try_one(&address, timeout, packet));
            });
            if begun.is_err() {
                // One after the other, then.
                match try_one(&address, timeout, packet) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
                continue;
            }
            trying += 1;
            NEXT_AFTER
        } else {
            timeout + NEXT_AFTER
        };
        if trying == 0 {
            return Err(last);
        }
        match connected.recv_timeout(wait) {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => {
                last = error;
                trying -= 1;
            }
            Err(RecvTimeoutError::Timeout) if wait == NEXT_AFTER => {}
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

fn try_one(address: &SocketAddr, timeout: Duration, packet: Option<u16>) -> io::Result<TcpStream> {
    match packet {
        None => TcpStream::connect_timeout(address, timeout),
        Some(packet) => socket::connect_with_packets(address, timeout, packet),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use socket2::{Domain, Socket, Type};

    use super::*;

    /// An address that says nothing at all: its listener takes nobody, and its queue is full.
    fn dead() -> (Socket, SocketAddr) {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&any.into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let is_full = |_| TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_err();
        assert!((0..20).any(is_full), "its queue is full");
        (listener, address)
    }

    fn living() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn an_address_that_is_dead_holds_nobody_up() {
        let (_full, dead) = dead();
        let (_listener, living) = living();
        let began = Instant::now();
        let made = connect(&[dead, dead, living], Duration::from_secs(60), None).unwrap();
        assert_eq!(made.peer_addr().unwrap(), living);
        assert!(began.elapsed() < Duration::from_secs(30));
        let error = connect(&[dead, dead], Duration::from_millis(300), None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn the_next_is_tried_at_once_where_one_refuses() {
        let (listener, refusing) = living();
        drop(listener);
        let (_listener, living) = living();
        let second = Duration::from_secs(1);
        let made = connect(&[refusing, living], second, None).unwrap();
        assert_eq!(made.peer_addr().unwrap(), living);
        let error = connect(&[refusing, refusing], second, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect(&[], second, None).is_err());
    }
}
