"""A transfer that sends while it learns: on this machine, with a path that says what it is told."""

import re
import socket
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from cycle_rig import MIB, Hearing, Sending, Told, needs_bbr, news

from weir import kernel_controls
from weir._core import Rate, Time
from weir.congestion import cycle as selection_module
from weir.congestion.path import PathState

pytestmark = needs_bbr
LOSSY = PathState("room", 0.065, 60e6, 480e6, delivered=100_000, lost=10, loss_events=10)
FULL = PathState("ours", 0.065, 480e6, 480e6)
SHARED = PathState("shared", 0.065, 60e6, 120e6)


class Unsure(Hearing):
    """Hears something, and cannot say what."""

    def __init__(self, *labels):
        super().__init__(*labels, beside={"cubic": "C", "bbr": "C"})

    def beside(self, samples, own):
        heard = super().beside(samples, own)
        heard.bbr = 0.5
        return heard


@pytest.fixture
def path(monkeypatch):
    """What every look at the path says, changeable."""
    told = SimpleNamespace(state=None, looks=0)

    class Reader:
        @property
        def state(self):
            return told.state

        def sees(self, _at_s, _connections):
            told.looks += 1

    monkeypatch.setattr(selection_module, "PathReader", Reader)
    return told


def begun(tmp_path, recogniser, size=6 * MIB, **settings):
    """On a path as fast as this machine's memory a file lasts if it is paced from below."""
    chosen = {"rate": Rate("20 Mbit/s"), "at_once": True} | settings
    return Sending(tmp_path, recogniser, size, **chosen)


@pytest.mark.parametrize(
    ("state", "control", "why"),
    [
        (LOSSY, "bbr", "the path loses 0.01 % at random: bbr, 1 stream"),
        (FULL, "cubic", "no sign of others: cubic, 1 stream"),
    ],
)
def test_a_path_that_nobody_else_fills_is_known_without_silence(
    tmp_path, path, state, control, why
):
    path.state = state
    told = Told("B")
    with begun(tmp_path, told, interaction=None, fallback="cubic") as sending:
        choice = news(sending.selection, "choice").facts
        assert sending.control() == control
        sending.finish()
    assert (choice["control"], choice["why"]) == (control, why)
    assert (choice["probe"], choice["streams"]) == ("sending", 1)
    assert choice["path"]["loss"] == pytest.approx(state.loss)
    assert told.shown == []
    assert (tmp_path / "root" / "copy").read_bytes() == (tmp_path / "source").read_bytes()


def test_where_no_control_fills_the_path_it_says_how_many_streams_would(
    tmp_path, path, monkeypatch
):
    """One CUBIC carries 24 of 100 Mbit/s at 0.01 % and 65 ms."""
    monkeypatch.setattr(kernel_controls, "offered", lambda: ["reno", "cubic"])
    path.state = replace(LOSSY, full_bps=100e6)
    with begun(tmp_path, Told("B"), MIB, interaction=None, fallback="cubic") as sending:
        choice = news(sending.selection, "choice").facts
        sending.finish()
    assert choice["control"] == "cubic"
    assert choice["why"] == (
        "the path loses 0.01 % at random: cubic, 1 stream (--streams 4 would get more)"
    )


@pytest.mark.parametrize(("label", "control"), [("B", "bbr"), ("C", "cubic")])
def test_who_fills_a_path_is_heard_while_it_sends(tmp_path, path, label, control):
    path.state = SHARED
    told = Hearing("C", beside={"cubic": label, "bbr": label})
    with begun(tmp_path, told) as sending:
        choice = news(sending.selection, "choice")
        assert sending.control() == control
        assert sending.transfer.progress().bytes_done.count > 0
        sending.finish()
    assert re.match(rf"{control} after [0-9.]+ s of listening: it is {label}", choice.words)
    assert told.shown == []


def test_where_listening_does_not_tell_silence_does(tmp_path, path, monkeypatch):
    monkeypatch.setattr(selection_module, "OPENING_MAX_S", 0.5)
    path.state = SHARED
    told = Unsure("B")
    with begun(tmp_path, told, size=4 * MIB) as sending:
        choice = news(sending.selection, "choice").facts
        sending.finish()
    assert (choice["probe"], choice["control"]) == ("passive", "bbr")
    assert told.durable[0] > 0
    assert told.moved == 0


def test_room_that_shows_later_is_taken_then(tmp_path, path, monkeypatch):
    """A host that answers no echo is no reason not to see what the kernel counts."""
    path.state = SHARED
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind(("127.0.0.1", 0))
        port = mute.getsockname()[1]
    told = Unsure("C")
    monkeypatch.setattr(selection_module, "OPENING_MAX_S", 0.5)
    with begun(
        tmp_path, told, size=30 * MIB, udp=port, interaction=None, fallback="cubic"
    ) as sending:
        news(sending.selection, "fallback")
        path.state = LOSSY
        choice = news(sending.selection, "choice").facts
        assert sending.control() == "bbr"
    assert choice["why"] == "the path loses 0.01 % at random: bbr, 1 stream"


def test_nothing_is_held_back_while_the_recogniser_is_made(tmp_path, path):
    path.state = SHARED
    made = threading.Event()
    told = Hearing("C", beside={"cubic": "C", "bbr": "C"})

    def slowly():
        assert made.wait(30)
        return told

    with begun(tmp_path, slowly, size=MIB) as sending:
        told.transfer = sending.transfer
        assert sending.transfer.wait(Time("60 s"))
        made.set()
    assert told.shown == []
