"""What a request may ask for beside a deadline: a start, a window, a part, a weight, a series."""

import dataclasses
import itertools
import json
import random
import re
import subprocess
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from calendar_lab import CalendarProcess, request, wait_for, weir
from rig import WEIR
from test_calendar_planner import GB, NET, START, S, asked, engine, kinds, running

from weir import Time
from weir._core import Calendar
from weir.calendar.clock import format_instant
from weir.calendar.planning.engine import RecordedEngine, Wanted
from weir.calendar.planning.planner import Planner
from weir.calendar.planning.wire import WIRE_PER_FILE_BYTE
from weir.calendar.problem import Problem
from weir.calendar.recurrence import occurrences, read_window, window_of
from weir.errors import BadInput


def planner(policy="weir"):
    return Planner(engine(policy), [], margin_ns=0, plans_ahead=policy == "weir")


def at(seconds):
    return START + seconds * S


# --- a start ---


def test_a_transfer_that_starts_later_is_scheduled_until_then():
    plan = planner()
    made = plan.submit(START, asked("a", GB, 60, start_ns=at(30)))
    assert made.answer.state == "scheduled"
    assert made.events[0].data["start"] == format_instant(at(30))
    assert (made.rates["a"], made.answer.is_sent) == (0, False)
    # Its hosts are not missed before.
    plan.hosts_lost(at(1), ["dtn1"])
    assert plan.transfers["a"].risk == ""
    assert kinds(plan.tick(at(29))) == []
    due = plan.tick(at(30))
    assert kinds(due)[:2] == ["due", "at-risk"]
    assert due.transfers["a"].is_sent
    assert due.rates["a"] == 10**9


def test_its_room_is_kept_from_others_and_is_theirs_before_it():
    plan = planner()
    # All of the core from the 30th second to the 60th.
    size_bytes = int(30 * 125_000_000 / WIRE_PER_FILE_BYTE) - 1_000
    plan.submit(START, asked("later", size_bytes, 60, start_ns=at(30)))
    assert plan.submit(START, asked("same", size_bytes, 60, source="dtn2")).admitted is not None
    refused = plan.submit(START, asked("more", GB // 10, 60, source="dtn2")).answer
    assert isinstance(refused, Problem)
    assert refused.extra["link"] == "core.forward"


def test_a_scheduled_transfer_is_cancelled_and_its_room_is_free():
    plan = planner()
    plan.submit(START, asked("a", 3 * GB, 60, start_ns=at(30)))
    other = asked("b", 3 * GB, 60, start_ns=at(30), source="dtn2")
    assert plan.submit(START, other).admitted is None
    assert plan.cancel(at(1), "a").answer.state == "cancelled"
    assert plan.submit(at(1), other).admitted == "b"


def test_a_policy_that_starts_at_once_holds_it_from_its_start_on():
    """A calendar that was restarted with such a policy keeps what it had promised before."""
    plan = planner()
    scheduled = plan.submit(START, asked("a", GB, 60, start_ns=at(30))).answer
    other = Planner(engine(), [dataclasses.replace(scheduled, planned=False)], margin_ns=0)
    other.readmit(at(1))
    assert other.transfers["a"].risk == "no capacity is held for it before its start"
    other.tick(at(2))
    assert not other.transfers["a"].planned
    due = other.tick(at(30))
    assert due.transfers["a"].is_sent
    assert (due.transfers["a"].risk, due.rates["a"]) == ("", 10**9)


def test_a_plan_that_waits_is_not_behind():
    """A transfer whose reservations lie later has no rate where others go first."""
    plan = planner()
    plan.submit(START, asked("soon", 3 * GB, 30))
    plan.submit(START, asked("later", 3 * GB, 90, source="dtn2"))
    assert plan.rates == {"soon": 10**9, "later": 0}
    plan.report(at(1), "dtn2", [running("later", 0)])
    assert plan.transfers["later"].risk == ""
    plan.epoch(at(5))
    assert plan.transfers["later"].risk == ""


# --- a part, a weight ---


@pytest.mark.parametrize("policy", ["weir", "local-ljf"])
def test_a_part_is_promised_and_the_rest_gets_what_is_free(policy):
    plan = planner(policy)
    plan.submit(START, asked("first", 3 * GB, 60, source="dtn2"))
    made = plan.submit(START, asked("part", 10 * GB, 60, least_bytes=2 * GB)).answer
    # 60 s of the core carry 7.18 GB of content.
    assert made.promised_bytes == pytest.approx(7.5e9 / WIRE_PER_FILE_BYTE - 3e9, rel=0.01)
    assert plan.submit(START, asked("c", GB, 60, least_bytes=GB)).admitted is None
    plan.report(at(20), "dtn2", [_done("first", 3 * GB)])
    moved = plan.report(at(50), "dtn1", [running("part", made.promised_bytes, 10 * GB)])
    part = moved.transfers["part"]
    assert (part.is_rest, part.planned, part.risk) == (True, True, "")
    assert plan.rates["part"] == 10**9
    assert "missed" not in kinds(plan.tick(at(61)))
    end = plan.report(at(90), "dtn1", [_done("part", 10 * GB)])
    assert end.events[0].data["on_time"] is True


def _done(identifier, size_bytes):
    return dataclasses.replace(running(identifier, size_bytes, size_bytes), state="done")


def test_a_promised_part_that_is_late_is_missed():
    plan = planner()
    plan.submit(START, asked("first", 3 * GB, 60, source="dtn2"))
    made = plan.submit(START, asked("part", 10 * GB, 60, least_bytes=2 * GB)).answer
    plan.report(at(50), "dtn1", [running("part", 10**9, 10 * GB)])
    missed = plan.tick(at(61))
    data = next(x.data for x in missed.events if (x.kind, x.transfer) == ("missed", "part"))
    assert data["remaining_bytes"] == made.promised_bytes - 10**9


def test_a_weight_reaches_the_engine_and_its_replay():
    plan = planner()
    step = plan.submit(START, asked("a", GB, 60, weight=7, least_bytes=GB)).steps[0]
    assert (step.payload["weight"], step.payload["least"]) == (7, 1_045_000_000)
    again = RecordedEngine(type(plan.engine._calendar)(NET.engine_json(), "weir", _epoch()))
    again.replay([step])
    assert again.snapshot() == plan.engine.snapshot()


def _epoch():
    from weir import Time

    return Time("5 s")


# --- windows and series as people write them ---

BERLIN = ZoneInfo("Europe/Berlin")


def local(text):
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


def test_a_window_over_midnight_ends_on_the_next_day():
    window = read_window("22:00-06:00", local("2026-11-20T12:00"), BERLIN)
    assert window.start == local("2026-11-20T22:00")
    assert window.deadline == local("2026-11-21T06:00")
    early = window_of("02:00", "01:00", local("2026-11-20T12:00"), BERLIN)
    assert early.deadline == local("2026-11-22T01:00")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("22:00", "two times"),
        ("2001-01-01T00:00/2001-01-02T00:00", "in the past"),
        ("2099-01-02T00:00/2099-01-01T00:00", "empty"),
        ("25:00-26:00", '"25:00"'),
        ("-", '""'),
    ],
)
def test_a_window_that_is_none_is_named(text, said):
    with pytest.raises(BadInput, match=said):
        read_window(text, local("2026-11-20T12:00"), BERLIN)


def test_every_day_is_by_the_clocks_though_they_change():
    """On 25 October 2026 the clocks go from 03:00 back to 02:00: a day of 25 hours."""
    now = local("2026-10-23T12:00")
    window = read_window("23:00-06:00", now, BERLIN)
    found = occurrences(window, "day", 4, now, BERLIN)
    starts = [x.start.astimezone(BERLIN).replace(tzinfo=None) for x in found]
    assert starts == [datetime(2026, 10, day, 23) for day in (23, 24, 25, 26)]
    spans = [b.deadline - a.deadline for a, b in itertools.pairwise(found)]
    assert spans == [timedelta(hours=25), timedelta(hours=24), timedelta(hours=24)]
    weeks = occurrences(window, "week", 2, now, BERLIN)
    assert weeks[1].start.astimezone(BERLIN).replace(tzinfo=None) == datetime(2026, 10, 30, 23)


@pytest.mark.parametrize(
    ("text", "first", "later"),
    [
        # Skipped are both, the start alone, the end alone, and the start so that the end is over.
        ("02:10-02:40", ("03:10", "03:40"), ("02:10", "02:40")),
        ("02:30-06:00", ("03:30", "06:00"), ("02:30", "06:00")),
        ("01:00-02:30", ("01:00", "03:30"), ("01:00", "02:30")),
        ("02:30-03:00", ("03:30", "04:00"), ("02:30", "03:00")),
    ],
)
def test_a_window_that_the_clocks_skip_is_as_much_later_on_that_day_only(text, first, later):
    """On 29 March 2026 the clocks go from 02:00 to 03:00."""
    for now, at in (("2026-03-28T12:00", 0), ("2026-03-26T12:00", 2)):
        window = read_window(text, local(now), BERLIN)
        found = occurrences(window, "day", at + 3, local(now), BERLIN)
        for number, one in enumerate(found):
            begins, ends = (x.astimezone(BERLIN) for x in (one.start, one.deadline))
            assert (f"{begins:%H:%M}", f"{ends:%H:%M}") == (first if number == at else later)
            assert begins.date() == ends.date() == local(now).date() + timedelta(days=number + 1)


@pytest.mark.parametrize(
    ("every", "times", "said"),
    [
        ("day", 0, "from 1 to 366"),
        ("day", 367, "from 1 to 366"),
        ("month", 2, "write day, week or a span"),
        ("0 s", 2, "has to be above zero"),
        ("1 h", 2, "due only after the next"),
    ],
)
def test_a_series_that_cannot_be_is_named(every, times, said):
    now = local("2026-11-20T12:00")
    with pytest.raises(BadInput, match=said):
        occurrences(read_window("22:00-06:00", now, BERLIN), every, times, now, BERLIN)


# --- over a real service ---


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"start_s": 60.0}, "start", "is the deadline too"),
        ({"start_s": 61.0}, "start", "after the deadline"),
        ({"start": "soon"}, "start", "soon"),
        ({"start": "2030-01-01T00:00:00Z", "start_s": 1.0}, "start", "not both"),
        ({"start_s": -1.0}, "start_s", "-1"),
        ({"least_bytes": 0}, "least_bytes", "0"),
        ({"least_bytes": 2 * 10**9}, "least_bytes", "more than all"),
        ({"weight": 0}, "weight", "0"),
        ({"weight": 10**6}, "weight", "1000"),
    ],
)
def test_wrong_terms_are_named(shared, changes, field, said):
    answer = shared.post("/v1/transfers", json=request(**changes))
    body = answer.json()
    assert (answer.status_code, body["field"]) == (422, field), body
    assert said in body["detail"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"start_s": 30.0}, "start"),
        ({"weight": 2}, "weight"),
    ],
)
def test_a_policy_that_cannot_promise_it_says_so_and_which_can(shared, changes, field):
    for path in ("/v1/transfers", "/v1/prechecks"):
        answer = shared.post(path, json=request(**changes))
        body = answer.json()
        assert (answer.status_code, body["type"]) == (409, "urn:weir:problem:unsupported")
        assert (body["field"], "--policy weir" in body["hint"]) == (field, True)
    # What asks for nothing of it is as ever.
    assert shared.post("/v1/prechecks", json=request(weight=1, start_s=0.0)).status_code == 200


@pytest.fixture(scope="module")
def ahead(tmp_path_factory):
    """A running calendar whose policy plans ahead."""
    process = CalendarProcess(tmp_path_factory.mktemp("ahead"), options=["--policy", "weir-all"])
    yield process.start()
    process.stop()


def test_a_reservation_lives_over_a_kill_and_is_carried_out_at_its_start(ahead):
    with ahead.client() as client:
        made = client.submit(request(start_s=3.0, deadline_s=60.0), "tomorrow")
        assert made["state"] == "scheduled"
    stream = f"{ahead.url}/v1/agents/dtn1/assignments"
    ahead.kill()
    ahead.start()
    with ahead.client() as client:
        assert client.submit(request(start_s=3.0, deadline_s=60.0), "tomorrow")["id"] == made["id"]
        wait_for(lambda: client.show(made["id"])["state"] == "accepted")
        assert client.show(made["id"])["start"] == made["start"]
        with client._http.stream("GET", stream) as answer:
            line = next(x for x in answer.iter_lines() if x.startswith("data: "))
        assigned = json.loads(line[6:])["assign"]
        assert [x["id"] for x in assigned] == [made["id"]]
        assert assigned[0]["rate_bps"] > 0
        client.cancel(made["id"])


def test_an_agent_is_told_nothing_of_what_starts_later(ahead):
    with ahead.client() as client:
        made = client.submit(request(start_s=600.0, deadline_s=900.0))
        with client._http.stream("GET", f"{ahead.url}/v1/agents/dtn1/assignments") as answer:
            line = next(x for x in answer.iter_lines() if x.startswith("data: "))
        assert json.loads(line[6:])["assign"] == []
        assert "It is scheduled" in client.why(made["id"])["answer"]
        client.cancel(made["id"])


def test_the_command_asks_for_a_window_a_part_and_what_it_would_cost(ahead):
    place = ["dtn1:data/x", "dtn3:in/x", "--size", "2 GB"]
    told = weir(ahead, "submit", *place, "--start", "+1 h", "--by", "+2 h", "--weight", "3")
    made = re.fullmatch(r"admitted (\w{16}): by \S+ from \S+ over .+\n", told)
    assert made, told
    shown = json.loads(weir(ahead, "show", made[1], "--json"))
    assert (shown["state"], shown["weight"]) == ("scheduled", 3)
    assert made[1] in weir(ahead, "list", "--state", "scheduled")
    dry = ["submit", "dtn2:y", "dtn4:y", "--size", "1 GB", "--by", "+1 h", "--dry-run"]
    assert weir(ahead, *dry).startswith("would be admitted: 1 GB at 1000.0 Mbit/s at first over")
    big = [*dry[:4], "9000 GB", *dry[5:]]
    told = weir(ahead, *big, code=4)
    assert "would be refused: 9 TB cannot be promised" in told
    assert re.search(r"up to 4\d\d(\.\d+)? GB could be there", told)
    assert "would be admitted" in weir(ahead, *big, "--least", "300 GB")
    assert json.loads(weir(ahead, *dry, "--json"))["costs"] == []
    weir(ahead, "cancel", made[1])


def test_a_series_is_listed_occurrence_by_occurrence(ahead):
    now = datetime.now().astimezone()
    window = "/".join((now + timedelta(hours=x)).isoformat() for x in (2, 10))
    place = ["dtn1:data/s", "dtn3:in/s", "--size", "500 GB"]
    series = [
        *place,
        "--window",
        window,
        "--every",
        "day",
        "--times",
        "3",
        "--key",
        "nightly",
    ]
    told = weir(ahead, "submit", *series)
    ids = re.findall(r"^\d: admitted (\w{16}): by \S+ from \S+T", told, re.M)
    assert len(ids) == 3
    # The same key submits nothing twice.
    again = json.loads(weir(ahead, "submit", *series, "--json"))
    assert [x["transfer"]["id"] for x in again["occurrences"]] == ids
    for identifier in ids[1:]:
        weir(ahead, "cancel", identifier)
    # 8 h of the core carry 3.44 TB: in the first night alone there is no room for so much.
    big = ["dtn2:b", "dtn3:in/b", "--size", "3200 GB", *series[4:-2]]
    told = json.loads(
        subprocess.run(
            [WEIR, "calendar", "submit", *big, "--json"],
            capture_output=True,
            text=True,
            env={"WEIR_CALENDAR_URL": ahead.url, "WEIR_CALENDAR_TOKEN": ahead.token, "PATH": ""},
        ).stdout
    )
    assert [x["transfer"] is not None for x in told["occurrences"]] == [False, True, True]
    assert told["occurrences"][0]["refusal"]["link"] == "core.forward"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--by", "+1 h", "--window", "1:00-2:00"], "not allowed with"),
        (["--start", "1:00", "--window", "1:00-2:00"], "--window, or --start and --by"),
        (["--start", "+2 h", "--by", "+1 h"], "after the deadline"),
        (["--start", "soon", "--by", "+1 h"], 'start "soon"'),
        (["--by", "+1 h", "--every", "day"], "--every and --times together"),
        (["--by", "+1 h", "--every", "day", "--times", "2", "--wait"], "neither --wait nor"),
        (["--by", "+2 h", "--every", "1 h", "--times", "2"], "due only after the next"),
        (["--by", "+2 h", "--least", "9 GB"], "more than all"),
    ],
)
def test_a_mistake_in_the_terms_is_one_message(ahead, options, said):
    told = weir(ahead, "submit", "dtn1:x", "dtn3:x", "--size", "1 GB", *options, code=2)
    assert said in told


def test_the_command_says_which_policy_could(tmp_path):
    calendar = CalendarProcess(tmp_path, options=["--policy", "local-ljf"]).start()
    place = ["dtn1:x", "dtn3:x", "--size", "1 GB", "--by", "+1 h"]
    told = weir(calendar, "submit", *place, "--start", "+1 s", code=3)
    assert told.count("\n") == 1
    assert 'policy of this calendar, "local-ljf", starts everything at once' in told
    assert "--policy weir" in told
    calendar.stop()


@pytest.mark.parametrize("seed", range(4))
def test_a_restart_takes_the_same_steps_whatever_was_refused_before(seed):
    """Prices are learnt from what is refused, too, and decide what comes after."""
    chance = random.Random(seed)
    first = Calendar(NET.engine_json(), "weir", Time("5 s"))
    begun = first.snapshot()
    made, refused = RecordedEngine(first, learns=True), 0
    for number in range(60):
        now_ns = START + number * S
        lasts_ns = chance.choice([2, 20, 200]) * S
        ends = f"dtn{chance.randint(1, 2)}", f"dtn{chance.randint(3, 4)}"
        size_bytes = chance.choice([10**7, 10**9, 5 * 10**9])
        start_ns = chance.choice([None, now_ns + 10 * S])
        deadline_ns = (start_ns or now_ns) + lasts_ns
        wanted = Wanted(ends, size_bytes, deadline_ns, None, start_ns, weight=chance.randint(1, 50))
        refused += made.submit(now_ns, f"f{number}", wanted).refused
    assert 10 < refused < 50
    again = RecordedEngine(Calendar.restore(begun), learns=True)
    again.replay(made.take_steps())
    assert (again.rates(), again.snapshot()) == (made.rates(), made.snapshot())
