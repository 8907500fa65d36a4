//! One joined flow at one end of an aggregate: its connection, and what of it is on its way.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use socket2::Socket;

use crate::RelayError;
use crate::pipe::{Pipe, Pipes};
use crate::socket;
use crate::system;
use weir_aggregate::linked_ack::Linked;
use weir_aggregate::window::{Incoming, Outgoing};

/// Whom a connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A connection to a client or a server, and its place in the aggregate.
pub(crate) struct Flow {
    pub(crate) socket: Socket,
    pub(crate) client: SocketAddr,
    server: SocketAddr,
    pub(crate) weight: u32,
    /// Since when its server is asked; none once it has answered.
    pub(crate) connecting: Option<Instant>,
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
    side: Side,
    /// What of the client's data its server has acknowledged; none where nobody asks.
    pub(crate) linked: Option<Linked>,
    /// What its client may be acknowledged, where that is another thing.
    pub(crate) pooled: Option<u64>,
    /// The split end is asking the kernel for more of it.
    pub(crate) is_watched: bool,
    /// What has come out of the aggregate since that was last handed on, in bytes.
    pub(crate) gathered: u64,
    /// It has had much to send, which the kernel is to move.
    pub(crate) is_bulk: bool,
    /// The kernel can.
    pub(crate) can_splice: bool,
    /// What came out of the aggregate and the connection has not taken: what is in the pipe first.
    pub(crate) pipe: Option<Pipe>,
    waiting: VecDeque<u8>,
    /// The connection has sent all, and the aggregate was told.
    pub(crate) is_read: bool,
    /// The aggregate brings no more.
    is_ended: bool,
    is_shut: bool,
    /// Its client is acknowledged only what is released.
    pub(crate) is_held: bool,
    /// The kernel has said that its connection is broken.
    pub(crate) is_broken: bool,
}

impl Flow {
    /// Belongs to a client and its server, one of whom the socket leads to.
    pub(crate) fn new(
        socket: Socket,
        [client, server]: [SocketAddr; 2],
        weight: u32,
        side: Side,
    ) -> Self {
        Self {
            socket,
            client,
            server,
            weight,
            connecting: None,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            side,
            linked: None,
            pooled: None,
            is_watched: false,
            gathered: 0,
            is_bulk: false,
            can_splice: true,
            pipe: None,
            waiting: VecDeque::new(),
            is_read: false,
            is_ended: false,
            is_shut: false,
            is_held: false,
            is_broken: false,
        }
    }

    /// Whose connection it is, for who reads why it broke.
    pub(crate) fn ends(&self) -> String {
        format!("{} to {}", self.client, self.server)
    }

    /// Takes data that came out of the aggregate; they wait until [`Flow::flush`] hands them on.
    pub(crate) fn take(&mut self, data: &[u8]) {
        self.waiting.extend(data);
        self.gathered += data.len() as u64;
    }

    /// Whether what comes out of the aggregate may go through a pipe: it must overtake nothing.
    pub(crate) fn takes_pipes(&self) -> bool {
        self.waiting.is_empty() && self.connecting.is_none()
    }

    /// The aggregate brings no more: once all is handed on, the connection is told.
    pub(crate) fn end(&mut self, pipes: &mut Pipes) -> io::Result<()> {
        self.is_ended = true;
        self.flush(pipes)
    }

    /// Hands on what waits, as much as the connection takes.
    pub(crate) fn flush(&mut self, pipes: &mut Pipes) -> io::Result<()> {
        if self.connecting.is_some() {
            return Ok(());
        }
        if let Some(pipe) = &mut self.pipe {
            while pipe.held() > 0 {
                let count = pipe.drain(&self.socket, false)?;
                if count == 0 {
                    return Ok(());
                }
                self.incoming.hand_on(count as u64);
            }
        }
        if let Some(pipe) = self.pipe.take() {
            pipes.give_back(pipe);
        }
        while !self.waiting.is_empty() {
            let count = socket::write(&self.socket, self.waiting.as_slices().0)?;
            if count == 0 {
                return Ok(());
            }
            self.waiting.drain(..count);
            self.incoming.hand_on(count as u64);
        }
        if self.waiting.capacity() > 0 {
            self.waiting = VecDeque::new(); // An idle flow keeps no memory.
        }
        if self.is_ended && !self.is_shut && !self.is_to_stay() {
            self.is_shut = true;
            socket::shut(&self.socket)?;
        }
        Ok(())
    }

    /// Whether the connection may not be told yet that nothing more comes. Once both its ends have
    /// said so, and the client has acknowledged ours, the kernel has done with it: a client that
    /// then sends again what is not acknowledged yet is reset. Where ours goes last, it brings the
    /// acknowledgement of all with it.
    fn is_to_stay(&self) -> bool {
        let has_ended = || self.is_read || socket::has_ended(&self.socket);
        self.is_held && has_ended() && (!self.is_read || self.is_owed())
    }

    /// Whether both directions have come to their ends, and all that is to be acknowledged is.
    pub(crate) fn is_over(&self) -> bool {
        self.is_read && self.is_shut && !self.is_owed()
    }

    /// Whether its connection is broken, and is not to be read now: no reading would tell. What
    /// it has sent before is read first where that can be.
    pub(crate) fn is_broken_unread(&self) -> bool {
        self.is_broken && (self.is_read || self.weight == 0 || self.outgoing.left() == 0)
    }

    /// Whether the server has still to acknowledge something of what was handed to it, or of what
    /// the client is known to have sent, as far as this end knows; or whether the client has.
    pub(crate) fn is_owed(&self) -> bool {
        let sent = self.sent_by_client();
        self.linked.is_some_and(|linked| linked.released() < sent || self.to_client() < sent)
    }

    /// What may be acknowledged to the client.
    pub(crate) fn to_client(&self) -> u64 {
        self.pooled.unwrap_or_else(|| self.linked.map_or(0, |linked| linked.released()))
    }

    /// What the client has sent and this end has passed on; the end counts as one byte more.
    pub(crate) fn sent_by_client(&self) -> u64 {
        match self.side {
            Side::Client => self.outgoing.sent() + u64::from(self.is_read),
            Side::Server => self.incoming.handed_on() + u64::from(self.is_shut),
        }
    }

    /// What of its data the server has acknowledged, if anybody asks.
    pub(crate) fn acknowledged_bytes(&self) -> Option<u64> {
        let data = match self.side {
            Side::Client => self.outgoing.sent(),
            Side::Server => self.incoming.handed_on(),
        };
        self.linked.map(|linked| linked.released().min(data))
    }

    /// Asks the kernel what the server has acknowledged; up to where, if that is more than before.
    pub(crate) fn look(&mut self) -> Result<Option<u64>, RelayError> {
        let sent = self.sent_by_client();
        let Some(linked) = &mut self.linked else { return Ok(None) };
        let open = system::unacknowledged(&self.socket).map_err(RelayError::system("SIOCOUTQ"))?;
        let is_more = linked.acknowledge(sent.saturating_sub(open), sent)?;
        Ok(is_more.then(|| linked.released()))
    }

    pub(crate) fn waiting_bytes(&self) -> u64 {
        (self.waiting.len() + self.pipe.as_ref().map_or(0, Pipe::held)) as u64
    }
}
