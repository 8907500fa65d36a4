"""Elephants that come and go on switches: what is made of a run, and a smallest one."""

import pytest
from rig import lab_lacks, needs_ovs

from studies.works.row import Verdict
from studies.works.w000 import ch3_default_paths_live, ch3_extensions_live, ch3_headroom_live
from studies.works.w000.ch3_live import CARRIED, elephants, fluid_gbit_s, gbit_s, setting, used
from weir._core import default_paths, six_routers

ROWS = {
    row.id: row
    for module in (ch3_headroom_live, ch3_extensions_live, ch3_default_paths_live)
    for row in module.ROWS
}
EDGES = ("A-B", "B-C", "C-D", "D-E", "E-F", "F-A", "B-F", "C-E")
LINKS = [f"{edge}.{way}" for edge in EDGES for way in ("forward", "backward")]
DIRECT = ("B-C.forward", "B-C.backward")


def flow(seconds, *path, at_s=0.0, size_bytes=5_000_000, limit_bps=None, wait_s=0.0):
    return {
        "at_s": at_s,
        "end_s": at_s + seconds,
        "size_bytes": size_bytes,
        "limit_bps": limit_bps,
        "path": list(path),
        "wait_s": wait_s,
    }


def run(flows, busy=DIRECT, lost=0):
    """A run of ten seconds in which these links carried half of their rate."""
    carried = {link: 12_500_000 if link in busy else 2_000 for link in LINKS}
    return {
        "flows": flows,
        "carried_bytes": carried,
        "seconds": 10.0,
        "sent": 1000,
        "received": 1000 - lost,
        "flaws": [],
    }


def results(row, of):
    """A result for each point of the row's reduced size, by its arguments."""
    return [of(point.arguments) for point in ROWS[row].points(True)]


def test_throughputs_are_told_at_the_rates_of_the_work():
    # 5 MB in 4 s are 10 Mbit/s, of which there are 500 times as many.
    assert gbit_s(run([flow(4, DIRECT[0]), flow(2, DIRECT[0])])) == pytest.approx(7.5)


def test_the_fluid_model_shares_links_among_the_same_flows_on_the_same_paths():
    alone = 20e6 * CARRIED * 500 / 1e9
    around = ("B-F.forward", "E-F.backward", "C-E.backward")
    apart = run([flow(9, DIRECT[0]), flow(9, *around)])
    assert fluid_gbit_s(apart) == pytest.approx(alone)
    assert fluid_gbit_s(run([flow(9, DIRECT[0])] * 2)) == pytest.approx(alone / 2)
    held = run([flow(9, DIRECT[0], limit_bps=2_000_000)])
    assert fluid_gbit_s(held) == pytest.approx(1.0)


def test_a_flow_that_waits_for_its_path_lets_others_go_first_and_is_slower_for_it():
    alone_s, alone = 5e6 * 8 / (20e6 * CARRIED), 20e6 * CARRIED * 500 / 1e9
    waits = flow(9, DIRECT[0], wait_s=alone_s)
    # The other has ended when its path is there: one in its own time, one in twice that.
    found = fluid_gbit_s(run([waits, flow(9, DIRECT[0], at_s=1e-9)]))
    assert found == pytest.approx((alone + alone / 2) / 2)


@pytest.mark.parametrize(
    ("merged_s", "verdict"), [(2.4, Verdict.OURS), (2.6, Verdict.DIFFERS)], ids=["near", "behind"]
)
def test_an_extension_may_not_be_far_behind_and_the_fluid_model_is_told_beside(merged_s, verdict):
    row = "000-own-3.8-merged-live"
    taken_s = {"merged": merged_s}
    found = results(row, lambda x: run([flow(taken_s.get(x["service"], 2.0), DIRECT[0])]))
    outcome = ROWS[row].judge(found)
    assert outcome.verdict == verdict
    share = 2e7 / (20e6 * CARRIED)
    assert f"{2 * share / merged_s:.2f} to {share:.2f} of the fluid" in outcome.reason


def test_a_link_is_used_when_it_carries_more_than_a_hundredth():
    assert used(run([flow(1, DIRECT[0])])) == set(DIRECT)


@pytest.mark.parametrize(
    ("row", "busy", "verdict"),
    [
        ("000-own-3.6c-live", DIRECT, Verdict.MATCHES),
        ("000-own-3.6c-live", LINKS, Verdict.DIFFERS),
        ("000-own-3.6d-live", DIRECT, Verdict.DIFFERS),
        ("000-own-3.6d-live", LINKS[:9], Verdict.TREND_HOLDS),
        ("000-own-3.6d-live", LINKS, Verdict.MATCHES),
    ],
)
def test_links_in_use_tell_sh_from_dh(row, busy, verdict):
    found = results(row, lambda _: run([flow(2, DIRECT[0])], busy))
    assert ROWS[row].judge(found).verdict == verdict


@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        ({"best effort": 5}, Verdict.TREND_HOLDS),
        ({}, Verdict.DIFFERS),
        ({"best effort": 5, "dynamic": 1}, Verdict.DIFFERS),
    ],
)
def test_headroom_loses_nothing_of_best_effort(lost, verdict):
    row = "000-own-3.7-loss-live"
    found = results(row, lambda x: run([flow(2, DIRECT[0])], lost=lost.get(x["service"], 0)))
    assert ROWS[row].judge(found).verdict == verdict


def spread(arguments, static_s):
    """Two elephants that take as long as the fluid model says, those of SH at w = 1 `static_s`."""
    is_slow = arguments["service"] == "static" and arguments["w"] == 1.0
    path = [DIRECT[0]] if is_slow else ["C-D.forward"]
    slow = [flow(static_s, *path), flow(static_s, *path)]
    return run(slow if is_slow else [flow(5e6 * 8 / (20e6 * CARRIED), *path)])


def test_dh_gains_where_all_is_between_b_and_c():
    together_s = 2 * 5e6 * 8 / (20e6 * CARRIED)
    row = ROWS["000-own-3.7a-live"]
    found = results(row.id, lambda arguments: spread(arguments, together_s))
    assert row.judge(found).verdict == Verdict.TREND_HOLDS
    found = results(row.id, lambda arguments: spread(arguments, together_s / 3))
    assert row.judge(found).verdict == Verdict.DIFFERS


@pytest.mark.parametrize("row", [row for row in ROWS if row != "000-own-3.6b-live"])
def test_every_row_says_what_the_lab_cannot_be_believed_for(row):
    found = results(row, lambda _: run([flow(2, DIRECT[0])]) | {"flaws": ["it was late"]})
    assert "it was late" in ROWS[row].judge(found).reason


def test_the_default_paths_are_compared_link_by_link():
    row, expected = ROWS["000-own-3.6b-live"], dict(default_paths(six_routers()))
    crossed = {f"pair {at}": [link] * times for at, (link, times) in enumerate(expected.items())}
    assert row.judge([crossed]).verdict == Verdict.MATCHES
    assert row.judge([crossed | {"more": ["A-B"]}]).verdict == Verdict.TREND_HOLDS
    assert row.judge([crossed | {"more": ["A-B"] * 9}]).verdict == Verdict.DIFFERS


@needs_ovs
@pytest.mark.skipif(lab_lacks() is not None, reason=f"no lab: {lab_lacks()}")
def test_a_smallest_run_has_every_byte_of_each_elephant(tmp_path, monkeypatch):
    pytest.importorskip("os_ken")
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    arguments = setting("dynamic", 1.0, 2.0, size={"pareto": [3, 4]})
    found = elephants(**arguments, flows=2, seed=2)
    for one in found["flows"]:
        assert one["end_s"] > one["at_s"]
        for link in one["path"]:
            assert found["carried_bytes"][link] >= one["size_bytes"]
    assert found["seconds"] == max(one["end_s"] for one in found["flows"])
