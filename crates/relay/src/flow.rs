//! One joined flow at one end of an aggregate: its connection, and what of it is on its way.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use socket2::Socket;

use crate::socket;
use crate::window::{Incoming, Outgoing};

/// A connection to a client or a server, and its place in the aggregate.
pub(crate) struct Flow {
    pub(crate) socket: Socket,
    pub(crate) client: SocketAddr,
    pub(crate) weight: u32,
    /// Since when its server is asked; none once it has answered.
    pub(crate) connecting: Option<Instant>,
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
    /// What came out of the aggregate and the connection has not taken.
    waiting: VecDeque<u8>,
    /// The connection has sent all, and the aggregate was told.
    pub(crate) is_read: bool,
    /// The aggregate brings no more.
    is_ended: bool,
    is_shut: bool,
}

impl Flow {
    pub(crate) fn new(socket: Socket, client: SocketAddr, weight: u32) -> Self {
        Self {
            socket,
            client,
            weight,
            connecting: None,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            waiting: VecDeque::new(),
            is_read: false,
            is_ended: false,
            is_shut: false,
        }
    }

    /// Takes data that came out of the aggregate.
    pub(crate) fn take(&mut self, data: &[u8]) -> io::Result<()> {
        let mut rest = data;
        if self.waiting.is_empty() && self.connecting.is_none() {
            let count = socket::write(&self.socket, data)?;
            self.incoming.hand_on(count as u64);
            rest = &data[count..];
        }
        self.waiting.extend(rest);
        Ok(())
    }

    /// The aggregate brings no more: once all is handed on, the connection is told.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.is_ended = true;
        self.flush()
    }

    /// Hands on what waits, as much as the connection takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.connecting.is_some() {
            return Ok(());
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
        if self.is_ended && !self.is_shut {
            self.is_shut = true;
            socket::shut(&self.socket)?;
        }
        Ok(())
    }

    /// Whether both directions have come to their ends.
    pub(crate) fn is_over(&self) -> bool {
        self.is_read && self.is_shut
    }

    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting.len() as u64
    }
}
