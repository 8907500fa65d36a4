"""Agents and controllers that say what cannot be: others keep what they were promised, nothing is
counted twice, and each lie is refused or told in words."""

import asyncio
import json
import random
import threading
from dataclasses import replace

import pytest
from calendar_lab import NETWORK, headers, request, settings, wait_for
from test_calendar_planner import GB, NET, START, S, asked, engine, kinds, running

from weir import Time
from weir._core import Calendar, calendar_policies
from weir.calendar.network import parse_network
from weir.calendar.planning.engine import RecordedEngine
from weir.calendar.planning.planner import Planner
from weir.calendar.planning.reports import Report
from weir.calendar.planning.wire import WIRE_PER_FILE_BYTE
from weir.calendar.problem import Problem, not_found
from weir.calendar.rest.tokens import TokenFile
from weir.calendar.service.service import Service
from weir.calendar.storage.store import Store
from weir.errors import BadInput

AHEAD = ("weir", "weir-all")
CONSTANT = ("fixed", "local-ljf", "local-sjf", "global-ljf", "global-sjf")
STEP_S = 0.25


def planner(policy):
    return Planner(engine(policy), [], margin_ns=S, plans_ahead=policy in AHEAD)


def test_every_policy_of_the_calendar_is_tried():
    assert set(calendar_policies()) == {*AHEAD, *CONSTANT}


def full_links(plan):
    """Links of which more is given away than they have."""
    return [
        name
        for name, link in NET.links.items()
        if sum(plan._on_link(x.id, name) for x in plan.transfers.values() if x.planned)
        > link.capacity_bps
    ]


# --- progress that goes back ---


@pytest.mark.parametrize("policy", [*AHEAD, *CONSTANT])
def test_what_was_durable_and_is_gone_is_planned_anew(policy):
    """What was planned when little was left has no room for all: every report failed from then on,
    and with it those of the host's other transfers, of which what they had changed was lost."""
    plan = planner(policy)
    plan.submit(START, asked("a", GB, 60))
    plan.submit(START, asked("b", GB, 60))
    plan.report(START + S, "dtn1", [running("a", GB - 1_000_000), running("b", 0)])
    plan.hosts_lost(START + 5 * S, ["dtn1"])
    plan.tick(START + 61 * S)
    assert not plan.transfers["a"].planned
    plan.hosts_back(START + 62 * S, ["dtn1"])
    plan.tick(START + 64 * S)
    assert plan.transfers["a"].planned
    done = Report("b", "done", GB, GB)
    outcome = plan.report(START + 65 * S, "dtn1", [done, running("a", 0)])
    assert outcome.transfers["b"].state == "completed"
    assert plan.transfers["a"].planned
    assert plan.transfers["a"].remaining_bytes == GB
    assert plan.engine.size_bytes("a") >= GB
    assert not full_links(plan)
    plan.report(START + 66 * S, "dtn1", [running("a", GB // 2)])
    ended = plan.report(START + 80 * S, "dtn1", [Report("a", "done", GB, GB)])
    assert kinds(ended)[:1] == ["completed"]


def test_what_waits_for_its_answer_waits_on_when_what_was_there_is_gone():
    plan = planner("weir")
    plan.submit(START, asked("a", GB, 600, hold_ns=60 * S))
    assert plan.transfers["a"].state == "waiting"
    plan.report(START + S, "dtn1", [running("a", GB - 1_000)])
    again = Planner(engine("weir"), plan.transfers.values(), margin_ns=S, plans_ahead=True)
    again.readmit(START + 2 * S)
    assert again.transfers["a"].state == "waiting"
    again.report(START + 3 * S, "dtn1", [running("a", 0)])
    assert again.transfers["a"].state == "waiting"
    assert again.engine.size_bytes("a") >= GB


def lie(chance, transfer):
    """Anything that the interface lets an agent say of one of its transfers."""
    declared = transfer.declared_bytes
    total = chance.choice([0, 1, declared // 3, declared, declared, chance.randint(1, declared)])
    if chance.random() < 0.05:
        total = chance.choice([declared * 5, 10**18])
    durable = chance.choice([None, 0, total, chance.randint(0, 2 * max(1, total)), 10**18])
    state = chance.choices(["running", "waiting", "done", "failed"], [100, 50, 2, 1])[0]
    return Report(transfer.id, state, durable, total)


def finished(transfer):
    size = transfer.declared_bytes
    return Report(transfer.id, "done", size, size)


def passes(plan, now_ns, until_ns, sent):
    """Time passes as it does in the service, where turns of the plan and ends of transfers are told
    when they come: the honest send at the rates that they have been told. Says who was late."""
    late = []
    while now_ns < until_ns:
        rates = {x: plan.rates.get(x, 0) for x in sent if x in plan.transfers}
        speeds = {x: rate / 8 / WIRE_PER_FILE_BYTE for x, rate in rates.items() if rate}
        left = {x: plan.transfers[x].declared_bytes - sent[x] for x in speeds}
        ends = [now_ns + int(left[x] / speed * S) + 1 for x, speed in speeds.items()]
        next_ns = min([until_ns, plan.turn_ns or until_ns, *ends])
        next_ns = max(next_ns, now_ns + 1)
        for name, speed in speeds.items():
            sent[name] += speed * (next_ns - now_ns) / S
        now_ns = next_ns
        plan.tick(now_ns)
        for transfer in [plan.transfers[x] for x in speeds]:
            if sent[transfer.id] >= transfer.declared_bytes:
                outcome = plan.report(now_ns, transfer.source, [finished(transfer)])
                (end,) = [x for x in outcome.events if x.kind == "completed"]
                late += [] if end.data["on_time"] else [transfer.id]
    return late


@pytest.mark.parametrize("policy", [*AHEAD, *CONSTANT])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_an_agent_says_others_are_on_time_and_no_link_is_promised_twice(policy, seed):
    chance, plan, now_ns = random.Random(seed), planner(policy), START
    sent, lies = {}, 0
    for number in range(480):
        before_ns, now_ns = now_ns, now_ns + int(STEP_S * S)
        assert passes(plan, before_ns, now_ns, sent) == []
        for transfer in list(plan.transfers.values()):
            if transfer.source == "dtn1":
                plan.report(now_ns, "dtn1", [lie(chance, transfer)])
                lies += 1
                continue
            moved = int(sent[transfer.id])
            plan.report(now_ns, "dtn2", [running(transfer.id, moved, transfer.declared_bytes)])
        if chance.random() < 0.12:
            ends = {"source": chance.choice(["dtn1", "dtn2"]), "destination": "dtn4"}
            wanted = asked(f"t{number}", chance.randint(10**6, 2 * GB), 0, **ends)
            deadline_ns = now_ns + chance.choice([5, 20, 60, 100]) * S
            made = plan.submit(now_ns, replace(wanted, deadline_ns=deadline_ns)).admitted
            if made and wanted.source == "dtn2":
                sent[made] = 0.0
        assert not full_links(plan)
        assert plan.engine.rates() == plan.rates
        honest = [x for x in plan.transfers.values() if x.source == "dtn2"]
        assert not [x.id for x in honest if x.missed or x.risk]
    assert lies > 200
    assert len(sent) > 5


# --- what cannot be, in words ---


def test_who_reports_more_than_there_is_is_told_of():
    plan = planner("local-ljf")
    plan.submit(START, asked("a", GB, 60))
    plan.report(START + S, "dtn1", [running("a", 7 * GB, total=GB)])
    assert plan.transfers["a"].bytes_durable == GB
    said = f"its agent says that {7 * GB} of its {GB} bytes are there"
    assert plan.transfers["a"].error == said
    plan.report(START + 2 * S, "dtn1", [running("a", GB // 2, total=GB)])
    assert plan.transfers["a"].error is None


@pytest.mark.parametrize("state", ["done", "failed", "running"])
def test_nothing_is_reported_of_what_has_not_begun(state):
    plan = planner("weir")
    plan.submit(START, asked("a", GB, 600, start_ns=START + 300 * S))
    report = Report("a", state, GB, GB)
    outcome = plan.report(START + S, "dtn1", [report])
    assert (outcome.answer, kinds(outcome)) == (["a"], [])
    assert (plan.transfers["a"].state, plan.transfers["a"].bytes_durable) == ("scheduled", 0)
    plan.tick(START + 301 * S)
    assert plan.report(START + 302 * S, "dtn1", [report]).answer == []


@pytest.mark.parametrize("what", ["nodes", "links"])
def test_two_spellings_of_one_name_are_no_two_hosts_and_no_two_links(what):
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    links = [{"name": composed, "ends": ["dtn1", "west"], "capacity": "1 Gbit/s"}]
    again = {"nodes": decomposed, "links": {**links[0], "name": decomposed}}[what]
    content = {"nodes": ["dtn1", "west"], "links": links}
    if what == "nodes":
        content["nodes"] += [composed]
    content[what] = [*content[what], again]
    with pytest.raises(BadInput, match=f"{what}: .*are one name, spelled twice"):
        parse_network(content)


# --- what is counted ---


def counted(client, name):
    lines = client.get("/metrics").text.splitlines()
    return next(float(x.split()[1]) for x in lines if x.startswith(f"{name} "))


def test_bytes_are_counted_once_however_often_they_are_reported(api, tokens):
    made = api.post("/v1/transfers", json=request()).json()["id"]
    for durable in (400, 0, 400, 100, 300, 500, 499):
        report = {"id": made, "state": "running", "bytes_durable": durable * 10**6}
        given = headers(tokens["dtn1"])
        api.post("/v1/agents/dtn1/reports", headers=given, json={"transfers": [report]})
    assert counted(api, "weir_delivered_bytes_total") == 500e6
    report = {"id": made, "state": "done", "bytes_total": 10**9}
    api.post(
        "/v1/agents/dtn1/reports", headers=headers(tokens["dtn1"]), json={"transfers": [report]}
    )
    assert counted(api, "weir_delivered_bytes_total") == 1e9


def test_what_was_carried_stays_so_unless_a_controller_counts_from_nothing(api, tokens):
    made = api.post("/v1/transfers", json=request()).json()["id"]

    def said(promised, carried):
        kept = {"id": made, "promised_bytes": promised, "carried_bytes": carried}
        body = {"edge": True, "kept": [kept]}
        api.post("/v1/agents/west/reports", headers=headers(tokens["agent"]), json=body)
        return api.get(f"/v1/transfers/{made}").json()["promise"]["carried_bytes"]

    assert [said(*x) for x in [(100, 90), (200, 10), (300, 90)]] == [90, 90, 90]
    assert counted(api, "weir_carried_wire_bytes") == 90
    assert said(50, 40) == 40
    assert counted(api, "weir_carried_wire_bytes") == 130


# --- commands that fail half way ---


def test_a_command_that_fails_half_way_is_not_half_carried_out(tmp_path):
    async def run():
        service = Service(settings(), Store(f"sqlite:///{tmp_path / 'calendar.db'}"))
        await service.start()
        told = asked("a", GB, 60)
        told = replace(told, deadline_ns=service.now_ns() + 60 * S)
        await service.submit(told)

        def half(planner, now_ns):
            planner.report(now_ns, "dtn1", [Report("a", "done", GB, GB)])
            raise not_found("thing", "b")

        def nothing(planner, now_ns):
            raise not_found("thing", "b")

        refused = []
        for command in (half, nothing):
            with pytest.raises(Problem) as caught:
                await service._command(command)
            refused.append(caught.value.status)
        # Nothing of it was stored, so nothing of it is so: the agent says it again.
        assert await service.report("dtn1", [Report("a", "done", GB, GB)]) == []
        ended = await service.find("a")
        await service.stop()
        return refused, ended.state

    assert asyncio.run(run()) == ([503, 404], "completed")


def test_a_request_that_no_path_leads_to_loses_nothing_else_that_it_brought():
    """By then the offer that had lapsed was given up in the engine, and nobody was told rates."""
    away = {"name": "away", "from": "island", "to": "west", "capacity": "1 Gbit/s"}
    nodes, links = [*NETWORK["nodes"], "island"], [*NETWORK["links"], away]
    network = parse_network({"nodes": nodes, "links": links})
    calendar = Calendar(network.engine_json(), "local-ljf", Time("5 s"))
    plan = Planner(RecordedEngine(calendar), [], margin_ns=0, hold_ns=60 * S)
    plan.submit(START, asked("a", 6 * GB, 60))
    assert plan.submit(START, asked("b", 6 * GB, 60)).answer.status == 409
    assert plan.engine.held()
    outcome = plan.submit(START + 90 * S, asked("c", GB, 160, destination="island", owner="x"))
    assert outcome.answer.status == 422
    assert "island" in outcome.answer.detail
    assert outcome.steps
    assert not plan.engine.held()


# --- rights that are taken away ---


@pytest.mark.parametrize("change", [{"role": "agent"}, {"role": "agent", "host": "dtn2"}, {}])
def test_a_stream_ends_when_its_token_may_something_else(api, tmp_path, change):
    path = tmp_path / "tokens.json"
    token, ended = TokenFile(path).create("was-admin", "admin"), []

    def rewrite(change):
        told = json.loads(path.read_text())
        for entry in told["tokens"]:
            if entry["name"] == "was-admin":
                entry |= change
        path.write_text(json.dumps(told))

    opened = threading.Event()

    def read():
        with api.stream("GET", "/v1/events", headers=headers(token)) as response:
            opened.set()
            for _ in response.iter_raw():
                pass
        ended.append(True)

    reader = threading.Thread(target=read)
    reader.start()
    assert opened.wait(10)
    rewrite(change)
    if not change:
        # Written anew, and the same: it goes on.
        assert api.get("/v1/elephants", headers=headers(token)).status_code == 200
        reader.join(1)
        assert not ended
        rewrite({"role": "read"})
    wait_for(lambda: ended)
    reader.join(10)
