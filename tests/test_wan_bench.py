"""The benchmark over long paths: its arithmetic on made-up runs, and one cell in a real lab."""

import pytest
from rig import lab_lacks

from benches import harness, wan
from benches.peers.gridftp import GridFtp
from benches.peers.mover import ONE, Job
from benches.peers.weir import WeirSend
from benches.peers.xrootd import Xrdcp
from benches.wan import FULL, OURS, PATHS, Run, Sizes, session
from weir.errors import TransferFailed
from weir.lab import parse

PATH = "500 Mbit/s, 65 ms, 0.01 % loss"
CLEAN = "1 Gbit/s, 10 ms"


def run(mover, mbit_per_s, outcome="intact"):
    return Run("one", PATH, mover, mbit_per_s, outcome)


def test_what_is_chosen_is_compared_by_medians_and_marks_say_what_is_wrong():
    runs = [
        *(run(OURS.name, speed) for speed in (400.0, 420.0, 100.0)),
        *(run("weir send --cca cubic", speed) for speed in (40.0, 50.0, 90.0)),
        *(run("rsync daemon", 20.0, end) for end in ("stopped", "intact", "intact")),
        *(run("xrdcp", 0.0, "failed: it ended") for _ in range(3)),
        *(run("GridFTP", 100.0, "one: -7 bytes") for _ in range(3)),
    ]
    rows = harness.validate(wan.rows(runs, FULL), "wan")
    assert {row["metric"] for row in rows} == {f"one file of 1,000 MB, {PATH}"}
    assert {row["peer"]: row["ratio"] for row in rows} == {
        "weir send --cca cubic": 8.0,
        "rsync daemon (stopped at the limit)": 20.0,
        "xrdcp (failed)": None,
        "GridFTP (not intact)": 4.0,
    }


def test_weir_losing_a_byte_fails_the_benchmark():
    runs = [run(OURS.name, 400.0, "one: -1 bytes"), run("weir send --cca cubic", 40.0)]
    with pytest.raises(TransferFailed, match="-1 bytes"):
        wan.rows(runs, FULL)


@pytest.mark.parametrize("path", PATHS)
def test_each_path_is_as_its_name_says(path):
    lab = parse(wan.scenario(path))
    link = next(one for one in lab.links if one.name == "path")
    rate, round_trip_ms, loss, is_shared = PATHS[path]
    assert path.startswith(f"{rate}, {round_trip_ms} ms")
    assert link.forward.rate.bit_per_s == int(rate.split()[0]) * (10**9 if "G" in rate else 10**6)
    assert link.forward.delay.ns + link.backward.delay.ns == round_trip_ms * 10**6
    assert (link.forward.loss is not None) == bool(loss)
    assert sum(one.streams for one in lab.traffic) == (4 if is_shared else 0)
    assert any(one.name == "edge" and one.ends[0] == "near" for one in lab.links) == is_shared


def test_movers_take_the_connections_that_their_names_say(tmp_path):
    job = Job(ONE, tmp_path, tmp_path, "10.77.0.2", 1)
    xrdcp, gridftp = Xrdcp(streams=8), GridFtp(parallel=8)
    assert xrdcp.name == "xrdcp -S 8" and gridftp.name == "GridFTP -p 8"
    assert " -S 8 " in " ".join(xrdcp.client(job).argv)
    assert " -p 8 " in " ".join(gridftp.client(job).argv)


@pytest.mark.skipif(lab_lacks() is not None, reason=f"no lab: {lab_lacks()}")
def test_a_cell_is_measured_and_compared_and_what_takes_too_long_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    sizes = Sizes(300_000, 3, 3, limit_s=60.0)
    runs = session(sizes, [WeirSend()], [CLEAN], ["one", "small"], 1)
    assert [one.outcome for one in runs] == ["intact", "intact"]
    assert all(0 < one.mbit_per_s < 1_000 for one in runs)
    slow = WeirSend("--rate", "1 Mbit/s")
    (stopped,) = session(Sizes(3_000_000, 3, 3, limit_s=2.0), [slow], [CLEAN], ["one"], 1)
    assert stopped.outcome == "stopped" and stopped.mbit_per_s < 10
