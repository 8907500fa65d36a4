"""Clients of a wireless cell that download from a server, directly or by a relay that splits.

The cell is a lab's, of a scenario; its clients play a game beside (traffic of the scenario), and
all but the first, who is the game's server, look how long a packet takes to it and back.
"""

import contextlib
import itertools
import json
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from studies.rig.relayed import heard, pipe, program, relay
from weir.lab import Lab
from weir.lab.scenario import Scenario

_PORT = 7600
_PING_S = "0.1"
# Writes on every connection as much as it takes.
_SERVER = """
import selectors, socket, sys
ready = selectors.DefaultSelector()
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=64)
listener.setblocking(False)
ready.register(listener, selectors.EVENT_READ)
print(flush=True)
data = bytes(65536)
while True:
    for key, _ in ready.select():
        if key.fileobj is listener:
            client, _ = listener.accept()
            client.setblocking(False)
            ready.register(client, selectors.EVENT_WRITE)
            continue
        try:
            key.fileobj.send(data)
        except BlockingIOError:
            pass
        except OSError:
            ready.unregister(key.fileobj)
"""
# Reads from one connection, and tells each second how much has come.
_CLIENT = """
import json, socket, sys, time
server = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
count, tell_at = 0, time.monotonic()
while True:
    while (left := tell_at - time.monotonic()) > 0:
        server.settimeout(left)
        try:
            data = server.recv(65536)
        except TimeoutError:
            break
        if not data:
            raise SystemExit
        count += len(data)
    print(json.dumps({"at": time.monotonic(), "bytes": count}), flush=True)
    tell_at += 1
"""


@dataclass
class Seen:
    """What a cell showed.

    Attributes:
        arrived: of each client, each second: the instant in s, and its bytes until then.
        windows: of the connections to the clients, in segments, each second from the first one on.
        delays_ms: their round-trip times as their sender has them, while it was measured.
        pings_ms: round-trip times to the first client, while it was measured.
        flaws: why the lab should not be believed.
    """

    arrived: list[list[tuple[float, int]]] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)
    delays_ms: list[float] = field(default_factory=list)
    pings_ms: list[float] = field(default_factory=list)
    flaws: list[str] = field(default_factory=list)

    def kbps(self) -> list[float]:
        """What each client had."""
        return [_kbps(told[0], told[-1]) for told in self.arrived]

    def kbps_by_second(self) -> list[list[float]]:
        """By second, of each client."""
        steps = [[_kbps(*pair) for pair in itertools.pairwise(told)] for told in self.arrived]
        return [list(rates) for rates in zip(*steps, strict=True)]


def _kbps(first: tuple[float, int], last: tuple[float, int]) -> float:
    return 8 * (last[1] - first[1]) / (last[0] - first[0]) / 1e3


def carry_out(
    scenario: Scenario, clients: Sequence[str], proxy: str | None, span_s: tuple[int, int]
) -> Seen:
    """All clients download as much as they can.

    Args:
        scenario: of the cell, with a host called `server`.
        clients: its clients; the first is the game's server.
        proxy: the host of the relay that splits their connections; None: they go to the server.
        span_s: the seconds of a while in which everything begins, and of what is measured.

    Raises:
        Unsupported: this machine has no such labs.
        TransferFailed: a program ended before its time.
    """
    seen, before_s = Seen(), span_s[0]
    with Lab.up(scenario) as lab, contextlib.ExitStack() as stack:
        sender, to = "server", lab.address("server")
        server = stack.enter_context(program(lab, "server", _SERVER, to, _PORT))
        heard(server)
        if proxy is not None:
            ends = ("--listen", f"{lab.address(proxy)}:{_PORT}", "--server", f"{to}:{_PORT}")
            stack.enter_context(relay(lab, proxy, "proxy", *ends))
            sender, to = proxy, lab.address(proxy)
        readers = [
            stack.enter_context(program(lab, client, _CLIENT, to, _PORT)) for client in clients
        ]
        pings: list[subprocess.Popen[str]] = []
        told = []
        for second in range(sum(span_s) + 1):
            lines = [json.loads(heard(reader)) for reader in readers]
            windows, delays_ms = _connections(lab, sender)
            seen.windows += windows
            if second == before_s:
                players = clients[1:]
                pings = [stack.enter_context(_pinging(lab, one, clients[0])) for one in players]
            if second >= before_s:
                told.append([(line["at"], line["bytes"]) for line in lines])
                seen.delays_ms += delays_ms
        seen.arrived = [list(one) for one in zip(*told, strict=True)]
        seen.pings_ms = [time for ping in pings for time in _pinged(ping)]
        seen.flaws = _flaws(lab)
    return seen


def _connections(lab: Lab, sender: str) -> tuple[list[int], list[float]]:
    """Windows in segments, and round-trip times in ms, of the connections to clients."""
    command = ["ss", "-tinHO", "state", "established", "sport", "=", f":{_PORT}"]
    said = lab.run(sender, command, capture_output=True, text=True).stdout
    windows = [int(found) for found in re.findall(r"\bcwnd:(\d+)", said)]
    return windows, [float(found) for found in re.findall(r"\brtt:([\d.]+)/", said)]


@contextlib.contextmanager
def _pinging(lab: Lab, client: str, other: str) -> Iterator["subprocess.Popen[str]"]:
    """Echo requests from a client to another."""
    command = ["ping", "-n", "-i", _PING_S, other]
    with lab.popen(client, command, stdout=subprocess.PIPE, text=True) as ping:
        try:
            yield ping
        finally:
            ping.kill()


def _pinged(ping: "subprocess.Popen[str]") -> list[float]:
    ping.send_signal(signal.SIGINT)
    return [float(found) for found in re.findall(r"time=([\d.]+) ms", pipe(ping.stdout).read())]


def _flaws(lab: Lab) -> list[str]:
    status = lab.status()
    late_ms = status["headroom"]["lateness_p99_ns"] / 1e6
    late = [f"the emulator was late, {late_ms:.2f} ms"] if status["headroom"]["bottleneck"] else []
    failed = [f"{flow['name']} failed" for flow in status["traffic"] if flow["state"] == "failed"]
    return late + failed
