//! Many datagrams by one send: the kernel cuts what it is given into payloads of one size.

#![allow(unsafe_code, reason = "a socket option that no safe crate wraps")]

use std::io;
use std::os::fd::AsRawFd;

/// Lets the kernel cut what is sent into datagrams of `payload` bytes (UDP segmentation offload).
pub(crate) fn cut(socket: &impl AsRawFd, payload: libc::c_int) -> io::Result<()> {
    let length = size_of_val(&payload) as libc::socklen_t;
    // SAFETY: `payload` outlives the call, and `length` is its size.
    let refused = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const payload).cast(),
            length,
        )
    };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
