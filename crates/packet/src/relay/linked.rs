//! Linked acknowledgements in the simulator, by the work's own mechanism (003-spec section 2.7):
//! the packets with the acknowledgements that the two ends of a relay send back are held where they
//! leave, and let go when the next leg's have come. What may go, `weir-aggregate` decides.

use std::collections::VecDeque;

use weir_aggregate::frame::{HEADER_BYTES, Uid};
use weir_aggregate::linked_ack::{Held, JoinLedger, Release, SplitLedger};

use super::wire::Part;
use crate::arena::Handle;

/// Packets with acknowledgements, in the order in which they were made.
#[derive(Debug)]
pub(crate) struct HeldPackets {
    held: Held,
    packets: VecDeque<(u64, Handle)>,
}

impl Default for HeldPackets {
    fn default() -> Self {
        // The SYN, which took number 0, is acknowledged without waiting.
        Self { held: Held::new(1), packets: VecDeque::new() }
    }
}

impl HeldPackets {
    /// Holds a packet that acknowledges up to `number`.
    pub(crate) fn hold(&mut self, number: u64, packet: Handle) {
        self.held.hold(number as u32);
        self.packets.push_back((number, packet));
    }

    /// The next packet that the credit is enough for, with its number.
    pub(crate) fn release(&mut self, credit: &mut u64) -> Option<(u64, Handle)> {
        self.held.release(credit)?;
        self.packets.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }
}

/// What both ends know of acknowledgements, each its own.
#[derive(Debug)]
pub(crate) struct Linked {
    release: Release,
    split: SplitLedger,
    join: JoinLedger,
    /// What has arrived at the split end, as far as its record does not have it: strictly, the end
    /// of a flow is there when its server has acknowledged the FIN.
    arrivals: VecDeque<Part>,
    /// The aggregate's acknowledgements at the split end, and the credit that is left for them.
    of_join: HeldPackets,
    credit: u64,
    /// Bytes of the aggregate that the join end has sent, and has seen acknowledged.
    sent: u64,
    acknowledged: u64,
    /// Where in the aggregate the ends of flows lie that are not acknowledged.
    ends: VecDeque<(u64, Uid)>,
}

impl Linked {
    pub(crate) fn new(release: Release) -> Self {
        Self {
            release,
            split: SplitLedger::new(release),
            join: JoinLedger::default(),
            arrivals: VecDeque::new(),
            of_join: HeldPackets::default(),
            credit: 0,
            sent: 0,
            acknowledged: 0,
            ends: VecDeque::new(),
        }
    }

    /// The join end has sent a frame; `is_end` if it is the last of its flow.
    pub(crate) fn sent(&mut self, uid: Uid, data: u64, is_end: bool) {
        self.join.sent(uid, data);
        self.sent += HEADER_BYTES as u64 + data;
        if is_end {
            self.ends.push_back((self.sent, uid));
        }
    }

    /// The aggregate's data are acknowledged at the join end up to here: tells `credit` whose they
    /// are. The end of a flow counts one, as its FIN does on the client's leg.
    pub(crate) fn join_acknowledged(&mut self, until: u64, mut credit: impl FnMut(Uid, u64)) {
        let more = until - self.acknowledged;
        self.acknowledged = until;
        self.join.acknowledged(more, &mut credit);
        while let Some((_, uid)) = self.ends.pop_front_if(|(end, _)| *end <= until) {
            credit(uid, 1);
        }
    }

    /// A part of a frame, or of a message, has arrived at the split end. `is_delivered` says of a
    /// flow whether its server has acknowledged its FIN.
    pub(crate) fn arrived(&mut self, part: Part, is_delivered: impl Fn(Uid) -> bool) {
        self.arrivals.push_back(part);
        self.take_arrivals(is_delivered);
    }

    /// Somebody's FIN may have been acknowledged.
    pub(crate) fn take_arrivals(&mut self, is_delivered: impl Fn(Uid) -> bool) {
        let is_literal = self.release == Release::Literal;
        while let Some(Part { uid, header, data, .. }) =
            self.arrivals.pop_front_if(|part| is_literal || !part.is_end || is_delivered(part.uid))
        {
            self.credit += self.split.part_arrived(uid, header, data);
        }
    }

    /// A server has acknowledged so much more, or nobody waits for its acknowledgement.
    pub(crate) fn split_acknowledged(&mut self, uid: Uid, data: u64) {
        self.credit += self.split.acknowledged(uid, data);
    }

    /// Holds an acknowledgement of the aggregate.
    pub(crate) fn hold_of_join(&mut self, number: u64, packet: Handle) {
        self.of_join.hold(number, packet);
    }

    /// The next acknowledgement of the aggregate that may go.
    pub(crate) fn release_of_join(&mut self) -> Option<Handle> {
        self.of_join.release(&mut self.credit).map(|(_, packet)| packet)
    }

    /// Acknowledgements of the aggregate that are held.
    pub(crate) fn held(&self) -> usize {
        self.of_join.len()
    }

    /// Whether everything was acknowledged, and no credit is left.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_acknowledged = self.split.is_at_rest() && self.join.is_at_rest();
        is_acknowledged && self.of_join.len() == 0 && self.credit == 0 && self.arrivals.is_empty()
    }
}
