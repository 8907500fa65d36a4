"""The agent at the network's edge: what the calendar has allotted is enforced there.

How is an `Enforcer`'s business; the agent knows which pairs of hosts have transfers, and their
rates.
"""

import asyncio
import contextlib
import ipaddress
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from weir.calendar.agents.assignments import AssignmentStream
from weir.calendar.agents.enforcer import RATE_MIN_BPS, SOURCE_MIN_BPS, Allotment, Enforcer, Pair
from weir.calendar.lanes import Lane, lanes
from weir.errors import Unavailable, WeirError

log = logging.getLogger(__name__)

REPORT_EVERY_S = 1.0
# Whose rate was lowered may send as before for so long: what it has sent by then is on its way, and
# held to little it would be lost, or wait until the sender takes it for lost.
GRACE_S = 1.0


class EdgeAgent:
    """Keeps an enforcer at what the calendar has allotted.

    Args:
        stream: what it is assigned.
        enforcer: who sees to it.
        stays: whether what is in force stays so when the agent ends.
        says: its report to the calendar, given all assignments.
        hears: is given every message of the calendar first.
    """

    def __init__(
        self,
        stream: AssignmentStream,
        enforcer: Enforcer,
        *,
        stays: bool = False,
        says: Callable[[Iterable[dict[str, Any]]], dict[str, Any]] = lambda _: {"edge": True},
        hears: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:
        self._stream = stream
        self._enforcer = enforcer
        self._stays = stays
        self._says = says
        self._report_now = asyncio.Event()
        self._hears = hears
        self._assignments: dict[str, dict[str, Any]] = {}
        # Whose rate was lowered: until when it may send how much.
        self._lowered: dict[Pair, tuple[float, int]] = {}
        self._is_lowered = asyncio.Event()

    def report(self) -> None:
        """Reports at once, not only when it is time again."""
        self._report_now.set()

    async def run(self) -> None:
        """Runs until cancelled; raises `BadInput` if the calendar turns it away."""
        self._enforcer.install()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._take_assignments())
                group.create_task(self._lower_forever())
                group.create_task(self._report_forever())
        except* WeirError as errors:
            raise errors.exceptions[0] from None
        finally:
            if not self._stays:
                self._enforcer.remove()

    async def _take_assignments(self) -> None:
        async for message in self._stream.messages():
            self._hears(message)
            if message["kind"] == "snapshot":
                self._assignments.clear()
            for identifier in message.get("release", ()):
                self._assignments.pop(identifier, None)
            for assigned in message.get("assign", ()):
                self._assignments[assigned["id"]] = assigned
            self._enforce(anew=message["kind"] == "snapshot")

    def _enforce(self, *, anew: bool) -> None:
        """Has what is assigned enforced, `anew` or where it is not in force yet."""
        wanted = self._with_grace(pairs(self._assignments.values()), time.monotonic())
        if not anew and wanted == self._enforcer.in_force():
            return  # Not every message changes what the edge must do.
        started_s = time.perf_counter()
        self._enforcer.apply(wanted)
        log.debug("rates enforced in %.1f ms", (time.perf_counter() - started_s) * 1e3)

    def _with_grace(self, wanted: dict[Pair, Allotment], now_s: float) -> dict[Pair, Allotment]:
        """What is wanted, and for those whose rate is lowered what they had until just now."""
        for pair, before in self._enforcer.in_force().items():
            if pair in wanted and wanted[pair].most_bps < before.most_bps:
                self._lowered.setdefault(pair, (now_s + GRACE_S, before.most_bps))
                self._is_lowered.set()
            else:
                self._lowered.pop(pair, None)
        lowered = self._lowered.items()
        self._lowered = {x: late for x, late in lowered if now_s < late[0] and x in wanted}
        for pair, (_, most_bps) in self._lowered.items():
            one = wanted[pair]
            wanted[pair] = replace(one, least_bps=max(one.least_bps, most_bps))
        return wanted

    async def _lower_forever(self) -> None:
        """Ends each grace in time."""
        while True:
            await self._is_lowered.wait()
            self._is_lowered.clear()
            while self._lowered:
                first_s = min(until_s for until_s, _ in self._lowered.values())
                await asyncio.sleep(max(0.0, first_s - time.monotonic()))
                self._enforce(anew=False)

    async def _report_forever(self) -> None:
        while True:
            self._report_now.clear()
            try:
                await self._stream.post("reports", self._says(self._assignments.values()))
            except Unavailable as error:
                log.info("report: %s", error)
                self._report_now.clear()  # The next one will do.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._report_now.wait(), REPORT_EVERY_S)


def pairs(assignments: Iterable[dict[str, Any]]) -> dict[Pair, Allotment]:
    """What is allotted to every pair of hosts with active transfers, whose rates add up.

    A transfer over several paths has a pair for each. One whose ends are not known yet has no
    packets to shape. Transfers between one pair take one path, that of the first: their packets
    cannot be told apart.
    """
    allotted: dict[Pair, Allotment] = {}
    for assignment in assignments:
        for pair, lane in pairs_of(assignment):
            rate_bps = max(lane.rate_bps, RATE_MIN_BPS)
            one = allotted.get(pair, Allotment(0, lane.path))
            allotted[pair] = replace(
                one, rate_bps=one.rate_bps + rate_bps, least_bps=one.least_bps + SOURCE_MIN_BPS
            )
    return allotted


def pairs_of(assignment: dict[str, Any]) -> list[tuple[Pair, Lane]]:
    """The hosts that a transfer is between, with the port of each lane; none if not known yet.

    Its packets are of the IP of the receiver's data address; where that is a name, of IPv4 if both
    hosts have such an address. The addresses in the network file are believed before the agents'.
    """
    source, data_address = assignment["source_address"], assignment["data_address"]
    if not source or not data_address:
        return []
    sources = _by_version(source, assignment.get("source_address6"))
    destination, sixth = assignment["destination_address"], assignment.get("destination_address6")
    named = data_address.rpartition(":")[0].strip("[]")
    declared, told = _by_version(destination, sixth), _by_version(named)
    destinations = told | declared
    for version in told or (4, 6):
        if version in sources and version in destinations:
            ends = sources[version], destinations[version]
            try:
                return [(Pair(*ends, lane.port), lane) for lane in lanes(assignment)]
            except ValueError:
                break  # a port that is none
    log.warning("%s: no IP of both %s and %s is known", assignment["id"], source, data_address)
    return []


def _by_version(*addresses: str | None) -> dict[int, str]:
    """Addresses by their version of IP, of each the first; what is none of one host is left out."""
    found: dict[int, str] = {}
    for text in addresses:
        try:
            address = ipaddress.ip_address(text or "")
        except ValueError:
            continue
        if isinstance(address, ipaddress.IPv6Address):
            if address.is_link_local:
                continue
            address = address.ipv4_mapped or address
        found.setdefault(address.version, str(address))
    return found
