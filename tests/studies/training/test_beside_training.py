"""Runs beside a stream of ours, and what is learned from them: who was there, and when."""

import numpy as np
import pytest

from studies.training import beside, train_beside
from studies.training.beside import CHUNK, OWN, RATE_HZ, Other, Run, Setting, setting
from weir.congestion.classify.company import BBR, NOBODY, SECONDS, WITHOUT_BBR
from weir.congestion.classify.counted import HISTORY_S
from weir.congestion.recordings import NetworkPath
from weir.errors import BadInput
from weir.lab.scenario import Bernoulli

PATH = NetworkPath.parse("50 Mbit/s, 20 ms, 1 BDP")


def test_who_is_there_follows_from_who_sends_when():
    others = (Other("cubic", 2.0, 20.0), Other("bbr", 10.0, 20.0))
    made = Run(Setting("cubic", 1.0, PATH, others, 30, 1), *np.zeros((3, 600)))
    there = [made.there(at_s) for at_s in (1.9, 2.0, 9.9, 10.0, 19.9, 20.0)]
    assert there == [NOBODY, WITHOUT_BBR, WITHOUT_BBR, BBR, BBR, NOBODY]
    just = [made.setting.has_just_changed(at_s, 1.0) for at_s in (9.9, 10.0, 10.9, 11.0, 20.5)]
    assert just == [False, True, True, False, True]


def test_paths_are_drawn_in_their_ranges_and_runs_by_their_number_alone():
    some = [setting(1, number) for number in range(200)]
    assert some[:50] == [setting(1, number) for number in range(50)]
    assert {one.own for one in some[::2]} == {OWN[0]}
    assert {one.own for one in some[1::2]} == {OWN[1]}
    for one in some:
        assert 40e6 <= one.path.rate_bps <= 200e6
        assert 8e6 <= one.path.rtt_ns <= 150e6
        product = one.path.rate_bps * one.path.rtt_ns / 8e9
        assert 0.49 <= one.path.buffer_bytes / product <= 4.01
        assert all(0 <= other.begin_s < other.end_s <= one.seconds for other in one.others)
        assert not one.turns
    there = [Run(one, *np.zeros((3, 1))).there(one.seconds - 0.1) for one in some]
    assert min(there.count(who) for who in (NOBODY, WITHOUT_BBR, BBR)) >= 10


def test_turned_ones_had_another_control_before():
    for number in range(100):
        made = setting(1, number, "turned")
        controls = [control for _, control, _ in made.turns]
        assert controls == (["bbr"] if made.own == "bbr" else ["bbr", "cubic", "cubic"])
        assert made.chosen_s > made.own_s
        assert made.turns[-1][-1] is None  # unpaced in the end


def test_crowds_are_on_wider_paths_and_have_or_have_no_bbr_among_them():
    some = [setting(1, number, "crowded") for number in range(300)]
    assert some[:50] == [setting(1, number, "crowded") for number in range(50)]
    for one in some:
        assert 20e6 <= one.path.rate_bps <= 500e6
        assert one.loss == 0 or 3e-5 <= one.loss <= 3e-4
        assert bool(one.turns) == (one.chosen_s > one.own_s)
    assert 60 <= sum(one.loss > 0 for one in some) <= 120
    for least in (16, 32, 64):
        crowds = [one for one in some if len(one.others) >= least]
        there = {"bbr" in {other.kind for other in one.others} for one in crowds}
        assert there == {True, False}
    assert {one.own for one in some if one.turns} == set(OWN)


def test_paths_of_crowds_lose_as_many_packets_as_is_said(monkeypatch):
    given = []

    def simulated(scenario, *_, **__):
        given.append(scenario)
        return {
            "flows": [{"echoes": []}],
            "traces": {"connections": "time_ns,traffic"},
        }

    monkeypatch.setattr(beside, "simulated", simulated)
    for loss in (0.0, 1e-4):
        beside.run(Setting("cubic", 1.0, PATH, (), 30, 1, loss=loss))
    without, lossy = (one.links[0] for one in given)
    assert without.forward.loss is None
    assert lossy.forward.loss == Bernoulli(1e-4)
    assert lossy.backward.loss is None


def test_what_was_simulated_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(beside, "CHUNK", 2)
    first = list(beside.runs(range(2), 5, tmp_path))
    monkeypatch.setattr(beside, "run", lambda _: pytest.fail("it was simulated again"))
    again = list(beside.runs(range(2), 5, tmp_path))
    for one, other in zip(first, again, strict=True):
        assert one.setting == other.setting
        assert np.array_equal(one.rtt_ms, other.rtt_ms, equal_nan=True)
        assert np.array_equal(one.acked, other.acked)
    # Ours carries something once it is there, and never more than the path does.
    for one in first:
        assert one.acked[-1] > 0
        carried_s = one.setting.seconds - one.setting.own_s
        assert one.acked[-1] * 8 <= one.setting.path.rate_bps * carried_s
        assert not one.acked[: round(one.setting.own_s * RATE_HZ)].any()
    assert CHUNK > 2


def test_what_is_seen_of_counters_is_as_of_when_the_reply_came():
    """By hand: two streams of ours, looked at each 50 ms; the reply of sample 1 takes 75 ms."""
    lines = ["time_ns,traffic,stream,window_bytes,in_flight_bytes,srtt_ns,delivered_bytes"]
    for look in range(5):
        for name in ("own", "own 1", "0"):
            lines.append(f"{look * 50_000_000},{name},0,{100 + look},0,0,{10 * look}")
    echoes = [{"replies": 1, "rtt_ns": 10_000_000}, {"replies": 1, "rtt_ns": 75_000_000}]
    echoes += [{"replies": 0, "rtt_ns": 0}]
    found = {"flows": [{}, {"echoes": echoes}], "traces": {"connections": "\n".join(lines)}}
    rtt_ms, acked, window = beside.seen(found, ["own", "own 1"], 1)
    assert rtt_ms[:2].tolist() == [10, 75]
    assert np.isnan(rtt_ms[2])
    assert acked.tolist() == [0, 40, 40]  # looks 0 and 2; who is lost comes no sooner
    assert window.tolist() == [200, 204, 204]


def made_up(number):
    """A run in which BBR shows in the first sample that one looks at: the queue shakes."""
    others = [(), (Other("cubic", 0, 30),), (Other("bbr", 0, 30),)][number // 2 % 3]
    draw = np.random.default_rng(number)
    at_s = np.arange(30 * RATE_HZ) / RATE_HZ
    shakes = (0.0, 40.0, 400.0)[len(others) and (2 if others[0].kind == "bbr" else 1)]
    rtt_ms = 30 + shakes * draw.random(len(at_s))
    turns = () if number % 4 else ((3.0, OWN[number % 2], None),)
    run_of = Setting(OWN[number % 2], 0.0, PATH, others, 30, number, turns)
    return Run(run_of, rtt_ms, 1e6 * at_s, np.full(len(at_s), 1e5))


def test_what_can_be_seen_is_learned_beside_either_control():
    learned = train_beside.train([made_up(number) for number in range(120)], seed=1)
    right: list[bool] = []
    for number in range(200, 212):
        one = made_up(number)
        past, ends = train_beside.pasts(one, np.random.default_rng(number))
        shares, usual = learned.judge(one.setting.own, past)
        right += (shares.argmax(axis=1) == one.there(29.0)).tolist()
        assert np.mean(usual >= 0.04) > 0.5
        assert past.acked.shape == (len(ends), HISTORY_S * RATE_HZ)
        # Nothing is seen from before our stream had its control, or what would be no window.
        least = round(one.setting.chosen_s * RATE_HZ)
        assert all(end - SECONDS * RATE_HZ >= least for end in ends)
        assert np.nanmin(past.acked) >= 1e6 * one.setting.chosen_s
    assert np.mean(right) > 0.9


@pytest.mark.parametrize("given", [{"count": 10}, {"count": 139}, {"seed": -1}])
def test_too_few_runs_are_refused_before_anything_is_simulated(tmp_path, monkeypatch, given):
    monkeypatch.setattr(beside, "run", lambda _: pytest.fail("it was simulated"))
    with pytest.raises(BadInput, match="--count"):
        train_beside.make(tmp_path / "company.npz", folder=tmp_path, **given)
    assert not (tmp_path / "company.npz").exists()
