"""Statements that are compiled once for a database, and take rows as they are.

SQLAlchemy looks at every value of every row on its way to the driver, which takes longer than the
database does. What is written here is integers, text and truth values, which drivers know.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Dialect


class Prepared:
    """One statement that writes many rows."""

    def __init__(self, statement: sa.Insert | sa.Update, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)
        self._text = str(compiled)
        # None where the driver takes parameters by name.
        self._values = _tuples(compiled.positiontup) if compiled.positional else None

    def execute(self, connection: Connection, rows: Iterable[dict[str, Any]]) -> None:
        """Writes rows, each with a value for every parameter, in the connection's transaction."""
        values = self._values
        parameters: list[Any] = list(rows if values is None else map(values, rows))
        connection.exec_driver_sql(self._text, parameters)

    def change(self, connection: Connection, row: dict[str, Any]) -> int:
        """The same with one row; how many rows of the table it has changed."""
        values = self._values
        parameters: Any = row if values is None else values(row)
        return connection.exec_driver_sql(self._text, parameters).rowcount


def _tuples(names: Sequence[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """What gives the values of these names; for one name `itemgetter` makes no tuple."""
    if len(names) > 1:
        return itemgetter(*names)
    (name,) = names
    return lambda row: (row[name],)
