//! How a person names a place on another host: `HOST:PORT/PATH`.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::error::TransferError;
use crate::socket;

/// A host, a port and a path there; the path as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// What follows the first slash, as typed.
    pub path: Vec<u8>,
}

impl Remote {
    /// Reads `HOST:PORT/PATH`, `[V6ADDRESS]:PORT/PATH`, or the same without `/PATH`.
    pub fn parse(text: &[u8]) -> Result<Self, TransferError> {
        let shown = || String::from_utf8_lossy(text).into_owned();
        let wrong = |why| TransferError::Remote { text: shown(), why };
        let slash = text.iter().position(|byte| *byte == b'/');
        let (authority, path) = match slash {
            Some(slash) => (&text[..slash], &text[slash + 1..]),
            None => (text, &b""[..]),
        };
        let authority = str::from_utf8(authority).map_err(|_| wrong("the host is not text"))?;
        let (host, port) = authority.rsplit_once(':').ok_or_else(|| wrong("no port"))?;
        if port.is_empty() {
            return Err(wrong("no port"));
        }
        let port: u16 = port.parse().map_err(|_| wrong("the port is not 1-65535"))?;
        let host = match host.strip_prefix('[') {
            Some(v6) => v6.strip_suffix(']').ok_or_else(|| wrong("no `]` after the address"))?,
            None if host.contains(':') => return Err(wrong("an IPv6 address needs brackets")),
            None => host,
        };
        if host.is_empty() {
            return Err(wrong("no host"));
        }
        if port == 0 {
            return Err(wrong("the port is not 1-65535"));
        }
        Ok(Self { host: host.to_owned(), port, path: path.to_vec() })
    }

    /// Reads `HOST:PORT,HOST:PORT/PATH`: one place, as several hosts see it. A host without a port
    /// has that of the next one that has one.
    pub fn parse_all(text: &[u8]) -> Result<Vec<Self>, TransferError> {
        let end = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
        let (hosts, path) = text.split_at(end);
        let mut port: &[u8] = b"";
        let mut places = Vec::new();
        for host in hosts.rsplit(|byte| *byte == b',') {
            let colon = host.iter().rposition(|byte| *byte == b':');
            let has_port = colon.is_some_and(|colon| !host[colon..].contains(&b']'));
            let place = match colon.filter(|_| has_port) {
                Some(colon) => {
                    port = &host[colon..];
                    Self::parse(&[host, path].concat())
                }
                None => Self::parse(&[host, port, path].concat()),
            };
            places.push(place?);
        }
        places.reverse();
        Ok(places)
    }

    /// The addresses of the host.
    pub(crate) fn resolve(&self) -> Result<Vec<SocketAddr>, TransferError> {
        let unknown = |source| TransferError::UnknownHost { host: self.host.clone(), source };
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found: Vec<SocketAddr> = match found {
            Err(source) if socket::is_resolver_away(&source) => {
                return Err(TransferError::NameServer { host: self.host.clone(), source });
            }
            found => found.map_err(unknown)?.collect(),
        };
        if found.is_empty() {
            return Err(unknown(io::Error::other("it has no address")));
        }
        Ok(found)
    }
}

/// Host and port, for messages.
impl fmt::Display for Remote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_written() {
        let remote = Remote::parse(b"dtn2:7411/data/run 7/").unwrap();
        assert_eq!((remote.host.as_str(), remote.port), ("dtn2", 7411));
        assert_eq!(remote.path, b"data/run 7/");
        let remote = Remote::parse(b"[::1]:80").unwrap();
        assert_eq!((remote.to_string().as_str(), &remote.path[..]), ("[::1]:80", &b""[..]));
    }

    #[test]
    fn several_hosts_have_one_path() {
        let all = |text: &str| {
            let places = Remote::parse_all(text.as_bytes()).unwrap();
            assert!(places.iter().all(|place| place.path == b"in/run,7:1"));
            places.iter().map(Remote::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(all("a:1/in/run,7:1"), "a:1");
        assert_eq!(all("a:1,b:2/in/run,7:1"), "a:1 b:2");
        assert_eq!(all("a,b,c:7/in/run,7:1"), "a:7 b:7 c:7");
        assert_eq!(all("[::1],[::2]:7,d:8/in/run,7:1"), "[::1]:7 [::2]:7 d:8");
        for wrong in ["a:1,/p", ",a:1/p", "a,b/p", "a:1,b/p", ",", "", "a:1,,b:2/p", "a:0,b:1/p"] {
            assert!(Remote::parse_all(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused_with_the_reason() {
        for (text, why) in [
            ("dtn2/data", "no port"),
            ("dtn2:/data", "no port"),
            ("dtn2:x/data", "1-65535"),
            ("dtn2:0/", "1-65535"),
            ("dtn2:70000/", "1-65535"),
            (":7411/data", "no host"),
            ("::1:7411/data", "brackets"),
            ("[::1:7411/data", "`]`"),
            ("", "no port"),
        ] {
            let error = Remote::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?} gave {error:?}");
        }
    }
}
