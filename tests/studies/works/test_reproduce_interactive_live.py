"""The live row of figures 4.8 and 4.9: the same queues as simulated, and its judge."""

import pytest

from studies.reproduction.catalogue import ROWS
from studies.works.row import Verdict
from studies.works.w004 import ch4_interactive, ch4_interactive_live
from weir import Time
from weir.lab import queues
from weir.sim.config import simulation_config

ROW = next(row for row in ROWS if row.id == "004-own-4.3-live")
CBR_ROW = next(row for row in ROWS if row.id == "004-own-4.3.2-live")
SHARES = {"RED": 0.1, "PIE": 0.2, "FQ-CoDel": 1.0, "DualQ": 1.5, "DualPI2": 0.5}


@pytest.mark.parametrize("name", ch4_interactive_live.QUEUES)
def test_the_queues_are_those_of_the_simulated_rows(name, monkeypatch):
    made = {}
    monkeypatch.setattr(
        ch4_interactive_live,
        "beside_simulated",
        lambda scenarios, facts, at_once: made.update(scenarios),
    )
    ch4_interactive_live.through_each_queue(flows=2, seconds=20, seed=1)
    config = simulation_config(made[name], Time("20 s"))
    (line,) = (link for link in config["links"] if link["name"] == "line")
    assert line["forward"]["queue"] == queues.config(ch4_interactive.QUEUES[name])


def made(quick, p99_ms=1.0, **shares):
    """What the points would give."""
    facts = {
        queue: {
            "live": {
                "share": shares.get(queue.replace("-", ""), share),
                "mbit_s": 38.6,
                "p99_ms": {"l4s": p99_ms, "classic": 20.0},
            },
            "simulated": {"share": share, "mbit_s": 38.6, "p99_ms": {"l4s": 1.0}},
            "flaws": [],
        }
        for queue, share in SHARES.items()
    }
    return [facts for _ in ROW.points(quick)]


@pytest.mark.parametrize("quick", [True, False])
def test_the_trend_of_the_figures_holds(quick):
    outcome = ROW.judge(made(quick))
    assert outcome.verdict == Verdict.TREND_HOLDS
    counts = "2" if quick else "2 and 5"
    each = "10%" if quick else "10%, 10%"
    assert f"with {counts} of each: RED {each} (simulated {each})" in outcome.ours


@pytest.mark.parametrize(
    "wrong",
    [{"RED": 0.3}, {"PIE": 0.3}, {"FQCoDel": 0.8}, {"DualQ": 3.0}, {"DualQ": 0.3}, {"p99_ms": 2.5}],
    ids=str,
)
def test_what_the_figures_exclude_differs(wrong):
    assert ROW.judge(made(False, **wrong)).verdict == Verdict.DIFFERS


def test_a_late_emulator_is_told():
    late = made(True)
    late[0]["PIE"] = late[0]["PIE"] | {"flaws": ["the emulator was late"]}
    assert "PIE: the emulator was late" in ROW.judge(late).reason


def beside_cbr(*, fq_codel=1.0, dual_q=1.0):
    """What the points would give: of the right rate of UDP, and of what is to be left."""
    results = []
    for point in CBR_ROW.points(False):
        flows = 2 * point.arguments["flows"]
        equal = min(20, 40 / (flows + 1))
        facts = {}
        for queue in ch4_interactive.CBR_QUEUES:
            live = {"cbr": 20.0, "left": 1.0, "share": 1.0}
            if queue == "FQ-CoDel":
                live |= {"cbr": fq_codel * equal, "left": 1.5}
            if queue == "DualQ":
                live["left"] = dual_q
            facts |= {
                f"{queue}, {kind}": {"live": live, "simulated": live, "flaws": ["it was late"]}
                for kind in ("ECT", "not ECT")
            }
        results.append(facts)
    return results


@pytest.mark.parametrize(
    ("wrong", "verdict"),
    [
        ({}, Verdict.TREND_HOLDS),
        ({"fq_codel": 1.2}, Verdict.DIFFERS),
        ({"fq_codel": 0.8}, Verdict.DIFFERS),
        ({"dual_q": 1.2}, Verdict.DIFFERS),
        ({"dual_q": 0.8}, Verdict.DIFFERS),
    ],
)
def test_udp_is_held_to_its_share_by_fq_codel_alone(wrong, verdict):
    outcome = CBR_ROW.judge(beside_cbr(**wrong))
    assert outcome.verdict == verdict
    assert "DualQ, ECT: it was late" in outcome.reason


def test_of_udp_packets_of_ip_count_and_of_tcp_what_it_delivers():
    flows = [
        {"name": "dctcp", "goodput_bps": 10e6},
        {"name": "cubic", "goodput_bps": 9.306e6},
        # 20 Mbit/s of 1500 bytes for 3 s.
        {"name": "cbr", "goodput_bps": 0.0, "received_packets": 5000},
    ]
    facts = ch4_interactive_live._cbr_facts(3, {"flows": flows, "links": []})
    assert facts["cbr"] == pytest.approx(20)
    assert facts["left"] == pytest.approx(1, abs=1e-3)
    assert facts["share"] == pytest.approx(0.9306)
