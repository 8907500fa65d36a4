"""One service owns a store at a time: what it holds as a sign of it, and how it notices a loss.

A lock turns a second service away at once, and a generation number in the store is the fence
behind it (`store.Store.commit`): a lock can be lost while its holder goes on, the fence cannot.
"""

import contextlib
import fcntl
import logging
import os
import stat
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from weir.calendar.storage import database
from weir.errors import BadInput, Unavailable

log = logging.getLogger(__name__)

# Any fixed number: it names the calendar's lock within one PostgreSQL database.
ADVISORY_LOCK = 0x57454952
_LOCK_WAIT = "3s"
# So soon does the server notice that the lock's holder has gone with its machine.
_KEEPALIVES = {"tcp_keepalives_idle": 1, "tcp_keepalives_interval": 1, "tcp_keepalives_count": 2}
_NOT_SYNCHRONOUS = (
    "it names several hosts, and synchronous_standby_names is empty: "
    "what was promised last is lost with the primary"
)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Fenced(Unavailable):
    """Another service has taken the store over: this one must not go on."""


class Held(Unavailable):
    """Another service holds the store now."""


class Owner(Protocol):
    """The sign of ownership of one store."""

    def take(self) -> None:
        """Takes it; raises `Held` where another service holds it."""

    def settle(self) -> None:
        """Notes how things are once the store's tables are there."""

    def check(self) -> None:
        """Raises `Unavailable` where what was committed would not be found again. Cheap."""

    def tend(self) -> None:
        """Takes again what was lost; raises `Unavailable` where that cannot be now."""

    def release(self, wrong: bool) -> None:
        """Gives it back; `wrong` says that the store was none, so that no trace should stay."""


class FileOwner:
    """A lock beside an SQLite file; the files themselves, readable by their owner only."""

    def __init__(self, path: Path, name: str) -> None:
        # SQLite, too, has its log beside the file that links lead to. So has the lock its place
        # there: two services that name one file in two ways are to meet.
        self._given, self._path = path, Path(os.path.realpath(path))
        self._name = name
        self._lock_path = Path(f"{self._path}.lock")
        self._lock: int | None = None
        self._files: dict[Path, tuple[int, int]] = {}
        # What was not there before, to be taken away again if the store turns out not to be one.
        self._made: dict[Path, tuple[int, int]] = {}

    def take(self) -> None:
        """Locks, and makes the file where there is none."""
        self._refuse_others()
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = self._open(self._lock_path)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # SQLite would make it readable by all; its log and index get the file's own mode.
            os.close(self._open(self._path))
        except BlockingIOError:
            raise _held(self._name) from None
        except OSError as error:
            place = error.filename or self._lock_path
            raise BadInput(f"store {self._name}: {place}: {error.strerror}") from None

    def settle(self) -> None:
        """Notes which files are the store's, and keeps others out of them."""
        for path in (self._lock_path, *self._parts()):
            keep_private(path)
        self._files = {path: _identity(path) for path in (self._given, *self._parts()[:2])}

    def check(self) -> None:
        """Compares them with what stands under their names."""
        for path, identity in self._files.items():
            try:
                if _identity(path) == identity:
                    continue
                what = "is another file now"
            except OSError as error:
                what = f"cannot be found any more ({error.strerror})"
            raise Unavailable(
                f"store {self._name}: {path} {what}, so nothing can be promised; "
                "put it back, or restart the service"
            )

    def tend(self) -> None:
        """The same."""
        self.check()

    def release(self, wrong: bool) -> None:
        """Unlocks."""
        if self._lock is None:
            return
        for path, identity in self._made.items() if wrong else ():
            with contextlib.suppress(OSError):
                is_lock = path == self._lock_path
                if _identity(path) == identity and (is_lock or not path.stat().st_size):
                    path.unlink()
        os.close(self._lock)
        self._lock = None

    def _refuse_others(self) -> None:
        """Raises `BadInput` for a device and its like, beside which nothing is to be made."""
        try:
            mode = self._path.stat().st_mode
        except OSError:
            return  # It is made, or that says why it cannot be.
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise BadInput(f"store {self._name}: {self._path} is not a file, so it keeps nothing")

    def _open(self, path: Path) -> int:
        """A descriptor of a file, which is made where there is none."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(path, flags, 0o600)
        status = os.fstat(descriptor)
        self._made[path] = (status.st_dev, status.st_ino)
        return descriptor

    def _parts(self) -> list[Path]:
        return [self._path, *(Path(f"{self._path}{end}") for end in ("-wal", "-shm"))]


class DatabaseOwner:
    """A session's advisory lock in a PostgreSQL database; it goes with the session."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name
        self._session: Connection | None = None

    def take(self) -> None:
        """Locks. The server takes a moment to notice that a killed service's session has ended."""
        session = self._open()
        session.execute(sa.text(f"SET lock_timeout = '{_LOCK_WAIT}'"))
        try:
            session.execute(sa.select(sa.func.pg_advisory_lock(ADVISORY_LOCK)))
        except sa.exc.OperationalError:
            raise _held(self._name) from None

    def settle(self) -> None:
        """Warns where a replica that takes over may lack what was promised."""
        assert self._session is not None, "taken before"
        if database.has_several_hosts(self._engine.url):
            names: Any = self._session.scalar(sa.text("SHOW synchronous_standby_names"))
            if not names:
                log.warning("store %s: %s", self._name, _NOT_SYNCHRONOUS)

    def check(self) -> None:
        """Whether a commit is found again is the server's affair."""

    def tend(self) -> None:
        """Locks again after the session was lost, such as by a restart of the server."""
        try:
            if self._session is not None:
                self._session.execute(sa.select(1))
                return
        except sa.exc.SQLAlchemyError:
            log.warning("store %s: the session that held its lock is gone", self._name)
            self._drop()
        if not self._open().scalar(sa.select(sa.func.pg_try_advisory_lock(ADVISORY_LOCK))):
            self._drop()
            raise _held(self._name)
        log.warning("store %s: its lock is held again", self._name)

    def release(self, wrong: bool) -> None:
        """Unlocks; a database that is gone has no lock to give back."""
        if self._session is not None:
            with contextlib.suppress(sa.exc.SQLAlchemyError):
                self._session.execute(sa.select(sa.func.pg_advisory_unlock_all()))
            self._drop()

    def _open(self) -> Connection:
        session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._session = session
        for option, seconds in _KEEPALIVES.items():
            session.execute(sa.text(f"SET {option} = {seconds}"))
        encoding: Any = session.scalar(sa.text("SHOW server_encoding"))
        if encoding != "UTF8":
            raise BadInput(
                f"store {self._name}: the database's encoding is {encoding}, which cannot hold "
                "every file name; create one with: createdb -E UTF8 -T template0"
            )
        return session

    def _drop(self) -> None:
        if self._session is not None:
            with contextlib.suppress(sa.exc.SQLAlchemyError):
                self._session.invalidate()
            self._session.close()
            self._session = None


def _held(name: str) -> Held:
    return Held(f"store {name}: another calendar service is using it")


def keep_private(path: Path) -> None:
    """Takes a file from everybody but its owner, and says so where others could reach it."""
    try:
        mode = path.stat().st_mode
        if mode & _OTHERS:
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
            log.warning("%s was open to others (mode %03o) and is not any more", path, mode & 0o777)
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("%s is open to others and stays so: %s", path, error.strerror)


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
