"""Chapter 2 of work 000: the worked example, what is judged, and a fabric in small."""

import numpy as np
import pytest

from studies.works.row import Verdict
from studies.works.w000 import ch1_run_times, ch2_fabric, ch2_stalls, ch2_victims
from weir import Bytes, Time
from weir.lab.scenario import Credits
from weir.observe.infiniband import plan, statistics
from weir.observe.infiniband.statistics import Tally
from weir.sim.core import simulated

ROWS = {row.id: row for row in ch2_stalls.ROWS}


def test_the_worked_example_matches():
    row = ROWS["000-tab-2.3"]
    outcome = row.judge([point.run(**point.arguments) for point in row.points(False)])
    assert outcome.verdict == Verdict.MATCHES
    assert outcome.ours == "1.1792"
    other = dict(ch2_stalls.golden(), fitf=1.178)
    assert row.judge([other]).verdict == Verdict.DIFFERS


def tallies(**changed):
    """A made-up result in which every trend holds, or not."""
    shares = {"ToR up": 0.6, "ToR down": 0.6, "GladeLeaf up": 0.9, "GladeLeaf down": 0.4} | changed
    found = {}
    for kind, way in ch2_stalls.ORDER:
        share = shares.get(f"{kind} {way}", 0.3)
        wide = {"GladeLeaf": 0.4, "ToR": 0.04}.get(kind, 0.01)
        found[f"{kind} {way}"] = {
            "rounds": 10,
            "zero": round(990 * (1 - share)),
            "waiting": round(990 * share),
            "whole": 1,
            "maxima": [0.01 + wide * n / 10 for n in range(10)] + [0.9],
            "means": [0.01 + wide * n / 20 for n in range(10)],
        }
    return {"tallies": found, "truth": [100.0, 60.0, 100.0, 25.0], "lost_error": 0.004}


@pytest.mark.parametrize("name", ["000-fig-2.5", "000-fig-2.6", "000-fig-2.7", "000-tab-2.2"])
def test_rows_hold_where_trends_do(name):
    assert ROWS[name].judge([tallies()]).verdict == Verdict.TREND_HOLDS


def test_a_minority_of_waiting_intervals_differs_and_says_what_was_missed():
    outcome = ROWS["000-fig-2.5"].judge([tallies(**{"ToR up": 0.2})])
    assert outcome.verdict == Verdict.DIFFERS
    assert "75 % was not seen" in outcome.reason
    assert "within 0.4 % of the truth" in outcome.reason


def test_rows_say_what_they_find_by_runs_that_nothing_was_chosen_by():
    seen, other = [tallies()] * 8, [tallies(**{"ToR up": 0.2})] * 4
    outcome = ROWS["000-fig-2.5"].judge([*seen, *other, tallies()])
    assert outcome.verdict == Verdict.TREND_HOLDS
    assert "4 other seeds differs, on a fabric of twice the hosts trend holds" in outcome.reason


@pytest.mark.parametrize(("wrong", "verdict"), [(2, "trend holds"), (3, "differs")])
def test_the_verdict_is_that_of_mixes_whose_numbers_nobody_chose(wrong, verdict):
    """Whatever the chosen numbers give: more than half of the drawn mixes have to agree."""
    mixes = [tallies(**{"ToR up": 0.2})] * wrong + [tallies()] * (5 - wrong)
    for chosen in (0.2, 0.6):
        seen = [tallies(**{"ToR up": chosen})] * 13
        outcome = ROWS["000-fig-2.5"].judge([*seen, *mixes])
        assert outcome.verdict == verdict
        assert f"ToR up above half in {5 - wrong}, ToR down above half in 5" in outcome.ours


def test_numbers_are_drawn_within_their_ranges_and_run(monkeypatch):
    mixes = [ch2_fabric.drawn(number) for number in ch2_stalls._MIXES]
    assert mixes[0] == ch2_fabric.drawn(1) != mixes[1]
    for name, (least, most) in ch2_fabric.RANGES.items():
        values = [getattr(one, name) for one in mixes]
        assert least <= min(values) < max(values) <= most
        assert least <= getattr(ch2_fabric.CHOSEN, name) <= most
    assert set(ch2_fabric.RANGES) == set(ch2_fabric.CHOSEN.__dataclass_fields__)
    asked = []

    def measure(rounds, seed, **options):
        asked.append(options["numbers"])
        return ch2_fabric.Measured({})

    monkeypatch.setattr(ch2_fabric, "measure", measure)
    for point in ROWS["000-fig-2.5"].points(False):
        point.run(**point.arguments)
    assert asked == [ch2_fabric.CHOSEN] * 13 + mixes


def test_a_day_of_the_campaign_draws_as_often_as_there_are_switches():
    counts = ch2_fabric.campaign(days=1, seed=1)
    total = sum(counts.values())
    # 24 windows of six instances with 96 rounds of 12.5 s each, and a reset in each round.
    assert total == pytest.approx(24 * 6 * 96, rel=0.01)
    tor = (counts["ToR up"] + counts["ToR down"]) / total
    assert tor == pytest.approx(252 / 693, abs=0.02)


def test_a_small_cluster_is_asked_like_the_large_one():
    found = ch2_fabric.measure(1, 1, queries=10)
    assert set(found.tallies) == set(ch2_stalls.ORDER)
    ports = sum(tally.rounds for tally in found.tallies.values())
    assert ports == sum(
        len(node.cables) for node in plan.cluster(plan.SMALL).values() if node.kind == "switch"
    )
    tor: Tally = found.tallies["ToR", "up"]
    assert tor.zero + tor.waiting == 9 * tor.rounds
    assert found.lost_error < 0.01
    truth = found.truth
    assert 0 < truth.explained <= truth.waited
    assert 0 < truth.seen <= truth.congested
    assert statistics.box(found.tallies["GladeLeaf", "down"].maxima) is not None


VICTIMS = {row.id: row for row in ch2_victims.ROWS}["000-sec-2.5"]


def managed(first=(8e9, 8e9 / 3, 8e9, 8e9, 8e9)):
    """A made-up result of each setting; the first has those rates of the victim in each phase."""
    made = []
    for number, one in enumerate(ch2_victims._SETTINGS):
        fair = ch2_victims.fair(one["shared_bps"], one["host_bps"])[0]
        rates = first if number == 0 else (8e9, 8e9 / 3, fair, fair, 8e9)
        victim = [rate for rate in rates for _ in range(4)]
        made.append({"victim_bps": victim, "disk_bps": [7.4e9] * 20})
    return made


def test_a_victim_that_comes_back_matches_and_one_that_does_not_differs():
    outcome = VICTIMS.judge(managed())
    assert outcome.verdict == Verdict.MATCHES
    assert outcome.ours.startswith("8.00 → 2.67 → 8.00 Gbit/s")
    stays = managed((8e9, 8e9 / 3, 8e9 / 3, 8e9 / 3, 8e9))
    assert VICTIMS.judge(stays).verdict == Verdict.DIFFERS


def test_the_works_victim_has_its_max_min_fair_share_again():
    run = ch2_victims.managed(**ch2_victims._SETTINGS[0])
    alone, congested, freed, *_ = ch2_victims.phases(run["victim_bps"])
    assert alone == pytest.approx(8e9, rel=0.01)
    assert congested == pytest.approx(8e9 / 3, rel=0.03)
    assert freed == pytest.approx(ch2_victims.fair(16e9)[0], rel=0.03)
    # The peer's port, too, is congested for a moment when the shared buffer empties.
    assert run["marked"] > 10 * run["marked_elsewhere"]


@pytest.mark.parametrize("medium", [None, Credits(Bytes("64 KiB"))], ids=["drop-tail", "credits"])
def test_where_queues_drop_nobody_is_a_victim(medium):
    """The contrast of 000-spec 2.9: only where nothing may be lost does a stranger pay."""
    made = ch2_victims.scenario(2 * ch2_victims.HOST_BPS, 3, (1, 2), medium)
    result = simulated(made, Time.from_ns(3 * ch2_victims.PHASE_NS), trace=True)
    (victim,) = [one for one in result["flows"] if one["to"] == "peer"]
    dropped = {one["name"]: one["forward"]["dropped_queue"] for one in result["links"]}
    lost = 1 - victim["received_packets"] / victim["sent_packets"]
    if medium is None:
        assert victim["lost_packets"] == 0
        assert victim["goodput_bps"] == pytest.approx(8e9, rel=0.001)
        assert dropped["s-disk"] > 1000
    else:
        # It has a third of 8 Gbit/s for a third of the time.
        assert lost == pytest.approx(2 / 9, abs=0.01)
        assert dropped["s-disk"] == dropped["r-s"] == 0


@pytest.mark.parametrize("shared", [4e9, 8e9, 12e9, 16e9])
def test_fair_shares_are_those_of_filling_step_by_step(shared):
    links = {"r-s": (shared, {"victim", "reader"}), "s-peer": (8e9, {"victim"}),
             "s-disk": (8e9, {"reader", "one", "two"})}  # fmt: skip
    rates = dict.fromkeys(("victim", "reader", "one", "two"), 0.0)
    growing = set(rates)
    while growing:
        for flow in growing:
            rates[flow] += 1e6
        for most, flows in links.values():
            if sum(rates[flow] for flow in flows) >= most:
                growing -= flows
    assert ch2_victims.fair(shared) == pytest.approx((rates["victim"], rates["reader"]), rel=0.002)


RUN_TIMES = ch1_run_times.ROWS[0]


def test_a_run_takes_what_is_computed_and_what_the_slowest_host_waits():
    times = np.arange(0, 4_000_001, 1_000)
    # Two steps of 1 ms: the first part comes in 0.2 ms and, at the slower host, in 0.4 ms.
    fast = np.interp(times, [0, 2e5, 1e6, 1.2e6], [0, 1e6, 1e6, 2e6])
    slow = np.interp(times, [0, 4e5, 1e6, 1.2e6], [0, 1e6, 1e6, 2e6])
    found = ch1_run_times.run_time_ns(times, [fast, slow], 2)
    assert found == pytest.approx(2 * ch1_run_times._COMPUTE_NS + 4e5 + 2e5, rel=0.01)


def test_the_rest_of_the_cluster_slows_the_program_and_is_seen_in_fitf():
    alone = ch1_run_times.shared(load=0, seed=0, steps=4)
    busy = ch1_run_times.shared(load=4, seed=1, steps=4)
    assert busy["run_ns"] > 1.02 * alone["run_ns"]
    assert busy["fitf"] > alone["fitf"] >= 0
    slower = [
        {**busy, "run_ns": busy["run_ns"] * (1 + n / 10), "fitf": busy["fitf"] * (1 + n)}
        for n in range(6)
    ]
    outcome = RUN_TIMES.judge([alone, *slower])
    assert outcome.verdict == Verdict.TREND_HOLDS
    assert "rank correlation 1.00" in outcome.reason
