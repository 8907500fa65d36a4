"""Answers that may wait: taken on trial, kept over a kill, answered in time, whatever happens."""

import dataclasses
import json
import subprocess

import httpx
import pytest
from calendar_lab import CalendarProcess, request, weir
from rig import WEIR
from test_calendar_planner import GB, START, S, asked, engine, kinds, running

from weir.calendar.planning.engine import RecordedEngine
from weir.calendar.planning.planner import Planner
from weir.calendar.records import Outcome


def planner(policy="weir-all"):
    return Planner(engine(policy), [], margin_ns=0, plans_ahead=policy.startswith("weir"))


def at(seconds):
    return START + seconds * S


def held(identifier="heavy", size_bytes=8 * GB, by_s=100, hold_s=15, **changes):
    return asked(identifier, size_bytes, by_s, hold_ns=hold_s * S, **changes)


def test_a_request_that_may_wait_is_sent_and_promised_when_nothing_lighter_came():
    plan = planner()
    made = plan.submit(START, held())
    assert (made.answer.state, made.answer.answer_ns) == ("waiting", at(15))
    assert kinds(made) == ["waiting", "rates"]
    assert (made.answer.is_sent, plan.rates["heavy"]) == (True, 10**9)
    moved = plan.report(at(5), "dtn1", [running("heavy", 500_000_000, 8 * GB)])
    assert (kinds(moved), moved.transfers["heavy"].state) == (["started"], "waiting")
    assert kinds(plan.tick(at(14))) == []
    answered = plan.tick(at(15))
    transfer = answered.transfers["heavy"]
    assert (transfer.state, transfer.answer_ns) == ("running", None)
    assert kinds(answered)[0] == "admitted"


def test_it_gives_way_to_what_is_lighter_and_is_refused_with_what_would_do():
    plan = planner()
    plan.submit(START, held())
    plan.report(at(0), "dtn1", [running("heavy", 0, 8 * GB)])
    made = plan.submit(at(1), asked("light", 5 * GB, 100, source="dtn2"))
    assert made.admitted == "light"
    assert (plan.rates["heavy"], plan.rates["light"]) == (0, 10**9)
    # The promise is kept from what waits from now on.
    assert plan.submit(at(2), asked("more", 9 * GB, 100, source="dtn2")).admitted is None
    answered = plan.tick(at(15))
    refused = answered.transfers["heavy"]
    assert (refused.state, refused.active, refused.is_sent) == ("refused", False, False)
    problem = json.loads(refused.refusal)
    assert problem["link"] == "core.forward"
    assert problem["earliest_deadline"] is not None
    assert problem["id"] == "heavy"
    refusal = next(x for x in answered.events if x.kind == "refused")
    assert (refusal.transfer, refusal.request) == ("heavy", "heavy")
    assert plan.rates.keys() == {"light"}
    # Its place at the destination is free.
    assert plan.submit(at(16), asked("again", GB, 900)).admitted == "again"


def test_a_part_is_promised_when_the_answer_comes():
    plan = planner()
    plan.submit(START, held(least_bytes=2 * GB))
    plan.submit(at(1), asked("light", 5 * GB, 100, source="dtn2"))
    answered = plan.tick(at(15)).transfers["heavy"]
    assert answered.state == "accepted"
    assert 2 * GB <= answered.promised_bytes < 8 * GB


def test_an_answer_comes_no_later_than_the_start():
    plan = planner()
    made = plan.submit(START, held(start_ns=at(10), hold_s=60)).answer
    assert (made.state, made.answer_ns, made.is_sent) == ("waiting", at(10), False)
    answered = plan.tick(at(10)).transfers["heavy"]
    assert (answered.state, answered.is_sent) == ("accepted", True)
    early = plan.submit(at(11), held("early", GB, 1000, 20, start_ns=at(500), source="dtn2")).answer
    assert early.answer_ns == at(31)
    assert plan.tick(at(31)).transfers["early"].state == "scheduled"


def test_a_policy_that_does_not_plan_ahead_answers_at_once():
    plan = planner("local-ljf")
    assert plan.submit(START, held()).answer.state == "accepted"


def test_a_precheck_says_what_would_be_answered_at_once():
    plan = planner()
    forecast = plan.precheck(START, held()).answer
    assert (forecast.refusal, forecast.verdict.accepted) == (None, True)


def test_it_is_cancelled_or_completed_before_it_is_answered():
    plan = planner()
    plan.submit(START, held())
    assert plan.cancel(at(1), "heavy").answer.state == "cancelled"
    plan.submit(at(2), held("small", GB))
    done = dataclasses.replace(running("small", GB, GB), state="done")
    end = plan.report(at(10), "dtn1", [done])
    assert (end.transfers["small"].state, end.transfers["small"].answer_ns) == ("completed", None)
    assert kinds(plan.tick(at(60))) == []


def test_what_is_larger_than_was_declared_is_refused():
    plan = planner()
    plan.submit(START, held("small", GB))
    moved = plan.report(at(1), "dtn1", [running("small", 0, 2 * GB)])
    assert moved.transfers["small"].state == "refused"
    assert "declared" in json.loads(moved.transfers["small"].refusal)["detail"]
    assert plan.engine.rates() == {}


def test_a_deadline_that_passes_meanwhile_is_no_missed_promise():
    """The service was away until long after the answer was due."""
    plan = planner()
    plan.submit(START, held())
    plan.submit(START, asked("light", 5 * GB, 100, source="dtn2"))
    late = plan.tick(at(200))
    assert late.transfers["heavy"].state == "refused"
    assert [x.transfer for x in late.events if x.kind == "missed"] == ["light"]


@pytest.mark.parametrize("policy", ["weir", "local-ljf"])
def test_another_policy_asks_again_for_what_waits(policy):
    plan = planner()
    waiting = plan.submit(START, held()).answer
    other = Planner(
        engine(policy),
        [dataclasses.replace(waiting, planned=False)],
        margin_ns=0,
        plans_ahead=policy == "weir",
    )
    other.readmit(at(5))
    if policy == "weir":
        assert other.transfers["heavy"].state == "waiting"
        other.tick(at(15))
    assert other.transfers["heavy"].state == "accepted"


def test_a_restart_gives_the_same_answers():
    plan = planner()
    calendar = type(plan.engine._calendar)
    snapshot = plan.engine.snapshot()
    steps = [*plan.submit(START, held()).steps]
    steps += plan.submit(at(1), held("other", 3 * GB, source="dtn2")).steps
    steps += plan.submit(at(2), asked("light", 5 * GB, 100, source="dtn2")).steps
    again = RecordedEngine(calendar.restore(snapshot))
    again.replay(steps)
    assert again.snapshot() == plan.engine.snapshot()
    other = Planner(again, plan.transfers.values(), margin_ns=0, plans_ahead=True)
    answers = [Outcome(), Outcome()]
    for place, one in enumerate((plan, other)):
        answers[place] = one.tick(at(15))
    assert answers[0].transfers == answers[1].transfers
    assert {x.state for x in answers[0].transfers.values()} >= {"refused"}


# --- over a real service ---


@pytest.fixture(scope="module")
def calendar(tmp_path_factory):
    process = CalendarProcess(tmp_path_factory.mktemp("held"), options=["--policy", "weir-all"])
    yield process.start()
    process.stop()


def larger(calendar, identifier):
    """The agent says that there is more of it than was declared: nothing is waited for then."""
    told = {"id": identifier, "state": "running", "bytes_durable": 0, "bytes_total": 10**12}
    with httpx.Client(headers={"Authorization": f"Bearer {calendar.token}"}) as plain:
        place = f"{calendar.url}/v1/agents/dtn1/reports"
        assert plain.post(place, json={"transfers": [told]}).status_code == 200


def test_a_request_that_waits_outlives_a_kill_and_is_answered(calendar):
    with calendar.client() as client:
        made = client.submit(request(hold_s=3.0, deadline_s=3600.0), "patient")
        assert made["state"] == "waiting" and made["answer_by"]
    calendar.kill()
    calendar.start()
    with calendar.client() as client:
        again = client.submit(request(hold_s=3.0, deadline_s=3600.0), "patient")
        assert again["id"] == made["id"]
        answered = client.wait_answer(made["id"])
        assert (answered["state"], answered["answer_by"]) == ("accepted", None)
        story = [x["kind"] for x in client.why(made["id"])["story"]]
        assert story[:1] == ["waiting"] and "admitted" in story
        client.cancel(made["id"])


def test_what_waits_is_told_of_and_what_is_lighter_is_admitted_at_once(calendar):
    hour = {"deadline_s": 3600.0, "hold_s": 600.0}
    with calendar.client() as client:
        made = client.submit(request(size_bytes=400 * GB, **hour))
        assert "waits for its answer" in client.why(made["id"])["answer"]
        assert "weir_waiting_requests 1.0" in client.metrics()
        light = {"source": "dtn2", "size_bytes": 200 * GB, "destination_path": "in/light"}
        other = client.submit(request(deadline_s=3600.0, **light))
        assert other["state"] == "accepted"
        shown = client.show(made["id"])
        assert (shown["state"], shown["rate_bps"], shown["at_risk"]) == ("waiting", 0, False)
        assert [x["id"] for x in client.list("waiting")] == [made["id"]]
        client.cancel(made["id"])
        client.cancel(other["id"])
        assert "weir_waiting_requests 0.0" in client.metrics()


def test_the_command_says_that_it_waits_and_what_was_answered(calendar):
    place = ["dtn1:data/x", "dtn3:in/x", "--size", "5 GB", "--by", "+1 h"]
    told = weir(calendar, "submit", *place, "--key", "x", "--hold", "10 min")
    identifier = told.split()[1].rstrip(":")
    assert told.startswith("waiting ") and "its answer comes by" in told
    larger(calendar, identifier)
    for options in ((), ("--answer",)):
        assert "5 GB were declared" in weir(calendar, "wait", identifier, *options, code=4)
    shown = json.loads(weir(calendar, "show", identifier, "--json"))
    assert (shown["state"], shown["refusal"]["status"]) == ("refused", 409)
    assert identifier in weir(calendar, "list", "--state", "refused")
    asked_why = [WEIR, "why", identifier, "--url", calendar.url, "--token", calendar.token]
    done = subprocess.run(asked_why, capture_output=True, text=True)
    assert "It was refused" in done.stdout
    # It can be asked for again under its key, as what was refused at once.
    again = json.loads(weir(calendar, "submit", *place, "--key", "x", "--json", "--hold"))
    assert (again["state"], again["id"] == identifier) == ("waiting", False)
    weir(calendar, "cancel", again["id"])
    assert "--hold" in weir(calendar, "submit", *place, "--hold", "soon", code=2)


def test_what_waits_is_answered_with_its_own_status(calendar):
    with httpx.Client(headers={"Authorization": f"Bearer {calendar.token}"}) as plain:
        place = f"{calendar.url}/v1/transfers"
        hour = request(hold_s=600.0, deadline_s=3600.0, destination_path="in/s")
        made = plain.post(place, json=hour)
        assert (made.status_code, made.json()["refusal"]) == (202, None)
        assert plain.delete(f"{place}/{made.json()['id']}").json()["state"] == "cancelled"
        wrong = plain.post(place, json=request(hold_s=0.0))
        assert (wrong.status_code, wrong.json()["field"]) == (422, "hold_s")
