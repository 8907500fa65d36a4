"""What clients offer in their first packets, and what of it servers are offered through relays.

A controller joins the clients' connections over switches (003-spec sections 2.4 and 2.5); first
packets are read where they leave the client's host and where they enter the server's.
"""

import contextlib
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.rig.processes import weir_command
from studies.rig.relayed import heard, program, relay
from weir.errors import TransferFailed, Unsupported
from weir.lab import Lab, parse
from weir.relay import control

SWITCHED = ("sack", "timestamps", "window_scaling")
"""What a kernel offers or not, by the names of its settings (net.ipv4.tcp_NAME)."""
MARKED = ("sack-perm", "timestamp", "window")
"""The same as `nft` calls them, in the order of the bits by which a split end marks what lacks."""
_PORT, _JOIN_PORT, _SPLIT_PORT = 8_000, 7_600, 7_500
_PATIENCE_S = 30.0
_CABLES = [("client", "s1"), ("join", "s1"), ("s1", "s2"), ("split", "s2"), ("s2", "server")]
_SCENARIO = """\
[lab]
name = "offered"
ipv6 = true
seed = {seed}
[hosts]
client = {{}}
join = {{}}
split = {{}}
server = {{}}
[routers]
s1 = {{ kind = "switch" }}
s2 = {{ kind = "switch" }}
""" + "".join(f'[[link]]\nends = ["{a}", "{b}"]\nrate = "100 Mbit/s"\n' for a, b in _CABLES)
# Tells of each first packet of TCP that passes: its ports, and its options in hexadecimal digits.
_WATCH = """
import json, socket, struct
packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
print("watching", flush=True)
while True:
    packet = packets.recv(256)
    is_ipv4 = packet[0] >> 4 == 4
    at = (packet[0] & 15) * 4 if is_ipv4 else 40
    if packet[9 if is_ipv4 else 6] == 6 and packet[at + 13] & 18 == 2:
        ports = struct.unpack_from(">HH", packet, at)
        end = at + (packet[at + 12] >> 4) * 4
        print(json.dumps([*ports, packet[at + 20 : end].hex()]), flush=True)
"""
# Reads of each connection until its end, by both IPs, one after the other.
_SERVER = """
import socket, sys
at = ("::", int(sys.argv[1]))
listener = socket.create_server(at, family=socket.AF_INET6, dualstack_ipv6=True)
print(flush=True)
while True:
    client, _ = listener.accept()
    while client.recv(65536):
        pass
    client.close()
"""
# Connects with such an MSS and window, 0 for its own, sends something, and waits for the end.
_CLIENT = """
import socket, sys
address, port, mss, window = sys.argv[1], *map(int, sys.argv[2:])
client = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
client.settimeout(30)
for option, value in ((socket.TCP_MAXSEG, mss), (socket.TCP_WINDOW_CLAMP, window)):
    if value:
        client.setsockopt(socket.IPPROTO_TCP, option, value)
client.connect((address, port))
print(client.getsockname()[1], flush=True)
client.sendall(bytes(4))
client.shutdown(socket.SHUT_WR)
client.recv(1)
"""


@dataclass(frozen=True, slots=True)
class Offer:
    """How a client connects.

    Attributes:
        lacking: of `SWITCHED`, what its kernel is set not to offer.
        mss: TCP_MAXSEG in bytes; 0: the kernel's own.
        window: TCP_WINDOW_CLAMP in bytes, by which the scale is chosen; 0: the kernel's own.
        has_ipv6: whether it connects by IPv6.
    """

    lacking: tuple[str, ...] = ()
    mss: int = 0
    window: int = 0
    has_ipv6: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """The options of a connection's first packet as hexadecimal digits, here and there."""

    left: str
    arrived: str


def options(digits: str) -> dict[int, str]:
    """The options of TCP by their kinds (RFC 9293, section 3.2), without padding."""
    data, at, found = bytes.fromhex(digits), 0, {}
    while at < len(data) and data[at] != 0:
        if data[at] == 1:
            at += 1
            continue
        found[data[at]] = data[at + 2 : at + data[at + 1]].hex()
        at += data[at + 1]
    return found


def all_lacking() -> Iterator[tuple[str, ...]]:
    """Every choice of what a kernel does not offer."""
    for count in range(len(SWITCHED) + 1):
        yield from itertools.combinations(SWITCHED, count)


def rules() -> Iterator[str]:
    """What `nft` is told at the split end, so that its kernel offers no more than clients do."""
    yield "add table inet weir"
    yield "add chain inet weir offers { type filter hook output priority mangle; }"
    for bit, name in enumerate(MARKED):
        marks = f"meta mark & 0x{0xFFFF0000 | 1 << bit:x} == 0x{0x57470000 | 1 << bit:x}"
        first = f"tcp flags & (syn|ack) == syn reset tcp option {name}"
        yield f"add rule inet weir offers {marks} {first}"


def carry_out(offers: Sequence[Offer], seed: int) -> list[Seen]:
    """Connects once for each offer; what of it left the client's host, and arrived.

    Raises:
        Unsupported: this machine has no labs, or no switches.
        TransferFailed: a program ended before its time, or a connection was not joined.
    """
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        scenario = parse(_SCENARIO.format(seed=seed), "offered")
        lab = stack.enter_context(Lab.up(scenario, controller=f"unix:{folder}/controller"))
        _begin(lab, folder, stack)
        watched = [
            stack.enter_context(_watching(lab, host, folder)) for host in ("client", "server")
        ]
        return [_one(lab, folder, watched, offer) for offer in offers]


def _one(lab: Lab, folder: Path, watched: Sequence[Path], offer: Offer) -> Seen:
    before = _ended(folder)
    port = _connect(lab, offer)
    _until(lambda: _ended(folder) > before, f"the connection from port {port} was not joined")
    left, arrived = (_first_of(path, port) for path in watched)
    return Seen(left, arrived)


@contextlib.contextmanager
def _watching(lab: Lab, host: str, folder: Path) -> Iterator[Path]:
    """A file in which each first packet is told that passes a host."""
    path = folder / f"{host}.seen"
    with path.open("w") as told:
        watching = lab.popen(host, [sys.executable, "-c", _WATCH], stdout=told)
        try:
            _until(lambda: path.stat().st_size > 0, f"nothing is seen at the {host}")
            yield path
        finally:
            watching.kill()
            watching.wait()


def _first_of(path: Path, port: int) -> str:
    """The same, which is told in time."""
    _until(lambda: _first(path, port) is not None, f"no first packet from port {port} in {path}")
    return _first(path, port) or ""


def _first(path: Path, port: int) -> str | None:
    """The options of the first packet that came last from a port; None if none has."""
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:] if line[-1:] == "]"]
    found = [digits for source, target, digits in lines if (source, target) == (port, _PORT)]
    return found[-1] if found else None


def _ended(folder: Path) -> int:
    """How many joined connections have ended in order, when there are none."""
    _until(lambda: not control.ask(folder / "join", {})["flows"], "a connection does not end")
    ended: int = control.ask(folder / "join", {})["ended"]
    return ended


def _until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TransferFailed(what)
        time.sleep(0.02)


def _begin(lab: Lab, folder: Path, stack: contextlib.ExitStack) -> None:
    """Starts the server, the controller and both relays; returns when clients can come."""
    servers = [f"{lab.address('server')}:{_PORT}", f"[{lab.address6('server')}]:{_PORT}"]
    heard(stack.enter_context(program(lab, "server", _SERVER, _PORT)))
    if shutil.which("nft") is None:
        raise Unsupported("nft is not installed (Debian nftables)")
    for line in rules():
        lab.run("split", ["nft", line], check=True)
    (folder / "network.json").write_text(json.dumps(lab.network()))
    lines = [f"[[aggregate]]\nservers = {json.dumps(servers)}"]
    for end, more in (("join", f"port = {_JOIN_PORT}"), ("split", "")):
        lines.append(f'[aggregate.{end}]\nhost = "{end}"\ncontrol = "{folder / end}"\n{more}')
    (folder / "join.toml").write_text("\n".join(lines))
    log = stack.enter_context((folder / "control.log").open("w"))
    command = weir_command("control", "serve", "--network", folder / "network.json")
    command += ["--listen", f"unix:{folder}/controller", "--join", folder / "join.toml"]
    controller = stack.enter_context(
        subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    )
    stack.callback(controller.kill)
    far = ["--from", lab.address("join"), *(x for y in servers for x in ("--to", y))]
    near = ["--split", f"{lab.address('split')}:{_SPLIT_PORT}"]
    for end, port, ends in (("split", _SPLIT_PORT, far), ("join", _JOIN_PORT, near)):
        told = ["--announced", "--control", str(folder / end)]
        stack.enter_context(relay(lab, end, end, "--listen", f"[::]:{port}", *ends, *told))
    _until_joined(lab, folder)


def _until_joined(lab: Lab, folder: Path) -> None:
    """Until connections of a client's go through the relays, by either IP."""

    def is_joined(has_ipv6: bool) -> bool:
        before = _ended(folder)
        with contextlib.suppress(TransferFailed):
            _connect(lab, Offer(has_ipv6=has_ipv6))
        return _ended(folder) > before

    _until(lambda: is_joined(False), "no connection is joined")
    _until(lambda: is_joined(True), "no connection is joined by IPv6")


def _connect(lab: Lab, offer: Offer) -> int:
    """The port from which a client has connected."""
    for name in SWITCHED:
        setting = f"net.ipv4.tcp_{name}={int(name not in offer.lacking)}"
        lab.run("client", ["sysctl", "-qw", setting], check=True)
    address = (lab.address6 if offer.has_ipv6 else lab.address)("server")
    words = (address, _PORT, offer.mss, offer.window)
    with program(lab, "client", _CLIENT, *words) as client:
        port = int(heard(client))
        if client.wait(_PATIENCE_S):
            raise TransferFailed(f"the client's connection from port {port} broke")
    return port
