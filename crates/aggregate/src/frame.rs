//! What an aggregate is made of: `UID | length | data`, one frame after the other, both ways.
//!
//! UID and length are 16 bits, big-endian; the length counts the header (003-spec section 2.3,
//! A frame without data says that its flow sends no more. Frames of the UID 0 carry
//! [messages](crate::message) between the two ends.
//!
//! The work's frames end at 64 KiB. What the kernel moves by itself costs the same however much it
//! is, so a *long* frame has more: the UID [`LONG`], then that of the flow, and 32 bits of length.

use std::collections::VecDeque;

use crate::ProtocolError;

/// The bytes before the data of a frame.
pub const HEADER_BYTES: usize = 4;
/// The most data of a frame.
pub const DATA_MAX: usize = 0xFFFF - HEADER_BYTES;
/// Which flow a frame belongs to.
pub type Uid = u16;
/// The UID of messages between the two ends.
pub const CONTROL: Uid = 0;
/// The UID that a long frame begins with, which is no flow's.
pub const LONG: Uid = 0xFFFD;
/// The bytes before the data of a long frame: a header, the flow's UID, how much data.
pub const LONG_HEADER_BYTES: usize = 10;
/// The most data of a long frame.
pub const LONG_DATA_MAX: usize = 1 << 20;
/// The flows that there can be at a time: four of the 65 536 UIDs are no flow's.
pub const FLOWS_MAX: usize = 65_532;
const LAST: Uid = 0xFFFC;

/// Whether a UID can be a flow's.
pub fn is_flow(uid: Uid) -> bool {
    (1..=LAST).contains(&uid)
}

/// The header of a frame with so many bytes of data.
///
/// # Panics
///
/// With more than [`DATA_MAX`].
pub fn header(uid: Uid, data: usize) -> [u8; HEADER_BYTES] {
    let length = u16::try_from(data + HEADER_BYTES).expect("a frame has at most 65 531 bytes");
    let ([a, b], [c, d]) = (uid.to_be_bytes(), length.to_be_bytes());
    [a, b, c, d]
}

/// The header of a long frame with so many bytes of data, at least one.
///
/// # Panics
///
/// With none, or more than [`LONG_DATA_MAX`].
pub fn long_header(uid: Uid, data: usize) -> [u8; LONG_HEADER_BYTES] {
    assert!((1..=LONG_DATA_MAX).contains(&data), "{data} bytes in a long frame");
    let mut head = [0; LONG_HEADER_BYTES];
    head[..HEADER_BYTES].copy_from_slice(&header(LONG, LONG_HEADER_BYTES - HEADER_BYTES));
    head[4..6].copy_from_slice(&uid.to_be_bytes());
    head[6..].copy_from_slice(&(data as u32).to_be_bytes());
    head
}

/// A part of what arrived: data as soon as they are there, messages only whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Data of a flow, in order; at least one byte.
    Data(Uid, &'a [u8]),
    /// The flow sends no more.
    End(Uid),
    /// The data of a frame of the UID 0.
    Control(&'a [u8]),
}

/// Takes the bytes of an aggregate apart, however they were cut on their way.
#[derive(Debug, Default)]
pub struct Decoder {
    /// What of a header, or of a message, has arrived without its end.
    begun: Vec<u8>,
    /// The frame that is under way, and how much of its data is still to come.
    frame: Option<(Uid, usize)>,
}

impl Decoder {
    /// Tells `each` what is in these bytes, in order.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`]: a length of less than its header, a UID that is no flow's. The
    /// stream cannot be read on after that. What `each` returns ends it, too.
    pub fn read<E: From<ProtocolError>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let Some((uid, left)) = self.frame else {
                bytes = self.read_header(bytes, &mut each)?;
                continue;
            };
            if uid == CONTROL {
                bytes = self.read_message(bytes, left, &mut each)?;
                continue;
            }
            let (data, rest) = bytes.split_at(left.min(bytes.len()));
            self.frame = (data.len() < left).then(|| (uid, left - data.len()));
            each(Piece::Data(uid, data))?;
            bytes = rest;
        }
        Ok(())
    }

    /// The frame that is under way, and how much of its data is still to come.
    pub fn under_way(&self) -> Option<(Uid, usize)> {
        self.frame
    }

    /// So much of the data of the frame under way has gone another way than through
    /// [`Decoder::read`].
    ///
    /// # Panics
    ///
    /// If it is more than was still to come, or of a message.
    pub fn passed(&mut self, bytes: usize) {
        let (uid, left) = self.frame.filter(|(uid, _)| *uid != CONTROL).expect("a flow's frame");
        let left = left.checked_sub(bytes).expect("no more than the frame has");
        self.frame = (left > 0).then_some((uid, left));
    }

    /// Whether no frame is under way.
    pub fn is_between_frames(&self) -> bool {
        self.begun.is_empty() && self.frame.is_none()
    }

    fn read_header<'a, E: From<ProtocolError>>(
        &mut self,
        bytes: &'a [u8],
        each: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<&'a [u8], E> {
        let whole = if self.begun.len() < HEADER_BYTES { HEADER_BYTES } else { LONG_HEADER_BYTES };
        let (head, rest) = bytes.split_at((whole - self.begun.len()).min(bytes.len()));
        self.begun.extend_from_slice(head);
        match *self.begun.as_slice() {
            [a, b, c, d] => {
                let uid = u16::from_be_bytes([a, b]);
                let length = usize::from(u16::from_be_bytes([c, d]));
                if (uid, length) == (LONG, LONG_HEADER_BYTES) {
                    return Ok(rest); // More of the header is to come.
                }
                self.begun.clear();
                self.begin(uid, length, each)?;
            }
            [_, _, _, _, a, b, c, d, e, f] => {
                self.begun.clear();
                self.begin_long(u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]))?;
            }
            _ => {}
        }
        Ok(rest)
    }

    fn begin<E: From<ProtocolError>>(
        &mut self,
        uid: Uid,
        length: usize,
        each: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if length < HEADER_BYTES {
            return Err(ProtocolError(format!("a frame of {length} bytes")).into());
        }
        if uid != CONTROL && !is_flow(uid) {
            return Err(nobodys(uid).into());
        }
        match (uid, length - HEADER_BYTES) {
            (CONTROL, 0) => return Err(ProtocolError("an empty message".into()).into()),
            (uid, 0) => each(Piece::End(uid))?,
            (uid, left) => self.frame = Some((uid, left)),
        }
        Ok(())
    }

    fn begin_long(&mut self, uid: Uid, data: u32) -> Result<(), ProtocolError> {
        if !is_flow(uid) {
            return Err(nobodys(uid));
        }
        match usize::try_from(data) {
            Ok(data @ 1..=LONG_DATA_MAX) => self.frame = Some((uid, data)),
            _ => return Err(ProtocolError(format!("a long frame of {data} bytes"))),
        }
        Ok(())
    }

    fn read_message<'a, E: From<ProtocolError>>(
        &mut self,
        bytes: &'a [u8],
        left: usize,
        each: &mut impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<&'a [u8], E> {
        let (part, rest) = bytes.split_at(left.min(bytes.len()));
        if part.len() == left && self.begun.is_empty() {
            self.frame = None;
            each(Piece::Control(part))?;
            return Ok(rest);
        }
        self.begun.extend_from_slice(part);
        self.frame = Some((CONTROL, left - part.len()));
        if part.len() == left {
            self.frame = None;
            let whole = std::mem::take(&mut self.begun);
            each(Piece::Control(&whole))?;
        }
        Ok(rest)
    }
}

fn nobodys(uid: Uid) -> ProtocolError {
    ProtocolError(format!("a frame of the UID {uid}, which is none"))
}

/// The UIDs that are free; the one that has been free longest is given out first.
#[derive(Debug)]
pub struct UidPool {
    /// UIDs that were given back.
    free: VecDeque<Uid>,
    /// The first one that was never given out.
    next: Uid,
}

impl Default for UidPool {
    fn default() -> Self {
        Self { free: VecDeque::new(), next: 1 }
    }
}

impl UidPool {
    /// A UID that is nobody's; none if [`FLOWS_MAX`] are taken.
    pub fn take(&mut self) -> Option<Uid> {
        if self.next <= LAST {
            self.next += 1;
            return Some(self.next - 1);
        }
        self.free.pop_front()
    }

    /// Takes one back that was given out.
    pub fn give_back(&mut self, uid: Uid) {
        debug_assert!(is_flow(uid) && uid < self.next, "UID {uid} was never given out");
        self.free.push_back(uid);
    }
}
