"""A calendar to test against: in this process for its answers, in one of its own to kill."""

import contextlib
import shutil
import tempfile
import threading
from pathlib import Path

import pytest
import uvicorn
from calendar_lab import CalendarProcess, headers, patient_client, settings, wait_for
from clusters import Cluster
from rig import PATIENCE_S

from weir.calendar.rest.api import create_app
from weir.calendar.rest.tokens import TokenFile
from weir.calendar.service.service import Service
from weir.calendar.storage.store import Store
from weir.listener import listen


@contextlib.contextmanager
def served(directory, made, set_so=None):
    """A client, as its submitter, of an application served by a thread of this process."""
    store = Store(f"sqlite:///{directory / 'calendar.db'}")
    app = create_app(Service(set_so or settings(), store), TokenFile(directory / "tokens.json"))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    listener = listen("127.0.0.1:0")
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with patient_client(url, headers=headers(made["submit"])) as client:
            wait_for(lambda: server.started)
            yield client
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
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


@pytest.fixture(scope="session")
def postgres():
    """The URL of a PostgreSQL cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="weir-postgres-") as directory:
        cluster = Cluster(Path(directory) / "cluster", durable=False)
        yield cluster.url
        cluster.stop()


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
