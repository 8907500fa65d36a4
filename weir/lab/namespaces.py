"""Linux namespaces for one lab: made by its supervisor, entered by everybody else.

Nothing gets a name in the root namespaces: the supervisor holds every namespace by a file
descriptor, and others enter through `/proc/SUPERVISOR/fd/N` with `nsenter`. When the supervisor
and the processes inside are gone, the kernel has removed everything.
"""

import ctypes
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weir import kernel_controls
from weir.errors import Unsupported

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_ROOM = _CLONE_NEWNS | _CLONE_NEWNET | _CLONE_NEWUTS
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19

_TCP_BUFFER_MAX = 64 * 2**20  # 001-spec section 2.5: well above 2 x (BDP + queue)

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Room:
    """The namespaces of one node, as descriptors of the supervisor.

    Attributes:
        net: network namespace.
        mount: mount namespace, where /etc/hosts and /sys are the node's.
        uts: where the host name is the node's.
        user: the user namespace to enter first, None for whoever is in it (the supervisor) and
            for labs of root, which have none.
    """

    net: int
    mount: int
    uts: int
    user: int | None = None

    def command(self, supervisor: int, argv: Sequence[str], directory: str) -> list[str]:
        """The command that runs `argv` in this room, replacing itself: its pid is `argv`'s."""
        at = f"/proc/{supervisor}/fd"
        user = [] if self.user is None else [f"--user={at}/{self.user}", "--preserve-credentials"]
        return [
            "nsenter",
            *user,
            f"--net={at}/{self.net}",
            f"--mount={at}/{self.mount}",
            f"--uts={at}/{self.uts}",
            f"--wdns={directory}",
            "--",
            *argv,
        ]

    def close(self) -> None:
        """Lets nobody in any more; who is in stays."""
        for descriptor in (self.net, self.mount, self.uts):
            os.close(descriptor)

    def to_json(self) -> dict[str, Any]:
        """For the lab's state file; `Room(**value)` reads it back."""
        return asdict(self)


class Builder:
    """Makes rooms, in a process that has one thread and may lose its own namespaces.

    Args:
        hosts_file: what every room sees as /etc/hosts.

    Attributes:
        user: the user namespace that the rooms belong to, None when root made them.

    Raises:
        Unsupported: the kernel does not let this user make namespaces.
    """

    def __init__(self, hosts_file: Path) -> None:
        self._hosts_file = hosts_file
        self.user: int | None = None
        if os.geteuid() != 0:
            self.user = _become_root_of_a_user_namespace()
        # A base of its own to come back to: a user's namespace may not return to the machine's.
        _unshare(_ROOM, "a mount and network namespace")
        # Mounts of the machine go on appearing inside; ours never appear outside.
        _mount("none", "/", None, _MS_REC | _MS_SLAVE)
        self._base_mount = _open_own("mnt")
        self._base_net = _open_own("net")
        self._base_uts = _open_own("uts")

    def room(self, name: str, sysctls: Mapping[str, str]) -> Room:
        """Makes the namespaces of the node `name` and sets its `sysctls` (keys by /proc path)."""
        directory = Path.cwd()
        _unshare(_ROOM, "a network namespace")
        socket.sethostname(name)
        _mount(str(self._hosts_file), "/etc/hosts", None, _MS_BIND)
        _mount_sys()
        for key, value in sysctls.items():
            _set_sysctl(key, value)
        room = Room(_open_own("net"), _open_own("mnt"), _open_own("uts"))
        for descriptor in (self._base_mount, self._base_net, self._base_uts):
            enter(descriptor)
        os.chdir(directory)  # entering a mount namespace moves the process to its root
        return room


def enter(descriptor: int) -> None:
    """Moves the calling thread into the namespace that `descriptor` is open on."""
    _check(_libc.setns(descriptor, 0), "setns")


def node_sysctls(forwards: bool, ecn: bool = False, ipv6: bool = False) -> dict[str, str]:
    """What every node's network namespace is set to (001-spec sections 2.5 and 2.6).

    With `ecn` its TCP asks for ECN; without, it agrees when asked, as Linux does. Its
    default congestion control is not the machine's: where that is BBR, iperf3's connections begin
    under it, and once changed to CUBIC they would stay paced and lose less.
    """
    settings = {
        "ipv4/ip_forward": str(int(forwards)),
        "ipv4/tcp_congestion_control": default_congestion_control(),
        "ipv4/tcp_ecn": "1" if ecn else "2",
        "ipv4/tcp_no_metrics_save": "1",
        "ipv4/tcp_rmem": f"4096 131072 {_TCP_BUFFER_MAX}",
        "ipv4/tcp_wmem": f"4096 65536 {_TCP_BUFFER_MAX}",
    }
    for scope in ("all", "default"):
        # Unnumbered links: a packet may come in by a device that no route names.
        settings[f"ipv4/conf/{scope}/rp_filter"] = "0"
        settings[f"ipv4/conf/{scope}/send_redirects"] = "0"
        # Silence: no router solicitations or duplicate-address probes in the counters.
        settings[f"ipv6/conf/{scope}/disable_ipv6"] = str(int(not ipv6))
        if ipv6:
            settings[f"ipv6/conf/{scope}/forwarding"] = str(int(forwards))
            settings[f"ipv6/conf/{scope}/addr_gen_mode"] = "1"  # none but those that we give
            settings[f"ipv6/conf/{scope}/accept_ra"] = "0"
            settings[f"ipv6/conf/{scope}/accept_dad"] = "0"
    return settings


def default_congestion_control() -> str:
    """What TCP in a lab uses where nobody asks for another: CUBIC, as in the packet simulator.

    A namespace may default to what `tcp_allowed_congestion_control` lists; Reno always is there.
    """
    return "cubic" if "cubic" in kernel_controls.allowed() else "reno"


def _become_root_of_a_user_namespace() -> int:
    user, group = os.geteuid(), os.getegid()
    _unshare(_CLONE_NEWUSER, "a user namespace")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    return _open_own("user")


def _mount_sys() -> None:
    """Shows the new network's devices under /sys/class/net, keeping what is mounted below."""
    below = [path for path in ("/sys/fs/cgroup", "/sys/fs/bpf") if os.path.ismount(path)]
    kept = [(path, os.open(path, os.O_PATH)) for path in below]
    try:
        _mount("sysfs", "/sys", "sysfs", 0)
        for path, descriptor in kept:
            _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC)
    finally:
        for _, descriptor in kept:
            os.close(descriptor)


def _set_sysctl(key: str, value: str) -> None:
    path = Path("/proc/sys/net") / key
    if key.startswith("ipv6/") and not path.exists():
        return  # a kernel without IPv6 has nothing to silence
    path.write_text(value)


def _open_own(kind: str) -> int:
    return os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def _unshare(flags: int, what: str) -> None:
    if _libc.unshare(flags) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise Unsupported(f"cannot make {what}: {reason}; `weir doctor` shows what is missing")


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    fs_type = kind.encode() if kind else None
    result = _libc.mount(source.encode(), target.encode(), fs_type, ctypes.c_ulong(flags), None)
    _check(result, f"mount on {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
