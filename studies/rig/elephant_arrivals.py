"""Elephants that come and go on the six switches of 000-spec section 3.6.2, in a lab.

Each is announced to the provider's controller when it arrives, and over when its last byte has
arrived. Best effort beside them, where there is any, is that of the scenario `headroom`.
"""

import contextlib
import json
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

from studies.rig.controlled import Control
from studies.rig.processes import json_lines, module_command, started
from studies.rig.provider import FIRST_PORT, Elephant, Provider, Service, six_switches
from weir import Time
from weir.calendar.network import Network, parse_network
from weir.errors import Unavailable
from weir.lab import Lab, Scenario, load
from weir.lab.scenario import PpbpTraffic
from weir.shipped import scenario

_BURSTS_AFTER = Time("5 s")
"""From when the lab is up until there is best effort: by then its switches obey."""
_STALLED_S = 60.0


@dataclass(frozen=True)
class Arrival:
    """An elephant that begins so long after the first moment, between two switches."""

    at_s: float
    ingress: str
    egress: str
    size_bytes: int
    limit_bps: int | None = None


def carry_out(
    service: Service,
    arrivals: Sequence[Arrival],
    seed: int,
    *,
    queues: Time,
    bursts: Time | None = None,
) -> dict[str, Any]:
    """Carries all of them and tells what was seen.

    Args:
        service: of the elephants.
        arrivals: in the order of time.
        seed: of ties, and of bursts.
        queues: how long those between switches are, all classes together.
        bursts: how long there are bursts of best effort between B and C; none without it.

    Returns:
        `flows`: each elephant's `at_s`, `end_s`, `size_bytes`, `limit_bps` and `path`, and the
        `wait_s` until that is set up; `seconds` until the last has ended; `carried_bytes` by link
        between switches; `sent` and `received` packets of best effort; `flaws`: why the lab should
        not be believed.

    Raises:
        Unsupported: this machine has no labs or no switches.
        Unavailable: the switches did not obey, or an elephant did not arrive.
    """
    lab_scenario = replace(six_switches(service, queues), seed=seed, traffic=_bursts(bursts))
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        where = f"unix:{folder}/c"
        with Lab.up(lab_scenario, controller=where) as lab:
            joined = parse_network(lab.network())
            with Control(joined, where) as control, contextlib.ExitStack() as stack:
                control.allot({})
                run = _Run(lab, control, Provider(service, joined, seed), _named(arrivals))
                found = run.go(stack, arrivals, _until(lab, lab_scenario))
            return found | _counted(lab.finish(), joined)


def _bursts(length: Time | None) -> tuple[PpbpTraffic, ...]:
    """Those of the scenario, for so long."""
    if length is None:
        return ()
    stop = Time.from_ns(_BURSTS_AFTER.ns + length.ns)
    return tuple(
        replace(one, start=_BURSTS_AFTER, stop=stop)
        for one in load(scenario("headroom")).traffic
        if isinstance(one, PpbpTraffic)
    )


def _until(lab: Lab, lab_scenario: Scenario) -> float:
    """The moment at which the first elephant may come: now, or when bursts have begun."""
    if lab_scenario.traffic:
        while any(one["state"] == "waits" for one in lab.status()["traffic"]):
            time.sleep(0.05)
    return time.monotonic()


def _named(arrivals: Sequence[Arrival]) -> list[Elephant]:
    """The elephants between the hosts at these switches, each with a port of its own."""
    return [
        Elephant(
            f"{one.ingress.lower()}1",
            f"{one.egress.lower()}1",
            FIRST_PORT + at,
            one.size_bytes,
            one.limit_bps,
        )
        for at, one in enumerate(arrivals)
    ]


class _Run:
    """One run in a lab whose switches obey."""

    def __init__(
        self, lab: Lab, control: Control, provider: Provider, elephants: Sequence[Elephant]
    ) -> None:
        self._lab, self._control, self._provider = lab, control, provider
        self._elephants = elephants
        self._ended: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._senders: dict[str, subprocess.Popen[str]] = {}
        self._ends_s: dict[int, float] = {}
        self._paths: list[list[str]] = []
        self._waits_s: list[float] = []

    def go(
        self, stack: contextlib.ExitStack, arrivals: Sequence[Arrival], begin_s: float
    ) -> dict[str, Any]:
        """From the first program to the end of the last elephant."""
        self._start(stack)
        begin_s = max(begin_s, time.monotonic())
        for number, one in enumerate(arrivals):
            self._wait(begin_s + one.at_s)
            self._begin(number)
        while len(self._ends_s) < len(arrivals):
            self._take(_STALLED_S)
        flows = [
            {
                "at_s": one.at_s,
                "end_s": self._ends_s[number] - begin_s,
                "size_bytes": one.size_bytes,
                "limit_bps": one.limit_bps,
                "path": self._paths[number],
                "wait_s": self._waits_s[number],
            }
            for number, one in enumerate(arrivals)
        ]
        return {"flows": flows, "seconds": max(self._ends_s.values()) - begin_s}

    def _start(self, stack: contextlib.ExitStack) -> None:
        """A program on each host that sends or takes."""
        for host in sorted({x for one in self._elephants for x in (one.source, one.target)}):
            ports = [str(one.port) for one in self._elephants if one.target == host]
            command = module_command("studies.rig.sized", self._lab.address(host), *ports)
            process = stack.enter_context(started(self._lab, host, command, stdin=subprocess.PIPE))
            self._senders[host] = process
            assert process.stdout, "a pipe"
            threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def _read(self, said: IO[str]) -> None:
        for one in json_lines(said):
            self._ended.put(one)

    def _wait(self, until_s: float) -> None:
        """Until then; takes note of elephants that end."""
        while (left_s := until_s - time.monotonic()) > 0:
            with contextlib.suppress(Unavailable):
                self._take(left_s)

    def _take(self, limit_s: float) -> None:
        """An elephant that has ended, within so long."""
        try:
            one = self._ended.get(timeout=limit_s)
        except queue.Empty:
            missing = sorted(set(range(len(self._paths))) - self._ends_s.keys())
            raise Unavailable(f"no elephant ended for {limit_s:.0f} s; {missing} go on") from None
        number = one["port"] - FIRST_PORT
        if one["bytes"] != self._elephants[number].size_bytes:
            raise Unavailable(f"elephant {number} brought {one['bytes']} bytes only")
        self._ends_s[number] = one["end_s"]
        self._provider.over(number)
        self._control.tell(self._provider.allotted)

    def _begin(self, number: int) -> None:
        elephant = self._elephants[number]
        path = self._provider.announce(number, elephant)
        self._paths.append(path)
        self._waits_s.append(self._provider.setup_s(elephant, path))
        if pair := self._provider.pairs.get(number):
            self._control.send_along(self._provider.allotted, pair)
        order = {
            "address": self._lab.address(elephant.target),
            "port": elephant.port,
            "size_bytes": elephant.size_bytes,
            "limit_bps": elephant.limit_bps,
            "wait_s": self._waits_s[number],
        }
        told = self._senders[elephant.source].stdin
        assert told, "a pipe"
        told.write(json.dumps(order) + "\n")
        told.flush()


def _counted(status: Mapping[str, Any], joined: Network) -> dict[str, Any]:
    """What the lab's counters show in the end."""
    carried = {}
    for link in status["links"]:
        for way in ("forward", "backward"):
            one = joined.links[f"{link['name']}.{way}"]
            if {one.source, one.target} <= joined.datapaths.keys():
                carried[one.name] = link[way]["bytes_out"]
    flaws = ["the emulator was late"] if status["headroom"]["bottleneck"] else []
    if any(one["dropped"] for one in status["switches"]):
        flaws.append("a switch was too slow")
    return {
        "carried_bytes": carried,
        "sent": sum(one["sent_packets"] for one in status["traffic"]),
        "received": sum(one["received_packets"] for one in status["traffic"]),
        "flaws": flaws,
    }
