//! Idealised senders around a bottleneck: just enough of Reno and DCTCP for their published laws.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_queue::{Dscp, Ecn};
use weir_units::{Rate, Time};

use super::TestPacket;
use super::link::{Fate, Link};

pub(crate) const SIZE: u64 = 1_500;
/// DCTCP's gain (RFC 8257 section 3.3).
const GAIN: f64 = 1.0 / 16.0;

/// How a sender answers congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Law {
    /// Half the window, once per round trip, on a drop or a mark; one packet more per round trip.
    Reno,
    /// The window less half the fraction marked, once per round trip; half on a drop.
    Dctcp,
}

struct Sender {
    law: Law,
    ecn: Ecn,
    window: f64,
    in_flight: u64,
    /// Packets sent before this belong to a round that was answered already.
    round: Time,
    /// The fraction marked is taken over the packets sent from here on.
    alpha_round: Time,
    alpha: f64,
    acked: f64,
    marked: f64,
    slow_start: bool,
    delivered: u64,
}

/// What each sender got through, in packets per second, after the warm-up.
pub(crate) struct Outcome {
    pub(crate) rates: Vec<f64>,
}

/// A sender learns of its packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Answer {
    at: Time,
    number: u64,
    sender: usize,
    sent: Time,
    dropped: bool,
    marked: bool,
}

/// Lets `senders` fill `link` for `length`, each with a base round trip of `rtt` and joining
/// `apart` after the one before; what happens before `warm_up` counts for nothing. `watch` sees
/// every packet's fate after it.
pub(crate) fn run(
    link: &mut Link,
    senders: &[(Law, Ecn)],
    rtt: Time,
    [apart, warm_up, length]: [Time; 3],
    mut watch: impl FnMut(TestPacket, Fate, Time),
) -> Outcome {
    let mut senders: Vec<Sender> =
        senders.iter().map(|&(law, ecn)| Sender::new(law, ecn)).collect();
    // A sender joins as if answered then.
    let joins = |sender: usize| Answer {
        at: Time::from_ns(apart.as_ns() * sender as u64),
        number: 0,
        sender,
        sent: Time::ZERO,
        dropped: false,
        marked: false,
    };
    let mut answers: BinaryHeap<_> = (0..senders.len()).map(joins).map(Reverse).collect();
    senders.iter_mut().for_each(|sender| sender.in_flight = 1);
    let (mut link_next, mut number) = (None, 0);
    loop {
        let answer = answers.peek().map(|Reverse(answer)| answer.at);
        let Some(now) = [link_next, answer].into_iter().flatten().min() else { break };
        if now >= length {
            break;
        }
        let mut arriving = Vec::new();
        if answer == Some(now)
            && let Some(Reverse(answer)) = answers.pop()
        {
            let sender = &mut senders[answer.sender];
            sender.answer(&answer, now >= warm_up);
            for _ in sender.in_flight..sender.window as u64 {
                number += 1;
                let (ecn, flow) = (sender.ecn, answer.sender as u32);
                let dscp = Dscp::CS0;
                arriving.push(TestPacket { number, arrived: now, size: SIZE, dscp, ecn, flow });
            }
            sender.in_flight = sender.in_flight.max(sender.window as u64);
        }
        let arriving = arriving.into_iter().map(Some);
        for packet in std::iter::once(None).chain(arriving) {
            link_next = link.step(packet, now, |packet, fate| {
                if now >= warm_up {
                    watch(packet, fate, now);
                }
                answers.push(Reverse(Answer {
                    at: now + rtt,
                    number: packet.number,
                    sender: packet.flow as usize,
                    sent: packet.arrived,
                    dropped: fate == Fate::Dropped,
                    marked: packet.ecn == Ecn::Ce,
                }));
            });
        }
    }
    let span = (length - warm_up).as_s();
    Outcome { rates: senders.iter().map(|sender| sender.delivered as f64 / span).collect() }
}

impl Sender {
    fn new(law: Law, ecn: Ecn) -> Self {
        Self {
            law,
            ecn,
            window: 2.0,
            in_flight: 0,
            round: Time::ZERO,
            alpha_round: Time::ZERO,
            alpha: 1.0,
            acked: 0.0,
            marked: 0.0,
            slow_start: true,
            delivered: 0,
        }
    }

    fn answer(&mut self, answer: &Answer, counts: bool) {
        let Answer { at: now, sent, dropped, marked, .. } = *answer;
        self.in_flight -= 1;
        self.delivered += u64::from(counts && !dropped);
        self.acked += 1.0;
        self.marked += f64::from(u8::from(marked));
        if sent >= self.alpha_round {
            self.alpha += GAIN * (self.marked / self.acked - self.alpha);
            (self.acked, self.marked, self.alpha_round) = (0.0, 0.0, now);
        }
        let congested = dropped || marked;
        if congested && sent >= self.round {
            let cut = if self.law == Law::Dctcp && !dropped { self.alpha / 2.0 } else { 0.5 };
            self.window = (self.window * (1.0 - cut)).max(2.0);
            (self.round, self.slow_start) = (now, false);
        }
        if self.slow_start {
            self.window += 1.0;
        } else if !congested {
            self.window += 1.0 / self.window;
        }
    }
}

/// Packets per second of a link of `rate`.
pub(crate) fn capacity(rate: Rate) -> f64 {
    rate.as_bit_per_s() as f64 / 8.0 / SIZE as f64
}
