//! What the prober asks of the kernel and no safe crate wraps.

#![allow(unsafe_code, reason = "three system calls that no safe crate wraps")]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use weir_units::Time;

/// More than any kernel fills (248 bytes in Linux 6.18); it says how much it did.
const TCP_INFO_BYTES: usize = 256;

/// One above our own bursts and a lab's links, which run for long; the prober, for microseconds.
const PRIORITY: libc::c_int = 2;

/// A descriptor of our own for what `descriptor` stands for.
pub(crate) fn duplicate(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: a number that is not a descriptor is refused by the kernel.
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was made for us this moment.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// `struct tcp_info` of a connection, as far as the kernel fills it; empty if it is another socket.
pub(crate) fn tcp_info(connection: &OwnedFd) -> Vec<u8> {
    let mut told = vec![0; TCP_INFO_BYTES];
    let mut size = TCP_INFO_BYTES as libc::socklen_t;
    // SAFETY: `told` has `size` bytes, and both outlive the call.
    let answer = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            told.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    told.truncate(if answer == 0 { size as usize } else { 0 });
    told
}

/// Makes the calling thread preempt ordinary ones when it wakes. True if permitted.
pub(crate) fn preempt_others() -> bool {
    // SAFETY: `sched_param` is plain data, for which zero is valid.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = PRIORITY;
    // SAFETY: `parameters` outlives the call; thread 0 is the calling one.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

/// Wakes the calling thread at the nanosecond asked for instead of up to 50 µs later.
pub(crate) fn wake_precisely() {
    // Fails only where slack does not apply (a real-time thread has none).
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// Since the machine started.
pub(crate) fn monotonic() -> Time {
    now(nix::time::ClockId::CLOCK_MONOTONIC)
}

/// The wall clock, by which the kernel stamps packets; since 1970.
pub(crate) fn wall_clock() -> Time {
    now(nix::time::ClockId::CLOCK_REALTIME)
}

fn now(clock: nix::time::ClockId) -> Time {
    let now = clock.now().expect("Linux has both clocks, and the result is ours to write to");
    since(&now)
}

/// A time of the kernel's in our unit.
pub(crate) fn since(time: &nix::sys::time::TimeSpec) -> Time {
    let ns = time.tv_sec().saturating_mul(1_000_000_000).saturating_add(time.tv_nsec());
    Time::from_ns(u64::try_from(ns).unwrap_or(0))
}
