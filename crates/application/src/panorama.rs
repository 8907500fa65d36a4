//! Panoramic interactive video (004-spec section 6.7): a server cuts a window out of a panorama as
//! the user commands and bounds the frames in flight, so that under congestion it sends fewer but
//! fresh ones.

use std::collections::VecDeque;

use weir_queue::Histogram;
use weir_random::Random;
use weir_units::{Rate, Time};

use crate::draws::exponential;
use crate::sockets::{Sockets, is_acceptor, peer_of};
use crate::{ApplicationOutcome, PanoramaOutcome};

/// A command or the acknowledgement of a frame, which go to the server.
const SIGNAL: u64 = 64;
/// A key frame comes so often, and is so many times the size of the others.
const KEY_INTERVAL: Time = Time::from_ms(1_000);
const KEY_FACTOR: f64 = 3.0;

/// How the video is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder {
    /// Rate of all frames, if none is left out.
    pub(crate) rate: Rate,
    pub(crate) frames_per_s: u32,
    /// Frames sent and not acknowledged by the client, at most.
    pub(crate) in_flight_max: usize,
}

impl Encoder {
    fn tick(self) -> Time {
        Time::from_s(1.0 / f64::from(self.frames_per_s))
    }

    /// Size of an ordinary frame and of a key frame, of the rate together.
    fn sizes(self) -> [u64; 2] {
        let frames = (f64::from(self.frames_per_s) * KEY_INTERVAL.as_s()).max(1.0);
        let bytes = self.rate.as_bit_per_s() as f64 / 8.0 * KEY_INTERVAL.as_s();
        let ordinary = bytes / (frames - 1.0 + KEY_FACTOR);
        [ordinary, ordinary * KEY_FACTOR].map(|size| (size.round() as u64).max(1))
    }
}

#[derive(Clone, Copy, Debug)]
enum Signal {
    Command,
    Acknowledgement,
}

/// A frame on its way.
#[derive(Clone, Copy, Debug)]
struct Frame {
    captured: Time,
    /// Where it ends in the stream.
    end: u64,
    /// Commands that it reflects.
    commands: u64,
}

/// One client and its server.
#[derive(Debug)]
pub struct Panorama {
    encoder: Encoder,
    command_interval: Time,
    random: Random,
    client: u32,
    next_tick: Option<Time>,
    next_command: Option<Time>,
    /// When the newest frame that was not sent was captured.
    newest: Option<Time>,
    last_key: Option<Time>,
    in_flight: usize,
    frames: VecDeque<Frame>,
    signals: VecDeque<Signal>,
    signalled_bytes: u64,
    written_bytes: u64,
    received_bytes: u64,
    /// When each command that no frame shown reflects was given.
    unanswered: VecDeque<Time>,
    answered: u64,
    /// Commands that the server has.
    commands: u64,
    captured: u64,
    sent: u64,
    displayed: u64,
    age: Histogram,
    reaction: Histogram,
    is_stopped: bool,
}

impl Panorama {
    /// Commands come at exponentially distributed intervals of this mean.
    pub(crate) fn new(encoder: Encoder, command_interval: Time, random: Random) -> Self {
        Self {
            encoder,
            command_interval,
            random,
            client: 0,
            next_tick: None,
            next_command: None,
            newest: None,
            last_key: None,
            in_flight: 0,
            frames: VecDeque::new(),
            signals: VecDeque::new(),
            signalled_bytes: 0,
            written_bytes: 0,
            received_bytes: 0,
            unanswered: VecDeque::new(),
            answered: 0,
            commands: 0,
            captured: 0,
            sent: 0,
            displayed: 0,
            age: Histogram::new(),
            reaction: Histogram::new(),
            is_stopped: false,
        }
    }

    /// The first command opens the session; the server captures from its arrival on.
    pub(crate) fn start(&mut self, sockets: &mut impl Sockets) {
        self.client = sockets.open();
        self.command(sockets);
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        [self.next_tick, self.next_command].into_iter().flatten().min()
    }

    pub(crate) fn on_timer(&mut self, sockets: &mut impl Sockets) {
        let now = sockets.now();
        if self.next_command.is_some_and(|due| due <= now) {
            self.command(sockets);
        }
        if self.next_tick.is_some_and(|due| due <= now) {
            self.next_tick = self.next_tick.map(|due| due.saturating_add(self.encoder.tick()));
            self.captured += 1;
            self.newest = Some(now);
            self.send(sockets);
        }
    }

    fn command(&mut self, sockets: &mut impl Sockets) {
        self.signal(Signal::Command, sockets);
        self.unanswered.push_back(sockets.now());
        let span = Time::from_s(exponential(&mut self.random) * self.command_interval.as_s());
        self.next_command = Some(sockets.now().saturating_add(span));
    }

    fn signal(&mut self, signal: Signal, sockets: &mut impl Sockets) {
        self.signals.push_back(signal);
        sockets.write(self.client, SIGNAL);
    }

    /// Encodes and sends the newest frame if there is room for one.
    fn send(&mut self, sockets: &mut impl Sockets) {
        if self.in_flight >= self.encoder.in_flight_max {
            return;
        }
        let Some(captured) = self.newest.take() else { return };
        // A hair less, for ticks are whole nanoseconds.
        let since = KEY_INTERVAL - Time::from_ns(self.encoder.tick().as_ns() / 2);
        let is_key = self.last_key.is_none_or(|last| captured - last >= since);
        if is_key {
            self.last_key = Some(captured);
        }
        self.written_bytes += self.encoder.sizes()[usize::from(is_key)];
        let (end, commands) = (self.written_bytes, self.commands);
        sockets.write(peer_of(self.client), self.encoder.sizes()[usize::from(is_key)]);
        self.frames.push_back(Frame { captured, end, commands });
        self.in_flight += 1;
        self.sent += 1;
    }

    pub(crate) fn on_progress(&mut self, endpoint: u32, sockets: &mut impl Sockets) {
        if is_acceptor(endpoint) {
            self.signalled_bytes += sockets.take(endpoint);
            while self.signalled_bytes >= SIGNAL {
                self.signalled_bytes -= SIGNAL;
                self.on_signal(sockets);
            }
            return;
        }
        self.received_bytes += sockets.read(endpoint);
        while let Some(frame) = self.frames.front().copied()
            && frame.end <= self.received_bytes
        {
            self.frames.pop_front();
            self.on_frame(frame, sockets);
        }
    }

    fn on_signal(&mut self, sockets: &mut impl Sockets) {
        match self.signals.pop_front() {
            Some(Signal::Command) => {
                self.commands += 1;
                if self.captured == 0 && self.next_tick.is_none() && !self.is_stopped {
                    self.next_tick = Some(sockets.now());
                }
            }
            Some(Signal::Acknowledgement) => {
                self.in_flight -= 1;
                self.send(sockets);
            }
            None => {}
        }
    }

    fn on_frame(&mut self, frame: Frame, sockets: &mut impl Sockets) {
        let now = sockets.now();
        self.displayed += 1;
        self.age.record(now - frame.captured);
        while self.answered < frame.commands
            && let Some(given) = self.unanswered.pop_front()
        {
            self.answered += 1;
            self.reaction.record(now - given);
        }
        self.signal(Signal::Acknowledgement, sockets);
    }

    pub(crate) fn stop(&mut self) {
        self.next_tick = None;
        self.next_command = None;
        self.newest = None;
        self.is_stopped = true;
    }

    pub(crate) fn outcome(&self) -> ApplicationOutcome {
        ApplicationOutcome::Panorama(PanoramaOutcome {
            captured: self.captured,
            sent: self.sent,
            displayed: self.displayed,
            age: (&self.age).into(),
            reaction: (&self.reaction).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_second_make_the_rate_and_a_key_frame_is_three_others() {
        // 004-spec section 6.7: 8 Mbit/s in 25 frames are 40 KB in the mean.
        let encoder =
            Encoder { rate: Rate::from_mbit_per_s(8), frames_per_s: 25, in_flight_max: 3 };
        let [ordinary, key] = encoder.sizes();
        let mean = (24 * ordinary + key) as f64 / 25.0;
        assert!((mean / 40_000.0 - 1.0).abs() < 1e-4, "mean {mean}");
        assert!((key as f64 / ordinary as f64 - 3.0).abs() < 1e-3);
    }
}
