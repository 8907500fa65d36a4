//! How much more may come: the receive window (RFC 9293 section 3.8.6), fixed or following the
//! reader (dynamic right-sizing as in Linux).

use weir_units::Time;

use crate::config::ReceiveBuffer;

/// Largest shift of RFC 7323 section 2.3.
pub(crate) const SCALE_MAX: u8 = 14;

/// The least shift that lets a window of `most` bytes be written in sixteen bits.
pub(crate) fn scale_for(most: u64) -> u8 {
    (0..SCALE_MAX).find(|&scale| most >> scale <= 0xffff).unwrap_or(SCALE_MAX)
}

#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    buffer: u64,
    most: u64,
    is_adaptive: bool,
    mss: u64,
    scale: u8,
    /// Right edge that was offered; it never moves back.
    end: u64,
    /// Bytes that the reader took.
    read: u64,
    /// Round trip as the receiver sees it, from echoed timestamps; zero before the first.
    rtt: Time,
    /// Bytes read in the round trip that began then, and in the best before.
    round_began: Time,
    round_read: u64,
    best_read: u64,
}

impl ReceiveWindow {
    pub(crate) fn new(config: ReceiveBuffer, mss: u64, next: u64) -> Self {
        let (buffer, is_adaptive) = match config {
            ReceiveBuffer::Fixed { size } => (size, false),
            ReceiveBuffer::Auto { initial, most } => (initial.min(most), true),
        };
        Self {
            buffer,
            most: config.most(),
            is_adaptive,
            mss,
            scale: 0,
            end: next,
            read: next,
            rtt: Time::ZERO,
            round_began: Time::ZERO,
            round_read: next,
            best_read: buffer / 2,
        }
    }

    /// Both sides scale, this one by `scale`.
    pub(crate) fn set_scale(&mut self, scale: u8) {
        self.scale = scale.min(SCALE_MAX);
    }

    /// The window to offer when `next` is expected, as the wire can carry it. Small openings wait
    /// until they are worth a segment (silly-window avoidance).
    pub(crate) fn offer(&mut self, next: u64) -> u32 {
        let window = self.window(next);
        self.end = self.end.max(next + u64::from(window));
        window
    }

    fn window(&self, next: u64) -> u32 {
        let room = self.read + self.buffer;
        let worthwhile = self.mss.min(self.buffer / 2).max(1);
        let end = if room >= self.end + worthwhile { room } else { self.end };
        let window = end.saturating_sub(next).min(0xffff << self.scale);
        ((window >> self.scale) << self.scale) as u32
    }

    /// Whether the window that could be offered is twice the one left or more, so that the sender
    /// should hear of it (Linux), or it was too small for a segment and is not any more.
    pub(crate) fn is_worth_an_update(&self, next: u64) -> bool {
        let left = self.end.saturating_sub(next);
        let window = u64::from(self.window(next));
        window > left && (2 * left <= self.buffer) && (window >= 2 * left)
    }

    /// Right edge: nothing beyond it is taken.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes that arrived in order and wait for the reader.
    pub(crate) fn readable(&self, next: u64) -> u64 {
        next - self.read
    }

    /// The reader takes up to `most` bytes of those before `next`.
    pub(crate) fn read(&mut self, most: u64, next: u64) -> u64 {
        let taken = most.min(self.readable(next));
        self.read += taken;
        taken
    }

    /// A full segment arrived whose timestamp echoes `rtt` ago: rounds are counted by it.
    pub(crate) fn on_round_trip(&mut self, rtt: Time, now: Time) {
        if !self.is_adaptive {
            return;
        }
        self.rtt = match self.rtt.as_ns() {
            0 => rtt,
            old => Time::from_ns(old - old / 8 + rtt.as_ns() / 8),
        };
        if now.saturating_sub(self.round_began) < self.rtt {
            return;
        }
        let taken = self.read - self.round_read;
        if taken > self.best_read {
            // Twice what a round trip brought, and as much again as it grew by: a sender in slow
            // start never finds the window shut.
            let growth = u128::from(taken) * u128::from(taken - self.best_read)
                / u128::from(self.best_read.max(1));
            let growth = u64::try_from(growth).unwrap_or(u64::MAX);
            let wanted =
                (2 * taken).saturating_add(16 * self.mss).saturating_add(growth.saturating_mul(4));
            self.buffer = self.buffer.max(wanted.min(self.most));
            self.best_read = taken;
        }
        self.round_began = now;
        self.round_read = self.read;
    }
}
