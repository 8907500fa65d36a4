"""The agent at the network's edge: what the calendar has allotted is enforced there.

How is an `Enforcer`'s business; the agent knows which pairs of hosts have transfers, and their
rates.
"""

import asyncio
import ipaddress
import logging
import time
from collections.abc import Iterable
from typing import Any

from weir.calendar.enforcer import RATE_MIN_BPS, Enforcer, Pair
from weir.calendar.orders import OrderLine
from weir.errors import Unavailable, WeirError

log = logging.getLogger(__name__)

REPORT_EVERY_S = 1.0


class EdgeAgent:
    """Keeps a router's enforcer at what the calendar has allotted."""

    def __init__(self, line: OrderLine, enforcer: Enforcer) -> None:
        self._line = line
        self._enforcer = enforcer
        self._orders: dict[str, dict[str, Any]] = {}

    async def run(self) -> None:
        """Runs until cancelled; raises `BadInput` if the calendar turns it away."""
        self._enforcer.install()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._take_orders())
                group.create_task(self._report_forever())
        except* WeirError as errors:
            raise errors.exceptions[0] from None
        finally:
            self._enforcer.remove()

    async def _take_orders(self) -> None:
        async for order in self._line.orders():
            if order["kind"] == "snapshot":
                self._orders.clear()
            for identifier in order.get("release", ()):
                self._orders.pop(identifier, None)
            for assigned in order.get("assign", ()):
                self._orders[assigned["id"]] = assigned
            wanted = pairs(self._orders.values())
            if wanted == self._enforcer.in_force():
                continue  # Not every order changes what the edge must do.
            started_s = time.perf_counter()
            self._enforcer.apply(wanted)
            log.debug("rates enforced in %.1f ms", (time.perf_counter() - started_s) * 1e3)

    async def _report_forever(self) -> None:
        while True:
            try:
                await self._line.post("reports", {"edge": True})
            except Unavailable as error:
                log.info("report: %s", error)
            await asyncio.sleep(REPORT_EVERY_S)


def pairs(orders: Iterable[dict[str, Any]]) -> dict[Pair, int]:
    """The allotted rate of every pair of hosts with active transfers, in bit/s.

    A transfer whose ends are not known yet has no packets to shape.
    """
    rates: dict[Pair, int] = {}
    for order in orders:
        source, data_address = order["source_address"], order["data_address"]
        if not source or not data_address:
            continue
        host, _, port = data_address.rpartition(":")
        destination = order["destination_address"] or host.strip("[]")
        try:
            pair = Pair(
                str(ipaddress.IPv4Address(source)),
                str(ipaddress.IPv4Address(destination)),
                int(port),
            )
        except ValueError:
            log.warning("%s: %s to %s is not IPv4", order["id"], source, data_address)
            continue
        rates[pair] = rates.get(pair, 0) + max(order["rate_bps"], RATE_MIN_BPS)
    return rates
