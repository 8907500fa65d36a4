"""Learning who is there while one's own stream sends, and whether they would share."""

from types import SimpleNamespace

import pytest

from studies.training.assess_beside import Streams, begun, run
from weir.congestion.choice import Wanted, choose
from weir.congestion.choice.reach import LOSS_BASED
from weir.congestion.classify.beside import Count
from weir.congestion.classify.recogniser import Recogniser
from weir.congestion.cycle.learning import Learning, are_like_ours, somebody
from weir.congestion.path import PathState
from weir.probe.sample import Sample

RATE_HZ = 20
ROOM = PathState("room", 0.03, 20e6)


def heard(known=True, **probabilities):
    likely = {label.replace("_", "-"): p for label, p in probabilities.items()}
    bbr = sum(p for label, p in likely.items() if not label.startswith(("B0", "C", "R")))
    return SimpleNamespace(probabilities=likely, bbr=bbr, known=known, why="")


class Ear:
    """Says one thing after the other; nothing before five seconds of samples.

    Shown what the stream counts it says `learned` of BBR.
    """

    rate_hz = RATE_HZ

    def __init__(self, *told, learned=None):
        self.told = list(told)
        self.learned = learned

    def beside(self, samples, own, streams=1, counts=()):
        if len(samples) < 5 * RATE_HZ:
            return None
        if counts:
            assert len(counts) == len(samples)
            return SimpleNamespace(bbr=self.learned, learned=self.learned is not None)
        return self.told.pop(0) if len(self.told) > 1 else self.told[0]


def learned(*told, path=None, learned=None):
    """What is learned, and after how many seconds; samples are 50 ms apart."""
    learning = Learning(Ear(*told, learned=learned), "cubic")
    for number in range(60 * RATE_HZ):
        sample = Sample(number, number * 10**9 // RATE_HZ, 0, (30_000_000,))
        if found := learning.hears(sample, path, Count(1000 * number, 20_000)):
            return found, learning.seconds
    return None


BBR, CUBIC = heard(B1_C0=0.99, B0_C1=0.01), heard(B0_C0=0.6, B0_C1=0.38, B1_C0=0.02)
DOUBT, UNKNOWN = heard(B1_C0=0.5, B0_C1=0.5), heard(known=False, B1_C0=1.0)


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ([BBR], 6.5),
        ([CUBIC], 5.5),
        ([BBR, CUBIC, CUBIC], 6.0),
        ([BBR, BBR, BBR, CUBIC], 7.0),
        ([DOUBT, DOUBT, BBR], 7.5),
        ([DOUBT, DOUBT, CUBIC], 6.5),
        ([BBR, DOUBT, BBR], 7.5),
        ([DOUBT], 10.0),
        ([UNKNOWN], 10.0),
        ([BBR, UNKNOWN, BBR], 7.5),
        ([UNKNOWN, UNKNOWN, BBR], 7.5),
        ([UNKNOWN, UNKNOWN, CUBIC], 7.0),  # as many known as unknown do not do
        ([UNKNOWN] * 4 + [BBR], 9.0),
    ],
)
def test_what_is_sure_is_believed_when_it_is_said_again_and_anything_after_ten_seconds(
    told, seconds
):
    _, after_s = learned(*told)
    assert after_s == seconds


def test_after_ten_seconds_what_was_said_in_the_middle_counts_unless_most_is_unknown():
    little, much = heard(B1_C0=0.3, B0_C1=0.7), heard(B1_C0=0.8, B0_C1=0.2)
    assert learned(little, much, much, little, little, little)[0].bbr == pytest.approx(0.3)
    assert learned(*[little] * 3, much)[0].bbr == pytest.approx(0.8)
    assert not learned(little, UNKNOWN)[0].known
    # Whatever the last one is.
    assert not learned(*[UNKNOWN] * 9, DOUBT)[0].known


@pytest.mark.parametrize(("learned_bbr", "control"), [(None, "bbr"), (0.3, "bbr"), (0.1, "cubic")])
def test_bbr_that_what_our_own_stream_has_speaks_against_is_not_taken(learned_bbr, control):
    found, after_s = learned(BBR, learned=learned_bbr)
    assert (found.known, after_s) == ((True, 6.5) if control == "bbr" else (False, 10.0))
    assert choose(found, ("bbr", "cubic"), "cubic", Wanted()).control == control
    if control == "cubic":
        assert "speaks against BBR" in found.why
    found, after_s = learned(CUBIC, learned=learned_bbr)
    assert found.known
    assert after_s == 5.5


def test_a_path_that_was_not_quiet_has_somebody_on_it_unless_it_has_room():
    found, _ = learned(CUBIC)
    assert found.probabilities == pytest.approx({"B0-C1": 0.98, "B1-C0": 0.02})
    found, _ = learned(CUBIC, path=ROOM)
    assert found.probabilities["B0-C0"] == 0.6
    assert somebody(BBR) is BBR


@pytest.mark.parametrize(
    ("known", "alike"),
    [
        (heard(B0_C1=1.0), True),
        (heard(R1=0.2, C1_C1=0.2, Cn=0.2, B1_C0=0.4), True),
        (heard(B0_C1=0.4, B1_C0=0.6), False),  # BBR does not share
        (heard(app=1.0), False),
        (heard(B0_C0=1.0), False),
        (heard(known=False, B0_C1=1.0), False),
    ],
)
def test_others_are_like_ours_where_they_would_share(known, alike):
    assert are_like_ours(known, LOSS_BASED) is alike


def first_said(ear, others, path, seed):
    """The first answer on a simulated path where our CUBIC begins at 2 s beside such streams."""
    learning = Learning(ear, "cubic")
    seen = run(Streams("cubic", [(one, 0, 13) for one in others]), path, RATE_HZ, seed)
    pairs = list(zip(seen.samples, seen.counts, strict=True))[2 * RATE_HZ :]
    return next(filter(None, (learning.hears(one, None, count) for one, count in pairs)))


@pytest.mark.parametrize(("other", "has_bbr"), [("cubic", False), ("bbr", True)])
def test_beside_a_stream_that_has_just_begun_it_is_heard_who_is_there(other, has_bbr):
    """The simulator knows who was there."""
    path = "100 Mbit/s, 30 ms, 1 BDP"
    for seed in (1, 2, 3):
        found = first_said(Recogniser.shipped(), [other], path, seed)
        assert (found.bbr > 0.5) == has_bbr, f"seed {seed}"


def test_beside_cubic_on_a_path_that_was_never_learned_it_stays_cubic():
    """Simulated: before unknown paths were learned each of these was taken for BBR."""
    for seed in (61, 62, 63):
        found, choice = begun(Recogniser.shipped(), "50 Mbit/s, 2 ms, 4 BDP", 16, seed)
        assert not found.known, f"seed {seed}"
        assert choice.control == "cubic", f"seed {seed}"


@pytest.mark.parametrize(
    ("others", "queue_bdp", "takes_bbr"),
    [(["cubic"] * 40, 1, False), (["bbr"] * 16, 1, True), (["cubic"], 10, False)],
)
def test_bbr_is_taken_beside_many_streams_of_it_and_not_beside_what_seems_so(
    others, queue_bdp, takes_bbr
):
    """It was sure of BBR beside each, and beside one stream of CUBIC while the queue filled."""
    ear, path = Recogniser.shipped(), f"100 Mbit/s, 30 ms, {queue_bdp} BDP"
    for seed in (51, 52):
        found = first_said(ear, others, path, seed)
        chosen = choose(found, ("bbr", "cubic"), "cubic", Wanted())
        assert (chosen.control == "bbr") == takes_bbr
