//! Another sender, as the receiver knows it: what it was asked for and has not delivered.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use weir_units::Rate;

use crate::{helper, socket};

/// What is asked for before it is known how fast it is.
const FIRST_BATCH: u16 = 4;
/// The most that is asked for at once.
const BATCH_MAX: u16 = 64;
/// So much of its time is asked for at once; twice as much may be under way.
const BATCH_S: f64 = 0.5;
/// Over which its speed is averaged.
const WATCH: Duration = Duration::from_secs(4);

/// One of the other senders.
pub(super) type Helper = helper::Helper<Asked>;

/// What another sender was asked for.
#[derive(Default)]
pub(crate) struct Asked {
    /// So many chunks were asked for, and the first sender has not answered.
    unanswered: Option<u16>,
    /// The hashes of what it owes, by file and chunk.
    under_way: HashMap<(u64, u64), [u8; 32]>,
    speed: Speed,
}

/// How many chunks came, and since when.
#[derive(Default)]
struct Speed {
    since: Option<Instant>,
    chunks: f64,
}

impl Speed {
    fn begin(&mut self, now: Instant) {
        (self.since, self.chunks) = (Some(now), 0.0);
    }

    fn count(&mut self, now: Instant) {
        self.chunks += 1.0;
        let Some(since) = self.since else { return };
        if now - since > WATCH {
            (self.since, self.chunks) = (Some(now - (now - since) / 2), self.chunks / 2.0);
        }
    }

    /// How many chunks are to be asked for at once.
    fn batch(&self, now: Instant) -> u16 {
        match self.since {
            Some(since) if self.chunks >= 2.0 => {
                let per_s = self.chunks / (now - since).as_secs_f64().max(1e-3);
                (per_s * BATCH_S).clamp(1.0, BATCH_MAX.into()) as u16
            }
            _ => FIRST_BATCH,
        }
    }
}

impl Helper {
    /// How many chunks the first sender is to be asked for now, if any.
    pub(super) fn next_ask(&self) -> Option<u16> {
        let mut state = self.state();
        let work = &state.work;
        let batch = work.speed.batch(Instant::now());
        let has_enough = work.under_way.len() >= batch.into();
        if state.over || work.unanswered.is_some() || has_enough || state.control.is_none() {
            return None;
        }
        state.work.unanswered = Some(batch);
        Some(batch)
    }

    /// The first sender has answered with so many chunks; false if that is not what was asked.
    pub(super) fn take_answer(&self, chunks: usize) -> bool {
        let asked = self.state().work.unanswered.take();
        asked.is_some_and(|asked| (1..=asked.into()).contains(&chunks))
    }

    /// It owes these chunks from now on; false if it is asked for nothing more.
    pub(super) fn owe(&self, file: u64, first: u64, hashes: &[[u8; 32]]) -> bool {
        let mut state = self.state();
        if state.over {
            return false;
        }
        if state.work.under_way.is_empty() {
            let now = Instant::now();
            state.moved = Some(now);
            state.work.speed.begin(now);
        }
        let under_way = &mut state.work.under_way;
        under_way.extend((first..).zip(hashes).map(|(chunk, hash)| ((file, chunk), *hash)));
        true
    }

    /// A chunk comes: its hash as the first sender told it, and whether nothing else is owed.
    /// `None`: it was not asked for.
    pub(super) fn take(&self, file: u64, chunk: u64) -> Option<([u8; 32], bool)> {
        let work = &mut self.state().work;
        let hash = work.under_way.remove(&(file, chunk))?;
        work.speed.count(Instant::now());
        Some((hash, work.under_way.is_empty()))
    }

    /// All that it was asked for has come.
    pub(super) fn owes_nothing(&self) -> bool {
        self.state().work.under_way.is_empty()
    }

    /// Whether it has owed something for so long, and next to nothing has come. While paused it
    /// may.
    pub(super) fn is_stuck(&self, silence: Duration, rate: Rate) -> bool {
        let mut state = self.state();
        let arrived = state.sockets.iter().filter_map(|one| socket::bytes_received(one).ok()).sum();
        let owes_nothing = state.work.under_way.is_empty();
        state.is_stuck((silence, rate), arrived, owes_nothing)
    }

    /// It is asked for nothing more; what it owes, by file, the first time.
    pub(super) fn end(&self) -> Option<BTreeMap<u64, Vec<u64>>> {
        self.end_with(|work| {
            let mut owed: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for (file, chunk) in std::mem::take(&mut work.under_way).into_keys() {
                owed.entry(file).or_default().push(chunk);
            }
            owed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_asked_for_as_comes_in_half_a_second() {
        let began = Instant::now();
        let mut speed = Speed::default();
        assert_eq!(speed.batch(began), FIRST_BATCH);
        speed.begin(began);
        let mut now = began;
        let mut come = |count: usize, pause_ms: u64| {
            for _ in 0..count {
                now += Duration::from_millis(pause_ms);
                speed.count(now);
            }
            speed.batch(now)
        };
        assert_eq!(come(1, 10), FIRST_BATCH);
        assert_eq!(come(49, 10), 50);
        assert_eq!(come(1000, 1), BATCH_MAX);
        // What was long ago counts less and less.
        assert!(come(40, 1000) <= 1);
        assert!(come(40, 50) >= 5);
    }

    #[test]
    fn only_what_was_asked_for_is_taken_and_each_chunk_once() {
        let helper = Helper::new(2, "dtn3:7411");
        assert_eq!((helper.place(), helper.next_ask()), (3, None));
        assert!(!helper.take_answer(1), "nothing was asked");
        assert!(helper.owe(7, 10, &[[1; 32], [2; 32]]));
        assert_eq!(helper.take(7, 12), None);
        assert_eq!(helper.take(8, 10), None);
        assert_eq!(helper.take(7, 11), Some(([2; 32], false)));
        assert_eq!(helper.take(7, 11), None);
        assert!(!helper.is_stuck(Duration::from_secs(60), Rate::MAX));
        assert!(helper.is_stuck(Duration::ZERO, Rate::MAX));
        assert_eq!(helper.end(), Some(BTreeMap::from([(7, vec![10])])));
        assert!(!helper.owe(7, 20, &[[1; 32]]));
        assert_eq!(helper.end(), None);
        assert!(!helper.is_stuck(Duration::ZERO, Rate::MAX));
    }
}
