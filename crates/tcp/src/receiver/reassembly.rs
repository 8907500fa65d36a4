//! Which bytes arrived: the next expected, the blocks beyond it, and what to report of them
//! (RFC 2018 section 4, RFC 2883).

use std::collections::VecDeque;

use crate::segment::SackBlock;

/// Blocks kept out of order. A segment that would make one more is treated as lost: only a
/// window of that many holes, or a hostile sender, gets here.
const BLOCKS_MAX: usize = 16_384;
/// Blocks remembered for SACK, latest first.
const RECENT: usize = 4;

/// What an arriving range meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Bytes that came in order, blocks that waited for them included.
    pub(crate) in_order: u64,
    /// Bytes received before.
    pub(crate) duplicate: u64,
    /// It lies beyond a gap, fills one, or brought nothing new: acknowledge at once (RFC 5681
    /// section 4.2).
    pub(crate) is_urgent: bool,
}

#[derive(Debug)]
pub(crate) struct Reassembly {
    next: u64,
    blocks: VecDeque<SackBlock>,
    /// The blocks that SACK should tell of, latest first.
    recent: Vec<SackBlock>,
    duplicate: Option<SackBlock>,
}

impl Reassembly {
    pub(crate) fn new(next: u64) -> Self {
        Self { next, blocks: VecDeque::new(), recent: Vec::new(), duplicate: None }
    }

    /// The next byte expected.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn has_gap(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Takes `start..end`, not empty and within the window.
    pub(crate) fn take(&mut self, start: u64, end: u64) -> Arrival {
        if end <= self.next {
            self.report_duplicate(start, end);
            return Arrival { duplicate: end - start, is_urgent: true, ..Arrival::default() };
        }
        if start > self.next {
            return self.take_beyond(start, end);
        }
        let before = self.next;
        if start < before {
            self.report_duplicate(start, before);
        }
        self.next = end;
        let had_gap = self.has_gap();
        while let Some(block) = self.blocks.front() {
            if block.start > self.next {
                break;
            }
            self.next = self.next.max(block.end);
            self.blocks.pop_front();
        }
        if had_gap && self.has_gap() {
            self.forget_covered(SackBlock { start: 0, end: self.next });
        } else if had_gap {
            // A gap is rare enough that its memory is given back.
            (self.blocks, self.recent) = (VecDeque::new(), Vec::new());
        }
        Arrival { in_order: self.next - before, duplicate: before - start, is_urgent: had_gap }
    }

    fn take_beyond(&mut self, start: u64, end: u64) -> Arrival {
        let urgent = Arrival { is_urgent: true, ..Arrival::default() };
        // The first block that ends at or behind `start`'s; usually it extends the last one.
        let index = match self.blocks.back() {
            Some(last) if last.end >= start => {
                self.blocks.partition_point(|block| block.end < start)
            }
            _ => self.blocks.len(),
        };
        let mut merged = SackBlock { start, end };
        let mut behind = index;
        while let Some(&block) = self.blocks.get(behind) {
            if block.start > end {
                break;
            }
            if block.start <= start && end <= block.end {
                self.report_duplicate(start, end);
                self.remember(block);
                return Arrival { duplicate: end - start, ..urgent };
            }
            merged.start = merged.start.min(block.start);
            merged.end = merged.end.max(block.end);
            behind += 1;
        }
        if behind == index {
            if self.blocks.len() >= BLOCKS_MAX {
                return urgent;
            }
            self.blocks.insert(index, merged);
        } else {
            self.blocks[index] = merged;
            self.blocks.drain(index + 1..behind);
        }
        self.remember(merged);
        urgent
    }

    /// The blocks to report: a duplicate once, then what arrived beyond a gap, latest first.
    pub(crate) fn report(&self, sack: &mut [SackBlock]) -> u8 {
        let blocks = self.duplicate.iter().chain(&self.recent);
        let mut count = 0;
        for (to, block) in sack.iter_mut().zip(blocks) {
            *to = *block;
            count += 1;
        }
        count
    }

    pub(crate) fn has_report(&self) -> bool {
        !self.recent.is_empty() || self.duplicate.is_some()
    }

    /// The report was sent.
    pub(crate) fn on_reported(&mut self) {
        self.duplicate = None;
    }

    /// A later duplicate widens one that touches it (Linux), or takes its place.
    fn report_duplicate(&mut self, start: u64, end: u64) {
        let earlier = self.duplicate.filter(|old| old.start <= end && start <= old.end);
        let SackBlock { start: old_start, end: old_end } =
            earlier.unwrap_or(SackBlock { start, end });
        self.duplicate = Some(SackBlock { start: start.min(old_start), end: end.max(old_end) });
    }

    fn remember(&mut self, block: SackBlock) {
        self.forget_covered(block);
        self.recent.truncate(RECENT - 1);
        self.recent.insert(0, block);
    }

    fn forget_covered(&mut self, by: SackBlock) {
        self.recent.retain(|block| block.start < by.start || block.end > by.end);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn block(start: u64, end: u64) -> SackBlock {
        SackBlock { start, end }
    }

    fn report(reassembly: &Reassembly) -> Vec<SackBlock> {
        let mut sack = [SackBlock::default(); 3];
        let count = reassembly.report(&mut sack);
        sack[..usize::from(count)].to_vec()
    }

    #[test]
    fn the_block_that_arrived_last_is_reported_first() {
        // RFC 2018 section 5, case 3 of the examples: every second segment is lost.
        let mut reassembly = Reassembly::new(5_000);
        for start in [5_500, 6_500, 7_500, 8_500] {
            reassembly.take(start, start + 500);
        }
        let latest = [block(8_500, 9_000), block(7_500, 8_000), block(6_500, 7_000)];
        assert_eq!(report(&reassembly), latest);
        // The fourth segment arrives: two blocks become one, and it is the latest.
        reassembly.take(7_000, 7_500);
        let merged = [block(6_500, 8_000), block(8_500, 9_000), block(5_500, 6_000)];
        assert_eq!(report(&reassembly), merged);
    }

    #[test]
    fn what_came_twice_is_reported_once_before_the_rest() {
        // RFC 2883 section 4.
        let mut reassembly = Reassembly::new(0);
        reassembly.take(0, 1_000);
        reassembly.take(2_000, 3_000);
        assert!(reassembly.take(0, 500).is_urgent);
        assert_eq!(report(&reassembly), [block(0, 500), block(2_000, 3_000)]);
        reassembly.on_reported();
        assert_eq!(report(&reassembly), [block(2_000, 3_000)]);
        assert_eq!(reassembly.take(2_200, 2_400).duplicate, 200);
        assert_eq!(report(&reassembly)[..2], [block(2_200, 2_400), block(2_000, 3_000)]);
    }

    proptest! {
        #[test]
        fn it_knows_what_a_set_of_bytes_knows(
            ranges in prop::collection::vec((0u64..300, 1u64..60), 0..80),
        ) {
            let mut reassembly = Reassembly::new(0);
            let mut bytes = BTreeSet::new();
            let mut next = 0;
            for (start, len) in ranges {
                let arrival = reassembly.take(start, start + len);
                bytes.extend(start..start + len);
                let expected = (next..).find(|byte| !bytes.contains(byte)).unwrap_or(next);
                prop_assert_eq!(reassembly.next(), expected);
                prop_assert_eq!(arrival.in_order, expected - next);
                next = expected;
                prop_assert_eq!(reassembly.has_gap(), bytes.range(next..).next().is_some());
                let first = usize::from(reassembly.duplicate.is_some());
                for SackBlock { start, end } in report(&reassembly).into_iter().skip(first) {
                    // Blocks are whole: received throughout, and bounded by what was not.
                    prop_assert!((start..end).all(|byte| bytes.contains(&byte)));
                    prop_assert!(!bytes.contains(&end) && !bytes.contains(&(start - 1)));
                }
                reassembly.on_reported();
            }
        }
    }
}
