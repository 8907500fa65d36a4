"""Deadlines as people write them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from weir.errors import BadInput
from weir.transfer.deadline import parse

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
    assert parse(text, NOW) == meant


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
        parse(text, NOW)
