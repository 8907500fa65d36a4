"""A choice that nobody asked for: where it is loaded, what it holds up, what people are told."""

import threading
import time
from types import SimpleNamespace

import pytest
from rig import until

from weir import kernel_controls
from weir.cli import build_parser, main
from weir.cli.send import _left_to_us
from weir.congestion.cycle import lazily
from weir.congestion.cycle.lazily import LazySelection
from weir.congestion.cycle.samples import Samples
from weir.transfer import Server
from weir.transfer.watch import News

UNSENT, WHOLE = bytes(248), 100_000_000


def tcp_info(sent_again=0):
    """What the kernel tells of a connection that has sent so many packets again."""
    return UNSENT[:100] + sent_again.to_bytes(4, "little") + UNSENT[104:]


class World:
    """A transfer whose connections, losses and end the test says; what is loaded beside it."""

    def __init__(self, monkeypatch):
        self.told, self.is_over, self.sent, self.rate_bps = [], False, 0, 1e6
        self.silent, self.is_asking, self.asked = [], None, 0
        self.loads, self.may_load, self.started = [], threading.Event(), threading.Event()
        self.may_load.set()
        self.ends = []
        monkeypatch.setattr(lazily, "_LOOK_S", 0.005)

    def tcp_info(self):
        return self.told

    def progress(self):
        rate = SimpleNamespace(bit_per_s=self.rate_bps)
        return SimpleNamespace(bytes_done=self.sent, bytes_resumed=0, rate=rate)

    @property
    def remaining(self):
        return SimpleNamespace(count=WHOLE - self.sent)

    def silence(self):
        """Samples whose prober stands ready at once, and asks nobody."""
        samples = Samples(lambda: None)
        samples.begin = lambda: setattr(samples, "_begun_ns", time.monotonic_ns() - 50_000_000)
        samples.end = lambda: self.silent.append("ended")
        self.silent.append(samples)
        return samples

    def select(self, silent):
        self.loads.append(silent)
        self.may_load.wait(10)
        news = [
            News("cubic, as it was", "choice", {"control": "cubic", "streams": 1}),
            News("nobody answers", "fallback", {}),
            News("bbr, which gets more", "choice", {"control": "bbr", "streams": 1}),
            News("once more", "choice", {"control": "bbr", "streams": 1}),
            News("16 streams would get more", "advice", {}),
        ]
        return SimpleNamespace(
            start=self.started.set,
            stop=lambda: self.ends.append("stop"),
            take_news=lambda: news,
            status="bbr",
        )

    def selection(self, unasked="cubic"):
        return LazySelection(self, self.silence, self.select, unasked)


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_a_near_path_that_loses_nothing_loads_nothing(world):
    world.told = [tcp_info()]
    selection = world.selection()
    selection.start()
    until(lambda: not world.silent and selection.status == "")
    world.is_over = True
    selection.stop()
    assert world.loads == [] and world.silent == []


def test_a_near_path_that_loses_packets_loads_the_choice_and_claims_no_silence(world):
    before_ns = time.monotonic_ns()
    world.told = [tcp_info(), tcp_info()]
    selection = world.selection()
    selection.start()
    world.told = [tcp_info(), tcp_info(sent_again=256)]
    until(world.started.is_set)
    selection.stop()
    (silent,) = world.loads
    assert before_ns <= silent.until_ns <= time.monotonic_ns()
    assert silent._begun_ns is None  # none of its samples is from before the first byte


def test_who_is_nearly_done_gains_nothing(world):
    world.told, world.rate_bps = [tcp_info(sent_again=9)], 8 * WHOLE
    selection = world.selection()
    selection.start()
    assert not world.started.wait(0.1)
    world.rate_bps = 8 * WHOLE / 6
    until(world.started.is_set)
    selection.stop()


def test_a_long_path_loads_while_it_is_silent_and_knows_when_that_ended(world):
    world.may_load.clear()
    selection = world.selection()
    selection.start()
    until(lambda: world.loads)
    (silent,) = world.loads
    assert silent.until_ns is None and not silent.are_few
    before_ns = time.monotonic_ns()
    world.told, world.sent = [tcp_info()], 1
    until(lambda: silent.until_ns is not None)
    after_ns = time.monotonic_ns()
    threading.Event().wait(0.02)
    world.may_load.set()
    until(world.started.is_set)
    selection.stop()
    # At the last look before the first byte, which was no earlier than 5 ms or a slow turn before.
    assert before_ns - 1_000_000_000 <= silent.until_ns <= after_ns


def test_connections_that_are_made_before_eight_samples_are_a_near_path(world):
    selection = world.selection()
    selection.start()
    until(lambda: world.silent)
    world.told, world.sent = [tcp_info()], 1
    until(lambda: "ended" in world.silent)
    assert not world.started.wait(0.05)
    world.is_over = True
    selection.stop()
    assert world.loads == []


def test_a_transfer_that_is_over_waits_for_nothing(world):
    world.may_load.clear()
    selection = world.selection()
    selection.start()
    until(lambda: world.loads)
    world.is_over = True
    began = time.monotonic()
    selection.stop()
    assert time.monotonic() - began < 5  # the loading waits for ten
    world.may_load.set()


def test_what_cannot_be_loaded_leaves_the_transfer_alone(world, caplog):
    def select(_silent):
        raise RuntimeError("no such module")

    selection = LazySelection(world, world.silence, select, "cubic")
    selection.start()
    until(lambda: "no congestion control could be chosen" in caplog.text)
    until(lambda: world.silent[1:] == ["ended"])  # nor is the path asked for nobody
    selection.stop()
    assert selection.take_news() == [] and selection.status == ""


def test_people_who_did_not_ask_are_told_of_what_changes_alone(world):
    world.told = [tcp_info(sent_again=1)]
    for unasked, words in (
        ("cubic", ["", "", "bbr, which gets more", "", "16 streams would get more"]),
        (
            None,
            [
                "cubic, as it was",
                "nobody answers",
                "bbr, which gets more",
                "once more",
                "16 streams would get more",
            ],
        ),
    ):
        world.started.clear()
        selection = world.selection(unasked)
        selection.start()
        until(world.started.is_set)
        selection.stop()
        news = selection.take_news()
        assert [one.words for one in news] == words
        assert [one.event for one in news] == ["choice", "fallback", "choice", "choice", "advice"]
        assert selection.status == "bbr"
    assert world.ends == ["stop", "stop"]


@pytest.mark.parametrize(
    ("words", "host", "is_left"),
    [
        ([], "cubic", True),
        ([], "reno", True),
        ([], "bbr", False),  # its owner wanted that
        (["--cca", "host"], "cubic", False),
        (["--cca", "cubic"], "cubic", False),
        (["--rate", "9 Mbit/s"], "cubic", False),
        (["--route", "7411=9 Mbit/s"], "cubic", False),
        (["--streams", "2"], "cubic", False),
        (["--streams", "auto"], "cubic", True),
        (["--by", "+9 s"], "cubic", True),
    ],
)
def test_the_control_is_left_to_us_where_nobody_said_anything(monkeypatch, words, host, is_left):
    monkeypatch.setattr(kernel_controls, "default", lambda: host)
    parse = build_parser("send").parse_args
    assert _left_to_us(parse(["send", "a", "h:1/", *words])) == (host if is_left else None)
    assert _left_to_us(parse(["send", "a", "h:1,i:1/", *words])) is None


def test_a_near_path_is_sent_over_as_ever(tmp_path, capsys):
    """Over the loopback interface, for long enough that a choice could be loaded."""
    (tmp_path / "root").mkdir()
    source = tmp_path / "source"
    source.write_bytes(b"weir" * 40_000_000)
    with Server([tmp_path / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/copy".format(*server.address)
        assert main(["send", str(source), place, "--insecure"]) == 0
    told = capsys.readouterr().err
    assert told.startswith("sent: 1 file, 160 MB in ") and "cubic" not in told
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()
