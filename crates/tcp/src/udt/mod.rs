//! UDT: a rate-based mover over UDP.
//!
//! Gu and Grossman, "UDT: UDP-based data transfer for high-speed wide area networks" (2007), and
//! draft-gg-udt-03: packets at the pace of the rate control and within a window, the first of 16
//! and the next as a pair; a selective acknowledgement each SYN of 10 ms with the rate of arrival
//! and the capacity that the pairs show; a report of loss as soon as there is a gap. The control is
//! that of the program, UDT 4.11, where it departs from the draft.
//!
//! Departures: no handshake, light acknowledgements or keep-alives; instead of ACK2 the time stamp
//! of a packet is echoed, and the receiver knows the round-trip time from the sender; missing
//! packets are asked for again after two round trips and SYN (the draft: four; UDT 4.11: never, it
//! waits until nothing is heard).

mod control;
mod receiver;

use std::collections::BTreeSet;

use weir_random::Random;
use weir_units::Time;

use control::{Control, SYN};
use receiver::Receiver;

/// A packet of data, IP, UDP and UDT headers (16 bytes) included.
pub const PACKET_BYTES: u32 = 1500;
/// IPv4, UDP and UDT headers.
const HEADERS: u16 = 44;
/// The first of so many packets and the next are sent as a pair.
const PAIR: u64 = 16;
/// Without a word from the receiver, all that is unacknowledged counts as lost after this and some
/// round trips.
const SILENCE: Time = Time::from_ms(500);

/// What a packet of UDT tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Message {
    /// A packet of data.
    Data {
        /// Its number.
        seq: u64,
        /// When it was sent.
        sent: Time,
    },
    /// What has arrived.
    Ack {
        /// All packets before this one.
        next: u64,
        /// What the receiver measured.
        report: Report,
        /// When the newest packet was sent.
        echo: Time,
        /// How long ago that arrived.
        held: Time,
    },
    /// What is missing.
    Nak {
        /// From this packet on.
        first: u64,
        /// The first that is not missing any more.
        end: u64,
    },
}

impl Message {
    /// Whether it goes from the sender to the receiver.
    pub const fn is_data(&self) -> bool {
        matches!(self, Self::Data { .. })
    }

    /// On the wire, IP header included.
    pub const fn size(&self) -> u16 {
        match self {
            Self::Data { .. } => PACKET_BYTES as u16,
            Self::Ack { .. } => HEADERS + 24,
            Self::Nak { .. } => HEADERS + 8,
        }
    }
}

/// What the receiver measured; nothing before it could.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    arrivals_per_s: Option<f64>,
    capacity_per_s: Option<f64>,
}

/// Both sides of a transfer without end.
#[derive(Debug)]
pub struct Udt {
    control: Control,
    receiver: Receiver,
    /// The next new packet.
    next: u64,
    /// All before it has arrived.
    acked: u64,
    lost: BTreeSet<u64>,
    /// When the rate lets the next packet leave.
    due: Time,
    rtt: Time,
    heard: Time,
    /// No more data from then on.
    stop: Time,
}

impl Udt {
    /// Sends data from `start` to before `stop`; decreases of the rate are drawn from `random`.
    pub fn new(random: Random, start: Time, stop: Time) -> Self {
        Self {
            control: Control::new(random),
            receiver: Receiver::default(),
            next: 0,
            acked: 0,
            lost: BTreeSet::new(),
            due: start,
            // UDT's first guess.
            rtt: Time::from_ms(100),
            heard: start,
            stop,
        }
    }

    /// The next packet of either side; call until there is none.
    pub fn poll(&mut self, now: Time) -> Option<Message> {
        self.poll_sender(now).or_else(|| self.receiver.poll(self.rtt, now))
    }

    fn poll_sender(&mut self, now: Time) -> Option<Message> {
        self.expire(now);
        if now < self.due || now >= self.stop {
            return None;
        }
        let seq = match self.lost.pop_first() {
            Some(seq) => seq,
            None if self.has_window() => {
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        let is_first_of_pair = seq.is_multiple_of(PAIR) && seq + 1 == self.next;
        let period = if is_first_of_pair { Time::ZERO } else { self.control.period() };
        // What was left undone while the window was full is not made up for.
        self.due = now + period;
        Some(Message::Data { seq, sent: now })
    }

    /// A packet has arrived at the side that it is for; returns how many bytes of data are new.
    pub fn on_message(&mut self, message: Message, now: Time) -> u16 {
        match message {
            Message::Data { seq, sent } => {
                let is_new = self.receiver.on_data(seq, sent, now);
                return if is_new { message.size() - HEADERS } else { 0 };
            }
            Message::Ack { next, report, echo, held } => {
                self.heard = now;
                let sample = (now - echo).saturating_sub(held);
                self.rtt = Time::from_ns((7 * self.rtt.as_ns() + sample.as_ns()) / 8);
                let acked = next.saturating_sub(self.acked);
                self.acked += acked;
                self.lost = self.lost.split_off(&next);
                self.control.on_ack(acked, report, self.rtt);
            }
            Message::Nak { first, end } => {
                self.heard = now;
                self.lost.extend(first.max(self.acked)..end);
                self.control.on_loss(first, self.next - 1, self.rtt);
            }
        }
        0
    }

    /// When one of the sides is to be polled next.
    pub fn next_timer(&self) -> Option<Time> {
        let can_send = !self.lost.is_empty() || self.has_window();
        let send = can_send.then_some(self.due);
        let expiry = (self.acked < self.next).then(|| self.expiry());
        let sender = [send, expiry].into_iter().flatten().min().filter(|at| *at < self.stop);
        [sender, self.receiver.next_timer()].into_iter().flatten().min()
    }

    fn has_window(&self) -> bool {
        self.next - self.acked < self.control.window()
    }

    fn expiry(&self) -> Time {
        self.heard + SILENCE + self.rtt + self.rtt + SYN
    }

    fn expire(&mut self, now: Time) {
        if self.acked < self.next && self.expiry() <= now {
            self.heard = now;
            self.lost.extend(self.acked..self.next);
        }
    }
}
