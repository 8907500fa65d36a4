"""PostgreSQL that stands still below the service: all are answered, nothing is lost, it ends."""

import sys
import tempfile
import threading
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from calendar_lab import CalendarProcess, headers, request, wait_for
from clusters import Cluster

from weir.calendar.storage import database, patience

# The service as it is, less patient than for a user's slow disk.
IMPATIENT = """
import sys
from weir.calendar.service import service
from weir.calendar.storage import patience
from weir.cli import main
patience.SILENCE_S, service.READ_S, service.STOP_S = 1.0, 2.0, 0.5
sys.exit(main(sys.argv[1:]))
"""
# For a busy machine; whoever is not answered waits for ever.
BOUND_S = 60.0


class ImpatientCalendar(CalendarProcess):
    def command(self):
        _, *arguments = super().command()
        return [sys.executable, "-c", IMPATIENT, *arguments]

    def log(self):
        return (self.directory / "calendar.log").read_text()


@pytest.fixture
def cluster():
    # Not below pytest's own folder, which user postgres may not enter.
    with tempfile.TemporaryDirectory(prefix="weir-silent-") as folder:
        made = Cluster(Path(folder) / "cluster", durable=False)
        yield made
        made.resume()
        made.stop()


@pytest.fixture
def serving(cluster, tmp_path):
    process = ImpatientCalendar(tmp_path, store=f"{cluster.url}postgres")
    yield process.start()
    if process.process.poll() is None:
        process.kill()


def asked(process, method, path, **options):
    """The status of an answer."""
    with httpx.Client(base_url=process.url, timeout=BOUND_S) as client:
        more = options.pop("headers", {})
        return client.request(
            method, path, headers=headers(process.token, **more), **options
        ).status_code


def answers(process):
    """The statuses of requests that are there at one time: writers, and readers of the store."""
    found = []

    def ask(*question, **options):
        found.append(asked(process, *question, **options))

    body = {"json": request(destination_path="two"), "headers": {"Idempotency-Key": "two"}}
    # More than there are threads that read.
    threads = [threading.Thread(target=ask, args=("GET", f"/v1/transfers/{n}")) for n in range(20)]
    threads += [
        threading.Thread(target=ask, args=("POST", "/v1/transfers"), kwargs=body) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_a_store_that_stands_still_leaves_nobody_without_an_answer(cluster, serving):
    with serving.client() as client:
        one = client.submit(request(), "one")["id"]
    cluster.pause()
    assert answers(serving) == [503] * 23
    wait_for(lambda: asked(serving, "GET", "/healthz") == 503, BOUND_S)
    cluster.resume()
    # It comes back by itself, and what was not answered is asked again.
    wait_for(lambda: asked(serving, "GET", "/healthz") == 200, BOUND_S)
    with serving.client() as client:
        two = client.submit(request(destination_path="two"), "two")["id"]
        assert {x["id"] for x in client.list("active")} == {one, two}
    cluster.pause()
    serving.process.terminate()
    serving.process.wait(BOUND_S)
    assert "does not answer, and the calendar ends without it" in serving.log()
    cluster.resume()
    serving.start()
    with serving.client() as client:
        assert {x["id"] for x in client.list("active")} == {one, two}


def test_only_silence_ends_a_session(postgres_store, monkeypatch):
    monkeypatch.setattr(patience, "SILENCE_S", 0.3)
    kept = patience.Patience()
    engine = database.engine(database.parsed(postgres_store), kept)
    silent = sa.text("SELECT pg_sleep(1)")
    # As long, and half a megabyte at a time.
    speaking = sa.text("SELECT repeat('x', 500000), pg_sleep(0.05) FROM generate_series(1, 20)")
    with engine.connect() as connection:
        assert len(connection.execute(speaking).all()) == 20
        with kept.endless():
            connection.execute(silent)
        with pytest.raises(sa.exc.OperationalError, match="has said nothing for"):
            connection.execute(silent)
    with engine.connect() as connection:
        # Told from another thread, as by a signal.
        threading.Timer(0.1, kept.end).start()
        with pytest.raises(sa.exc.OperationalError, match="has said nothing for 0 s"):
            connection.execute(silent)
    with pytest.raises(sa.exc.OperationalError, match="has not answered in time"):
        engine.connect()
    engine.dispose()
