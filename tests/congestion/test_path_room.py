"""Room on a path: a real transfer on this machine, beside a path that says what it is told."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from cycle_rig import FAST, MIB, Sending, Told, needs_bbr, news
from rig import until

from weir import kernel_controls
from weir._core import Rate
from weir.congestion.cycle import room
from weir.congestion.path import PathState
from weir.transfer import Transfer

pytestmark = needs_bbr
LOSSY = PathState("room", 0.065, 60e6, 480e6, delivered=100_000, lost=10, loss_events=10)
FULL = PathState("ours", 0.065, 480e6, 480e6)
NOBODY = "B0-C0"


@pytest.fixture
def path(monkeypatch):
    """What every look at the path says, changeable."""
    told = SimpleNamespace(state=None, looks=0, is_held=False)

    class Reader:
        @property
        def state(self):
            return told.state if told.looks else None

        @property
        def is_held(self):
            return told.is_held

        def sees(self, _at_s, _connections):
            told.looks += 1

    monkeypatch.setattr(room, "PathReader", Reader)
    return told


def sending(tmp_path, label, size=60 * MIB, **settings):
    """On a path as fast as this machine's memory a file lasts if it is paced from below."""
    chosen = {"rate": Rate("20 Mbit/s"), "reads_path": True, "interaction": None}
    return Sending(tmp_path, Told(label), size, **chosen | {"fallback": "cubic"} | settings)


def test_room_that_a_control_leaves_is_taken_where_nobody_else_is(tmp_path, path):
    path.state = LOSSY
    with sending(tmp_path, NOBODY) as begun:
        first = news(begun.selection, "choice")
        second = news(begun.selection, "choice")
        assert begun.control() == "bbr"
        begun.selection.set_rate(FAST)
        begun.finish()
    assert [one.facts["control"] for one in (first, second)] == ["cubic", "bbr"]
    assert second.facts["why"] == "the path loses 0.01 % at random: bbr, 1 stream"
    assert re.match("bbr after [0-9.]+ s of sending: the path loses", second.words)
    assert (second.facts["probe"], second.facts["streams"]) == ("sending", 1)
    assert second.facts["path"]["loss"] == pytest.approx(LOSSY.loss)
    assert (tmp_path / "root" / "copy").read_bytes() == (tmp_path / "source").read_bytes()


@pytest.mark.parametrize(
    ("label", "state"), [("B0-C1", LOSSY), ("?", LOSSY), (NOBODY, FULL), (NOBODY, None)]
)
def test_who_is_there_or_not_known_is_not_harmed_for_it(tmp_path, path, label, state):
    """Beside one CUBIC the same counters may be of its queue; a path of ours is full."""
    path.state = state
    with sending(tmp_path, label) as begun:
        news(begun.selection, "choice")
        looks = path.looks
        assert until(lambda: path.looks > looks + 20 or label != NOBODY)
        begun.selection.set_rate(FAST)
        events = begun.finish()
        assert label == NOBODY or path.looks == 0
    assert [one["control"] for one in events if one["event"] == "choice"] == ["cubic"]


def test_where_no_control_fills_the_path_and_no_stream_can_join_it_says_how_many_streams_would(
    tmp_path, path, monkeypatch
):
    """One CUBIC carries 24 of 100 Mbit/s at 0.01 % and 65 ms."""
    monkeypatch.setattr(kernel_controls, "offered", lambda: ["reno", "cubic"])
    monkeypatch.setattr(Transfer, "can_join", property(lambda _self: False))
    path.state = replace(LOSSY, full_bps=100e6)
    with sending(tmp_path, NOBODY) as begun:
        advice = news(begun.selection, "advice")
        begun.selection.set_rate(FAST)
        events = begun.finish()
    assert advice.facts["streams"] == 4
    words = "the path loses 0.01 % at random: --streams 4 would get more than one cubic"
    assert advice.words == words
    assert [one["event"] for one in events].count("advice") == 1
