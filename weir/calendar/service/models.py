"""The JSON that goes in and out, checked. Unknown keys are refused by name."""

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr

from weir import Rate
from weir.calendar.clock import NS_PER_S, format_instant, parse_instant
from weir.calendar.compact import compact_json
from weir.calendar.elephants import TOLD_MAX, Elephant, Sighting
from weir.calendar.lanes import LANES_MAX
from weir.calendar.network import Network
from weir.calendar.planning.engine import Verdict
from weir.calendar.planning.plan import DEADLINE_MAX_S
from weir.calendar.planning.precheck import Forecast
from weir.calendar.planning.reports import Report
from weir.calendar.planning.wire import wire_bytes
from weir.calendar.problem import invalid
from weir.calendar.records import Submission, Transfer
from weir.calendar.recurrence import TIMES_MAX
from weir.calendar.service.kept import Kept
from weir.calendar.service.registry import Reach
from weir.calendar.timetable import ENTRIES_MAX, Entry, Timetable, capacity_of
from weir.errors import BadInput

# An exabyte: beyond any real request, and far inside 64-bit arithmetic.
SIZE_MAX = 10**18
PATH_MAX = 4_096
# More than a body has room for: what bounds a report is its size.
REPORTS_MAX = 100_000
# Others whose rates would change that a precheck names.
COSTS_MAX = 100
WEIGHT_MAX = 1_000
# What a request may ask for beside a deadline: what an earlier version did not know.
_TERMS = ("start", "start_s", "least_bytes", "weight", "hold_s", "paths")
# Transfers whose views are remembered.
VIEWS_MAX = 4_096
# Base 32 with letters that nobody takes for another.
_ID_LETTERS = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789abcdefghjkmnpqrstvwxyz"
)
_NOT_PLAIN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def _plain(text: str) -> str:
    """Text that every store and terminal can hold: no surrogates, no control characters."""
    if _NOT_PLAIN.search(text):
        raise ValueError("control characters and lone surrogates are not allowed")
    return text


def _inside(path: str) -> str:
    """The path with each of its places written in one way, so that equal places are equal text."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise ValueError('a path may not climb with ".."')
    if not parts:
        raise ValueError("a path must name something below the host's root")
    return "/".join(parts)


Text = Annotated[StrictStr, Field(min_length=1, max_length=255), AfterValidator(_plain)]
PathText = Annotated[
    StrictStr,
    Field(min_length=1, max_length=PATH_MAX),
    AfterValidator(_plain),
    AfterValidator(_inside),
]
Count = Annotated[StrictInt, Field(ge=0, le=SIZE_MAX)]
PortNumber = Annotated[StrictInt, Field(ge=1, le=65_535)]


class Strict(BaseModel):
    """A model that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class TransferRequest(Strict):
    """A transfer to be at its destination by a deadline.

    `deadline` is RFC 3339 with its offset; `deadline_s` is seconds from now; give one of the two.
    Without `size_bytes` the agent on the source host is asked for the size of the file.
    `start` or `start_s`, and `weight`, are for policies that plan ahead. Only with these an answer
    that may wait, for `hold_s`, does.
    """

    source: Text = Field(examples=["dtn1"])
    destination: Text = Field(examples=["dtn4"])
    source_path: PathText = Field(examples=["run7/events.h5"])
    destination_path: PathText = Field(examples=["inbox/events.h5"])
    size_bytes: Count | None = None
    deadline: Annotated[StrictStr, Field(max_length=64)] | None = Field(
        None, examples=["2030-01-31T06:00:00Z"]
    )
    deadline_s: Annotated[float, Field(strict=True, gt=0, le=DEADLINE_MAX_S)] | None = None
    rate_max: Annotated[StrictStr, Field(max_length=64)] | None = Field(
        None, examples=["200 Mbit/s"]
    )
    start: Annotated[StrictStr, Field(max_length=64)] | None = Field(
        None, examples=["2030-01-31T02:00:00Z"], description="not before; at once if it is past"
    )
    start_s: Annotated[float, Field(strict=True, ge=0, le=DEADLINE_MAX_S)] | None = None
    least_bytes: Annotated[Count, Field(ge=1)] | None = Field(
        None, description="admit as much as can be promised, if it is no less than this"
    )
    weight: Annotated[StrictInt, Field(ge=1, le=WEIGHT_MAX)] = Field(
        1, description="how much it is worth beside others where links are in demand"
    )
    hold_s: Annotated[float, Field(strict=True, gt=0, le=DEADLINE_MAX_S)] | None = Field(
        None, description="the answer may wait so long; meanwhile it is sent as if admitted"
    )
    paths: Annotated[StrictInt, Field(ge=1, le=LANES_MAX)] | None = Field(
        None, description="over how many at most; null for as many as calendar and hosts can"
    )

    def fingerprint(self) -> str:
        """Equal for equal requests; what an idempotency key is bound to.

        What is not asked for is not in it: keys outlive versions that did not know it.
        """
        unasked = {name for name in _TERMS if name not in self.model_fields_set}
        return hashlib.sha256(self.model_dump_json(exclude=unasked).encode()).hexdigest()

    def submission(
        self, network: Network, now_ns: int, owner: str, key: str | None, size_bytes: int
    ) -> Submission:
        """The request with its references resolved; raises `Problem` naming what is wrong."""
        _check_ends(network.nodes, self.source, self.destination)
        deadline_ns = self._deadline_ns(now_ns)
        start_ns = self._start_ns(now_ns, deadline_ns)
        if self.least_bytes is not None and self.least_bytes > size_bytes:
            raise invalid("least_bytes", f"{self.least_bytes} is more than all {size_bytes} bytes")
        return Submission(
            id=new_id(),
            owner=owner,
            idempotency_key=key,
            fingerprint=self.fingerprint(),
            source=self.source,
            source_path=self.source_path,
            destination=self.destination,
            destination_path=self.destination_path,
            size_bytes=size_bytes,
            deadline_ns=deadline_ns,
            rate_max_bps=self._rate_max_bps(),
            start_ns=start_ns,
            least_bytes=self.least_bytes,
            weight=self.weight,
            hold_ns=None if self.hold_s is None else int(self.hold_s * NS_PER_S),
            paths_max=self.paths or LANES_MAX,
        )

    def _start_ns(self, now_ns: int, deadline_ns: int) -> int | None:
        """When it starts; None for at once, also where that has passed."""
        if self.start is not None and self.start_s is not None:
            raise invalid("start", 'give one of "start" and "start_s", not both')
        if self.start_s is not None:
            start_ns = now_ns + int(self.start_s * NS_PER_S)
        elif self.start is not None:
            try:
                start_ns = parse_instant(self.start)
            except BadInput as error:
                raise invalid("start", str(error)) from None
        else:
            return None
        if start_ns >= deadline_ns:
            start, end = format_instant(start_ns), format_instant(deadline_ns)
            what = "is the deadline too" if start == end else f"is after the deadline {end}"
            raise invalid("start", f"the start {start} {what}: there is no time to send in")
        return start_ns if start_ns > now_ns else None

    def _deadline_ns(self, now_ns: int) -> int:
        if (self.deadline is None) == (self.deadline_s is None):
            raise invalid("deadline", 'give one of "deadline" and "deadline_s"')
        if self.deadline_s is not None:
            return now_ns + int(self.deadline_s * NS_PER_S)
        try:
            deadline_ns = parse_instant(self.deadline or "")
        except BadInput as error:
            raise invalid("deadline", str(error)) from None
        if deadline_ns <= now_ns:
            raise invalid(
                "deadline", f"{self.deadline} is in the past; it is {format_instant(now_ns)}"
            )
        if deadline_ns - now_ns > DEADLINE_MAX_S * NS_PER_S:
            raise invalid("deadline", f"{self.deadline} is more than ten years ahead")
        return deadline_ns

    def _rate_max_bps(self) -> int | None:
        return _rate_max_bps(self.rate_max)


class PromiseView(BaseModel):
    """What was promised of a transfer's rate so far, and what switches have carried of it."""

    promised_bytes: int = Field(description="on the wire, over the time of its rates")
    carried_bytes: int = Field(description="on the wire, by the last switch of its path")
    alarm: Literal["empty", "astray"] | None = Field(
        description="empty: nothing enters the network; astray: it does not take its path"
    )
    detail: str | None


class Occurrence(Strict):
    """One window of a series; instants as in a request."""

    start: Annotated[StrictStr, Field(max_length=64)] | None = None
    deadline: Annotated[StrictStr, Field(max_length=64)]


class SeriesRequest(TransferRequest):
    """The same transfer in several windows; `start` and `deadline` stand in `occurrences`."""

    occurrences: Annotated[list[Occurrence], Field(min_length=1, max_length=TIMES_MAX)]

    def requests(self) -> list[TransferRequest]:
        """A request for each window."""
        if {"deadline", "deadline_s", "start", "start_s"} & self.model_fields_set:
            raise invalid("deadline", "the times of a series stand in its occurrences")
        common = self.model_dump(exclude={"occurrences"}, exclude_unset=True)
        windows = [x.model_dump(exclude_none=True) for x in self.occurrences]
        return [TransferRequest(**common, **window) for window in windows]


class LaneView(BaseModel):
    """One path of a transfer, and its part of the rate."""

    path: list[str]
    rate_bps: int


class TransferView(BaseModel):
    """A transfer as it stands. Rates are of packets on the wire unless said otherwise."""

    id: str
    owner: str
    state: Literal[
        "waiting",
        "scheduled",
        "accepted",
        "running",
        "completed",
        "failed",
        "cancelled",
        "refused",
    ]
    source: str
    source_path: str
    destination: str
    destination_path: str
    size_bytes: int
    declared_bytes: int = Field(description="what it was admitted with, which binds")
    bytes_durable: int = Field(description="file bytes safe at the destination")
    start: str | None = Field(description="not before; null for at once")
    promised_bytes: int = Field(description="so much by the deadline; the rest as soon as it can")
    least_bytes: int | None
    weight: int
    answer_by: str | None = Field(
        description="while it waits for its answer: when that comes at the latest"
    )
    refusal: dict[str, Any] | None = Field(
        description="the problem that `POST` would have answered, where the answer was no"
    )
    deadline: str
    deadline_void: bool = Field(
        description="it is larger than declared: only what is free is given"
    )
    submitted: str
    started: str | None
    finished: str | None
    on_time: bool | None = Field(description="null until finished or missed")
    rate_bps: int = Field(description="allotted rate")
    rate_max_bps: int | None
    measured_bps: int = Field(description="file bytes per second moving now, times 8")
    slack_s: float | None = Field(description="deadline minus expected end at the allotted rate")
    path: list[str] = Field(description="the first, where it may be sent over several")
    paths: int = Field(description="over how many it may be sent at most")
    lanes: list[LaneView] = Field(description="all its paths, in an order that stays")
    at_risk: bool
    risk: str | None
    hash: str | None
    error: str | None
    promise: PromiseView | None = Field(
        None, description="what switches have counted of it; null without a controller"
    )


def view(
    transfer: Transfer,
    now_ns: int,
    lanes: Sequence[dict[str, Any]],
    measured_bps: float,
    kept: Kept | None = None,
) -> dict[str, Any]:
    """The JSON object of a transfer: `TransferView` without the cost of building one."""
    rate_bps = sum(lane["rate_bps"] for lane in lanes)
    return _fixed(transfer) | {
        "rate_bps": rate_bps,
        "measured_bps": round(measured_bps),
        "slack_s": _slack_s(transfer, now_ns, rate_bps),
        "lanes": lanes,
        "promise": kept.to_json() if kept else None,
    }


class Views:
    """The same as JSON, a transfer at a time: most of it is written once for each change.

    A list of the newest transfers shows those that the last one has shown.
    """

    def __init__(self) -> None:
        # What a transfer's view has of itself, without the brace at its end.
        self._fixed: dict[str, tuple[Transfer, str]] = {}

    def text(
        self,
        transfer: Transfer,
        now_ns: int,
        rate_bps: int,
        lanes_bps: Sequence[int] | None,
        measured_bps: float,
        kept: Kept | None = None,
    ) -> str:
        """A transfer's view; `lanes_bps` is of those with several paths."""
        rate_bps, lanes = lanes_text(transfer, rate_bps, lanes_bps)
        slack_s = _slack_s(transfer, now_ns, rate_bps)
        return (
            f'{self._fixed_text(transfer)},"rate_bps":{rate_bps},'
            f'"measured_bps":{round(measured_bps)},'
            f'"slack_s":{"null" if slack_s is None else slack_s},"lanes":[{lanes}],'
            f'"promise":{"null" if kept is None else compact_json(kept.to_json())}}}'
        )

    def _fixed_text(self, transfer: Transfer) -> str:
        known = self._fixed.get(transfer.id)
        if known is not None and known[0] is transfer:
            return known[1]
        if len(self._fixed) >= VIEWS_MAX:
            self._fixed.clear()
        text = compact_json(_fixed(transfer))[:-1]
        self._fixed[transfer.id] = transfer, text
        return text


def lanes_text(
    transfer: Transfer, rate_bps: int, lanes_bps: Sequence[int] | None
) -> tuple[int, str]:
    """A transfer's rate, over all its paths, and the entries of its `lanes` as JSON."""
    if not transfer.paths:
        return rate_bps, _lane_text(transfer.path, rate_bps)
    each_bps = lanes_bps or [0] * len(transfer.paths)
    return sum(each_bps), ",".join(map(_lane_text, transfer.paths, each_bps))


def _lane_text(path: tuple[str, ...], rate_bps: int) -> str:
    return f'{{"path":{_path_text(path)},"rate_bps":{rate_bps}}}'


@lru_cache(4_096)
def _path_text(path: tuple[str, ...]) -> str:
    return compact_json(path)


def _fixed(transfer: Transfer) -> dict[str, Any]:
    """What a transfer's view has of the transfer alone."""
    return {
        "id": transfer.id,
        "owner": transfer.owner,
        "state": transfer.state,
        "source": transfer.source,
        "source_path": transfer.source_path,
        "destination": transfer.destination,
        "destination_path": transfer.destination_path,
        "size_bytes": transfer.size_bytes,
        "declared_bytes": transfer.declared_bytes,
        "bytes_durable": transfer.bytes_durable,
        "start": _instant(transfer.start_ns),
        "promised_bytes": _promised_bytes(transfer),
        "least_bytes": transfer.least_bytes,
        "weight": transfer.weight,
        "answer_by": _instant(transfer.answer_ns),
        "refusal": json.loads(transfer.refusal) if transfer.refusal else None,
        "deadline": format_instant(transfer.deadline_ns),
        "deadline_void": transfer.is_void,
        "submitted": format_instant(transfer.submitted_ns),
        "started": _instant(transfer.started_ns),
        "finished": _instant(transfer.finished_ns),
        "on_time": _on_time(transfer),
        "rate_max_bps": transfer.rate_max_bps,
        "path": list(transfer.path),
        "paths": transfer.paths_max,
        "at_risk": bool(transfer.risk),
        "risk": transfer.risk or None,
        "hash": transfer.file_hash,
        "error": transfer.error,
    }


class OccurrenceView(BaseModel):
    """What became of one window of a series: a transfer, or the refusal."""

    start: str | None
    deadline: str
    transfer: TransferView | None
    refusal: dict[str, Any] | None


class SeriesView(BaseModel):
    """What became of a series, window by window."""

    admitted: int = Field(description="or waiting for the answer")
    occurrences: list[OccurrenceView]


class TimetableEntry(Strict):
    """What a link carries for a while: instants, or where it is `daily` times of day in a zone."""

    capacity: Annotated[StrictStr, Field(max_length=64)] = Field(examples=["4 Gbit/s"])
    start: Annotated[StrictStr, Field(max_length=64)] = Field(alias="from", examples=["22:00"])
    until: Annotated[StrictStr, Field(max_length=64)] = Field(alias="to", examples=["06:00"])
    daily: bool = False
    zone: Annotated[StrictStr, Field(max_length=64)] = "UTC"

    def entry(self) -> Entry:
        """The same for the timetable; raises `Problem` where the capacity is none."""
        try:
            capacity_bps = capacity_of(self.capacity)
        except BadInput as error:
            raise invalid("capacity", str(error)) from None
        if capacity_bps >= 2**62:
            raise invalid("capacity", f"{self.capacity} is more than any link carries")
        return Entry(capacity_bps, self.start, self.until, self.daily, self.zone)


class TimetableRequest(Strict):
    """All entries of a link's timetable."""

    entries: Annotated[list[TimetableEntry], Field(max_length=ENTRIES_MAX)]


class LinkState(Strict):
    """Whether a link carries anything now."""

    up: bool


class EntryView(BaseModel):
    """One entry of a timetable."""

    capacity_bps: int
    start: str = Field(serialization_alias="from")
    until: str = Field(serialization_alias="to")
    daily: bool
    zone: str
    fixed: bool = Field(description="it stands in the network file")


class TimetableView(BaseModel):
    """A link's capacity: by the network, now, and by its timetable."""

    link: str
    nominal_bps: int
    capacity_bps: int
    up: bool
    entries: list[EntryView]


def timetable_view(
    link: str, nominal_bps: int, capacity_bps: int, timetable: Timetable
) -> dict[str, Any]:
    """The JSON object of a link's timetable."""
    entries = [
        {
            "capacity_bps": x.capacity_bps,
            "from": x.start,
            "to": x.until,
            "daily": x.daily,
            "zone": x.zone,
            "fixed": number < len(timetable.fixed),
        }
        for number, x in enumerate(timetable.all_entries)
    ]
    return {
        "link": link,
        "nominal_bps": nominal_bps,
        "capacity_bps": capacity_bps,
        "up": not timetable.down,
        "entries": entries,
    }


class LinkView(BaseModel):
    """A link with its share of capacity and what is on it, bit/s on the wire."""

    name: str
    source: str
    target: str
    capacity_bps: int
    allotted_bps: int
    measured_bps: int


class NodeView(BaseModel):
    """A node, and whether an agent speaks for it."""

    name: str
    address: str | None
    agent: Literal["alive", "lost", "none"]


class NetworkView(BaseModel):
    """The network that the calendar owns."""

    policy: str
    epoch_s: float
    nodes: list[NodeView]
    links: list[LinkView]


class ProblemView(BaseModel):
    """What every refused request is answered with (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None
    hint: str | None


class RefusalView(ProblemView):
    """Why a transfer was not admitted, and what would be."""

    id: str = Field(description="of the refused request, for /v1/transfers/ID/why")
    link: str | None = Field(description="the link without enough slack")
    needed_bps: int | None
    available_bps: int | None
    earliest_deadline: str | None = Field(
        description="would be accepted now, and for `offer_valid_s` if nobody else takes the room"
    )
    offer_valid_s: float | None
    offer_held_s: float | None = Field(
        description="for so long nobody else can take that room; asking for anything else frees it"
    )
    earliest_by_links: str | None = Field(
        description="before then no plan of any kind could have it there with all promises kept"
    )

    largest_size_bytes: int | None = Field(
        description="so much would be admitted by the deadline now; null also where requests come "
        "too fast to look for it"
    )
    latest_start: str | None = Field(description="with which all of it would be admitted now")
    paths_that_do: int | None = Field(
        description="over so many paths, more than were asked for, all of it would be admitted now"
    )
    lanes_that_do: list[LaneView] | None = Field(
        description="those paths, with the rate on each at first"
    )


class CostView(BaseModel):
    """What a request would cost another transfer."""

    id: str
    owner: str
    rate_bps: int = Field(description="allotted now")
    new_rate_bps: int


class PrecheckView(BaseModel):
    """What a request would be answered now; nothing was changed."""

    admitted: bool
    rate_bps: int = Field(description="at first")
    path: list[str]
    lanes: list[LaneView] = Field(description="every path that it might take")
    promised_bytes: int | None
    costs: list[CostView] = Field(description="the greatest losses first, 100 at most")
    costs_count: int
    refusal: dict[str, Any] | None = Field(description="the problem that `POST` would answer")


def forecast_view(forecast: Forecast) -> dict[str, Any]:
    """The JSON object of a precheck."""
    refusal, verdict = forecast.refusal, forecast.verdict
    admitted = refusal is None and verdict is not None
    losses = sorted(forecast.costs.items(), key=lambda x: x[1][2] - x[1][1])
    costs = [
        {"id": x, "owner": owner, "rate_bps": now_bps, "new_rate_bps": then_bps}
        for x, (owner, now_bps, then_bps) in losses
    ]
    promised = forecast.promised_bytes
    return {
        "admitted": admitted,
        "rate_bps": verdict.rate_bps if admitted and verdict else 0,
        "path": list(verdict.path) if admitted and verdict else [],
        "lanes": _lane_views(verdict) if admitted and verdict else [],
        "promised_bytes": (promised or forecast.asked.size_bytes) if admitted else None,
        "costs": costs[:COSTS_MAX],
        "costs_count": len(costs),
        "refusal": None if refusal is None else refusal.body(),
    }


def _lane_views(verdict: Verdict) -> list[dict[str, Any]]:
    return [{"path": list(path), "rate_bps": rate_bps} for path, rate_bps in verdict.lanes]


class OtherView(BaseModel):
    """Who else has capacity of a link, since when and until when."""

    id: str
    owner: str
    admitted: str
    deadline: str
    size_bytes: int
    promised_bps: int = Field(description="what its deadline took of the link when admitted")
    rate_bps: int = Field(description="what it is allotted now")


class MomentView(BaseModel):
    """One thing that happened to a request."""

    at: str
    kind: str
    text: str


class WhyView(BaseModel):
    """Why a transfer stands as it does, or why a request was refused, in words."""

    id: str
    state: str = Field(description='that of a transfer, or "refused"')
    answer: str
    link: str | None = Field(description="the link in the way: which refused, or has least free")
    link_text: str | None
    others: list[OtherView] = Field(description="who has most of that link")
    others_count: int
    remedies: list[str] = Field(description="what would change it")
    story: list[MomentView]


class TransferReport(Strict):
    """What an agent measured of one transfer."""

    id: Text
    state: Literal["running", "waiting", "done", "failed"]
    bytes_durable: Count | None = Field(None, description="null: not known yet")
    bytes_total: Count = 0
    hash: Annotated[StrictStr, Field(max_length=200), AfterValidator(_plain)] | None = None
    error: Annotated[StrictStr, Field(max_length=2_000)] | None = None
    finished_ago_s: Annotated[float, Field(strict=True, ge=0, le=DEADLINE_MAX_S)] = 0.0

    def report(self) -> Report:
        """The agent's report as the planner takes it."""
        error = None if self.error is None else printable(self.error)
        finished_ago_ns = int(self.finished_ago_s * NS_PER_S)
        return Report(
            self.id,
            self.state,
            self.bytes_durable,
            self.bytes_total,
            self.hash,
            error,
            finished_ago_ns,
        )


class ElephantRequest(Strict):
    """A flow that can wait: it is to go in what all others leave.

    Ports that are left out are any. `expires_s`, in seconds from now, ends it if nobody does.
    """

    source: Text = Field(examples=["dtn1"])
    destination: Text = Field(examples=["dtn4"])
    protocol: Literal["tcp", "udp"] = "tcp"
    source_port: PortNumber | None = None
    destination_port: PortNumber | None = Field(None, examples=[7411])
    size_bytes: Annotated[Count, Field(ge=1)] | None = None
    rate_max: Annotated[StrictStr, Field(max_length=64)] | None = Field(
        None, examples=["200 Mbit/s"], description="the most that its ends can do"
    )
    expires_s: Annotated[float, Field(strict=True, gt=0, le=DEADLINE_MAX_S)] | None = None

    def elephant(self, network: Network, now_ns: int, owner: str) -> Elephant:
        """The same with its references resolved; raises `Problem` naming what is wrong."""
        hosts = network.nodes.keys() - network.datapaths.keys()
        _check_ends(hosts, self.source, self.destination)
        expires_ns = None if self.expires_s is None else now_ns + int(self.expires_s * NS_PER_S)
        return Elephant(
            id=new_id(),
            owner=owner,
            source=self.source,
            destination=self.destination,
            protocol=self.protocol,
            source_port=self.source_port,
            destination_port=self.destination_port,
            size_bytes=self.size_bytes,
            rate_max_bps=_rate_max_bps(self.rate_max),
            told_ns=now_ns,
            expires_ns=expires_ns,
        )


class ElephantView(BaseModel):
    """An elephant that was told of, or that the controller has found."""

    id: str | None = Field(description="null for one that was found")
    owner: str | None
    source: str
    destination: str
    protocol: Literal["tcp", "udp"]
    source_port: int | None = Field(description="null: any")
    destination_port: int | None
    size_bytes: int | None
    rate_max_bps: int | None
    told: str | None
    expires: str | None
    marked: bool = Field(description="whether the controller has said that it marks it")
    carried_bytes: int = Field(description="on the wire, since it is marked")
    path: list[str] = Field(description="the links chosen for it; empty: as everything else")


def elephant_view(elephant: Elephant, seen: Sighting | None) -> dict[str, Any]:
    """The JSON object of an elephant that was told of."""
    return {
        **elephant.assignment(),
        "owner": elephant.owner,
        "told": format_instant(elephant.told_ns),
        "expires": _instant(elephant.expires_ns),
        **_seen(seen),
    }


def found_view(seen: Sighting) -> dict[str, Any]:
    """The JSON object of an elephant that was found."""
    nothing = ("id", "owner", "size_bytes", "rate_max_bps", "told", "expires")
    ends = ("source", "destination", "protocol", "source_port", "destination_port")
    return {
        **dict.fromkeys(nothing),
        **{name: getattr(seen, name) for name in ends},
        **_seen(seen),
    }


def _seen(seen: Sighting | None) -> dict[str, Any]:
    return {
        "marked": seen is not None,
        "carried_bytes": seen.carried_bytes if seen else 0,
        "path": list(seen.path) if seen else [],
    }


class ElephantReport(Strict):
    """What the controller has of one elephant: `id` is null for one that it has found itself.

    `over` says why one that was told of is over; hosts are as the network file calls them.
    """

    id: Text | None = None
    source: Text = "?"
    destination: Text = "?"
    protocol: Literal["tcp", "udp"] = "tcp"
    source_port: PortNumber | None = None
    destination_port: PortNumber | None = None
    carried_bytes: Count = 0
    path: Annotated[list[Text], Field(max_length=1_000)] = []
    over: Annotated[StrictStr, Field(max_length=200)] | None = None

    def sighting(self) -> Sighting:
        """The same for the service."""
        ends = self.source, self.destination, self.protocol
        ports = self.source_port, self.destination_port
        return Sighting(*ends, *ports, self.carried_bytes, tuple(self.path))


class KeptReport(Strict):
    """What the controller has counted of one transfer's promise."""

    id: Text
    promised_bytes: Count
    carried_bytes: Count
    alarm: Literal["empty", "astray"] | None = None
    detail: Annotated[StrictStr, Field(max_length=2_000)] | None = None

    def kept(self) -> Kept:
        """The same for the service."""
        detail = None if self.detail is None else printable(self.detail)
        return Kept(self.promised_bytes, self.carried_bytes, self.alarm, detail)


class AgentReport(Strict):
    """An agent's sign of life, about once a second, with what it measured.

    Over several paths a host takes data at `data_ports`, one for each, the first that of
    `data_address`, and sends over `lanes_max`.
    """

    edge: bool = False
    data_address: Text | None = None
    data_ports: Annotated[list[PortNumber], Field(min_length=1, max_length=LANES_MAX)] | None = None
    lanes_max: Annotated[StrictInt, Field(ge=1, le=LANES_MAX)] = 1
    address: Text | None = None
    transfers: Annotated[list[TransferReport], Field(max_length=REPORTS_MAX)] = []
    kept: Annotated[list[KeptReport], Field(max_length=REPORTS_MAX)] | None = None
    elephants: Annotated[list[ElephantReport], Field(max_length=2 * TOLD_MAX)] | None = None

    def reach(self, address: str | None) -> Reach:
        """Where the agent is reached, itself at `address`, and over how many paths."""
        ports = self.data_ports
        if ports is None:
            # An agent from before there were several takes data at one.
            _, _, port = (self.data_address or "").rpartition(":")
            is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65_536
            ports = [int(port)] if is_port else []
        elif len(set(ports)) != len(ports):
            raise invalid("data_ports", "a port stands there twice", "each path has its own")
        return Reach(address, self.data_address, tuple(ports), self.lanes_max)


class AgentAnswer(Strict):
    """An agent's answer to the calendar's question about a file."""

    ticket: Text
    size_bytes: Count | None = None
    error: Annotated[StrictStr, Field(max_length=2_000)] | None = None


def new_id() -> str:
    """A fresh identifier: 80 random bits, easy to read out and to double-click."""
    return base64.b32encode(secrets.token_bytes(10)).translate(_ID_LETTERS).decode()


def printable(text: str) -> str:
    """Text with everything that a store or terminal might choke on replaced."""
    return "".join(x if x.isprintable() else "?" for x in text)


def _check_ends(hosts: Collection[str], source: str, destination: str) -> None:
    """Raises `Problem` where these are no two hosts."""
    for field, host in (("source", source), ("destination", destination)):
        if host not in hosts:
            raise invalid(
                field,
                f'there is no host "{host}" in this network',
                f"the hosts are {', '.join(sorted(hosts))}"[:500],
            )
    if source == destination:
        raise invalid("destination", f'"{source}" is both source and destination')


def _rate_max_bps(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        rate_bps = Rate(text).bit_per_s
    except BadInput as error:
        raise invalid("rate_max", str(error)) from None
    if not 0 < rate_bps < 2**63:
        raise invalid("rate_max", f"{text} cannot carry anything")
    return rate_bps


def _instant(instant_ns: int | None) -> str | None:
    return None if instant_ns is None else format_instant(instant_ns)


def _promised_bytes(transfer: Transfer) -> int:
    promised = transfer.promised_bytes
    return transfer.declared_bytes if promised is None else promised


def _on_time(transfer: Transfer) -> bool | None:
    if transfer.state == "completed":
        return not transfer.missed
    return False if transfer.missed else None


def _slack_s(transfer: Transfer, now_ns: int, rate_bps: int) -> float | None:
    if not transfer.active or rate_bps <= 0 or transfer.is_unbound:
        return None
    left_ns = transfer.deadline_ns - now_ns
    slack_ns = left_ns - wire_bytes(transfer.due_bytes) * 8 * NS_PER_S // rate_bps
    if transfer.planned and not transfer.risk:
        # What was last reported is seconds old where chunks are slow, and seems late by these.
        # Who is not at risk ends by its plan: it is given more before it could not.
        slack_ns = max(slack_ns, transfer.deadline_ns - max(transfer.plan_ns, now_ns))
    return round(slack_ns / NS_PER_S, 3)
