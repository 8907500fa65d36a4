//! The packet as the queue holds it: a view of one piece of a super-packet in the arena.

use weir_queue::{Dscp, Ecn, Packet};
use weir_units::Bytes;

use crate::arena::SuperId;
use crate::headers::with_ce;
use crate::offload::Layout;

/// One packet of the link: the `index`-th piece of a super-packet. Its bytes stay where the kernel
/// wrote them; only what a queue may change travels with it.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The super-packet it is cut from; released once per segment.
    pub(crate) of: SuperId,
    pub(crate) index: u16,
    /// Length of the packet, IP header included.
    pub(crate) size: u32,
    /// Type-of-service or traffic-class octet as it is to leave.
    pub(crate) octet: u8,
    flow_hash: u32,
}

impl Segment {
    pub(crate) fn new(of: SuperId, index: u16, layout: &Layout) -> Self {
        Self {
            of,
            index,
            size: layout.segment_size(index),
            octet: layout.octet,
            flow_hash: layout.flow_hash,
        }
    }
}

impl Packet for Segment {
    fn size(&self) -> Bytes {
        Bytes::new(self.size.into())
    }

    fn ecn(&self) -> Ecn {
        Ecn::of_octet(self.octet)
    }

    fn mark_ce(&mut self) {
        self.octet = with_ce(self.octet);
    }

    fn dscp(&self) -> Dscp {
        Dscp::of_octet(self.octet)
    }

    fn flow_hash(&self) -> u32 {
        self.flow_hash
    }
}
