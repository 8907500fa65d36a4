"""Statements that are compiled once for a database, and take rows as they are.

SQLAlchemy looks at every value of every row on its way to the driver, which takes longer than the
database does. What is written here is integers, text and truth values, which drivers know.
"""

from collections.abc import Iterable
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
        self._values = itemgetter(*compiled.positiontup) if compiled.positional else None

    def execute(self, connection: Connection, rows: Iterable[dict[str, Any]]) -> None:
        """Writes rows, each with a value for every parameter, in the connection's transaction."""
        values = self._values
        parameters: list[Any] = list(rows if values is None else map(values, rows))
        connection.exec_driver_sql(self._text, parameters)
