"""The cycle beside a real transfer on this machine, with a recogniser that says what it is told."""

import contextlib
import itertools
import re
import socket
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cycle_rig import FAST, MIB, Hearing, Sending, Told, needs_bbr, news
from rig import until

from weir import kernel_controls
from weir._core import Rate
from weir.congestion.choice import Interaction, Meeting
from weir.congestion.cycle import cycle as selection_module
from weir.congestion.cycle import demand, monitor
from weir.congestion.cycle.cycle import Selection
from weir.congestion.cycle.sender import Sender
from weir.congestion.cycle.settings import Settings
from weir.errors import BadInput, Unsupported
from weir.probe import carrier
from weir.probe import pattern as pattern_module
from weir.probe.echo import echo_to
from weir.probe.responder import Responder


@pytest.fixture
def anew(tmp_path, measured):
    """Carries a check out, `check(folder)`, in a new folder each time that it is measured."""
    numbers = itertools.count()

    def carry_out(check):
        def once():
            folder = tmp_path / f"attempt-{next(numbers)}"
            folder.mkdir()
            check(folder)

        measured(once)

    return carry_out


def paced(event, since=0):
    """Whether it sent no more than its 20 Mbit/s, and no less than what arrived.

    More only by the first ten packets of a connection, which Linux does not pace, and one that is
    on its way: `tcp_update_skb_after_send` (net/ipv4/tcp_output.c), packets of up to 64 KiB over
    loopback. What waited in the connection while the path was probed is less than that
    (`set_unsent_max` allows 256 KiB). Less only by what was on its way at its begin, or between its
    last look at the connection and the end of that. How much arrived meanwhile is the transfer's to
    say, so that a busy machine may hold it up. A deadline's event is about the last `TREND_S`,
    which is a second in these tests, and says no offset.

    Args:
        since: the offset up to which the file had arrived when it began; None where that is not
            known, so that only the upper bound holds. What an earlier event says is none: what had
            come by then, and was not yet told as durable, would count as having come since.
    """
    seconds = event.get("seconds", 1.0)
    sent, most = (rate * seconds / 8 for rate in (event["goodput_bps"], 20e6))
    arrived = 0 if since is None else event.get("next_offset", since) - since
    unpaced_bytes = 11 * 64 * 1024
    return 0.75 * arrived - unpaced_bytes < sent < most + unpaced_bytes


@needs_bbr
@pytest.mark.parametrize(("label", "control"), [("B", "bbr"), ("C", "cubic")])
def test_the_control_is_chosen_before_the_first_byte(tmp_path, label, control):
    told = Told(label)
    with Sending(tmp_path, told, 4 * MIB, rate=Rate("4 Mbit/s")) as sending:
        choice = news(sending.selection, "choice")
        assert sending.control() == control
        sending.selection.set_rate(FAST)
        events = sending.finish()
    assert told.durable == [0]
    assert choice.facts["control"] == control
    assert f"{control} after 0.5 s of probing: it is {label}" in choice.words
    ((samples),) = told.shown
    assert len(samples) == 10
    assert [event["event"] for event in events] == ["choice", "steady"]
    assert events[0]["probe"] == "passive"
    assert events[0]["probabilities"][label] == 1.0
    assert events[0]["expected"]["cubic"].keys() == {"of_fair", "jain", "worth"}


@pytest.mark.alone
@needs_bbr
def test_the_paths_own_round_trip_says_which_meetings_count(tmp_path):
    """Loopback is a path of microseconds, where BBR suits B; in the mean of both CUBIC would."""
    fair, unfair = (0.5, (0.5,)), (0.9, (0.1,))
    table = Interaction(
        [
            Meeting("B", "bbr", 1e8, 0.001, 1.0, *fair),
            Meeting("B", "cubic", 1e8, 0.001, 1.0, 0.6, (0.4,)),
            Meeting("B", "bbr", 1e8, 0.1, 1.0, *unfair),
            Meeting("B", "cubic", 1e8, 0.1, 1.0, *fair),
        ],
        {},
    )
    with Sending(tmp_path, Told("B"), 1000, interaction=table) as sending:
        choice, _steady = sending.finish()
    assert choice["control"] == "bbr"
    assert "a round trip of" in choice["why"]
    assert "counts as 1 ms" in choice["why"]


def test_a_table_of_another_version_is_told_and_the_file_goes_on(tmp_path, monkeypatch):
    file = tmp_path / "table.json"
    file.write_text('{"format": 1, "provenance": {}, "meetings": []}')
    monkeypatch.setattr(Interaction, "shipped", lambda: Interaction.load(file))
    with Sending(tmp_path, Told("B"), 1000, interaction=None) as sending:
        (event,) = sending.finish()
        assert sending.transfer.congestion() in (None, kernel_controls.default())
    assert event["event"] == "fallback"
    assert "table.json has format 1, this Weir reads 2: make it again" in event["reason"]
    assert event["control"] == kernel_controls.default()


@needs_bbr
def test_the_connection_is_kept_and_silent_while_the_path_is_probed_again(tmp_path):
    told, size = Told("B", "C"), 20 * MIB
    with Sending(tmp_path, told, size, rate=Rate("20 Mbit/s"), steady_s=0.7) as sending:
        assert news(sending.selection, "choice").facts["control"] == "bbr"
        first = sending.transfer.ports()
        assert news(sending.selection, "choice").facts["control"] == "cubic"
        assert sending.control() == "cubic"
        assert sending.transfer.ports() == first
        sending.selection.set_rate(FAST)
        events = sending.finish()
    steps = [(event["event"], event["control"]) for event in events[:3]]
    assert steps == [("choice", "bbr"), ("steady", "bbr"), ("choice", "cubic")]
    assert events[1]["seconds"] >= 0.7
    assert paced(events[1])
    assert told.durable[0] == 0 < told.durable[1] < size
    assert told.moved == 0


@needs_bbr
def test_a_change_that_is_seen_too_early_is_kept_for_its_time(tmp_path, monkeypatch):
    class Detector:
        """Sees a change at its second look, and never again."""

        def __init__(self):
            self.looks = 0

        def sees(self, _at_s, _connections):
            self.looks += 1
            return "goodput is halved" if self.looks == 2 else None

    monkeypatch.setattr(selection_module, "ChangeDetector", Detector)
    monkeypatch.setattr(selection_module, "_LEAST_STEADY_S", 1.5)
    with Sending(tmp_path, Told("B", "C"), 40 * MIB, rate=Rate("20 Mbit/s")) as sending:
        assert news(sending.selection, "change").facts["what"] == "goodput is halved"
        news(sending.selection, "choice")
        sending.selection.set_rate(FAST)
        events = sending.finish()
    assert [event["event"] for event in events[:4]] == ["choice", "change", "steady", "choice"]
    assert events[2]["seconds"] >= 1.5
    assert [events[0]["control"], events[3]["control"]] == ["bbr", "cubic"]


@pytest.mark.alone
@needs_bbr
def test_a_file_that_would_be_late_gets_what_is_faster(anew, monkeypatch):
    """As slow as its pace is the path here, which a control cannot know."""
    monkeypatch.setattr(demand, "TREND_S", 1.0)
    monkeypatch.setattr(demand, "_OF_PACE", 2.0)
    monkeypatch.setattr(demand.Demand, "bps", unpaced(demand.Demand.bps))
    anew(late_gets_what_is_faster)


def late_gets_what_is_faster(tmp_path):
    # 67 Mbit: 3.4 s at the pace; in 2.5 s, of which half a one is silent, it is not to be done.
    deadline = datetime.now().astimezone() + timedelta(seconds=2.5)
    settings = {"rate": Rate("20 Mbit/s"), "deadline": deadline, "steady_s": 0.0}
    told = Told("C")
    with Sending(tmp_path, told, 8 * MIB, **settings) as sending:
        assert news(sending.selection, "choice").facts["control"] == "cubic"
        assert news(sending.selection, "choice").facts["probe"] == "deadline"
        assert sending.control() == "bbr"
        events = sending.finish()
    kinds = [event["event"] for event in events]
    assert kinds == ["choice", "deadline", "steady", "choice", "steady"]
    assert paced(events[1])
    assert events[1]["goodput_bps"] > 0
    assert events[1]["needed_bps"] > 20e6
    assert 1.0 <= events[3]["probed_s"] < 2.0
    assert "where the deadline takes" in events[3]["why"]
    assert len(told.shown) == 1  # silent once


def test_a_file_that_will_be_in_time_keeps_the_fair_one(tmp_path, monkeypatch):
    monkeypatch.setattr(demand, "TREND_S", 1.0)
    monkeypatch.setattr(demand, "_OF_PACE", 2.0)
    settings = {"rate": Rate("20 Mbit/s"), "steady_s": 0.0}
    deadline = datetime.now().astimezone() + timedelta(seconds=60)
    with Sending(tmp_path, Told("C"), 6 * MIB, deadline=deadline, **settings) as sending:
        events = sending.finish()
    assert [event["event"] for event in events] == ["choice", "steady"]
    assert events[0]["control"] == "cubic"


def unpaced(bps):
    """What the deadline takes whatever the pace lets through."""
    return lambda self, remaining_bytes, _pace: bps(self, remaining_bytes, None)


@pytest.mark.alone
def test_a_pace_that_changes_while_it_is_silent_is_taken_up_afterwards(anew):
    def check(tmp_path):
        told = Told("C", seconds=(1.0,))
        with Sending(tmp_path, told, 5 * MIB, rate=Rate("200 Mbit/s"), steady_s=0.0) as sending:
            assert sending.selection.status == "probing the path"
            sending.selection.set_rate(Rate("20 Mbit/s"))
            control = news(sending.selection, "choice").facts["control"]
            assert sending.selection.status == control
            (_, steady) = sending.finish()
        assert told.durable == [0]
        assert paced(steady)

    anew(check)


@pytest.mark.alone
@needs_bbr
def test_who_is_heard_while_it_sends_is_followed_without_silence(anew, monkeypatch):
    """On a path as fast as this machine's memory a file lasts if it is paced from below."""
    monkeypatch.setattr(monitor, "_SETTLE_S", 0.2)
    monkeypatch.setattr(monitor, "_LOOK_S", 0.1)
    monkeypatch.setattr(Sender, "unpaced_streams", lambda _: 1)
    anew(heard_and_followed)


def heard_and_followed(tmp_path):
    told = Hearing("C", beside={"cubic": "B", "bbr": "B"})
    with Sending(tmp_path, told, 8 * MIB, rate=Rate("20 Mbit/s")) as sending:
        assert news(sending.selection, "choice").facts["control"] == "cubic"
        first = sending.transfer.ports()
        choice = news(sending.selection, "choice")
        # One that BBR has squeezed would be a minute in coming to its share.
        until(lambda: len(now := sending.transfer.ports()) == 1 and now != first)
        assert sending.control() == "bbr"
        events = sending.finish()
    assert [event["event"] for event in events] == ["choice", "steady", "choice", "steady"]
    assert re.match("bbr after [0-9.]+ s of listening: it is B by now", choice.words)
    assert choice.facts["probe"] == "listening"
    assert len(told.shown) == 1  # silent once
    assert paced(events[1])
    assert told.listened[: monitor.LOOKS] == ["cubic"] * monitor.LOOKS
    assert told.listened[-1] == "bbr"
    # What the file's connection counted is shown with the samples, in the order in which they came.
    acked = [count.acked_bytes for count in told.counts]
    assert acked == sorted(acked)
    assert acked[-1] > 0
    assert all(count.window_bytes > 0 for count in told.counts)


@needs_bbr
@pytest.mark.parametrize("fallback", [None, "bbr"])
def test_bbr_that_was_taken_alone_is_left_for_unknown_company(tmp_path, monkeypatch, fallback):
    """Unless it is what is wanted in doubt."""
    monkeypatch.setattr(monitor, "_SETTLE_S", 0.1)
    monkeypatch.setattr(monitor, "_LOOK_S", 0.05)
    monkeypatch.setattr(Sender, "unpaced_streams", lambda _: 1)

    class Company(Hearing):
        """Nobody is heard in the first ten looks, and then what was never learned."""

        def beside(self, samples, own, streams=1, counts=()):
            heard = super().beside(samples, own)
            heard.known = len(self.listened) <= 10
            return heard

    told = Company("B0-C0", beside={"bbr": "B0-C0", "cubic": "B0-C0"})
    alone = [
        Meeting("B0-C0", "bbr", 1e8, 0.1, 1.0, 1.0, ()),
        Meeting("B0-C0", "cubic", 1e8, 0.1, 1.0, 0.5, ()),
    ]
    settings = {"interaction": Interaction(alone, {}), "fallback": fallback}
    with Sending(tmp_path, told, 32 * MIB, rate=Rate("20 Mbit/s"), **settings) as sending:
        assert news(sending.selection, "choice").facts["control"] == "bbr"
        if fallback is None:
            choice = news(sending.selection, "choice")
            assert choice.words.endswith("cubic harms least")
            assert choice.facts["known"] is False
            assert sending.control() == "cubic"
        else:
            until(lambda: len(told.listened) > 40)
        sending.selection.set_rate(FAST)
        events = sending.finish()
    kinds = ["choice", "steady", "choice", "steady"]
    assert [event["event"] for event in events] == (kinds[:2] if fallback else kinds)


@needs_bbr
def test_it_is_listened_beside_all_streams_of_the_file(tmp_path, monkeypatch):
    """After one silence; what is heard beside them is followed without another."""
    monkeypatch.setattr(monitor, "_SETTLE_S", 0.1)
    monkeypatch.setattr(monitor, "_LOOK_S", 0.05)
    monkeypatch.setattr(monitor, "LOOKS", 4)
    told, counted = Hearing("C", beside={"cubic": "B", "bbr": "B"}), Sender.unpaced_streams
    monkeypatch.setattr(
        Sender, "unpaced_streams", lambda self: counted(self) or len(self.connections.look())
    )
    with Sending(tmp_path, told, 8 * MIB, streams=3, rate=Rate("20 Mbit/s")) as sending:
        assert news(sending.selection, "choice").facts["control"] == "cubic"
        assert news(sending.selection, "choice").facts["control"] == "bbr"
        sending.selection.set_rate(FAST)
        sending.finish()
    assert set(told.beside_streams) == {3}
    assert set(told.listened) == {"cubic"}  # several of BBR hide others
    assert len(told.shown) == 1


def test_only_streams_without_a_pace_are_listened_beside(tmp_path):
    told = Told("C")
    with Sending(tmp_path, told, 8 * MIB, streams=3, rate=Rate("20 Mbit/s")) as sending:
        until(lambda: len(sending.transfer.tcp_info()) == 3)
        ended = threading.Event()
        paced, free = (
            Sender(sending.transfer, None, pace, ended) for pace in (Rate("20 Mbit/s"), None)
        )
        assert (paced.unpaced_streams(), free.unpaced_streams()) == (0, 3)


@needs_bbr
@pytest.mark.parametrize(
    ("alone", "settings"), [(False, {}), (True, {"steady_s": 0.0})], ids=["paced", "chosen once"]
)
def test_where_it_would_tell_nothing_nobody_listens(tmp_path, monkeypatch, alone, settings):
    if alone:
        monkeypatch.setattr(Sender, "unpaced_streams", lambda _: 1)
    told = Hearing("C", beside={"cubic": "B"})
    with Sending(tmp_path, told, 3 * MIB, rate=Rate("20 Mbit/s"), **settings) as sending:
        events = sending.finish()
    assert [event["event"] for event in events] == ["choice", "steady"]
    assert told.listened == []


@needs_bbr
def test_a_control_that_was_left_by_mistake_is_left_less_readily(tmp_path, monkeypatch):
    monkeypatch.setattr(monitor, "_SETTLE_S", 0.1)
    monkeypatch.setattr(monitor, "_LOOK_S", 0.05)
    monkeypatch.setattr(monitor, "LOOKS", 4)
    monkeypatch.setattr(Sender, "unpaced_streams", lambda _: 1)
    told = Hearing("C", beside={"cubic": "B", "bbr": "C"})
    with Sending(tmp_path, told, 80 * MIB, rate=Rate("20 Mbit/s")) as sending:
        until(lambda: len(told.listened) > 4 + 4 + 8 + 8)
        sending.selection.set_rate(None)
        sending.finish()
    runs = [(own, len(list(looks))) for own, looks in itertools.groupby(told.listened)]
    assert runs[:4] == [("cubic", 4), ("bbr", 4), ("cubic", 8), ("bbr", 8)]


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


def test_between_the_lengths_that_it_knows_it_is_asked_every_second(tmp_path):
    told = Told("C", seconds=(0.5, 3.0), sure=0.6)
    with Sending(tmp_path, told, 1000) as sending:
        sending.finish()
    assert [len(samples) for samples in told.shown] == [10, 30]


@needs_bbr
@pytest.mark.parametrize("fallback", [None, "bbr", "cubic"])
def test_on_an_unknown_path_a_control_stays_unless_it_may_harm(tmp_path, fallback):
    with Sending(tmp_path, Told("?"), 1000, fallback=fallback) as sending:
        choice, _steady = sending.finish()
    gentle = {"bbr": "cubic"}.get(kernel_controls.default(), kernel_controls.default())
    assert choice["control"] == (fallback or gentle)
    assert not choice["known"]


@pytest.mark.parametrize("is_open", [True, False], ids=["silent", "closed"])
def test_a_host_without_echo_is_told_and_the_file_goes_on(tmp_path, is_open):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind(("127.0.0.1", 0))
        port = mute.getsockname()[1]
        if not is_open:
            mute.close()
        with Sending(tmp_path, Told("B"), 3 * MIB, udp=port) as sending:
            (event,) = sending.finish()
    assert event["event"] == "fallback"
    assert "127.0.0.1 answered none of" in event["reason"]
    assert ("Connection refused" in event["reason"]) is not is_open
    assert f"is weir probe --serve {port} running there" in event["reason"]
    assert event["control"] == kernel_controls.default()


@needs_bbr
def test_a_host_that_drops_icmp_is_probed_by_udp(tmp_path):
    with Responder(0) as responder, Sending(tmp_path, Told("B"), 1000, udp=responder.port) as one:
        choice, _steady = one.finish()
    assert choice["control"] == "bbr"


@pytest.mark.alone
def test_a_path_that_answers_no_more_keeps_what_was_chosen_until_it_does(anew):
    """An outage while the path is probed again is no reason never to look again."""
    anew(kept_through_an_outage)


def kept_through_an_outage(tmp_path):
    told = Told("C", "C", "B")
    asked = []

    class Outage(Selection):
        def _echo(self, target):
            asked.append(target)
            return echo_to(target, closed if len(asked) == 2 else None)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind(("127.0.0.1", 0))
        closed = mute.getsockname()[1]
    settings = {"rate": Rate("20 Mbit/s"), "steady_s": 0.5}
    with Sending(tmp_path, told, 10 * MIB, kind=Outage, **settings) as sending:
        events = sending.finish()
    kinds = [event["event"] for event in events[:5]]
    assert kinds == ["choice", "steady", "fallback", "steady", "choice"]
    assert events[2]["control"] == events[0]["control"]
    assert paced(events[3], since=None)


@pytest.mark.parametrize("error", [ZeroDivisionError("0 / 0"), BadInput("a window too short")])
def test_whatever_goes_wrong_in_recognising_the_file_goes_on(tmp_path, error):
    class Broken(Told):
        def recognise(self, samples):
            raise error

    with Sending(tmp_path, Broken("B"), 3 * MIB) as sending:
        (event,) = sending.finish()
    assert event["event"] == "fallback"
    assert str(error) in event["reason"]


def test_a_log_that_takes_no_more_is_told_and_the_choice_goes_on(tmp_path):
    with contextlib.suppress(OSError), Path("/dev/full").open("w") as full:
        with Sending(tmp_path, Told("C"), 1000, log=full) as sending:
            assert sending.finish() == []
        told = [one.words for one in sending.selection.take_news()]
    assert "after 0.5 s of probing: it is C" in told[0]
    assert told[1:] == ["/dev/full: No space left on device; nothing more is written there"]


def test_a_model_that_cannot_be_read_is_told_and_the_file_goes_on(tmp_path):
    def broken():
        raise BadInput("model.npz has format 9, this Weir reads 1")

    with Sending(tmp_path, broken, 3 * MIB) as sending:
        words = news(sending.selection, "fallback").words
        sending.finish()
    assert "format 9" in words
    assert f"the transfer goes on with {kernel_controls.default()}" in words


@needs_bbr
def test_in_active_probing_the_bursts_are_the_files_own_bytes(tmp_path):
    told = Told("B", seconds=(3.0,))
    rate, size = Rate("20 Mbit/s"), 12 * MIB
    with Sending(tmp_path, told, size, rate=rate, pattern="C1-S1-C1", label="x") as sending:
        choice = news(sending.selection, "choice").facts
        assert sending.control() == "bbr"
        events = sending.finish()
        done = sending.transfer.progress().bytes_done.count
    (samples,) = told.shown
    assert [sample.segment for sample in samples] == ["C1"] * 20 + ["S1"] * 20 + ["C1"] * 20
    turns = {turn["begin_s"]: turn for turn in choice["turns"]}
    for begin_s in (0.0, 2.0):
        # Others on the machine may hold it up, and nothing lifts it above.
        assert 0.2 * 20e6 < turns[begin_s]["confirmed_bytes"] * 8 < 1.25 * 20e6
    # What is on its way at the end of a burst: its unsent bytes, and the piece that is being given.
    assert turns[1.0]["confirmed_bytes"] < MIB
    # Nothing is sent twice: what was sent in probing is part of the file.
    assert told.durable[0] >= MIB
    assert done == size
    assert (tmp_path / "root" / "copy").read_bytes() == (tmp_path / "source").read_bytes()
    assert {event["label"] for event in events} == {"x"}
    assert choice["probe"] == "C1-S1-C1"
    assert told.durable[0] <= choice["next_offset"] <= size


def test_a_file_that_ends_in_the_pattern_ends_the_probing(tmp_path):
    told = Told("C", seconds=(60.0,))
    with Sending(tmp_path, told, 2 * MIB, rate=Rate("40 Mbit/s"), pattern="C30-S30") as sending:
        assert sending.finish() == []
    assert told.shown == []


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("C5-X5", "pattern 'C5-X5', segment 2 'X5': X is not a code"),
        ("C5-B1", "this kernel has no congestion control westwood9; it has"),
    ],
)
def test_a_pattern_that_cannot_be_is_told_and_the_file_goes_on(
    tmp_path, monkeypatch, pattern, said
):
    monkeypatch.setitem(pattern_module.CONGESTION, "B", "westwood9")
    with Sending(tmp_path, Told("B"), 3 * MIB, pattern=pattern) as sending:
        (event,) = sending.finish()
    assert event["event"] == "fallback"
    assert said in event["reason"]
    assert event["control"] == kernel_controls.default()


def test_a_kernel_without_bbr_has_what_it_has(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_controls, "offered", lambda: ["reno", "cubic"])
    with Sending(tmp_path, Told("B"), 1000) as sending:
        choice, _steady = sending.finish()
    assert choice["control"] == "cubic"
    assert choice["expected"].keys() == {"cubic"}


@needs_bbr
@pytest.mark.parametrize(("label", "control"), [("B", "bbr"), ("C", "cubic")])
def test_the_works_tree_weighs_nothing(tmp_path, label, control):
    with Sending(tmp_path, Told(label), 1000, rule="tree", fairness=0.0) as sending:
        choice, _steady = sending.finish()
    assert (choice["control"], choice["expected"]) == (control, {})


def test_the_works_tree_on_a_kernel_without_bbr_is_told_and_the_file_goes_on(tmp_path, monkeypatch):
    def only_cubic(_connection, name):
        if name != "cubic":
            raise Unsupported(f"this kernel has no congestion control {name}")

    monkeypatch.setattr(carrier, "set_congestion", only_cubic)
    with Sending(tmp_path, Told("B"), 1000, rule="tree") as sending:
        (event,) = sending.finish()
    assert (event["event"], event["control"]) == ("fallback", kernel_controls.default())
    assert "this kernel has no congestion control bbr" in event["reason"]


@needs_bbr
def test_a_burst_does_not_leave_its_control_behind(tmp_path):
    """Where active probing fails, what was in use before goes on."""

    class Broken(Told):
        def recognise(self, samples):
            raise BadInput("a window of another length")

    told = Broken("B", seconds=(1.0,))
    other = {"cubic": "B", "bbr": "C"}[kernel_controls.default()]
    settings = {"rate": Rate("10 Mbit/s"), "pattern": f"{other}1"}
    with Sending(tmp_path, told, 20 * MIB, **settings) as sending:
        assert "another length" in news(sending.selection, "fallback").words
        assert sending.control() == kernel_controls.default()
        sending.selection.set_rate(FAST)
        sending.finish()


def test_a_transfer_that_fails_ends_the_selection(tmp_path):
    with Sending(tmp_path, Told("C", seconds=(200.0,)), 1000) as sending:
        sending.transfer.cancel()
        sending.selection._thread.join(100)  # by itself
        assert not sending.selection._thread.is_alive()
        assert sending.transfer.is_over
        assert sending.selection.take_news() == []


def test_what_is_out_of_its_domain_is_refused_before_anything_begins():
    with pytest.raises(BadInput, match="fairness 2"):
        Settings(fairness=2.0)
    with pytest.raises(BadInput, match="rule coin: there are worth and tree"):
        Settings(rule="coin")
