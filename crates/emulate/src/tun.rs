//! A TUN or TAP device inside a network namespace: opened, sized, read and written.

#![allow(unsafe_code, reason = "TUN and interface ioctls that no safe crate wraps")]

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Seek};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};

use crate::config::EndConfig;
use crate::offload::VNET_HEADER;
use crate::way::Device;

/// Packets that the kernel may hold for the emulator. Far beyond what 0.1 s of lateness can bring,
/// so that a drop here means that the emulator has fallen behind, and it is reported.
const RING_PACKETS: libc::c_int = 10_000;

/// `_IOW('T', 226, int)`, which libc does not name.
const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;
const TUN_F_CSUM: libc::c_ulong = 0x01;
const TUN_F_TSO4: libc::c_ulong = 0x02;
const TUN_F_TSO6: libc::c_ulong = 0x04;
const TUN_F_TSO_ECN: libc::c_ulong = 0x08;

/// Why a device could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The namespace file cannot be entered.
    #[error("network namespace {path}: cannot be entered: {source}")]
    Namespace {
        /// The file as configured.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The device exists already in that namespace.
    #[error("device {name}: exists already in its namespace")]
    Exists {
        /// Interface name.
        name: String,
    },
    /// A step of making the device failed.
    #[error("device {name}: cannot {step}: {source}")]
    Step {
        /// Interface name.
        name: String,
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The helper thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// An open TUN device that takes and gives packets behind a virtio-net header, never blocking.
///
/// With `ethernet` it is a TAP device, which takes and gives whole frames: one packet each, with
/// its checksums done, since who looks at a switch's port is no kernel that would do them.
#[derive(Debug)]
pub(crate) struct Tun {
    device: OwnedFd,
    name: String,
    ethernet: bool,
    carrier: bool,
    /// `/proc/thread-self/net/dev` of the device's namespace, opened there.
    counters: File,
}

impl Tun {
    /// Makes the device of a link's end in its namespace.
    pub(crate) fn open(end: &EndConfig) -> Result<Self, TunError> {
        // A namespace is entered per thread: a thread of its own leaves the caller where it was.
        std::thread::scope(|scope| {
            let opened = std::thread::Builder::new()
                .name("weir-netns".into())
                .spawn_scoped(scope, || Self::open_here(end));
            let helper = opened.map_err(TunError::Thread)?;
            helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn open_here(end: &EndConfig) -> Result<Self, TunError> {
        let EndConfig { netns: path, namespace, device: name, mtu, ethernet } = end;
        setns(namespace, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| TunError::Namespace { path: path.into(), source: errno.into() })?;
        let step = |step| move |source| TunError::Step { name: name.clone(), step, source };
        let device = open_device().map_err(step("open /dev/net/tun"))?;
        attach(&device, name, *ethernet).map_err(|source| match source.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => TunError::Exists { name: name.clone() },
            _ => step("create it")(source),
        })?;
        set_offloads(&device, *ethernet).map_err(step("set its offloads"))?;
        resize(name, *mtu).map_err(step("set its MTU and queue length"))?;
        let counters =
            File::open("/proc/thread-self/net/dev").map_err(step("open its counters"))?;
        Ok(Self { device, name: name.clone(), ethernet: *ethernet, carrier: true, counters })
    }

    /// Tells the kernel whether a cable is in the device. Without one nothing is sent or taken.
    pub(crate) fn set_carrier(&mut self, carrier: bool) -> std::io::Result<()> {
        let value = libc::c_int::from(carrier);
        // SAFETY: TUNSETCARRIER reads one `int`, which `value` is.
        checked(unsafe { libc::ioctl(self.device.as_raw_fd(), TUNSETCARRIER, &value) })?;
        self.carrier = carrier;
        Ok(())
    }

    /// Packets that the kernel dropped on their way to this process because it was late; none if
    /// the counter cannot be read.
    pub(crate) fn dropped(&mut self) -> u64 {
        let mut text = String::new();
        let read = self.counters.rewind().and_then(|()| self.counters.read_to_string(&mut text));
        read.ok().and_then(|_| transmit_drops(&text, &self.name)).unwrap_or(0)
    }
}

impl Device for Tun {
    fn is_ethernet(&self) -> bool {
        self.ethernet
    }

    fn read(
        &self,
        vnet: &mut [u8; VNET_HEADER],
        packet: &mut [u8],
    ) -> Result<Option<usize>, Errno> {
        let mut parts = [IoSliceMut::new(vnet), IoSliceMut::new(packet)];
        match nix::sys::uio::readv(&self.device, &mut parts) {
            Ok(len) => Ok(Some(len.saturating_sub(VNET_HEADER))),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> Result<(), Errno> {
        if !self.carrier {
            return Err(Errno::ENETDOWN);
        }
        nix::sys::uio::writev(&self.device, parts).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// The transmit drops of `name` in the text of `/proc/net/dev`.
fn transmit_drops(text: &str, name: &str) -> Option<u64> {
    let line =
        text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    // Eight receive fields, then transmit bytes, packets, errors, drops.
    line?.split_ascii_whitespace().nth(11)?.parse().ok()
}

fn open_device() -> std::io::Result<OwnedFd> {
    use nix::fcntl::{OFlag, open};
    use nix::sys::stat::Mode;
    let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    Ok(open("/dev/net/tun", flags, Mode::empty())?)
}

fn attach(device: &OwnedFd, name: &str, ethernet: bool) -> std::io::Result<()> {
    let mut request = named_request(name);
    let kind = if ethernet { libc::IFF_TAP } else { libc::IFF_TUN };
    let flags = kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which `request` is.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &mut request) })
}

fn set_offloads(device: &OwnedFd, ethernet: bool) -> std::io::Result<()> {
    let all = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    let offloads = if ethernet { 0 } else { all };
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) })
}

fn resize(name: &str, mtu: u32) -> std::io::Result<()> {
    // SAFETY: `socket` takes plain values; the result is checked before it is owned.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    checked(socket)?;
    // SAFETY: a fresh descriptor that nothing else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut request = named_request(name);
    request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
    // SAFETY: SIOCSIFMTU reads one `ifreq`.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFMTU, &request) })?;
    // The union's first integer is `ifr_qlen`, which libc does not name.
    request.ifr_ifru.ifru_ifindex = RING_PACKETS;
    // SAFETY: SIOCSIFTXQLEN reads one `ifreq`.
    let set = checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFTXQLEN, &request) });
    match set {
        // The kernel grants this call to the machine's root only. In a user namespace the caller
        // sets the length over netlink, where the namespace's root is enough.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(()),
        other => other,
    }
}

/// An interface request for `name`, which [`Config`](crate::Config) has checked to fit.
fn named_request(name: &str) -> libc::ifreq {
    // SAFETY: `ifreq` is plain data, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let last = request.ifr_name.len() - 1;
    for (place, byte) in request.ifr_name[..last].iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    request
}

fn checked(result: libc::c_int) -> std::io::Result<()> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmit_drops_are_read_from_the_right_column() {
        let text = "Inter-|   Receive                            |  Transmit\n \
            face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop\n\
            \x20   lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
            wan-a: 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36\n";
        assert_eq!(transmit_drops(text, "wan-a"), Some(32));
        assert_eq!(transmit_drops(text, "wan"), None);
    }
}
