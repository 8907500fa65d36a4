//! A client's acknowledgements as `weir relay join --linked-ack strict` has them: the kernel makes
//! them, and a filter at its way out (weir/relay/hold.bpf.c) sets those back that go beyond what is
//! released. The same rules, over numbers that never wrap.

use weir_aggregate::linked_ack::Linked;
use weir_tcp::{Flags, Segment};

/// What the filter knows of a client's connection.
#[derive(Debug, Default)]
pub(crate) struct Clamp {
    /// What the server has acknowledged.
    linked: Linked,
    /// The number up to which may be acknowledged, and the furthest that the client was sent.
    released: u64,
    acknowledged: u64,
    /// The furthest that its own leg would have acknowledged.
    made: u64,
    /// The right edge of the window as that leg has promised it, and as the client was told.
    edge: u64,
    told_edge: u64,
    /// The last packet of that leg: what the relay says by itself has its number and timestamps.
    last: Segment,
}

impl Clamp {
    /// The SYN is acknowledged, which nothing holds back, and nothing else is released.
    pub(crate) fn begin(&mut self, answer: &Segment) {
        let window = u64::from(answer.window);
        (self.released, self.acknowledged, self.made) = (answer.ack, answer.ack, answer.ack);
        (self.edge, self.told_edge) = (answer.ack + window, answer.ack + window);
        self.last = Segment { seq: answer.end(), ..*answer };
    }

    /// A packet is about to leave: it acknowledges no more than is released when it does. Whether
    /// it does at all: one that would say nothing new would be counted as a duplicate.
    pub(crate) fn pass(&mut self, segment: &mut Segment) -> bool {
        let edge = segment.ack + u64::from(segment.window);
        self.made = self.made.max(segment.ack);
        self.edge = self.edge.max(edge);
        self.last = Segment { seq: self.last.seq.max(segment.end()), ..*segment };
        if segment.ack > self.released {
            let is_alone = segment.len == 0 && !segment.flags.has(Flags::FIN);
            let told = edge.max(self.released);
            if is_alone && self.released <= self.acknowledged && told <= self.told_edge {
                return false;
            }
            segment.sack_count = 0;
            segment.ack = self.released;
            segment.window = window(self.released, told);
        }
        self.note_told(segment);
        true
    }

    /// The server has acknowledged so much of what the client has `sent`; what the relay then says
    /// by itself, if that is news.
    pub(crate) fn release(&mut self, until: u64, sent: u64) -> Option<Segment> {
        let is_more =
            self.linked.acknowledge(until, sent).expect("no server has more than was sent");
        if !is_more {
            return None;
        }
        // The SYN has the number 0.
        self.released = 1 + self.linked.released();
        let told = Segment {
            seq: self.last.seq,
            ack: self.released,
            window: window(self.released, self.edge),
            flags: Flags::ACK,
            ts_val: self.last.ts_val,
            ts_ecr: self.last.ts_ecr,
            ..Segment::default()
        };
        self.note_told(&told);
        Some(told)
    }

    /// Whether its own leg would have acknowledged more.
    pub(crate) fn is_held(&self) -> bool {
        self.made > self.acknowledged
    }

    fn note_told(&mut self, segment: &Segment) {
        self.acknowledged = self.acknowledged.max(segment.ack);
        self.told_edge = self.told_edge.max(segment.ack + u64::from(segment.window));
    }
}

/// The window that keeps an edge where it is.
fn window(acknowledged: u64, edge: u64) -> u32 {
    u32::try_from(edge.saturating_sub(acknowledged)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use weir_tcp::SackBlock;
    use weir_units::Time;

    use super::*;

    fn made(ack: u64, window: u32) -> Segment {
        let ts_val = Time::from_ns(ack);
        Segment { seq: 1, ack, window, flags: Flags::ACK, ts_val, ..Segment::default() }
    }

    fn begun() -> Clamp {
        let mut clamp = Clamp::default();
        let flags = Flags::SYN.with(Flags::ACK);
        clamp.begin(&Segment { ack: 1, window: 10_000, flags, ..Segment::default() });
        clamp
    }

    #[test]
    fn nothing_beyond_what_is_released_is_told_and_the_edge_stays() {
        let mut clamp = begun();
        // The relay has read nothing: acknowledging it would say nothing new.
        assert!(!clamp.pass(&mut made(1_001, 9_000)));
        assert!(clamp.is_held());
        // It has read: there is more room, and no other number.
        let mut roomy = made(2_001, 10_000);
        roomy.sack_count = 1;
        roomy.sack[0] = SackBlock { start: 3_001, end: 4_001 };
        assert!(clamp.pass(&mut roomy));
        assert_eq!((roomy.ack, roomy.window, roomy.sack_count), (1, 12_000, 0));
        let told = clamp.release(1_500, 2_000).expect("news");
        assert_eq!((told.seq, told.ack, told.window), (1, 1_501, 10_500));
        assert_eq!(told.ts_val, Time::from_ns(2_001), "that of the last packet");
        assert_eq!(clamp.release(1_500, 2_000), None);
        assert!(clamp.is_held());
        clamp.release(2_000, 2_000).expect("news");
        assert!(!clamp.is_held());
    }

    #[test]
    fn what_is_released_passes_as_it_is() {
        let mut clamp = begun();
        clamp.release(3_000, 3_000);
        // Behind what was lost at the client's own leg: a duplicate is one, and says what has come.
        let mut duplicate = made(1_001, 9_000);
        duplicate.sack_count = 1;
        let before = duplicate;
        assert!(clamp.pass(&mut duplicate) && clamp.pass(&mut duplicate));
        assert_eq!(duplicate, before);
    }

    #[test]
    fn data_and_an_end_leave_with_what_is_released() {
        for (len, flags) in [(100, Flags::ACK), (0, Flags::ACK.with(Flags::FIN))] {
            let mut clamp = begun();
            let mut segment = Segment { len, flags, ..made(1_001, 9_000) };
            assert!(clamp.pass(&mut segment));
            assert_eq!((segment.ack, segment.window), (1, 10_000));
            let told = clamp.release(10, 1_000).expect("news");
            assert_eq!(told.seq, 1 + u64::from(len) + u64::from(flags.has(Flags::FIN)));
        }
    }
}
