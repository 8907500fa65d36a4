//! Threads, locks, time and randomness.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

use crate::kernel::{Call, Key, SECOND_NS, live};
use crate::raw::{Gate, kernel, original, set_errno};

type Body = extern "C" fn(*mut c_void) -> *mut c_void;

struct Start {
    thread: usize,
    gate: &'static Gate,
    body: Body,
    argument: *mut c_void,
}

extern "C" fn begin(start: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` below leaked the box for this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    let mut result = std::ptr::null_mut();
    live(start.thread, start.gate, || result = (start.body)(start.argument));
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    native: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    body: Body,
    argument: *mut c_void,
) -> c_int {
    type Create = extern "C" fn(
        *mut libc::pthread_t,
        *const libc::pthread_attr_t,
        Body,
        *mut c_void,
    ) -> c_int;
    // SAFETY: the C library's function has this type.
    let create: Create = unsafe { std::mem::transmute(original(c"pthread_create")) };
    let Some(mut call) = Call::begin() else {
        return create(native, attributes, body, argument);
    };
    let (thread, gate) = call.add_thread();
    let start = Box::into_raw(Box::new(Start { thread, gate, body, argument }));
    let result = create(native, attributes, begin, start.cast());
    assert!(result == 0, "the machine has no thread left");
    // SAFETY: it was written when the thread was made.
    call.set_real(thread, unsafe { *native });
    call.step("spawns", thread as i64);
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_join(native: libc::pthread_t, result: *mut *mut c_void) -> c_int {
    type Join = extern "C" fn(libc::pthread_t, *mut *mut c_void) -> c_int;
    // SAFETY: the C library's function has this type.
    let join: Join = unsafe { std::mem::transmute(original(c"pthread_join")) };
    if let Some(mut call) = Call::begin() {
        call.join(native);
    }
    join(native, result)
}

fn nanoseconds(time: &libc::timespec) -> u64 {
    time.tv_sec as u64 * SECOND_NS + time.tv_nsec as u64
}

/// `futex` is how the standard library waits and wakes; all else is the real kernel's.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    match number {
        // SAFETY: the caller's arguments are those of these calls.
        libc::SYS_futex => unsafe { futex([a, b, c, d, e, f]) },
        libc::SYS_openat2 => super::file::opened("opens", || kernel!(number, a, b, c, d)) as c_long,
        libc::SYS_fchmod => super::file::fchmod(a as c_int, b as libc::mode_t).into(),
        // SAFETY: as above.
        libc::SYS_getrandom => unsafe { getrandom(a as *mut c_void, b, c as c_uint) as c_long },
        _ => kernel!(number, a, b, c, d, e, f) as c_long,
    }
}

unsafe fn futex(arguments: [usize; 6]) -> c_long {
    let [address, operation, value, time, ..] = arguments;
    let real = || {
        let [a, b, c, d, e, f] = arguments;
        kernel!(libc::SYS_futex, a, b, c, d, e, f) as c_long
    };
    let Some(mut call) = Call::begin() else {
        return real();
    };
    let kind = operation as c_int & 0x7f;
    let key = Key::Futex(address);
    match kind {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            // SAFETY: the caller waits on a variable of its own.
            let now = unsafe { std::ptr::read_volatile(address as *const u32) };
            if now != value as u32 {
                drop(call);
                set_errno(libc::EAGAIN);
                return -1;
            }
            let world = call.world();
            // SAFETY: a time that the caller gives is readable.
            let time = unsafe { (time as *const libc::timespec).as_ref() };
            let until = time.map(|time| match kind {
                libc::FUTEX_WAIT => world.now_ns + nanoseconds(time),
                _ if operation as c_int & libc::FUTEX_CLOCK_REALTIME != 0 => {
                    nanoseconds(time).saturating_add_signed(-world.wall_offset_ns)
                }
                _ => nanoseconds(time),
            });
            let woken = call.wait(key, until);
            call.step("waited", woken.into());
            drop(call);
            if woken {
                return 0;
            }
            set_errno(libc::ETIMEDOUT);
            -1
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let most = usize::try_from(value as c_int).unwrap_or(usize::MAX);
            let woken = call.world().wake(key, most);
            call.step("wakes", woken as i64);
            woken as c_long
        }
        _ => real(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let now_ns = match clock {
        libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME | libc::CLOCK_REALTIME => {
            Call::begin().map(|mut call| {
                let world = call.world();
                match clock {
                    libc::CLOCK_REALTIME => {
                        world.now_ns.saturating_add_signed(world.wall_offset_ns)
                    }
                    _ => world.now_ns,
                }
            })
        }
        _ => None,
    };
    let Some(now_ns) = now_ns else {
        return kernel!(libc::SYS_clock_gettime, clock, time) as c_int;
    };
    let (tv_sec, tv_nsec) = ((now_ns / SECOND_NS) as i64, (now_ns % SECOND_NS) as i64);
    // SAFETY: the caller gives a place for the time.
    unsafe { *time = libc::timespec { tv_sec, tv_nsec } };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nanosleep(time: *const libc::timespec, rest: *mut libc::timespec) -> c_int {
    // SAFETY: passes on what it was given.
    let result = unsafe { clock_nanosleep(libc::CLOCK_MONOTONIC, 0, time, rest) };
    if result == 0 {
        return 0;
    }
    set_errno(result);
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    rest: *mut libc::timespec,
) -> c_int {
    let Some(mut call) = Call::begin() else {
        let arguments = [clock as usize, flags as usize, time as usize, rest as usize, 0, 0];
        return -crate::raw::system_call(libc::SYS_clock_nanosleep, arguments) as c_int;
    };
    // SAFETY: the caller gives a time.
    let time = nanoseconds(unsafe { &*time });
    let now_ns = call.world().now_ns;
    let until = if flags & libc::TIMER_ABSTIME != 0 { time } else { now_ns + time };
    call.wait(Key::Time, Some(until));
    call.step("slept", 0);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    let Some(mut call) = Call::begin() else {
        return kernel!(libc::SYS_getrandom, buffer, length, flags);
    };
    // SAFETY: the caller gives `length` bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
    let randomness = &mut call.world().randomness;
    bytes.iter_mut().for_each(|byte| *byte = randomness.up_to(255) as u8);
    length as isize
}

/// Names of this simulation: `server` is the address that its servers listen on.
#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    found: *mut *mut libc::addrinfo,
) -> c_int {
    type Find = extern "C" fn(
        *const c_char,
        *const c_char,
        *const libc::addrinfo,
        *mut *mut libc::addrinfo,
    ) -> c_int;
    // SAFETY: the C library's function has this type.
    let find: Find = unsafe { std::mem::transmute(original(c"getaddrinfo")) };
    let Some(mut call) = Call::begin() else {
        return find(node, service, hints, found);
    };
    call.step("resolves", 0);
    let world = call.world();
    if world.network.resolves_not(world.now_ns) {
        return libc::EAI_AGAIN;
    }
    find(c"10.0.0.2".as_ptr(), service, hints, found)
}
