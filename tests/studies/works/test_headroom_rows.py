"""The rows on headroom services: those that are quick as they are, the others at a small size."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from studies.works.row import Verdict
from studies.works.w000 import ch3_headroom

# Not those of the rows, nor those that any choice was developed on.
SMALL = {"flows": 2_000, "seeds": [41_000, 41_001]}
ROWS = {row.id: row for row in ch3_headroom.ROWS}
QUICK = ["000-fig-3.4", "000-fig-3.6b", "000-fig-3.6c", "000-fig-3.6d", "000-fig-3.7a"]


@cache
def _run(function, text):
    return getattr(ch3_headroom, function)(**json.loads(text))


def results(points, **changes):
    """Those of the points; the runs let other threads go on."""
    with ThreadPoolExecutor() as pool:
        return [
            *pool.map(
                lambda point: _run(
                    point.run.__name__, json.dumps({**point.arguments, **changes}, sort_keys=True)
                ),
                points,
            )
        ]


@pytest.mark.parametrize("row", QUICK)
def test_rows_match_what_was_published_at_the_reduced_size(row):
    outcome = ROWS[row].judge(results(ROWS[row].points(True)))
    assert outcome.verdict == Verdict.MATCHES, outcome


@pytest.mark.parametrize("row", [row for row in ROWS if row not in QUICK])
def test_every_other_row_can_be_judged(row):
    outcome = ROWS[row].judge(results(ROWS[row].points(True), **SMALL))
    assert outcome.ours
    assert outcome.interval


def test_the_headline_gain_is_met():
    """Gain of 2.4 at w = 1 and 0.1/s; 2.367 by the stated throughputs."""
    points = [
        ch3_headroom.Point(
            ch3_headroom.run,
            {
                **ch3_headroom.setting(service, 1.0, 0.1),
                "flows": 100_000,
                "seeds": [*range(42, 52)],
            },
        )
        for service in (ch3_headroom.SH, ch3_headroom.DH)
    ]
    fixed, spread = results(points)
    gain, margin = ch3_headroom._gain(spread, fixed)
    assert gain == pytest.approx(8.71 / 3.68, rel=0.02)
    assert margin < 0.05


@pytest.mark.parametrize(
    ("row", "change"),
    [
        ("000-fig-3.6c", {"occupancy": [0.5] * 16}),
        ("000-fig-3.6d", {"occupancy": [0.5] + [0.0] * 15}),
        ("000-fig-3.7a", {"mean_throughput_bps": 8.71e9}),
    ],
)
def test_a_row_differs_when_the_results_do(row, change):
    found = [[{**sample, **change} for sample in runs] for runs in results(ROWS[row].points(True))]
    assert ROWS[row].judge(found).verdict == Verdict.DIFFERS


@pytest.mark.parametrize(("faster", "verdict"), [(1.1, "TREND_HOLDS"), (0.9, "DIFFERS")])
def test_an_extension_that_is_behind_is_said_to_be(faster, verdict):
    base = [{"mean_throughput_bps": value} for value in (8e9, 8.1e9, 8.2e9)]
    own = [{"mean_throughput_bps": sample["mean_throughput_bps"] * faster} for sample in base]
    outcome = ch3_headroom._judge_own({"DH": ["own"]}, {("DH", "here"): base, ("own", "here"): own})
    assert outcome.verdict == Verdict[verdict]
    assert f"here: own {100 * (faster - 1):+.1f} ± 0.0" in outcome.ours


def test_all_traffic_is_shared_out_among_the_pairs():
    for w in (0, 0.3, 1):
        pairs = ch3_headroom.pairs("ABCDEF", w)
        assert sum(pair["share"] for pair in pairs) == pytest.approx(1)
        favoured = next(pair for pair in pairs if (pair["from"], pair["to"]) == ("C", "B"))
        assert favoured["share"] == pytest.approx(1 / 30 + 14 * w / 30)


def test_rows_draw_their_curves(tmp_path):
    row = ROWS["000-fig-3.7b"]
    row.plot(results(row.points(True), **SMALL), tmp_path / "gain.svg")
    assert (tmp_path / "gain.svg").read_text().count("<polyline") == len(ch3_headroom._CURVES)
