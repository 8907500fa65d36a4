"""The kind of a background: what the shipped recogniser says, when, and what follows of it."""

import json
import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from studies.training import kinds as kinds_grid
from studies.training import perceptrons, train_kinds
from studies.training.examples import cut, side
from studies.training.host_noise import through_hosts
from studies.training.kinds import setting
from studies.training.simulated import Span
from studies.training.train_kinds import LABELS, kinds_of, with_kinds
from weir.cli import main
from weir.congestion.choice import Interaction, Meeting, Wanted, choose
from weir.congestion.classify.classes import ALL_LABELS, KINDS
from weir.congestion.classify.recogniser import SHIPPED, Recogniser
from weir.congestion.cycle.found import Found
from weir.congestion.cycle.learning import somebody
from weir.congestion.recordings import NetworkPath, Recording, save
from weir.errors import BadInput
from weir.probe.sample import Sample

HZ = 20
PATH = NetworkPath(60_000_000, 40_000_000, 400_000)
OTHER_SEED = 301
"""The seed of a grid on which nothing was learned, calibrated or chosen."""


@pytest.fixture(scope="module")
def recogniser():
    return Recogniser.shipped()


def samples(rtt_ms):
    return [
        Sample(index=index, at_ns=5 + index * 10**9 // HZ, late_ns=0, rtts_ns=(round(value * 1e6),))
        for index, value in enumerate(rtt_ms)
    ]


def beside(controls, seed, seconds=20):
    """Round-trip times beside greedy streams on `PATH`, seen through quiet hosts."""
    draw = random.Random(seed)
    there = kinds_grid._setting("bbr3", PATH, draw, kinds_grid._streams(controls, draw))
    one = replace(there, span=Span(10, seconds)).simulated()
    return through_hosts(one.rtt_ms[::5], PATH, np.random.default_rng(seed))


# --- what the shipped one says ---


def test_a_bbr_of_version_3_is_told_from_one_of_version_1_and_from_cubic(recogniser):
    said = {
        control: [recogniser.of_series(beside([control], seed)).kind for seed in range(4)]
        for control in ("bbr3", "bbr", "cubic")
    }
    assert said["bbr3"].count("bbr3") >= 3
    assert said["bbr"] == said["cubic"] == [None] * 4


def test_it_is_said_in_words_with_its_probability(recogniser):
    found = next(
        one
        for seed in range(4)
        if (one := recogniser.of_series(beside(["bbr3"], seed))).kind == "bbr3"
    )
    assert found.why.startswith(f"BBR, version 3 ({found.kinds['bbr3']:.0%}); by who is there: ")
    assert set(found.kinds) == {kind.label for kind in KINDS} == set(recogniser.kinds)
    assert sum(found.kinds.values()) <= 1 + 1e-6
    assert found.label in ALL_LABELS


def test_an_older_file_loads_answers_as_before_and_says_nothing_of_kinds(recogniser, tmp_path):
    with np.load(SHIPPED) as held:
        arrays = {key: held[key] for key in held if "/kinds/" not in key}
    arrays = {k: v for k, v in arrays.items() if k.split("/")[-1] not in ("cooling", "levels")}
    about = json.loads(str(arrays["about"]))
    del about["kinds"]
    arrays["about"] = np.array(json.dumps(about | {"version": 1}))
    np.savez(tmp_path / "older.npz", **arrays)
    older = Recogniser.load(tmp_path / "older.npz")
    window = beside(["bbr3"], 1)
    before, now = older.of_series(window), recogniser.of_series(window)
    assert (before.kinds, before.kind) == ({}, None)
    assert before.probabilities == now.probabilities
    assert now.why.endswith(before.why)
    # What is saved again is of this version and still says nothing of kinds.
    older.save(tmp_path / "again.npz")
    assert Recogniser.load(tmp_path / "again.npz").of_series(window) == before


def first_alone(monkeypatch, usual):
    """The first opinion is the only one, and knows what it hears or does not."""
    opinions = Recogniser.opinions

    def of_first(*asked):
        return replace(opinions(*asked), usual=np.array([usual]), second=None)

    monkeypatch.setattr(Recogniser, "opinions", of_first)


def test_what_is_unknown_stays_so_and_nothing_is_said_of_its_kind(recogniser, monkeypatch):
    window = next(
        one for seed in range(4) if recogniser.of_series(one := beside(["bbr3"], seed)).kind
    )
    first_alone(monkeypatch, 0.0)
    found = recogniser.of_series(window)
    assert (found.known, found.kinds, found.kind) == (False, {}, None)
    assert found.why.startswith("unknown")


def test_what_is_not_likely_enough_is_not_said(recogniser, monkeypatch):
    window = beside(["cubic"], 1)
    number = 1 + recogniser.kinds.index("bbr3")
    level = recogniser.models[20].levels[number - 1]
    for more, kind in ((-0.01, None), (0.01, "bbr3")):
        shares = np.zeros((1, 1 + len(recogniser.kinds)))
        shares[0, number], shares[0, 0] = level + more, 1 - level - more
        monkeypatch.setattr(Recogniser, "judge_kinds", lambda *_, of=shares: of)
        found = recogniser.of_series(window)
        assert (found.known, found.kind) == (True, kind)
        assert found.kinds["bbr3"] == pytest.approx(level + more)


@pytest.mark.parametrize(
    ("own", "kind", "is_said"),
    [
        ("cubic", "bbr3", True),
        ("reno", "bbr3", True),
        ("bbr", "bbr3", False),
        ("cubic", "app-limited", False),
    ],
)
def test_beside_a_stream_of_our_own_only_what_sounds_the_same_there_is_said(
    recogniser, monkeypatch, own, kind, is_said
):
    shares = np.zeros((1, 1 + len(recogniser.kinds)))
    shares[0, 1 + recogniser.kinds.index(kind)] = 1.0
    monkeypatch.setattr(Recogniser, "judge_kinds", lambda *_: shares)
    first_alone(monkeypatch, 1.0)
    found = recogniser.beside(samples(beside(["cubic"], 1)), own)
    assert found.known
    assert found.kind == (kind if is_said else None)
    assert ("version 3" in found.why) == is_said
    assert recogniser.recognise(samples(beside(["cubic"], 1))).kind == kind


def test_how_good_it_is_is_told_by_a_command(tmp_path, capsys):
    there = [replace(setting(OTHER_SEED, n), span=Span(8, 20)).simulated() for n in (2, 17, 28)]
    assert [one.label for one in there] == ["B1-C0", "bbr3", "app-limited"]
    save(tmp_path / "three.npz", there, {})
    assert main(["ops", "assess", "--kinds", "--recordings", str(tmp_path / "three.npz")]) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    # In 20 s there are four windows of 5 s, three of 10 and one of 20.
    counts = {(row[0], row[1]): row[2] for row in rows if row[0] in ("bbr3", "app-limited")}
    assert [counts["bbr3", seconds] for seconds in ("5", "10", "20")] == ["4", "3", "1"]
    confusion = [row for row in rows if row[0] == "B1-C0"]
    assert [sum(map(int, row[1:-1])) for row in confusion] == [4, 3, 1]


# --- what follows ---

CLASS = {"B1-C0": 0.1, "app": 0.9}
FAIR, UNFAIR = (0.48, 0.48), (0.9, 0.06)


def table(**better):
    """Beside each background its control is fair and the other is not."""
    return Interaction(
        [
            Meeting(label, control, 1e8, 0.05, 1.0, shares[0], (shares[1],))
            for label, best in better.items()
            for control, shares in (
                ("bbr", FAIR if best == "bbr" else UNFAIR),
                ("cubic", FAIR if best == "cubic" else UNFAIR),
            )
        ],
        {},
    )


def seen(kind=None, sure=0.95, **more):
    kinds = {kind: sure} if kind else {}
    said = {"probabilities": CLASS, "bbr": 0.1, "known": True, "why": "so"}
    return SimpleNamespace(**said | {"kinds": kinds, "kind": kind} | more)


def control_beside(recognised, **better):
    better = {label.replace("_", "-"): best for label, best in better.items()}
    return choose(recognised, ["bbr", "cubic"], "cubic", Wanted(), table(**better)).control


def test_a_kind_changes_what_is_chosen_by_the_backgrounds_that_it_is_nearest_to():
    rows = {"app": "cubic", "B1_C0": "bbr", "B0_C1": "bbr"}
    assert control_beside(seen(), **rows) == "cubic"
    assert control_beside(seen("bbr3"), **rows) == "bbr"
    # It counts by how sure it is.
    assert control_beside(seen("bbr3", sure=0.2), **rows) == "cubic"


def test_a_kind_that_was_measured_is_a_background_of_its_own():
    rows = {"app": "cubic", "B1_C0": "bbr", "B0_C1": "bbr", "bbr3": "cubic"}
    assert control_beside(seen("bbr3"), **rows) == "cubic"


def test_a_kind_of_another_recogniser_or_none_changes_nothing():
    rows = {"app": "cubic", "B1_C0": "bbr", "B0_C1": "bbr"}
    assert control_beside(seen("another"), **rows) == "cubic"
    without = SimpleNamespace(probabilities=CLASS, bbr=0.1, known=True, why="so")
    assert control_beside(without, **rows) == "cubic"
    assert control_beside(seen("bbr3", known=False), **rows) == "cubic"


def test_the_shipped_table_knows_what_every_kind_is_nearest_to():
    shipped = Interaction.shipped()
    for kind in KINDS:
        assert set(kind.nearest) <= shipped.backgrounds


def test_a_choice_tells_machines_of_the_kind_and_of_nothing_where_nothing_is_said():
    def facts(recognised):
        choice = choose(recognised, ["cubic"], "cubic", Wanted())
        return Found(recognised, choice, (), 5.0).facts(None, 0)

    told = facts(seen("bbr3"))
    assert (told["kind"], told["kinds"]) == ("bbr3", {"bbr3": 0.95})
    assert "kind" not in facts(seen())
    not_quiet = somebody(seen("bbr3", probabilities={"B0-C0": 1.0}))
    assert facts(not_quiet)["kind"] == "bbr3"


# --- how it is learned ---


def plain(count=80):
    """Made up: bbr3 saws, app-limited swings, and what is of no kind is at rest or a square."""
    found = []
    for number in range(count):
        draw = np.random.default_rng(number)
        at = np.arange(25 * HZ) / HZ + draw.uniform(0, 10)
        base = draw.uniform(20, 100)
        moved = {
            "B0-C0": 0 * at,
            "bbr3": (at % 2) / 2,
            "app-limited": np.abs(np.sin(3 * at)),
            "B0-C1": np.floor(at) % 2,
        }
        label = list(moved)[number % 4]
        path = NetworkPath(10**8, round(base * 1e6), 10**6, "fifo")
        rtt_ms = base * (1 + moved[label])
        lost = np.zeros(len(at), np.int64)
        found.append(Recording(label, "simulator", path, None, number, HZ, 1, rtt_ms, lost))
    return found


def test_what_is_plain_is_learned_the_same_twice_and_nothing_else_changes(recogniser, monkeypatch):
    monkeypatch.setattr(perceptrons, "EPOCHS", 10)
    monkeypatch.setattr(train_kinds, "DRAWS", 1)
    monkeypatch.setattr(train_kinds, "MEMBERS", 2)
    small = Recogniser(HZ, ALL_LABELS, {5: recogniser.models[5]}, "as before")
    told = []
    one, same = (with_kinds(small, plain(), 1, told.append) for _ in range(2))
    assert len(told) == 2
    assert one.provenance == "as before"
    tested = [each for each in plain() if side(each) == "test"]
    windows = cut(tested, LABELS, HZ, 5, 5.0, 7)
    shares = one.judge_kinds(windows.windows, 5)
    assert (shares == same.judge_kinds(windows.windows, 5)).all()
    assert (shares.argmax(axis=1) == kinds_of(windows)).mean() > 0.9
    assert set(kinds_of(windows)) == {0, 1, 2}
    for before, after in zip(
        small.judge(windows.windows, 5), one.judge(windows.windows, 5), strict=True
    ):
        assert (before == after).all()
    assert (shares != with_kinds(small, plain(), 2).judge_kinds(windows.windows, 5)).any()


def test_a_kind_of_which_there_was_nothing_to_learn_is_never_said(recogniser, monkeypatch):
    monkeypatch.setattr(train_kinds, "DRAWS", 1)
    small = Recogniser(HZ, ALL_LABELS, {5: recogniser.models[5]})
    some = [one for one in plain() if one.label != "app-limited"]
    found = with_kinds(small, some, 1)
    windows = cut([one for one in some if side(one) == "test"], LABELS, HZ, 5, 5.0, 7)
    shares = found.judge_kinds(windows.windows, 5)
    assert shares[:, 1 + found.kinds.index("app-limited")].max() < 1e-3
    assert (shares.argmax(axis=1) == kinds_of(windows)).mean() > 0.9
    with pytest.raises(BadInput, match="none of them is there to calibrate"):
        with_kinds(small, [one for one in some if side(one) != "calibrate"], 1)
