"""Trials in the lab: a file beside the kernel's own TCP."""

import itertools
import json
import subprocess
import time
import xml.etree.ElementTree as ET

import pytest
from rig import lab_lacks, until

from studies.rig import watch
from studies.rig.trial import Outcome, Trial, carry_out, trial
from studies.rig.trial.timetable import Timetable, Turn
from weir.chart.panels import Curve, Panel, draw
from weir.congestion.recordings import NetworkPath
from weir.errors import BadInput

SHALLOW = NetworkPath.parse("100 Mbit/s, 30 ms, 1 BDP")
needs_lab = pytest.mark.skipif(lab_lacks() is not None, reason=f"no lab: {lab_lacks()}")


def test_means_and_fairness_are_those_of_the_definition():
    """Jain's index of 474 and 62, the work's Table 6.3, is 0.629 (001-spec 6.6)."""
    outcome = Outcome(0.5, (474e6, 474e6), ((62e6, 62e6),))
    assert (outcome.own_bps, outcome.others_bps) == (474e6, (62e6,))
    assert outcome.jain_of_means == pytest.approx(0.629, abs=1e-3)
    assert outcome.mean_of_jain == pytest.approx(outcome.jain_of_means)
    # In turns each has all: fair in the mean, unfair at any time.
    turns = Outcome(0.5, (100.0, 0.0), ((0.0, 100.0),))
    assert (turns.jain_of_means, turns.mean_of_jain) == (1.0, 0.5)
    assert turns.last(0.5) == Outcome(0.5, (0.0,), ((100.0,),))


def test_chance_follows_from_the_seed():
    drawn = [Trial("B0-C1", "random-30", SHALLOW, 3000.0, seed=n).timetable for n in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert [turn.at_s for turn in drawn[0][:3]] == [5.0, 35.0, 65.0]  # from the request on
    bbr = sum(turn.control == "bbr" for turn in drawn[0])
    assert {turn.control for turn in drawn[0]} == {"bbr", "cubic"}
    assert 30 < bbr < 70  # of 100: a probability of a half (001-spec 8.6)


def test_the_oracle_has_the_fair_control_at_each_turn():
    """001-spec 6.3: BBR beside BBR, else CUBIC."""
    turns = Trial("ALT-3", "oracle", SHALLOW, 8.0, warmup_s=2.0).timetable
    assert turns == [Turn(0.0, "cubic"), Turn(3.0, "bbr"), Turn(6.0, "cubic"), Turn(9.0, "bbr")]
    for label, control in (("B0-C1", "cubic"), ("B1-C0", "bbr"), ("B1-C1", "bbr")):
        assert Trial(label, "oracle", SHALLOW).timetable == [Turn(0.0, control)]
    assert Trial("B0-C1", "auto", SHALLOW).timetable == []


@pytest.mark.parametrize("label", ["random-", "random-x", "random-0"])
def test_chance_without_a_length_is_refused(label):
    with pytest.raises(BadInput, match="random-30, say, has some of 30 s"):
        _ = Trial("B0-C1", label, SHALLOW).timetable


def test_a_timetable_begins_with_the_turn_that_is_on():
    """Turns come when they are due, those that are over not at all."""
    told = []

    class Transfer:
        def set_congestion(self, control):
            told.append((control, time.monotonic()))

    now_s = time.monotonic()
    turns = [Turn(now_s + at_s, name) for at_s, name in ((-9, "reno"), (-3, "bbr"), (0.2, "cubic"))]
    assert [Turn.parse(str(turn)) for turn in turns] == turns
    timetable = Timetable(Transfer(), turns)
    timetable.start()
    until(lambda: len(told) == 2)
    timetable.stop()
    assert [control for control, _ in told] == ["bbr", "cubic"]
    assert told[1][1] >= now_s + 0.2
    assert [one.facts["control"] for one in timetable.take_news()] == ["bbr", "cubic"]
    assert timetable.take_news() == []
    with pytest.raises(BadInput, match="is not a turn"):
        Turn.parse("soon=bbr")


def test_a_background_that_is_none_is_refused():
    with pytest.raises(BadInput, match="not a background"):
        carry_out(Trial("B3", "cubic", SHALLOW))


def test_a_background_in_turns_is_cubics_first_for_the_whole_time():
    """001-spec 3.2 and A-7: a new connection for each turn."""
    streams = Trial("ALT-3", "cubic", SHALLOW, 8.0, warmup_s=2.0).streams
    assert [one.congestion for one in streams] == ["cubic", "bbr", "cubic", "bbr"]
    spans = [(one.start_ns, dict(one.keys)["stop"]) for one in streams]
    assert spans == [(n * 3 * 10**9, f"{(n + 1) * 3 * 10**9} ns") for n in range(4)]


@pytest.mark.parametrize("label", ["ALT-", "ALT-x", "ALT-0.5", "ALT--3", "ALT-inf", "ALT-nan"])
def test_turns_of_no_length_are_refused(label):
    with pytest.raises(BadInput, match="ALT-30, say, has some of 30 s"):
        _ = Trial(label, "cubic", SHALLOW).streams


def test_a_look_that_came_late_stands_for_all_that_it_covers(monkeypatch):
    """A rate that rises: its mean is all bytes in all the time, whatever the looks took."""
    clock = [100.0]

    class Clock:
        def monotonic(self):
            return clock[0]

        def sleep(self, seconds):
            clock[0] += seconds

    class SlowLab:
        def run(self, *_args, **_options):
            clock[0] += 1.3 if 103 < clock[0] < 104 else 0.01
            acked = round((clock[0] - 100) ** 2 * 1e6)
            told = f"ESTAB 0 0 a:1 b:{trial._PORT} cubic bytes_acked:{acked}"
            return subprocess.CompletedProcess([], 0, told)

    monkeypatch.setattr(trial, "time", Clock())
    looks = trial._looks(SlowLab(), Trial("B0-C0", "cubic", SHALLOW, 10.0))
    rates = [
        rate[0] for before, now in itertools.pairwise(looks) for rate in trial._rates(before, now)
    ]
    assert len(rates) == 20
    assert rates == sorted(rates)
    assert len(set(rates)) < 20  # some are of one look
    assert sum(rates) / 20 == pytest.approx(8 * 10e6, rel=0.02)


def test_what_new_connections_carry_counts_beside_the_old_ones():
    """The old one has carried more and stays for a while; then it has ended."""

    def look(step, acked):
        lines = [f"ESTAB 0 0 a:{own} b:7 bbr bytes_acked:{count}" for own, count in acked.items()]
        return trial._Look(step, step, [watch.by_connection("\n".join(lines), 7)])

    told = [{1: 50}, {1: 80, 2: 7}, {1: 80, 2: 30}, {2: 90}, {3: 20}]
    pairs = itertools.pairwise(look(step, acked) for step, acked in enumerate(told))
    rates = [rate / 8 for before, now in pairs for (rate,) in trial._rates(before, now)]
    assert rates == [37, 23, 60, 20]


def test_what_arrived_is_held_to_what_was_sent_bit_by_bit(tmp_path):
    files = trial._Files.to_send(tmp_path, 3.5 * trial._FILE_BYTES)
    names = sorted(one.name for one in files.source.iterdir())
    assert names == ["0", "1", "2", "3"]
    copy = files.incoming / "copy"
    copy.mkdir()
    assert files.arrived() == []
    content = (files.source / "0").read_bytes()
    (copy / "0").write_bytes(content)
    (copy / "2").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert sorted(files.arrived()) == [False, True]
    headroom = {"bottleneck": False}
    tried = Trial("B0-C1", "bbr", SHALLOW, 1.0)
    outcome = trial._outcome(tried, [[0.0, 1.0]], (), headroom, files.arrived())
    assert (outcome.intact, outcome.damaged) == (1, 1)
    assert outcome.flaws == ("2 files arrived that were not seen to be sent",)


@pytest.mark.parametrize(
    ("control", "silent_s", "is_told"),
    [("bbr", 10, False), ("bbr", 10.5, True), ("auto", 20, False), ("auto", 20.5, True)],
)
def test_a_file_that_stands_still_for_longer_than_it_may_is_told(control, silent_s, is_told):
    """Ten seconds are a dead stream's (`watch.STALL_S`), ten more a silent prober's."""
    still = [[0.0, 9e7]] * round(silent_s / trial.STEP_S)
    rates = [[5e7, 4e7], *still, [0.1, 9e7], [0.0, 9e7]]
    headroom = {"bottleneck": False}
    tried = Trial("B0-C1", control, SHALLOW)
    outcome = trial._outcome(tried, rates, (), headroom, ())
    told = (f"the file got nothing through for {silent_s:g} s",) if is_told else ()
    assert outcome.flaws == told


@needs_lab
def test_bbr_takes_from_cubic_beside_a_shallow_queue(measured):
    """Figure 6.7 of work 001: good throughput and poor fairness; both together fill the link."""

    def check():
        seen = []
        trial = Trial("B0-C1", "bbr", SHALLOW, 10.0, warmup_s=4.0)
        outcome = carry_out(trial, "trial-test", lambda own, others: seen.append((own, *others)))
        assert seen == list(zip(outcome.own, *outcome.others, strict=True))
        assert len(outcome.own) == 20
        assert outcome.controls == ()
        total = outcome.own_bps + sum(outcome.others_bps)
        assert 0.3 * SHALLOW.rate_bps < total < SHALLOW.rate_bps
        assert outcome.own_bps > 1.2 * outcome.others_bps[0]

    measured(check)


@needs_lab
def test_the_oracle_changes_with_the_background(measured):
    def check():
        outcome = carry_out(Trial("ALT-3", "oracle", SHALLOW, 13.0, warmup_s=1.5), "trial-oracle")
        # Which turn is on when it begins depends on how fast the machine is.
        at_s = [one["at_s"] for one in outcome.choices]
        assert len(at_s) >= 3
        assert {*outcome.controls[::2]}.isdisjoint(outcome.controls[1::2])
        assert 1.5 < at_s[2] - at_s[1] < 5  # each three seconds, and told every half second
        assert outcome.intact >= 1 and outcome.damaged == 0

    measured(check)


def said_by(choice):
    """The control that is fair to whoever was recognised; None where that was in doubt.

    Who it is belongs to the tests of the recogniser: a busy machine may look like somebody.
    """
    sure = choice["known"] and abs(choice["bbr"] - 0.5) > 0.4
    return None if not sure else "bbr" if choice["bbr"] > 0.5 else "cubic"


def seconds_of(rates, step_s):
    """The mean rate of each whole second."""
    each = round(1 / step_s)
    return [sum(rates[at : at + each]) / each for at in range(0, len(rates) - each + 1, each)]


@needs_lab
@pytest.mark.parametrize("background", ["B0-C1", "B1-C0"])
def test_auto_chooses_the_fair_control(background, measured):
    lengths_s = iter((12.0, 25.0, 50.0))  # on a busy machine all takes longer

    def check():
        outcome = carry_out(Trial(background, "auto", SHALLOW, next(lengths_s)), "trial-auto")
        assert outcome.controls, outcome.choices
        choice = next(one for one in outcome.choices if one["event"] == "choice")
        assert choice["control"] == (said_by(choice) or choice["control"])
        # It sends while it learns: in each second after the one in which it connects.
        learning = outcome.own[: int(choice["at_s"] / outcome.step_s)]
        assert min(seconds_of(learning, outcome.step_s)[1:]) > 1e-3 * SHALLOW.rate_bps
        assert outcome.own[-1] > 0

    measured(check)


@needs_lab
def test_auto_follows_a_background_that_turns_without_silence(measured):
    """CUBIC until the 18th second, BBR from then on."""

    def check():
        outcome = carry_out(Trial("ALT-20", "auto", SHALLOW, 37.0, warmup_s=2.0), "trial-turn")
        choices = [one for one in outcome.choices if one["event"] == "choice"]
        assert choices and {one["probe"] for one in choices} == {"listening"}, outcome.choices
        heard = choices[1:]
        for choice in choices:
            assert choice["control"] == (said_by(choice) or choice["control"])
            # Where a path is probed there is silence for five seconds at least.
            last = int(choice["at_s"] / outcome.step_s)
            assert max(outcome.own[last - round(4 / outcome.step_s) : last]) > 0
        # Nobody is heard where the machine hides them: it owns up, or nothing looked as it should.
        is_hidden = outcome.flaws or not choices[0]["known"]
        assert heard or is_hidden, outcome.choices

    measured(check)


def test_panels_show_every_value_where_it_belongs():
    panels = [
        Panel(f"<{number}>", "sub", (Curve("a", [0.0, 5.0, 10.0], "#123456"),), 1.0, [(1.5, "now")])
        for number in range(3)
    ]
    root = ET.fromstring(draw(panels, 2, "title", "unit", 10.0))
    lines = [one for one in root.iter() if one.tag.endswith("polyline")]
    places = [[tuple(map(float, p.split(","))) for p in one.get("points").split()] for one in lines]
    assert len(places) == 3
    for (x1, low), (x2, middle), (x3, high) in places:
        assert x3 - x2 == pytest.approx(x2 - x1, abs=0.2)
        assert low - middle == pytest.approx(middle - high, abs=0.2)
    assert places[1][0][0] > places[0][2][0]  # beside the first
    assert places[2][2][1] > places[0][0][1]  # below it
    texts = [one.text for one in root.iter() if one.tag.endswith("text")]
    assert {"<0>", "<1>", "<2>", "a, unit", "now"} <= set(texts)


def test_the_demonstrations_facts_are_json(monkeypatch, tmp_path, capsys):
    from studies.demonstration import ops
    from weir.cli import main

    def made_up(trial, name, seen):
        seen(30e6, [60e6])
        control = {"B0-C1": "cubic", "B1-C0": "cubic"}[trial.background]
        choice = {"event": "choice", "control": control, "known": True, "why": "so", "at_s": 0.2}
        choices = (choice,) if trial.control == "auto" else ()
        return Outcome(0.5, (30e6,), ((60e6,),), choices)

    monkeypatch.setattr(ops, "carry_out", made_up)
    # CUBIC beside BBR is not what is fair.
    assert main(["demo", "ops", "--json", "--out", str(tmp_path)]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["chosen"] for row in rows] == [None, None, "cubic"] * 2
    assert {row["own_bps"] for row in rows} == {30_000_000}
    assert "beside BBR: auto → cubic" in (tmp_path / "ops.svg").read_text()
    kept = json.loads((tmp_path / "ops.json").read_text())
    assert kept["auto_beside_bbr_chosen"] == "cubic" and not kept["holds"]
    assert kept["bbr_beside_cubic_own_bps"] == 30_000_000
    assert kept["bbr_beside_cubic_others_bps"] == 60_000_000
    # (30 + 60)^2 / (2 * (30^2 + 60^2))
    assert kept["bbr_beside_cubic_jain_index"] == 0.9
    numbers = [key for key, value in kept.items() if type(value) in (int, float)]
    assert all(key.endswith(("_bps", "_s", "_index")) or key == "seed" for key in numbers)
    assert not any(isinstance(value, dict | list) for value in kept.values())
    assert main(["demo", "ops", "--out", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "30.0 Mbit/s" in shown and "at 0.2 s: choice cubic: so" in shown
    assert main(["demo", "ops", "--out", "/proc/none"]) == 2


@pytest.mark.parametrize(("known", "code"), [(True, 0), (False, 1)])
def test_what_is_kept_in_doubt_was_not_chosen(known, code, monkeypatch, tmp_path, capsys):
    from studies.demonstration import ops
    from weir.cli import main

    def made_up(trial, name, seen):
        seen(30e6, [60e6])
        control = ops.FAIR[trial.background]
        choice = {"event": "choice", "control": control, "known": known, "why": "", "at_s": 0.2}
        return Outcome(0.5, (30e6,), ((60e6,),), (choice,) if trial.control == "auto" else ())

    monkeypatch.setattr(ops, "carry_out", made_up)
    assert main(["demo", "ops", "--json", "--out", str(tmp_path)]) == code
    chosen = [json.loads(line)["chosen"] for line in capsys.readouterr().out.splitlines()]
    assert chosen[2::3] == (["cubic", "bbr"] if known else [None, None])
