"""Calibers over switches: what is made of a run, and a smallest one."""

import pytest
from rig import lab_lacks, needs_ovs

from studies.works.row import Verdict
from studies.works.w000.ch4_calendar_live import ROWS as ALL

ROWS = {row.id: row for row in ALL}


def run(admitted, on_time=None, carried=0.5):
    """A run of ten requests, its two links in use by such a share."""
    late = admitted - (admitted if on_time is None else on_time)
    transfers = [
        {
            "admitted": at < admitted,
            "on_time": late <= at < admitted,
            "size_bytes": 1,
            "promised_bytes": 1000,
            "carried_bytes": 900,
        }
        for at in range(10)
    ]
    figures = ("success", "reject_rate", "utilisation", "index", "missed")
    return {
        "transfers": transfers,
        "seconds": 8.0,
        "carried_bytes": {"A-B": carried * 20e6, "B-A": carried * 20e6},
        "flaws": [],
        "simulated": dict.fromkeys(figures, 0.5),
        "bound": 10,
    }


def judged(row, of):
    return ROWS[row].judge([of(point.arguments) for point in ROWS[row].points(True)])


def test_figures_are_of_all_requests_and_all_links():
    outcome = judged("000-own-4.2a-live", lambda x: run(8 if x["rate_per_s"] < 1 else 6))
    assert outcome.verdict == Verdict.TREND_HOLDS
    assert "fixed at 0.5/s rejects 0.20 (simulated 0.50), utilisation 0.50" in outcome.ours
    assert "28 admitted, 0 of them late, switches carried 0.90" in outcome.ours
    index = judged("000-own-4.2b-live", lambda _: run(8))
    assert "local-ljf 1.60 (simulated 0.50) at 1.5/s" in index.ours


@pytest.mark.parametrize("row", ROWS)
def test_promises_that_were_not_kept_make_a_row_differ(row):
    assert judged(row, lambda _: run(8)).verdict != Verdict.DIFFERS
    assert judged(row, lambda _: run(8, on_time=6)).verdict == Verdict.DIFFERS


def test_rejects_that_fall_with_load_differ():
    outcome = judged("000-own-4.2a-live", lambda x: run(6 if x["rate_per_s"] < 1 else 8))
    assert outcome.verdict == Verdict.DIFFERS


def test_a_policy_that_is_told_apart_by_short_epochs_differs():
    def apart(arguments):
        return run(8 if arguments["policy"] == "local-ljf" else 5)

    assert judged("000-own-4.4.2-live", apart).verdict == Verdict.DIFFERS


class SlowCalendar:
    """Answers after so long, on a clock of its own; what it admits is over at once."""

    def __init__(self, answers_s):
        self.now_s, self._answers_s = 0.0, answers_s

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds

    def submit(self, request):
        self.now_s += self._answers_s
        return {"id": request["source_path"]}

    def show(self, _):
        return {"state": "completed", "on_time": True, "promise": None}


@pytest.mark.parametrize(("answers_s", "flaws"), [(0.4, []), (0.6, ["the calendar was late to"])])
def test_a_calendar_whose_answers_are_late_is_not_believed(tmp_path, monkeypatch, answers_s, flaws):
    pytest.importorskip("os_ken")
    from studies.rig import calibers

    slow = SlowCalendar(answers_s)
    monkeypatch.setattr(calibers, "time", slow)
    (tmp_path / calibers.host("A")).mkdir()
    # Two at once: the second is asked for when the first is answered.
    asked = [calibers.Request(0.0, "A", "B", 10, 60.0)] * 2
    found = calibers._asked(slow, tmp_path, asked)
    assert [said.removesuffix(" answer") for said in found["flaws"]] == flaws


@needs_ovs
@pytest.mark.skipif(lab_lacks() is not None, reason=f"no lab: {lab_lacks()}")
def test_a_smallest_run_carries_a_file_and_counts_it(tmp_path, monkeypatch):
    pytest.importorskip("os_ken")
    from studies.rig.calibers import Request, carry_out

    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    ways = [("A", "B"), ("B", "A")]
    links = [{"name": f"{a}-{b}", "from": a, "to": b, "capacity_bps": 20_000_000} for a, b in ways]
    network = {"nodes": ["A", "B"], "links": links}
    # The first is admitted for sure; no link of 18 Mbit/s carries the second in time.
    asked = [Request(0.0, "A", "B", 1_000_000, 60.0), Request(0.1, "A", "B", 500_000_000, 60.0)]
    found = carry_out(network, "local-ljf", 1.0, asked)
    assert [one["admitted"] for one in found["transfers"]] == [True, False]
    assert found["transfers"][0]["on_time"]
    assert found["carried_bytes"]["A-B"] >= 1_000_000
