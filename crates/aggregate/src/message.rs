//! What the two ends of an aggregate tell each other beside the data, in frames of the UID 0.
//!
//! The work has a controller tell both proxies of each flow (003-spec section 2.4). Here the end
//! that accepts a client tells the other one in the aggregate itself, so that an `Open` is always
//! there before the flow's data.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::ProtocolError;
use crate::frame::{CONTROL, Uid, header, is_flow};

/// What an aggregate begins with, both ways, so that nothing else is taken for one.
const MAGIC: [u8; 8] = *b"WEIRJOIN";
/// The version of the protocol; 2 has long frames, 3 the reason [`Reason::Gone`], 4 signs of life.
pub const VERSION: u8 = 4;

/// Why a flow ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The server, or the way to it, refuses connections.
    Refused,
    /// No answer from the server, or no way to it.
    Unreachable,
    /// The connection was reset, by the client or the server.
    Reset,
    /// This server may not be reached through this relay.
    Forbidden,
    /// The relay has no room for a further flow.
    Full,
    /// The client's host or the server's is gone without a word.
    Gone,
}

impl Reason {
    const ALL: [Self; 6] =
        [Self::Refused, Self::Unreachable, Self::Reset, Self::Forbidden, Self::Full, Self::Gone];

    fn code(self) -> u8 {
        self as u8 + 1
    }

    fn of(code: u8) -> Result<Self, ProtocolError> {
        Self::ALL
            .into_iter()
            .find(|reason| reason.code() == code)
            .ok_or_else(|| ProtocolError(format!("a reason with the number {code}")))
    }

    /// In a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "the server refuses connections",
            Self::Unreachable => "the server does not answer",
            Self::Reset => "the connection was reset",
            Self::Forbidden => "the server may not be reached through this relay",
            Self::Full => "the relay has no room for a further flow",
            Self::Gone => "its host is gone without a word",
        }
    }
}

/// One message; offsets count a flow's data from its begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first message, both ways.
    Hello {
        /// The version that the sender speaks.
        version: u8,
    },
    /// A client has come: the other end is to connect to its server.
    Open {
        /// The flow.
        uid: Uid,
        /// The client's address.
        client: SocketAddr,
        /// The server's address, as the client knows it.
        server: SocketAddr,
    },
    /// The server is connected.
    Opened {
        /// The flow.
        uid: Uid,
    },
    /// The sender takes the flow's data up to this offset, and none behind it.
    Room {
        /// The flow.
        uid: Uid,
        /// The first offset that has no room.
        until: u64,
    },
    /// The join end wants to be told what servers acknowledge; the split end says with the same
    /// message that it will tell. One that is older ends the aggregate instead.
    TellAcknowledged,
    /// The server's kernel has acknowledged the flow's data up to this offset; the flow's end
    /// counts as one byte more.
    Acknowledged {
        /// The flow.
        uid: Uid,
        /// The first offset that is not acknowledged.
        until: u64,
    },
    /// The flow is broken, in both directions.
    Reset {
        /// The flow.
        uid: Uid,
        /// Why.
        reason: Reason,
    },
    /// The end that connects to servers has nothing left of the flow: its UID is free.
    Closed {
        /// The flow.
        uid: Uid,
    },
    /// The sender is there: said where it has said nothing else for a while ([`crate::pulse`]).
    Alive {
        /// How long it waits for a sign of the other end; at least one, in whole milliseconds.
        patience: Duration,
    },
}

impl Message {
    /// Appends the message to an aggregate, as a whole frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        match *self {
            Self::Hello { version } => {
                out.push(1);
                out.extend_from_slice(&MAGIC);
                out.push(version);
            }
            Self::Open { uid, client, server } => {
                out.push(2);
                out.extend_from_slice(&uid.to_be_bytes());
                write_address(out, client);
                write_address(out, server);
            }
            Self::Opened { uid } => of_flow(out, 3, uid),
            Self::Room { uid, until } => {
                of_flow(out, 4, uid);
                out.extend_from_slice(&until.to_be_bytes());
            }
            Self::Acknowledged { uid, until } => {
                of_flow(out, 5, uid);
                out.extend_from_slice(&until.to_be_bytes());
            }
            Self::Reset { uid, reason } => {
                of_flow(out, 6, uid);
                out.push(reason.code());
            }
            Self::Closed { uid } => of_flow(out, 7, uid),
            Self::TellAcknowledged => out.push(8),
            Self::Alive { patience } => {
                out.push(9);
                let ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
                out.extend_from_slice(&ms.to_be_bytes());
            }
        }
        let head = header(CONTROL, out.len() - begin - 4);
        out[begin..begin + 4].copy_from_slice(&head);
    }

    /// The message in the data of a frame.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`]: it is none.
    pub fn read(data: &[u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields(data);
        let message = match fields.byte()? {
            1 if fields.take()? == MAGIC => Self::Hello { version: fields.byte()? },
            2 => Self::Open {
                uid: fields.uid()?,
                client: fields.address()?,
                server: fields.address()?,
            },
            3 => Self::Opened { uid: fields.uid()? },
            4 => Self::Room { uid: fields.uid()?, until: fields.offset()? },
            5 => Self::Acknowledged { uid: fields.uid()?, until: fields.offset()? },
            6 => Self::Reset { uid: fields.uid()?, reason: Reason::of(fields.byte()?)? },
            7 => Self::Closed { uid: fields.uid()? },
            8 => Self::TellAcknowledged,
            9 => Self::Alive { patience: fields.patience()? },
            kind => return Err(ProtocolError(format!("a message of the kind {kind}"))),
        };
        if fields.0.is_empty() {
            return Ok(message);
        }
        Err(ProtocolError(format!("{} bytes behind a message", fields.0.len())))
    }
}

fn of_flow(out: &mut Vec<u8>, kind: u8, uid: Uid) {
    out.push(kind);
    out.extend_from_slice(&uid.to_be_bytes());
}

fn write_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

/// What is left of a message.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let (head, rest) = self
            .0
            .split_first_chunk()
            .ok_or_else(|| ProtocolError("a message without its end".into()))?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, ProtocolError> {
        self.take().map(|[byte]| byte)
    }

    fn uid(&mut self) -> Result<Uid, ProtocolError> {
        let uid = Uid::from_be_bytes(self.take()?);
        if is_flow(uid) {
            return Ok(uid);
        }
        Err(ProtocolError(format!("a message of the UID {uid}, which is none")))
    }

    fn offset(&mut self) -> Result<u64, ProtocolError> {
        self.take().map(u64::from_be_bytes)
    }

    fn patience(&mut self) -> Result<Duration, ProtocolError> {
        match self.take().map(u32::from_be_bytes)? {
            0 => Err(ProtocolError("an end without any patience".into())),
            ms => Ok(Duration::from_millis(ms.into())),
        }
    }

    fn address(&mut self) -> Result<SocketAddr, ProtocolError> {
        let ip = match self.byte()? {
            4 => Ipv4Addr::from(self.take::<4>()?).into(),
            6 => Ipv6Addr::from(self.take::<16>()?).into(),
            kind => return Err(ProtocolError(format!("an address of the kind {kind}"))),
        };
        Ok(SocketAddr::new(ip, u16::from_be_bytes(self.take()?)))
    }
}
