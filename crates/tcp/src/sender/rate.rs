//! How fast data is delivered (draft-cheng-iccrg-delivery-rate-estimation-02).

use weir_units::{Rate, Time};

use super::scoreboard::Sent;

/// What a sample says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateSample {
    pub(crate) prior_delivered: u64,
    pub(crate) rate: Option<Rate>,
    pub(crate) is_app_limited: bool,
}

#[derive(Debug, Default)]
pub(crate) struct RateSampler {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// The sender had nothing to send: samples say little until this much was delivered.
    app_limited_until: u64,
}

impl RateSampler {
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Notes in the record of a segment that leaves at `now` what was delivered by then.
    pub(crate) fn on_send(&mut self, sent: &mut Sent, has_flight: bool, now: Time) {
        if !has_flight {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        sent.first_sent_before = short(now - self.first_sent_at);
        sent.delivered = self.delivered as u32;
        sent.delivered_before = short(now - self.delivered_at);
        sent.is_app_limited = self.app_limited_until > 0;
    }

    /// `bytes` of a segment were delivered at `now`. `newest` is what the acknowledgement at hand
    /// delivered that was sent last.
    pub(crate) fn on_delivered(
        &mut self,
        sent: &Sent,
        bytes: u64,
        now: Time,
        newest: &mut Option<Sent>,
    ) {
        self.on_unknown_delivered(bytes, now);
        if newest.is_none_or(|newest| sent.order.is_after(newest.order)) {
            *newest = Some(*sent);
            self.first_sent_at = sent.sent_at;
        }
    }

    /// Bytes delivered that no record tells of (duplicate acknowledgements without SACK).
    pub(crate) fn on_unknown_delivered(&mut self, bytes: u64, now: Time) {
        self.delivered += bytes;
        self.delivered_at = now;
    }

    /// Nothing to send though the window is open; `in_flight` is the bubble's distance.
    pub(crate) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// The sample of the acknowledgement that arrived at `now` and delivered `newest`.
    pub(crate) fn sample(&mut self, newest: Option<Sent>, min_rtt: Time, now: Time) -> RateSample {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let Some(newest) = newest else {
            return RateSample {
                prior_delivered: self.delivered,
                rate: None,
                is_app_limited: self.app_limited_until > 0,
            };
        };
        let flight = Time::from_ns(newest.first_sent_before.into());
        let age = now.saturating_sub(newest.sent_at);
        let interval =
            flight.max(age.saturating_add(Time::from_ns(newest.delivered_before.into())));
        // No window is as large as 2^32 bytes.
        let delivered = u64::from((self.delivered as u32).wrapping_sub(newest.delivered));
        let rate =
            (interval >= min_rtt && interval > Time::ZERO).then(|| rate(delivered, interval));
        RateSample {
            prior_delivered: self.delivered - delivered,
            rate,
            is_app_limited: newest.is_app_limited,
        }
    }
}

/// In ns, at most what 32 bits hold. A flight's age matters only where it exceeds the round trip.
fn short(span: Time) -> u32 {
    u32::try_from(span.as_ns()).unwrap_or(u32::MAX)
}

fn rate(bytes: u64, interval: Time) -> Rate {
    const BIT_NS_PER_BYTE: u64 = 8 * 1_000_000_000;
    // 64 bits hold 2 GB in one interval; a 128-bit division costs ten times as much.
    let bit_per_s = match bytes.checked_mul(BIT_NS_PER_BYTE) {
        Some(bits) => bits / interval.as_ns(),
        None => {
            let wide = u128::from(bytes) * u128::from(BIT_NS_PER_BYTE);
            u64::try_from(wide / u128::from(interval.as_ns())).unwrap_or(u64::MAX)
        }
    };
    Rate::from_bit_per_s(bit_per_s)
}
