//! What a thread may ask of the kernel so that it wakes on time on a loaded machine. Each request
//! may be refused to an unprivileged process; the caller reports which were granted.

#![allow(unsafe_code, reason = "two system calls that no safe crate wraps")]

use std::fs::{File, OpenOptions};
use std::io::Write as _;

/// Where Linux takes requests for the latency of its processors (PM QoS): four bytes with
/// microseconds, in force while the file is open.
const LATENCY_REQUESTS: &str = "/dev/cpu_dma_latency";

/// Above every ordinary thread, below whatever else on the machine is real-time.
const PRIORITY: libc::c_int = 1;

/// Makes the calling thread preempt ordinary ones when it wakes. True if permitted.
pub(crate) fn preempt_others() -> bool {
    // SAFETY: `sched_param` is plain data, for which zero is valid.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = PRIORITY;
    // SAFETY: `parameters` outlives the call; thread 0 is the calling one.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0 }
}

/// Wakes the calling thread at the nanosecond asked for instead of up to 50 µs later.
pub(crate) fn sleep_precisely() {
    // Fails only where slack does not apply (a real-time thread has none).
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// Keeps `memory` resident, and faults it in now rather than when a packet comes. True if
/// permitted.
pub(crate) fn lock(memory: &[u8]) -> bool {
    // SAFETY: the range is one live allocation; locking changes none of its bytes. It is unlocked
    // by the kernel when the allocator unmaps it.
    unsafe { libc::mlock(memory.as_ptr().cast(), memory.len()) == 0 }
}

/// Keeps the machine's processors from sleeping, by turns.
///
/// A sleeping processor takes its time to wake: a virtual one, halted, until its host runs it
/// again, which on a machine shared with others can be milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Wakefulness {
    request: Option<File>,
    is_refused: bool,
}

impl Wakefulness {
    /// No processor sleeps from now on, if that is permitted.
    pub(crate) fn hold(&mut self) {
        if self.request.is_none() && !self.is_refused {
            let request = OpenOptions::new().write(true).open(LATENCY_REQUESTS);
            let asked = request.and_then(|mut file| {
                file.write_all(&0_i32.to_ne_bytes())?;
                Ok(file)
            });
            self.is_refused = asked.is_err();
            self.request = asked.ok();
        }
    }

    /// They may sleep again.
    pub(crate) fn release(&mut self) {
        self.request = None;
    }

    pub(crate) const fn is_held(&self) -> bool {
        self.request.is_some()
    }

    /// Whether it was permitted when last asked for.
    pub(crate) const fn is_permitted(&self) -> bool {
        !self.is_refused
    }
}
