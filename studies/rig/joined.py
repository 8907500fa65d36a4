"""Many clients that send to one server over one narrow line, directly or joined by relays.

Work 003's set-up (003-spec section 2.2), with the narrow line where one joined connection crosses
it (003-spec section 2.14, V2). Clients write as much as they can; the server counts what arrives.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from weir.errors import TransferFailed
from weir.lab import Lab, parse
from weir.relay import control

RATE_BPS = 8_000_000
GROUPS = ("even", "more")
"""Client hosts; each has half of the clients."""
_PORT, _SPLIT_PORT = 7600, 7500
_SCENARIO = """
[lab]
name = "join"
seed = {seed}
[hosts]
even = {{}}
more = {{}}
join = {{}}
split = {{}}
server = {{}}
[routers]
near = {{}}
far = {{}}
[[link]]
ends = ["even", "near"]
[[link]]
ends = ["more", "near"]
[[link]]
ends = ["join", "near"]
[[link]]
name = "line"
ends = ["near", "far"]
rate = "8 Mbit/s"
delay = "20 ms"
queue = {{ discipline = "fifo", limit = "100 ms" }}
[[link]]
ends = ["far", "split"]
[[link]]
ends = ["far", "server"]
"""
# Counts what comes of each connection, which begins with four bytes that say whose it is, and tells
# all counts each second; at the end once more, with what its kernel still had.
_SERVER = """
import json, selectors, socket, sys, time
ready = selectors.DefaultSelector()
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=4096)
listener.setblocking(False)
ready.register(listener, selectors.EVENT_READ)
ready.register(sys.stdin, selectors.EVENT_READ)
names, counts, tell_at = {}, {}, time.monotonic()
print(flush=True)
while True:
    if time.monotonic() >= tell_at:
        print(json.dumps({"at": time.monotonic(), "bytes": counts}), flush=True)
        tell_at += 1
    for key, _ in ready.select(max(0, tell_at - time.monotonic())):
        if key.fileobj is sys.stdin:
            for connection in names:
                try:
                    while data := connection.recv(65536):
                        counts[names[connection]] += len(data)
                except OSError:
                    pass
            print(json.dumps({"at": time.monotonic(), "bytes": counts}), flush=True)
            raise SystemExit
        if key.fileobj is listener:
            client, _ = listener.accept()
            client.setblocking(False)
            ready.register(client, selectors.EVENT_READ)
            continue
        try:
            data = key.fileobj.recv(65536)
        except BlockingIOError:
            continue
        except OSError:
            data = b""
        if not data:
            ready.unregister(key.fileobj)
            key.fileobj.close()
            continue
        if key.fileobj not in names:
            if len(data) < 4:
                continue  # less than a name is not worth counting
            names[key.fileobj] = int.from_bytes(data[:4], "big")
        name = names[key.fileobj]
        counts[name] = counts.get(name, 0) + len(data)
"""
# Writes on so many connections as much as they take; told to end, says what the other end's kernel
# has acknowledged on each: tcpi_bytes_acked, less the SYN.
_CLIENTS = """
import json, selectors, socket, sys
ready = selectors.DefaultSelector()
ready.register(sys.stdin, selectors.EVENT_READ)
clients = {}
for number in range(int(sys.argv[3]), int(sys.argv[4])):
    client = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
    client.sendall(number.to_bytes(4, "big"))
    client.setblocking(False)
    clients[number] = client
    ready.register(client, selectors.EVENT_WRITE)
data = bytes(65536)
def acknowledged(client):
    told = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return max(0, int.from_bytes(told[120:128], "little") - 1)
while True:
    for key, _ in ready.select():
        if key.fileobj is sys.stdin:
            print(json.dumps({n: acknowledged(c) for n, c in clients.items()}), flush=True)
            raise SystemExit
        try:
            key.fileobj.send(data)
        except BlockingIOError:
            pass
        except OSError:
            ready.unregister(key.fileobj)
"""


@dataclass
class Seen:
    """What arrived of each client, second by second.

    Attributes:
        arrived: instants in s, and the bytes by client since its begin.
        acknowledged: bytes that each client had acknowledged when the split end was killed.
        received: bytes that the server had of each in the end.
    """

    arrived: list[tuple[float, dict[int, int]]] = field(default_factory=list)
    acknowledged: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)

    def within(self, begin_s: float, end_s: float) -> tuple[float, dict[int, int]]:
        """How long that was as it was seen, in s, and what arrived of each client meanwhile."""
        later = [one for one in self.arrived if one[0] - self.arrived[0][0] >= begin_s]
        if not later:
            return 0.0, {}
        first = later[0]
        ends = (one for one in later if one[0] - self.arrived[0][0] >= end_s)
        last = next(ends, later[-1])
        return last[0] - first[0], {
            client: count - first[1].get(client, 0) for client, count in last[1].items()
        }


def carry_out(
    clients: int,
    seconds: float,
    seed: int,
    weights: Sequence[int] | None,
    told: Callable[[Seen], None],
    linked_ack: str | None = None,
) -> Seen:
    """So many clients send for so long.

    Args:
        clients: half of them on each host of `GROUPS`.
        seconds: from the first byte counted.
        seed: of the lab.
        weights: a host's clients' weights, joined; None: nothing is joined.
        told: is given what was seen so far, each second.
        linked_ack: of the joined ones, as `weir relay join` has it.

    Raises:
        Unsupported: this machine has no labs.
        TransferFailed: a program ended before its time.
    """
    seen = Seen()
    scenario = parse(_SCENARIO.format(seed=seed), "many clients")
    with Lab.up(scenario) as lab, contextlib.ExitStack() as stack:
        to, split = lab.address("server"), None
        server = stack.enter_context(_program(lab, "server", _SERVER, to, _PORT))
        _line(server)
        if weights is not None:
            split = stack.enter_context(_split(lab))
            to = stack.enter_context(_join(lab, weights, linked_ack))
        parts = [(host, _part(number, clients)) for number, host in enumerate(GROUPS)]
        senders = [
            stack.enter_context(_program(lab, host, _CLIENTS, to, _PORT, *part))
            for host, part in parts
        ]
        while not seen.arrived or seen.within(0, seconds)[0] < seconds:
            _take(seen, _line(server))
            told(seen)
        if split is not None:
            split.kill()
            split.wait()
        for sender in senders:
            _tell(sender)
            seen.acknowledged |= _by_client(json.loads(_line(sender)))
        _tell(server)
        while line := _pipe(server.stdout).readline():
            seen.received = _by_client(json.loads(line)["bytes"])
    return seen


def _part(number: int, clients: int) -> tuple[int, int]:
    half = clients // len(GROUPS)
    return number * half, (number + 1) * half


def _take(seen: Seen, line: str) -> None:
    told = json.loads(line)
    counts = _by_client(told["bytes"])
    if counts:  # before it nobody has come
        seen.arrived.append((told["at"], counts))


def _by_client(counts: dict[str, int]) -> dict[int, int]:
    return {int(client): count for client, count in counts.items()}


@contextlib.contextmanager
def _program(
    lab: Lab, host: str, source: str, *arguments: object
) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", source, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with lab.popen(host, command, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def _relay(lab: Lab, host: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "weir.cli", "relay", *arguments, "--json"]
    with lab.popen(host, command, text=True, stdout=subprocess.PIPE) as process:
        try:
            _line(process)
            yield process
        finally:
            process.kill()


def _split(lab: Lab) -> contextlib.AbstractContextManager["subprocess.Popen[str]"]:
    listen = f"{lab.address('split')}:{_SPLIT_PORT}"
    to = f"{lab.address('server')}:{_PORT}"
    return _relay(
        lab, "split", "split", "--listen", listen, "--from", lab.address("join"), "--to", to
    )


@contextlib.contextmanager
def _join(lab: Lab, weights: Sequence[int], linked_ack: str | None) -> Iterator[str]:
    address = lab.address("join")
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "join"
        words = _join_words(lab, weights)
        if linked_ack is not None:
            words += ["--linked-ack", linked_ack]
        with _relay(lab, "join", *words, "--control", str(asked)):
            # Clients that come before there is an aggregate are reset.
            while not control.ask(asked, {})["is_connected"]:
                time.sleep(0.05)
            yield address


def _join_words(lab: Lab, weights: Sequence[int]) -> list[str]:
    address = lab.address("join")
    command = ["join", "--listen", f"{address}:{_PORT}", "--server"]
    command += [f"{lab.address('server')}:{_PORT}"]
    command += ["--split", f"{lab.address('split')}:{_SPLIT_PORT}"]
    for host, weight in zip(GROUPS, weights, strict=True):
        command += ["--weight", f"{lab.address(host)}={weight}"]
    return command


def _tell(process: "subprocess.Popen[str]") -> None:
    _pipe(process.stdin).write("\n")
    _pipe(process.stdin).flush()


def _line(process: "subprocess.Popen[str]") -> str:
    line = _pipe(process.stdout).readline()
    if not line:
        raise TransferFailed("a program of the lab ended before its time")
    return line


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None, "it was started with a pipe"
    return pipe
