"""Statements that are compiled once for a database, and take rows as they are.

SQLAlchemy looks at every value of every row on its way to the driver, which takes longer than the
database does. What is written here is integers, text and truth values, which drivers know.

SQLite is given many rows in one statement, and by its driver itself. Row by row, Python's lock is
let go for each of them and waited for again, for as long as whoever answers requests meanwhile
pleases.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Dialect

# Rows in one statement: so many different numbers that few statements do for any, and so few that
# Python keeps them all ready.
_TOGETHER = (64, 32, *range(16, 0, -1))
_INSERT = re.compile(r"(INSERT INTO .* VALUES )(\(.*\))", re.DOTALL)
_UPDATE = re.compile(r"UPDATE (\w+) SET (.*) WHERE (\S+) = \?", re.DOTALL)


class Prepared:
    """One statement that writes many rows. SQLite's errors are `sqlite3.Error` here."""

    def __init__(self, statement: sa.Insert | sa.Update, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)
        self._text = str(compiled)
        # None where the driver takes parameters by name.
        self._values = _tuples(compiled.positiontup) if compiled.positional else None
        self._takes_many = dialect.name == "sqlite"

    def execute(self, connection: Connection, rows: Iterable[dict[str, Any]]) -> None:
        """Writes rows, each with a value for every parameter, in the connection's transaction."""
        values = self._values
        parameters: list[Any] = list(rows if values is None else map(values, rows))
        if not self._takes_many:
            connection.exec_driver_sql(self._text, parameters)
            return
        first = 0
        while first < len(parameters):
            left = len(parameters) - first
            together = next(x for x in _TOGETHER if x <= left)
            some = parameters[first : first + together]
            text = _for_many(self._text, together)
            _driver(connection).execute(text, tuple(itertools.chain.from_iterable(some)))
            first += together

    def change(self, connection: Connection, row: dict[str, Any]) -> int:
        """The same with one row; how many rows of the table it has changed."""
        values = self._values
        parameters: Any = row if values is None else values(row)
        if not self._takes_many:
            return connection.exec_driver_sql(self._text, parameters).rowcount
        rowcount: int = _driver(connection).execute(self._text, parameters).rowcount
        return rowcount


def _driver(connection: Connection) -> Any:
    """The driver's own connection, which raises the driver's own errors."""
    return connection.connection.driver_connection


@lru_cache(256)
def _for_many(text: str, rows: int) -> str:
    """The statement for so many rows at a time, whose values follow each other."""
    if rows == 1:
        return text
    if insert := _INSERT.fullmatch(text):
        return insert[1] + ", ".join([insert[2]] * rows)
    update = _UPDATE.fullmatch(text)
    assert update is not None, "what is written here is one or the other"
    table, changes, key = update.groups()
    names = [change.removesuffix("=?") for change in changes.split(", ")]
    given = ", ".join(f"{name} = given.column{at + 1}" for at, name in enumerate(names))
    row = f"({', '.join('?' * (len(names) + 1))})"
    return (
        f"UPDATE {table} SET {given} FROM (VALUES {', '.join([row] * rows)}) AS given "
        f"WHERE {key} = given.column{len(names) + 1}"
    )


def _tuples(names: Sequence[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """What gives the values of these names; for one name `itemgetter` makes no tuple."""
    if len(names) > 1:
        return itemgetter(*names)
    (name,) = names
    return lambda row: (row[name],)
