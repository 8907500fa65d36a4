//! Which of a host's addresses answers: none that is dead holds up those after it (RFC 8305).

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
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

/// Where `ADDR:PORT` is to listen, an IPv6 address in brackets. One of a single link has the name
/// of its interface, `[fe80::1%eth0]:7411`, which the system's resolver reads.
pub(crate) fn of_listener(typed: &str) -> io::Result<Vec<SocketAddr>> {
    let bracketed = typed.strip_prefix('[').and_then(|rest| rest.split_once("]:"));
    let found = match bracketed.map(|(host, port)| (host, port.parse::<u16>())) {
        Some((host, Ok(port))) => (host, port).to_socket_addrs()?,
        _ => typed.to_socket_addrs()?,
    };
    Ok(found.collect())
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
    fn a_listener_may_be_of_one_link_by_the_name_of_its_interface() {
        let of = |typed: &str| of_listener(typed).map(|found| found[0]);
        for typed in ["[fe80::1%lo]:7411", "[fe80::1%1]:7411"] {
            let SocketAddr::V6(found) = of(typed).unwrap() else { panic!("{typed}") };
            assert_eq!((found.scope_id(), found.port()), (1, 7411), "{typed}");
        }
        assert_eq!(of("[::1]:0").unwrap().to_string(), "[::1]:0");
        assert_eq!(of("127.0.0.1:7411").unwrap().to_string(), "127.0.0.1:7411");
        for wrong in ["[fe80::1%nosuch]:7411", "[::1]:x", "[::1]", "7411", ""] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
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
