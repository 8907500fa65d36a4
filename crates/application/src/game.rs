//! The traffic of a casual game (004-spec section 6.1, "Trolls vs Vikings"): clients that now and
//! then open a connection on which the server sends small messages with large gaps.

use std::collections::VecDeque;

use weir_queue::Histogram;
use weir_random::Random;
use weir_units::Time;

use crate::ApplicationOutcome;
use crate::draws::{LogNormal, exponential};
use crate::sockets::{Sockets, clear_away, is_acceptor, opener_of, peer_of};

/// What a client sends to begin with.
const REQUEST: u64 = 100;
/// More than half of all connections carry one or two messages.
const SHORT: f64 = 0.55;
/// Messages of the others, beyond two.
const MESSAGES: LogNormal = LogNormal { median: 5.0, sigma: 1.2, least: 1.0, most: 4_998.0 };
/// Bytes of a message.
const SIZES: LogNormal =
    LogNormal { median: 180.0, sigma: 0.8, least: 20.0, most: MESSAGE_MOST as f64 };
/// The largest message.
pub(crate) const MESSAGE_MOST: u64 = 1_448;
/// Mean seconds between the messages of a connection, of which each has its own.
const GAPS: LogNormal = LogNormal { median: 0.35, sigma: 1.3, least: 0.005, most: 60.0 };

/// What a server sends on one connection.
#[derive(Clone, Copy, Debug)]
struct Script {
    messages: u32,
    gap_s: f64,
}

impl Script {
    fn draw(random: &mut Random) -> Self {
        let messages = if random.chance(SHORT) {
            1 + random.up_to(1) as u32
        } else {
            2 + (MESSAGES.draw(random).round() as u32).max(1)
        };
        Self { messages, gap_s: GAPS.draw(random) }
    }
}

/// Bytes of the next message.
fn draw_size(random: &mut Random) -> u64 {
    SIZES.draw(random) as u64
}

/// A span of exponential law around `mean_s` seconds.
fn draw_span(random: &mut Random, mean_s: f64) -> Time {
    Time::from_s(exponential(random) * mean_s)
}

/// What a server sends on one connection, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct GameConnection {
    /// The beginning of the match, counted from that of the traffic.
    pub start: Time,
    /// Mean seconds between two messages.
    pub gap_s: f64,
    /// Each message: when it is written, counted from `start`, and its bytes.
    pub messages: Vec<(Time, u64)>,
}

/// The connections of one client, without end, as `Game` has them over a network that takes no
/// time: for whom needs the same traffic whatever the network does to it.
#[derive(Clone, Debug)]
pub struct GameConnections {
    random: Random,
    think: Time,
    at: Time,
}

impl GameConnections {
    /// The matches that follow from `seed` and `name`; `think` is the mean time from one match to
    /// the next.
    pub fn new(seed: u64, name: &str, think: Time) -> Self {
        let random = Random::of_source(seed, &["game", name]);
        Self { random, think, at: Time::ZERO }
    }
}

impl Iterator for GameConnections {
    type Item = GameConnection;

    fn next(&mut self) -> Option<GameConnection> {
        let Self { random, think, at } = self;
        let start = at.saturating_add(draw_span(random, think.as_s()));
        let Script { messages: count, gap_s } = Script::draw(random);
        let mut written = Time::ZERO;
        let mut messages = vec![(written, draw_size(random))];
        for _ in 1..count {
            written = written.saturating_add(draw_span(random, gap_s));
            messages.push((written, draw_size(random)));
        }
        *at = start.saturating_add(written);
        Some(GameConnection { start, gap_s, messages })
    }
}

/// A message on its way: when it was written, and where it ends in the stream.
#[derive(Clone, Copy, Debug)]
struct Message {
    written: Time,
    end: u64,
}

/// A client that plays.
#[derive(Debug)]
struct Match {
    client: u32,
    left: u32,
    gap_s: f64,
    asked: u64,
    written_bytes: u64,
    received_bytes: u64,
    under_way: VecDeque<Message>,
}

/// One client: its match, or none while its user thinks.
#[derive(Debug)]
struct Client {
    random: Random,
    game: Option<Match>,
    /// The next match, or the next message of this one.
    next: Option<Time>,
}

/// Clients of one server.
#[derive(Debug)]
pub struct Game {
    think: Time,
    clients: Vec<Client>,
    is_stopped: bool,
    written: u64,
    received: u64,
    time: Histogram,
}

impl Game {
    /// A client for each generator; `think` is the mean time from one match to the next.
    pub(crate) fn new(think: Time, randoms: impl Iterator<Item = Random>) -> Self {
        let client = |random| Client { random, game: None, next: None };
        Self {
            think,
            clients: randoms.map(client).collect(),
            is_stopped: false,
            written: 0,
            received: 0,
            time: Histogram::new(),
        }
    }

    pub(crate) fn start(&mut self, sockets: &mut impl Sockets) {
        for index in 0..self.clients.len() {
            self.let_think(index, sockets.now());
        }
    }

    fn let_think(&mut self, index: usize, now: Time) {
        let client = &mut self.clients[index];
        let span = draw_span(&mut client.random, self.think.as_s());
        client.game = None;
        client.next = (!self.is_stopped).then(|| now.saturating_add(span));
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.clients.iter().filter_map(|client| client.next).min()
    }

    pub(crate) fn on_timer(&mut self, sockets: &mut impl Sockets) {
        for index in 0..self.clients.len() {
            if self.clients[index].next.is_some_and(|due| due <= sockets.now()) {
                self.act(index, sockets);
            }
        }
    }

    /// Client `index` begins a match, or its server sends a message.
    fn act(&mut self, index: usize, sockets: &mut impl Sockets) {
        let Client { random, game, next } = &mut self.clients[index];
        let Some(game) = game else {
            let Script { messages, gap_s } = Script::draw(random);
            let opened = sockets.open();
            *next = None;
            *game = Some(Match {
                client: opened,
                left: messages,
                gap_s,
                asked: 0,
                written_bytes: 0,
                received_bytes: 0,
                under_way: VecDeque::new(),
            });
            sockets.write(opened, REQUEST);
            return;
        };
        let now = sockets.now();
        let size = draw_size(random);
        game.left -= 1;
        // What a full buffer does not take is not sent later: nobody waits for it any more.
        if sockets.writable(peer_of(game.client)) >= size {
            sockets.write(peer_of(game.client), size);
            game.written_bytes += size;
            game.under_way.push_back(Message { written: now, end: game.written_bytes });
            self.written += 1;
        }
        *next = if game.left > 0 {
            Some(now.saturating_add(draw_span(random, game.gap_s)))
        } else {
            sockets.close(peer_of(game.client));
            None
        };
    }

    pub(crate) fn on_progress(&mut self, endpoint: u32, sockets: &mut impl Sockets) {
        let opener = opener_of(endpoint);
        let playing = |client: &Client| client.game.as_ref().is_some_and(|g| g.client == opener);
        let Some(index) = self.clients.iter().position(playing) else {
            clear_away(endpoint, sockets);
            return;
        };
        let Client { game: Some(game), next, .. } = &mut self.clients[index] else { return };
        if is_acceptor(endpoint) {
            if game.asked < REQUEST {
                game.asked += sockets.take(endpoint);
                if game.asked == REQUEST && !self.is_stopped {
                    *next = Some(sockets.now());
                }
            }
            return;
        }
        game.received_bytes += sockets.read(endpoint);
        while let Some(message) = game.under_way.front()
            && message.end <= game.received_bytes
        {
            self.received += 1;
            self.time.record(sockets.now() - message.written);
            game.under_way.pop_front();
        }
        if sockets.is_at_end(endpoint) {
            sockets.close(endpoint);
            self.let_think(index, sockets.now());
        }
    }

    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
        self.clients.iter_mut().for_each(|client| client.next = None);
    }

    pub(crate) fn outcome(&self) -> ApplicationOutcome {
        let time = (&self.time).into();
        ApplicationOutcome::Latency { written: self.written, received: self.received, time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of `connections` for which `holds`.
    fn share(connections: &[GameConnection], holds: impl Fn(&GameConnection, f64) -> bool) -> f64 {
        let mean = |messages: &[(Time, u64)]| {
            messages.iter().map(|(_, size)| *size as f64).sum::<f64>() / messages.len() as f64
        };
        let holding = connections.iter().filter(|one| holds(one, mean(&one.messages)));
        holding.count() as f64 / connections.len() as f64
    }

    #[test]
    fn connections_have_the_measured_quantiles_of_the_specification() {
        // 004-spec section 6.1, figure 2.1 of the work.
        let all: Vec<_> =
            GameConnections::new(1, "scripts", Time::from_s(5.0)).take(50_000).collect();
        let short = share(&all, |one, _| one.messages.len() <= 2);
        assert!((0.5..0.6).contains(&short), "{short} have one or two messages");
        let long: Vec<_> = all.into_iter().filter(|one| one.messages.len() > 2).collect();
        let ten = share(&long, |one, _| one.messages.len() <= 10);
        assert!((0.6..0.75).contains(&ten), "{ten} of the others have at most ten");
        let small = share(&long, |_, size| size <= 500.0);
        assert!(small >= 0.8, "{small} have messages of 500 B or less");
        let fast = share(&long, |one, _| one.gap_s <= 0.01);
        assert!(fast < 0.01, "{fast} are back to back");
        let slow = share(&long, |one, size| size / one.gap_s <= 1_000.0);
        assert!((0.5..0.7).contains(&slow), "{slow} send at most 1 kB/s");
    }

    #[test]
    fn messages_and_matches_are_apart_by_their_means() {
        let think = Time::from_s(5.0);
        let all: Vec<_> = GameConnections::new(1, "spans", think).take(20_000).collect();
        let mut over = Time::ZERO;
        let (mut thought, mut gaps, mut count) = (0.0, 0.0, 0);
        for one in &all {
            thought += (one.start - over).as_s();
            over = one.start.saturating_add(one.messages[one.messages.len() - 1].0);
            for pair in one.messages.windows(2) {
                gaps += (pair[1].0 - pair[0].0).as_s() / one.gap_s;
                count += 1;
            }
        }
        let mean = thought / all.len() as f64;
        assert!((mean / 5.0 - 1.0).abs() < 0.03, "{mean} s of thought");
        let mean = gaps / f64::from(count);
        assert!((mean - 1.0).abs() < 0.02, "{mean} mean gaps between messages");
    }
}
