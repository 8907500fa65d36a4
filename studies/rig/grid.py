"""A smart grid's stations, which send to one server over aggregators in tandem.

Work 003's network (003-spec sections 3.2 and 3.6): station 1 is the farthest, station 3 the nearest
to the server, and they have one, two and three meters. A station joins its meters' connections, the
first aggregator joins stations 1 and 2, the second one the first and station 3: each is the join
end of a relay. One split end, at the server, takes all of them apart, one out of the other.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from studies.rig.relayed import CLIENTS, SERVER, heard, join, program, relay
from weir.lab import Lab, parse

STATIONS = ("station1", "station2", "station3")
METERS = (1, 2, 3)
LOSS = 0.005
RTT_MS = 10
"""The last link's loss, and the round-trip time of what crosses it alone."""
_JOINS = (*STATIONS, "aggregator1", "aggregator2")
_PORT, _SPLIT_PORT = 7600, 7500
_SCENARIO = """
[lab]
name = "grid"
seed = {seed}
[hosts]
station1 = {{ congestion = "reno" }}
station2 = {{ congestion = "reno" }}
station3 = {{ congestion = "reno" }}
aggregator1 = {{ congestion = "reno" }}
aggregator2 = {{ congestion = "reno" }}
server = {{ congestion = "reno" }}
[routers]
switch1 = {{}}
switch2 = {{}}
[[link]]
ends = ["station1", "switch1"]
delay = "30 ms"
[[link]]
ends = ["station2", "switch1"]
delay = "20 ms"
[[link]]
ends = ["aggregator1", "switch1"]
[[link]]
ends = ["switch1", "switch2"]
delay = "10 ms"
[[link]]
ends = ["station3", "switch2"]
delay = "5 ms"
[[link]]
ends = ["aggregator2", "switch2"]
[[link]]
name = "last"
ends = ["switch2", "server"]
rate = "100 Mbit/s"
delay = "5 ms"
loss = "{loss} %"
backward = {{ rate = "100 Mbit/s", delay = "5 ms" }}
"""


@dataclass(frozen=True, slots=True)
class Framework:
    """How stations' connections go.

    Attributes:
        first: weights at the first aggregator, of stations 1 and 2; none: nothing is aggregated.
        second: at the second one, of what the first sends and of station 3.
    """

    first: tuple[int, int] | None = None
    second: tuple[int, int] = (1, 1)


FRAMEWORKS: Mapping[str, Framework] = {
    "plain": Framework(),
    "aggregated alone": Framework((1, 1), (1, 1)),
    "by meters": Framework((METERS[0], METERS[1]), (METERS[0] + METERS[1], METERS[2])),
}
"""The work's three (003-spec section 3.2). Its aggregation alone has one queue in the order of
arrival; a relay's connections have equal turns, which is as blind to how many meters each has."""


def carry_out(framework: Framework, seconds: int, seed: int) -> list[tuple[float, list[int]]]:
    """All meters send as much as they can.

    Returns:
        For each second or so: the instant in s, and the bytes of each meter that have arrived.

    Raises:
        Unsupported: this machine has no labs.
        TransferFailed: a program ended before its time.
    """
    seen: list[tuple[float, list[int]]] = []
    scenario = parse(_SCENARIO.format(seed=seed, loss=100 * LOSS), "grid")
    with Lab.up(scenario) as lab, contextlib.ExitStack() as stack:
        address = lab.address("server")
        server = stack.enter_context(program(lab, "server", SERVER, address, _PORT))
        heard(server)
        _relays(lab, framework, stack)
        begin = 0
        for name, meters in zip(STATIONS, METERS, strict=True):
            ends = (lab.address(name), _PORT, begin, begin + meters)
            stack.enter_context(program(lab, name, CLIENTS, *ends))
            begin += meters
        while not seen or seen[-1][0] - seen[0][0] < seconds:
            told = json.loads(heard(server))
            counts = [told["bytes"].get(str(meter), 0) for meter in range(sum(METERS))]
            if all(counts):
                seen.append((told["at"], counts))
    return seen


def _relays(lab: Lab, framework: Framework, stack: contextlib.ExitStack) -> None:
    """Everything between meters and server, from the server on."""
    end = f"{lab.address('server')}:{_SPLIT_PORT}"
    origins = [word for name in _JOINS for word in ("--from", lab.address(name))]
    to = lab.address("server")
    words = ("--listen", end, "--from", to, *origins, "--to", to)
    stack.enter_context(relay(lab, "server", "split", *words))
    far = near = end
    if framework.first is not None:
        weights = (framework.second[0], framework.second[1])
        clients = dict(zip(("aggregator1", "station3"), weights, strict=True))
        near = _join(lab, stack, "aggregator2", end, end, clients)
        clients = dict(zip(STATIONS, framework.first, strict=False))
        far = _join(lab, stack, "aggregator1", near, end, clients)
    for name, split in zip(STATIONS, (far, far, near), strict=True):
        _join(lab, stack, name, split, f"{to}:{_PORT}", {})


def _join(
    lab: Lab,
    stack: contextlib.ExitStack,
    host: str,
    split: str,
    server: str,
    weights: Mapping[str, int],
) -> str:
    """A join end, once it has its aggregate; where it listens."""
    listen = f"{lab.address(host)}:{_PORT}"
    words = ["--listen", listen, "--split", split, "--server", server]
    for name, weight in weights.items():
        words += ["--weight", f"{lab.address(name)}={weight}"]
    stack.enter_context(join(lab, host, *words))
    return listen
