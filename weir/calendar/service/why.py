"""Why a transfer waits, was slowed or will be late, and why a request was refused: in words.

Everything is told from what is stored (events and transfers) and from the rates of now, so it
costs nothing until somebody asks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weir import Bytes
from weir.calendar.clock import NS_PER_S, format_instant, parse_instant
from weir.calendar.planning.split import lanes, on_link
from weir.calendar.planning.split import words as in_words
from weir.calendar.records import Event, Transfer
from weir.calendar.storage.store import Store
from weir.format import mbit_s

# Others on a link that are named, and changes of rate that are told, at most.
OTHERS_MAX = 10
CHANGES_MAX = 20
# Transfers that are over since a refusal, at most.
OVER_MAX = 1_000
# What a rate changes by before anybody would call it slowed.
NOTABLE = 0.01


@dataclass(frozen=True, slots=True)
class Link:
    """A link now, in bit/s on the wire."""

    name: str
    capacity_bps: int
    allotted_bps: int


@dataclass(frozen=True, slots=True)
class Known:
    """What is known besides a transfer's own events.

    Attributes:
        active: the transfers that are not over, by id.
        rates: what they are allotted.
        links: every link by its name.
        silent: hosts whose agents do not answer.
        changes: its admission and changes of its rate, each after the event before it.
        over: transfers that were on the refusing link and are over since.
        lanes: what is allotted on each path to those that have several.
    """

    now_ns: int
    active: Mapping[str, Transfer]
    rates: Mapping[str, int]
    links: Mapping[str, Link]
    silent: frozenset[str]
    changes: Sequence[Event] = ()
    over: Sequence[Transfer] = ()
    lanes: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def lanes_of(self, transfer: Transfer) -> list[dict[str, Any]]:
        """Every path of a transfer with the rate on it."""
        rate_bps = self.rates.get(transfer.id, 0)
        return lanes(transfer, rate_bps, self.lanes.get(transfer.id))

    def on_link(self, transfer: Transfer, link: str) -> int:
        """What a transfer is allotted of a link."""
        rate_bps = self.rates.get(transfer.id, 0)
        return on_link(transfer, rate_bps, self.lanes.get(transfer.id), link)


def why(store: Store, known: Known, identifier: str) -> dict[str, Any] | None:
    """The answer about a transfer or a refused request; None if there is neither. It may block."""
    story = store.story(identifier)
    transfer = known.active.get(identifier) or store.find(identifier)
    if transfer is None:
        refusal = next((x for x in story if x.kind == "refused"), None)
        return None if refusal is None else _why_refused(store, known, refusal)
    refused = [x for x in story if x.kind == "refused"]
    if transfer.state == "refused" and refused:
        told = _why_refused(store, known, refused[0])
        return told | {"story": [_moment(x.at_ns, x.kind, _told(x)) for x in story]}
    admitted = [x for x in story if x.kind == "admitted"]
    after = admitted[0].number if admitted else 0
    changes = store.rate_changes(identifier, after, CHANGES_MAX)
    if sum(x.kind == "rates" for x in changes) < CHANGES_MAX:
        changes = [*admitted, *(x for x in changes if x not in admitted)]
    return explain(transfer, story, replace(known, changes=changes))


def why_mine(store: Store, known: Known, owner: str, key: str | None) -> dict[str, Any] | None:
    """The answer about what an owner asked for under a key, or about the last refusal of all."""
    transfer = None if key is None else store.find_key(owner, key)
    if transfer is not None:
        return why(store, known, transfer.id)
    refusal = store.refusal(owner, key)
    return None if refusal is None else _why_refused(store, known, refusal)


def _why_refused(store: Store, known: Known, refusal: Event) -> dict[str, Any]:
    link = refusal.data["link"]
    over = [] if link is None else store.crossed(link, refusal.at_ns, OVER_MAX)
    return explain_refusal(refusal, replace(known, over=over))


def explain(transfer: Transfer, story: Sequence[Event], known: Known) -> dict[str, Any]:
    """Why a transfer stands as it does."""
    changes = _changes(transfer.id, known.changes)
    link = _tightest(transfer, known) if transfer.active else None
    others = [] if link is None else _sharing(link.name, known, transfer.id)
    slowed = next((x for x in reversed(changes) if x.is_slower), None)
    told = [(x.at_ns, x.number, x.kind, _told(x)) for x in story]
    told += [(x.event.at_ns, x.event.number, "rate", x.text) for x in changes]
    return {
        "id": transfer.id,
        "state": transfer.state,
        "answer": _answer(transfer, story, known, slowed),
        "link": None if link is None else link.name,
        "link_text": None if link is None else _link_text(link, others),
        "others": others[:OTHERS_MAX],
        "others_count": len(others),
        "remedies": _remedies(transfer, known, link, others),
        "story": [_moment(at_ns, kind, text) for at_ns, _, kind, text in sorted(told)],
    }


def explain_refusal(refusal: Event, known: Known) -> dict[str, Any]:
    """Why a request was refused, and what would be admitted."""
    data, link = refusal.data, known.links.get(refusal.data["link"] or "")
    others = []
    if link is not None:
        there = [x for x in known.active.values() if x.submitted_ns <= refusal.at_ns]
        crossing = [x for x in (*there, *known.over) if link.name in x.links]
        others = sorted(
            (_other(x, known, link.name) for x in crossing), key=lambda x: -x["promised_bps"]
        )
    reason = data.get("reason") or f'link "{data["link"]}" had no room for it'
    taken = ""
    if others:
        taken = f"; {_named(others)} had been admitted over {_quoted(link)} before"
    return {
        "id": refusal.request,
        "state": "refused",
        "answer": f"It was refused: {reason}{taken}.",
        "link": data["link"],
        "link_text": None if link is None else _link_text(link, []),
        "others": others[:OTHERS_MAX],
        "others_count": len(others),
        "remedies": _refusal_remedies(refusal, known, others),
        "story": [
            {"at": format_instant(refusal.at_ns), "kind": refusal.kind, "text": _told(refusal)}
        ],
    }


def _moment(at_ns: int, kind: str, text: str) -> dict[str, Any]:
    return {"at": format_instant(at_ns), "kind": kind, "text": text}


# --- the answer ---


def _answer(
    transfer: Transfer, story: Sequence[Event], known: Known, slowed: "_Change | None"
) -> str:
    if not transfer.active:
        return _ended(transfer, story)
    words = ""
    if transfer.state == "waiting":
        words = _on_trial(transfer, known)
    elif transfer.state == "scheduled":
        words = f"it is scheduled: it starts at {format_instant(transfer.start_ns or 0)}"
    elif transfer.state == "accepted":
        words = _waiting(transfer, known)
    if known.now_ns > transfer.deadline_ns and transfer.state != "waiting" and not transfer.is_void:
        left = Bytes.from_count(transfer.remaining_bytes)
        words = f"It is late: it was due by {format_instant(transfer.deadline_ns)}, {left} are left"
        words += _since_risk(story)
    elif transfer.risk:
        what = "Its deadline is void" if transfer.is_void else "It may be late"
        words = f"{words + '; ' if words else ''}{what}: {transfer.risk}"
    elif not words:
        words = f"It is on time at {mbit_s(known.rates.get(transfer.id, 0))}"
        if transfer.paths:
            words += f": {in_words(known.lanes_of(transfer))}"
    if slowed is not None:
        words += f"; it was {slowed.text}, at {format_instant(slowed.event.at_ns)}"
    return f"{words[0].upper()}{words[1:]}."


def _on_trial(transfer: Transfer, known: Known) -> str:
    """How a request stands that is not answered yet."""
    by = format_instant(transfer.answer_ns or 0)
    rate = mbit_s(known.rates.get(transfer.id, 0))
    return (
        f"it waits for its answer, which comes by {by}: until then it is sent at {rate} where "
        f"there is room, nothing is promised of it, and what takes less of the links goes first"
    )


def _waiting(transfer: Transfer, known: Known) -> str:
    """Why nothing of it has moved yet."""
    for host in (transfer.source, transfer.destination):
        if host in known.silent:
            return f'it waits: no agent answers on "{host}"'
    if transfer.error:
        return f"it waits: {transfer.error}"
    if not transfer.planned:
        return "it waits: no capacity is held for it"
    rate = mbit_s(known.rates.get(transfer.id, 0))
    return f'it is admitted at {rate}, and the agent on "{transfer.source}" has not begun yet'


def _ended(transfer: Transfer, story: Sequence[Event]) -> str:
    at = format_instant(transfer.finished_ns or 0)
    if transfer.state == "failed":
        return f"It failed at {at}: {transfer.error or 'the agent said no reason'}."
    if transfer.state == "cancelled":
        return f"It was cancelled at {at}."
    if not transfer.missed:
        return f"It was completed at {at}, on time."
    late_s = ((transfer.finished_ns or 0) - transfer.deadline_ns) / NS_PER_S
    return f"It was completed at {at}, {late_s:.1f} s late{_since_risk(story)}."


def _since_risk(story: Sequence[Event]) -> str:
    """What put it at risk in the first place, after it was last on time."""
    first = None
    for event in story:
        if event.kind == "recovered":
            first = None
        elif event.kind == "at-risk" and first is None:
            first = event
    if first is None:
        return ""
    return f"; at risk since {format_instant(first.at_ns)}: {first.data['risk']}"


# --- changes of its rate ---


@dataclass(frozen=True, slots=True)
class _Change:
    event: Event
    text: str
    is_slower: bool


def _changes(identifier: str, events: Sequence[Event]) -> list[_Change]:
    """How a transfer's rate changed, and by whose doing."""
    changes, before_bps, last = [], 0, None
    for event in events:
        if event.kind == "rates" and identifier in event.data["rates_bps"]:
            rate_bps = event.data["rates_bps"][identifier]
            is_slower = rate_bps < before_bps * (1 - NOTABLE)
            if before_bps and (is_slower or rate_bps > before_bps * (1 + NOTABLE)):
                verb = "slowed" if is_slower else "given more"
                rates = f"from {mbit_s(before_bps)} to {mbit_s(rate_bps)}"
                text = f"{verb}, {rates}, {_cause(event, last)}"
                changes.append(_Change(event, text, is_slower))
            before_bps = rate_bps
        elif event.kind == "admitted" and event.transfer == identifier:
            before_bps = event.data["rate_bps"]
        last = event
    return changes


def _cause(change: Event, before: Event | None) -> str:
    """Whose doing a change was: one command's events stand together, at one instant."""
    if before is None or before.at_ns != change.at_ns or before.number != change.number - 1:
        return "as capacity was shared out anew"
    if before.kind == "admitted":
        size = Bytes.from_count(before.data["size_bytes"])
        return f"when {before.transfer} was admitted ({size} by {before.data['deadline']})"
    verbs = {"completed": "was completed", "cancelled": "was cancelled", "failed": "failed"}
    if before.kind in verbs:
        return f"when {before.transfer} {verbs[before.kind]}"
    if before.kind == "refused":
        return "when room was kept for an offer"
    return "as capacity was shared out anew"


# --- links and who is on them ---


def _tightest(transfer: Transfer, known: Known) -> Link | None:
    links = [known.links[name] for name in transfer.links if name in known.links]
    return min(links, key=lambda x: x.capacity_bps - x.allotted_bps, default=None)


def _sharing(link: str, known: Known, less: str) -> list[dict[str, Any]]:
    crossing = [x for x in known.active.values() if x.id != less and x.planned and link in x.links]
    return sorted((_other(x, known, link) for x in crossing), key=lambda x: -x["rate_bps"])


def _other(transfer: Transfer, known: Known, link: str) -> dict[str, Any]:
    window_ns = max(1, transfer.deadline_ns - transfer.submitted_ns)
    return {
        "id": transfer.id,
        "owner": transfer.owner,
        "admitted": format_instant(transfer.submitted_ns),
        "deadline": format_instant(transfer.deadline_ns),
        "size_bytes": transfer.declared_bytes,
        "promised_bps": transfer.declared_bytes * 8 * NS_PER_S // window_ns,
        "rate_bps": known.on_link(transfer, link),
    }


def _link_text(link: Link, others: Sequence[dict[str, Any]]) -> str:
    allotted, capacity = mbit_s(link.allotted_bps), mbit_s(link.capacity_bps)
    words = f"{_quoted(link)} has {allotted} of {capacity} allotted now"
    if others:
        theirs = mbit_s(sum(x["rate_bps"] for x in others))
        words += f", {theirs} of it to {len(others)} other{'s' if len(others) > 1 else ''}"
    return words


def _quoted(link: Link | None) -> str:
    return f'link "{link.name}"' if link else "the link"


def _named(others: Sequence[dict[str, Any]]) -> str:
    named = [
        f"{x['id']} ({Bytes.from_count(x['size_bytes'])} by {x['deadline']}, since {x['admitted']})"
        for x in others[:3]
    ]
    if len(others) > 3:
        named.append(f"{len(others) - 3} more")
    return " and ".join(named)


# --- what would change it ---


def _remedies(
    transfer: Transfer, known: Known, link: Link | None, others: Sequence[dict[str, Any]]
) -> list[str]:
    if not transfer.active:
        return []
    remedies = [
        f'start the agent on "{host}"'
        for host in (transfer.source, transfer.destination)
        if host in known.silent
    ]
    if transfer.is_void:
        remedies.append("cancel it, and submit it again with its true size")
    elif transfer.risk and not remedies:
        remedies.append("cancel it, and submit it again for a later deadline")
    if link is not None and others and (transfer.risk or transfer.is_void):
        remedies.append(f"{others[0]['id']} has the most of {_quoted(link)}: it gets more without")
    elif link is not None and others and not remedies:
        first = min(others, key=lambda x: x["deadline"])
        ends = f"once {first['id']} is over (due by {first['deadline']})"
        remedies.append(f"it may be given more of {_quoted(link)} {ends}")
    return remedies


def _refusal_remedies(refusal: Event, known: Known, others: Iterable[dict[str, Any]]) -> list[str]:
    remedies = []
    earliest, valid_s = refusal.data["earliest_deadline"], refusal.data.get("offer_valid_s")
    if earliest is not None and valid_s is not None:
        until_ns = refusal.at_ns + int(valid_s * NS_PER_S)
        if until_ns > known.now_ns:
            until = format_instant(until_ns)
            remedies.append(f"ask for {earliest} or later before {until}")
        elif parse_instant(earliest) > known.now_ns:
            remedies.append(
                f"ask again: {earliest} was offered until {format_instant(until_ns)}, and the "
                f"answer now may be another"
            )
    still = sorted((x["deadline"], x["id"]) for x in others if x["id"] in known.active)
    if still:
        remedies.append(f"ask again once {still[0][1]} is over (due by {still[0][0]})")
    elif not remedies:
        remedies.append("ask again: what stood in its way is over")
    return remedies


# --- events as sentences ---


def _told(event: Event) -> str:
    data = event.data
    if event.kind == "admitted":
        size = Bytes.from_count(data["size_bytes"])
        path = " > ".join(data["path"])
        if "lanes" in data:
            path = " and ".join(" > ".join(lane["path"]) for lane in data["lanes"])
        how = f"from {data['start']}" if "start" in data else f"at {mbit_s(data['rate_bps'])}"
        return f"admitted: {size} by {data['deadline']} {how} over {path}"
    if event.kind == "waiting":
        size = Bytes.from_count(data["size_bytes"])
        return f"taken on trial: {size} by {data['deadline']}, the answer by {data['answer_by']}"
    if event.kind == "refused":
        size = Bytes.from_count(data["size_bytes"])
        return f"refused: {size} from {data['source']} to {data['destination']}"
    if event.kind == "due":
        return "its start came: the agent was told of it"
    if event.kind == "narrowed":
        paths = data["paths"]
        return f"from now on over {paths} path{'s' if paths > 1 else ''}: {data['reason']}"
    if event.kind == "started":
        return "the agent began to send"
    if event.kind == "at-risk":
        return f"at risk: {data['risk']}"
    if event.kind == "recovered":
        return "on time again"
    if event.kind == "missed":
        left = Bytes.from_count(data["remaining_bytes"])
        return f"the deadline passed with {left} left"
    if event.kind == "deadline-void":
        declared, true = (Bytes.from_count(data[x]) for x in ("declared_bytes", "size_bytes"))
        return f"it turned out to have {true}, where {declared} were declared: no deadline binds"
    if event.kind == "failed":
        return f"failed: {data.get('error') or 'the agent said no reason'}"
    return event.kind
