"""One transfer over several paths: what is promised, told, kept over restarts and cuts."""

import asyncio
import contextlib
import json
import time
from dataclasses import replace

import httpx
import pytest
from calendar_lab import CalendarProcess, headers, message, request, wait_for
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from test_calendar_planner import GB, START, S, asked, running

from studies.rig.offline_bound import Request, offline_bound
from weir import Bytes, Time
from weir._core import Calendar
from weir.calendar.clock import parse_instant
from weir.calendar.network import Quotas, parse_network
from weir.calendar.planning.engine import RecordedEngine, together_bps
from weir.calendar.planning.planner import Planner
from weir.calendar.planning.wire import WIRE_PER_FILE_BYTE
from weir.calendar.rest.api import create_app
from weir.calendar.rest.tokens import TokenFile
from weir.calendar.service.service import Service
from weir.calendar.service.why import Known, Link, explain
from weir.calendar.settings import Settings
from weir.calendar.storage.store import Store
from weir.errors import BadInput

# Two ways from west to east that share nothing, of 100 and of 50 Mbit/s.
NETWORK = {
    "nodes": ["dtn1", "dtn2", "dtn3", "west", "north", "south", "far", "east"],
    "links": [
        {"name": "access1", "ends": ["dtn1", "west"], "capacity": "10 Gbit/s"},
        {"name": "access2", "ends": ["dtn2", "west"], "capacity": "10 Gbit/s"},
        {"name": "access3", "ends": ["east", "dtn3"], "capacity": "10 Gbit/s"},
        {"name": "north1", "ends": ["west", "north"], "capacity": "100 Mbit/s"},
        {"name": "north2", "ends": ["north", "east"], "capacity": "100 Mbit/s"},
        {"name": "south1", "ends": ["west", "south"], "capacity": "50 Mbit/s"},
        {"name": "south2", "ends": ["south", "far"], "capacity": "50 Mbit/s"},
        {"name": "south3", "ends": ["far", "east"], "capacity": "50 Mbit/s"},
    ],
}
NET = parse_network(NETWORK)
NORTH = ("access1.forward", "north1.forward", "north2.forward", "access3.forward")
SOUTH = (
    *("access1.forward", "south1.forward", "south2.forward", "south3.forward"),
    "access3.forward",
)
# What the two ways carry together in a minute, in bytes of files.
BOTH = int(150e6 / 8 * 60 / WIRE_PER_FILE_BYTE)
BOTH_PATHS = {"paths_max": 2, "paths_able": 2}


def planner(paths=2, quotas=None):
    calendar = Calendar(NET.engine_json(), "weir", Time("5 s"), paths=paths)
    more = {} if quotas is None else {"quotas": quotas}
    return Planner(RecordedEngine(calendar), [], margin_ns=0, plans_ahead=True, **more)


def narrowed(plan, most, at_ns=START, why="data is taken at 1 port on dtn3"):
    return plan.narrowed(at_ns, most, why)


@pytest.mark.parametrize("paths", [1, 2])
def test_a_promise_is_what_the_paths_carry_together_and_no_more(paths):
    # By a linear program that knows nothing of paths; one path alone is bounded by its own links.
    network = json.loads(NET.engine_json())
    wanted = Request("dtn1", "dtn3", 0.0, 60.0, 1e12)
    carried = offline_bound(network, [wanted]).value * 1e12 if paths == 2 else 100e6 * 60
    most = int(carried / 8 / WIRE_PER_FILE_BYTE)
    for part, is_admitted in ((0.99, True), (1.01, False)):
        plan = planner()
        outcome = plan.submit(START, asked("a", int(part * most), 60, paths_max=paths))
        assert (outcome.admitted == "a") is is_admitted
    assert together_bps({x: y.capacity_bps for x, y in NET.links.items()}, (NORTH, SOUTH)) == 150e6


def test_lanes_have_an_order_that_stays_and_sum_to_the_rate():
    plan = planner()
    outcome = plan.submit(START, asked("a", BOTH * 9 // 10, 60, **BOTH_PATHS))
    assert outcome.answer.paths == (NORTH, SOUTH)
    assert outcome.answer.path == NORTH
    assert outcome.lanes == plan.lanes == {"a": (100_000_000, 50_000_000)}
    assert plan.rates == {"a": 150_000_000}
    assert [x["path"] for x in outcome.events[0].data["lanes"]] == [list(NORTH), list(SOUTH)]
    # Whoever may take one path takes all of it from the other's shorter one in the end.
    plan.submit(START, asked("b", GB // 20, 60, source="dtn2"))
    assert plan.transfers["b"].paths == () and "b" not in plan.lanes
    assert sum(plan.lanes["a"]) == plan.rates["a"]


def test_a_request_that_one_path_refuses_is_told_that_two_would_do():
    plan = planner()
    wanted = asked("a", BOTH * 9 // 10, 60, paths_max=1, paths_able=2)
    forecast = plan.precheck(START, wanted).answer
    refusal = plan.submit(START, wanted).answer
    assert refusal.extra["paths_that_do"] == forecast.refusal.extra["paths_that_do"] == 2
    lanes = refusal.extra["lanes_that_do"]
    assert lanes == forecast.refusal.extra["lanes_that_do"]
    # As much as each carries, since it needs nine tenths of both.
    assert lanes == [
        {"path": list(NORTH), "rate_bps": 100_000_000},
        {"path": list(SOUTH), "rate_bps": 50_000_000},
    ]
    south = " > ".join(SOUTH)
    assert "over up to 2 paths: 100.0 Mbit/s over " in refusal.hint
    assert f"and 50.0 Mbit/s over {south}" in refusal.hint
    told = plan.precheck(START, replace(wanted, paths_max=2)).answer
    assert told.refusal is None and told.verdict.routes == (NORTH, SOUTH)
    made = plan.submit(START, replace(wanted, paths_max=2))
    assert made.admitted == "a" and made.answer.routes == tuple(tuple(x["path"]) for x in lanes)


def test_room_that_is_held_for_an_offer_is_held_on_every_path():
    calendar = Calendar(NET.engine_json(), "weir", Time("5 s"), paths=2)
    more = {"hold_ns": 60 * S, "plans_ahead": True}
    plan = Planner(RecordedEngine(calendar), [], margin_ns=0, **more)
    wanted = asked("a", BOTH * 3, 60, **BOTH_PATHS)
    refusal = plan.submit(START, wanted).answer
    assert refusal.extra["offer_held_s"] == 60
    assert set(plan._offers.of("me").links) == {*NORTH, *SOUTH}
    again = Planner(RecordedEngine(Calendar.restore(calendar.snapshot())), [], margin_ns=0, **more)
    assert again._offers.of("me") == plan._offers.of("me")


def test_a_quota_of_links_counts_what_each_path_carries():
    plan = planner(quotas=Quotas(link_share=0.5))
    # A third of what both carry is 50 of 150 Mbit/s: a third of each, half of the first alone.
    whole = asked("a", BOTH // 3, 60, **BOTH_PATHS)
    assert plan.submit(START, whole).admitted == "a"
    assert planner(quotas=Quotas(link_share=0.4)).submit(START, whole).admitted == "a"
    alone = replace(whole, paths_max=1)
    refused = planner(quotas=Quotas(link_share=0.4)).submit(START, alone).answer
    assert (refused.kind, refused.extra["link"]) == ("quota", "north1.forward")
    assert plan.submit(START, replace(whole, id="b", destination_path="y")).answer.kind == "quota"
    # Its paths were two when it came and are one when it goes: nothing stays behind.
    narrowed(plan, {"a": 1})
    plan.cancel(START, "a")
    assert plan.submit(START, replace(whole, id="c")).admitted == "c"


def cut(plan, link, at_ns=START):
    return plan.change_timetables(at_ns, [link], lambda x: replace(x, down=True))


def test_a_link_that_is_cut_leaves_what_the_other_path_carries():
    plan = planner()
    plan.submit(START, asked("a", BOTH // 4, 60, **BOTH_PATHS))
    plan.submit(START, asked("b", BOTH // 2, 60, destination_path="y", **BOTH_PATHS))
    outcome = cut(plan, "north2.forward")
    # The other carries a third of both: the smaller of the two promises.
    assert not plan.transfers["a"].risk
    assert plan.transfers["b"].risk.startswith("it is behind")
    assert {x: lanes[0] for x, lanes in plan.lanes.items()} == {"a": 0, "b": 0}
    assert sum(lanes[1] for lanes in plan.lanes.values()) == 50_000_000
    told = [x for x in outcome.events if x.kind == "at-risk"]
    assert [x.transfer for x in told] == ["b"] and "earliest" in told[0].data
    assert plan.transfers["a"].paths == (NORTH, SOUTH), "a lane without a rate keeps its place"


def test_agents_that_come_back_with_less_leave_the_first_paths():
    plan = planner()
    plan.submit(START, asked("a", BOTH // 2, 60, **BOTH_PATHS))
    plan.submit(START, asked("b", BOTH // 3, 600, destination_path="y", **BOTH_PATHS))
    outcome = narrowed(plan, {"a": 1, "b": 1})
    for identifier in ("a", "b"):
        transfer = plan.transfers[identifier]
        assert (transfer.path, transfer.paths, transfer.paths_max) == (NORTH, (), 1)
        assert not transfer.risk
    assert plan.lanes == {} and sum(plan.rates.values()) <= 100_000_000
    assert not plan._crossing["south2.forward"]
    assert [x.transfer for x in outcome.events if x.kind == "narrowed"] == ["a", "b"]
    # Told of once more nothing happens.
    assert narrowed(plan, {"a": 1, "b": 1}).events == []


def test_a_promise_that_the_paths_left_cannot_keep_is_said_to_be_at_risk():
    plan = planner()
    plan.submit(START, asked("a", BOTH * 9 // 10, 60, **BOTH_PATHS))
    outcome = narrowed(plan, {"a": 1})
    assert [x.kind for x in outcome.events] == ["narrowed", "rates", "at-risk"]
    # 9 tenths of what 150 Mbit/s carry in a minute take 100 Mbit/s 81 s.
    earliest_ns = parse_instant(outcome.events[-1].data["earliest"])
    assert abs(earliest_ns - START - 81 * S) < S
    assert plan.rates == {"a": 100_000_000}
    story = [x for x in outcome.events if x.transfer == "a"]
    links = {x: Link(x, y.capacity_bps, 0) for x, y in NET.links.items()}
    known = Known(START, plan.transfers, plan.rates, links, frozenset())
    told = explain(plan.transfers["a"], story, known)
    assert "It may be late" in told["answer"]
    assert "over 1 path: data is taken at 1 port on dtn3" in told["story"][0]["text"]


def test_why_names_every_path_with_its_rate():
    plan = planner()
    outcome = plan.submit(START, asked("a", BOTH * 9 // 10, 60, **BOTH_PATHS))
    plan.report(START + S, "dtn1", [running("a", 1_000_000)])
    links = {x: Link(x, y.capacity_bps, 0) for x, y in NET.links.items()}
    known = Known(START, plan.transfers, plan.rates, links, frozenset(), lanes=plan.lanes)
    told = explain(plan.transfers["a"], outcome.events, known)
    assert "100.0 Mbit/s over access1.forward > north1.forward" in told["answer"]
    assert "and 50.0 Mbit/s over access1.forward > south1.forward" in told["answer"]
    assert told["story"][0]["text"].count(" > ") == 7


# --- random networks ---


@st.composite
def networks(draw):
    """Up to seven nodes in a ring, so that two paths join any two, with chords."""
    count = draw(st.integers(3, 7))
    nodes = [f"n{number}" for number in range(count)]
    ends = [(nodes[at], nodes[(at + 1) % count]) for at in range(count)]
    chords = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    ends += [(nodes[a], nodes[b]) for a, b in draw(st.lists(chords, max_size=4)) if a != b]
    return {
        "nodes": nodes,
        "links": [
            {"name": f"l{at}", "ends": list(pair), "capacity_bps": draw(st.integers(1, 50)) * 10**6}
            for at, pair in enumerate(ends)
        ],
    }


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "submit", "cut", "mend", "narrow", "cancel", "tick"]),
        *(st.integers(0, 99) for _ in range(4)),
    ),
    min_size=3,
    max_size=25,
)


def taken(plan, net, now_ns, step, number):
    kind, a, b, c, d = step
    nodes, links, known = list(net.nodes), list(net.links), list(plan.transfers)
    if kind == "submit":
        ends = nodes[a % len(nodes)], nodes[(a + 1 + b % (len(nodes) - 1)) % len(nodes)]
        wanted = asked(
            f"t{number}",
            (1 + c) * 2_000_000,
            source=ends[0],
            destination=ends[1],
            deadline_ns=now_ns + (2 + d) * S,
            paths_max=1 + c % 4,
            hold_ns=20 * S if d % 3 == 0 else None,
            start_ns=now_ns + S if d % 7 == 0 else None,
        )
        plan.submit(now_ns, wanted)
    elif kind in ("cut", "mend"):
        down = kind == "cut"
        plan.change_timetables(now_ns, [links[a % len(links)]], lambda x: replace(x, down=down))
    elif kind == "narrow" and known:
        narrowed(plan, {known[a % len(known)]: 1 + b % 3}, now_ns)
    elif kind == "cancel" and known:
        plan.cancel(now_ns, known[a % len(known)])
    else:
        plan.tick(now_ns)


def check(plan, net):
    """What the planner tells of lanes is what the engine has, and no link carries too much."""
    on = dict.fromkeys(net.links, 0)
    for identifier, rate_bps in plan.rates.items():
        transfer, lanes = plan.transfers[identifier], plan.engine.lanes(identifier)
        assert tuple(path for path, _ in lanes) == transfer.routes
        assert len(lanes) <= transfer.paths_max
        assert sum(bps for _, bps in lanes) == rate_bps
        if transfer.paths:
            assert plan.lanes[identifier] == tuple(bps for _, bps in lanes)
        for path, bps in lanes:
            for link in path:
                on[link] += bps
    for link, bps in on.items():
        down = link in plan.timetables and plan.timetables[link].down
        assert bps <= (0 if down else net.links[link].capacity_bps)
    assert plan.lanes.keys() == {x for x in plan.rates if plan.transfers[x].paths}


@given(networks(), STEPS)
@hypothesis_settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_no_link_carries_more_than_it_can_and_a_replay_goes_on_with_the_same_lanes(network, steps):
    net = parse_network(network)
    calendar = Calendar(net.engine_json(), "weir-all", Time("5 s"), paths=4)
    plan = Planner(RecordedEngine(calendar), [], margin_ns=0, plans_ahead=True)
    text, recorded = calendar.snapshot(), []
    take = plan.engine.take_steps
    plan.engine.take_steps = lambda: [recorded.append(x) or x for x in take()]
    for number, step in enumerate(steps):
        taken(plan, net, START + number * S, step, number)
        check(plan, net)
    again = RecordedEngine(Calendar.restore(text))
    again.replay(recorded)
    assert again.rates() == plan.engine.rates()
    assert {x: again.lanes(x) for x in plan.rates} == {x: plan.engine.lanes(x) for x in plan.rates}


# --- the service ---


@contextlib.asynccontextmanager
async def served(directory, paths=2, policy="weir", store=None):
    """A service, and a client of it; a store that is given stays open."""
    tokens = TokenFile(directory / "tokens.json")
    if not (directory / "tokens.json").exists():
        (directory / "token").write_text(tokens.create("me", "admin"))
    token = (directory / "token").read_text()
    given = Settings(NET, policy, Time("5 s"), Time("1 s"), paths=paths)
    service = Service(given, Store(f"sqlite:///{directory / 'calendar.db'}"))
    app = create_app(service, tokens)
    await service.start()
    transport = httpx.ASGITransport(app)
    try:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://calendar", headers=headers(token)
        ) as client:
            yield service, client
    finally:
        await service.stop()


async def reported(client, host, **more):
    answer = await client.post(f"/v1/agents/{host}/reports", json={"transfers": [], **more})
    assert answer.status_code == 200, answer.text


async def both_hosts(client, ports=(7411, 7412), lanes_max=4):
    await reported(client, "dtn1", lanes_max=lanes_max)
    address = f"127.0.0.1:{ports[0]}"
    await reported(client, "dtn3", data_address=address, data_ports=list(ports))


def of_both(**more):
    return request(**{"size_bytes": BOTH * 8 // 10, "deadline_s": 60.0} | more)


async def submitted(client, **more):
    return (await client.post("/v1/transfers", json=of_both(**more))).json()


@pytest.mark.parametrize(
    ("known", "asks", "paths", "lanes"),
    [
        ({}, None, 4, 2),
        ({}, None, 1, 1),
        ({}, 1, 4, 1),
        ({"ports": (7411,)}, None, 4, 1),
        ({"lanes_max": 1}, None, 4, 1),
        (None, None, 4, 1),
    ],
)
def test_paths_are_what_service_hosts_and_request_all_can(tmp_path, known, asks, paths, lanes):
    async def answer():
        async with served(tmp_path, paths) as (service, client):
            if known is not None:
                await both_hosts(client, **known)
            body = request(size_bytes=10**7, deadline_s=60.0, paths=asks)
            forecast = (await client.post("/v1/prechecks", json=body)).json()
            told = (await client.post("/v1/transfers", json=body)).json()
            assigned = json.loads(service.assignment_text(service.active[told["id"]]))
            return forecast, told, assigned, (await client.get("/v1/network")).json()

    forecast, told, assigned, network = asyncio.run(answer())
    assert len(told["lanes"]) == len(forecast["lanes"]) == lanes
    assert told["lanes"] == assigned["lanes"]
    assert told["path"] == assigned["path"] == told["lanes"][0]["path"] == list(NORTH)
    assert sum(x["rate_bps"] for x in told["lanes"]) == told["rate_bps"] == assigned["rate_bps"]
    ports = (7411, 7412) if known is None else known.get("ports", (7411, 7412))
    assert assigned["data_ports"] == ([] if known is None else list(ports))
    allotted = {x["name"]: x["allotted_bps"] for x in network["links"]}
    for lane in told["lanes"]:
        assert allotted[lane["path"][1]] == lane["rate_bps"]


def test_a_restart_goes_on_with_the_very_same_lanes_and_ports_that_are_gone_narrow_them(tmp_path):
    async def before():
        async with served(tmp_path) as (service, client):
            await both_hosts(client)
            for number in range(4):
                await submitted(client, destination_path=f"x{number}", size_bytes=BOTH // 6)
            # What is not saved at the end: the next one replays steps.
            service._keeper.save = lambda: None
            return dict(service.lanes)

    async def after():
        async with served(tmp_path) as (service, client):
            kept = dict(service.lanes)
            # A host that has not spoken yet takes nothing back; nor does one that takes no data.
            await reported(client, "dtn3", data_address=None)
            assert service.lanes.keys() == kept.keys()
            await reported(client, "dtn3", data_address="127.0.0.1:7411")
            shown = (await client.get("/v1/transfers")).json()
            one = (await client.get(f"/v1/transfers/{shown[0]['id']}/why")).json()
            return kept, shown, one, dict(service.lanes)

    lanes = asyncio.run(before())
    kept, shown, why, none = asyncio.run(after())
    assert len(lanes) == 4 and kept == lanes
    assert none == {} and {len(x["lanes"]) for x in shown} == {1}
    assert any("data is taken at 1 port on dtn3" in x["text"] for x in why["story"])


def test_a_link_that_is_cut_is_answered_once_the_other_lane_has_its_rate(tmp_path):
    async def told():
        async with served(tmp_path) as (service, client):
            await both_hosts(client)
            body = await submitted(client, size_bytes=BOTH // 4)
            # A stream of a token that is not known ends within a second.
            token = client.headers["Authorization"].removeprefix("Bearer ")
            mine = TokenFile(tmp_path / "tokens.json").find(token).standing
            stream = service.open_stream("dtn1", "host", mine)
            assert message(await stream.take(1.0))["kind"] == "snapshot"
            began_s = time.monotonic()
            answer = await client.put("/v1/links/north1.forward/state", json={"up": False})
            took_s = time.monotonic() - began_s
            assert answer.status_code == 200
            # From here on nothing is waited for.
            change = message(await stream.take(0))
            now = (await client.get(f"/v1/transfers/{body['id']}")).json()
            return took_s, change["assign"][-1], now

    took_s, assigned, now = asyncio.run(told())
    assert [x["rate_bps"] for x in assigned["lanes"]] == [0, 50_000_000]
    assert [tuple(x["path"]) for x in assigned["lanes"]] == [NORTH, SOUTH]
    assert now["lanes"] == assigned["lanes"] and not now["at_risk"]
    assert took_s < 1.0


def test_who_stands_on_a_path_that_a_transfer_leaves_lets_go_of_it(tmp_path):
    """The edges of the nodes on both ways, the sender, and a controller, which hears of all."""
    places = [("dtn1", "host"), ("north", "edge"), ("south", "edge"), ("far", "edge")]
    places.append(("switches", "control"))

    async def held():
        """What each has been assigned and not been told to release: at first, later, at the end."""
        async with served(tmp_path) as (service, client):
            await both_hosts(client)
            # A stream of a token that is not known ends within a second.
            token = client.headers["Authorization"].removeprefix("Bearer ")
            mine = TokenFile(tmp_path / "tokens.json").find(token).standing
            streams = {host: service.open_stream(host, role, mine) for host, role in places}
            holds = {host: {} for host in streams}

            async def kept():
                for host, stream in streams.items():
                    while (text := await stream.take(0.1)) is not None:
                        told = message(text)
                        for identifier in told.get("release", ()):
                            holds[host].pop(identifier, None)
                        holds[host] |= {x["id"]: x for x in told["assign"]}
                return {host: list(x.values()) for host, x in holds.items() if x}

            body = await submitted(client, size_bytes=BOTH // 4)
            first = await kept()
            await reported(client, "dtn3", data_address="127.0.0.1:7411", data_ports=[7411])
            later = await kept()
            await client.delete(f"/v1/transfers/{body['id']}")
            return first, later, await kept()

    first, later, end = asyncio.run(held())
    assert first.keys() == {host for host, _ in places}
    assert later.keys() == {"dtn1", "north", "switches"}
    for (assigned,) in later.values():
        assert [tuple(x["path"]) for x in assigned["lanes"]] == [NORTH]
    assert end == {}


def test_a_service_that_is_killed_tells_the_same_lanes_again(tmp_path):
    options = ["--policy", "weir", "--paths", "2"]
    process = CalendarProcess(tmp_path, network=NETWORK, options=options).start()
    try:
        given = {"base_url": process.url, "headers": headers(process.token)}
        with httpx.Client(**given, timeout=60.0) as client:
            dtn3 = {"data_address": "127.0.0.1:7411", "data_ports": [7411, 7412]}
            client.post("/v1/agents/dtn1/reports", json={"lanes_max": 2})
            client.post("/v1/agents/dtn3/reports", json=dtn3)
            body = of_both(deadline_s=3_600.0, size_bytes=BOTH * 40)
            told = client.post("/v1/transfers", json=body).json()
            assert len(told["lanes"]) == 2
        process.kill()
        process.start()
        with httpx.Client(**given, timeout=60.0) as client:
            again = wait_for(lambda: client.get(f"/v1/transfers/{told['id']}").json())
            assert [x["path"] for x in again["lanes"]] == [x["path"] for x in told["lanes"]]
            assert sum(x["rate_bps"] for x in again["lanes"]) == again["rate_bps"]
            assert again["paths"] == 2
    finally:
        process.stop()


def test_policies_of_one_path_say_so():
    for paths, policy, words in (
        (2, "local-ljf", "sends each transfer over one path"),
        (9, "weir", "from 1 to 8"),
        (0, "weir", "from 1 to 8"),
    ):
        with pytest.raises(BadInput, match=words):
            Settings(NET, policy, Time("5 s"), Time("1 s"), paths=paths).check_paths()
    one = Settings(NET, "weir", Time("5 s"), Time("1 s"))
    assert one.configuration() != replace(one, paths=2).configuration()
    with pytest.raises(BadInput, match="one path"):
        Calendar(NET.engine_json(), "local-ljf", Time("5 s"), paths=2)
    calendar = Calendar(NET.engine_json(), "local-ljf", Time("5 s"))
    ends = ("a", "dtn1", "dtn3", Bytes("1 GB"), Time("1 h"))
    calendar.submit(Time("0 s"), *ends, paths=4)
    assert [tuple(path) for path, _ in calendar.lanes("a")] == [NORTH]
    assert calendar.narrow(Time("1 s"), "a", 1) == []
