"""A second service of the same store: it waits, and takes the place of the first when that dies."""

import asyncio
import socket
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from calendar_lab import request, settings, wait_for
from clusters import Cluster
from rig import PATIENCE_S
from standby_pair import Pair, log

from weir.calendar import client as client_module
from weir.calendar.agents.assignments import AssignmentStream
from weir.calendar.client import CalendarClient
from weir.calendar.problem import Problem
from weir.calendar.service.backlog import REQUESTS_MAX
from weir.calendar.service.service import Service
from weir.calendar.services import Services
from weir.calendar.storage.ownership import Fenced
from weir.calendar.storage.store import Store
from weir.errors import BadInput, Unavailable


@pytest.fixture
def pair(store_url, tmp_path):
    made = Pair(tmp_path, store_url)
    made.start()
    yield made
    made.stop()


def test_each_takes_the_place_of_the_other_with_all_that_was_promised(pair, monkeypatch):
    with pair.waiting.client() as second, pytest.raises(Unavailable, match="refused"):
        second.network()
    with pair.client() as client:
        one = client.submit(request(), "one")
        pair.serving.kill()
        # The client goes over by itself, and what it asks twice is done once.
        assert client.show(one["id"])["deadline"] == one["deadline"]
        assert client.submit(request(), "one")["id"] == one["id"]
        two = client.submit(request(destination_path="two"), "two")
        pair.swap()
        pair.serving.kill()
        assert {x["id"] for x in client.list("active")} == {one["id"], two["id"]}
        # This one is killed while nobody is there to take its place.
        pair.waiting.kill()
        monkeypatch.setattr(client_module, "TAKEOVER_S", 1.0)
        with pytest.raises(Unavailable, match=" or "):
            client.show(one["id"])


def test_requests_that_wait_are_answered_by_the_one_that_takes_over(pair):
    hour = {"deadline_s": 3600.0, "hold_s": 4.0}
    with pair.client() as client:
        # Light ones keep their places; what the link cannot carry beside them is refused.
        heavy = client.submit(request(size_bytes=400 * 10**9, **hour), "heavy")
        other = {"source": "dtn2", "destination": "dtn4"}
        light = client.submit(request(size_bytes=200 * 10**9, **hour, **other), "light")
        assert {heavy["state"], light["state"]} == {"waiting"}
        pair.serving.kill()
        # Not before the time that was given for it, and by then.
        taken = client.submit(request(size_bytes=200 * 10**9, **hour, **other), "light")
        assert (taken["id"], taken["answer_by"]) == (light["id"], light["answer_by"])
        answers = {x["id"]: client.wait_answer(x["id"]) for x in (heavy, light)}
        assert answers[light["id"]]["state"] == "accepted"
        refused = answers[heavy["id"]]
        assert refused["state"] == "refused"
        assert refused["refusal"]["link"].startswith("core")
        for one in (heavy, light):
            kinds = [x["kind"] for x in client.why(one["id"])["story"]]
            answered = [x for x in kinds if x in {"admitted", "refused"}]
            assert kinds[0] == "waiting" and len(answered) == 1


GATE = """
CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql
  AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(77); RETURN NEW; END';
CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON transfers {when}
  FOR EACH ROW EXECUTE FUNCTION gate();
SELECT pg_advisory_lock(77)
"""


@pytest.mark.parametrize("when", ["NOT DEFERRABLE", "INITIALLY DEFERRED"], ids=["row", "commit"])
def test_an_admission_that_its_service_dies_in_is_made_once(postgres_store, tmp_path, when):
    """The server holds it, and carries on with it later: what came in there is waited for."""
    pair = Pair(tmp_path, postgres_store)
    try:
        pair.start()
        with (
            psycopg.connect(postgres_store, autocommit=True) as gate,
            ThreadPoolExecutor() as pool,
            pair.client() as client,
        ):
            for statement in GATE.format(when=when).split(";\n"):
                gate.execute(statement)
            asked = pool.submit(client.submit, request(), "one")
            held = "SELECT 1 FROM pg_locks WHERE locktype='advisory' AND objid=77 AND NOT granted"
            wait_for(lambda: gate.execute(held).fetchone())
            pair.serving.kill()
            # The other one has the store's lock, and waits for what the server is at.
            row = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'UPDATE service%' AND pid <> ALL"
            row += "(SELECT pid FROM pg_locks WHERE objid=77) AND wait_event_type='Lock'"
            wait_for(lambda: gate.execute(row).fetchone())
            gate.execute("SELECT pg_advisory_unlock(77)")
            made = asked.result(PATIENCE_S)
            rows = gate.execute("SELECT id FROM transfers WHERE idempotency_key='one'").fetchall()
            assert rows == [(made["id"],)]
            assert [one["id"] for one in client.list("all")] == [made["id"]]
    finally:
        pair.stop()


def test_of_a_service_that_was_stopped_is_asked_again_what_can_be_asked_twice(shared, tokens):
    # Its kernel takes connections for it, and requests.
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        urls = f"http://127.0.0.1:{stopped.getsockname()[1]},{shared.base_url}"
        with CalendarClient(urls, tokens["submit"], timeout_s=0.3) as client:
            assert client.network()["nodes"]
        with CalendarClient(urls, tokens["submit"], timeout_s=0.3) as client:
            made = client.submit(request(destination_path="stopped"), "stopped")
        with CalendarClient(urls, tokens["submit"], timeout_s=0.3) as client:
            with pytest.raises(Unavailable, match="timed out"):
                client.submit(request(destination_path="other"))
            with pytest.raises(Unavailable, match="timed out"):
                client.cancel(made["id"])
            # Whichever of them it asks now.
            shown = client.list("active", 1_000)
            assert [x["id"] for x in shown if x["destination_path"] == "stopped"] == [made["id"]]
            assert not [x for x in shown if x["destination_path"] == "other"]


def test_a_superseded_service_answers_all_that_waits(tmp_path):
    async def scenario():
        service = Service(settings(), store := Store(f"sqlite:///{tmp_path / 's.db'}"))
        await service.start()
        goes_on = threading.Event()
        service._thread.submit(goes_on.wait)
        waiting = [asyncio.create_task(service.cancel(f"t{n}")) for n in range(REQUESTS_MAX + 5)]
        await asyncio.sleep(0)
        with store._engine.begin() as connection:
            connection.exec_driver_sql("UPDATE service SET generation = generation + 1")
        # Nothing was written, so its time is due.
        service._keeper.written_s = 0.0
        goes_on.set()
        answers = await asyncio.wait_for(
            asyncio.gather(*waiting, return_exceptions=True), PATIENCE_S
        )
        assert {x.status for x in answers} == {503}
        assert isinstance(service.failure, Fenced)
        with pytest.raises(Problem, match="taken it over"):
            await asyncio.wait_for(service.cancel("t1"), PATIENCE_S)
        await service.stop()

    asyncio.run(scenario())


def test_an_agent_goes_on_with_the_service_that_took_over(pair):
    async def follow():
        async with AssignmentStream(pair.url, pair.token, "dtn1") as stream:
            messages = stream.messages()
            first = await anext(messages)
            pair.serving.kill()
            while (message := await anext(messages))["kind"] != "snapshot":
                pass
            await stream.post("reports", {"data_address": "127.0.0.1:7411", "transfers": []})
            return first, message

    first, second = asyncio.run(asyncio.wait_for(follow(), PATIENCE_S))
    assert first["kind"] == second["kind"] == "snapshot"


@pytest.fixture
def clusters():
    """A primary and the replica that each of its commits waits for."""
    # Not below pytest's own folder, which user postgres may not enter.
    with tempfile.TemporaryDirectory(prefix="weir-replica-") as folder:
        primary = Cluster(Path(folder) / "primary", durable=False)
        replica = Cluster(Path(folder) / "replica", primary=primary)
        yield primary, replica
        replica.stop()
        primary.stop()


def test_a_promoted_replica_serves_the_service_that_takes_over(clusters, tmp_path):
    primary, replica = clusters
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{replica.port}"
    pair = Pair(tmp_path, f"postgresql://weir@{hosts}/postgres")
    try:
        pair.start()
        with pair.client() as client:
            promised = client.submit(request(), "one")
            pair.serving.kill()
            primary.kill()
            replica.promote()
            assert client.show(promised["id"])["state"] == "accepted"
            assert client.submit(request(), "one")["id"] == promised["id"]
            assert client.submit(request(destination_path="two"))["state"] == "accepted"
        assert "synchronous_standby_names" not in log(pair.serving)
        # The promoted one has no replica of its own yet.
        assert "synchronous_standby_names is empty" in log(pair.waiting)
    finally:
        pair.stop()


@pytest.mark.parametrize("wrong", ["", "http://a:1,", "http://a:1,ftp://b", "http://a:1 http://b"])
def test_what_is_no_list_of_services_is_named(wrong):
    with pytest.raises(BadInput, match="is not a URL"):
        Services(wrong)
