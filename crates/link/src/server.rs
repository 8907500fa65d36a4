//! Sending at an exact rate.

use weir_units::{Bytes, Rate, Time};

/// Sends one packet at a time, at an exact rate.
#[derive(Debug)]
pub(crate) struct Server {
    /// `None` sends in no time.
    rate: Option<Rate>,
    free_at: Time,
    /// What integer nanoseconds left over, in nanoseconds / rate, so that a busy server's rate is
    /// exact however long it stays busy.
    remainder: u64,
}

impl Server {
    /// A server that has sent nothing.
    pub(crate) const fn new(rate: Option<Rate>) -> Self {
        Self { rate, free_at: Time::ZERO, remainder: 0 }
    }

    /// When the last bit of what it sends has left.
    pub(crate) const fn free_at(&self) -> Time {
        self.free_at
    }

    /// Sends `size` from `start` on; returns when the last bit has left.
    #[inline]
    pub(crate) fn send(&mut self, start: Time, size: Bytes) -> Time {
        let Some(rate) = self.rate else { return start };
        if start > self.free_at {
            self.remainder = 0;
        }
        let rate = rate.as_bit_per_s();
        // A packet's bits times 10^9 fit 64 bits, whose division costs a third of that of 128.
        let bits_ns = size.count().checked_mul(8_000_000_000);
        let span = match bits_ns.and_then(|bits_ns| bits_ns.checked_add(self.remainder)) {
            Some(bits_ns) => {
                self.remainder = bits_ns % rate;
                bits_ns / rate
            }
            None => self.long_span(size, rate),
        };
        self.free_at = start.saturating_add(Time::from_ns(span));
        self.free_at
    }

    fn long_span(&mut self, size: Bytes, rate: u64) -> u64 {
        let bits_ns = u128::from(size.count()) * 8_000_000_000 + u128::from(self.remainder);
        self.remainder = (bits_ns % u128::from(rate)) as u64;
        u64::try_from(bits_ns / u128::from(rate)).unwrap_or(u64::MAX)
    }
}
