"""What the calendar keeps: a transfer, an event, one step of the engine."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from weir.calendar.compact import compact_json
from weir.calendar.elephants import Elephant
from weir.calendar.fast_record import record
from weir.calendar.timetable import Timetable

ACTIVE = ("waiting", "scheduled", "accepted", "running")
FINISHED = ("completed", "failed", "cancelled", "refused")
STATES = (*ACTIVE, *FINISHED)

EVENT_KINDS = (
    "waiting",
    "admitted",
    "due",
    "refused",
    "rates",
    "started",
    "completed",
    "failed",
    "cancelled",
    "missed",
    "deadline-void",
    "at-risk",
    "recovered",
    "agent-lost",
    "agent-back",
    "promise-broken",
    "promise-kept",
    "capacity",
    "narrowed",
    "elephant-told",
    "elephant-over",
    "clock",
)


@lru_cache(4_096)
def union(paths: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Every link of some paths, once."""
    return tuple(dict.fromkeys(link for path in paths for link in path))


@record(frozen=True, slots=True)
class Submission:
    """A request that has passed every check that needs no schedule. Instants in ns since 1970.

    `start_ns` is None for at once, `least_bytes` for all or nothing, `hold_ns` where the answer may
    not wait. It may be sent over `paths_max` paths: so many as it asks for, of those `paths_able`
    that its hosts and the service can.
    """

    id: str
    owner: str
    idempotency_key: str | None
    fingerprint: str
    source: str
    source_path: str
    destination: str
    destination_path: str
    size_bytes: int
    deadline_ns: int
    rate_max_bps: int | None
    start_ns: int | None = None
    least_bytes: int | None = None
    weight: int = 1
    hold_ns: int | None = None
    paths_max: int = 1
    paths_able: int = 1


@record(frozen=True, slots=True)
class Transfer:
    """One accepted transfer, or one that waits for its answer.

    Instants are in ns since 1970, and `None` where not yet known.

    `declared_bytes` is the size that it was admitted with, which binds; `size_bytes` is the true
    one as far as it is known. `promised_bytes` of it are to be there by the deadline, where that
    is less than all of it. Until `start_ns` it is "scheduled".
    It is "waiting" until its answer, which comes by `answer_ns`: it is sent, and nothing is
    promised. `refusal` is the answer as a problem's JSON, if that was no.
    `planned` says whether the engine holds capacity for it; `plan_ns` is the deadline that it is
    planned for, later than `deadline_ns` once that became impossible. `risk` is why the deadline
    is in danger, or empty.
    It may be sent over `paths_max` paths. `path` is the first of them; where there are several,
    all are in `paths`, in an order that stays.
    """

    id: str
    owner: str
    idempotency_key: str | None
    fingerprint: str
    source: str
    source_path: str
    destination: str
    destination_path: str
    size_bytes: int
    declared_bytes: int
    deadline_ns: int
    rate_max_bps: int | None
    state: str
    submitted_ns: int
    started_ns: int | None
    finished_ns: int | None
    bytes_durable: int
    path: tuple[str, ...]
    planned: bool
    plan_ns: int
    risk: str
    missed: bool
    file_hash: str | None
    error: str | None
    start_ns: int | None = None
    least_bytes: int | None = None
    promised_bytes: int | None = None
    weight: int = 1
    answer_ns: int | None = None
    refusal: str | None = None
    paths_max: int = 1
    paths: tuple[tuple[str, ...], ...] = ()

    @property
    def routes(self) -> tuple[tuple[str, ...], ...]:
        """Every path that it may take, in order."""
        return self.paths or (self.path,)

    @property
    def links(self) -> tuple[str, ...]:
        """Every link of its paths, once."""
        return union(self.paths) if self.paths else self.path

    @property
    def active(self) -> bool:
        """Whether it still has bytes to move."""
        return self.state in ACTIVE

    @property
    def is_void(self) -> bool:
        """Whether its deadline is void: it turned out larger than what was declared."""
        return self.size_bytes > self.declared_bytes

    @property
    def is_begun(self) -> bool:
        """Whether its start has come, so that agents are told of it, or were."""
        return self.state != "scheduled" and not (
            self.state == "waiting" and self.start_ns is not None
        )

    @property
    def is_sent(self) -> bool:
        """Whether agents are to carry it out now."""
        return self.active and self.planned and self.is_begun

    @property
    def is_rest(self) -> bool:
        """Whether all that was promised is there: what is left has no deadline."""
        promised = self.promised_bytes
        return promised is not None and promised <= self.bytes_durable < self.size_bytes

    @property
    def is_unbound(self) -> bool:
        """Whether no deadline binds it, and it gets only what is free."""
        return self.is_void or self.is_rest

    @property
    def remaining_bytes(self) -> int:
        """Bytes not yet durable at the destination."""
        return max(0, self.size_bytes - self.bytes_durable)

    @property
    def due_bytes(self) -> int:
        """The bytes of these that were promised; of what no deadline binds, all."""
        if self.promised_bytes is None or self.is_unbound:
            return self.remaining_bytes
        return max(0, self.promised_bytes - self.bytes_durable)


@record(frozen=True, slots=True)
class Event:
    """Something that happened, as subscribers see it; `number` is its place in the history.

    A refusal is found by the `request` that it refused, or by that one's owner and key, which
    subscribers do not see.
    """

    number: int
    at_ns: int
    kind: str
    transfer: str | None
    data: dict[str, Any]
    request: str | None = None
    owner: str | None = None
    idempotency_key: str | None = None
    _text: list[str] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def text(self) -> str:
        """`data` as JSON: made once, for the store and for everybody who reads."""
        if not self._text:
            self._text.append(compact_json(self.data))
        return self._text[0]


@record(frozen=True, slots=True)
class Step:
    """One call of the engine, kept so that a restart can take the same steps again."""

    number: int
    at_ns: int
    kind: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The engine's whole state after step `number`, and the settings that it holds under."""

    number: int
    configuration: str
    state: str


@dataclass(slots=True)
class Outcome:
    """Everything that one command changed, to be made durable together, and its answer.

    `admitted` is the id of the transfer that is new by it, if one is. An elephant that is None is
    over. `lanes` has the rate on each path of those of `rates` that have several.
    """

    answer: Any = None
    admitted: str | None = None
    transfers: dict[str, Transfer] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    rates: dict[str, int] = field(default_factory=dict)
    lanes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    timetables: dict[str, Timetable] = field(default_factory=dict)
    elephants: dict[str, Elephant | None] = field(default_factory=dict)
