//! The real kernel and the real C library, past everything that stands in for them here.

use std::ffi::{CStr, c_int, c_long, c_void};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// One system call; a negative result is an error number.
#[cfg(target_arch = "x86_64")]
pub(crate) fn system_call(number: c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller passes on arguments that its own caller vouches for.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// One system call; a negative result is an error number.
#[cfg(target_arch = "aarch64")]
pub(crate) fn system_call(number: c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller passes on arguments that its own caller vouches for.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") arguments[0] as isize => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack)
        );
    }
    result
}

/// A system call's result as C has it: -1 and `errno`.
pub(crate) fn returned(result: isize) -> isize {
    if result < 0 {
        set_errno(-result as c_int);
        return -1;
    }
    result
}

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(error: c_int) {
    // SAFETY: the C library returns the calling thread's own variable.
    unsafe { *libc::__errno_location() = error };
}

/// A call to the kernel with `errno`.
macro_rules! kernel {
    ($number:expr $(, $argument:expr)* $(,)?) => {{
        let given: &[usize] = &[$($argument as usize),*];
        let mut arguments = [0_usize; 6];
        arguments[..given.len()].copy_from_slice(given);
        $crate::raw::returned($crate::raw::system_call($number, arguments))
    }};
}
pub(crate) use kernel;

/// A function of the C library that this program replaces.
pub(crate) fn original(name: &CStr) -> *mut c_void {
    // SAFETY: a constant handle and a string that ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "the C library lacks {name:?}");
    found
}

/// What a simulated thread waits at while it is another's turn.
#[derive(Default)]
pub(crate) struct Gate(AtomicU32);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.store(1, SeqCst);
        let address = self.0.as_ptr() as usize;
        let _ = system_call(libc::SYS_futex, [address, libc::FUTEX_WAKE as usize, 1, 0, 0, 0]);
    }

    /// Waits until the gate opens, and closes it behind the caller.
    pub(crate) fn pass(&self) {
        while self.0.swap(0, SeqCst) == 0 {
            let address = self.0.as_ptr() as usize;
            let _ = system_call(libc::SYS_futex, [address, libc::FUTEX_WAIT as usize, 0, 0, 0, 0]);
        }
    }
}
