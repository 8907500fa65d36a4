"""How the store's database is reached: an SQLite file, or PostgreSQL on one host or several.

Of several hosts the one that can be written is used, so that a replica that is promoted is found
without a change of the URL (libpq, target_session_attrs).
"""

import re
import secrets
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine, make_url

from weir.calendar.storage.patience import Patience
from weir.errors import BadInput

# How a dead connection to PostgreSQL is noticed: within some ten seconds.
_POSTGRES_OPTIONS = {
    "client_encoding": "utf8",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",
}
# What the sessions of services are called, before a name of each one's own.
SESSIONS = "weir calendar"
# Where another host may answer, nobody waits for one that is gone for longer than libpq allows.
_SHORTEST_CONNECT_S = 2
# What is in SQLite's log is taken over beside the writer; only where that falls behind by so many
# pages, 64 MB, by a commit.
LOG_PAGES_MAX = 16_384
_PASSWORD = re.compile(r"(?<=:)(?!//)[^@:]*(?=@)|(?<=[?&]password=)[^&]*")
_SEVERAL_HOSTS = re.compile(
    r"(?P<before>[^/]*://(?:[^/@]*@)?)(?P<hosts>[^/@?]*,[^/@?]*)(?P<after>.*)"
)


def parsed(url: str) -> URL:
    """The URL of a store: sqlite:///FILE or postgresql://USER@HOST[:PORT][,HOST...]/DATABASE.

    Raises:
        BadInput: it is not one, or nothing would be kept there.
    """
    try:
        found = make_url(_hosts_as_options(url))
    except (sa.exc.ArgumentError, ValueError):
        hidden = _PASSWORD.sub("***", url)
        raise BadInput(
            f'"{hidden}" is not a store; write sqlite:///FILE or postgresql://USER@HOST/DATABASE'
        ) from None
    if found.drivername in {"postgres", "postgresql"}:
        found = found.set(drivername="postgresql+psycopg")
    if found.get_backend_name() not in {"sqlite", "postgresql"}:
        raise BadInput(f'"{found.drivername}" is not a store known here; use sqlite or postgresql')
    if found.get_backend_name() == "sqlite" and found.database in {None, "", ":memory:"}:
        raise BadInput("a store in memory would lose what was accepted; name a file")
    return found


def engine(url: URL, patience: Patience | None = None) -> Engine:
    """What opens connections to it; a commit that returns has reached the disk.

    Those to PostgreSQL wait for the server as long as `patience` lasts.
    """
    if url.get_backend_name() == "postgresql":
        options: dict[str, Any] = dict(_POSTGRES_OPTIONS)
        options["application_name"] = f"{SESSIONS} {secrets.token_hex(8)}"
        if has_several_hosts(url):
            options["connect_timeout"] = _SHORTEST_CONNECT_S
        made = sa.create_engine(url, pool_pre_ping=True, connect_args=options)
        # Who has SQLite need not load a driver.
        from weir.calendar.storage import session

        kept = patience or Patience()

        @sa.event.listens_for(made, "do_connect")
        def connect(_dialect: Any, _record: Any, args: Any, parameters: Any) -> Any:
            return session.connect(kept, *args, **parameters)

        return made
    made = sa.create_engine(url, connect_args={"timeout": 10})

    @sa.event.listens_for(made, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES_MAX}")

    return made


def shown(url: URL) -> str:
    """The URL without what is secret of it."""
    if "password" in url.query:
        url = url.update_query_dict({"password": "***"})
    return url.render_as_string(hide_password=True)


def has_several_hosts(url: URL) -> bool:
    """Whether one database server may take another's place."""
    return isinstance(url.query.get("host"), tuple)


def _hosts_as_options(url: str) -> str:
    """Several hosts as SQLAlchemy reads them, which libpq takes before the database's name."""
    match = _SEVERAL_HOSTS.fullmatch(url)
    if match is None:
        return url
    hosts = "&".join(f"host={host}" for host in match["hosts"].split(","))
    return f"{match['before']}{match['after']}{'&' if '?' in match['after'] else '?'}{hosts}"
