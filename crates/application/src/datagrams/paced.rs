//! Datagrams of one size at a rate that changes.

use weir_units::{Rate, Time};

use super::{Bursts, HEADERS, packet_nanobits};

/// A rate that changes: from each instant on, the rate beside it.
#[derive(Clone, Debug)]
pub enum Rates {
    /// One rate for ever.
    Constant(Rate),
    /// `on` at the rate, `off` silent, and again.
    OnOff {
        /// While it is on.
        rate: Rate,
        /// How long it is on.
        on: Time,
        /// How long it is silent.
        off: Time,
    },
    /// Instants from the source's start, in order.
    Listed(Vec<(Time, Rate)>),
    /// As many bursts as are under way.
    Bursts(Box<Bursts>),
}

impl Rates {
    /// Change `number`: when, counted from the start, and to what. `None` after the last. Each is
    /// asked for once, in order.
    fn change(&mut self, number: usize) -> Option<(Time, Rate)> {
        match self {
            Self::Constant(rate) => (number == 0).then_some((Time::ZERO, *rate)),
            Self::OnOff { rate, on, off } => {
                let cycles = number as u64 / 2;
                let begin = Time::from_ns((on.as_ns() + off.as_ns()).saturating_mul(cycles));
                Some(if number.is_multiple_of(2) {
                    (begin, *rate)
                } else {
                    (begin.saturating_add(*on), Rate::ZERO)
                })
            }
            Self::Listed(changes) => changes.get(number).copied(),
            Self::Bursts(bursts) => bursts.next(),
        }
    }
}

/// Packets of one size, each due when the integral of the rate says so: exactly, in integers.
#[derive(Clone, Debug)]
pub struct Paced {
    rates: Rates,
    size: u16,
    start: Time,
    /// The next change of the rate, and how many there were before it.
    upcoming: Option<(Time, Rate)>,
    changes: usize,
    rate: Rate,
    /// Up to where the integral was taken.
    at: Time,
    /// Until the next packet, in bits x 10^-9.
    wanting: u64,
}

impl Paced {
    /// Packets of `size` bytes, IP header included, from `start` on.
    pub fn new(mut rates: Rates, size: u16, start: Time) -> Self {
        let (wanting, upcoming) = (packet_nanobits(size), rates.change(0));
        Self { rates, size, start, upcoming, changes: 0, rate: Rate::ZERO, at: start, wanting }
    }

    /// Bytes of each packet, IP header included.
    pub const fn size(&self) -> u16 {
        self.size
    }

    /// Bytes of payload of each, over UDP and IPv4.
    pub const fn payload(&self) -> u16 {
        self.size.saturating_sub(HEADERS as u16)
    }
}

impl Iterator for Paced {
    type Item = Time;

    /// When the next packet leaves; `None` when there is none any more.
    fn next(&mut self) -> Option<Time> {
        loop {
            let change_at = self.upcoming.map(|(at, _)| self.start.saturating_add(at));
            let rate = self.rate.as_bit_per_s();
            if let Some(span) = self.wanting.checked_next_multiple_of(rate.max(1)) {
                let due = self.at.saturating_add(Time::from_ns(span / rate.max(1)));
                if rate > 0 && change_at.is_none_or(|at| due <= at) {
                    // What the whole nanosecond gave beyond this packet counts for the next.
                    let beyond = span - self.wanting;
                    self.wanting = packet_nanobits(self.size).saturating_sub(beyond);
                    self.at = due;
                    return Some(due);
                }
            }
            let ((_, new_rate), at) = (self.upcoming?, change_at?);
            let given = rate.saturating_mul((at - self.at).as_ns());
            self.wanting = self.wanting.saturating_sub(given);
            self.at = at;
            self.rate = new_rate;
            self.changes += 1;
            self.upcoming = self.rates.change(self.changes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(rates: Rates, size: u16, count: usize) -> Vec<u64> {
        Paced::new(rates, size, Time::ZERO).take(count).map(Time::as_ns).collect()
    }

    #[test]
    fn a_constant_rate_is_exact_over_any_length() {
        // 1250 B at 3 bit/ns is 10^4/3 ns: the third packet is due at 10^4 ns to the nanosecond.
        let rate = Rate::from_bit_per_s(3_000_000_000);
        let times = due(Rates::Constant(rate), 1250, 3_000_000);
        assert_eq!(times[..3], [3_334, 6_667, 10_000]);
        assert_eq!(times[2_999_999], 10_000_000_000);
    }

    #[test]
    fn a_silence_keeps_what_had_come_due() {
        // 1000 B at 8 Mbit/s: 1 ms each; 2.5 ms on, 10 ms off.
        let rates = Rates::OnOff {
            rate: Rate::from_mbit_per_s(8),
            on: Time::from_us(2_500),
            off: Time::from_ms(10),
        };
        let us: Vec<u64> = due(rates, 1_000, 5).iter().map(|ns| ns / 1_000).collect();
        assert_eq!(us, [1_000, 2_000, 13_000, 14_000, 15_000]);
    }

    #[test]
    fn a_list_of_rates_ends_with_its_last_rate() {
        let at = |ms, mbit| (Time::from_ms(ms), Rate::from_mbit_per_s(mbit));
        let rates = Rates::Listed(vec![at(1, 8), at(2, 0)]);
        assert_eq!(due(rates, 500, 5), [1_500_000, 2_000_000]);
    }

    #[test]
    fn times_count_from_the_start() {
        let rates = Rates::Constant(Rate::from_mbit_per_s(8));
        let mut paced = Paced::new(rates, 1_000, Time::from_ms(5));
        assert_eq!(paced.next(), Some(Time::from_ms(6)));
    }
}
