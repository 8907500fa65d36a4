//! What relays ask the kernel for, and no safe crate does.

#![allow(unsafe_code, reason = "three system calls that no safe crate wraps")]

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use socket2::Socket;

/// From linux/bpf.h.
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;

/// What was written to a connection and its other end has not acknowledged, in bytes. An end that
/// was told counts as one, until it is acknowledged (SIOCOUTQ).
pub(crate) fn unacknowledged(socket: &Socket) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open as long as the socket is borrowed, and the kernel writes one
    // int to where it is told to.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Bounds the window that a connection tells its other end (TCP_WINDOW_CLAMP).
pub(crate) fn clamp_window(socket: &Socket, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open as long as the socket is borrowed, and the kernel reads one
    // int, which outlives the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_WINDOW_CLAMP,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The begin of the kernel's `union bpf_attr`, as it is for operations on maps.
#[repr(C)]
struct OfMap {
    map: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// An entry of a BPF map; none if there is none. `VALUE` is the size of its values, `KEY` that of
/// its keys.
pub(crate) fn map_entry<const KEY: usize, const VALUE: usize>(
    map: RawFd,
    key: &[u8; KEY],
) -> io::Result<Option<[u8; VALUE]>> {
    let mut value = [0_u8; VALUE];
    match of_map(BPF_MAP_LOOKUP_ELEM, map, key, Some(&mut value)) {
        Ok(()) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts an entry into a BPF map, or in the place of the one with that key.
pub(crate) fn set_map_entry<const KEY: usize, const VALUE: usize>(
    map: RawFd,
    key: &[u8; KEY],
    value: &[u8; VALUE],
) -> io::Result<()> {
    let mut value = *value;
    of_map(BPF_MAP_UPDATE_ELEM, map, key, Some(&mut value))
}

/// Takes an entry out of a BPF map.
pub(crate) fn remove_map_entry<const KEY: usize>(map: RawFd, key: &[u8; KEY]) -> io::Result<()> {
    of_map::<KEY, 0>(BPF_MAP_DELETE_ELEM, map, key, None)
}

fn of_map<const KEY: usize, const VALUE: usize>(
    operation: libc::c_int,
    map: RawFd,
    key: &[u8; KEY],
    value: Option<&mut [u8; VALUE]>,
) -> io::Result<()> {
    let asked = OfMap {
        map: u32::try_from(map).map_err(io::Error::other)?,
        _padding: 0,
        key: key.as_ptr() as u64,
        value: value.map_or(0, |value| value.as_mut_ptr() as u64),
        flags: 0,
    };
    // SAFETY: the kernel reads the key, and reads or writes the value, both of which outlive the
    // call and are as long as the map says, which is ours; a descriptor that is no map's is an
    // error.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, operation, &raw const asked, size_of::<OfMap>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
