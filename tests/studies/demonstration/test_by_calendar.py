"""The calendar's half against the real service: admitted, refused, taken at the earliest."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn

from studies.demonstration import delivery_plan
from studies.demonstration.by_calendar import CalendarCarrier
from studies.demonstration.run_state import RunState
from weir import Bytes, Time
from weir.calendar.client import CalendarClient
from weir.calendar.network import parse_network
from weir.calendar.rest.api import create_app
from weir.calendar.rest.tokens import TokenFile
from weir.calendar.service.service import Service
from weir.calendar.settings import Settings
from weir.calendar.storage.store import Store
from weir.listener import listen

SHIPPED = Path(__file__).parents[3] / "scenarios" / "deadlines.toml"
NETWORK = {
    "nodes": ["hinxton", "geneva", "lapalma", "bologna", "paris", "milan"],
    "links": [
        {"ends": ["hinxton", "paris"], "capacity": "1 Gbit/s"},
        {"ends": ["geneva", "paris"], "capacity": "1 Gbit/s"},
        {"ends": ["lapalma", "paris"], "capacity": "1 Gbit/s"},
        {"name": "core", "ends": ["paris", "milan"], "capacity": "320 Mbit/s"},
        {"ends": ["milan", "bologna"], "capacity": "1 Gbit/s"},
    ],
}


@pytest.fixture
def calendar(tmp_path):
    """A running calendar without agents; yields what makes clients of it."""
    tokens = TokenFile(tmp_path / "tokens.json")
    token = tokens.create("test", "admin")
    settings = Settings(parse_network(NETWORK), "local-ljf", *map(Time, ("1 s",) * 3))
    app = create_app(Service(settings, Store(f"sqlite:///{tmp_path / 'calendar.db'}")), tokens)
    listener = listen("127.0.0.1:0")
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield lambda: CalendarClient(f"http://127.0.0.1:{listener.getsockname()[1]}", token)
    server.should_exit = True
    thread.join(timeout=60)
    assert not thread.is_alive()


@pytest.fixture
def state():
    return RunState.of("weir", delivery_plan.load(SHIPPED))


def changed(state, id, **fields):
    flow = state.flows[id]
    flow.transfer = replace(flow.transfer, **fields)
    flow.deadline_s = flow.transfer.deadline.ns / 1e9
    return flow


def ask(carrier, state, id):
    flow = state.flows[id]
    flow.submitted_s = state.now_s
    carrier.submit(state, flow)
    return flow


def paths(id):
    return f"outgoing/{id}", f"incoming/{id}"


def test_an_admission_gives_a_rate_and_slows_the_patient_one(calendar, state):
    with CalendarCarrier(calendar, paths, decisions := []) as carrier:
        first = ask(carrier, state, "genomes")
        assert first.state == "sending"
        assert first.allotted_bps == pytest.approx(320e6, rel=0.01)
        second = ask(carrier, state, "outbreak")
        assert second.state == "sending"
        # What the deadline needs, headers and margin apart.
        assert second.allotted_bps >= 85e6 * 8 / 7.5
        end = time.monotonic() + 30
        while first.allotted_bps > 320e6 - second.allotted_bps + 1e6:
            assert time.monotonic() < end, "the new rate was not heard of"
            carrier.poll(state)
            time.sleep(0.05)
    kinds = [(decision.id, decision.kind) for decision in decisions]
    assert kinds[:2] == [("genomes", "accepted"), ("outbreak", "accepted")]
    assert ("genomes", "rate") in kinds


def test_a_refusal_says_why_and_the_earliest_deadline_is_taken(calendar, state):
    with CalendarCarrier(calendar, paths, decisions := []) as carrier:
        flow = changed(state, "recheck", size=Bytes("200 MB"), deadline=Time("3 s"))
        ask(carrier, state, "recheck")
    # 200 MB at 320 Mbit/s take 5 s and more.
    assert flow.state == "sending"
    assert 5.0 < flow.deadline_s < 60.0
    refused, accepted = decisions
    assert (refused.kind, accepted.kind) == ("refused", "accepted")
    assert refused.link == "core.forward"
    assert refused.deadline_s == 3.0
    assert refused.earliest_deadline_s == pytest.approx(flow.deadline_s)
    assert "320 Mbit/s to give" in refused.detail
    # A busy machine may have it told as well how long an answer took.
    of_the_calendar = [event for event in state.events if "to answer" not in event.text]
    assert [event.tone for event in of_the_calendar] == ["bad", "good"]


def test_without_leave_to_wait_a_refusal_ends_it(calendar, state):
    with CalendarCarrier(calendar, paths, decisions := []) as carrier:
        asked = {"size": Bytes("200 MB"), "deadline": Time("3 s"), "takes_earliest": False}
        flow = changed(state, "alert", **asked)
        ask(carrier, state, "alert")
    assert flow.state == "failed"
    assert [decision.kind for decision in decisions] == ["refused"]
