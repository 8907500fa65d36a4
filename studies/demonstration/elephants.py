"""Elephants beside best effort on the six switches of 000-spec section 3.6.2, in a lab.

The network and its best-effort bursts are those of the scenario `headroom`. All elephants are
between B and C, where the default paths have one link (w = 1 of the work).
"""

import contextlib
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from studies.rig.arrivals import STEP_S
from studies.rig.controlled import Control
from studies.rig.processes import module_command, started
from studies.rig.provider import FIRST_PORT, Elephant, Provider, Service, six_switches
from weir.calendar.network import Network, parse_network
from weir.errors import Unavailable
from weir.lab import Lab, load
from weir.lab.scenario import CODEPOINTS, PpbpTraffic
from weir.lab.traffic import source_config
from weir.shipped import scenario

FIRST_BURST_PORT = 9001
_QUIET_STEPS = 3
_DRAIN_S = 15.0
_IN_USE = 0.05


def elephants(each_way: int) -> list[Elephant]:
    """So many from B to C, and as many back."""
    ways = [("b1", "c1"), ("c1", "b1")] * each_way
    return [Elephant(*way, FIRST_PORT + at) for at, way in enumerate(ways)]


@dataclass
class Seen:
    """What a run has shown so far.

    Attributes:
        service: of the elephants.
        state: in a word.
        taken: bytes of each elephant at each step since it began, in the order of `elephants`.
        arrived: packets of each source of bursts, likewise.
        sent: packets that the sources of bursts have sent in all; 0 until their end.
        stalled_s: how long sources of bursts could not send, or were not let to by the machine.
        payload_bytes: of such a packet.
        paths: the links that each elephant took between switches.
        carried_bytes: by directed link between switches.
        links_in_use: how many of these carried a twentieth of their rate.
        is_slow: whether the machine, and not the scenario, limits the lab's figures.
    """

    service: Service
    state: str = "waits"
    taken: list[list[int]] = field(default_factory=list)
    arrived: list[list[int]] = field(default_factory=list)
    sent: int = 0
    stalled_s: float = 0.0
    payload_bytes: int = 0
    paths: list[list[str]] = field(default_factory=list)
    carried_bytes: dict[str, int] = field(default_factory=dict)
    links_in_use: int = 0
    is_slow: bool = False

    @property
    def lost_percent(self) -> float | None:
        """The share of best-effort packets that did not arrive; None before all were sent."""
        if not self.sent:
            return None
        return 100 * (1 - sum(counts[-1] for counts in self.arrived) / self.sent)

    @property
    def elephant_bps(self) -> float:
        """The mean of the elephants' goodputs (AMB-13)."""
        each = [8 * counts[-1] / (len(counts) * STEP_S) for counts in self.taken if counts]
        return sum(each) / max(1, len(each))


def rates_bps(counts: Iterable[Sequence[int]], bytes_each: int = 1) -> list[float]:
    """The rate of all together in each step, for as long as the longest."""
    steps: dict[int, float] = {}
    for one in counts:
        for at, (before, after) in enumerate(zip((0, *one), one, strict=False)):
            steps[at] = steps.get(at, 0.0) + 8 * bytes_each * (after - before) / STEP_S
    return [steps[at] for at in sorted(steps)]


def carry_out(
    seen: Seen, flows: Sequence[Elephant], seconds: float, seed: int, changed: Callable[[], None]
) -> None:
    """Runs `flows` beside the bursts for so long, and notes in `seen` what is to be seen.

    Raises:
        Unsupported: this machine has no labs or no switches.
        Unavailable: the switches did not obey, or a program ended.
    """
    lab_scenario = six_switches(seen.service)
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        where = f"unix:{folder}/c"
        seen.state = "begins"
        changed()
        with Lab.up(lab_scenario, controller=where) as lab:
            joined = parse_network(lab.network())
            with Control(joined, where) as control:
                control.allot({})
                provider = Provider(seen.service, joined, seed)
                _Run(lab, control, provider, seen, seed, changed).go(flows, seconds)
            _note(seen, lab.status(), joined, seconds)
    seen.state = "done"
    changed()


class _Run:
    """One run in a lab whose switches obey."""

    def __init__(
        self,
        lab: Lab,
        control: Control,
        provider: Provider,
        seen: Seen,
        seed: int,
        changed: Callable[[], None],
    ) -> None:
        self._seed = seed
        self._lab, self._control, self._provider = lab, control, provider
        self._seen, self._changed = seen, changed
        self._readers: list[threading.Thread] = []

    def go(self, flows: Sequence[Elephant], seconds: float) -> None:
        """From the first program to the last packet."""
        whole = load(scenario("headroom"))
        bursts = [one for one in whole.traffic if isinstance(one, PpbpTraffic)]
        self._seen.payload_bytes = bursts[0].payload.count
        with contextlib.ExitStack() as stack:
            senders = [
                self._bursts(stack, one, FIRST_BURST_PORT + at, seconds)
                for at, one in enumerate(bursts)
            ]
            greedy = [self._elephant(stack, one) for one in flows]
            self._seen.state = "runs"
            for at, (elephant, sender) in enumerate(zip(flows, greedy, strict=True)):
                self._seen.paths.append(self._provider.announce(at, elephant))
                self._control.allot(self._provider.allotted)
                _tell(sender, "begin\n")
            begin_s = time.monotonic()
            for sender in senders:
                _tell(sender, f"{begin_s}\n")
            results = [_result(sender) for sender in senders]
            self._seen.sent = sum(int(one["packets"]) for one in results)
            self._seen.stalled_s = sum(float(one["stalled_s"]) for one in results)
            self._seen.state = "drains"
            for sender in greedy:
                sender.terminate()
            self._drain()
        for reader in self._readers:
            reader.join()

    def _bursts(
        self, stack: contextlib.ExitStack, traffic: PpbpTraffic, port: int, seconds: float
    ) -> "subprocess.Popen[str]":
        """Readies a source of bursts and who counts them; it is given its moment."""
        self._counts(stack, traffic.destination, "udp", port, self._seen.arrived)
        datagrams = {
            "address": self._lab.address(traffic.destination),
            "port": port,
            "dscp": CODEPOINTS[traffic.dscp],
            "ecn": 0,
            "source": source_config(traffic, self._seed),
        }
        order = json.dumps({"datagrams": datagrams, "length_s": seconds})
        return self._sender(stack, traffic.source, module_command("weir.lab.player", order))

    def _elephant(self, stack: contextlib.ExitStack, elephant: Elephant) -> "subprocess.Popen[str]":
        """Readies both ends of an elephant."""
        self._counts(stack, elephant.target, "tcp", elephant.port, self._seen.taken)
        where = (self._lab.address(elephant.target), str(elephant.port))
        return self._sender(stack, elephant.source, module_command("studies.rig.greedy", *where))

    def _sender(
        self, stack: contextlib.ExitStack, host: str, command: Sequence[str | Path]
    ) -> "subprocess.Popen[str]":
        return stack.enter_context(started(self._lab, host, command, stdin=subprocess.PIPE))

    def _counts(
        self, stack: contextlib.ExitStack, host: str, what: str, port: int, into: list[list[int]]
    ) -> None:
        """Notes what arrives at a host."""
        counts: list[int] = []
        into.append(counts)
        command = module_command("studies.rig.arrivals", what, str(port))
        counter = stack.enter_context(started(self._lab, host, command))
        assert counter.stdout, "a pipe"
        reader = threading.Thread(target=self._read, args=(counter.stdout, counts, what))
        reader.start()
        self._readers.append(reader)

    def _read(self, said: IO[str], counts: list[int], what: str) -> None:
        with contextlib.suppress(ValueError):  # The pipe is closed under it.
            for line in said:
                if what == "udp" or self._seen.state == "runs":
                    counts.append(int(line))
                    self._changed()

    def _drain(self) -> None:
        """Waits until all packets have arrived, or none has for a while."""
        end_s = time.monotonic() + _DRAIN_S
        while time.monotonic() < end_s:
            lately = [counts[-_QUIET_STEPS:] for counts in self._seen.arrived]
            if sum(counts[-1] for counts in lately if counts) >= self._seen.sent:
                return
            if all(len(counts) == _QUIET_STEPS and len(set(counts)) == 1 for counts in lately):
                return
            time.sleep(STEP_S)


def _tell(sender: "subprocess.Popen[str]", line: str) -> None:
    assert sender.stdin, "a pipe"
    with sender.stdin as told:
        told.write(line)


def _result(sender: "subprocess.Popen[str]") -> dict[str, Any]:
    """What a source of bursts has sent; waits for its end."""
    assert sender.stdout, "a pipe"
    result: dict[str, Any] = json.loads(sender.stdout.readline() or "{}")
    if result.get("error") or "packets" not in result:
        raise Unavailable(f"a source of bursts ended early: {result.get('error')}")
    return result


def _note(seen: Seen, status: Mapping[str, Any], joined: Network, seconds: float) -> None:
    """Takes what the lab's counters show in the end."""
    for link in status["links"]:
        for way in ("forward", "backward"):
            name = f"{link['name']}.{way}"
            one = joined.links[name]
            if {one.source, one.target} <= joined.datapaths.keys():
                carried = seen.carried_bytes[name] = link[way]["bytes_out"]
                seen.links_in_use += 8 * carried / seconds > _IN_USE * one.capacity_bps
    is_late = status["headroom"]["bottleneck"]
    seen.is_slow = is_late or any(one["dropped"] for one in status["switches"])
