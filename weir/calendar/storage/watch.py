"""A service that holds a PostgreSQL store and does nothing with it, as one that stands by sees it.

A process that is stopped, or whose machine stands still, keeps its sessions, and with them the
store's lock, for as long as the kernel answers for it. A service that lives writes its time every
second. So where the store answers and that time has not moved for `STILL_S`, whoever stands by ends
the holder's sessions, which undoes what it had begun, and takes its place. There are never two that
write: the next one to open the store raises its generation, which every commit looks at. The one
that was stopped finds that out as soon as it goes on, and ends.
"""

import time
from typing import Any

import sqlalchemy as sa

from weir.calendar.storage import database
from weir.calendar.storage.ownership import ADVISORY_LOCK

STILL_S = 15.0
# A look that takes longer, or comes longer after the last one, says nothing about the holder: the
# store, or this process, was itself held up.
LOOK_S = 1.0
LOOKS_APART_S = 8.0

_TIME = sa.text("SELECT generation, engine_ns FROM service")
# A commit has a session of its own. Names of sessions are each service's own.
_END = sa.text(
    f"""
    SELECT pg_terminate_backend(one.pid)
    FROM pg_stat_activity AS one, pg_locks AS held, pg_stat_activity AS holder
    WHERE held.locktype = 'advisory' AND held.classid = 0 AND held.objid = {ADVISORY_LOCK}
      AND held.granted AND holder.pid = held.pid AND holder.datname = current_database()
      AND held.database = holder.datid AND one.datid = holder.datid
      AND (one.pid = holder.pid OR one.application_name = holder.application_name
                               AND one.application_name LIKE '{database.SESSIONS} %')
      AND EXISTS (SELECT FROM service WHERE generation = :generation
                                        AND engine_ns IS NOT DISTINCT FROM :engine_ns)
    """
)


class Watch:
    """Looks at whoever holds a store, which is asked for now and then meanwhile."""

    def __init__(self, url: str) -> None:
        self._url = database.parsed(url)
        self._seen: tuple[Any, ...] | None = None
        self._since_s = self._looked_s = 0.0

    def ends_what_stands_still(self) -> bool:
        """Looks, and ends the holder's sessions if nothing has come of it for long.

        Whether it did. A store that is a file has none: its holder is on this machine.
        """
        if self._url.get_backend_name() != "postgresql":
            return False
        engine = database.engine(self._url)
        try:
            with engine.connect() as connection:
                return self._is_still(connection) and self._end(connection)
        except sa.exc.SQLAlchemyError:
            # Whoever asks for the store is told why it does not answer.
            self._seen = None
            return False
        finally:
            engine.dispose()

    def _is_still(self, connection: sa.Connection) -> bool:
        began_s = time.monotonic()
        found = tuple(connection.execute(_TIME).one())
        now_s = time.monotonic()
        was_held_up = now_s - began_s > LOOK_S or began_s - self._looked_s > LOOKS_APART_S
        self._looked_s = now_s
        if found != self._seen or was_held_up:
            self._seen, self._since_s = found, now_s
        return now_s - self._since_s >= STILL_S

    def _end(self, connection: sa.Connection) -> bool:
        assert self._seen is not None, "it was looked at"
        generation, engine_ns = self._seen
        values = {"generation": generation, "engine_ns": engine_ns}
        return bool(connection.execute(_END, values).all())
