"""Deadlines as people write them."""

import contextlib
import os
import subprocess
import time
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir import deadline
from weir.deadline import parse, read
from weir.errors import BadInput

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 11, 20, 14, 30, 0, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("+90 s", NOW + timedelta(seconds=90)),
        ("+ 1.5 h", NOW + timedelta(minutes=90)),
        ("15:00", NOW.replace(hour=15, minute=0)),
        ("14:30", NOW + timedelta(days=1)),
        ("06:00", NOW.replace(hour=6, minute=0) + timedelta(days=1)),
        ("14:30:30", NOW.replace(second=30)),
        ("2026-11-21T06:00:00Z", datetime(2026, 11, 21, 6, tzinfo=UTC)),
        ("2026-11-21 06:00", datetime(2026, 11, 21, 6, tzinfo=ZONE)),
    ],
)
def test_a_deadline_means_what_a_person_means(text, meant):
    assert parse(text, NOW, ZONE) == meant


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2026-11-20T12:29:59Z", "in the past"),
        ("2020-01-01", "in the past"),
        ("25:00", "write a time"),
        ("tomorrow", "write a time"),
        ("+soon", "soon"),
        ("", "write a time"),
    ],
)
def test_what_is_no_deadline_is_bad_input(text, words):
    with pytest.raises(BadInput, match=words):
        parse(text, NOW, ZONE)


def test_a_span_is_over_after_its_time_whatever_the_clock_is_set_to(monkeypatch):
    """Half a minute passes, in which somebody sets the clock an hour forward."""
    passed = iter([1000.0, 1030.0, 1030.0])
    monkeypatch.setattr(deadline, "clock_gettime", lambda _: next(passed))
    spent = deadline.clock_for("+90 s", NOW)
    assert spent() == NOW + timedelta(seconds=30)
    assert deadline.clock_for("15:00", NOW) is deadline.wall
    assert deadline.clock_for("2026-11-21T06:00:00Z", NOW) is deadline.wall


# Where clocks change by an hour, by half an hour, at midnight, by a whole day, and by POSIX rules.
NAMED = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "UTC"]
POSIX = {"AAA0BBB-1,J330/2:00:00,J340/3:00:00": (330, 340), "XXX5YYY,M3.2.0,M11.1.0": None}
seconds = st.integers(0, 86_399).map(lambda x: x - x % 60)
instants = st.datetimes(datetime(2000, 1, 1), datetime(2035, 1, 1)).map(
    lambda x: x.replace(microsecond=0, tzinfo=UTC)
)


@contextlib.contextmanager
def this_machine_in(zone):
    """This machine's zone, for the C library too."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


def minutes_that_show(clock, now, show):
    """By looking at every minute of the next three days, the oracle that needs no rules."""
    for minute in range(1, 3 * 1440):
        at = now + timedelta(minutes=minute)
        if show(at) == clock:
            return at
    raise AssertionError(f"{clock} is never shown")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([*NAMED, *POSIX]), instants, seconds, st.data())
def test_a_time_of_day_is_the_next_minute_that_shows_it(zone, now, second, data):
    with this_machine_in(zone):
        # Half of the examples are near a change of the clocks.
        if data.draw(st.booleans()) and (near := changes(now.year)):
            now = data.draw(st.sampled_from(near)) - timedelta(
                seconds=data.draw(st.integers(-9_000, 90_000))
            )
        now = now.replace(second=0)
        clock = f"{second // 3600:02}:{second // 60 % 60:02}"
        found = parse(clock, now)
        assert now < found <= now + timedelta(days=2)
        # GNU libc's strftime by way of `time`: not what `parse` computes with.
        first = minutes_that_show(
            clock, now, lambda at: time.strftime("%H:%M", time.localtime(at.timestamp()))
        )
        if found != first:
            # Only where the clocks jumped over it: then by the offset before the jump.
            assert found < first
            jumped = [at for at in changes(found.year) if found - timedelta(hours=1) < at <= found]
            assert jumped
        assert found.utcoffset().total_seconds() == time.localtime(found.timestamp()).tm_gmtoff


def changes(year):
    """The instants of a year at which the clocks of this machine change."""
    hours = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(hours=x) for x in range(366 * 24)]
    offsets = [time.localtime(at.timestamp()).tm_gmtoff for at in hours]
    return [hours[x] for x in range(1, len(hours)) if offsets[x] != offsets[x - 1]]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(NAMED), instants, instants)
def test_an_instant_without_offset_is_what_zoneinfo_says_in_whatever_season(zone, now, at):
    local = at.astimezone(ZoneInfo(zone))
    other = local.replace(fold=1 - local.fold)
    expected = {local.timestamp(), other.timestamp()}
    with this_machine_in(zone):
        for text in (local.strftime("%Y-%m-%dT%H:%M:%S"), local.strftime("%Y-%m-%d %H:%M:%S")):
            assert read(text, now).timestamp() in expected
            if len(expected) == 1:
                assert read(text, now, ZoneInfo(zone)) == local


def test_local_times_are_those_of_gnu_date():
    cases = [(z, d, c) for z in [*NAMED, *POSIX] for d in DAYS for c in ("06:00", "23:59:30")]
    for zone, day, clock in cases:
        asked = ["date", "-d", f"{day} {clock}", "+%s"]
        said = subprocess.run(asked, env=os.environ | {"TZ": zone}, capture_output=True, text=True)
        with this_machine_in(zone):
            assert read(f"{day}T{clock}", NOW).timestamp() == int(said.stdout), (zone, day, clock)


DAYS = ["2026-01-15", "2026-03-29", "2026-07-01", "2026-10-25", "2026-11-26", "2026-12-06"]


def test_a_doubled_time_is_the_first_to_come_and_a_skipped_one_is_as_much_later():
    berlin = ZoneInfo("Europe/Berlin")

    def at(text):
        return datetime.fromisoformat(text)

    eve = at("2026-10-24T23:00:00+02:00")
    assert parse("02:30", eve, berlin) == at("2026-10-25T02:30:00+02:00")
    between = at("2026-10-25T02:40:00+02:00")
    assert parse("02:30", between, berlin) == at("2026-10-25T02:30:00+01:00")
    assert parse("2026-10-25T02:30", between, berlin) == at("2026-10-25T02:30:00+01:00")
    eve = at("2026-03-28T23:00:00+01:00")
    assert parse("02:30", eve, berlin) == at("2026-03-29T03:30:00+02:00")
    assert parse("06:00", eve, berlin) == at("2026-03-29T06:00:00+02:00")
    # A day that Samoa had not.
    apia = ZoneInfo("Pacific/Apia")
    eve = at("2011-12-29T20:00:00-10:00")
    assert parse("06:00", eve, apia) == at("2011-12-31T06:00:00+14:00")
