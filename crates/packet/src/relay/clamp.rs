//! A client's acknowledgements as `weir relay join --linked-ack strict` has them: the kernel makes
//! them, and a filter at its way out (weir/relay/hold.bpf.c) sets those back that go beyond what is
//! released. The same rules, over numbers that never wrap.
//!
//! What the client has lost on its own leg takes two more. The kernel's number stands before the
//! hole until that is repaired, and then leaps beyond all that it has told selectively (SACK). What
//! is released follows byte by byte. A client that saw it walk there would be told that its
//! retransmission has come before data that it had sent earlier, and hold these for lost (RACK, RFC
//! 8985); or find the head of its queue told selectively and not acknowledged, and take the one for
//! withdrawn (RFC 2018 section 8). So a leap is told as one, when all of it is released. And the
//! acknowledgement that brings a client to a hole says what has come beyond it.

use std::ops::Range;

use weir_aggregate::linked_ack::Linked;
use weir_tcp::{Flags, SackBlock, Segment};

/// What the filter knows of a client's connection.
#[derive(Debug, Default)]
pub(crate) struct Clamp {
    /// What the server has acknowledged.
    linked: Linked,
    /// The number up to which may be acknowledged, and the furthest that the client was sent.
    released: u64,
    acknowledged: u64,
    /// The furthest that its own leg would have acknowledged, and what has come beyond it.
    made: u64,
    beyond: [SackBlock; 3],
    beyond_count: u8,
    /// The end of what the client was told selectively, or `made` if that is further.
    told_beyond: u64,
    /// A leap of `made` across what was told selectively: nothing inside is acknowledged.
    leap: Range<u64>,
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
        self.told_beyond = answer.ack;
        (self.edge, self.told_edge) = (answer.ack + window, answer.ack + window);
        self.last = Segment { seq: answer.end(), ..*answer };
    }

    /// A packet is about to leave: it acknowledges no more than may be told when it does. Whether
    /// it does at all: one that would say nothing new would be counted as a duplicate.
    pub(crate) fn pass(&mut self, segment: &mut Segment) -> bool {
        let edge = segment.ack + u64::from(segment.window);
        self.note_made(segment);
        self.edge = self.edge.max(edge);
        self.last = Segment { seq: self.last.seq.max(segment.end()), ..*segment };
        let may_tell = self.may_tell();
        if segment.ack > may_tell {
            let is_alone = segment.len == 0 && !segment.flags.has(Flags::FIN);
            let told = edge.max(may_tell);
            if is_alone && may_tell <= self.acknowledged && told <= self.told_edge {
                return false;
            }
            segment.sack_count = 0;
            segment.ack = may_tell;
            segment.window = window(may_tell, told);
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
        let may_tell = self.may_tell();
        if may_tell <= self.acknowledged {
            return None;
        }
        let told = Segment {
            seq: self.last.seq,
            ack: may_tell,
            window: window(may_tell, self.edge),
            flags: Flags::ACK,
            ts_val: self.last.ts_val,
            ts_ecr: self.last.ts_ecr,
            sack: self.beyond,
            sack_count: if may_tell == self.made { self.beyond_count } else { 0 },
            ..Segment::default()
        };
        self.note_told(&told);
        Some(told)
    }

    /// What is released, unless that is inside a leap.
    fn may_tell(&self) -> u64 {
        let is_inside = self.leap.start < self.released && self.released < self.leap.end;
        if is_inside { self.leap.start } else { self.released }
    }

    /// Its own leg would say this: where that leaps across what was told, and what is beyond now.
    fn note_made(&mut self, segment: &Segment) {
        if segment.ack > self.made {
            if self.made < self.told_beyond {
                let is_under_way = self.released < self.leap.end;
                let start = if is_under_way { self.leap.start } else { self.made };
                self.leap = start..segment.ack;
            }
            self.made = segment.ack;
            self.told_beyond = self.told_beyond.max(self.made);
        }
        if segment.ack == self.made {
            // The first may be of what has come twice (RFC 2883), and is said once.
            let blocks = segment.sack_blocks();
            let is_twice = |at: usize, block: &SackBlock| {
                at == 0
                    && blocks.get(1).is_some_and(|b| b.start <= block.start && block.end <= b.end)
            };
            let of_beyond = blocks
                .iter()
                .enumerate()
                .filter(|&(at, block)| block.start > segment.ack && !is_twice(at, block));
            self.beyond_count = 0;
            for (_, &block) in of_beyond {
                self.beyond[usize::from(self.beyond_count)] = block;
                self.beyond_count += 1;
            }
        }
    }

    /// Whether its own leg would have acknowledged more.
    pub(crate) fn is_held(&self) -> bool {
        self.made > self.acknowledged
    }

    fn note_told(&mut self, segment: &Segment) {
        self.acknowledged = self.acknowledged.max(segment.ack);
        self.told_edge = self.told_edge.max(segment.ack + u64::from(segment.window));
        let furthest = segment.sack_blocks().iter().map(|block| block.end).max();
        self.told_beyond = self.told_beyond.max(furthest.unwrap_or_default());
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

    /// What the client's own leg says with so much beyond a hole.
    fn behind(ack: u64, blocks: &[(u64, u64)]) -> Segment {
        let mut segment = made(ack, 10_001 - ack as u32);
        segment.sack_count = blocks.len() as u8;
        for (block, &(start, end)) in segment.sack.iter_mut().zip(blocks) {
            *block = SackBlock { start, end };
        }
        segment
    }

    #[test]
    fn a_leap_across_what_was_told_selectively_is_told_as_one() {
        let mut clamp = begun();
        clamp.release(1_000, 1_000).expect("news");
        assert!(clamp.pass(&mut behind(1_001, &[(2_001, 4_001)])));
        // The hole is repaired, and the server has not yet what was behind it.
        assert!(!clamp.pass(&mut made(4_001, 6_000)));
        for until in [1_500, 2_000, 3_999] {
            assert_eq!(clamp.release(until, 4_000), None, "{until}");
        }
        let told = clamp.release(4_000, 4_000).expect("news");
        assert_eq!((told.ack, told.sack_count), (4_001, 0));
        // From there on byte by byte.
        assert!(!clamp.pass(&mut made(6_001, 4_000)));
        assert_eq!(clamp.release(4_500, 6_000).expect("news").ack, 4_501);
    }

    #[test]
    fn of_holes_that_the_client_knows_all_are_told_as_one() {
        let mut clamp = begun();
        clamp.release(1_000, 1_000).expect("news");
        assert!(clamp.pass(&mut behind(1_001, &[(3_001, 4_001), (2_001, 2_501)])));
        assert!(!clamp.pass(&mut behind(2_501, &[(3_001, 4_001)])));
        assert!(!clamp.pass(&mut made(4_001, 6_000)));
        assert_eq!(clamp.release(2_600, 4_000), None);
        assert_eq!(clamp.release(4_000, 4_000).expect("news").ack, 4_001);
    }

    #[test]
    fn a_hole_that_no_client_knows_of_holds_nothing_up() {
        let mut clamp = begun();
        assert!(!clamp.pass(&mut behind(1_001, &[(2_001, 4_001)])));
        assert!(!clamp.pass(&mut made(4_001, 6_000)));
        assert_eq!(clamp.release(1_500, 4_000).expect("news").ack, 1_501);
    }

    #[test]
    fn what_brings_a_client_to_a_hole_says_what_has_come_beyond() {
        let mut clamp = begun();
        // The first has come twice (RFC 2883): below the number, or inside of the second.
        for (first, rest) in [((501, 801), 1), ((2_101, 2_201), 1), ((5_001, 6_001), 2)] {
            assert!(!clamp.pass(&mut behind(1_001, &[first, (2_001, 4_001)])));
            assert_eq!(clamp.beyond_count, rest);
        }
        assert_eq!(clamp.release(999, 1_000).expect("news").sack_count, 0);
        let told = clamp.release(1_000, 1_000).expect("news");
        let blocks = told.sack_blocks().iter().map(|block| (block.start, block.end));
        assert!(blocks.eq([(5_001, 6_001), (2_001, 4_001)]));
        assert!(!clamp.pass(&mut made(6_001, 4_000)), "a leap");
        assert_eq!(clamp.release(2_000, 6_000), None);
    }
}
