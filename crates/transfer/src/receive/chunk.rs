//! Chunks as they come where nothing but chunks may: from, or to, a host that helps another one.

use std::io;

use crate::connection::Connection;
use crate::wire::{FrameHeader, FrameKind, FrameTrailer, HEADER_SIZE, TRAILER_SIZE};

/// One of them, whole.
pub(super) struct Chunk<'b> {
    pub(super) header: FrameHeader,
    pub(super) payload: &'b [u8],
    pub(super) trailer: FrameTrailer,
}

impl<'b> Chunk<'b> {
    /// Receives the next one into `buffer`; `None` where the peer says that nothing more follows.
    pub(super) fn receive(
        connection: &mut Connection,
        buffer: &'b mut [u8],
    ) -> io::Result<Option<Self>> {
        let receiver = &mut connection.receiver;
        let mut header = [0; HEADER_SIZE];
        receiver.gather_at_least(&mut header, HEADER_SIZE)?;
        let header = FrameHeader::decode(&header)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        match header.kind {
            FrameKind::End => return Ok(None),
            FrameKind::Hole => return Err(invalid("zeros are no business of a helper")),
            FrameKind::Chunk => {}
        }
        let length = header.length as usize;
        let payload = &mut buffer[..length];
        receiver.gather_at_least(payload, length)?;
        let mut trailer = [0; TRAILER_SIZE];
        receiver.gather_at_least(&mut trailer, TRAILER_SIZE)?;
        let trailer = FrameTrailer::decode(&trailer)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Some(Self { header, payload, trailer }))
    }
}

/// What the peer may not send.
pub(super) fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
