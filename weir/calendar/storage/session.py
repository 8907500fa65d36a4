"""Sessions with PostgreSQL that wait for a silent server only so long.

A server that is stopped, or whose storage or synchronous replica stands still, keeps its
connections: its kernel confirms what arrives, so that neither TCP's timeouts nor keepalives notice
anything. Whoever waited for such a server would never be answered, and never end.
"""

import time
from collections.abc import Generator
from typing import Any

import psycopg

from weir.calendar.storage.patience import Patience


class Session(psycopg.Connection[Any]):
    """A connection whose waiting has an end."""

    patience: Patience | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Waits until a request is answered.

        Raises:
            psycopg.OperationalError: it was not in time. The session is closed.
        """
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, asked: Generator[Any, Any, Any]) -> Any:
        """What psycopg waits for, until the server has been silent for too long."""
        heard_s = time.monotonic()
        try:
            wanted = next(asked)
            while True:
                # Nothing is ready where only time has passed.
                ready = yield wanted
                now_s = time.monotonic()
                if ready:
                    heard_s = now_s
                elif self.patience is not None and not self.patience.lasts(now_s - heard_s):
                    self.pgconn.finish()
                    raise psycopg.OperationalError(
                        f"the server has said nothing for {now_s - heard_s:.0f} s"
                    )
                wanted = asked.send(ready)
        except StopIteration as done:
            return done.value


def connect(patience: Patience, *args: Any, **parameters: Any) -> Session:
    """A new session, as psycopg makes one, with the patience of its store.

    Raises:
        psycopg.OperationalError: the server does not answer, or patience has ended.
    """
    if patience.is_over:
        raise psycopg.OperationalError("the server has not answered in time")
    session = Session.connect(*args, **parameters)
    session.patience = patience
    return session
