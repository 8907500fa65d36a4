//! Joins packets that leave together back into super-packets: the inverse of the cut.
//!
//! Packets are joined only if cutting the result again, as the receiving kernel would have to,
//! gives the very same packets: one TCP flow, contiguous sequence numbers and IPv4
//! identifications, equal sizes but for a shorter last, equal headers, flags and ECN field.

use std::io::IoSlice;
use std::ops::Range;

use crate::arena::Arena;
use crate::frame;
use crate::headers::{IpHeader, set_octet};
use crate::offload::{CWR, Cut, FIN, PSH, VnetHeader};
use crate::segment::Segment;

/// Longest IP packet, super or not.
const MAX_LEN: usize = 65_535;
/// Separate stretches of payload in one write, headers not counted.
const MAX_STRETCHES: usize = 48;

/// Consecutive packets that can leave in one write.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pieces: Vec<Segment>,
    payload_len: usize,
    stretches: usize,
    /// The last piece lets nothing follow it.
    closed: bool,
    /// The headers of the write: kept between writes for its memory alone.
    headers: Vec<u8>,
    /// Packets leave one by one, as whole frames.
    framed: bool,
}

impl Run {
    /// A run for a device that takes Ethernet frames, or packets.
    pub(crate) fn to(framed: bool) -> Self {
        Self { framed, ..Self::default() }
    }

    pub(crate) fn pieces(&self) -> &[Segment] {
        &self.pieces
    }

    /// Adds `next` if it continues the run, otherwise gives it back.
    pub(crate) fn push(&mut self, arena: &Arena, next: Segment) -> Result<(), Segment> {
        if !self.continues_with(arena, &next) {
            return Err(next);
        }
        let layout = arena.layout(next.of);
        let adjacent = self.pieces.last().is_some_and(|last| last.of == next.of);
        let payload = layout.payload(next.index, 1).len();
        self.stretches += usize::from(!adjacent);
        self.payload_len += payload;
        self.closed = self.framed || !layout.is_tcp() || payload == 0 || {
            let flags = layout.flags(arena.bytes(next.of), next.index);
            let each = self.pieces.first().map_or(payload, |f| piece_payload(arena, f));
            payload < each || layout.refuses_company(flags)
        };
        self.pieces.push(next);
        Ok(())
    }

    /// Gives every piece back to the arena and starts anew.
    pub(crate) fn clear(&mut self, arena: &mut Arena) {
        for piece in self.pieces.drain(..) {
            arena.release(piece.of);
        }
        (self.payload_len, self.stretches, self.closed) = (0, 0, false);
    }

    /// Hands the packet that the run makes up, virtio-net header first, to `write`. A device for
    /// packets is spared frames of other kinds.
    pub(crate) fn emit<R>(
        &mut self,
        arena: &mut Arena,
        write: impl FnOnce(&[IoSlice<'_>]) -> R,
    ) -> Option<R> {
        let first = self.pieces.first()?;
        if self.framed {
            Some(self.emit_frame(arena, write))
        } else if arena.ethernet(first.of).is_some_and(|header| !frame::carries_ip(header)) {
            None
        } else if arena.layout(first.of).is_tcp() {
            Some(self.emit_tcp(arena, write))
        } else {
            let vnet = VnetHeader { gso_type: 0, ..arena.layout(first.of).vnet }.emit();
            edit_octet(arena, first);
            Some(write(&[IoSlice::new(&vnet), IoSlice::new(arena.bytes(first.of))]))
        }
    }

    /// The only piece as a frame whose checksums are done.
    fn emit_frame<R>(&mut self, arena: &mut Arena, write: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        let first = &self.pieces[0];
        let (layout, ethernet) = (*arena.layout(first.of), frame::header(arena, first.of));
        self.headers.clear();
        self.headers.extend_from_slice(&VnetHeader::default().emit());
        self.headers.extend_from_slice(&ethernet);
        if !layout.is_tcp() {
            edit_octet(arena, first);
            frame::finish_checksum(&layout.vnet, arena.bytes_mut(first.of), &[]);
            return write(&frame::parts(&self.headers, arena.bytes(first.of)));
        }
        let bytes = arena.bytes(first.of);
        let payload = &bytes[layout.payload(first.index, 1)];
        let flags = layout.flags(bytes, first.index);
        let cut = Cut { payload_len: payload.len(), flags, octet: first.octet };
        let packet = self.headers.len();
        layout.write_headers(bytes, first.index, &cut, &mut self.headers);
        frame::finish_checksum(&layout.vnet, &mut self.headers[packet..], payload);
        write(&frame::parts(&self.headers, payload))
    }

    fn emit_tcp<R>(&mut self, arena: &Arena, write: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        let (first, last) = (&self.pieces[0], &self.pieces[self.pieces.len() - 1]);
        let (layout, bytes) = (arena.layout(first.of), arena.bytes(first.of));
        let ending = arena.layout(last.of).flags(arena.bytes(last.of), last.index) & (PSH | FIN);
        let flags = layout.flags(bytes, first.index) | ending;
        let cut = Cut { payload_len: self.payload_len, flags, octet: first.octet };
        let each = piece_payload(arena, first) as u16;
        let vnet = layout.vnet_for(bytes, &cut, (self.pieces.len() > 1).then_some(each));
        self.headers.clear();
        self.headers.extend_from_slice(&vnet.emit());
        layout.write_headers(bytes, first.index, &cut, &mut self.headers);

        let mut parts = [IoSlice::new(&[]); MAX_STRETCHES + 1];
        parts[0] = IoSlice::new(&self.headers);
        let mut count = 1;
        for (of, payload) in stretches(arena, &self.pieces) {
            parts[count] = IoSlice::new(&arena.bytes(of)[payload]);
            count += 1;
        }
        write(&parts[..count])
    }

    fn continues_with(&self, arena: &Arena, next: &Segment) -> bool {
        let (Some(first), Some(last)) = (self.pieces.first(), self.pieces.last()) else {
            return true;
        };
        let size = next.size as usize;
        if self.closed || next.octet != last.octet || self.payload_len + size > MAX_LEN {
            return false;
        }
        if next.of == last.of {
            return next.index == last.index + 1;
        }
        self.stretches < MAX_STRETCHES && follows(arena, first, last, next)
    }
}

/// Whether `next`, of another super-packet than `last`, continues the run that `first` began.
fn follows(arena: &Arena, first: &Segment, last: &Segment, next: &Segment) -> bool {
    let (a, b) = (arena.layout(last.of), arena.layout(next.of));
    if !b.is_tcp() || a.header_len != b.header_len {
        return false;
    }
    let (a_bytes, b_bytes) = (arena.bytes(last.of), arena.bytes(next.of));
    let payload = piece_payload(arena, next);
    let flags = b.flags(b_bytes, next.index);
    payload > 0
        && payload <= piece_payload(arena, first)
        && flags & CWR == 0
        && flags & !(PSH | FIN) == a.flags(a_bytes, last.index) & !CWR
        && b.sequence(b_bytes, next.index)
            == a.sequence(a_bytes, last.index).wrapping_add(piece_payload(arena, last) as u32)
        && (a_bytes[0] >> 4 != 4
            || b.identification(b_bytes, next.index)
                == a.identification(a_bytes, last.index).wrapping_add(1))
        && a.same_flow_headers(a_bytes, b_bytes)
}

fn piece_payload(arena: &Arena, piece: &Segment) -> usize {
    arena.layout(piece.of).payload(piece.index, 1).len()
}

/// The payloads of `pieces`, neighbours in one super-packet taken together.
fn stretches<'a>(
    arena: &'a Arena,
    pieces: &'a [Segment],
) -> impl Iterator<Item = (crate::arena::SuperId, Range<usize>)> + 'a {
    pieces.chunk_by(|a, b| a.of == b.of).map(|stretch| {
        let count = stretch.len() as u16;
        (stretch[0].of, arena.layout(stretch[0].of).payload(stretch[0].index, count))
    })
}

/// Writes the ECN field of an opaque packet in place, if the queue changed it.
fn edit_octet(arena: &mut Arena, piece: &Segment) {
    if piece.octet != arena.layout(piece.of).octet {
        let bytes = arena.bytes_mut(piece.of);
        if IpHeader::parse(bytes).is_some() {
            set_octet(bytes, piece.octet);
        }
    }
}
