//! One admitted flow and its exact arithmetic.
//!
//! What remains of a flow is counted in nanobits and carried without any rounding.
//!
//! The surplus of a flow, what its rate could move until the deadline beyond what it has to, does
//! not change while its rate does not. Two facts follow. A flow with a surplus of at least zero
//! ends by its deadline exactly, not almost. And its slack at any time, the rate it can spare, is
//! the surplus over the time left, rounded down; what it keeps is its minimum rate rounded up.

use std::sync::Arc;

use weir_topology::Path;
use weir_units::{Bytes, Rate, Time};

use crate::calendar::amount::{NANOBITS_PER_BYTE, Nanobits};
use crate::calendar::request::{FlowId, FlowState};

/// The smallest rate that moves `work` within `span`, in bit/s, saturating; `span` is not zero.
pub(super) fn rate_needed(work: Nanobits, span: u64) -> u64 {
    u64::try_from(work.div_ceil(u128::from(span))).unwrap_or(u64::MAX)
}

/// The smallest span in which `rate` moves `work`, in ns, saturating.
pub(super) fn span_needed(work: Nanobits, rate: u64) -> u64 {
    match rate {
        0 => u64::MAX,
        _ => u64::try_from(work.div_ceil(u128::from(rate))).unwrap_or(u64::MAX),
    }
}

#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) id: FlowId,
    /// Order of admission; breaks every tie.
    pub(super) sequence: u64,
    pub(super) path: Arc<Path>,
    pub(super) size: Bytes,
    pub(super) deadline: u64,
    pub(super) rate_max: u64,
    /// In bit/s; zero only where a link lost capacity.
    pub(super) rate: u64,
    /// What was left at `as_of`.
    pub(super) remaining: Nanobits,
    /// When the rate was last changed or the remaining data measured.
    pub(super) as_of: u64,
    surplus: i128,
    completion: u64,
}

/// What a [`Flow`] is made of; the rest follows from it.
pub(super) struct Parts {
    pub(super) id: FlowId,
    pub(super) sequence: u64,
    pub(super) path: Arc<Path>,
    pub(super) size: Bytes,
    pub(super) deadline: u64,
    pub(super) rate_max: u64,
    pub(super) rate: u64,
    pub(super) remaining: Nanobits,
    pub(super) as_of: u64,
}

impl Flow {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { id, sequence, path, size, deadline, rate_max, rate, remaining, as_of } = parts;
        let (surplus, completion) = (0, 0);
        let mut flow = Self {
            id,
            sequence,
            path,
            size,
            deadline,
            rate_max,
            rate,
            remaining,
            as_of,
            surplus,
            completion,
        };
        flow.derive();
        flow
    }

    /// When the last bit is through at this rate.
    pub(super) fn completion(&self) -> u64 {
        self.completion
    }

    /// What the rate could move by the deadline beyond what it has to; negative when behind.
    pub(super) fn surplus(&self) -> i128 {
        self.surplus
    }

    /// Whether the rate was above the minimum when it was last set.
    pub(super) fn is_loose(&self) -> bool {
        self.surplus >= i128::from(self.deadline.saturating_sub(self.as_of)) && self.surplus > 0
    }

    pub(super) fn remaining_at(&self, now: u64) -> Nanobits {
        self.remaining.saturating_sub(u128::from(self.rate) * u128::from(now - self.as_of))
    }

    /// By the model everything is through.
    pub(super) fn is_finishing(&self, now: u64) -> bool {
        self.completion <= now
    }

    /// At this rate the deadline, still ahead, will be missed.
    pub(super) fn is_behind(&self, now: u64) -> bool {
        self.surplus < 0 && self.deadline > now && !self.is_finishing(now)
    }

    pub(super) fn state(&self, now: u64) -> FlowState {
        if self.deadline <= now {
            FlowState::Late
        } else if self.is_finishing(now) {
            FlowState::Finishing
        } else if self.is_behind(now) {
            FlowState::AtRisk
        } else {
            FlowState::OnTime
        }
    }

    /// The rate this flow can spare.
    pub(super) fn slack(&self, now: u64) -> u64 {
        slack(self.surplus, self.deadline, self.completion, now)
    }

    /// The least rate that keeps the deadline; above the present one when behind. A flow that is
    /// finishing or late has no such rate and keeps its own (AMB-26).
    pub(super) fn minimum(&self, now: u64) -> u64 {
        if self.is_behind(now) {
            rate_needed(self.remaining_at(now), self.deadline - now)
        } else {
            self.rate - self.slack(now)
        }
    }

    pub(super) fn set_rate(&mut self, now: u64, rate: u64) {
        self.remaining = self.remaining_at(now);
        self.as_of = now;
        self.rate = rate;
        self.derive();
    }

    pub(super) fn set_remaining(&mut self, now: u64, remaining: Nanobits) {
        self.remaining = remaining;
        self.as_of = now;
        self.derive();
    }

    fn derive(&mut self) {
        let span = self.deadline.saturating_sub(self.as_of);
        // Rates are below 2^62 and spans below 2^64, so neither product nor difference overflows.
        let movable = i128::from(self.rate) * i128::from(span);
        let remaining = i128::try_from(self.remaining).expect("2^64 bytes are below 2^97 nanobits");
        self.surplus = movable - remaining;
        self.completion = self.as_of.saturating_add(span_needed(self.remaining, self.rate));
    }

    pub(super) fn remaining_bytes_at(&self, now: u64) -> Bytes {
        let bytes = self.remaining_at(now).div_ceil(u128::from(NANOBITS_PER_BYTE));
        Bytes::new(u64::try_from(bytes).expect("what remains is at most the size"))
    }

    pub(super) fn rate_max(&self) -> Rate {
        Rate::from_bit_per_s(self.rate_max)
    }

    pub(super) fn deadline(&self) -> Time {
        Time::from_ns(self.deadline)
    }
}

/// The rate that a flow with this surplus, deadline and completion can spare.
pub(super) fn slack(surplus: i128, deadline: u64, completion: u64, now: u64) -> u64 {
    if surplus <= 0 || completion <= now {
        return 0;
    }
    // A surplus means completion at or before the deadline, so some time is left.
    let span = deadline - now;
    match u64::try_from(surplus) {
        Ok(surplus) => surplus / span,
        Err(_) => u64::try_from(surplus / i128::from(span)).expect("slack is below the rate"),
    }
}
