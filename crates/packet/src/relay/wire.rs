//! What is under way in one direction of an aggregate. Simulated TCP carries counts of bytes: which
//! bytes they are is kept here, and given out in the same order as TCP gives out their number.

use std::collections::VecDeque;

use weir_aggregate::ProtocolError;
use weir_aggregate::frame::{CONTROL, DATA_MAX, Decoder, HEADER_BYTES, Piece, Uid, header};
use weir_aggregate::message::Message;

/// What data of flows are made of.
static ZEROS: [u8; DATA_MAX] = [0; DATA_MAX];

/// A part of what has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// So many bytes of a flow.
    Data(Uid, u64),
    /// The flow sends no more.
    End(Uid),
    /// What the other end says.
    Said(Message),
    /// So many bytes of a frame's header, then so many of its data, or of a message.
    Part(Part),
}

/// A part of a frame; see [`Arrived::Part`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) uid: Uid,
    pub(crate) header: u64,
    pub(crate) data: u64,
    /// It is the last of a frame without data, which ends its flow.
    pub(crate) is_end: bool,
}

#[derive(Debug)]
struct Frame {
    uid: Uid,
    /// The header, and a message behind it.
    head: Vec<u8>,
    data: usize,
}

/// Frames from one end to the other.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    frames: VecDeque<Frame>,
    /// Bytes of the first one that were read.
    read: usize,
    decoder: Decoder,
}

impl Wire {
    /// Puts a frame behind what is under way; returns its length.
    pub(crate) fn put(&mut self, uid: Uid, data: usize) -> u64 {
        self.frames.push_back(Frame { uid, head: header(uid, data).to_vec(), data });
        (HEADER_BYTES + data) as u64
    }

    /// Puts a message behind what is under way; returns its length.
    pub(crate) fn say(&mut self, message: Message) -> u64 {
        let mut head = Vec::new();
        message.write(&mut head);
        let length = head.len() as u64;
        self.frames.push_back(Frame { uid: CONTROL, head, data: 0 });
        length
    }

    /// TCP gave out so many further bytes: tells `each` what they are, in order.
    pub(crate) fn read(&mut self, bytes: u64, mut each: impl FnMut(Arrived)) {
        let Self { frames, read, decoder } = self;
        let mut hear = |piece: Piece<'_>| {
            each(match piece {
                Piece::Data(uid, data) => Arrived::Data(uid, data.len() as u64),
                Piece::End(uid) => Arrived::End(uid),
                Piece::Control(data) => Arrived::Said(Message::read(data)?),
            });
            Ok::<(), ProtocolError>(())
        };
        let mut left = bytes as usize;
        let mut parts = Vec::new();
        while left > 0 {
            let frame = frames.front().expect("no more arrives than was sent");
            let (begun, head) = (*read, frame.head.len());
            *read = (begun + left).min(head + frame.data);
            left -= *read - begun;
            let of_head = frame.head.get(begun..(*read).min(head)).unwrap_or_default();
            let of_data = &ZEROS[..read.saturating_sub(begun.max(head))];
            for part in [of_head, of_data] {
                decoder.read(part, &mut hear).expect("both ends keep to the protocol");
            }
            let is_whole = *read == head + frame.data;
            let header = (*read).min(HEADER_BYTES) - begun.min(HEADER_BYTES);
            parts.push(Part {
                uid: frame.uid,
                header: header as u64,
                data: (*read - begun - header) as u64,
                is_end: is_whole && frame.uid != CONTROL && frame.data == 0,
            });
            if is_whole {
                frames.pop_front();
                *read = 0;
            }
        }
        for part in parts {
            each(Arrived::Part(part));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_the_cuts_all_comes_out_in_order(
            sizes in prop::collection::vec((1..4_u16, 0..3_000_usize), 1..40),
            cuts in prop::collection::vec(1..5_000_u64, 1..100),
        ) {
            let mut wire = Wire::default();
            let room = Message::Room { uid: 3, until: 77 };
            let mut left: u64 = sizes.iter().map(|&(uid, data)| wire.put(uid, data)).sum();
            left += wire.say(room);
            let mut heard = Vec::new();
            for cut in cuts.into_iter().cycle() {
                let cut = cut.min(left);
                wire.read(cut, |arrived| heard.push(arrived));
                left -= cut;
                if left == 0 {
                    break;
                }
            }
            for uid in 1..4 {
                let sent: usize = sizes.iter().filter(|one| one.0 == uid).map(|one| one.1).sum();
                let data = |arrived: &Arrived| match *arrived {
                    Arrived::Data(of, bytes) if of == uid => bytes,
                    _ => 0,
                };
                prop_assert_eq!(heard.iter().map(data).sum::<u64>(), sent as u64);
            }
            let parts = heard.iter().filter_map(|arrived| match arrived {
                Arrived::Part(part) if part.uid != CONTROL => Some(*part),
                _ => None,
            });
            let ends = sizes.iter().filter(|size| size.1 == 0).count();
            prop_assert_eq!(parts.clone().filter(|part| part.is_end).count(), ends);
            let headers: u64 = parts.clone().map(|part| part.header).sum();
            prop_assert_eq!(headers, (sizes.len() * HEADER_BYTES) as u64);
            let data: u64 = parts.map(|part| part.data).sum();
            prop_assert_eq!(data, sizes.iter().map(|size| size.1 as u64).sum::<u64>());
            prop_assert!(heard.contains(&Arrived::Said(room)));
        }
    }
}
