"""The durable store: SQLite file by default, PostgreSQL by URL.

One service owns a store at a time and writes from one thread; readers may be many. A commit has
reached the disk when it returns: SQLite runs with a write-ahead log and synchronous=FULL, and
PostgreSQL with its default synchronous_commit.

Every opening counts the store's generation up by one, and every commit checks within its own
transaction that the generation is still its own: whatever became of locks, a service that was
superseded writes nothing more.
"""

import contextlib
import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from weir.calendar.clock import NS_PER_S, Anchor
from weir.calendar.compact import compact_json
from weir.calendar.elephants import Elephant
from weir.calendar.records import ACTIVE, Event, Outcome, Snapshot, Step, Transfer
from weir.calendar.sse import stored_event_bytes
from weir.calendar.storage import database
from weir.calendar.storage.migrations import UnknownVersion, bring_up_to_date
from weir.calendar.storage.ownership import DatabaseOwner, Fenced, FileOwner, Owner
from weir.calendar.storage.patience import Patience
from weir.calendar.storage.prepared import Prepared
from weir.calendar.timetable import Timetable
from weir.errors import BadInput, Unavailable, WeirError

# Events kept for subscribers that come back; older ones are pruned at each snapshot.
EVENTS_KEPT = 100_000
# Damage is looked for at the start where that takes no more than a second or two.
CHECKED_BYTES_MAX = 256 * 1024 * 1024
Made = TypeVar("Made")

log = logging.getLogger(__name__)

_metadata = sa.MetaData()
_COLUMN_TYPES: dict[str, Any] = {
    "path": sa.Text,
    "size_bytes": sa.BigInteger,
    "declared_bytes": sa.BigInteger,
    "bytes_durable": sa.BigInteger,
    "least_bytes": sa.BigInteger,
    "promised_bytes": sa.BigInteger,
    "weight": sa.BigInteger,
    "paths_max": sa.BigInteger,
    "rate_max_bps": sa.BigInteger,
    "planned": sa.Boolean,
    "missed": sa.Boolean,
}


def _column(name: str) -> sa.Column[Any]:
    kind = sa.BigInteger if name.endswith("_ns") else _COLUMN_TYPES.get(name, sa.Text)
    return sa.Column(name, kind, primary_key=name in {"id", "number"})


def _table(name: str, columns: Iterable[str]) -> sa.Table:
    return sa.Table(name, _metadata, *(_column(column) for column in columns))


TRANSFER_COLUMNS = tuple(field.name for field in fields(Transfer))
_transfers = _table("transfers", TRANSFER_COLUMNS)
_steps = sa.Table(
    "steps",
    _metadata,
    sa.Column("number", sa.BigInteger, primary_key=True),
    *(_column(name) for name in ("at_ns", "kind", "payload")),
)
_snapshots = sa.Table(
    "snapshots",
    _metadata,
    sa.Column("number", sa.BigInteger, primary_key=True),
    *(_column(name) for name in ("configuration", "state")),
)
_events = sa.Table(
    "events",
    _metadata,
    sa.Column("number", sa.BigInteger, primary_key=True),
    *(_column(name) for name in ("at_ns", "kind", "transfer", "data")),
    *(_column(name) for name in ("request", "owner", "idempotency_key")),
)
_timetables = sa.Table(
    "timetables",
    _metadata,
    sa.Column("link", sa.Text, primary_key=True),
    _column("document"),
)
_elephants = _table("elephants", ("id", "document"))
_service = sa.Table(
    "service",
    _metadata,
    sa.Column("id", sa.SmallInteger, primary_key=True),
    sa.Column("generation", sa.BigInteger),
    *(_column(name) for name in ("engine_ns", "offset_ns", "boot_id", "boot_ns")),
)
_ANCHOR = tuple(field.name for field in fields(Anchor))
_written_ns = sa.func.coalesce(_service.c.engine_ns, sa.literal_column("0"))
_whose_turn = sa.select(_service.c.generation, _written_ns)
# Updates the one row if it is still this service's turn, and the store as this service left it:
# time in an older copy is before what was written last.
_confirm_turn = (
    sa.update(_service)
    .where(_service.c.generation == sa.bindparam("mine"))
    .where(_written_ns >= sa.bindparam("written_ns", type_=sa.BigInteger))
    .values(generation=_service.c.generation)
)
_confirm_turn_at = _confirm_turn.values({name: sa.bindparam(f"new_{name}") for name in _ANCHOR})
# What never changes after admission is not written again.
_UPDATED = (
    "size_bytes",
    "state",
    "started_ns",
    "finished_ns",
    "bytes_durable",
    "path",
    "planned",
    "plan_ns",
    "risk",
    "missed",
    "file_hash",
    "error",
    "promised_bytes",
    "answer_ns",
    "refusal",
    "idempotency_key",
    "paths_max",
    "paths",
)
_update = (
    sa.update(_transfers)
    .where(_transfers.c.id == sa.bindparam("key"))
    .values({name: sa.bindparam(f"new_{name}") for name in _UPDATED})
)
# What nearly all reports change, and nothing else: no index has it.
_moved = (
    sa.update(_transfers)
    .where(_transfers.c.id == sa.bindparam("key"))
    .values(bytes_durable=sa.bindparam("new_bytes_durable"))
)
_UPDATED_PARAMETERS = (*(f"new_{name}" for name in _UPDATED), "key")
_updated_of = attrgetter(*_UPDATED, "id")
_unmoved_of = attrgetter(*(name for name in _UPDATED if name != "bytes_durable"))
_columns_of = attrgetter(*TRANSFER_COLUMNS)
_PATH_AT = TRANSFER_COLUMNS.index("path")


class Store:
    """The calendar's tables behind one URL. Opening it brings the tables up to date.

    Raises:
        BadInput: the URL is not one, or names a database that is not known here.
        Unavailable: the database does not answer, or another service holds it.
    """

    def __init__(self, url: str) -> None:
        self.url = database.parsed(url)
        self._patience = Patience()
        self._engine = database.engine(self.url, self._patience)
        dialect = self._engine.dialect
        self._insert_transfers, self._insert_steps, self._insert_events = (
            Prepared(_insert(table), dialect) for table in (_transfers, _steps, _events)
        )
        self._update, self._move, self._confirm_turn, self._confirm_turn_at = (
            Prepared(statement, dialect)
            for statement in (_update, _moved, _confirm_turn, _confirm_turn_at)
        )
        # The service's time as it was last written, by this one or those before it.
        self._written_ns = 0
        # Active transfers as they were last written.
        self._written: dict[str, Transfer] = {}
        self._owner = self._make_owner()
        # What commits to SQLite, which keeps its log while one connection stands.
        self._keeper: Connection | None = None
        try:
            self._owner.take()
            self._open()
        except (sa.exc.SQLAlchemyError, ValueError, TypeError) as error:
            wrong = _is_wrong_file(error)
            self.close(wrong)
            kind = BadInput if wrong else Unavailable
            raise kind(f"store {self.name}: {_first_line(error)}") from None
        except WeirError:
            self.close()
            raise

    def _make_owner(self) -> Owner:
        if self.url.get_backend_name() == "sqlite":
            return FileOwner(Path(self.url.database or ""), self.name)
        return DatabaseOwner(self._engine, self.name)

    def _open(self) -> None:
        self._keeper = self._engine.connect()
        self._check_whole(self._keeper)
        try:
            with self._patience.endless():
                bring_up_to_date(self._keeper)
        except UnknownVersion as error:
            raise BadInput(
                f"store {self.name}: it was made by another version of Weir ({error})"
            ) from None
        with self._engine.begin() as connection:
            mine = sa.update(_service).values(generation=_service.c.generation + 1)
            connection.execute(mine)
            found = connection.execute(_whose_turn).one_or_none()
        if found is None:
            raise Unavailable(f"store {self.name}: it is damaged: whose turn it is, is missing")
        self._generation, self._written_ns = found
        self._owner.settle()

    def _check_whole(self, connection: Connection) -> None:
        """Raises `Unavailable` where an SQLite file is damaged."""
        if self.url.get_backend_name() != "sqlite":
            return
        if Path(self.url.database or "").stat().st_size > CHECKED_BYTES_MAX:
            return
        found = connection.scalar(sa.text("PRAGMA quick_check(1)"))
        connection.rollback()
        if found != "ok":
            first = str(found).splitlines()[-1]
            raise Unavailable(
                f"store {self.name}: the file is damaged ({first}); restore it from a copy"
            )

    @property
    def name(self) -> str:
        """The URL as it may be shown: without the password."""
        return database.shown(self.url)

    def wait_no_more(self) -> None:
        """Has whatever waits for the database fail, in every thread; for the end of a service."""
        self._patience.end()

    def close(self, wrong: bool = False) -> None:
        """Releases the lock and all connections; with `wrong`, no trace of a file that is no store.

        The lock goes last: until then nobody else may write.
        """
        if self._keeper is not None:
            with contextlib.suppress(sa.exc.SQLAlchemyError):
                self._keeper.close()
        if isinstance(self._owner, FileOwner):
            self._engine.dispose()
        self._owner.release(wrong)
        self._engine.dispose()

    def commit(
        self,
        outcomes: Sequence[Outcome],
        snapshot: Snapshot | None = None,
        *,
        anchor: Anchor | None = None,
        always: bool = False,
    ) -> bool:
        """Makes the outcomes, and the engine's state after them, durable: all or nothing.

        With nothing to write it does nothing, unless it is to `always` write its time, `anchor`.
        Whether something was written.

        Raises:
            Fenced: another service has taken the store over; nothing was stored.
            Unavailable: nothing was stored, or it would not be found again.
        """
        changed = {x: one for outcome in outcomes for x, one in outcome.transfers.items()}
        writes = self._writes(outcomes, changed)
        timetables = {link: t for outcome in outcomes for link, t in outcome.timetables.items()}
        elephants = {x: one for outcome in outcomes for x, one in outcome.elephants.items()}
        if not (writes or timetables or elephants or snapshot or always):
            return False
        self._owner.check()
        # What stands there after a failure is not known.
        written, self._written = self._written, {}
        try:
            with self._transaction() as connection:
                self._write_turn(connection, anchor)
                for statement, rows in writes:
                    statement.execute(connection, rows)
                for link, timetable in timetables.items():
                    _write_timetable(connection, link, timetable)
                if elephants:
                    _write_elephants(connection, elephants)
                if snapshot is not None:
                    _write_snapshot(connection, snapshot)
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise Unavailable(f"store {self.name}: {_first_line(error)}") from error
        if anchor is not None:
            self._written_ns = anchor.engine_ns
        self._owner.check()
        for transfer in changed.values():
            if transfer.active:
                written[transfer.id] = transfer
            else:
                written.pop(transfer.id, None)
        self._written = written
        return True

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction that is committed at its end.

        Of PostgreSQL each takes a connection that is known to stand. That of SQLite is always the
        same: to take one up and give it back costs as much as to write a few rows.
        """
        if self.url.get_backend_name() != "sqlite":
            with self._engine.begin() as connection:
                yield connection
            return
        assert self._keeper is not None, "opened before"
        with self._keeper.begin():
            yield self._keeper

    def checkpoint(self) -> None:
        """Has SQLite take over into its file what is in its log, beside whoever writes.

        Left to the writer, a commit now and then would wait for that. For any one thread.
        """
        if self.url.get_backend_name() != "sqlite":
            return
        with contextlib.suppress(sa.exc.SQLAlchemyError), self._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)").close()

    def tend(self) -> None:
        """Sees that the store is still this service's, and takes again what was lost of that.

        Raises:
            Fenced: another service has taken it over.
            Unavailable: it does not answer, is not where it was, or its lock is another's.
        """
        try:
            self._owner.tend()
        except sa.exc.SQLAlchemyError as error:
            raise Unavailable(f"store {self.name}: {_first_line(error)}") from error
        except Unavailable:
            if self._read(sa.select(_service.c.generation), _first) != [self._generation]:
                raise self._fenced() from None
            raise

    def _writes(
        self, outcomes: Sequence[Outcome], changed: Mapping[str, Transfer]
    ) -> list[tuple[Prepared, list[dict[str, Any]]]]:
        admitted = {outcome.admitted for outcome in outcomes}
        new, moved, others = [], [], []
        for transfer in changed.values():
            before = self._written.get(transfer.id)
            if transfer.id in admitted:
                new.append(_row(transfer))
            elif before is not None and _unmoved_of(before) == _unmoved_of(transfer):
                moved.append({"key": transfer.id, "new_bytes_durable": transfer.bytes_durable})
            else:
                others.append(_changes(transfer))
        writes = [
            (self._insert_transfers, new),
            (self._update, others),
            (self._move, moved),
            (self._insert_steps, [_step_row(x) for outcome in outcomes for x in outcome.steps]),
            (self._insert_events, [_event_row(x) for outcome in outcomes for x in outcome.events]),
        ]
        return [(statement, rows) for statement, rows in writes if rows]

    def _write_turn(self, connection: Connection, anchor: Anchor | None) -> None:
        values: dict[str, Any] = {"mine": self._generation, "written_ns": self._written_ns}
        statement = self._confirm_turn
        if anchor is not None:
            statement = self._confirm_turn_at
            values |= {f"new_{name}": getattr(anchor, name) for name in _ANCHOR}
        if statement.change(connection, values) != 1:
            raise self._not_as_left(connection.execute(_whose_turn).one_or_none())

    def _not_as_left(self, found: Any) -> Unavailable:
        """What is wrong with a store in which it is not this service's turn, or not its time."""
        if found is None or found[0] < self._generation:
            return Fenced(f"store {self.name}: it was put back to before this service's start")
        if found[0] > self._generation:
            return self._fenced()
        lost_s = (self._written_ns - found[1]) / NS_PER_S
        # It is taken up as it is now, and has to be written to before that counts.
        self._written_ns = found[1]
        lost = f"it was put back to {lost_s:.1f} s ago, and what was promised since then is lost"
        log.error("store %s: %s; the plan goes on from there", self.name, lost)
        return Unavailable(f"store {self.name}: {lost}")

    def _fenced(self) -> Fenced:
        return Fenced(f"store {self.name}: another calendar service has taken it over")

    def anchor(self) -> Anchor | None:
        """The service's time as last kept, or None."""
        query = sa.select(_service).where(_service.c.engine_ns.is_not(None))
        rows = self._read(
            query, lambda row: Anchor(row.engine_ns, row.offset_ns, row.boot_id, row.boot_ns)
        )
        return rows[0] if rows else None

    def snapshot(self) -> Snapshot | None:
        """The engine's state as last kept, or None."""
        rows = self._read(sa.select(_snapshots), lambda row: Snapshot(**row._asdict()))
        return rows[0] if rows else None

    def steps_after(self, number: int) -> list[Step]:
        """The engine's steps after step `number`, oldest first."""
        query = sa.select(_steps).where(_steps.c.number > number).order_by(_steps.c.number)
        return self._read(query, lambda x: Step(x.number, x.at_ns, x.kind, json.loads(x.payload)))

    def active(self) -> list[Transfer]:
        """Every transfer that is not finished, in the order of submission."""
        query = (
            sa.select(_transfers)
            .where(_transfers.c.state.in_(ACTIVE))
            .order_by(_transfers.c.submitted_ns, _transfers.c.id)
        )
        return self._read(query, _transfer)

    def find(self, identifier: str) -> Transfer | None:
        """One transfer, or None."""
        rows = self._read(sa.select(_transfers).where(_transfers.c.id == identifier), _transfer)
        return rows[0] if rows else None

    def find_key(self, owner: str, idempotency_key: str) -> Transfer | None:
        """The transfer that an owner submitted under a key, or None."""
        query = sa.select(_transfers).where(
            _transfers.c.owner == owner, _transfers.c.idempotency_key == idempotency_key
        )
        rows = self._read(query, _transfer)
        return rows[0] if rows else None

    def page(
        self, states: Sequence[str], before: Transfer | None, count_max: int
    ) -> list[Transfer]:
        """Up to `count_max` transfers in any of `states`, newest first, older than `before`."""
        key = sa.tuple_(_transfers.c.submitted_ns, _transfers.c.id)
        query = sa.select(_transfers).where(_transfers.c.state.in_(states))
        if before is not None:
            query = query.where(key < sa.tuple_(before.submitted_ns, before.id))
        query = query.order_by(_transfers.c.submitted_ns.desc(), _transfers.c.id.desc())
        return self._read(query.limit(count_max), _transfer)

    def events_after(self, number: int, count_max: int) -> list[Event]:
        """Up to `count_max` events after event `number`, oldest first."""
        query = sa.select(_events).where(_events.c.number > number).order_by(_events.c.number)
        return self._read(query.limit(count_max), _event)

    def sent_events_after(self, number: int, count_max: int) -> list[tuple[int, bytes]]:
        """The events as they travel, each with its number: none is decoded to be encoded again."""
        query = sa.select(_events).where(_events.c.number > number).order_by(_events.c.number)
        return self._read(query.limit(count_max), _sent_event)

    def timetables(self) -> dict[str, Timetable]:
        """The timetables of links by their names."""
        rows = self._read(
            sa.select(_timetables),
            lambda row: (row.link, Timetable.from_json(json.loads(row.document))),
        )
        return dict(rows)

    def elephants(self) -> list[Elephant]:
        """The elephants that are told of, in the order in which they were."""
        found = self._read(sa.select(_elephants), lambda row: Elephant(**json.loads(row.document)))
        return sorted(found, key=lambda x: (x.told_ns, x.id))

    def story(self, identifier: str) -> list[Event]:
        """Every event of a transfer, or the refusal of a request, oldest first."""
        its = sa.or_(_events.c.transfer == identifier, _events.c.request == identifier)
        return self._read(sa.select(_events).where(its).order_by(_events.c.number), _event)

    def refusal(self, owner: str, idempotency_key: str | None = None) -> Event | None:
        """The newest refusal of an owner's requests, or of those under a key; or None."""
        query = sa.select(_events).where(_events.c.owner == owner)
        if idempotency_key is not None:
            query = query.where(_events.c.idempotency_key == idempotency_key)
        rows = self._read(query.order_by(_events.c.number.desc()).limit(1), _event)
        return rows[0] if rows else None

    def rate_changes(self, identifier: str, after: int, count_max: int) -> list[Event]:
        """The newest changes of a transfer's rate after an event, each after what came before it.

        Oldest first, and `count_max` changes at most.
        """
        changed = (
            sa.select(_events.c.number)
            .where(_events.c.number > after, _events.c.kind == "rates")
            .where(_events.c.data.contains(f'"{identifier}"', autoescape=True))
            .order_by(_events.c.number.desc())
            .limit(count_max)
        )
        numbers = self._read(changed, _first)
        wanted = sorted({*numbers, *(number - 1 for number in numbers)})
        query = sa.select(_events).where(_events.c.number.in_(wanted)).order_by(_events.c.number)
        return self._read(query, _event)

    def crossed(self, link: str, at_ns: int, count_max: int) -> list[Transfer]:
        """The transfers that a link was given to at a time and that are over since."""
        query = (
            sa.select(_transfers)
            .where(_transfers.c.finished_ns > at_ns, _transfers.c.submitted_ns <= at_ns)
            .where(
                _transfers.c.path.contains(json.dumps(link), autoescape=True)
                | _transfers.c.paths.contains(json.dumps(link), autoescape=True)
            )
            .order_by(_transfers.c.finished_ns)
        )
        return self._read(query.limit(count_max), _transfer)

    def last_numbers(self) -> tuple[int, int]:
        """The numbers of the newest step and the newest event; 0 where there is none."""
        step = self._read(sa.select(sa.func.max(_steps.c.number)), _first)[0] or 0
        event = self._read(sa.select(sa.func.max(_events.c.number)), _first)[0] or 0
        return step, event

    def _read(self, query: sa.Select[Any], made: Callable[[Any], Made]) -> list[Made]:
        try:
            with self._engine.connect() as connection:
                return [made(row) for row in connection.execute(query)]
        except sa.exc.SQLAlchemyError as error:
            raise Unavailable(f"store {self.name}: {_first_line(error)}") from error
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise Unavailable(f"store {self.name}: it is damaged: {error!r}") from error


def _write_snapshot(connection: Connection, snapshot: Snapshot) -> None:
    """Replaces the snapshot and drops what it makes needless."""
    connection.execute(sa.delete(_snapshots))
    connection.execute(sa.insert(_snapshots), asdict(snapshot))
    connection.execute(sa.delete(_steps).where(_steps.c.number <= snapshot.number))
    newest = connection.scalar(sa.select(sa.func.max(_events.c.number))) or 0
    connection.execute(sa.delete(_events).where(_events.c.number <= newest - EVENTS_KEPT))


def _write_timetable(connection: Connection, link: str, timetable: Timetable) -> None:
    connection.execute(sa.delete(_timetables).where(_timetables.c.link == link))
    row = {"link": link, "document": json.dumps(timetable.to_json())}
    connection.execute(sa.insert(_timetables), row)


def _write_elephants(connection: Connection, elephants: Mapping[str, Elephant | None]) -> None:
    connection.execute(sa.delete(_elephants).where(_elephants.c.id.in_(elephants)))
    rows = [
        {"id": identifier, "document": json.dumps(asdict(one))}
        for identifier, one in elephants.items()
        if one is not None
    ]
    if rows:
        connection.execute(sa.insert(_elephants), rows)


def _insert(table: sa.Table) -> sa.Insert:
    return sa.insert(table).inline()


def _row(transfer: Transfer) -> dict[str, Any]:
    row = dict(zip(TRANSFER_COLUMNS, _columns_of(transfer), strict=True))
    row["path"], row["paths"] = _path_text(transfer.path), _paths_text(transfer.paths)
    return row


def _changes(transfer: Transfer) -> dict[str, Any]:
    changes = dict(zip(_UPDATED_PARAMETERS, _updated_of(transfer), strict=True))
    changes["new_path"] = _path_text(transfer.path)
    changes["new_paths"] = _paths_text(transfer.paths)
    return changes


@lru_cache(4_096)
def _path_text(path: tuple[str, ...]) -> str:
    return json.dumps(path)


@lru_cache(4_096)
def _paths_text(paths: tuple[tuple[str, ...], ...]) -> str | None:
    return json.dumps(paths) if paths else None


def _transfer(row: Any) -> Transfer:
    # By position: ten thousand are read at a start. The paths come last.
    before, path, after, paths = row[:_PATH_AT], row[_PATH_AT], row[_PATH_AT + 1 : -1], row[-1]
    made: Callable[..., Transfer] = Transfer
    return made(*before, _path_of(path), *after, _paths_of(paths))


@lru_cache(4_096)
def _paths_of(text: str | None) -> tuple[tuple[str, ...], ...]:
    return tuple(map(tuple, json.loads(text))) if text else ()


@lru_cache(4_096)
def _path_of(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _event(row: Any) -> Event:
    data = json.loads(row.data)
    whose = row.request, row.owner, row.idempotency_key
    return Event(row.number, row.at_ns, row.kind, row.transfer, data, *whose)


def _sent_event(row: Any) -> tuple[int, bytes]:
    data = stored_event_bytes(row.number, row.at_ns, row.kind, row.transfer, row.data)
    return row.number, data


def _first(row: Any) -> Any:
    return row[0]


def _step_row(step: Step) -> dict[str, Any]:
    payload = compact_json(step.payload)
    return {"number": step.number, "at_ns": step.at_ns, "kind": step.kind, "payload": payload}


def _event_row(event: Event) -> dict[str, Any]:
    return {
        "number": event.number,
        "at_ns": event.at_ns,
        "kind": event.kind,
        "transfer": event.transfer,
        "data": event.text,
        "request": event.request,
        "owner": event.owner,
        "idempotency_key": event.idempotency_key,
    }


def _is_wrong_file(error: Exception) -> bool:
    """Whether SQLite was given what is not, and cannot become, a database of its own."""
    name = getattr(getattr(error, "orig", None), "sqlite_errorname", "")
    return name.startswith(("SQLITE_CANTOPEN", "SQLITE_NOTADB", "SQLITE_READONLY"))


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).splitlines()[0]
