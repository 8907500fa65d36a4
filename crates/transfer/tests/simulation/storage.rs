//! What goes wrong with a process's file system. The files themselves are real ones, in a folder
//! of the run's own.

use std::ffi::c_int;

use weir_random::Random;

/// Kinds of calls that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Write,
    Reserve,
    Create,
    Name,
    Sync,
    Read,
    /// No failure: what a write leaves differs from what was to be written.
    Damage,
}

/// A span in which a process's storage fails in one way.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) process: usize,
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
    pub(crate) acts: &'static [Act],
    pub(crate) error: c_int,
    /// How often a call in the span fails.
    pub(crate) chance: f64,
}

/// All troubles of a run.
pub(crate) struct Storage {
    pub(crate) troubles: Vec<Trouble>,
    /// How often a write or read does less than was asked for.
    pub(crate) short: f64,
    random: Random,
    pub(crate) failures: u64,
}

impl Storage {
    pub(crate) fn new(seed: u64) -> Self {
        let random = Random::of_source(seed, &["storage"]);
        Self { troubles: Vec::new(), short: 0.0, random, failures: 0 }
    }

    /// The error that an act gets, if any.
    pub(crate) fn fails(&mut self, now_ns: u64, process: usize, act: Act) -> Option<c_int> {
        for trouble in &self.troubles {
            if trouble.process == process
                && trouble.acts.contains(&act)
                && (trouble.from_ns..trouble.until_ns).contains(&now_ns)
                && self.random.chance(trouble.chance)
            {
                self.failures += 1;
                return Some(trouble.error);
            }
        }
        None
    }

    /// What a write leaves if it is damaged just then: one bit is another.
    pub(crate) fn damaged(&mut self, now_ns: u64, process: usize, data: &[u8]) -> Option<Vec<u8>> {
        self.fails(now_ns, process, Act::Damage)?;
        let mut damaged = data.to_vec();
        let place = self.random.up_to(data.len() as u64 - 1) as usize;
        damaged[place] ^= 1 << self.random.up_to(7);
        Some(damaged)
    }

    /// How much of a write or read of `count` bytes is done.
    pub(crate) fn part(&mut self, count: usize) -> usize {
        if count > 1 && self.random.chance(self.short) {
            return 1 + self.random.up_to(count as u64 - 2) as usize;
        }
        count
    }
}
