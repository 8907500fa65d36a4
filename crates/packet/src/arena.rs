//! Packets under way: what queues hold is a small [`Handle`], the rest stays in one place.

use weir_queue::{Dscp, Ecn, Packet};
use weir_tcp::Segment;
use weir_tcp::udt::Message;
use weir_units::{Bytes, Time};

/// What waits in queues and on lines: 16 bytes, copied freely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    /// Where its content lies in the [`Arena`].
    pub(crate) index: u32,
    /// The node it goes to.
    pub(crate) to: u32,
    /// The hash of its flow.
    pub(crate) hash: u32,
    /// IP header included.
    pub(crate) size: u16,
    pub(crate) ecn: Ecn,
    pub(crate) dscp: Dscp,
}

impl Packet for Handle {
    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size))
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn dscp(&self) -> Dscp {
        self.dscp
    }

    fn flow_hash(&self) -> u32 {
        self.hash
    }
}

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// A segment for an endpoint, by number, while that is of the same incarnation.
    Tcp { endpoint: u32, incarnation: u32, segment: Segment },
    /// A datagram of a flow, by number.
    Udp { flow: u32, sent: Time },
    /// A packet of UDT of a flow, by number.
    Udt { flow: u32, message: Message },
}

/// The content of every packet under way; places are used again, so that memory is that of the
/// most packets ever under way together.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    contents: Vec<Content>,
    free: Vec<u32>,
}

impl Arena {
    /// Keeps `content`; returns its place.
    #[inline]
    pub(crate) fn keep(&mut self, content: Content) -> u32 {
        if let Some(index) = self.free.pop() {
            self.contents[index as usize] = content;
            return index;
        }
        self.contents.push(content);
        u32::try_from(self.contents.len() - 1).expect("2^32 packets would not fit the memory")
    }

    /// What lies at `index`.
    #[inline]
    pub(crate) fn content(&self, index: u32) -> &Content {
        &self.contents[index as usize]
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn content_mut(&mut self, index: u32) -> &mut Content {
        &mut self.contents[index as usize]
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.contents.capacity() * size_of::<Content>() + self.free.capacity() * size_of::<u32>()
    }

    /// Gives the place back.
    #[inline]
    pub(crate) fn free(&mut self, index: u32) {
        self.free.push(index);
    }
}
