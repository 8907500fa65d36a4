"""What has become of every transfer's promise, from what has become of every pair's.

Switches know pairs of hosts; transfers between one pair share what it carries as their rates are.
A transfer over several paths has a pair for each, and is promised, and carried, their sum.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weir.calendar.agents.edge import pairs_of
from weir.calendar.agents.enforcer import Pair
from weir.control.messages import COUNT_MAX
from weir.control.promises import ASTRAY, EMPTY, Kept


@dataclass(slots=True)
class _Booking:
    rates: dict[Pair, int]
    size_bytes: int | None
    promised_bytes: float = 0.0
    carried_bytes: float = 0.0


class Bookings:
    """The promises of all transfers that are assigned, and of those that have just ended."""

    def __init__(self) -> None:
        self._bookings: dict[str, _Booking] = {}
        self._last: dict[Pair, Kept] = {}

    def reports(
        self, assignments: Iterable[dict[str, Any]], kept: Mapping[Pair, Kept]
    ) -> list[dict[str, Any]]:
        """What to tell the calendar now, by transfer.

        Args:
            assignments: what is assigned.
            kept: what switches have counted of every pair since it is known.
        """
        assigned = self._assigned(assignments, kept)
        found: dict[str, dict[Pair, Kept]] = {}
        together = self._by_pair(assigned, kept)
        for pair, ours in together.items():
            now = kept[pair]
            before = self._last.get(pair, Kept())
            if now.promised_bytes < before.promised_bytes:
                before = Kept()  # It had ended, and begun again.
            total_bps = sum(self._bookings[x].rates[pair] for x in ours)
            for identifier in ours:
                booking = self._bookings[identifier]
                share = booking.rates[pair] / total_bps if total_bps else 1 / len(ours)
                booking.promised_bytes += share * (now.promised_bytes - before.promised_bytes)
                booking.carried_bytes += share * (now.carried_bytes - before.carried_bytes)
                found.setdefault(identifier, {})[pair] = now
        self._bookings = {x: self._bookings[x] for x in found}
        self._last = {pair: kept[pair] for pair in together}
        return [_report(x, self._bookings[x], nows) for x, nows in found.items()]

    def _assigned(
        self, assignments: Iterable[dict[str, Any]], kept: Mapping[Pair, Kept]
    ) -> set[str]:
        """Takes up what is assigned between pairs that switches know; their ids."""
        assigned = set()
        for assignment in assignments:
            rates = {pair: lane.rate_bps for pair, lane in pairs_of(assignment)}
            rates = {pair: rate_bps for pair, rate_bps in rates.items() if pair in kept}
            if not rates:
                continue
            identifier, size_bytes = assignment["id"], assignment.get("size_bytes")
            booking = self._bookings.setdefault(identifier, _Booking(rates, size_bytes))
            booking.rates, booking.size_bytes = rates, size_bytes
            assigned.add(identifier)
        return assigned

    def _by_pair(self, assigned: set[str], kept: Mapping[Pair, Kept]) -> dict[Pair, list[str]]:
        """Who shares what is counted: those assigned, or else those that were until now."""
        together: dict[Pair, list[str]] = {}
        for identifier in assigned:
            for pair in self._bookings[identifier].rates:
                together.setdefault(pair, []).append(identifier)
        taken = set(together)
        for identifier, booking in self._bookings.items():
            for pair in booking.rates:
                if pair in kept and pair not in taken:
                    together.setdefault(pair, []).append(identifier)
        return {pair: sorted(ours) for pair, ours in together.items()}


def _report(identifier: str, booking: _Booking, nows: Mapping[Pair, Kept]) -> dict[str, Any]:
    size_bytes = booking.size_bytes
    # Who has nothing left to send sends nothing.
    is_sent = size_bytes is not None and booking.carried_bytes >= size_bytes
    alarm, detail = "", ""
    for pair, now in nows.items():
        if (now.alarm == EMPTY and is_sent) or now.alarm == "" or alarm == ASTRAY:
            continue
        where = f"port {pair.port}: " if len(nows) > 1 else ""
        alarm, detail = now.alarm, f"{where}{now.detail}"
    return {
        "id": identifier,
        "promised_bytes": round(booking.promised_bytes),
        "carried_bytes": min(round(booking.carried_bytes), COUNT_MAX),
        "alarm": alarm or None,
        "detail": detail if alarm else None,
    }
