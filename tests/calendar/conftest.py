"""A calendar to test against: in this process for its answers, in one of its own to kill."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import httpx
import pytest
import uvicorn
from calendar_lab import CalendarProcess, headers, settings, wait_for
from rig import free_port

from weir.calendar.api import create_app
from weir.calendar.listener import listen
from weir.calendar.service import Service
from weir.calendar.store import Store
from weir.calendar.tokens import TokenFile


@contextlib.contextmanager
def served(directory, made):
    """A client, as its submitter, of an application served by a thread of this process."""
    store = Store(f"sqlite:///{directory / 'calendar.db'}")
    app = create_app(Service(settings(), store), TokenFile(directory / "tokens.json"))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    listener = listen("127.0.0.1:0")
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with httpx.Client(base_url=url, headers=headers(made["submit"])) as client:
        wait_for(lambda: server.started)
        yield client
    server.should_exit = True
    thread.join(10)
    listener.close()


@pytest.fixture(scope="session")
def token_directory(tmp_path_factory):
    return tmp_path_factory.mktemp("tokens")


@pytest.fixture(scope="session")
def tokens(token_directory):
    """One token for every role, and one that is bound to a host."""
    file = TokenFile(token_directory / "tokens.json")
    made = {role: file.create(role, role) for role in ("read", "submit", "agent", "admin")}
    made["other"] = file.create("other", "submit")
    made["dtn1"] = file.create("agent-dtn1", "agent", "dtn1")
    return made


@pytest.fixture
def api(tmp_path, token_directory, tokens):
    """A client of a fresh calendar."""
    shutil.copy(token_directory / "tokens.json", tmp_path)
    with served(tmp_path, tokens) as client:
        yield client


@pytest.fixture(scope="module")
def shared(token_directory, tokens):
    """A client of a calendar that several tests share: for what changes nothing."""
    with served(token_directory, tokens) as client:
        yield client


@pytest.fixture
def calendar(tmp_path):
    """A running calendar of its own process."""
    process = CalendarProcess(tmp_path)
    yield process.start()
    process.stop()


def _postgres_binaries():
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    if candidates:
        return candidates[0].parent
    found = shutil.which("initdb")
    return Path(found).parent if found else None


@pytest.fixture(scope="session")
def postgres():
    """The URL of a PostgreSQL cluster of its own, run as user postgres where this is root."""
    binaries = _postgres_binaries()
    assert binaries, "PostgreSQL is not here: install the Debian package postgresql"
    with tempfile.TemporaryDirectory(prefix="weir-postgres-") as directory:
        yield from _cluster(binaries, Path(directory))


def _cluster(binaries, directory):
    as_user = []
    if os.geteuid() == 0:
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        shutil.chown(directory, "postgres", "postgres")
    port = free_port()
    data = directory / "data"

    def run(*command):
        # Its output goes to a file: a server that inherits a pipe would hold it open.
        with (directory / "log").open("ab") as log:
            subprocess.run(
                [*as_user, *command], check=True, cwd="/", stdout=log, stderr=log, timeout=60
            )

    run(binaries / "initdb", "-D", data, "-U", "weir", "-E", "UTF8", "--auth=trust", "--no-sync")
    options = f"-p {port} -k {directory} -h 127.0.0.1"
    run(
        binaries / "pg_ctl",
        "-D",
        data,
        "-w",
        "-o",
        options,
        "-l",
        directory / "server.log",
        "start",
    )
    yield f"postgresql://weir@127.0.0.1:{port}/"
    run(binaries / "pg_ctl", "-D", data, "-m", "immediate", "stop")


@pytest.fixture
def postgres_store(postgres, request):
    """The URL of a fresh database."""
    import psycopg

    name = f"test_{abs(hash(request.node.nodeid))}"
    with psycopg.connect(f"{postgres}postgres", autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return f"{postgres}{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    """The URL of a fresh store of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    return request.getfixturevalue("postgres_store")
