"""Versions of the store's tables, oldest first; Alembic applies what is missing."""

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_HERE = Path(__file__).parent


class UnknownVersion(Exception):
    """The tables were made by another version of Weir."""


def bring_up_to_date(connection: Connection) -> None:
    """Applies what is missing to the tables behind a connection.

    Raises:
        UnknownVersion: they are of a version that is not known here.
    """
    if _version(connection) == newest():
        return
    # It takes a fifth of a second to load, and a restart hardly ever needs it.
    import alembic.command
    import alembic.config
    import alembic.util

    config = alembic.config.Config()
    config.set_main_option("script_location", str(_HERE))
    config.attributes["connection"] = connection
    try:
        alembic.command.upgrade(config, "head")
    except alembic.util.CommandError as error:
        raise UnknownVersion(str(error)) from None
    connection.commit()


def newest() -> str:
    """The version that the tables are to have; each file is named by its own."""
    names = (path.name for path in (_HERE / "versions").glob("v*_*.py"))
    return max(names)[1:].partition("_")[0]


def _version(connection: Connection) -> str | None:
    """The version that the tables have; None where there are none."""
    found = None
    if sa.inspect(connection).has_table("alembic_version"):
        found = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    connection.rollback()
    return found
