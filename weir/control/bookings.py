"""What has become of every transfer's promise, from what has become of every pair's.

Switches know pairs of hosts; transfers between one pair share what it carries as their rates are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weir.calendar.edge import pair_of
from weir.calendar.enforcer import Pair
from weir.control.messages import COUNT_MAX
from weir.control.promises import EMPTY, Kept


@dataclass(slots=True)
class _Booking:
    pair: Pair
    rate_bps: int
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
        found = []
        for pair, ours in self._by_pair(assigned, kept).items():
            now = kept[pair]
            before = self._last.get(pair, Kept())
            if now.promised_bytes < before.promised_bytes:
                before = Kept()  # It had ended, and begun again.
            total_bps = sum(self._bookings[x].rate_bps for x in ours)
            for identifier in ours:
                booking = self._bookings[identifier]
                share = booking.rate_bps / total_bps if total_bps else 1 / len(ours)
                booking.promised_bytes += share * (now.promised_bytes - before.promised_bytes)
                booking.carried_bytes += share * (now.carried_bytes - before.carried_bytes)
                found.append(_report(identifier, booking, now))
        self._bookings = {x["id"]: self._bookings[x["id"]] for x in found}
        self._last = {
            self._bookings[x["id"]].pair: kept[self._bookings[x["id"]].pair] for x in found
        }
        return found

    def _assigned(
        self, assignments: Iterable[dict[str, Any]], kept: Mapping[Pair, Kept]
    ) -> set[str]:
        """Takes up what is assigned between pairs that switches know; their ids."""
        assigned = set()
        for assignment in assignments:
            pair = pair_of(assignment)
            if pair is None or pair not in kept:
                continue
            identifier, rate_bps = assignment["id"], assignment["rate_bps"]
            size_bytes = assignment.get("size_bytes")
            booking = self._bookings.setdefault(identifier, _Booking(pair, rate_bps, size_bytes))
            booking.pair, booking.rate_bps, booking.size_bytes = pair, rate_bps, size_bytes
            assigned.add(identifier)
        return assigned

    def _by_pair(self, assigned: set[str], kept: Mapping[Pair, Kept]) -> dict[Pair, list[str]]:
        """Who shares what is counted: those assigned, or else those that were until now."""
        together: dict[Pair, list[str]] = {}
        for identifier in assigned:
            together.setdefault(self._bookings[identifier].pair, []).append(identifier)
        taken = set(together)
        for identifier, booking in self._bookings.items():
            if booking.pair in kept and booking.pair not in taken:
                together.setdefault(booking.pair, []).append(identifier)
        return {pair: sorted(ours) for pair, ours in together.items()}


def _report(identifier: str, booking: _Booking, now: Kept) -> dict[str, Any]:
    size_bytes = booking.size_bytes
    # Who has nothing left to send sends nothing.
    is_sent = size_bytes is not None and booking.carried_bytes >= size_bytes
    alarm = "" if is_sent and now.alarm == EMPTY else now.alarm
    return {
        "id": identifier,
        "promised_bytes": round(booking.promised_bytes),
        "carried_bytes": min(round(booking.carried_bytes), COUNT_MAX),
        "alarm": alarm or None,
        "detail": now.detail if alarm else None,
    }
