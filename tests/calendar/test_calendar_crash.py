"""kill -9 of the service: what was answered is never lost, and the plan goes on as it was."""

import contextlib
import random
import signal
import sqlite3
import threading
import time

import httpx
import pytest
from calendar_lab import CalendarProcess, patient_client, request, wait_for
from rig import PATIENCE_S

from weir.errors import Unavailable, WeirError


@pytest.fixture
def crashing(tmp_path, store_url):
    process = CalendarProcess(tmp_path, store=store_url)
    yield process.start()
    process.stop()


class Submitter(threading.Thread):
    """Submits small transfers as fast as it may, and notes every id that was answered 201."""

    def __init__(self, process, name):
        super().__init__()
        self.process, self.name = process, name
        self.admitted, self.unanswered = [], []
        self.stopping = threading.Event()

    def run(self):
        count = 0
        headers = {"Authorization": f"Bearer {self.process.token}"}
        body = request(size_bytes=1_000, deadline_s=86_400.0)
        with patient_client(self.process.url, headers=headers) as client:
            while not self.stopping.is_set():
                count += 1
                key = f"{self.name}-{count}"
                try:
                    response = client.post(
                        "/v1/transfers", json=body, headers={"Idempotency-Key": key}
                    )
                except httpx.HTTPError:
                    self.unanswered.append(key)
                    self.stopping.wait(0.05)
                    continue
                if response.status_code == 201:
                    self.admitted.append((key, response.json()["id"]))


def test_no_admitted_transfer_is_lost_by_kill_9(crashing):
    seed = 2
    draw = random.Random(seed)
    submitters = [Submitter(crashing, f"s{n}") for n in range(4)]
    for submitter in submitters:
        submitter.start()
    for _ in range(4):
        before = sum(len(x.admitted) for x in submitters)
        wait_for(lambda n=before: sum(len(x.admitted) for x in submitters) > n + 5)
        # The random moment is the point of the test.
        for _ in range(1):
            time.sleep(draw.uniform(0.0, 0.3))
        crashing.kill()
        crashing.start()
    for submitter in submitters:
        submitter.stopping.set()
    for submitter in submitters:
        submitter.join()
    admitted = [pair for submitter in submitters for pair in submitter.admitted]
    assert len(admitted) >= 4 * 6
    with crashing.client() as client:
        active = {x["id"]: x for x in client.list("active", 1_000)}
        missing = [identifier for _, identifier in admitted if identifier not in active]
        assert not missing, f"seed {seed}: {len(missing)} of {len(admitted)} are gone"
        # Every one of them still has its share of the network, now or when its turn comes.
        assert not any(x["risk"] for x in active.values())
        # A key that was answered is not admitted a second time, and one that was not, once.
        keys = [key for key, _ in admitted[-5:]] + [x.unanswered[-1] for x in submitters[:1]]
        body = request(size_bytes=1_000, deadline_s=86_400.0)
        for key in keys:
            twice = {client.submit(body, key)["id"] for _ in range(2)}
            assert len(twice) == 1
            assert twice & {i for k, i in admitted if k == key} or key not in dict(admitted)


def test_a_restart_takes_up_the_same_rates_and_the_bytes_that_moved(crashing):
    with crashing.client() as client:
        first = client.submit(request(size_bytes=5 * 10**9))["id"]
        second = client.submit(
            request(source="dtn2", destination_path="z", size_bytes=10**9, deadline_s=90.0)
        )["id"]
        client._call(
            "POST",
            "/v1/agents/dtn1/reports",
            json={"transfers": [{"id": first, "state": "running", "bytes_durable": 10**9}]},
        )
        before = {x["id"]: x for x in client.list()}
    crashing.kill()
    crashing.start()
    with crashing.client() as client:
        after = {x["id"]: x for x in client.list()}
    for identifier in (first, second):
        for field in ("rate_bps", "bytes_durable", "state", "deadline", "path"):
            assert after[identifier][field] == before[identifier][field], field
    assert after[first]["bytes_durable"] == 10**9
    assert sum(x["rate_bps"] for x in after.values()) <= 10**9


def test_a_changed_network_is_planned_anew(tmp_path):
    process = CalendarProcess(tmp_path)
    process.start()
    with process.client() as client:
        made = client.submit(request(size_bytes=3 * 10**9))["id"]
    process.kill()
    text = process.network.read_text()
    process.network.write_text(text.replace('"1 Gbit/s"', '"600 Mbit/s"'))
    process.start()
    with process.client() as client:
        assert client.show(made)["rate_bps"] <= 600_000_000
        assert client.show(made)["at_risk"] is False or "agent" in client.show(made)["risk"]
        core = next(x for x in client.network()["links"] if x["name"] == "core.forward")
        assert 0 < core["allotted_bps"] <= core["capacity_bps"] == 600_000_000
    process.kill()
    process.network.write_text(text.replace('"1 Gbit/s"', '"100 Mbit/s"'))
    process.start()
    with process.client() as client:
        shown = client.show(made)
        # It cannot be on time any more, but it is neither lost nor left without capacity.
        assert shown["at_risk"] is True
        assert 0 < shown["rate_bps"] <= 100_000_000
    process.stop()


def test_a_second_service_on_the_same_store_is_turned_away(crashing, tmp_path):
    rival = CalendarProcess(tmp_path, store=crashing.store)
    rival.token = crashing.token
    with pytest.raises(AssertionError, match="another calendar service"):
        rival.start()
    assert rival.process.returncode == 6


def test_a_service_whose_store_was_taken_over_ends(calendar, tmp_path):
    (tmp_path / "calendar.db.lock").unlink()
    rival = CalendarProcess(tmp_path, store=calendar.store)
    rival.token = calendar.token
    rival.start()
    assert calendar.process.wait(PATIENCE_S) == 6
    log = (tmp_path / "calendar.log").read_text()
    assert "another calendar service has taken it over" in log
    assert "Traceback" not in log
    rival.stop()


def test_a_store_that_is_put_back_is_gone_on_from(calendar, tmp_path):
    live, copy = (sqlite3.connect(tmp_path / name) for name in ("calendar.db", "copy.db"))
    with calendar.client() as client:
        kept = client.submit(request(), "one")["id"]
        live.backup(copy)
        lost = client.submit(request(destination_path="two"), "two")["id"]
        copy.backup(live)
        log = tmp_path / "calendar.log"
        wait_for(lambda: "put back to" in log.read_text())
        # One tick later it knows what is there, and what was lost can be asked for again.
        again = wait_for(lambda: answered(client, request(destination_path="two"), "two"))
        assert again["id"] != lost
        assert {x["id"] for x in client.list("active")} == {kept, again["id"]}
    calendar.kill()
    calendar.start()
    with calendar.client() as client:
        assert {x["id"] for x in client.list("active")} == {kept, again["id"]}
    live.close()
    copy.close()


def answered(client, body, key):
    """What is answered to a request, if anything."""
    with contextlib.suppress(Unavailable):
        return client.submit(body, key)


def test_what_cannot_start_says_so_in_one_line(tmp_path):
    process = CalendarProcess(tmp_path)
    (tmp_path / "calendar.db").write_bytes(b"no database".ljust(5000))
    with pytest.raises(AssertionError, match="file is not a database"):
        process.start()
    assert process.process.returncode == 2
    log = (tmp_path / "calendar.log").read_text()
    assert log.count("\n") == 1 and "Traceback" not in log


def test_an_orderly_stop_answers_what_it_took(crashing):
    with crashing.client() as client:
        made = client.submit(request())["id"]
    crashing.stop()
    assert crashing.process.returncode in {0, -signal.SIGTERM}
    crashing.start()
    with crashing.client() as client:
        assert client.show(made)["state"] == "accepted"
        with pytest.raises(WeirError):
            client.show("nothing")
