"""What a joined connection costs where there are many: `python -m benches.joined_rules`.

Open vSwitch's datapath in user space, two switches of it, whose packets we make; the controller as
`weir control serve --join`; relays that do no more than answer it, and say of whoever is announced
that he is here. Connections are set up until the switches have so many rules, four of each; then
some more, one after the other. Counted are the time from the SYN until it leaves toward the join
end, what the controller and Open vSwitch have spent of a processor meanwhile, and what they spend
in a second in which nothing happens.
"""

import argparse
import contextlib
import json
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

from benches.calendar_service import cpu_s
from benches.control_fabric import CABLE, HOST, Fabric, Port, await_that, mac
from benches.peers.controllers import free_port
from weir.errors import Unavailable
from weir.relay import Relay, control

RULES = (1_000, 10_000, 30_000)
RULES_OF_ONE = 4
ADDED = 100
IDLE_S = 5.0
# Less than what one address may begin (`weir.control.join.sources`).
BEGIN_RATE = 180.0
ATTEMPTS = 5
FIRST_PORT, JOIN_PORT = 1_024, 7_600
OTHER = "h2"
CLIENT, JOIN = Port("s1", HOST), Port("s1", OTHER)
PORTS = [CLIENT, JOIN, Port("s1", CABLE, "s2"), Port("s2", HOST), Port("s2", OTHER)]
PORTS.append(Port("s2", CABLE, "s1"))
HOSTS = {"c": ("s1", HOST), "j": ("s1", OTHER), "s": ("s2", HOST), "p": ("s2", OTHER)}


class Answering:
    """In a relay's place: whoever is announced is here."""

    def __init__(self) -> None:
        self._here: dict[str, tuple[str, int, str, str | None, str]] = {}

    def announce(self, clients: list[tuple[str, int, str, str | None, tuple[object, ...]]]) -> bool:
        """See `weir._core.Relay`."""
        self._here |= {x[0]: (*x[:4], "here") for x in clients}
        return True

    def forget(self, clients: list[str]) -> bool:
        """See `weir._core.Relay`."""
        for client in clients:
            self._here.pop(client, None)
        return True

    def announced(self, is_all: bool) -> list[tuple[str, int, str, str | None, str]]:
        """See `weir._core.Relay`."""
        return [*self._here.values()] if is_all else []


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a line of JSON for each number of rules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", type=int, nargs="*", default=RULES, help="how many, growing")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        folder = Path(name)
        with _controller(folder) as (controller, port), contextlib.ExitStack() as stack:
            fabric = stack.enter_context(Fabric(folder, PORTS, f"tcp:127.0.0.1:{port}"))
            await_that(fabric.connected, "controller at every switch")
            await_that(lambda: _is_set_up(fabric, 1), "joined connection")
            begun = 1
            for rules in args.rules:
                begun = _fill(fabric, begun, rules // RULES_OF_ONE)
                print(json.dumps(_figures(fabric, controller.pid, begun)), flush=True)
                begun += ADDED


def _figures(fabric: Fabric, controller: int, begun: int) -> dict[str, float]:
    pids = (controller, fabric.pid)
    rules = fabric.count()
    idle = [spent / IDLE_S for spent in _spent(pids, lambda: time.sleep(IDLE_S))]
    times_s: list[float] = []

    def begin_some() -> None:
        for number in range(begun + 1, begun + ADDED + 1):
            started_s = time.monotonic()
            if not _is_set_up(fabric, number):
                raise Unavailable(f"connection {number} is not set up")
            times_s.append(time.monotonic() - started_s)

    spent = _spent(pids, begin_some)
    busy = [max(0.0, x - y * sum(times_s)) / ADDED for x, y in zip(spent, idle, strict=True)]
    return {
        "rules": rules,
        "set_up_median_ms": statistics.median(times_s) * 1e3,
        "set_up_95_ms": sorted(times_s)[int(0.95 * ADDED)] * 1e3,
        "controller_ms": busy[0] * 1e3,
        "switches_ms": busy[1] * 1e3,
        "controller_idle_ms_s": idle[0] * 1e3,
        "switches_idle_ms_s": idle[1] * 1e3,
    }


def _spent(pids: Sequence[int], work: Callable[[], None]) -> list[float]:
    """What processes have spent of a processor during some work, in s."""
    before = [cpu_s(pid) for pid in pids]
    work()
    return [cpu_s(pid) - x for pid, x in zip(pids, before, strict=True)]


def _fill(fabric: Fabric, begun: int, wanted: int) -> int:
    """Has so many connections be there, of which some are; how many are."""
    for _ in range(ATTEMPTS):
        started_s = time.monotonic()
        for number in range(begun + 1, wanted + 1):
            ahead_s = (number - begun) / BEGIN_RATE - (time.monotonic() - started_s)
            time.sleep(max(0.0, ahead_s))
            fabric.receive(CLIENT, _syn(number))
        time.sleep(1.0)
        # Those that are not of connections are few.
        if fabric.count() >= RULES_OF_ONE * wanted:
            return max(begun, wanted)
    raise Unavailable(f"there are {fabric.count()} rules, for {wanted} connections")


def _is_set_up(fabric: Fabric, number: int) -> bool:
    """Whether a connection's first packet leaves toward the join end, in time."""
    before = fabric.sent(JOIN)
    ports = struct.pack("!HH", FIRST_PORT + number, JOIN_PORT)
    for _ in range(ATTEMPTS):
        fabric.receive(CLIENT, _syn(number))
        deadline_s = time.monotonic() + 1.0
        while time.monotonic() < deadline_s:
            if fabric.sent(JOIN) > before and ports in fabric.sent_bytes(JOIN, before):
                return True
            time.sleep(0.0005)
    return False


def _syn(number: int) -> str:
    """The first packet of a connection of the client's, as Open vSwitch writes it."""
    return (
        f"in_port(1),eth(src={mac(1)},dst={mac(3)}),eth_type(0x0800),"
        "ipv4(src=10.0.0.1,dst=10.0.0.3,proto=6,tos=0,ttl=64,frag=no),"
        f"tcp(src={FIRST_PORT + number},dst=443),tcp_flags(syn)"
    )


@contextlib.contextmanager
def _controller(folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """`weir control serve --join`, and both relays."""
    nodes: dict[str, dict[str, str]] = {f"s{x}": {"datapath": str(x)} for x in (1, 2)}
    nodes |= {name: {"address": f"10.0.0.{at}"} for at, name in enumerate("cjsp", 1)}
    ends = [(name, "", switch, f"{switch}-{kind}") for name, (switch, kind) in HOSTS.items()]
    ends.append(("s1", f"s1-{CABLE}", "s2", f"s2-{CABLE}"))
    links = [
        {"name": f"{a}{b}", "ends": [a, b], "ports": [at, to], "capacity": "10 Gbit/s"}
        for a, at, b, to in ends
    ]
    (folder / "network.json").write_text(json.dumps({"nodes": nodes, "links": links}))
    (folder / "join.toml").write_text(
        '[[aggregate]]\nservers = ["10.0.0.3:443"]\n'
        f'join = {{ host = "j", port = {JOIN_PORT}, control = "{folder}/join" }}\n'
        f'split = {{ host = "p", control = "{folder}/split", ports = "1024-65535" }}\n'
    )
    port = free_port()
    words = [sys.executable, "-m", "weir.cli", "control", "serve", "--listen", f"127.0.0.1:{port}"]
    words += ["--network", f"{folder}/network.json", "--join", f"{folder}/join.toml"]
    with contextlib.ExitStack() as stack:
        for end in ("join", "split"):
            stack.enter_context(control.served(cast(Relay, Answering()), folder / end))
        log = stack.enter_context((folder / "log").open("w"))
        process = stack.enter_context(subprocess.Popen(words, stdout=log, stderr=log))
        stack.callback(process.kill)
        yield process, port


if __name__ == "__main__":
    main()
