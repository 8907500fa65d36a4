"""Listening beside a stream of one's own: what is taken out, when it is said, and how well."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from studies.training.assess_beside import Streams, alike, heard_at_s, run, turned
from studies.training.interaction import CONTROLS
from weir.congestion.choice import Wanted, choose
from weir.congestion.classify.beside import OWN, Count, can_hear, without
from weir.congestion.classify.classes import ALL_LABELS, BACKGROUNDS, CLASSES, Mixture
from weir.congestion.classify.recogniser import Recogniser
from weir.congestion.cycle import monitor
from weir.congestion.cycle.monitor import Listener
from weir.probe.sample import Sample

RATE_HZ = 20


@pytest.mark.parametrize("streams", [1, 2, 8])
@pytest.mark.parametrize("heard", CLASSES, ids=lambda mixture: mixture.label)
@pytest.mark.parametrize("own", CONTROLS)
def test_of_few_streams_ones_own_are_taken_out(own, heard, streams):
    """Counting them is the oracle; where there is none of their kind nothing is taken."""
    fewer = {"cubic": heard.cubic, "bbr": heard.bbr}
    fewer[own] = max(0, fewer[own] - streams)
    others, bbr = without(own, {heard.label: 1.0}, streams)
    assert others == {Mixture(**fewer).label: 1.0}
    assert bbr == (fewer["bbr"] > 0)


@pytest.mark.parametrize("streams", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("own", OWN)
def test_probabilities_stay_probabilities(own, streams):
    draw = np.random.default_rng(1)
    for values in draw.dirichlet(np.full(len(ALL_LABELS), 0.3), size=100):
        heard = dict(zip(ALL_LABELS, values.tolist(), strict=True))
        others, bbr = without(own, heard, streams)
        assert sum(others.values()) == pytest.approx(1)
        assert set(others) <= set(ALL_LABELS)
        told = sum(others[one.label] for one in BACKGROUNDS if one.has_bbr and one.label in others)
        assert bbr == pytest.approx(told)


MANY = (2, 3, 3, 4, 4, 5, 6, 8)  # streams of BBR among others, classes.py
NO_BBR = {one.label for one in BACKGROUNDS if not one.has_bbr}


@pytest.mark.parametrize("streams", [1, 2, 3, 4, 5, 8])
def test_of_many_that_are_mixed_none_but_ours_may_be_of_our_kind(streams):
    """As many are of BBR as ours, up to all but one: each number is as likely."""
    drawn = [total for total in MANY if total > streams] or [streams + 1]
    alone = sum(1 / (total - streams) for total in drawn) / len(drawn)
    others, bbr = without("bbr", {"Bn-Cn": 1.0}, streams)
    assert sum(others.get(label, 0.0) for label in NO_BBR) == pytest.approx(alone)
    assert bbr == pytest.approx(1 - alone)
    assert without("cubic", {"Bn-Cn": 1.0}, streams)[1] == pytest.approx(1.0)


@pytest.mark.parametrize(("own", "label"), [("cubic", "Cn"), ("bbr", "Bn")])
def test_of_many_of_one_kind_all_may_be_ours(own, label):
    """There are three to eight, each number as likely; of two streams ours are two of them."""
    others, _ = without(own, {label: 1.0}, 2)
    one, two = {"cubic": ("B0-C1", "C1-C1"), "bbr": ("B1-C0", "B1-B1")}[own]
    assert others == pytest.approx({one: 1 / 6, two: 1 / 6, label: 4 / 6})
    assert without(own, {label: 1.0}, 4)[0]["B0-C0"] == pytest.approx(1 / 5)
    assert without(own, {label: 1.0}, 9)[0] == {"B0-C0": 1.0}


RATE = 4


class Ear:
    """Hears what it is told to."""

    rate_hz = RATE

    def __init__(self, *told):
        self.told = list(told)
        self.shown = []

    def beside(self, samples, own, streams, counts):
        assert len(counts) in (0, len(samples))
        self.shown.append((len(samples), own, streams))
        return self.told.pop(0)


def heard(bbr, idle=0.0, known=True):
    return SimpleNamespace(bbr=bbr, probabilities={"B0-C0": idle}, known=known, why="")


def sample(number):
    return Sample(number, number * 10**9 // RATE_HZ, 0, (30_000_000,), 0, None, None)


def said(listener, looks):
    """What is heard at each look, two seconds after its begin and each second from then on."""
    listened = [listener.hears(sample(number)) for number in range(4 * (2 + looks))]
    assert not any(one for number, one in enumerate(listened) if number < 11 or number % 4 != 3)
    return [one is not None for one in listened[11::4]]


@pytest.fixture
def two_looks(monkeypatch):
    """Sure from 0.8 on, in two looks in a row, which are a second apart."""
    monkeypatch.setattr(monitor, "SURE", 0.8)
    monkeypatch.setattr(monitor, "LOOKS", 2)
    monkeypatch.setattr(monitor, "_OLD_S", 2.0)
    monkeypatch.setattr(Listener, "_is_due", property(lambda self: self._taken % RATE == 0))


NO, YES, DOUBT, UNKNOWN = heard(0.1), heard(0.9), heard(0.5), heard(0.1, known=False)
UNKNOWN_BBR = heard(0.9, known=False)


@pytest.mark.parametrize(
    ("own", "told", "answers"),
    [
        ("cubic", [NO, YES, YES, YES], [False, False, True, True]),
        ("cubic", [YES, NO, YES, DOUBT, YES], [False] * 5),
        ("cubic", [YES, UNKNOWN, YES], [False, False, True]),  # says nothing
        ("cubic", [YES, None, YES], [False, False, True]),  # nothing can be said yet
        # Was too long ago; then most of all has to be known, too.
        ("cubic", [YES, *[UNKNOWN] * 3, YES, YES, YES], [False] * 6 + [True]),
        ("bbr", [NO, *[UNKNOWN] * 3, NO, NO], [False] * 5 + [True]),  # CUBIC harms nobody
        ("cubic", [UNKNOWN, YES, UNKNOWN, YES, YES], [False] * 4 + [True]),
        ("bbr", [YES, NO, NO], [False, False, True]),
        ("bbr", [heard(0.1, idle=0.5)] * 3, [False] * 3),  # perhaps nobody is there: BBR may stay
    ],
)
def test_it_is_said_once_it_is_sure_some_looks_in_a_row(two_looks, own, told, answers):
    ear = Ear(*told)
    assert said(Listener(ear, own), len(told)) == answers
    assert ear.shown == [(4 * (number + 1), own, 1) for number in range(len(told))]


def test_it_is_asked_beside_all_streams_of_the_file(two_looks):
    ear = Ear(NO, NO)
    said(Listener(ear, "cubic", streams=3), 2)
    assert [streams for _, _, streams in ear.shown] == [3, 3]


def said_after_s(told, own, mbit_s, until_s=40, **settings):
    """How long it listens until it is said, while the stream's rate is what `mbit_s` says."""
    listener, acked = Listener(Ear(*told), own, **settings), 0.0
    for number in range(RATE * until_s):
        seconds = number / RATE
        acked += mbit_s(seconds) * 1e6 / 8 / RATE
        listener.carries(seconds, Count(round(acked), 0))
        # Nothing is heard before the rate changes, nor in two seconds after that.
        if seconds >= 20 and listener.hears(sample(number)):
            return seconds + 1 / RATE - 22
    return None


SOON, LATE = 1.5, 7.0  # three looks, and thirteen of which the first comes later


@pytest.mark.parametrize(
    ("own", "told", "now", "after_s"),
    [
        ("cubic", heard(0.9), 10, SOON),  # BBR takes what it had
        ("cubic", heard(0.9), 30, LATE),
        ("cubic", heard(0.9), 40, LATE),
        ("bbr", heard(0.1), 60, SOON),  # CUBIC leaves it more than BBR did
        ("bbr", heard(0.3), 44, LATE),
        ("bbr", heard(0.3), 20, LATE),
    ],
)
def test_what_the_streams_own_rate_bears_out_is_said_sooner(own, told, now, after_s):
    assert said_after_s([told] * 60, own, lambda at_s: 40 if at_s < 20 else now) == after_s


AFTER = 6.5  # the look that comes 5.5 s after the first one
SURE_BBR = heard(0.98)


@pytest.mark.parametrize(
    ("own", "told", "after_s"),
    [
        # The eleventh look after the first in doubt is of a window that holds no change.
        ("cubic", [SURE_BBR] * 60, AFTER),
        ("cubic", [DOUBT, *[NO] * 8, *[SURE_BBR] * 30], AFTER),  # three are enough,
        ("cubic", [DOUBT, *[NO] * 9, *[SURE_BBR] * 30], AFTER + 0.5),
        ("cubic", [DOUBT, *[NO] * 8, *[YES] * 30], 11.5),  # if they are sure: else thirteen
        ("cubic", [DOUBT, *[SURE_BBR] * 10, *[NO] * 50], None),  # a stream had begun
        # After eleven calm looks it is another change, and looks are a second apart again.
        ("cubic", [DOUBT, *[NO] * 12, *[SURE_BBR] * 30], AFTER + 7),
        ("cubic", [DOUBT, *[heard(0.98, known=False)] * 50], None),
        ("bbr", [DOUBT, *[YES] * 6, *[NO] * 30], AFTER),
        ("bbr", [DOUBT, *[YES] * 8, *[NO] * 30], AFTER + 1),  # five are enough
    ],
)
def test_sure_looks_after_a_change_say_it_sooner(own, told, after_s):
    """Nothing is borne out."""
    told = [*told, *[heard(0.5)] * 60]
    assert said_after_s(told, own, lambda at_s: 40) == after_s


def learned(bbr, known=True):
    """A look that was learned beside such a stream."""
    return SimpleNamespace(**vars(heard(bbr, known=known)), learned=True)


@pytest.mark.parametrize(
    ("own", "told", "after_s"),
    [
        ("cubic", [learned(0.96)] * 60, 1.5),  # the first one comes after a second
        ("cubic", [learned(0.96), learned(0.9), *[learned(0.96)] * 9], 2.5),
        ("cubic", [learned(0.94)] * 60, LATE),
        ("cubic", [learned(0.96, known=False)] * 60, None),
        ("cubic", [heard(0.96)] * 60, LATE),
        ("bbr", [learned(0.02)] * 60, AFTER),  # beside BBR fewer are right
    ],
)
def test_two_sure_looks_do_that_were_learned_beside_such_a_stream(own, told, after_s):
    """Nothing is borne out."""
    assert said_after_s([*told, *[heard(0.5)] * 60], own, lambda at_s: 40) == after_s


@pytest.mark.parametrize(("bbr", "is_said"), [(0.65, False), (0.75, True)])
@pytest.mark.parametrize("keeps", [1.0, 0.4], ids=["all of its rate", "less than half"])
def test_what_was_learned_beside_such_a_stream_is_to_be_surer(bbr, is_said, keeps):
    """Whether the file's rate bears it out or not; among many a stream is often squeezed."""
    told = [*[learned(bbr)] * 60, *[heard(0.5)] * 60]

    def mbit_s(at_s):
        return 40 if at_s < 20 else keeps * 40

    assert (said_after_s(told, "cubic", mbit_s) is not None) == is_said
    assert said_after_s([*[heard(bbr)] * 60, *[heard(0.5)] * 60], "cubic", mbit_s) is not None


def test_beside_several_streams_of_ours_it_takes_as_much_longer_as_the_window_is():
    soon, late = (
        said_after_s([SURE_BBR] * 90, "cubic", lambda at_s: 40, streams=streams, until_s=60)
        for streams in (1, 2)
    )
    assert (soon, late) == (AFTER, 1 + 4 * 5.5)


@pytest.mark.parametrize(
    ("own", "told", "after_s"),
    [
        ("cubic", [YES, UNKNOWN_BBR, YES], SOON),
        ("cubic", [UNKNOWN_BBR, YES, YES], SOON),
        ("cubic", [YES, YES, UNKNOWN_BBR, YES], SOON + 0.5),  # the last one is known
        ("cubic", [UNKNOWN_BBR] * 10 + [YES, YES], SOON + 4.5),  # and two at least
        ("cubic", [YES, UNKNOWN, YES, YES], SOON + 0.5),  # says nothing
        ("cubic", [YES, NO, YES, YES, YES], SOON + 1),
        ("bbr", [UNKNOWN] * 3, SOON),  # CUBIC harms nobody
        ("bbr", [UNKNOWN_BBR] * 3 + [NO, NO, NO], SOON + 1.5),
    ],
)
def test_where_its_rate_bears_it_out_unknown_looks_count(own, told, after_s):
    now = 60 if own == "bbr" else 10
    assert said_after_s(told, own, lambda at_s: 40 if at_s < 20 else now) == after_s


def test_what_a_bbr_gains_that_was_taken_alone_bears_nothing_out():
    rate = lambda at_s: 40 if at_s < 20 else 60  # noqa: E731
    assert said_after_s([UNKNOWN] * 100, "bbr", rate, is_alone=True) is None


@pytest.mark.parametrize(("had", "after_s"), [(30, SOON), (15, LATE), (None, LATE)])
def test_what_it_had_when_it_entered_counts_before_anything_was_seen(had, after_s):
    short = Listener(Ear(*[heard(0.9)] * 60), "cubic", had_bps=had and 1e6 * had)
    said_at = None
    for number in range(RATE * 12):
        short.carries(number / RATE, Count(round(10e6 / 8 * number / RATE), 0))
        if said_at is None and short.hears(sample(number)):
            said_at = number
    assert said_at == RATE * (2 + after_s) - 1


def test_more_patience_takes_more_looks(two_looks):
    assert said(Listener(Ear(*[YES] * 5), "cubic", 2), 5) == [False] * 3 + [True] * 2


def test_what_is_not_followed_is_heard_anew(two_looks):
    listener = Listener(Ear(*[YES] * 5), "cubic")
    assert said(listener, 2) == [False, True]
    listener.forget()
    answers = [listener.hears(sample(number)) is not None for number in range(12)]
    assert answers[3::4] == [False, True, True]


@pytest.mark.parametrize(
    ("told", "stands"),
    [
        ([NO], True),
        ([DOUBT], False),
        ([YES], False),
        ([NO, UNKNOWN, UNKNOWN], True),
        ([NO, UNKNOWN, UNKNOWN, UNKNOWN], False),  # too long ago
    ],
)
def test_whether_the_control_stands(two_looks, told, stands):
    listener = Listener(Ear(*told), "cubic")
    said(listener, len(told))
    assert listener.stands is stands


QUIET = heard(0.0, idle=1.0)


@pytest.mark.parametrize(
    ("told", "own", "patience", "at"),
    [
        # More than half of the last 14 looks.
        ([*[QUIET] * 10, *[UNKNOWN] * 20], "bbr", 1, 10 + 8),
        ([*[QUIET] * 10, *[UNKNOWN] * 40], "bbr", 2, 10 + 15),
        ([*[QUIET] * 10, *[UNKNOWN, UNKNOWN, QUIET] * 9], "bbr", 1, 10 + 11),
        ([*[QUIET] * 10, *[UNKNOWN, QUIET] * 20], "bbr", 1, None),
        ([*[QUIET] * 10, *[UNKNOWN] * 40], "cubic", 1, None),  # it harms nobody
        # From the first look on it sounds like nothing: nothing has changed.
        ([UNKNOWN] * 40, "bbr", 1, None),
        ([*[UNKNOWN, QUIET] * 5, *[UNKNOWN] * 20], "bbr", 1, None),
    ],
)
def test_unknown_company_is_said_where_nobody_was(told, own, patience, at):
    listener = Listener(Ear(*told), own, patience, is_alone=True)
    answers = [listener.hears(sample(number)) for number in range(4 * (2 + len(told)))][11::4]
    said_at = [number for number, answer in enumerate(answers, 1) if answer]
    assert said_at[:1] == ([] if at is None else [at])
    assert not any(answer.known for answer in answers if answer)


def test_unknown_company_is_nothing_new_where_somebody_was():
    told = [*[heard(0.9)] * 10, *[UNKNOWN] * 20]
    assert not any(said(Listener(Ear(*told), "bbr"), len(told)))


PATH = "100 Mbit/s, 30 ms, 1 BDP"


def cubic_joins():
    return run(Streams("bbr", [("cubic", 40, 80)]), PATH, RATE_HZ, seed=21).samples


def something_shakes_the_path():
    """As nothing does that was learned: each reply is up to 20 ms late."""
    draw = np.random.default_rng(21)
    quiet = run(Streams("bbr", [("bbr", 79, 80)]), PATH, RATE_HZ, 21).samples
    return [
        replace(one, rtts_ns=tuple(rtt + draw.integers(20_000_000) for rtt in one.replies_ns))
        if number > 40 * RATE_HZ
        else one
        for number, one in enumerate(quiet)
    ]


@pytest.mark.parametrize(
    ("company", "known"), [(cubic_joins, True), (something_shakes_the_path, False)]
)
def test_bbr_that_was_taken_alone_is_left_when_somebody_comes(company, known):
    """In the simulator's time: ours is alone for 40 s, and is CUBIC 20 s after that."""
    listener, seen = Listener(Recogniser.shipped(), "bbr", is_alone=True), company()
    said = (found for one in seen[: 60 * RATE_HZ] if (found := listener.hears(one)))
    left = [one for one in said if choose(one, CONTROLS, "bbr", Wanted()).control == "cubic"]
    assert left
    assert left[0].known == known
    alone = Listener(Recogniser.shipped(), "bbr", is_alone=True)
    assert not any(alone.hears(one) for one in seen[: 40 * RATE_HZ])


def test_bbr_in_place_of_two_cubics_is_heard_once_windows_hold_only_it():
    """The turn is after 30 s; ours has then little to lose. Another CUBIC there is not heard."""
    recogniser, path = Recogniser.shipped(), "54 Mbit/s, 64 ms, 1.54 BDP"
    for other in CONTROLS:
        there = Streams("cubic", [("cubic", 0, 30), ("cubic", 0, 30), (other, 30, 43)])
        at_s = heard_at_s(recogniser, "cubic", run(there, path, RATE_HZ, seed=5100))
        assert [30 < at < 38 for at in at_s[:1]] == [True] * (other == "bbr")


@pytest.mark.parametrize("own", CONTROLS)
def test_another_background_is_heard_soon_and_the_same_one_never(own):
    """The turn is after a minute; the simulator says who is there."""
    recogniser = Recogniser.shipped()
    for seed in (1, 2, 3):
        at_s = heard_at_s(recogniser, own, run(turned(own), PATH, RATE_HZ, seed))
        assert at_s, f"seed {seed}: it was never heard"
        assert 60 < at_s[0] < 85, f"seed {seed}"
        same = run(alike(own, joined=False), PATH, RATE_HZ, seed)
        assert heard_at_s(recogniser, own, same) == [], f"seed {seed}"


@pytest.mark.parametrize("others", [["cubic"], ["bbr"]])
def test_whether_bbr_is_there_is_heard_beside_several_streams_of_ours(others):
    """The simulator says who is there: the others from the beginning, ours from 2 s on."""
    recogniser = Recogniser.shipped()
    for ours in (2, 8):
        there = Streams("cubic", [(one, 0, 28) for one in others], ours)
        seen = run(there, PATH, RATE_HZ, seed=31).samples
        looks = [recogniser.beside(seen[: RATE_HZ * s], "cubic", ours) for s in range(22, 28)]
        right = [look.known and (look.bbr > 0.5) == (others == ["bbr"]) for look in looks]
        assert sum(right) > len(looks) / 2, ours
        assert all(f"beside our own {ours} streams of CUBIC, " in look.why for look in looks)


def test_beside_several_streams_it_takes_the_longest_window():
    recogniser, seen = Recogniser.shipped(), [sample_of(number) for number in range(20 * RATE_HZ)]
    assert recogniser.beside(seen[: 5 * RATE_HZ], "cubic", 1) is not None
    assert recogniser.beside(seen[: 20 * RATE_HZ - 1], "cubic", 2) is None
    assert recogniser.beside(seen, "cubic", 2) is not None


def test_beside_several_streams_of_bbr_nothing_is_told():
    recogniser, seen = Recogniser.shipped(), [sample_of(number) for number in range(20 * RATE_HZ)]
    assert recogniser.beside(seen, "bbr", 1) is not None
    assert recogniser.beside(seen, "bbr", 2) is None
    heard_beside = {own: can_hear(own, 2) for own in ("cubic", "reno", "bbr", "dctcp")}
    assert heard_beside == {"cubic": True, "reno": True, "bbr": False, "dctcp": False}
    assert not can_hear("cubic", 0)


def sample_of(number):
    """One of a quiet path."""
    return Sample(number, number * 10**9 // RATE_HZ, 0, (30_000_000 + number % 3 * 1000,))


def test_too_few_samples_and_other_controls_tell_nothing():
    recogniser = Recogniser.shipped()
    seen = run(alike("cubic", joined=False), PATH, RATE_HZ, 1).samples
    assert recogniser.beside(seen[: 5 * RATE_HZ - 1], "cubic") is None
    assert recogniser.beside(seen[: 5 * RATE_HZ], "cubic") is not None
    assert recogniser.beside(seen, "dctcp") is None
    assert "beside our own CUBIC, " in recogniser.beside(seen, "cubic").why
