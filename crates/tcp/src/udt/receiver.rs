//! The receiving side of UDT: what is missing, how fast packets arrive, what is reported.

use std::collections::{BTreeMap, VecDeque};

use weir_units::Time;

use super::control::SYN;
use super::{Message, PAIR, Report};

/// Intervals that an estimate is made of.
const INTERVALS: usize = 16;
/// Intervals beyond this factor of the median are left out.
const OUTLIER: f64 = 8.0;

/// The receiving side.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    /// One more than the newest that arrived.
    expected: u64,
    /// When each was last reported.
    missing: BTreeMap<u64, Time>,
    arrivals: Intervals,
    pairs: Intervals,
    /// The packet that arrived last, when, and when it was sent.
    last: Option<(u64, Time, Time)>,
    acked: u64,
    /// First and one past the last of ranges to be reported as missing.
    reports: VecDeque<(u64, u64)>,
    /// When to acknowledge next, once packets arrive.
    ack_at: Option<Time>,
    /// When to look for what is to be reported again.
    again_at: Option<Time>,
}

impl Receiver {
    /// Packet `seq`, sent at `sent`, has arrived; says whether it had not before.
    pub(super) fn on_data(&mut self, seq: u64, sent: Time, now: Time) -> bool {
        if let Some((last, at, _)) = self.last {
            self.arrivals.push(now - at);
            if seq == last + 1 && last.is_multiple_of(PAIR) {
                self.pairs.push(now - at);
            }
        }
        self.last = Some((seq, now, sent));
        self.ack_at.get_or_insert(now + SYN);
        if seq < self.expected {
            return self.missing.remove(&seq).is_some();
        }
        if seq > self.expected {
            self.missing.extend((self.expected..seq).map(|seq| (seq, now)));
            self.reports.push_back((self.expected, seq));
        }
        self.expected = seq + 1;
        true
    }

    /// What to tell the sender now; call until there is nothing. `rtt` is what the sender measured
    /// (UDT tells it by ACK2).
    pub(super) fn poll(&mut self, rtt: Time, now: Time) -> Option<Message> {
        self.report_again(rtt, now);
        if let Some((first, end)) = self.reports.pop_front() {
            return Some(Message::Nak { first, end });
        }
        self.ack_at.filter(|at| *at <= now)?;
        self.ack_at = None;
        let next = self.missing.first_key_value().map_or(self.expected, |(seq, _)| *seq);
        if next == self.acked {
            return None;
        }
        self.acked = next;
        let (_, at, sent) = self.last?;
        let report =
            Report { arrivals_per_s: self.arrivals.per_s(), capacity_per_s: self.pairs.per_s() };
        Some(Message::Ack { next, report, echo: sent, held: now - at })
    }

    /// Reports what was asked for two round trips ago and has not come: it was lost again.
    fn report_again(&mut self, rtt: Time, now: Time) {
        let patience = rtt + rtt + SYN;
        if self.again_at.is_some_and(|at| at <= now) {
            self.again_at = None;
            for (&seq, asked) in &mut self.missing {
                if *asked + patience > now {
                    continue;
                }
                *asked = now;
                match self.reports.back_mut() {
                    Some((_, end)) if *end == seq => *end += 1,
                    _ => self.reports.push_back((seq, seq + 1)),
                }
            }
        }
        if !self.missing.is_empty() && self.again_at.is_none() {
            self.again_at = Some(now + patience);
        }
    }

    pub(super) fn next_timer(&self) -> Option<Time> {
        [self.ack_at, self.again_at].into_iter().flatten().min()
    }
}

/// The last intervals, whose median tells outliers from the rest.
#[derive(Debug, Default)]
struct Intervals {
    ring: [f64; INTERVALS],
    count: usize,
}

impl Intervals {
    fn push(&mut self, interval: Time) {
        self.ring[self.count % INTERVALS] = interval.as_s();
        self.count += 1;
    }

    /// Packets per second; nothing before there are enough intervals that agree.
    fn per_s(&self) -> Option<f64> {
        if self.count < INTERVALS {
            return None;
        }
        let mut sorted = self.ring;
        sorted.sort_by(f64::total_cmp);
        let median = sorted[INTERVALS / 2];
        let kept = |at: &&f64| **at > median / OUTLIER && **at < median * OUTLIER;
        let (count, sum) =
            sorted.iter().filter(kept).fold((0, 0.0), |(count, sum), at| (count + 1, sum + at));
        (count > INTERVALS / 2 && sum > 0.0).then(|| f64::from(count as u32) / sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Time = Time::from_ms(100);

    fn told(receiver: &mut Receiver, now: Time) -> Vec<Message> {
        std::iter::from_fn(|| receiver.poll(RTT, now)).collect()
    }

    #[test]
    fn a_gap_is_reported_at_once_and_again_until_it_is_filled() {
        let mut receiver = Receiver::default();
        for seq in [0, 1, 5, 6] {
            assert!(receiver.on_data(seq, Time::ZERO, Time::from_ms(seq)));
        }
        let nak = Message::Nak { first: 2, end: 5 };
        assert_eq!(told(&mut receiver, Time::from_ms(6)), [nak]);
        assert_eq!(told(&mut receiver, Time::from_ms(9)), []);
        assert!(receiver.on_data(3, Time::ZERO, Time::from_ms(100)));
        assert!(!receiver.on_data(3, Time::ZERO, Time::from_ms(100)), "it came twice");
        let again = receiver.again_at.expect("two are missing");
        assert_eq!(again, Time::from_ms(6 + 2 * 100 + 10));
        let told = told(&mut receiver, again);
        let naks = [Message::Nak { first: 2, end: 3 }, Message::Nak { first: 4, end: 5 }];
        assert_eq!(told[..2], naks);
        let Message::Ack { next, .. } = told[2] else { panic!("{told:?}") };
        assert_eq!(next, 2, "what arrived without a gap");
    }

    #[test]
    fn rates_are_those_of_arrivals_and_of_pairs() {
        // 1000 packets per second; the second of a pair comes 0.1 ms after the first.
        let mut receiver = Receiver::default();
        for seq in 0..400u64 {
            let early = if seq % PAIR == 1 { 900 } else { 0 };
            receiver.on_data(seq, Time::ZERO, Time::from_us(1_000 * seq - early));
        }
        assert_eq!(receiver.pairs.per_s().map(f64::round), Some(10_000.0));
        let arrivals = receiver.arrivals.per_s().expect("enough");
        assert!((900.0..1_100.0).contains(&arrivals), "{arrivals}");
    }
}
