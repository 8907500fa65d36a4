//! Dynamic web load (004-spec section 6.5): requests arrive at random whatever becomes of the ones
//! before; each opens a connection, the server sends an object and closes.

use std::collections::BTreeMap;

use weir_queue::{Histogram, Random};
use weir_units::Time;

use super::ApplicationOutcome;
use crate::endpoint::{Sockets, peer_of};
use crate::source::exponential;

/// What a client sends to ask for an object.
const REQUEST: u64 = 300;

/// Sizes from `least` to `most` bytes with P(X > x) falling as x^-shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TruncatedPareto {
    pub(crate) shape: f64,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl TruncatedPareto {
    fn draw(self, random: &mut Random) -> u64 {
        let (least, most) = (self.least as f64, self.most as f64);
        let cut = 1.0 - (least / most).powf(self.shape);
        let size = least * (1.0 - random.unit() * cut).powf(-1.0 / self.shape);
        (size as u64).clamp(self.least, self.most)
    }
}

/// One request under way, by the client's endpoint.
#[derive(Clone, Copy, Debug)]
struct Request {
    begun: Time,
    size: u64,
    asked: u64,
    received: u64,
}

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) begun: Time,
    pub(crate) size_bytes: u64,
    /// Until the server's close arrived.
    pub(crate) took: Time,
}

/// Requests of a client, open loop.
#[derive(Debug)]
pub(crate) struct Requests {
    interval_s: f64,
    sizes: TruncatedPareto,
    random: Random,
    next: Option<Time>,
    under_way: BTreeMap<u32, Request>,
    begun: u64,
    completed: u64,
    time: Histogram,
    /// All of them, if each is to be kept.
    done: Option<Vec<Done>>,
}

impl Requests {
    /// Requests at `per_s`; each completed one is kept if `keeps`.
    pub(crate) fn new(per_s: f64, sizes: TruncatedPareto, random: Random, keeps: bool) -> Self {
        Self {
            interval_s: 1.0 / per_s,
            sizes,
            random,
            next: None,
            under_way: BTreeMap::new(),
            begun: 0,
            completed: 0,
            time: Histogram::new(),
            done: keeps.then(Vec::new),
        }
    }

    pub(crate) fn start(&mut self, sockets: &mut Sockets<'_>) {
        self.next = Some(sockets.now.saturating_add(self.interval()));
    }

    fn interval(&mut self) -> Time {
        Time::from_s(exponential(&mut self.random) * self.interval_s)
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.next
    }

    pub(crate) fn on_timer(&mut self, sockets: &mut Sockets<'_>) {
        let client = sockets.open();
        let size = self.sizes.draw(&mut self.random);
        let request = Request { begun: sockets.now, size, asked: 0, received: 0 };
        self.under_way.insert(client, request);
        self.begun += 1;
        sockets.write(client, REQUEST);
        self.next = Some(sockets.now.saturating_add(self.interval()));
    }

    pub(crate) fn on_progress(&mut self, endpoint: u32, sockets: &mut Sockets<'_>) {
        let client = endpoint & !1;
        let Some(request) = self.under_way.get_mut(&client) else {
            if sockets.is_over(client) {
                sockets.free(client);
            }
            return;
        };
        if endpoint == client {
            request.received += sockets.read(client);
            if request.received == request.size && sockets.connection(client).is_at_end() {
                let (begun, size_bytes) = (request.begun, request.size);
                let took = sockets.now - begun;
                self.under_way.remove(&client);
                self.completed += 1;
                self.time.record(took);
                if let Some(done) = &mut self.done {
                    done.push(Done { begun, size_bytes, took });
                }
                sockets.close(client);
            }
        } else if request.asked < REQUEST {
            // What arrives at the server is the request, not what the traffic delivers.
            request.asked += sockets.connection(endpoint).read(u64::MAX);
            if request.asked == REQUEST {
                let size = request.size;
                sockets.write(peer_of(client), size);
                sockets.close(peer_of(client));
            }
        }
    }

    /// Those completed, if they were kept.
    pub(crate) fn done(&self) -> &[Done] {
        self.done.as_deref().unwrap_or_default()
    }

    pub(crate) fn stop(&mut self) {
        self.next = None;
    }

    pub(crate) fn outcome(&self) -> ApplicationOutcome {
        let time = (&self.time).into();
        ApplicationOutcome::Completion { begun: self.begun, completed: self.completed, time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_pareto_has_the_mean_of_the_specification() {
        // 004-spec section 6.5: shape 0.9, 1 KB to 1 MB, mean 8.98 KB.
        let sizes = TruncatedPareto { shape: 0.9, least: 1_000, most: 1_000_000 };
        let mut random = Random::of_source(1, &["sizes"]);
        const N: u32 = 1_000_000;
        let mean = (0..N).map(|_| sizes.draw(&mut random) as f64).sum::<f64>() / f64::from(N);
        assert!((mean / 8_980.0 - 1.0).abs() < 0.02, "mean {mean}");
    }
}
