"""Row 000-fig-1.3: throughput against the round-trip time, with and without loss."""

import math

import pytest

from studies.works.row import Verdict
from studies.works.w000.ch1_losses import CURVES, LOSS, ROWS, throughput

(ROW,) = ROWS


def small():
    """The results of the row's reduced size, with a few seconds each."""
    return [throughput(**{**point.arguments, "seconds": 5}) for point in ROW.points(True)]


def test_reno_carries_what_mathis_and_others_foresee():
    for rtt_ms in (20, 50):
        got = throughput(control="reno", loss=LOSS, rtt_ms=rtt_ms, seconds=200, seed=7)
        # Mathis, Semke, Mahdavi and Ott 1997: MSS / RTT * sqrt(3 / 2 p).
        foreseen = 8960 * 8 / (rtt_ms / 1e3) * math.sqrt(1.5 / LOSS) / 1e9
        assert got == pytest.approx(foreseen, rel=0.2)


def test_a_path_without_loss_is_full_however_long_it_is():
    assert throughput(control="htcp", loss=0.0, rtt_ms=90, seconds=3, seed=1) > 9.9


def test_the_row_differs_where_loss_does_no_harm_or_a_long_path_does():
    found = small()
    assert ROW.judge(found).verdict == Verdict.TREND_HOLDS
    places = [(point.arguments["loss"], point.arguments["rtt_ms"]) for point in ROW.points(True)]
    for at, bad in (((LOSS, 90), 9.0), ((0.0, 90), 1.0)):
        spoilt = [bad if place == at else rate for place, rate in zip(places, found, strict=True)]
        assert ROW.judge(spoilt).verdict == Verdict.DIFFERS
    assert len(found) == 4 * len(CURVES)
