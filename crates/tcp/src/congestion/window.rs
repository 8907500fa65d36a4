//! A congestion window counted in segments, in the manner of Linux, with the bytes left over.

/// No real window is above this (2^28 segments are 400 GB); it keeps all products
/// below within 64 bits.
const MOST_SEGMENTS: u64 = 1 << 28;

/// A threshold that slow start has not found yet.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// The window, the slow-start threshold and what is credited towards the next segment.
#[derive(Clone, Debug)]
pub(super) struct Window {
    mss: u64,
    segments: u64,
    /// Bytes above `segments` whole ones; only controls with a fractional window use it.
    fraction: u64,
    /// Slow-start threshold in segments, or [`UNKNOWN`].
    threshold: u64,
    /// Segments acknowledged that have not yet opened the window (Linux's `snd_cwnd_cnt`).
    credit: u64,
    /// Bytes acknowledged that did not make up a whole segment.
    remainder: u64,
}

impl Window {
    pub(super) fn new(mss: u32, bytes: u64) -> Self {
        let mss = u64::from(mss).max(1);
        let segments = (bytes / mss).clamp(1, MOST_SEGMENTS);
        Self { mss, segments, fraction: 0, threshold: UNKNOWN, credit: 0, remainder: 0 }
    }

    pub(super) fn mss(&self) -> u64 {
        self.mss
    }

    pub(super) fn segments(&self) -> u64 {
        self.segments
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments * self.mss + self.fraction
    }

    /// Slow-start threshold in segments, or [`UNKNOWN`].
    pub(super) fn threshold(&self) -> u64 {
        self.threshold
    }

    pub(super) fn threshold_bytes(&self) -> u64 {
        self.threshold.saturating_mul(self.mss)
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.segments < self.threshold
    }

    /// `bytes` in whole segments, what is over being kept for the next call.
    pub(super) fn whole_segments(&mut self, bytes: u64) -> u64 {
        let mut left = self.remainder.saturating_add(bytes);
        let mut whole = 0;
        // One or two segments are the rule, and cheaper to take away than to divide by.
        while left >= self.mss {
            if whole == 4 {
                whole += left / self.mss;
                left %= self.mss;
                break;
            }
            left -= self.mss;
            whole += 1;
        }
        self.remainder = left;
        whole
    }

    pub(super) fn set_segments(&mut self, segments: u64) {
        self.segments = segments.clamp(1, MOST_SEGMENTS);
        self.fraction = 0;
    }

    pub(super) fn set_bytes(&mut self, bytes: u64) {
        let bytes = bytes.clamp(self.mss, MOST_SEGMENTS * self.mss);
        self.segments = bytes / self.mss;
        self.fraction = bytes % self.mss;
    }

    /// Grows by up to a segment, in bytes.
    pub(super) fn add_bytes(&mut self, bytes: u64) {
        self.fraction += bytes.min(self.mss);
        if self.fraction >= self.mss && self.segments < MOST_SEGMENTS {
            self.fraction -= self.mss;
            self.segments += 1;
        }
        self.fraction = self.fraction.min(self.mss - 1);
    }

    pub(super) fn set_threshold(&mut self, segments: u64) {
        self.threshold = segments.max(1);
    }

    pub(super) fn set_threshold_bytes(&mut self, bytes: u64) {
        self.set_threshold(if bytes == u64::MAX { UNKNOWN } else { bytes / self.mss });
    }

    /// The threshold at which a window that is given up may be regained fast: three quarters of
    /// it (Linux's `tcp_current_ssthresh`, RFC 2861 section 3.1).
    pub(super) fn current_threshold(&self) -> u64 {
        self.threshold.max(self.segments / 2 + self.segments / 4)
    }

    /// Grows by `acked` segments up to the threshold; gives back those beyond it.
    pub(super) fn slow_start(&mut self, acked: u64) -> u64 {
        let grown = self.segments.saturating_add(acked).min(self.threshold).min(MOST_SEGMENTS);
        let used = grown.saturating_sub(self.segments);
        self.segments += used;
        acked - used
    }

    /// Grows by one segment for every `per_segment` acknowledged (Linux's `tcp_cong_avoid_ai`).
    pub(super) fn grow_one_per(&mut self, per_segment: u64, acked: u64) {
        let per_segment = per_segment.max(1);
        // Credit from before the window fell is worth one segment, not several.
        if self.credit >= per_segment {
            self.credit = 0;
            self.segments += 1;
        }
        self.credit = self.credit.saturating_add(acked);
        if self.credit >= per_segment {
            self.segments = self.segments.saturating_add(self.credit / per_segment);
            self.credit %= per_segment;
        }
        self.segments = self.segments.min(MOST_SEGMENTS);
    }

    pub(super) fn forget_credit(&mut self) {
        self.credit = 0;
    }
}
