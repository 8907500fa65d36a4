"""What has become of every transfer's promise, from what has become of every pair's.

Switches know pairs of hosts; transfers between one pair share what it carries as their rates are.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from weir.calendar.edge import pair_of
from weir.calendar.enforcer import Pair
from weir.control.promises import Kept


@dataclass(slots=True)
class _Booking:
    promised_bytes: float = 0.0
    carried_bytes: float = 0.0


class Bookings:
    """The promises of all transfers that are assigned."""

    def __init__(self) -> None:
        self._bookings: dict[str, _Booking] = {}
        self._last: dict[Pair, Kept] = {}

    def reports(
        self, assignments: Iterable[dict[str, Any]], kept: dict[Pair, Kept]
    ) -> list[dict[str, Any]]:
        """What to tell the calendar now, by transfer.

        Args:
            assignments: what is assigned.
            kept: what switches have counted of every pair since it is known.
        """
        together: dict[Pair, list[dict[str, Any]]] = {}
        for assignment in assignments:
            pair = pair_of(assignment)
            if pair is not None and pair in kept:
                together.setdefault(pair, []).append(assignment)
        found = []
        for pair, ours in together.items():
            before, now = self._last.get(pair, Kept()), kept[pair]
            if now.promised_bytes < before.promised_bytes:
                before = Kept()  # It had ended, and begun again.
            total_bps = sum(x["rate_bps"] for x in ours)
            for one in ours:
                share = one["rate_bps"] / total_bps if total_bps else 1 / len(ours)
                booking = self._bookings.setdefault(one["id"], _Booking())
                booking.promised_bytes += share * (now.promised_bytes - before.promised_bytes)
                booking.carried_bytes += share * (now.carried_bytes - before.carried_bytes)
                found.append(
                    {
                        "id": one["id"],
                        "promised_bytes": round(booking.promised_bytes),
                        "carried_bytes": round(booking.carried_bytes),
                        "alarm": now.alarm or None,
                        "detail": now.detail or None,
                    }
                )
        known = {one["id"] for ours in together.values() for one in ours}
        self._bookings = {x: y for x, y in self._bookings.items() if x in known}
        self._last = {pair: kept[pair] for pair in together}
        return found
