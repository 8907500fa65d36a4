"""Two hosts on one machine, joined by a bare veth and by a 1 Gbit/s path, with files in memory.

    sender ── veth ──────────────── receiver      10.99.1.0/24   the processor is the limit
    sender ── router (HTB each way) ─ receiver    10.99.2.0/24, 10.99.3.0/24   the link is

The hosts are network namespaces that share one private mount namespace: its /dev/shm is a tmpfs
of the benchmark's own and its /etc/hosts names both hosts. The namespaces have no names and are
held by child processes that die with this one, so that nothing is left behind even by SIGKILL.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benches.account import die_with_parent
from weir.errors import BadInput, TransferFailed, Unsupported

BARE = "bare veth"
SHAPED = "1 Gbit/s"
FILES = Path("/dev/shm")
"""Where the files lie, as programs inside see it."""

CONGESTION = "cubic"
"""What TCP in benchmarks sends by."""

_LIBC = ctypes.CDLL(None, use_errno=True)
# The queue of a router with 32 ms of buffer; with HTB's default (1000 GSO packets of up to 64 kB)
# it would be half a second.
_SHAPE = "rate 1gbit burst 256k cburst 256k"
_QUEUE_BYTES = 4_000_000


@dataclass(frozen=True)
class Host:
    """One namespace: the process that holds it, its addresses by link, the way into it."""

    name: str
    pid: int
    addresses: dict[str, str]
    descriptors: list[int]

    def enter(self) -> None:
        """Moves the calling process onto this host; for a child before its exec."""
        for descriptor in self.descriptors:
            if _LIBC.setns(descriptor, 0) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        os.chdir(FILES)

    def listens(self, port: int) -> bool:
        """Whether a TCP socket of this host listens at `port`; asks without connecting."""
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{self.pid}/net/{table}").read_text().splitlines()[1:]:
                _, local, _, state = line.split()[:4]
                if state == "0A" and int(local.rsplit(":", 1)[1], 16) == port:
                    return True
        return False


@dataclass(frozen=True)
class Testbed:
    """Both hosts, and the folder of their files as this process sees it."""

    sender: Host
    receiver: Host
    files: Path
    notes: list[str]


@contextlib.contextmanager
def testbed(files_bytes: int) -> Iterator[Testbed]:
    """Builds the hosts with room for `files_bytes`; all of it is gone at the end.

    Raises Unsupported when not root, BadInput when there is not enough free memory.
    """
    if os.geteuid() != 0:
        raise Unsupported("this benchmark makes network namespaces and cgroups: run it as root")
    _check_memory(files_bytes)
    with contextlib.ExitStack() as held:
        pids = {name: held.enter_context(holder()) for name in ("sender", "router", "receiver")}
        mounts = pids["sender"]
        sender = Host(
            "sender",
            mounts,
            {BARE: "10.99.1.1", SHAPED: "10.99.2.1"},
            [held.enter_context(opened(mounts, kind)) for kind in ("net", "mnt")],
        )
        receiver = Host(
            "receiver",
            pids["receiver"],
            {BARE: "10.99.1.2", SHAPED: "10.99.3.2"},
            [
                held.enter_context(opened(pids["receiver"], "net")),
                held.enter_context(opened(mounts, "mnt")),
            ],
        )
        _mount(mounts, files_bytes)
        _connect(pids)
        notes = [_proof(sender, receiver, link) for link in (BARE, SHAPED)]
        yield Testbed(sender, receiver, Path(f"/proc/{mounts}/root{FILES}"), notes)


def _check_memory(files_bytes: int) -> None:
    meminfo = Path("/proc/meminfo").read_text()
    available = 1024 * int(meminfo.split("MemAvailable:")[1].split()[0])
    # Programs, socket buffers, and whoever else is on the machine.
    needed = files_bytes + 2 * 10**9
    if available < needed:
        raise BadInput(
            f"the files lie in memory: {needed / 1e9:.1f} GB needed, {available / 1e9:.1f} GB "
            "available; WEIR_BENCH_QUICK=1 takes smaller files"
        )


@contextlib.contextmanager
def holder() -> Iterator[int]:
    """A process that does nothing in namespaces of its own; yields its id."""
    with subprocess.Popen(
        ["unshare", "--net", "--mount", "--", "sh", "-c", "echo; exec sleep infinity"],
        stdout=subprocess.PIPE,
        preexec_fn=die_with_parent,
    ) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise Unsupported("cannot make network and mount namespaces")
            yield process.pid
        finally:
            process.kill()


@contextlib.contextmanager
def opened(pid: int, kind: str) -> Iterator[int]:
    """A namespace of a process, open."""
    descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def inside(pid: int, *argv: str) -> str:
    """Runs a set-up command in the namespaces held by `pid` and returns what it printed."""
    answer = subprocess.run(
        ["nsenter", "-t", str(pid), "-n", "-m", "--", *argv],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if answer.returncode != 0:
        raise Unsupported(f"{' '.join(argv)}: {answer.stderr.strip()}")
    return answer.stdout


def _mount(pid: int, files_bytes: int) -> None:
    inside(pid, "mount", "-t", "tmpfs", "-o", f"size={files_bytes}", "tmpfs", str(FILES))
    hosts = Path(f"/proc/{pid}/root{FILES}/hosts")
    hosts.write_text(
        "127.0.0.1 localhost\n10.99.1.1 sender\n10.99.2.1 sender\n"
        "10.99.1.2 receiver\n10.99.3.2 receiver\n" + f"10.99.1.2 {os.uname().nodename}\n"
    )
    inside(pid, "mount", "--bind", str(FILES / "hosts"), "/etc/hosts")


def _connect(pids: dict[str, int]) -> None:
    """Links, addresses, the shapers on the router, and CUBIC on every route."""
    veth(pids, "sender", "bare", "10.99.1.1/24", "receiver", "bare", "10.99.1.2/24")
    veth(pids, "sender", "wan", "10.99.2.1/24", "router", "left", "10.99.2.254/24")
    veth(pids, "router", "right", "10.99.3.254/24", "receiver", "wan", "10.99.3.2/24")
    inside(pids["router"], "sysctl", "-qw", "net.ipv4.ip_forward=1")
    inside(pids["sender"], "ip", "route", "add", "10.99.3.0/24", "via", "10.99.2.254")
    inside(pids["receiver"], "ip", "route", "add", "10.99.2.0/24", "via", "10.99.3.254")
    for device in ("left", "right"):
        tc = f"tc qdisc add dev {device} root handle 1: htb default 1"
        inside(pids["router"], *tc.split())
        tc = f"tc class add dev {device} parent 1: classid 1:1 htb {_SHAPE}"
        inside(pids["router"], *tc.split())
        tc = f"tc qdisc add dev {device} parent 1:1 handle 10: bfifo limit {_QUEUE_BYTES}"
        inside(pids["router"], *tc.split())
    for host in ("sender", "receiver"):
        set_congestion(pids[host])


def set_congestion(pid: int) -> None:
    """Has all that goes out of a host use the control of the benchmarks."""
    for route in inside(pid, "ip", "route", "show").splitlines():
        change = ["ip", "route", "change", *route.split(), "congctl", CONGESTION]
        inside(pid, *[word for word in change if word != "linkdown"])


def veth(
    pids: dict[str, int], a: str, dev_a: str, net_a: str, b: str, dev_b: str, net_b: str
) -> None:
    """Joins two hosts by a pair of devices, each with its address."""
    ends = f"ip link add {dev_a} type veth peer name {dev_b} netns {pids[b]}"
    inside(pids[a], *ends.split())
    for host, device, address in ((a, dev_a, net_a), (b, dev_b, net_b)):
        inside(pids[host], "ip", "address", "add", address, "dev", device)
        inside(pids[host], "ip", "link", "set", device, "up")
        inside(pids[host], "ip", "link", "set", "lo", "up")


_ASK = """
import socket, sys
listening = socket.create_server(("0.0.0.0", 9)) if sys.argv[1] == "listen" else None
if listening:
    print("ready", flush=True)
    with listening.accept()[0] as data:
        data.send(data.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16))
else:
    with socket.create_connection((sys.argv[2], 9), timeout=10) as data:
        mine = data.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        print(mine.strip(b"\\0").decode(), data.recv(16).strip(b"\\0").decode())
"""


def _proof(sender: Host, receiver: Host, link: str) -> str:
    """Asks both ends of a real connection which congestion control they have got."""
    serve = [sys.executable, "-c", _ASK, "listen"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, preexec_fn=receiver.enter) as server:
        assert server.stdout is not None
        server.stdout.readline()
        answer = subprocess.run(
            [sys.executable, "-c", _ASK, "connect", receiver.addresses[link]],
            capture_output=True,
            text=True,
            timeout=30,
            preexec_fn=sender.enter,
            check=False,
        )
        server.kill()
    if answer.stdout.split() != [CONGESTION, CONGESTION]:
        raise TransferFailed(f"{link}: not {CONGESTION} at both ends: {answer}")
    return f"{link}: {CONGESTION} at both ends, asked of the sockets of a connection"
