//! What was sent and not yet cumulatively acknowledged: one record per segment, in a ring.
//!
//! Each record is in flight, held for lost and waiting for its retransmission, or delivered out of
//! order (SACK). The first two kinds are threaded on lists through the ring, in flight by time of
//! transmission (as RACK wants them, RFC 8985 section 6.2) and lost by sequence number, so that
//! every step of loss recovery takes constant time and nothing is allocated per segment.

use weir_units::Time;

/// End of a list.
const NIL: u32 = u32::MAX;
/// An initial window (RFC 6928).
const CAPACITY_LEAST: u32 = 10;

/// Where a record is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    #[default]
    InFlight,
    /// Held for lost, not sent again yet.
    Lost,
    /// Delivered, out of order.
    Sacked,
}

/// Which of all transmissions one was, modulo 2^32: instants alone do not tell the order of what
/// left in one burst.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order(u32);

impl Order {
    pub(crate) fn is_after(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) > 0
    }
}

/// One segment that was sent. Most of the memory of a connection is these.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) seq: u64,
    /// Its last transmission.
    pub(crate) sent_at: Time,
    /// The bytes delivered by that transmission, modulo 2^32, to estimate the delivery rate.
    pub(crate) delivered: u32,
    /// How long before it, in ns, the last of them were delivered, and the first segment of the
    /// flight that it ends was sent; what is longer than 4.3 s counts as that.
    pub(crate) delivered_before: u32,
    pub(crate) first_sent_before: u32,
    /// Sequence numbers it takes; a FIN counts one.
    len: u32,
    pub(crate) order: Order,
    prev: u32,
    next: u32,
    pub(crate) place: Place,
    pub(crate) is_retransmitted: bool,
    pub(crate) is_app_limited: bool,
    /// Its packet repeated records before it (RDB).
    pub(crate) is_bundle: bool,
}

impl Sent {
    /// The first transmission of `seq..end`.
    pub(crate) fn new(seq: u64, end: u64, now: Time) -> Self {
        Self { seq, len: (end - seq) as u32, sent_at: now, ..Self::default() }
    }

    pub(crate) fn size(&self) -> u64 {
        u64::from(self.len)
    }

    /// One past its last sequence number.
    pub(crate) fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    bytes: u64,
    count: u32,
}

impl List {
    const EMPTY: Self = Self { head: NIL, tail: NIL, bytes: 0, count: 0 };
}

/// The ring. A *slot* names a record until [`Scoreboard::push`] or [`Scoreboard::pop`] is called;
/// a *position* counts records from the oldest.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    slots: Vec<Sent>,
    first: u32,
    len: u32,
    in_flight: List,
    lost: List,
    sacked_bytes: u64,
    sacked_count: u32,
    /// Records that were sent again and not delivered since.
    sent_again: u32,
    transmissions: u32,
}

impl Scoreboard {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            first: 0,
            len: 0,
            in_flight: List::EMPTY,
            lost: List::EMPTY,
            sacked_bytes: 0,
            sacked_count: 0,
            sent_again: 0,
            transmissions: 0,
        }
    }

    fn next_order(&mut self) -> Order {
        self.transmissions = self.transmissions.wrapping_add(1);
        Order(self.transmissions)
    }

    /// Takes a segment sent for the first time.
    pub(crate) fn push(&mut self, sent: Sent) {
        if self.len == self.capacity() {
            self.resize((self.len + self.len / 4).max(CAPACITY_LEAST));
        }
        let slot = self.slot(self.len);
        let order = self.next_order();
        self.slots[slot as usize] = Sent { place: Place::InFlight, order, ..sent };
        self.len += 1;
        self.link_before(NIL, slot);
    }

    /// Gives up the oldest record.
    pub(crate) fn pop(&mut self) -> Option<Sent> {
        if self.len == 0 {
            return None;
        }
        let slot = self.first;
        self.leave(slot);
        let sent = self.slots[slot as usize];
        if sent.place != Place::Sacked {
            self.sent_again -= u32::from(sent.is_retransmitted);
        }
        self.first = self.slot(1);
        self.len -= 1;
        // What slow start once needed is given back.
        if self.len < self.capacity() / 8 * 5 && self.capacity() > CAPACITY_LEAST {
            self.resize((self.len + self.len / 4).max(CAPACITY_LEAST));
        }
        Some(sent)
    }

    /// The oldest record loses its bytes before `seq`.
    pub(crate) fn trim_front(&mut self, seq: u64) {
        let slot = self.first as usize;
        let cut = seq - self.slots[slot].seq;
        self.slots[slot].seq = seq;
        self.slots[slot].len -= cut as u32;
        match self.slots[slot].place {
            Place::InFlight => self.in_flight.bytes -= cut,
            Place::Lost => self.lost.bytes -= cut,
            Place::Sacked => self.sacked_bytes -= cut,
        }
    }

    /// The record was delivered out of order.
    pub(crate) fn mark_sacked(&mut self, slot: u32) {
        self.leave(slot);
        let sent = &mut self.slots[slot as usize];
        sent.place = Place::Sacked;
        self.sacked_bytes += sent.size();
        self.sacked_count += 1;
        self.sent_again -= u32::from(sent.is_retransmitted);
    }

    /// A record in flight is held for lost.
    pub(crate) fn mark_lost(&mut self, slot: u32) {
        self.leave(slot);
        self.slots[slot as usize].place = Place::Lost;
        // Losses are found roughly in order: the place is almost always at one of the two ends.
        let seq = self.slots[slot as usize].seq;
        let mut before = NIL;
        if self.lost.head != NIL && seq < self.slots[self.lost.head as usize].seq {
            before = self.lost.head;
        } else {
            let mut last = self.lost.tail;
            while last != NIL && self.slots[last as usize].seq > seq {
                before = last;
                last = self.slots[last as usize].prev;
            }
        }
        self.link_before(before, slot);
    }

    /// The record was sent again, at `now`.
    pub(crate) fn mark_sent_again(&mut self, slot: u32, now: Time) {
        self.leave(slot);
        let order = self.next_order();
        let sent = &mut self.slots[slot as usize];
        sent.place = Place::InFlight;
        (sent.sent_at, sent.order) = (now, order);
        self.sent_again += u32::from(!sent.is_retransmitted);
        sent.is_retransmitted = true;
        self.link_before(NIL, slot);
    }

    /// Every record that was not delivered is held for lost; with `reneged`, the receiver has given
    /// up what it held (RFC 2018 section 8) and delivered records are too.
    pub(crate) fn mark_all_lost(&mut self, reneged: bool) {
        self.in_flight = List::EMPTY;
        self.lost = List::EMPTY;
        if reneged {
            (self.sacked_bytes, self.sacked_count) = (0, 0);
        }
        for position in 0..self.len {
            let slot = self.slot(position);
            let sent = &mut self.slots[slot as usize];
            if sent.place == Place::Sacked {
                if !reneged {
                    continue;
                }
                self.sent_again += u32::from(sent.is_retransmitted);
            }
            sent.place = Place::Lost;
            self.link_before(NIL, slot);
        }
    }

    /// Nothing was lost after all: what waits for retransmission is in flight as it was sent.
    pub(crate) fn unmark_lost(&mut self) {
        let mut after = self.in_flight.head;
        while self.lost.head != NIL {
            let slot = self.lost.head;
            self.leave(slot);
            self.slots[slot as usize].place = Place::InFlight;
            let lost = self.slots[slot as usize];
            let prev = if after == NIL { self.in_flight.tail } else { self.get(after).prev };
            if prev != NIL && self.get(prev).order.is_after(lost.order) {
                after = self.in_flight.head;
            }
            while after != NIL && lost.order.is_after(self.get(after).order) {
                after = self.get(after).next;
            }
            self.link_before(after, slot);
        }
    }

    pub(crate) fn get(&self, slot: u32) -> &Sent {
        &self.slots[slot as usize]
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut Sent {
        &mut self.slots[slot as usize]
    }

    pub(crate) fn front(&self) -> Option<&Sent> {
        (self.len > 0).then(|| &self.slots[self.first as usize])
    }

    pub(crate) fn back(&self) -> Option<&Sent> {
        (self.len > 0).then(|| &self.slots[self.slot(self.len - 1) as usize])
    }

    /// The slot of the record at `position`.
    pub(crate) fn slot(&self, position: u32) -> u32 {
        let slot = self.first + position;
        if slot < self.capacity() { slot } else { slot - self.capacity() }
    }

    fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The position of the record that holds `seq`, of the first if it lies before, of none if
    /// behind. `mss` is a guess at the size of the records, not more.
    pub(crate) fn find(&self, seq: u64, mss: u64) -> Option<u32> {
        let begin = self.front()?.seq;
        if seq >= self.back()?.end() {
            return None;
        }
        let guess = (seq.saturating_sub(begin) / mss.max(1)).min(u64::from(self.len - 1)) as u32;
        let record = self.get(self.slot(guess));
        if record.seq <= seq && seq < record.end() {
            return Some(guess);
        }
        let (mut low, mut high) = (0, self.len - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(self.slot(middle)).end() > seq {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(low)
    }

    /// The record in flight that was sent first.
    pub(crate) fn oldest_in_flight(&self) -> Option<u32> {
        (self.in_flight.head != NIL).then_some(self.in_flight.head)
    }

    /// The record in flight that was sent next after `slot`.
    pub(crate) fn next_in_flight(&self, slot: u32) -> Option<u32> {
        let next = self.slots[slot as usize].next;
        (next != NIL).then_some(next)
    }

    /// When the record sent last was sent.
    pub(crate) fn last_sent_at(&self) -> Option<Time> {
        (self.in_flight.tail != NIL).then(|| self.slots[self.in_flight.tail as usize].sent_at)
    }

    /// The lost record to send next.
    pub(crate) fn first_lost(&self) -> Option<u32> {
        (self.lost.head != NIL).then_some(self.lost.head)
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.in_flight.bytes
    }

    pub(crate) fn in_flight_count(&self) -> u32 {
        self.in_flight.count
    }

    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost.bytes
    }

    pub(crate) fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    pub(crate) fn sacked_count(&self) -> u32 {
        self.sacked_count
    }

    /// Records that were sent again and not delivered since.
    pub(crate) fn sent_again_count(&self) -> u32 {
        self.sent_again
    }

    /// Takes the record off its list or count.
    fn leave(&mut self, slot: u32) {
        let Sent { prev, next, place, .. } = self.slots[slot as usize];
        let size = self.slots[slot as usize].size();
        let list = match place {
            Place::InFlight => &mut self.in_flight,
            Place::Lost => &mut self.lost,
            Place::Sacked => {
                self.sacked_bytes -= size;
                self.sacked_count -= 1;
                return;
            }
        };
        list.bytes -= size;
        list.count -= 1;
        match prev {
            NIL => list.head = next,
            _ => self.slots[prev as usize].next = next,
        }
        match next {
            NIL => list.tail = prev,
            _ => self.slots[next as usize].prev = prev,
        }
    }

    /// Puts the record on the list of its place before `next`, at the end if that is `NIL`.
    fn link_before(&mut self, next: u32, slot: u32) {
        let size = self.slots[slot as usize].size();
        let list = match self.slots[slot as usize].place {
            Place::Lost => &mut self.lost,
            _ => &mut self.in_flight,
        };
        list.bytes += size;
        list.count += 1;
        let prev = match next {
            NIL => std::mem::replace(&mut list.tail, slot),
            _ => std::mem::replace(&mut self.slots[next as usize].prev, slot),
        };
        match prev {
            NIL => list.head = slot,
            _ => self.slots[prev as usize].next = slot,
        }
        self.slots[slot as usize].prev = prev;
        self.slots[slot as usize].next = next;
    }

    /// Makes the ring hold `capacity` records; they move to the front of it and their links with
    /// them.
    fn resize(&mut self, capacity: u32) {
        let (first, old) = (self.first, self.capacity());
        let moved = |slot: u32| match slot {
            NIL => NIL,
            _ if slot >= first => slot - first,
            _ => slot + old - first,
        };
        let mut slots = Vec::with_capacity(capacity as usize);
        for position in 0..self.len {
            let sent = self.slots[self.slot(position) as usize];
            slots.push(Sent { prev: moved(sent.prev), next: moved(sent.next), ..sent });
        }
        slots.resize(capacity as usize, Sent::default());
        for list in [&mut self.in_flight, &mut self.lost] {
            (list.head, list.tail) = (moved(list.head), moved(list.tail));
        }
        (self.slots, self.first) = (slots, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The same in a plain vector, searched throughout; and the beginnings of what was sent again.
    #[derive(Default)]
    struct Model(Vec<(u64, u64, Place, u64)>, BTreeSet<u64>);

    impl Model {
        fn bytes(&self, place: Place) -> u64 {
            self.0.iter().filter(|record| record.2 == place).map(|r| r.1 - r.0).sum()
        }

        fn sequence(&self, place: Place) -> Vec<u64> {
            let mut found: Vec<_> = self.0.iter().filter(|record| record.2 == place).collect();
            if place == Place::InFlight {
                found.sort_by_key(|record| record.3);
            }
            found.iter().map(|record| record.0).collect()
        }
    }

    fn listed(board: &Scoreboard, head: u32) -> Vec<u64> {
        let mut found = Vec::new();
        let mut slot = head;
        while slot != NIL {
            found.push(board.get(slot).seq);
            slot = board.get(slot).next;
        }
        found
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_list_searched_throughout(
            steps in prop::collection::vec((0u8..8, 0u64..50), 0..300),
        ) {
            let mut board = Scoreboard::new();
            let mut model = Model::default();
            let (mut nxt, mut order) = (1, 0);
            for (step, choice) in steps {
                let len = model.0.len() as u64;
                let position = choice.checked_rem(len).unwrap_or(0) as usize;
                let place = model.0.get(position).map(|record| record.2);
                match (step, place) {
                    (0..=2, _) => {
                        order += 1;
                        let end = nxt + 1 + choice;
                        board.push(Sent::new(nxt, end, Time::from_ns(order)));
                        model.0.push((nxt, end, Place::InFlight, order));
                        nxt = end;
                    }
                    (3, Some(_)) => {
                        let popped = board.pop().map(|sent| sent.seq);
                        prop_assert_eq!(popped, Some(model.0.remove(0).0));
                    }
                    (4, Some(Place::InFlight | Place::Lost)) => {
                        board.mark_sacked(board.slot(position as u32));
                        model.0[position].2 = Place::Sacked;
                    }
                    (5, Some(Place::InFlight)) => {
                        board.mark_lost(board.slot(position as u32));
                        model.0[position].2 = Place::Lost;
                    }
                    (6, Some(Place::InFlight | Place::Lost)) => {
                        order += 1;
                        board.mark_sent_again(board.slot(position as u32), Time::from_ns(order));
                        (model.0[position].2, model.0[position].3) = (Place::InFlight, order);
                        model.1.insert(model.0[position].0);
                    }
                    (7, Some(_)) if choice % 2 == 0 => {
                        let reneged = choice % 4 == 0;
                        board.mark_all_lost(reneged);
                        let alive =
                            model.0.iter_mut().filter(|r| reneged || r.2 != Place::Sacked);
                        alive.for_each(|record| record.2 = Place::Lost);
                    }
                    (7, Some(_)) => {
                        board.unmark_lost();
                        let lost = model.0.iter_mut().filter(|r| r.2 == Place::Lost);
                        lost.for_each(|record| record.2 = Place::InFlight);
                    }
                    _ => {}
                }
                prop_assert_eq!(board.in_flight_bytes(), model.bytes(Place::InFlight));
                prop_assert_eq!(board.lost_bytes(), model.bytes(Place::Lost));
                prop_assert_eq!(board.sacked_bytes(), model.bytes(Place::Sacked));
                prop_assert_eq!(board.sacked_count() as usize,
                    model.sequence(Place::Sacked).len());
                let sent_again = model.0.iter()
                    .filter(|r| r.2 != Place::Sacked && model.1.contains(&r.0));
                prop_assert_eq!(board.sent_again_count() as usize, sent_again.count());
                let in_flight = model.sequence(Place::InFlight);
                prop_assert_eq!(board.in_flight_count() as usize, in_flight.len());
                prop_assert_eq!(listed(&board, board.in_flight.head), in_flight);
                prop_assert_eq!(listed(&board, board.lost.head), model.sequence(Place::Lost));
                for record in &model.0 {
                    let found = board.find(record.1 - 1, 10).map(|at| board.slot(at));
                    prop_assert_eq!(found.map(|slot| board.get(slot).seq), Some(record.0));
                }
            }
        }
    }
}
