//! HTTP adaptive streaming (004-spec section 6.3): a player of two connections that chooses the
//! level of each chunk by the mean of what it measured less its deviation.

use std::collections::VecDeque;

use serde::Serialize;
use weir_units::Time;

use crate::sockets::Sockets;

/// Encodings of the video, in bit/s (Big Buck Bunny, H.264, up to 720p).
const LEVELS: [u64; 8] =
    [230_000, 331_000, 477_000, 688_000, 991_000, 1_427_000, 2_056_000, 2_962_000];
const AUDIO_BPS: u64 = 96_000;
const CHUNK: Time = Time::from_ms(2_000);
/// Bytes of a chunk of the highest level.
pub(crate) const CHUNK_MAX: u64 = LEVELS[LEVELS.len() - 1] * 2 / 8;
const BUFFER_TARGET: Time = Time::from_ms(30_000);
/// The level rises only above this much.
const BUFFER_TO_RISE: Time = Time::from_ms(10_000);
/// Below this much it falls to half of what the estimate allows.
const BUFFER_LOW: Time = Time::from_ms(6_000);
const RISE_AFTER: u32 = 3;
const REQUEST: u64 = 300;

/// How the player estimates: mean of the last `samples` chunks less `caution` times their standard
/// deviation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) samples: usize,
    pub(crate) caution: f64,
    /// Whether a sample counts what both connections brought while the chunk came.
    pub(crate) of_both: bool,
}

/// A chunk that a connection is fetching.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// `None` for audio.
    level: Option<usize>,
    size: u64,
    begun: Time,
    asked: u64,
    received: u64,
    /// What the player had received, on both connections, when it was asked for.
    player_before: u64,
}

/// One of the two connections; the client opened it.
#[derive(Clone, Copy, Debug)]
struct Connection {
    client: u32,
    chunk: Option<Chunk>,
}

/// What a player saw, from its start.
#[derive(Clone, Debug, Serialize)]
pub struct VideoOutcome {
    /// Video chunks received of each level, lowest first.
    pub chunks: [u64; 8],
    /// For how long a chunk of each level was the last one received.
    pub level_ns: [u64; 8],
    /// Mean rate of the video chunks received.
    pub rate_bps_mean: f64,
    /// Changes of level.
    pub switches: u64,
    /// Times that the picture stood still, the wait for the first chunk not counted.
    pub stalls: u64,
    /// How long it did.
    pub stalled_ns: u64,
}

/// The player.
#[derive(Debug)]
pub struct Video {
    estimate: Estimate,
    connections: Vec<Connection>,
    level: usize,
    /// Decisions in a row that favoured a higher level.
    favoured: u32,
    throughput_bps: VecDeque<f64>,
    /// Playing time of what was received, less what was played up to `at`.
    buffer: Time,
    at: Time,
    /// The level of the last chunk received, and when that was.
    last: Option<(usize, Time)>,
    is_playing: bool,
    /// Chunks asked for, of video and of audio.
    asked: [u64; 2],
    next_request: Option<Time>,
    is_stopped: bool,
    /// On both connections.
    received: u64,
    outcome: VideoOutcome,
}

impl Video {
    pub(crate) fn new(estimate: Estimate) -> Self {
        Self {
            estimate,
            connections: Vec::new(),
            level: 0,
            favoured: 0,
            throughput_bps: VecDeque::new(),
            buffer: Time::ZERO,
            at: Time::ZERO,
            last: None,
            is_playing: false,
            asked: [0; 2],
            next_request: None,
            is_stopped: false,
            received: 0,
            outcome: VideoOutcome {
                chunks: [0; 8],
                level_ns: [0; 8],
                rate_bps_mean: 0.0,
                switches: 0,
                stalls: 0,
                stalled_ns: 0,
            },
        }
    }

    pub(crate) fn start(&mut self, sockets: &mut impl Sockets) {
        for _ in 0..2 {
            self.connections.push(Connection { client: sockets.open(), chunk: None });
        }
        self.at = sockets.now();
        self.request(sockets);
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.next_request
    }

    pub(crate) fn on_timer(&mut self, sockets: &mut impl Sockets) {
        self.next_request = None;
        self.request(sockets);
    }

    pub(crate) fn on_progress(&mut self, endpoint: u32, sockets: &mut impl Sockets) {
        let Some(index) = self.connections.iter().position(|c| c.client == endpoint & !1) else {
            return;
        };
        let Some(chunk) = &mut self.connections[index].chunk else { return };
        if endpoint % 2 == 1 {
            chunk.asked += sockets.take(endpoint);
            if chunk.asked == REQUEST {
                chunk.asked += 1; // answered
                let size = chunk.size;
                sockets.write(endpoint, size);
            }
            return;
        }
        let arrived = sockets.read(endpoint);
        chunk.received += arrived;
        self.received += arrived;
        if chunk.received >= chunk.size {
            let chunk = *chunk;
            self.connections[index].chunk = None;
            self.on_chunk(chunk, sockets.now());
            self.request(sockets);
        }
    }

    fn on_chunk(&mut self, chunk: Chunk, now: Time) {
        let Some(level) = chunk.level else { return };
        let took = (now - chunk.begun).as_s().max(1e-9);
        let of_player = self.received - chunk.player_before;
        let bytes = if self.estimate.of_both { of_player } else { chunk.size };
        self.throughput_bps.push_back(bytes as f64 * 8.0 / took);
        if self.throughput_bps.len() > self.estimate.samples {
            self.throughput_bps.pop_front();
        }
        self.play(now);
        self.buffer = self.buffer.saturating_add(CHUNK);
        self.is_playing = true;
        self.outcome.chunks[level] += 1;
        if let Some((level, since)) = self.last.replace((level, now)) {
            self.outcome.level_ns[level] += (now - since).as_ns();
        }
    }

    /// Plays up to `now`.
    fn play(&mut self, now: Time) {
        let span = now - self.at;
        self.at = now;
        if !self.is_playing {
            return;
        }
        if span > self.buffer {
            self.outcome.stalls += 1;
            self.outcome.stalled_ns += (span - self.buffer).as_ns();
        }
        self.buffer = self.buffer.saturating_sub(span);
    }

    /// Asks for what is wanted on the connections that are free.
    fn request(&mut self, sockets: &mut impl Sockets) {
        self.play(sockets.now());
        if self.is_stopped || self.next_request.is_some() {
            return;
        }
        let [video, audio] = self.asked;
        // Audio goes along with the video on the second connection.
        if self.connections[1].chunk.is_none() && audio < video {
            self.fetch(1, None, sockets);
        }
        if self.buffer >= BUFFER_TARGET {
            // Steady: a chunk is asked for when one has been played.
            let wait = (self.buffer - BUFFER_TARGET).max(Time::from_ns(1));
            self.next_request = Some(sockets.now().saturating_add(wait));
            return;
        }
        for index in 0..2 {
            if self.connections[index].chunk.is_none() {
                self.decide();
                self.fetch(index, Some(self.level), sockets);
            }
        }
    }

    fn fetch(&mut self, index: usize, level: Option<usize>, sockets: &mut impl Sockets) {
        let rate = level.map_or(AUDIO_BPS, |level| LEVELS[level]);
        let size = rate * CHUNK.as_ns() / 8_000_000_000;
        self.asked[usize::from(level.is_none())] += 1;
        let connection = &mut self.connections[index];
        let begun = sockets.now();
        let player_before = self.received;
        connection.chunk = Some(Chunk { level, size, begun, asked: 0, received: 0, player_before });
        sockets.write(connection.client, REQUEST);
    }

    /// Chooses the level of the next chunk.
    fn decide(&mut self) {
        let n = self.throughput_bps.len() as f64;
        if n == 0.0 {
            return;
        }
        let mean = self.throughput_bps.iter().sum::<f64>() / n;
        let variance = self.throughput_bps.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let estimate = mean - self.estimate.caution * variance.sqrt();
        let level_below = |rate: f64| LEVELS.iter().rposition(|&l| l as f64 <= rate).unwrap_or(0);
        let best = level_below(estimate);
        let before = self.level;
        if best > self.level {
            self.favoured += 1;
            if self.favoured >= RISE_AFTER && self.buffer > BUFFER_TO_RISE {
                self.level += 1;
                self.favoured = 0;
            }
        } else {
            self.favoured = 0;
            if best < self.level {
                self.level = best;
                if self.buffer < BUFFER_LOW {
                    self.level = level_below(estimate / 2.0).min(best);
                }
            }
        }
        self.outcome.switches += u64::from(self.level != before);
    }

    pub(crate) fn stop(&mut self) {
        self.next_request = None;
        self.is_stopped = true;
    }

    pub(crate) fn outcome(&self) -> VideoOutcome {
        let chunks = self.outcome.chunks;
        let count = chunks.iter().sum::<u64>().max(1) as f64;
        let bits = chunks.iter().zip(LEVELS).map(|(n, level)| *n as f64 * level as f64);
        VideoOutcome { rate_bps_mean: bits.sum::<f64>() / count, ..self.outcome.clone() }
    }
}
