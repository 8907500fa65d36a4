"""Machines that migrate at once, through a relay whose weights carry out a plan.

The network of work 003's worked cases (003-spec section 5.7): three hosts, each behind its own
link, and one line that all of them share, which the relay's one connection crosses.
"""

import contextlib
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.rig.relayed import SERVER, heard, pipe, program, relay, tell
from weir import Bytes, Rate, Time
from weir.lab import Lab, Scenario, parse
from weir.migration import Link, Problem, Vm
from weir.migration.carry import Event, carry
from weir.relay import control

PAYLOAD = 0.94
"""What is left of a line for data beside the headers of its packets (003-spec table 2.1)."""
UNIT_BPS = 1_000_000
_PORT, _SPLIT_PORT = 7600, 7500
_RECEIVES = "4096 65536 131072"
# Sends so many bytes after four that say whose they are, ends, and waits for the other side's end.
_MACHINE = """
import socket, sys
machine = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
machine.settimeout(None)
print(flush=True)
machine.sendall(int(sys.argv[3]).to_bytes(4, "big"))
machine.sendall(bytes(int(sys.argv[4]) - 4))
machine.shutdown(socket.SHUT_WR)
machine.recv(1)
"""
_LINK = """
[[link]]
ends = ["{}", "{}"]
"""
_RATE = """rate = "{:.0f} bit/s"
delay = "1 ms"
queue = {{ discipline = "fifo", limit = "100 ms" }}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A worked case: for each machine its cost, its memory, and what its own link has, in units.

    One unit of memory goes over one unit of a link in a step. The shared line has 10.
    """

    costs: Sequence[int]
    sizes: Sequence[int]
    access: Sequence[int]
    line: int = 10


@dataclass(frozen=True, slots=True)
class Carried:
    """What became of a case.

    Attributes:
        events: in order.
        received: bytes that the server had of each machine in the end.
    """

    events: list[Event]
    received: list[int]


def problem(case: Case, step_s: float, addresses: Sequence[str]) -> Problem:
    """The case as `weir migrate` has it; the capacities are what data have of the lab's links."""
    names = [f"host{place}" for place in range(len(case.sizes))]
    links = [
        Link(name, (name, "near"), Rate.from_bit_per_s(rate * UNIT_BPS))
        for name, rate in zip(names, case.access, strict=True)
    ]
    links.append(Link("line", ("near", "far"), Rate.from_bit_per_s(case.line * UNIT_BPS)))
    sizes = [_size(units, step_s) for units in case.sizes]
    rows = zip(names, sizes, case.costs, addresses, strict=True)
    vms = [
        Vm(name, name, "far", Bytes.from_count(size), (cost,), address=address)
        for name, size, cost, address in rows
    ]
    return Problem(
        (*names, "near", "far"), tuple(links), tuple(vms), Time.from_ns(round(step_s * 1e9))
    )


def carry_out(case: Case, step_s: float, seed: int) -> Carried:
    """All machines of a case are there at once, and go as greedy plans them.

    Raises:
        Unsupported: this machine has no labs.
        TransferFailed: a program ended before its time.
    """
    count = len(case.sizes)
    with Lab.up(_scenario(case, seed)) as lab, contextlib.ExitStack() as stack:
        server = stack.enter_context(program(lab, "server", SERVER, lab.address("server"), _PORT))
        heard(server)
        asked = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "join"
        _relays(lab, stack, asked)
        addresses = [lab.address(f"host{place}") for place in range(count)]
        control.ask(asked, {"weights": [(address, 0) for address in addresses]})
        for place, units in enumerate(case.sizes):
            words = (lab.address("join"), _PORT, place, _size(units, step_s))
            heard(stack.enter_context(program(lab, f"host{place}", _MACHINE, *words)))
        while len(control.ask(asked, {})["flows"]) < count:
            time.sleep(0.05)
        events = list(carry(problem(case, step_s, addresses), asked))
        tell(server)
        received: dict[str, int] = {}
        while line := pipe(server.stdout).readline():
            received = json.loads(line)["bytes"]
    return Carried(events, [received.get(str(place), 0) for place in range(count)])


def sizes(case: Case, step_s: float) -> list[int]:
    """What each machine of a case sends, in bytes."""
    return [_size(units, step_s) for units in case.sizes]


def _size(units: int, step_s: float) -> int:
    return round(units * UNIT_BPS * step_s / 8)


def _scenario(case: Case, seed: int) -> Scenario:
    names = [f"host{place}" for place in range(len(case.sizes))]
    hosts = "".join(f"{name} = {{}}\n" for name in (*names, "join", "split", "server"))
    text = f'[lab]\nname = "migrated"\nseed = {seed}\n[hosts]\n{hosts}'
    text += "[routers]\nnear = {}\nfar = {}\n"
    rates = [*zip(names, case.access, strict=True)]
    for name, units in rates:
        text += _LINK.format(name, "near") + _RATE.format(units * UNIT_BPS / PAYLOAD)
    text += _LINK.format("near", "far") + _RATE.format(case.line * UNIT_BPS / PAYLOAD)
    for ends in (("join", "near"), ("far", "split"), ("far", "server")):
        text += _LINK.format(*ends)
    return parse(text, "machines that migrate")


def _relays(lab: Lab, stack: contextlib.ExitStack, asked: Path) -> None:
    join, end = lab.address("join"), f"{lab.address('split')}:{_SPLIT_PORT}"
    # What the kernel takes of a machine that is held goes by its own link before its time.
    lab.run("join", ["sysctl", "-q", "-w", f"net.ipv4.tcp_rmem={_RECEIVES}"])
    to = f"{lab.address('server')}:{_PORT}"
    words = ("--listen", end, "--from", join, "--to", to)
    stack.enter_context(relay(lab, "split", "split", *words))
    words = ("--listen", f"{join}:{_PORT}", "--split", end, "--server", to)
    stack.enter_context(relay(lab, "join", "join", *words, "--control", str(asked)))
    while not control.ask(asked, {})["is_connected"]:
        time.sleep(0.05)
