"""Capacity that changes: timetables by the clocks, maintenance, links that are down."""

import asyncio
import itertools
import subprocess
from dataclasses import replace
from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from calendar_lab import (
    NETWORK,
    WEIR,
    CalendarProcess,
    headers,
    request,
    settings,
    wait_for,
)
from test_calendar_planner import GB, START, S, asked, engine, kinds

from weir.calendar.agents.assignments import AssignmentStream
from weir.calendar.clock import format_instant
from weir.calendar.network import parse_network
from weir.calendar.planning.planner import Planner
from weir.calendar.problem import Problem
from weir.calendar.timetable import HORIZON_DAYS, Entry, Piece, Timetable, check
from weir.errors import BadInput

GBIT = 10**9
BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = Entry(4 * GBIT, "22:00", "06:00", daily=True, zone="Europe/Berlin")


def local_ns(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()) * S


def dated(capacity_bps, from_s, to_s):
    return Entry(capacity_bps, format_instant(START + from_s * S), format_instant(START + to_s * S))


# --- timetables as instants ---


def test_a_night_is_longer_when_the_clocks_go_back():
    """In the night to 25 October 2026 the clocks of Berlin show 02:00 to 03:00 twice."""
    now_ns = local_ns("2026-10-23T12:00")
    pieces, rest = Timetable((NIGHT,)).plan(now_ns, GBIT)
    nights = [x for x in pieces if x.capacity_bps == 4 * GBIT]
    assert nights[0].from_ns == local_ns("2026-10-23T22:00")
    hours = [(x.to_ns - x.from_ns) / 3600 / S for x in nights[:4]]
    assert hours == [8, 9, 8, 8]
    assert [datetime.fromtimestamp(x.from_ns / S, BERLIN).hour for x in nights] == [22] * len(
        nights
    )
    assert (len(nights), rest) == (HORIZON_DAYS, GBIT)
    # No time is left out, and none told twice.
    assert all(a.to_ns == b.from_ns for a, b in itertools.pairwise(pieces))


CHANGES = [
    ("Europe/Berlin", "2026-03-29T02:00"),
    ("Europe/Berlin", "2026-10-25T02:00"),
    ("Australia/Lord_Howe", "2026-10-04T02:00"),
    ("America/Santiago", "2026-09-06T00:00"),
]
AROUND = [("02:30", "03:00"), ("02:10", "02:50"), ("01:00", "02:30"), ("22:00", "02:15")]


@pytest.mark.parametrize(("zone", "change"), CHANGES)
@pytest.mark.parametrize(("start", "until"), [*AROUND, ("00:15", "00:45"), ("02:30", "02:00")])
def test_an_entry_is_by_the_clocks_of_each_day_whenever_it_is_read(zone, change, start, until):
    """On all days but that of the change the clocks, minute by minute, say when it holds."""
    entry = Entry(4 * GBIT, start, until, daily=True, zone=zone)
    clocks = ZoneInfo(zone)
    changes = datetime.fromisoformat(change).replace(tzinfo=clocks)
    for hours in range(-40, 60, 5):
        now_s = int(changes.timestamp()) + hours * 3600
        pieces = entry.pieces(now_s * S, 4)
        for minute in range(0, 4 * 1440, 5):
            at_s = now_s + minute * 60
            local = datetime.fromtimestamp(at_s, clocks)
            if local.date() == changes.date():
                continue
            shown = f"{local:%H:%M}"
            inside = start <= shown < until if start < until else not until <= shown < start
            held = any(x.from_ns <= at_s * S < x.to_ns for x in pieces)
            assert held == inside, (local, now_s)


STRANGE = Entry(GBIT // 4, "22:00", "06:00", daily=True, zone="Mars/Olympus")


def test_by_a_zone_that_a_machine_does_not_know_the_least_counts_at_all_hours():
    """A standby may lack what the machine before it had: its service did not start, nor could the
    link be told to be down."""
    maintenance = Entry(0, format_instant(START), format_instant(START + 60 * S))
    stored = Timetable((NIGHT, STRANGE, maintenance))
    assert stored.strange_zones == ["Mars/Olympus"]
    assert [stored.capacity_bps(START + x * S, GBIT) for x in (0, 60)] == [0, GBIT // 4]
    pieces, rest_bps = stored.plan(START, GBIT)
    assert [x.capacity_bps for x in pieces] == [0, GBIT // 4]
    assert rest_bps == GBIT // 4
    # Entries that give more than usual give nothing then.
    more = Timetable((replace(STRANGE, capacity_bps=4 * GBIT),))
    assert more.capacity_bps(START, GBIT) == GBIT


def test_a_link_with_such_a_zone_can_be_told_to_be_down_and_gets_no_more_of_its_kind():
    known = {"core.forward": Timetable((STRANGE,))}
    plan = Planner(engine(), [], margin_ns=0, timetables=known)
    plan.tick(START)
    for down in (True, False):
        change = partial(replace, down=down)
        plan.change_timetables(START + S, ["core.forward"], change)
        assert plan.timetables["core.forward"].down is down
    assert plan.engine.capacities_bps["core.forward"] == GBIT
    plan.submit(START + 2 * S, asked("a", 6 * GB, 60))
    assert not plan.transfers
    with pytest.raises(BadInput, match="not a time zone here"):
        other = replace(STRANGE, capacity_bps=1)
        wrong = Timetable((STRANGE, other))
        plan.change_timetables(START + 3 * S, ["core.forward"], lambda _: wrong)


def test_it_holds_within_a_night_and_outside_it():
    table = Timetable((NIGHT,))
    for clock, gbit in (("21:59", 1), ("22:00", 4), ("03:00", 4), ("05:59", 4), ("06:00", 1)):
        assert table.capacity_bps(local_ns(f"2026-10-23T{clock}"), GBIT) == gbit * GBIT


def test_what_is_dated_goes_before_what_is_daily_and_down_before_both():
    works = Entry(0, "2026-10-23T21:00:00Z", "2026-10-23T22:00:00Z")
    table = Timetable((NIGHT, works))
    at_ns = local_ns("2026-10-23T23:30")
    assert table.capacity_bps(at_ns, GBIT) == 0
    pieces, _ = table.plan(local_ns("2026-10-23T22:30"), GBIT)
    assert [x.capacity_bps for x in pieces[:3]] == [4 * GBIT, 0, 4 * GBIT]
    down = Timetable((NIGHT, works), down=True)
    assert (down.plan(at_ns, GBIT), down.capacity_bps(at_ns, GBIT)) == (([], 0), 0)
    assert Timetable.from_json(down.to_json()) == down


def test_beyond_the_days_ahead_nothing_is_promised_that_may_not_be_there():
    less = Entry(GBIT // 2, "22:00", "06:00", daily=True)
    assert Timetable((less,)).plan(START, GBIT)[1] == GBIT // 2
    assert Timetable((dated(0, 0, 60),)).plan(START, GBIT) == (
        [
            Piece(START, START + 60 * S, 0),
            Piece(START + 60 * S, START + HORIZON_DAYS * 86_400 * S, GBIT),
        ],
        GBIT,
    )


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([dated(1, 60, 60)], "is empty"),
        ([dated(1, 60, 0)], "is empty"),
        ([dated(1, -60, -30)], "in the past"),
        ([dated(1, 0, 500 * 86_400)], "400 days ahead"),
        ([dated(1, 0, 60), dated(2, 59, 70)], "overlap, first at"),
        ([NIGHT, Entry(1, "05:00", "07:00", daily=True, zone="Europe/Berlin")], "overlap"),
        # Only in winter.
        ([NIGHT, Entry(1, "04:00", "05:00", daily=True, zone="UTC")], "overlap"),
        ([Entry(1, "22:00", "22:00", daily=True)], "is empty"),
        ([Entry(1, "25:00", "06:00", daily=True)], '"25:00"'),
        ([Entry(1, "2030-01-01T00:00:00Z", "06:00", daily=True)], "not a time of day"),
        ([Entry(1, "2030-01-01 22:00", "06:00", daily=True)], "not a time of day"),
        ([Entry(1, "6:00", "06:00:00", daily=True)], "is empty"),
        ([Entry(1, "22:00", "06:00", daily=True, zone="Mars/Olympus")], "not a time zone"),
        ([Entry(1, "22:00", "06:00", daily=True, zone="../../etc/passwd")], "not a time zone"),
        ([Entry(1, "22:00", "06:00")], "RFC 3339"),
        ([dated(1, 60 * x, 60 * x + 1) for x in range(65)], "64 entries"),
    ],
)
def test_entries_that_cannot_be_are_named(entries, said):
    with pytest.raises(BadInput, match=said):
        check(entries, START)


def test_entries_that_touch_do_not_overlap():
    check([dated(1, 0, 60), dated(2, 60, 120), NIGHT], START)


def test_the_network_file_may_have_a_timetable():
    entry = {"capacity": "4 Gbit/s", "from": "22:00", "to": "06:00", "daily": True}
    night = entry | {"zone": "Europe/Berlin"}

    def parsed(*timetable):
        links = [NETWORK["links"][0] | {"timetable": list(timetable)}, *NETWORK["links"][1:]]
        return parse_network(NETWORK | {"links": links})

    assert parsed(night).links["access1.backward"].timetable == (NIGHT,)
    table = Timetable(fixed=(NIGHT,))
    assert table.capacity_bps(local_ns("2026-10-23T23:00"), GBIT) == 4 * GBIT
    assert table.to_json() == {"entries": [], "down": False}
    with pytest.raises(BadInput, match="overlap"):
        check([Entry(1, "23:00", "23:30", daily=True, zone="Europe/Berlin")], START, table.fixed)
    # What was planned once and is past is left where it is.
    past = {"capacity": "0 bit/s", "from": "2001-01-01T00:00:00Z", "to": "2001-01-01T01:00:00Z"}
    assert parsed(past).links["access1.forward"].timetable
    for wrong, said in ((night | {"to": "6"}, "6"), (entry | {"rate": 1}, "rate"), ({}, "give")):
        with pytest.raises(BadInput, match=said):
            parsed(wrong)
    with pytest.raises(BadInput, match="overlap"):
        parsed(night, night)


# --- the plan ---

POLICIES = ["local-ljf", "fixed", "weir"]


def planner(policy):
    ahead = settings(policy).plans_ahead
    return Planner(engine(policy), [], margin_ns=0, plans_ahead=ahead)


def cut(plan, at_s, *entries, down=False):
    table = Timetable(entries, down)
    return plan.change_timetables(START + at_s * S, ["core.forward"], lambda _: table)


def allotted(plan):
    return sum(plan.rates.values())


@pytest.mark.parametrize("policy", POLICIES)
def test_who_cannot_be_saved_by_a_cut_is_told_with_the_earliest_time_left(policy):
    plan = planner(policy)
    plan.submit(START, asked("small", GB, 60))
    plan.submit(START, asked("large", 4 * GB, 70, source="dtn2"))
    outcome = cut(plan, 0, dated(GBIT // 2, 0, 3_600))
    assert kinds(outcome)[0] == "capacity"
    assert outcome.events[0].data["capacity_bps"] == GBIT // 2
    lost = {x.transfer: x.data for x in outcome.events if x.kind == "at-risk"}
    assert "large" in lost
    assert lost["large"]["earliest"] > format_instant(START + 70 * S)
    assert plan.transfers["small"].risk == ""
    assert allotted(plan) <= GBIT // 2
    # What is back is given back.
    cut(plan, 0)
    assert allotted(plan) <= GBIT
    assert plan.transfers["large"].risk == ""


@pytest.mark.parametrize("policy", POLICIES)
def test_a_link_that_is_down_carries_nothing_until_it_is_up(policy):
    plan = planner(policy)
    plan.submit(START, asked("a", GB, 600))
    cut(plan, 1, down=True)
    assert plan.rates == {"a": 0}
    assert isinstance(plan.submit(START + 2 * S, asked("b", GB, 600)).answer, Problem)
    cut(plan, 3)
    assert plan.rates["a"] > 0
    assert plan.submit(START + 4 * S, asked("b", GB, 600)).admitted == "b"


def test_an_entry_that_is_over_is_in_the_way_of_nothing():
    """Once a maintenance was over its link could not be told to be down any more, nor given
    another entry: each was refused, as an entry that is past."""
    plan = Planner(engine(), [], margin_ns=0)
    link, now_ns = "core.forward", START + 20 * S
    for entry in (dated(0, 5, 10), NIGHT):
        plan.change_timetables(
            START, [link], lambda x, y=entry: replace(x, entries=(*x.entries, y))
        )
    for down in (True, False):
        outcome = plan.change_timetables(now_ns, [link], lambda x, y=down: replace(x, down=y))
        assert [x.kind for x in outcome.events][:1] == ["capacity"]
        assert plan.timetables[link] == Timetable((NIGHT,), down)
    another = dated(0, 30, 40)
    plan.change_timetables(now_ns, [link], lambda x: replace(x, entries=(*x.entries, another)))
    assert plan.timetables[link].entries == (NIGHT, another)
    with pytest.raises(BadInput, match="in the past"):
        plan.change_timetables(now_ns, [link], lambda x: replace(x, entries=(dated(0, 5, 10),)))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_window_is_planned_around_before_it_comes(policy):
    plan = planner(policy)
    cut(plan, 0, dated(0, 60, 3_600))
    # A minute of the core carries 7.2 GB of content, and the next hour nothing.
    refused = plan.submit(START, asked("much", 8 * GB, 600)).answer
    assert isinstance(refused, Problem)
    # Only who plans ahead can send all of it in that minute.
    by_s = 600 if policy == "weir" else 59
    assert plan.submit(START, asked("fits", 6 * GB, by_s)).admitted == "fits"
    assert plan.transfers["fits"].risk == ""


@pytest.mark.parametrize("policy", POLICIES)
def test_a_restart_takes_the_same_steps(policy):
    plan = planner(policy)
    steps = plan.submit(START, asked("a", GB, 600)).steps
    steps += cut(plan, 1, dated(GBIT // 4, 10, 100), NIGHT).steps
    steps += plan.tick(START + 11 * S).steps
    again = engine(policy)
    again.replay(steps)
    assert again.snapshot() == plan.engine.snapshot()
    assert again.rates() == plan.engine.rates()


# --- over a real service ---


def test_only_an_operator_changes_what_links_carry(api, tokens):
    entry = {"capacity": "500 Mbit/s", "from": "22:00", "to": "06:00", "daily": True}
    place = "/v1/links/core/timetable"
    for role in ("submit", "read", "agent"):
        assert api.post(place, json=entry, headers=headers(tokens[role])).status_code == 403
    admin = headers(tokens["admin"])
    made = api.post(place, json=entry, headers=admin)
    assert made.status_code == 200, made.text
    assert [x["link"] for x in made.json()] == ["core.forward", "core.backward"]
    told = {"capacity_bps": GBIT // 2, "from": "22:00", "to": "06:00", "daily": True, "zone": "UTC"}
    told["fixed"] = False
    assert made.json()[0]["entries"] == [told]
    assert api.get("/v1/links/core.forward/timetable").json() == made.json()[:1]
    twice = api.post(place, json=entry, headers=admin)
    assert (twice.status_code, "overlap" in twice.json()["detail"]) == (422, True)
    assert api.get("/v1/links/moon/timetable").status_code == 404
    wrong = api.put(place, json={"entries": [entry | {"capacity": "4 GB"}]}, headers=admin)
    assert (wrong.status_code, wrong.json()["field"]) == (422, "capacity")
    assert api.delete(place, headers=admin).json()[0]["entries"] == []
    state = {"up": False}
    assert api.put("/v1/links/core.forward/state", json=state, headers=admin).status_code == 200
    links = {x["name"]: x["capacity_bps"] for x in api.get("/v1/network").json()["links"]}
    assert (links["core.forward"], links["core.backward"]) == (0, GBIT)
    assert "weir_link_allotted_ratio" in api.get("/metrics").text


def test_a_timetable_and_a_link_that_is_down_outlive_the_service(calendar):
    known = ["--url", calendar.url, "--token", calendar.token]

    def link(*arguments, code=0):
        command = [WEIR, "calendar", "link", *arguments, *known]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout or done.stderr

    with calendar.client() as client:
        made = client.submit(request())["id"]
        night = ["--from", "22:00", "--to", "06:00", "--daily", "--zone", "Europe/Berlin"]
        told = link("set", "core", "--capacity", "4 Gbit/s", *night)
        assert "4000.0 Mbit/s from 22:00 to 06:00 daily (Europe/Berlin)" in told
        assert "core.forward: 0 bit/s now of 1000.0 Mbit/s, down" in link("down", "core.forward")
        assert client.show(made)["rate_bps"] == 0
        calendar.kill()
        calendar.start()
        told = link("list", "core")
        assert "core.forward: 0 bit/s now of 1000.0 Mbit/s, down" in told
        assert told.count("daily (Europe/Berlin)") == 2
        with pytest.raises(Exception, match="cannot be promised"):
            client.submit(request(destination_path="other"))
        assert ", down" not in link("up", "core")
        wait_for(lambda: client.show(made)["rate_bps"] > 0)
        assert "daily" not in link("clear", "core")
        told = link("set", "core", "--capacity", "0 bit/s", "--to", "+2 h")
        assert "core.forward: 0 bit/s now of 1000.0 Mbit/s\n" in told
    assert "--daily wants --from" in link(
        "set", "core", "--capacity", "1 Gbit/s", "--to", "06:00", "--daily", code=2
    )


def test_a_link_and_a_host_have_any_name_that_a_network_file_may_give_them(tmp_path):
    names = ["a/b", "c d", "e#f", "g?h=i", "j%2fk", "ä", "timetable"]
    nodes = [f"dtn {name}" for name in names]
    links = [
        {"name": name, "ends": ends, "capacity": "1 Gbit/s"}
        for name, ends in zip(names, itertools.pairwise([*nodes, nodes[0]]), strict=True)
    ]
    process = CalendarProcess(tmp_path, network={"nodes": nodes, "links": links})
    with process.start().client() as client:
        try:
            for name in names:
                assert [x["up"] for x in client.set_up(name, False)] == [False, False]
                assert [x["link"] for x in client.timetable(name)] == [
                    f"{name}.forward",
                    f"{name}.backward",
                ]
            asyncio.run(report_as(process, nodes))
            told = {x["name"]: x["agent"] for x in client.network()["nodes"]}
            # On a busy machine seven reports take longer than an agent may be silent.
            assert set(told) == set(nodes) and set(told.values()) <= {"alive", "lost"}
        finally:
            process.stop()


async def report_as(process, hosts):
    for host in hosts:
        async with AssignmentStream(process.url, process.token, host) as stream:
            assert await stream.post("reports", {}) == {"stop": []}
            async for message in stream.messages():
                assert message["kind"] == "snapshot"
                break
