"""Whether promises are kept, as the controller has it from the switches' counters.

It is measured again all the time, so it is not stored: after a restart the controller's next
report tells it. When an alarm begins or ends, that is an event.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

# The newest transfers whose promises are remembered.
KEPT_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Kept:
    """A transfer's promise so far, in bytes on the wire.

    Attributes:
        promised_bytes: its rates, over the time that they were allotted.
        carried_bytes: what the last switch of its path has carried.
        alarm: "empty" when nothing of it has entered the network in the last period, "astray" when
            what entered does not take its path; None if neither.
        detail: the same in words.
    """

    promised_bytes: int
    carried_bytes: int
    alarm: str | None
    detail: str | None

    def without_empty(self) -> "Kept":
        """The same of a transfer whose source has nothing left to send, which is no alarm."""
        return replace(self, alarm=None, detail=None) if self.alarm == "empty" else self

    def to_json(self) -> dict[str, Any]:
        """As a transfer's view has it."""
        return {
            "promised_bytes": self.promised_bytes,
            "carried_bytes": self.carried_bytes,
            "alarm": self.alarm,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Change:
    """An alarm of a transfer that has begun (of which kind, and why), or is over."""

    id: str
    kind: str
    data: dict[str, object]


class Promises:
    """What is known of transfers' promises."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}
        self.promised_bytes = 0
        self.carried_bytes = 0
        # How many active transfers have an alarm.
        self.alarms = 0

    def of(self, identifier: str) -> Kept | None:
        """A transfer's promise; None where no controller has told."""
        return self._kept.get(identifier)

    def take(self, told: Mapping[str, Kept]) -> list[Change]:
        """Takes what the controller has told of active transfers: what has changed in alarms.

        Of others the last that was known is kept, as long as there are not too many.
        """
        changes = []
        for identifier, kept in told.items():
            before = self._kept.get(identifier)
            kept = _never_back(before, kept)
            self._count(before, kept)
            if kept.alarm != (before.alarm if before else None):
                changes.append(_change(identifier, kept))
            self._kept.pop(identifier, None)
            self._kept[identifier] = kept
        self.alarms = sum(kept.alarm is not None for kept in told.values())
        for identifier in list(self._kept)[:-KEPT_MAX]:
            del self._kept[identifier]
        return changes

    def _count(self, before: Kept | None, kept: Kept) -> None:
        if before is None or kept.promised_bytes < before.promised_bytes:
            before = Kept(0, 0, None, None)  # another controller counts from nothing
        self.promised_bytes += kept.promised_bytes - before.promised_bytes
        self.carried_bytes += kept.carried_bytes - before.carried_bytes


def _never_back(before: Kept | None, kept: Kept) -> Kept:
    """The same, of which no less was carried than before: what was carried stays so.

    Only whoever counts from nothing, as another controller does, has less of both.
    """
    if before is None or kept.promised_bytes < before.promised_bytes:
        return kept
    return replace(kept, carried_bytes=max(kept.carried_bytes, before.carried_bytes))


def _change(identifier: str, kept: Kept) -> Change:
    data: dict[str, object] = {
        "promised_bytes": kept.promised_bytes,
        "carried_bytes": kept.carried_bytes,
    }
    if kept.alarm is None:
        return Change(identifier, "promise-kept", data)
    return Change(
        identifier, "promise-broken", {"alarm": kept.alarm, "reason": kept.detail or "", **data}
    )
