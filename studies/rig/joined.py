"""Many clients that send to one server over one narrow line, directly or joined by relays.

Work 003's set-up (003-spec section 2.2), with the narrow line where one joined connection crosses
it (003-spec section 2.14, V2). Clients write as much as they can; the server counts what arrives.
"""

import contextlib
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from studies.rig.relayed import CLIENTS, SERVER, heard, join, pipe, program, relay, tell
from weir.lab import Lab, parse

RATE_BPS = 8_000_000
GROUPS = ("even", "more")
"""Client hosts; each has half of the clients."""
_PORT, _SPLIT_PORT = 7600, 7500
SCENARIO = """
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
    scenario = parse(SCENARIO.format(seed=seed), "many clients")
    with Lab.up(scenario) as lab, contextlib.ExitStack() as stack:
        to, far_end = lab.address("server"), None
        server = stack.enter_context(program(lab, "server", SERVER, to, _PORT))
        heard(server)
        if weights is not None:
            far_end = stack.enter_context(split(lab))
            words = join_words(lab, weights)
            words += ["--linked-ack", linked_ack] if linked_ack is not None else []
            stack.enter_context(join(lab, "join", *words))
            to = lab.address("join")
        parts = [(host, _part(number, clients)) for number, host in enumerate(GROUPS)]
        senders = [
            stack.enter_context(program(lab, host, CLIENTS, to, _PORT, *part))
            for host, part in parts
        ]
        while not seen.arrived or seen.within(0, seconds)[0] < seconds:
            take(seen, heard(server))
            told(seen)
        if far_end is not None:
            far_end.kill()
            far_end.wait()
        for sender in senders:
            tell(sender)
            seen.acknowledged |= _by_client(json.loads(heard(sender)))
        tell(server)
        while line := pipe(server.stdout).readline():
            seen.received = _by_client(json.loads(line)["bytes"])
    return seen


def _part(number: int, clients: int) -> tuple[int, int]:
    half = clients // len(GROUPS)
    return number * half, (number + 1) * half


def take(seen: Seen, line: str) -> None:
    """Adds what the server has told."""
    told = json.loads(line)
    counts = _by_client(told["bytes"])
    if counts:  # before it nobody has come
        seen.arrived.append((told["at"], counts))


def _by_client(counts: dict[str, int]) -> dict[int, int]:
    return {int(client): count for client, count in counts.items()}


def split(lab: Lab) -> contextlib.AbstractContextManager["subprocess.Popen[str]"]:
    """The relay at the servers' side."""
    listen = f"{lab.address('split')}:{_SPLIT_PORT}"
    to = f"{lab.address('server')}:{_PORT}"
    return relay(
        lab, "split", "split", "--listen", listen, "--from", lab.address("join"), "--to", to
    )


def join_words(lab: Lab, weights: Sequence[int]) -> list[str]:
    """What the relay at the clients' side is told, with a weight for each host of `GROUPS`."""
    address = lab.address("join")
    command = ["--listen", f"{address}:{_PORT}", "--server"]
    command += [f"{lab.address('server')}:{_PORT}"]
    command += ["--split", f"{lab.address('split')}:{_SPLIT_PORT}"]
    for host, weight in zip(GROUPS, weights, strict=True):
        command += ["--weight", f"{lab.address(host)}={weight}"]
    return command
