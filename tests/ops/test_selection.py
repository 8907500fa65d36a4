"""The cycle beside a real transfer on this machine, with a recogniser that says what it is told."""

import io
import json
import subprocess
import threading
from types import SimpleNamespace

import pytest

from weir._core import Bytes, Rate, Time
from weir.errors import BadInput
from weir.ops.choice import Interaction, Meeting
from weir.ops.selection import Selection, Settings, default_control, offered_controls
from weir.transfer import Server, Transfer

MIB = 1 << 20
TABLE = Interaction(
    [
        Meeting("B", "bbr", 0.1, 1.0, 0.5, (0.5,)),
        Meeting("B", "cubic", 0.1, 1.0, 0.1, (0.9,)),
        Meeting("C", "bbr", 0.1, 1.0, 0.9, (0.1,)),
        Meeting("C", "cubic", 0.1, 1.0, 0.5, (0.5,)),
    ],
    {},
)
needs_bbr = pytest.mark.skipif(
    not {"bbr", "cubic"} <= set(offered_controls()), reason="the kernel offers no BBR, or no CUBIC"
)


class Told:
    """Says of each probing what comes next in a list, and notes what it was shown."""

    rate_hz = 20.0
    requests = 1

    def __init__(self, *labels, seconds=(0.5,), sure=1.0):
        self.seconds = seconds
        self.labels = list(labels)
        self.sure = sure
        self.shown = []
        self.durable = []
        self.moved = 0
        self.transfer = None

    def recognise(self, samples):
        self.shown.append(list(samples))
        self.durable.append(self.transfer.progress().bytes_durable.count)
        threading.Event().wait(0.1)
        self.moved += self.transfer.progress().bytes_durable.count - self.durable[-1]
        label = self.labels.pop(0) if len(self.labels) > 1 else self.labels[0]
        sure = self.sure if len(self.shown) < len(self.seconds) else 1.0
        likely = {"B": 1 - sure, "C": 1 - sure} | {label: sure}
        return SimpleNamespace(
            probabilities=likely, bbr=likely["B"], known=label != "?", why=f"it is {label}"
        )


class Sending:
    """A paced transfer over the loopback interface with a selection beside it."""

    def __init__(self, tmp_path, recogniser, size, host="127.0.0.1", **settings):
        source = tmp_path / "source"
        source.write_bytes(b"x" * size)
        (tmp_path / "root").mkdir()
        self.server = Server([tmp_path / "root"], listen="127.0.0.1:0", keys=None)
        place = "{}:{}/copy".format(*self.server.address)
        self.transfer = Transfer.send([source], place, keys=None, rate=Rate.from_bit_per_s(0))
        if isinstance(recogniser, Told):
            recogniser.transfer = self.transfer
            make = lambda: recogniser  # noqa: E731
        else:
            make = recogniser
        self.log = io.StringIO()
        chosen = Settings(interaction=TABLE, log=self.log, **settings)
        self.selection = Selection(self.transfer, host, make, chosen)

    def __enter__(self):
        self.server.__enter__()
        self.transfer.start()
        self.selection.start()
        return self

    def __exit__(self, *raised):
        self.transfer.cancel()
        self.selection.stop()
        self.server.stop()

    def finish(self):
        assert self.transfer.wait(Time("60 s"))
        assert self.transfer.progress().bytes_durable == self.transfer.progress().bytes_total
        self.selection.stop()
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def control(self):
        """What the kernel says the data connection's control is."""
        ((_, port, *_),) = self.transfer.ports()
        told = subprocess.run(
            ["ss", "-tinH", "sport", "=", f":{port}"], capture_output=True, text=True, check=True
        )
        return next(name for name in offered_controls() if f" {name} " in told.stdout)


def news(selection, event, timeout_s=30.0):
    """The first news of this kind."""
    waiting = threading.Event()
    for _ in range(int(timeout_s / 0.02)):
        for one in selection.take_news():
            if one.event == event:
                return one
        waiting.wait(0.02)
    raise AssertionError(f"no {event} within {timeout_s} s")


@needs_bbr
@pytest.mark.parametrize(("label", "control"), [("B", "bbr"), ("C", "cubic")])
def test_the_control_is_chosen_before_the_first_byte(tmp_path, label, control):
    told = Told(label)
    with Sending(tmp_path, told, 4 * MIB, rate=Rate("40 Mbit/s")) as sending:
        choice = news(sending.selection, "choice")
        assert sending.control() == control
        events = sending.finish()
    assert told.durable == [0]
    assert choice.facts["control"] == control
    assert f"{control} after 0.5 s of probing: it is {label}" in choice.words
    ((samples),) = told.shown
    assert len(samples) == 10
    assert [event["event"] for event in events] == ["choice"]
    assert events[0]["probabilities"][label] == 1.0
    assert events[0]["expected"]["cubic"].keys() == {"of_fair", "jain", "worth"}


@needs_bbr
def test_the_connection_is_kept_and_silent_while_the_path_is_probed_again(tmp_path):
    told = Told("B", "C")
    with Sending(tmp_path, told, 5 * MIB, rate=Rate("20 Mbit/s"), steady_s=0.7) as sending:
        assert news(sending.selection, "choice").facts["control"] == "bbr"
        first = sending.transfer.ports()
        assert news(sending.selection, "choice").facts["control"] == "cubic"
        assert sending.control() == "cubic"
        assert sending.transfer.ports() == first
        events = sending.finish()
    assert [event["control"] for event in events[:2]] == ["bbr", "cubic"]
    assert told.durable[0] == 0 < told.durable[1] < 5 * MIB
    assert told.moved == 0


def test_more_is_probed_until_it_is_sure(tmp_path):
    told = Told("C", seconds=(0.25, 0.5, 1.0), sure=0.6)
    with Sending(tmp_path, told, 1000) as sending:
        sending.finish()
    assert [len(samples) for samples in told.shown] == [5, 10, 20]
    told = Told("C", seconds=(0.25, 0.5, 1.0))
    (tmp_path / "second").mkdir()
    with Sending(tmp_path / "second", told, 1000) as sending:
        sending.finish()
    assert [len(samples) for samples in told.shown] == [5]


def test_an_unknown_path_leaves_the_control_alone(tmp_path):
    with Sending(tmp_path, Told("?"), 1000) as sending:
        (choice,) = sending.finish()
    assert choice["control"] == default_control()
    assert not choice["known"]


@pytest.mark.parametrize(
    ("host", "said"),
    [
        # Reserved (RFC 1112 section 4): nobody is there.
        ("240.0.0.1", "answered none of"),
        ("no.such.host.invalid", "unknown host"),
    ],
)
def test_a_host_without_echo_is_told_and_the_file_goes_on(tmp_path, host, said):
    with Sending(tmp_path, Told("B"), 3 * MIB, host=host) as sending:
        (event,) = sending.finish()
    assert event["event"] == "fallback"
    assert said in event["reason"]
    assert event["control"] == default_control()


def test_a_model_that_cannot_be_read_is_told_and_the_file_goes_on(tmp_path):
    def broken():
        raise BadInput("model.npz has format 9, this Weir reads 1")

    with Sending(tmp_path, broken, 3 * MIB) as sending:
        words = news(sending.selection, "fallback").words
        sending.finish()
    assert "format 9" in words
    assert f"the transfer goes on with {default_control()}" in words


def test_a_transfer_that_fails_ends_the_selection(tmp_path):
    with Sending(tmp_path, Told("C", seconds=(30.0,)), 1000) as sending:
        sending.transfer.cancel()
        sending.selection.stop()
        assert sending.selection.take_news() == []
        assert sending.transfer.remaining == Bytes.from_count(1000) or sending.transfer.is_over


def test_fairness_out_of_its_domain_is_refused_before_anything_begins():
    with pytest.raises(BadInput, match="fairness 2"):
        Settings(fairness=2.0)
