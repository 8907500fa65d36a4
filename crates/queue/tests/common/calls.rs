//! Any sequence of calls to a discipline, and what must hold for every one of them. Used by the
//! property tests and by the fuzz target `queue`.

use weir_queue::{DisciplineConfig, Dropped, Dscp, Ecn, Limit, Random};
use weir_units::{Bytes, Time};

use super::{Queue, RATE, TestPacket};

/// One call, after `gap` since the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) gap: Time,
    pub(crate) action: Action,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Enqueue { size: u64, kind: u8 },
    Dequeue,
}

impl Call {
    /// Any four bytes are a call.
    pub(crate) fn of_bytes([action, kind, size, gap]: [u8; 4]) -> Self {
        // Gaps from 0 to 0.5 s, most of them short: 4 bits of exponent, 4 of mantissa.
        let gap = (u64::from(gap & 15) << (gap >> 4)) * 1_000;
        let action = match action % 5 {
            0..3 => Action::Enqueue { size: 1 + u64::from(size) * 8, kind },
            _ => Action::Dequeue,
        };
        Self { gap: Time::from_ns(gap), action }
    }
}

fn packet(number: u64, size: u64, kind: u8, now: Time) -> TestPacket {
    let ecn = Ecn::of_octet(kind);
    let dscp = Dscp::of_octet([0, 8, 46, 10][usize::from(kind >> 2 & 3)] << 2);
    TestPacket { number, arrived: now, size, dscp, ecn, flow: u32::from(kind >> 4) }
}

/// A discipline in use, with all that went in and came out.
struct Play {
    queue: Queue,
    limit: Limit,
    now: Time,
    offered: Vec<TestPacket>,
    left: Vec<TestPacket>,
    dropped: Vec<Dropped<TestPacket>>,
    /// Packets out and dropped, folded in order, to compare two plays by.
    digest: u64,
}

/// Plays `calls` twice; panics where anything is violated. Returns a digest of what came out.
pub(crate) fn play(config: &DisciplineConfig, calls: &[Call]) -> u64 {
    let once = || {
        let random = Random::of_source(1, &["queue"]);
        let queue = config.build(Some(RATE), random).expect("valid parameters");
        let mut play = Play {
            queue: Box::new(queue),
            limit: config.limit(Some(RATE)),
            now: Time::ZERO,
            offered: Vec::new(),
            left: Vec::new(),
            dropped: Vec::new(),
            digest: 0,
        };
        calls.iter().for_each(|call| play.call(*call));
        play.drain();
        play.check_end();
        play.digest
    };
    let digest = once();
    assert_eq!(digest, once(), "the same calls gave another outcome");
    digest
}

impl Play {
    fn call(&mut self, call: Call) {
        self.advance(self.now.saturating_add(call.gap));
        match call.action {
            Action::Enqueue { size, kind } => {
                let packet = packet(self.offered.len() as u64, size, kind, self.now);
                self.offered.push(packet);
                self.queue.enqueue(packet, self.now, &mut self.dropped);
            }
            Action::Dequeue => self.dequeue(),
        }
        self.check();
    }

    fn advance(&mut self, to: Time) {
        while let Some(event) = self.queue.next_event().filter(|&event| event <= to) {
            self.now = self.now.max(event);
            self.queue.on_timer(self.now, &mut self.dropped);
            let next = self.queue.next_event();
            assert!(next.is_none_or(|next| next > self.now), "a timer stays due");
        }
        self.now = to;
    }

    fn dequeue(&mut self) {
        let (backlog, before) = (self.queue.backlog(), self.dropped.len());
        let packet = self.queue.dequeue(self.now, &mut self.dropped);
        let after = self.queue.backlog();
        let gone = backlog.packets - after.packets;
        let dropped = (self.dropped.len() - before) as u64;
        assert_eq!(gone, dropped + u64::from(packet.is_some()), "packets that left the backlog");
        if packet.is_none() && !after.is_empty() {
            let event = self.queue.next_event();
            assert!(event.is_some_and(|at| at > self.now), "held back without an end: {event:?}");
        }
        if let Some(packet) = packet {
            self.digest = fold(self.digest, packet.number * 4 + packet.ecn as u64);
            self.left.push(packet);
        }
    }

    /// Empties the queue, waiting where it asks for it.
    fn drain(&mut self) {
        while !self.queue.backlog().is_empty() {
            let before = self.queue.backlog();
            self.dequeue();
            if self.queue.backlog() == before {
                let event = self.queue.next_event().expect("checked by dequeue");
                self.advance(event);
            }
        }
        self.check();
    }

    /// What holds after every call.
    fn check(&self) {
        let classes = self.queue.classes();
        let mut packets = 0;
        for class in &classes {
            let accounted = class.packets_out + class.dropped() + class.backlog.packets;
            assert_eq!(class.packets_in, accounted, "packets of class {}", class.name);
            let bytes = class.bytes_out + class.dropped_bytes + class.backlog.bytes;
            assert_eq!(class.bytes_in, bytes, "bytes of class {}", class.name);
            assert_eq!(class.sojourn.count(), class.packets_out, "sojourns of {}", class.name);
            assert!(class.sojourn.max() <= self.now, "a packet waited before it came");
            packets += class.backlog.packets;
        }
        let backlog = self.queue.backlog();
        assert_eq!(packets, backlog.packets, "the classes together");
        let inside = self.offered.len() - self.left.len() - self.dropped.len();
        assert_eq!(inside as u64, backlog.packets, "packets inside");
        match self.limit {
            Limit::Bytes(bytes) => assert!(backlog.bytes <= bytes, "more bytes than allowed"),
            Limit::Packets(most) => assert!(backlog.packets <= most, "more packets than allowed"),
            Limit::None => {}
        }
    }

    /// What holds for the whole play: every packet came out once, as it went in but for a mark, and
    /// those that are alike in order.
    fn check_end(&mut self) {
        assert_eq!(self.queue.backlog().bytes, Bytes::ZERO);
        let mut seen = vec![false; self.offered.len()];
        let mut latest = std::collections::BTreeMap::new();
        let mut marked = 0;
        for packet in &self.left {
            let offered = self.offered[packet.number as usize];
            assert!(!std::mem::replace(&mut seen[packet.number as usize], true), "twice");
            let became_ce = packet.ecn != offered.ecn;
            marked += u64::from(became_ce);
            assert!(!became_ce || offered.ecn.is_capable() && packet.ecn == Ecn::Ce, "{packet:?}");
            assert_eq!(TestPacket { ecn: offered.ecn, ..*packet }, offered);
            let kind = (offered.flow, offered.dscp.value(), offered.ecn as u8);
            let before = latest.insert(kind, packet.number);
            assert!(before.is_none_or(|before| before < packet.number), "{packet:?} overtook");
        }
        for dropped in &self.dropped {
            let number = dropped.packet.number;
            assert!(!std::mem::replace(&mut seen[number as usize], true), "out and dropped");
            self.digest = fold(self.digest, number);
        }
        assert!(seen.into_iter().all(|seen| seen), "a packet vanished");
        let counted: u64 = self.queue.classes().iter().map(|class| class.marked).sum();
        assert!(marked <= counted, "{marked} packets became CE, {counted} marks were counted");
    }
}

fn fold(digest: u64, value: u64) -> u64 {
    (digest ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5)
}
