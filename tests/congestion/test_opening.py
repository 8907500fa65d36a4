"""What a path's silence tells, by recordings of the kernel's own TCP; a transfer that begins so.

`kernel_silences.json` has the round-trip times of echo requests, 100 a second, while a transfer's
connections were made in a lab: nobody there, or streams that had been there for nine seconds.
"""

import json
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from cycle_rig import FAST, MIB, Hearing, Sending, Told, needs_bbr, news
from rig import until

from weir import kernel_controls
from weir._core import Rate
from weir.cli import build_parser
from weir.cli.send import _reads_path
from weir.congestion import options
from weir.congestion.cycle import beginning, cycle, room
from weir.congestion.cycle import sender as sender_module
from weir.congestion.cycle.opening import Opening
from weir.congestion.cycle.samples import silence
from weir.congestion.path import PathState
from weir.probe.sample import Sample
from weir.transfer import Transfer

RECORDED = json.loads(Path(__file__).with_name("kernel_silences.json").read_text())
LOSSY = PathState("room", 0.065, 60e6, 480e6, delivered=100_000, lost=10, loss_events=10)
FULL = PathState("ours", 0.065, 480e6, 480e6)
NOBODY = "B0-C0"


def sample(rtt_ms, index=0):
    rtts_ns = () if rtt_ms is None else (round(rtt_ms * 1e6),)
    return Sample(index, index * 10**7, 0, rtts_ns)


def heard(rtts_ms):
    opening = Opening()
    for rtt_ms in rtts_ms:
        opening.hears_silence(sample(rtt_ms))
    return opening


def test_nobody_is_quiet_and_everybody_else_is_not():
    quiet = [heard(one["silent_ms"]).was_quiet for one in RECORDED if not one["background"]]
    loud = [heard(one["silent_ms"]).was_quiet for one in RECORDED if one["background"]]
    assert len(loud) >= 30
    assert not any(loud)
    # Two of 27 were recorded while the machine was too busy.
    assert sum(quiet) >= 0.9 * len(quiet) >= 20


def test_who_gave_way_was_there():
    """A stream of CUBIC whose queue overflows with ours leaves a shorter one."""
    for one in RECORDED:
        shows = heard(one["silent_ms"]).shows_others([sample(one["least_after_ms"])])
        if not one["background"]:
            assert not shows, one
    cubic = [one for one in RECORDED if one["background"] == "cubic" and one["rate_mbit_s"] < 500]
    shown = [heard(one["silent_ms"]).shows_others([sample(one["least_after_ms"])]) for one in cubic]
    assert sum(shown) >= 0.7 * len(shown) >= 3


def test_too_few_samples_and_lost_ones_tell_nothing():
    assert not heard([30.0] * 7).was_quiet
    assert heard([30.0] * 8).was_quiet
    assert not heard([None] * 50).was_quiet
    assert not heard([]).shows_others([sample(1.0), sample(None)])


def test_a_longer_silence_is_quiet_once_it_has_been_so_for_eight_round_trips():
    noisy = [30.0, 39.0] * 50
    assert not heard([*noisy, *[30.0] * 50]).is_quiet
    assert heard([*noisy, *[30.0] * 60]).is_quiet
    assert not heard([150.0] * 110).is_quiet
    assert heard([150.0] * 120).is_quiet


@pytest.fixture
def path(monkeypatch):
    """What silence and counters say, changeable."""
    told = SimpleNamespace(state=None, quiet=True, others=False, is_held=False, looks=0)

    class Reader:
        state = None
        is_held = property(lambda _self: told.is_held)

        def sees(self, _at_s, _connections):
            told.looks += 1
            self.state = told.state

    class Silence(Opening):
        was_quiet = property(lambda _self: told.quiet)
        is_quiet = property(lambda _self: False)

        def shows_others(self, samples):
            return told.others

    monkeypatch.setattr(room, "PathReader", Reader)
    for module in (beginning, cycle):
        monkeypatch.setattr(module, "Opening", Silence)
    return told


def sending(tmp_path, told=None, size=100 * MIB, **settings):
    chosen = {"rate": Rate("20 Mbit/s"), "reads_path": True, "interaction": None}
    chosen |= {"silence": silence("127.0.0.1", None), "fallback": "cubic"}
    return Sending(tmp_path, told or Told("B"), size, **chosen | settings)


@needs_bbr
def test_where_nobody_is_it_sends_from_the_first_byte(tmp_path, path):
    path.state = LOSSY
    told = Told("B")
    with sending(tmp_path, told) as begun:
        choice = news(begun.selection, "choice")
        assert begun.control() == "bbr"
        assert told.shown == []
        begun.selection.set_rate(FAST)
        begun.finish()
    assert choice.facts["probe"] == "sending"
    assert choice.facts["why"] == "the path loses 0.01 % at random: bbr, 1 stream"


@needs_bbr
def test_what_fills_the_path_alone_stays(tmp_path, path):
    path.state = FULL
    with sending(tmp_path) as begun:
        choice = news(begun.selection, "choice")
        begun.selection.set_rate(FAST)
        begun.finish()
    assert (choice.facts["control"], choice.facts["probe"]) == ("cubic", "sending")
    assert choice.facts["why"] == "no sign of others: cubic, 1 stream"


@needs_bbr
@pytest.mark.parametrize("state", [None, LOSSY])
def test_beside_others_silence_tells(tmp_path, path, state):
    path.state, path.quiet = state, False
    with sending(tmp_path, Told("B0-C1")) as begun:
        choice = news(begun.selection, "choice")
        begun.selection.set_rate(FAST)
        begun.finish()
    assert (choice.facts["control"], choice.facts["probe"]) == ("cubic", "passive")


@needs_bbr
@pytest.mark.parametrize(
    ("beside", "state", "taken"),
    [
        ("B1-C0", "ours", ["bbr"]),  # beside BBR it is BBR's
        ("B0-C1", "ours", ["bbr", "cubic"]),  # beside CUBIC it enters under BBR
        (NOBODY, "ours", ["bbr", "cubic"]),  # somebody was not quiet
        (NOBODY, "room", ["bbr"]),  # noise: the path is nobody's, and loses packets
    ],
)
def test_beside_others_it_sends_and_hears_them(tmp_path, path, monkeypatch, beside, state, taken):
    told = []
    take = sender_module.Sender.take
    monkeypatch.setattr(sender_module.Sender, "unpaced_streams", lambda _: 1)
    monkeypatch.setattr(
        sender_module.Sender, "take", lambda self, *what: (told.append(what), take(self, *what))
    )
    path.quiet, path.state = False, PathState("ours", 0.03, 20e6, 20e6)
    if state == "room":
        path.state = LOSSY
    hearing = Hearing("?", beside={"cubic": beside, "bbr": beside})
    with sending(tmp_path, hearing) as begun:
        choice = news(begun.selection, "choice")
        sent = begun.transfer.progress().bytes_durable.count
        until(lambda: len(told) == len(taken))
        assert begun.control() == taken[-1]
        begun.selection.set_rate(FAST)
        begun.finish()
    assert hearing.shown == []  # it was never silent
    assert sent > 0
    assert (choice.facts["probe"], choice.facts["control"]) == (
        "listening",
        taken[-1],
    )
    assert told == [(control, 1) for control in taken]


@needs_bbr
def test_who_is_there_is_heard_once_files_are_the_limit_no_more(tmp_path, path, monkeypatch):
    """What is heard beside small ones is not beside a stream that sends all it can."""
    monkeypatch.setattr(sender_module.Sender, "unpaced_streams", lambda _: 1)
    path.quiet, path.state, path.is_held = False, PathState("ours", 0.03, 20e6, 20e6), True
    hearing = Hearing("?", beside={"cubic": "B1-C0", "bbr": "B1-C0"})
    with sending(tmp_path, hearing) as begun:
        until(lambda: begun.transfer.progress().bytes_durable.count > 4 * MIB)
        assert hearing.listened == []
        path.is_held = False
        choice = news(begun.selection, "choice")
        assert choice.facts["control"] == "bbr"
        until(lambda: hearing.listened[-1] == "bbr")
        path.is_held = True
        known = path.looks
        until(lambda: path.looks > known + 1)  # what is being heard is heard to its end
        listened = len(hearing.listened)
        until(lambda: path.looks > known + 30)
        assert len(hearing.listened) == listened
        begun.selection.set_rate(FAST)
        begun.finish()


@needs_bbr
def test_a_stream_that_has_entered_stays_paced_until_it_has_settled(tmp_path, path, monkeypatch):
    is_settled = threading.Event()
    paces = []

    class Entering:
        share, phase, pace_bps = 0.5, "running", None

        def __init__(self, *_, **__):
            self.pace_bps = 10e6

        def sees(self, _at_s, _connections):
            after = {"running": "holding", "holding": "settling"}
            self.phase = "over" if is_settled.is_set() else after.get(self.phase, self.phase)
            return self.phase

    set_rate = Transfer.set_rate
    monkeypatch.setattr(
        Transfer, "set_rate", lambda self, rate: (paces.append(rate), set_rate(self, rate))
    )
    monkeypatch.setattr(cycle, "Entry", Entering)
    monkeypatch.setattr(sender_module.Sender, "unpaced_streams", lambda _: 1)
    path.quiet, path.state = False, PathState("ours", 0.03, 20e6, 20e6)
    with sending(tmp_path, Hearing("?", beside={"cubic": "B0-C1", "bbr": "B0-C1"})) as begun:
        assert news(begun.selection, "enter").facts["pace_bps"] == 10e6
        until(lambda: begun.control() == "cubic")
        assert begun.selection.status == "cubic, entering"
        assert paces[-1] == Rate("10 Mbit/s")
        is_settled.set()
        until(lambda: begun.selection.status == "cubic")
        until(lambda: paces[-1] == Rate("20 Mbit/s"))
        begun.selection.set_rate(FAST)
        begun.finish()


def test_of_a_control_that_is_given_only_the_streams_are_chosen(tmp_path, path):
    """`--streams auto`: the host offers BBR, which is not asked."""
    path.state = LOSSY
    with sending(tmp_path, controls=("cubic",)) as begun:
        until(lambda: news(begun.selection, "choice").facts["streams"] == 16)
        until(lambda: len(begun.transfer.tcp_info()) == 16)
        begun.selection.set_rate(FAST)
        events = begun.finish()
    assert {one["control"] for one in events if one["event"] == "choice"} == {"cubic"}


def test_of_a_control_that_is_given_one_stream_stays_beside_others(tmp_path, path, monkeypatch):
    monkeypatch.setattr(sender_module.Sender, "unpaced_streams", lambda _: 1)
    path.quiet, path.state = False, PathState("ours", 0.03, 20e6, 20e6)
    hearing = Hearing("?", beside={"cubic": "B1-C0"})
    with sending(tmp_path, hearing, controls=("cubic",)) as begun:
        choice = news(begun.selection, "choice")
        begun.selection.set_rate(FAST)
        begun.finish()
    assert (choice.facts["control"], choice.facts["streams"]) == ("cubic", 1)


@needs_bbr
@pytest.mark.parametrize("sign", ["shared", "others"])
def test_a_sign_of_others_ends_what_quiet_began(tmp_path, path, sign):
    path.state = PathState("shared", 0.065, 60e6, 480e6) if sign == "shared" else None
    path.others = sign == "others"
    with sending(tmp_path, Told("B0-C1")) as begun:
        choice = news(begun.selection, "choice")
        path.state = None
        begun.selection.set_rate(FAST)
        begun.finish()
    assert choice.facts["probe"] == "passive"


@needs_bbr
def test_who_shows_later_is_listened_to(tmp_path, path, monkeypatch):
    monkeypatch.setattr(sender_module.Sender, "unpaced_streams", lambda _: 1)
    path.state = FULL
    hearing = Hearing("B0-C1", beside={"cubic": NOBODY})
    with sending(tmp_path, hearing) as begun:
        first = news(begun.selection, "choice")
        path.others = True
        change = news(begun.selection, "change")
        second = news(begun.selection, "choice")
        begun.selection.set_rate(FAST)
        begun.finish()
    assert (first.facts["probe"], second.facts["probe"]) == ("sending", "listening")
    assert hearing.shown == []  # it never fell silent
    assert change.facts["what"] == "the round-trip time is less than before the first byte"


def test_a_small_file_is_there_before_a_silence_begins(tmp_path, path):
    path.quiet = False
    with sending(tmp_path, size=MIB, rate=None) as begun:
        events = begun.finish()
    assert events == []


@pytest.fixture
def lossy(path, monkeypatch):
    """A path that one CUBIC leaves mostly unused, and a host that has nothing better."""
    monkeypatch.setattr(kernel_controls, "offered", lambda: ["reno", "cubic"])
    monkeypatch.setattr(sender_module, "_DRAIN_S", 0.1)  # paced from below it would be long
    path.state = LOSSY
    return path


def test_where_no_control_fills_the_path_more_streams_do(tmp_path, lossy):
    with sending(tmp_path) as begun:
        choices = [news(begun.selection, "choice") for _ in range(2)]
        until(lambda: len(begun.transfer.tcp_info()) == 16)
        begun.selection.set_rate(FAST)
        begun.finish()
    assert [one.facts["streams"] for one in choices] == [1, 16]
    assert choices[1].facts["why"] == "the path loses 0.01 % at random: cubic, 16 streams"
    assert (tmp_path / "root" / "copy").read_bytes() == (tmp_path / "source").read_bytes()


def test_a_queue_that_is_not_ours_ends_many_streams(tmp_path, lossy):
    with sending(tmp_path, Told("B0-C1")) as begun:
        until(lambda: news(begun.selection, "choice").facts["streams"] == 16)
        until(lambda: len(begun.transfer.tcp_info()) == 16)
        lossy.state = PathState("shared", 0.065, 60e6, 480e6)
        change = news(begun.selection, "change")
        choice = news(begun.selection, "choice")
        begun.selection.set_rate(FAST)
        until(lambda: len(begun.transfer.tcp_info()) <= 1)
        begun.finish()
    assert change.facts["what"] == "a queue stands that is not ours"
    assert (choice.facts["streams"], choice.facts["probe"]) == (1, "passive")


def test_nobody_falls_silent_just_before_the_end(tmp_path, lossy):
    """What the last streams leave may look like others' doing."""
    with sending(tmp_path) as begun:
        until(lambda: news(begun.selection, "choice").facts["streams"] == 16)
        lossy.state = PathState("shared", 0.065, 60e9, 480e6)
        begun.selection.set_rate(FAST)
        events = begun.finish()
    assert [one["event"] for one in events].count("change") == 0


def test_many_streams_listen_for_others_now_and_then(tmp_path, lossy, monkeypatch):
    monkeypatch.setattr(room, "_SEVERAL_S", 0.5)
    monkeypatch.setattr(cycle.Opening, "is_quiet", property(lambda _self: True))
    with sending(tmp_path) as begun:
        change = news(begun.selection, "change")
        choice = news(begun.selection, "choice")
        begun.selection.set_rate(FAST)
        begun.finish()
    assert change.facts["what"] == "16 streams would not notice others"
    assert choice.facts["why"].startswith("the path was quiet: cubic")
    assert choice.facts["streams"] == 1


def test_a_server_that_takes_no_more_streams_is_not_asked(tmp_path, lossy, monkeypatch):
    monkeypatch.setattr(Transfer, "can_join", property(lambda _self: False))
    with sending(tmp_path) as begun:
        advice = news(begun.selection, "advice")
        begun.selection.set_rate(FAST)
        begun.finish()
        assert len(begun.transfer.ports()) == 1
    assert advice.facts["streams"] == 16


def test_streams_that_a_user_gave_stay(tmp_path, lossy):
    """`--streams` is one of what lets `weir send` not read the path."""
    asked, parser = options.Request(), build_parser("send")
    typed = ["send", "a", "h:1/", "--cca", "auto"]
    assert _reads_path(parser.parse_args(typed), asked)
    assert not _reads_path(parser.parse_args([*typed, "--streams", "3"]), asked)
    with sending(tmp_path, Told(NOBODY), reads_path=False, silence=None) as begun:
        choice = news(begun.selection, "choice")
        until(lambda: begun.transfer.progress().bytes_durable.count > 2 * MIB)
        begun.selection.set_rate(FAST)
        begun.finish()
        assert len(begun.transfer.ports()) == 1
    assert choice.facts["streams"] == 1
