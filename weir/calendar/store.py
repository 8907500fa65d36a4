"""The durable store: SQLite file by default, PostgreSQL by URL.

One service owns a store at a time and writes from one thread; readers may be many. A commit has
reached the disk when it returns: SQLite runs with a write-ahead log and synchronous=FULL, and
PostgreSQL with its default synchronous_commit.
"""

import contextlib
import fcntl
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TextIO

import alembic.command
import alembic.config
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url

from weir.calendar.records import ACTIVE, Event, Outcome, Snapshot, Step, Transfer
from weir.errors import BadInput, Unavailable

# Events kept for subscribers that come back; older ones are pruned at each snapshot.
EVENTS_KEPT = 100_000
# Any fixed number: it names the calendar's lock within one PostgreSQL database.
_ADVISORY_LOCK = 0x57454952
_LOCK_WAIT = "3s"

_metadata = sa.MetaData()
_COLUMN_TYPES: dict[str, Any] = {
    "path": sa.Text,
    "size_bytes": sa.BigInteger,
    "bytes_durable": sa.BigInteger,
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
)
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
)
_update = (
    sa.update(_transfers)
    .where(_transfers.c.id == sa.bindparam("key"))
    .values({name: sa.bindparam(f"new_{name}") for name in _UPDATED})
)


class Store:
    """The calendar's tables behind one URL. Opening it brings the tables up to date.

    Raises:
        BadInput: the URL is not one, or names a database that is not known here.
        Unavailable: the database does not answer, or another service holds it.
    """

    def __init__(self, url: str) -> None:
        self.url = _normalised(url)
        self._lock_file: TextIO | None = None
        self._lock_connection: Connection | None = None
        self._engine = _engine(self.url)
        try:
            self._take_lock()
            with self._engine.connect() as connection:
                _migrate(connection)
        except sa.exc.SQLAlchemyError as error:
            wrong = _is_wrong_file(error)
            if wrong and self._lock_file is not None:
                Path(self._lock_file.name).unlink()
            self.close()
            kind = BadInput if wrong else Unavailable
            raise kind(f"store {self.name}: {_first_line(error)}") from None
        except Unavailable:
            self.close()
            raise

    @property
    def name(self) -> str:
        """The URL as it may be shown: without the password."""
        return self.url.render_as_string(hide_password=True)

    def close(self) -> None:
        """Releases the lock and every connection."""
        if self._lock_connection is not None:
            # A database that is gone has no lock to give back.
            with contextlib.suppress(sa.exc.SQLAlchemyError):
                self._lock_connection.execute(sa.select(sa.func.pg_advisory_unlock_all()))
            self._lock_connection.close()
        self._engine.dispose()
        if self._lock_file is not None:
            self._lock_file.close()

    def commit(self, outcomes: Sequence[Outcome], snapshot: Snapshot | None = None) -> None:
        """Makes the outcomes, and the engine's state after them, durable: all or nothing.

        Raises:
            Unavailable: nothing was stored.
        """
        writes = _writes(outcomes)
        if not writes and snapshot is None:
            return
        try:
            with self._engine.begin() as connection:
                for statement, rows in writes:
                    connection.execute(statement, rows)
                if snapshot is not None:
                    _write_snapshot(connection, snapshot)
        except sa.exc.SQLAlchemyError as error:
            raise Unavailable(f"store {self.name}: {_first_line(error)}") from error

    def snapshot(self) -> Snapshot | None:
        """The engine's state as last kept, or None."""
        rows = self._read(sa.select(_snapshots))
        return Snapshot(**rows[0]._asdict()) if rows else None

    def steps_after(self, number: int) -> list[Step]:
        """The engine's steps after step `number`, oldest first."""
        query = sa.select(_steps).where(_steps.c.number > number).order_by(_steps.c.number)
        return [Step(x.number, x.at_ns, x.kind, json.loads(x.payload)) for x in self._read(query)]

    def active(self) -> list[Transfer]:
        """Every transfer that is not finished, in the order of submission."""
        query = (
            sa.select(_transfers)
            .where(_transfers.c.state.in_(ACTIVE))
            .order_by(_transfers.c.submitted_ns, _transfers.c.id)
        )
        return [_transfer(row) for row in self._read(query)]

    def find(self, identifier: str) -> Transfer | None:
        """One transfer, or None."""
        rows = self._read(sa.select(_transfers).where(_transfers.c.id == identifier))
        return _transfer(rows[0]) if rows else None

    def find_key(self, owner: str, idempotency_key: str) -> Transfer | None:
        """The transfer that an owner submitted under a key, or None."""
        query = sa.select(_transfers).where(
            _transfers.c.owner == owner, _transfers.c.idempotency_key == idempotency_key
        )
        rows = self._read(query)
        return _transfer(rows[0]) if rows else None

    def page(
        self, states: Sequence[str], before: Transfer | None, count_max: int
    ) -> list[Transfer]:
        """Up to `count_max` transfers in any of `states`, newest first, older than `before`."""
        key = sa.tuple_(_transfers.c.submitted_ns, _transfers.c.id)
        query = sa.select(_transfers).where(_transfers.c.state.in_(states))
        if before is not None:
            query = query.where(key < sa.tuple_(before.submitted_ns, before.id))
        query = query.order_by(_transfers.c.submitted_ns.desc(), _transfers.c.id.desc())
        return [_transfer(row) for row in self._read(query.limit(count_max))]

    def events_after(self, number: int, count_max: int) -> list[Event]:
        """Up to `count_max` events after event `number`, oldest first."""
        query = sa.select(_events).where(_events.c.number > number).order_by(_events.c.number)
        rows = self._read(query.limit(count_max))
        return [Event(x.number, x.at_ns, x.kind, x.transfer, json.loads(x.data)) for x in rows]

    def last_numbers(self) -> tuple[int, int]:
        """The numbers of the newest step and the newest event; 0 where there is none."""
        step = self._read(sa.select(sa.func.max(_steps.c.number)))[0][0] or 0
        event = self._read(sa.select(sa.func.max(_events.c.number)))[0][0] or 0
        return step, event

    def _read(self, query: sa.Select[Any]) -> Sequence[Any]:
        try:
            with self._engine.connect() as connection:
                return connection.execute(query).all()
        except sa.exc.SQLAlchemyError as error:
            raise Unavailable(f"store {self.name}: {_first_line(error)}") from error

    def _take_lock(self) -> None:
        held = f"store {self.name}: another calendar service is using it"
        if self.url.get_backend_name() == "sqlite":
            path = Path(f"{self.url.database}.lock")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._lock_file = path.open("w")
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unavailable(held) from None
            except OSError as error:
                raise BadInput(f"store {self.name}: {path}: {error.strerror}") from None
            return
        # A session's advisory lock goes with the session, however it ends, but the server takes a
        # moment to notice that a killed service's session has ended: hence the short wait.
        self._lock_connection = self._engine.connect().execution_options(
            isolation_level="AUTOCOMMIT"
        )
        self._lock_connection.execute(sa.text(f"SET lock_timeout = '{_LOCK_WAIT}'"))
        try:
            self._lock_connection.execute(sa.select(sa.func.pg_advisory_lock(_ADVISORY_LOCK)))
        except sa.exc.OperationalError:
            raise Unavailable(held) from None


def _normalised(url: str) -> URL:
    try:
        parsed = make_url(url)
    except sa.exc.ArgumentError:
        raise BadInput(
            f'"{url}" is not a store; write sqlite:///FILE or postgresql://USER@HOST/DATABASE'
        ) from None
    if parsed.drivername in {"postgres", "postgresql"}:
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise BadInput(f'"{parsed.drivername}" is not a store known here; use sqlite or postgresql')
    if parsed.get_backend_name() == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise BadInput("a store in memory would lose what was accepted; name a file")
    return parsed


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "postgresql":
        return sa.create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 5})
    engine = sa.create_engine(url, connect_args={"timeout": 10})

    @sa.event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    return engine


def _writes(outcomes: Sequence[Outcome]) -> list[tuple[sa.Executable, list[dict[str, Any]]]]:
    changed: dict[str, Transfer] = {}
    for outcome in outcomes:
        changed.update(outcome.transfers)
    admitted = {outcome.admitted for outcome in outcomes}
    writes: list[tuple[sa.Executable, list[dict[str, Any]]]] = [
        (sa.insert(_transfers), [_row(x) for x in changed.values() if x.id in admitted]),
        (_update, [_changes(x) for x in changed.values() if x.id not in admitted]),
        (sa.insert(_steps), [_step_row(x) for outcome in outcomes for x in outcome.steps]),
        (sa.insert(_events), [_event_row(x) for outcome in outcomes for x in outcome.events]),
    ]
    return [(statement, rows) for statement, rows in writes if rows]


def _write_snapshot(connection: Connection, snapshot: Snapshot) -> None:
    """Replaces the snapshot and drops what it makes needless."""
    connection.execute(sa.delete(_snapshots))
    connection.execute(sa.insert(_snapshots), asdict(snapshot))
    connection.execute(sa.delete(_steps).where(_steps.c.number <= snapshot.number))
    newest = connection.scalar(sa.select(sa.func.max(_events.c.number))) or 0
    connection.execute(sa.delete(_events).where(_events.c.number <= newest - EVENTS_KEPT))


def _migrate(connection: Connection) -> None:
    config = alembic.config.Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    alembic.command.upgrade(config, "head")
    connection.commit()


def _row(transfer: Transfer) -> dict[str, Any]:
    return {**asdict(transfer), "path": json.dumps(transfer.path)}


def _changes(transfer: Transfer) -> dict[str, Any]:
    changes = {f"new_{name}": getattr(transfer, name) for name in _UPDATED}
    return {**changes, "new_path": json.dumps(transfer.path), "key": transfer.id}


def _transfer(row: Any) -> Transfer:
    values = row._asdict()
    return Transfer(**{**values, "path": tuple(json.loads(values["path"]))})


def _step_row(step: Step) -> dict[str, Any]:
    payload = json.dumps(step.payload)
    return {"number": step.number, "at_ns": step.at_ns, "kind": step.kind, "payload": payload}


def _event_row(event: Event) -> dict[str, Any]:
    return {
        "number": event.number,
        "at_ns": event.at_ns,
        "kind": event.kind,
        "transfer": event.transfer,
        "data": json.dumps(event.data),
    }


def _is_wrong_file(error: Exception) -> bool:
    """Whether SQLite was given what is not, and cannot become, a database of its own."""
    name = getattr(getattr(error, "orig", None), "sqlite_errorname", "")
    return name.startswith(("SQLITE_CANTOPEN", "SQLITE_NOTADB", "SQLITE_READONLY"))


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).splitlines()[0]
