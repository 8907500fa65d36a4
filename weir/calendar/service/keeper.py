"""The plan and its store, as the writer's thread keeps them: they never know different things.

Whatever fails, the plan is dropped and taken up again from what is stored before anything else is
decided, and `Taken` then tells the readers' side what stands there.
"""

import base64
import logging
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weir._core import Calendar
from weir.calendar.clock import Clock, Source
from weir.calendar.elephants import Elephant, Elephants
from weir.calendar.planning.engine import RecordedEngine, spent_s
from weir.calendar.planning.planner import Planner
from weir.calendar.problem import Problem, invalid, unavailable
from weir.calendar.records import STATES, Outcome, Snapshot, Transfer
from weir.calendar.service.metrics import Metrics
from weir.calendar.settings import Settings
from weir.calendar.storage.ownership import Fenced
from weir.calendar.storage.store import Store
from weir.calendar.timetable import Timetable
from weir.errors import BadInput, WeirError

log = logging.getLogger(__name__)

# Transfers that lists are answered from without asking the store.
RECENT_MAX = 2_000
# The engine's state is saved whole once the steps after it would take so long to take again, which
# whoever starts with them waits for: a restart, a standby. It may take no more than this share of
# the time that the steps do.
SNAPSHOT_S = 1.0
SNAPSHOT_SHARE = 0.25
# What a packed state begins with, where JSON has a brace; and how hard it is packed: quickly.
PACKED = "zlib:"
PACKING = 1
# With nothing to write, the service's time is: so a store that takes nothing is noticed.
BEAT_S = 1.0
# How often it is seen to that the store is still this service's.
TEND_S = 0.25

# What damage to a stored plan shows itself by; what was promised stands in the transfers, too.
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, OverflowError)

Command = Callable[[Planner, int], Outcome]
# Writes the engine's state; for any thread.
Making = Callable[[], Snapshot]


@dataclass(frozen=True, slots=True)
class Taken:
    """What stands in the store: the active transfers with their rates, the newest of all, ..."""

    active: dict[str, Transfer]
    rates: dict[str, int]
    lanes: dict[str, tuple[int, ...]]
    recent: list[Transfer]
    last_event: int
    timetables: dict[str, Timetable]
    elephants: dict[str, Elephant]


class Keeper:
    """Decides and makes durable.

    Everything belongs to one thread, but for `clock`, `turn_ns` and `written_s`.
    """

    def __init__(
        self, settings: Settings, store: Store, metrics: Metrics, source: Source | None = None
    ) -> None:
        self.clock = Clock(store.anchor(), source)
        self._settings = settings
        self._store = store
        self._metrics = metrics
        self._planner: Planner | None = None
        # What the newest state holds of the engine's work, and how long the last one took to make.
        self._saved_s = 0.0
        self._making_s = 0.0
        # What writes the engine's state as text, from a copy of it; whether somebody has been given
        # that to do; and what came of it, to be stored with the next commit.
        self._making: Making | None = None
        self._is_given = False
        self._made: Snapshot | None = None
        # When something was last made durable.
        self.written_s = 0.0
        self._tended_s = 0.0
        # When the plan's next turn comes, in calendar time, as of the last commands.
        self.turn_ns: int | None = None

    def take_up(self, lost: set[str]) -> Taken:
        """Takes the plan up where the store has it.

        Raises:
            Unavailable: the store does not answer.
            BadInput: the settings cannot be right.
        """
        planner = self._load(lost)
        recent = self._store.page(STATES, None, RECENT_MAX)
        _, last_event = self._store.last_numbers()
        return Taken(
            dict(planner.transfers),
            dict(planner.rates),
            dict(planner.lanes),
            recent,
            last_event,
            dict(planner.timetables),
            dict(planner.elephants.told),
        )

    def process(
        self, commands: Sequence[Command], lost: set[str]
    ) -> tuple[Taken | None, list[Outcome | Problem]]:
        """Decides on commands, and makes all outcomes durable in one commit.

        First comes what the plan is where it had to be taken up again, before the outcomes.

        Raises:
            Fenced: another service has taken the store over.
            Problem: nothing was carried out.
        """
        self.turn_ns = None
        try:
            self._tend()
            taken = self.take_up(lost) if self._planner is None else None
            planner = self._planner
            assert planner is not None, "taken up before"
            outcomes = [_outcome(command, planner, self.clock.now_ns()) for command in commands]
            self._commit([x for x in outcomes if isinstance(x, Outcome)], self._made)
            self._made = None
            self.turn_ns = planner.turn_ns
            if self._snapshot_due(planner):
                self._begin_snapshot(planner)
        except Fenced:
            self._planner = None
            raise
        except WeirError as error:
            self._planner = None
            raise unavailable(str(error)) from None
        except Exception:
            log.exception("a command failed; taking the plan up again from the store")
            self._planner = None
            raise unavailable("a command failed; it was not carried out") from None
        return taken, outcomes

    def _snapshot_due(self, planner: Planner) -> bool:
        unsaved_s = planner.engine.work_s - self._saved_s
        due_s = max(SNAPSHOT_S, self._making_s / SNAPSHOT_SHARE)
        return self._making is None and unsaved_s >= due_s

    def _begin_snapshot(self, planner: Planner) -> None:
        """Has the state written as text, in time that others are not kept waiting for.

        With ten thousand transfers that takes longer than all that comes meanwhile. What is copied
        was stored by its steps, so it may be stored whenever it is done.
        """
        engine = planner.engine
        began_s = spent_s()
        number, calendar = engine.last_step, engine.copy()
        copied_s = spent_s() - began_s
        configuration = self._settings.configuration()

        def make() -> Snapshot:
            began_s = spent_s()
            snapshot = Snapshot(number, configuration, packed(calendar.snapshot()))
            # In another thread; nobody looks before it is made.
            self._making_s = copied_s + spent_s() - began_s
            return snapshot

        self._making = make
        self._is_given = False
        self._saved_s = engine.work_s

    def to_make(self) -> Making | None:
        """What is to be called in some other thread, once, and its result given to `made`."""
        if self._is_given:
            return None
        self._is_given = self._making is not None
        return self._making

    def made(self, making: Making, snapshot: Snapshot | None) -> None:
        """What came of `to_make`; None if nothing did. No use if the plan was taken up since."""
        if making is self._making:
            self._making, self._made = None, snapshot

    def follow(self, ahead_ns: int, lost: set[str]) -> Taken:
        """Follows a step of the wall clock: plans every active transfer anew by the new time."""
        self.clock.follow(ahead_ns)
        self._planner = None
        return self.take_up(lost)

    def save(self) -> None:
        """Makes the engine's state durable, so that the next start is quick."""
        if self._planner is not None:
            self._commit([], self._snapshot(self._planner))

    def find_key(self, owner: str, idempotency_key: str) -> Transfer | None:
        """The transfer that an owner submitted under a key, active or finished."""
        earlier = self._planner and self._planner.find_key(owner, idempotency_key)
        return earlier or self._store.find_key(owner, idempotency_key)

    def _tend(self) -> None:
        now_s = time.monotonic()
        if now_s - self._tended_s >= TEND_S:
            self._store.tend()
            self._tended_s = now_s

    def _snapshot(self, planner: Planner) -> Snapshot:
        engine = planner.engine
        self._saved_s = engine.work_s
        return Snapshot(engine.last_step, self._settings.configuration(), packed(engine.snapshot()))

    def _commit(self, outcomes: Sequence[Outcome], snapshot: Snapshot | None) -> None:
        started_s = time.perf_counter()
        now_s = time.monotonic()
        always = now_s - self.written_s >= BEAT_S
        anchor = self.clock.anchor()
        if self._store.commit(outcomes, snapshot, anchor=anchor, always=always):
            self.written_s = now_s
            self._metrics.commits.observe(time.perf_counter() - started_s)

    def _load(self, lost: set[str]) -> Planner:
        """Takes the plan up from the store: snapshot, then the steps after it.

        Where they do not fit the settings or the clock, every active transfer is planned anew.
        """
        settings, offset_ns = self._settings, self.clock.offset_ns
        self._making = self._made = None
        last_step, last_event = self._store.last_numbers()
        transfers = self._store.active()
        snapshot = self._store.snapshot()
        engine = self._restored(snapshot, transfers)
        fresh = engine is None
        if engine is None:
            last_step = max(last_step, snapshot.number if snapshot else 0)
            calendar = Calendar(
                settings.network.engine_json(),
                settings.policy,
                settings.epoch,
                paths=settings.paths,
            )
            engine = RecordedEngine(calendar, last_step, offset_ns, learns=settings.plans_ahead)
        now_ns = self.clock.now_ns()
        if fresh:
            transfers = [_unplanned(x, now_ns) for x in transfers]
        planner = Planner(
            engine,
            transfers,
            margin_ns=settings.margin.ns,
            offer_ns=settings.offer.ns,
            hold_ns=settings.hold.ns,
            last_event=last_event,
            lost=lost,
            quotas=settings.network.quotas,
            plans_ahead=settings.plans_ahead,
            timetables=self._timetables(),
            elephants=Elephants(self._store.elephants(), settings.network.quotas.elephants),
        )
        if fresh:
            readmitted = planner.readmit(now_ns)
            self._commit([readmitted], self._snapshot(planner))
        else:
            # The engine counts from its snapshot on.
            self._saved_s = 0.0
        self._planner = planner
        return planner

    def _timetables(self) -> dict[str, Timetable]:
        """What the store has of each link, with what the network file says."""
        stored = self._store.timetables()
        timetables = {
            name: replace(stored.get(name, Timetable()), fixed=link.timetable)
            for name, link in self._settings.network.links.items()
            if name in stored or link.timetable
        }
        for name, timetable in timetables.items():
            for zone in timetable.strange_zones:
                words = "link %s: this machine does not know the time zone %s of its timetable"
                log.warning(f"{words}, by whose least all hours count", name, zone)
        return timetables

    def _restored(
        self, snapshot: Snapshot | None, transfers: Sequence[Transfer]
    ) -> RecordedEngine | None:
        """The engine as it was, or None when what is stored does not lead to a sound one."""
        if snapshot is None or snapshot.configuration != self._settings.configuration():
            return None
        anchor, offset_ns = self._store.anchor(), self.clock.offset_ns
        if anchor is not None and anchor.offset_ns != offset_ns:
            return None
        try:
            calendar = Calendar.restore(unpacked(snapshot.state))
            learns = self._settings.plans_ahead
            engine = RecordedEngine(calendar, snapshot.number, offset_ns, learns=learns)
            engine.replay(self._store.steps_after(snapshot.number))
        except (BadInput, *_DAMAGE) as error:
            log.warning("the stored plan is not usable (%s); planning anew", error)
            return None
        if engine.rates().keys() != {x.id for x in transfers if x.planned}:
            log.warning("the stored plan does not match the transfers; planning anew")
            return None
        return engine


def _unplanned(transfer: Transfer, now_ns: int) -> Transfer:
    """A transfer that is to be planned anew, maybe in a network without the links that it took."""
    # A deadline that the clock's step has moved away may have been told to be missed.
    missed = transfer.missed and transfer.deadline_ns < now_ns
    return replace(transfer, planned=False, path=(), paths=(), missed=missed)


def packed(state: str) -> str:
    """The engine's state as it is stored: a tenth of it, that a commit has not long to write."""
    return PACKED + base64.b64encode(zlib.compress(state.encode(), PACKING)).decode()


def unpacked(stored: str) -> str:
    """The engine's state, also as earlier versions stored it; `BadInput` where it is damaged."""
    if not stored.startswith(PACKED):
        return stored
    try:
        return zlib.decompress(base64.b64decode(stored.removeprefix(PACKED))).decode()
    except (ValueError, zlib.error) as error:
        raise BadInput(f"it cannot be unpacked: {error}") from None


def _outcome(command: Command, planner: Planner, now_ns: int) -> Outcome | Problem:
    """What a command comes to; raises `RuntimeError` where it failed and is half carried out."""
    before = planner.changes
    try:
        return command(planner, now_ns)
    except (Problem, BadInput) as error:
        if planner.changes != before:
            # What it had changed until then is in no outcome: neither stored nor told.
            raise RuntimeError(f"half of a command was carried out: {error}") from error
        return error if isinstance(error, Problem) else invalid(None, str(error))
