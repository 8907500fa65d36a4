"""A client with two paths, whose one connection goes over both, to a server that knows of none.

Work 003's application A3 (003-spec section 2.11): the client speaks Multipath TCP (RFC 8684) as the
kernel has it; the join end of a relay is its other end; behind the split end all is plain TCP.
"""

import contextlib
import json
import re
import subprocess
from dataclasses import dataclass

from studies.rig.relayed import SERVER, heard, join, program, relay
from weir.errors import TransferFailed
from weir.lab import Lab, parse

PATHS_MBIT_S = (12.0, 6.0)
"""What the client's paths carry."""
_PORT, _SPLIT_PORT = 7600, 7500
_SECOND_ADDRESS = "10.78.0.1"
"""The client's on its second path, beside the one that every node of a lab has."""
_TABLE = "7"
_SCENARIO = """
[lab]
name = "multipath"
seed = {seed}
[hosts]
client = {{}}
join = {{}}
split = {{}}
server = {{}}
[routers]
first = {{}}
second = {{}}
near = {{}}
far = {{}}
[[link]]
ends = ["client", "first"]
rate = "{rates[0]} Mbit/s"
delay = "5 ms"
queue = {{ limit = "50 ms" }}
[[link]]
ends = ["client", "second"]
rate = "{rates[1]} Mbit/s"
delay = "10 ms"
queue = {{ limit = "50 ms" }}
[[link]]
ends = ["first", "near"]
[[link]]
ends = ["second", "near"]
[[link]]
ends = ["join", "near"]
[[link]]
ends = ["near", "far"]
delay = "10 ms"
[[link]]
ends = ["far", "split"]
[[link]]
ends = ["far", "server"]
"""
# One connection on which as much is written as it takes; over several
# paths if its last word is "mptcp".
_CLIENT = """
import socket, sys
protocol = 262 if sys.argv[3] == "mptcp" else socket.IPPROTO_TCP
client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
client.connect((sys.argv[1], int(sys.argv[2])))
client.sendall((0).to_bytes(4, "big"))
data = bytes(65536)
while True:
    client.sendall(data)
"""


@dataclass(frozen=True, slots=True)
class Instant:
    """What is known at an instant.

    Attributes:
        at_s: of a clock that does not jump.
        arrived_bytes: at the server, since the begin.
        path_bytes: what the relay has acknowledged of each path, since the begin.
    """

    at_s: float
    arrived_bytes: int
    path_bytes: tuple[float, ...]


def carry_out(
    protocol: str, seconds: float, seed: int, cut_s: tuple[float, float] | None = None
) -> list[Instant]:
    """The client sends as much as it can; what is known each second or so.

    Args:
        protocol: of the client, "mptcp" or "tcp".
        seconds: from the first byte that is counted.
        seed: of the lab.
        cut_s: from when to when the second path loses everything, in s of that time.

    Raises:
        Unsupported: this machine has no labs.
        TransferFailed: a program ended before its time.
    """
    seen: list[Instant] = []
    scenario = parse(_SCENARIO.format(seed=seed, rates=PATHS_MBIT_S), "multipath")
    with Lab.up(scenario) as lab, contextlib.ExitStack() as stack:
        _add_second_address(lab)
        towards = lab.address("join")
        server = stack.enter_context(program(lab, "server", SERVER, lab.address("server"), _PORT))
        heard(server)
        to = _relays(lab, stack)
        stack.enter_context(program(lab, "client", _CLIENT, to, _PORT, protocol))
        routes = (("blackhole", towards), (towards, "dev", "near"))
        changes = list(zip(cut_s or (), routes, strict=False))
        while not seen or seen[-1].at_s - seen[0].at_s < seconds:
            told = json.loads(heard(server))
            if told["bytes"]:
                seen.append(Instant(told["at"], told["bytes"]["0"], _acknowledged(lab)))
            if changes and seen and seen[-1].at_s - seen[0].at_s >= changes[0][0]:
                _ip(lab, "second", "route", "replace", *changes.pop(0)[1])
    return seen


def _add_second_address(lab: Lab) -> None:
    """The client's second path has an address of its own, which is routed there and back."""
    address, control_words = _SECOND_ADDRESS, ("congctl", "cubic")
    _ip(lab, "client", "address", "add", f"{address}/32", "dev", "lo")
    _ip(lab, "client", "rule", "add", "from", address, "table", _TABLE)
    default = ("default", "dev", "second", "src", address, "table", _TABLE)
    _ip(lab, "client", "route", "add", *default, *control_words)
    _ip(lab, "client", "mptcp", "endpoint", "add", address, "subflow")
    for node, towards in (("second", "client"), ("near", "second"), ("join", "near")):
        _ip(lab, node, "route", "add", address, "dev", towards)


def _ip(lab: Lab, node: str, *words: str) -> None:
    with lab.popen(node, ["ip", *words], text=True, stderr=subprocess.PIPE) as process:
        _, said = process.communicate()
    if process.returncode:
        raise TransferFailed(f"ip {' '.join(words)} in {node}: {said.strip()}")


def _relays(lab: Lab, stack: contextlib.ExitStack) -> str:
    """Both ends, connected; where clients go."""
    split, server = f"{lab.address('split')}:{_SPLIT_PORT}", f"{lab.address('server')}:{_PORT}"
    words = ("--listen", split, "--from", lab.address("join"), "--to", server)
    stack.enter_context(relay(lab, "split", "split", *words))
    to = lab.address("join")
    ends = ("--listen", f"{to}:{_PORT}", "--split", split, "--server", server)
    stack.enter_context(join(lab, "join", *ends))
    return to


def _acknowledged(lab: Lab) -> tuple[float, ...]:
    """What the other end has acknowledged of the client's subflows, the first path's first."""
    command = ["ss", "-tinHO", "state", "established", "dport", "=", str(_PORT)]
    with lab.popen("client", command, text=True, stdout=subprocess.PIPE) as process:
        said, _ = process.communicate()
    found = [0.0, 0.0]
    for told in said.splitlines():
        if bytes_ := re.search(r"bytes_acked:(\d+)", told):
            found[_SECOND_ADDRESS in told] += int(bytes_[1])
    return tuple(found)
