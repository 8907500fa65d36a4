//! Linked acknowledgements: whoever joins or splits a flow holds its acknowledgements back until
//! the next leg's have come (003-spec section 2.7). Pure: what arrives, is sent and is acknowledged
//! goes in, and what may be acknowledged comes out.
//!
//! Credit is counted in bytes, never in acknowledgements: these are cumulative, and delayed ones
//! stand for several. On the aggregate it includes the headers of frames.

use std::collections::{HashMap, VecDeque};

use crate::ProtocolError;
use crate::frame::{HEADER_BYTES, Uid};

const HEADER: u64 = HEADER_BYTES as u64;

/// When the split end lets the aggregate's acknowledgements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Algorithm 1 as printed: by what all servers together have acknowledged. An acknowledgement
    /// of one flow may go on the credit of another, whose server was faster.
    Literal,
    /// Up to the first byte that its own server has not acknowledged: end to end for each flow,
    /// and one slow server holds all.
    Strict,
}

/// How much further an acknowledgement number is than the one before; 0 if it is not.
pub fn increase(before: u32, now: u32) -> u32 {
    let ahead = now.wrapping_sub(before);
    if ahead <= u32::MAX / 2 { ahead } else { 0 }
}

/// Acknowledgements that are held back, in the order in which they came.
#[derive(Debug)]
pub struct Held {
    released: u32,
    waiting: VecDeque<u32>,
}

impl Held {
    /// Nothing is held; `number` was the last acknowledgement that went.
    pub fn new(number: u32) -> Self {
        Self { released: number, waiting: VecDeque::new() }
    }

    /// Holds one more.
    pub fn hold(&mut self, number: u32) {
        self.waiting.push_back(number);
    }

    /// The next one that the credit is enough for, which it then costs.
    pub fn release(&mut self, credit: &mut u64) -> Option<u32> {
        let number = *self.waiting.front()?;
        let wanted = increase(self.released, number);
        *credit = credit.checked_sub(wanted.into())?;
        self.released = self.released.wrapping_add(wanted);
        self.waiting.pop_front()
    }

    /// The last one that went.
    pub fn released(&self) -> u32 {
        self.released
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// How much of what one client has sent its server has acknowledged, where the split end tells of
/// each flow by itself: strict for each flow, and none waits for another. Offsets count the flow's
/// data, and its end as one byte more, as TCP does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Linked {
    released: u64,
}

impl Linked {
    /// The server has acknowledged so much of what was sent so far; whether more may be
    /// acknowledged to the client than before.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`]: nobody has sent that much.
    pub fn acknowledge(&mut self, until: u64, sent: u64) -> Result<bool, ProtocolError> {
        if until > sent {
            let what = format!("{until} bytes of a flow are acknowledged, and {sent} were sent");
            return Err(ProtocolError(what));
        }
        let is_more = until > self.released;
        self.released = self.released.max(until);
        Ok(is_more)
    }

    /// What may be acknowledged to the client.
    pub fn released(&self) -> u64 {
        self.released
    }
}

/// The rule as the work prints it ([`Release::Literal`]), where the split end tells of each flow by
/// itself: what all servers together have acknowledged is acknowledged of what was joined, in the
/// order in which that went into the aggregate, whoever sent it. Headers are left out on both
/// sides; the end of a flow counts as one byte, as in [`Linked`].
#[derive(Debug, Default)]
pub struct Pooled {
    /// What was sent and no client was acknowledged, by the flow that it is of.
    sent: VecDeque<(Uid, u64, u64)>,
    flows: HashMap<Uid, OfPool>,
    /// Tells flows apart that have the same UID, one after the other.
    begun: u64,
}

/// A flow in a pool.
#[derive(Debug)]
struct OfPool {
    number: u64,
    /// What its server has not acknowledged of what was sent.
    open: u64,
    released: u64,
}

impl Pooled {
    /// A flow begins.
    pub fn begin(&mut self, uid: Uid) {
        self.begun += 1;
        self.flows.insert(uid, OfPool { number: self.begun, open: 0, released: 0 });
    }

    /// So much more of a flow went into the aggregate.
    pub fn sent(&mut self, uid: Uid, bytes: u64) {
        let Some(flow) = self.flows.get_mut(&uid).filter(|_| bytes > 0) else { return };
        flow.open += bytes;
        self.sent.push_back((uid, flow.number, bytes));
    }

    /// The server of a flow has acknowledged so much more; the flows of which more may be
    /// acknowledged to their clients than before.
    pub fn acknowledged(&mut self, uid: Uid, bytes: u64) -> Vec<Uid> {
        if let Some(flow) = self.flows.get_mut(&uid) {
            flow.open = flow.open.saturating_sub(bytes);
        }
        self.credit(bytes)
    }

    /// A flow is over: nobody waits for what its server has not acknowledged, which would be
    /// missing for ever. The same flows as of [`Pooled::acknowledged`].
    pub fn end(&mut self, uid: Uid) -> Vec<Uid> {
        let open = self.flows.remove(&uid).map_or(0, |flow| flow.open);
        self.credit(open)
    }

    /// What may be acknowledged to the client of a flow.
    pub fn released(&self, uid: Uid) -> u64 {
        self.flows.get(&uid).map_or(0, |flow| flow.released)
    }

    /// Whether all that was sent was acknowledged.
    pub fn is_at_rest(&self) -> bool {
        self.sent.is_empty() && self.flows.values().all(|flow| flow.open == 0)
    }

    fn credit(&mut self, bytes: u64) -> Vec<Uid> {
        let (mut left, mut credited) = (bytes, Vec::new());
        while let Some((uid, number, of_it)) = self.sent.front_mut().filter(|_| left > 0) {
            let part = left.min(*of_it);
            (left, *of_it) = (left - part, *of_it - part);
            if let Some(flow) = self.flows.get_mut(uid).filter(|flow| flow.number == *number) {
                flow.released += part;
                credited.push(*uid);
            }
            if *of_it == 0 {
                self.sent.pop_front();
            }
        }
        credited.sort_unstable();
        credited.dedup();
        credited
    }
}

/// One flow as the split end sees it; offsets count its data.
#[derive(Debug, Default)]
struct Delivered {
    arrived: u64,
    acknowledged: u64,
    /// Where the parts of frames end of which something is not acknowledged, and the bytes of a
    /// header before each.
    parts: VecDeque<(u64, u64)>,
}

impl Delivered {
    /// The headers of what has all been acknowledged since they were last asked for.
    fn headers(&mut self) -> u64 {
        let mut credit = 0;
        while let Some((_, header)) = self.parts.pop_front_if(|part| part.0 <= self.acknowledged) {
            credit += header;
        }
        credit
    }
}

/// A frame, or a part of one, in the order of the aggregate.
#[derive(Debug)]
struct Part {
    uid: Uid,
    /// Bytes of the header.
    header: u64,
    /// Data that are left to acknowledge, and where they end.
    left: u64,
    end: u64,
}

/// The split end's record: which frames have arrived, and what of them servers have acknowledged.
#[derive(Debug)]
pub struct SplitLedger {
    release: Release,
    flows: HashMap<Uid, Delivered>,
    /// For `Strict`: what has arrived, in order.
    order: VecDeque<Part>,
}

impl SplitLedger {
    /// Nothing has arrived.
    pub fn new(release: Release) -> Self {
        Self { release, flows: HashMap::new(), order: VecDeque::new() }
    }

    /// A whole frame with so much data has arrived; the credit that it brings by itself, in bytes
    /// of the aggregate: no server acknowledges a frame without data, and of one with data all may
    /// be acknowledged before its last byte was seen to be there.
    pub fn arrived(&mut self, uid: Uid, data: u64) -> u64 {
        self.part_arrived(uid, HEADER, data)
    }

    /// So many further bytes of a frame have arrived, of its header and of its data; the credit
    /// that they bring by themselves. Where segments do not end where frames do, an acknowledgement
    /// of the aggregate is of parts; whoever tells of whole frames only lets it wait for the rest,
    /// which a sender with a window of one segment cannot send.
    pub fn part_arrived(&mut self, uid: Uid, header: u64, data: u64) -> u64 {
        let flow = self.flows.entry(uid).or_default();
        flow.arrived += data;
        match self.release {
            Release::Literal if data == 0 => header,
            Release::Literal => {
                flow.parts.push_back((flow.arrived, header));
                flow.headers()
            }
            Release::Strict => {
                self.order.push_back(Part { uid, header, left: data, end: flow.arrived });
                self.prefix()
            }
        }
    }

    /// The flow's server has acknowledged so much more of its data (its FIN is none of them); the
    /// credit that this brings, in bytes of the aggregate.
    pub fn acknowledged(&mut self, uid: Uid, data: u64) -> u64 {
        let flow = self.flows.entry(uid).or_default();
        flow.acknowledged += data;
        match self.release {
            Release::Literal => data + flow.headers(),
            Release::Strict => self.prefix(),
        }
    }

    /// Whether all that has arrived was acknowledged.
    pub fn is_at_rest(&self) -> bool {
        self.order.is_empty() && self.flows.values().all(|flow| flow.arrived == flow.acknowledged)
    }

    /// What is acknowledged at the front of all that has arrived, and was not counted before.
    fn prefix(&mut self) -> u64 {
        let mut credit = 0;
        while let Some(Part { uid, header, left, end }) = self.order.front_mut() {
            let unacknowledged = *end - self.flows[uid].acknowledged.min(*end);
            credit += *left - unacknowledged.min(*left);
            *left = unacknowledged.min(*left);
            if *left > 0 {
                break;
            }
            credit += *header;
            self.order.pop_front();
        }
        credit
    }
}

/// The join end's record: which frames it has sent, and so whose the aggregate's credit is.
#[derive(Debug, Default)]
pub struct JoinLedger {
    /// Each frame by its flow, what is left of its header, and of its data.
    frames: VecDeque<(Uid, u64, u64)>,
}

impl JoinLedger {
    /// A frame with so much data was sent.
    pub fn sent(&mut self, uid: Uid, data: u64) {
        self.frames.push_back((uid, HEADER, data));
    }

    /// So much more of the aggregate was acknowledged: tells `credit` of each flow whose data are
    /// among it, and how many bytes.
    pub fn acknowledged(&mut self, bytes: u64, mut credit: impl FnMut(Uid, u64)) {
        let mut left = bytes;
        while let Some((uid, header, data)) = self.frames.front_mut().filter(|_| left > 0) {
            let of_header = left.min(*header);
            let of_data = (left - of_header).min(*data);
            *header -= of_header;
            *data -= of_data;
            left -= of_header + of_data;
            if of_data > 0 {
                credit(*uid, of_data);
            }
            if *header + *data == 0 {
                self.frames.pop_front();
            }
        }
    }

    /// Whether all that was sent was acknowledged.
    pub fn is_at_rest(&self) -> bool {
        self.frames.is_empty()
    }
}
