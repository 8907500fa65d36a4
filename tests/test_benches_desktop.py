"""The benchmark of desktops: what it counts, how it goes on where it was stopped, how it ends."""

import io
import json
import subprocess

import pytest
from rich.console import Console
from rig import lab_lacks

from benches import desktop, harness
from benches.desktop import LOSSES, Sizes
from studies.rig.desktop import lossy
from studies.rig.desktop.lossy import Line
from weir.errors import BadInput, Unavailable, Unsupported

SMALL = Sizes(("vnc", "rtp"), updates=20, piece=3)


def update(late_s=0.0, dut=0.3, screen=0.3, patient=None):
    """As `lossy` measures it; where both are told, the screen is late by so much."""
    shown = None if screen is None else screen + late_s
    later = dut if patient is None else patient
    return {"fresh_dut": dut, "patient_dut": later, "screen": shown, "waited": 0.001}


def made(protocol, percent, updates, failed="", load=(1.0, 3.0)):
    facts = {"protocol": protocol, "percent": percent, "updates": updates, "failed": failed}
    return {**facts, "load": list(load), "took_s": 1.0, "setup_s": 0.5, "commit": "abc"}


@pytest.fixture
def carried(monkeypatch):
    """Pieces are made up: each has the updates that were asked for."""
    asked = []

    def run(command, **options):
        asking = json.loads(command[-1])
        asked.append(asking)
        updates = [update() for _ in range(asking["asked"])]
        told = json.dumps({"updates": updates, "setup_s": 5.0})
        return subprocess.CompletedProcess(command, 0, told, "")

    monkeypatch.setattr(desktop.subprocess, "run", run)
    monkeypatch.setattr(desktop.lossy, "missing", lambda protocol: None)
    monkeypatch.setattr(desktop, "machine_notes", lambda: {"commit": "abc"})
    return asked


def test_shares_are_of_all_updates_and_distances_of_those_that_both_tell():
    """Ten: six within 5 ms, two more within a refresh, one beyond, one never shown."""
    late_s = (0.0, 0.001, -0.002, 0.003, 0.004, -0.0049, 0.01, -0.016, 0.4)
    pieces = [
        made("vnc", 0.0, [update(one) for one in late_s[:4]]),
        made("vnc", 0.0, [*map(update, late_s[4:]), update(screen=None)], load=(5.0, 7.0)),
    ]
    found = desktop.nearness(pieces)
    assert (found.updates, found.untold) == (10, 1)
    assert (found.near, found.within) == (0.6, 0.8)
    assert found.patient == 0.8
    assert found.median_s == pytest.approx(0.004)
    assert 0.016 < found.most_s < 0.4
    assert found.load == 4.0
    assert desktop.nearness([made("vnc", 0.0, [update(dut=None)])]).within == 0
    # A pause longer than GAP had cut it.
    cut = desktop.nearness([made("vnc", 10.0, [update(3.0, patient=3.3), update(0.4)])])
    assert (cut.within, cut.patient) == (0.0, 0.5)


def test_a_session_goes_on_where_it_was_stopped(carried, tmp_path):
    path = tmp_path / "pieces.jsonl"
    for one in (made("vnc", 3.0, [update()] * 3), made("rdp", 3.0, [update()] * 9)):
        desktop.append(path, one)
    with path.open("a") as file:
        file.write('{"protocol": "vnc", "perc')  # whoever wrote it was killed
    pieces = desktop.session(path, SMALL)
    # Four updates of each at each loss: three and one, and of what was begun only the rest.
    assert len(carried) == 2 * 2 * len(LOSSES) - 1
    assert {(one["protocol"], one["percent"], one["seed"]) for one in carried} == {
        *((p, loss, seed) for p in ("vnc", "rtp") for loss in LOSSES for seed in (1, 2))
    } - {("vnc", 3.0, 1)}
    assert sum(len(one["updates"]) for one in pieces) == 40
    assert "rdp" not in {one["protocol"] for one in pieces}, "not asked for"
    assert len(desktop.read(path)) == 2 + len(carried), "what was cut is gone, all else is kept"
    carried.clear()
    assert desktop.session(path, SMALL) == pieces
    assert carried == []


def test_all_losses_and_protocols_come_on_alike(carried, tmp_path):
    desktop.session(tmp_path / "pieces.jsonl", SMALL)
    first = [(one["protocol"], one["percent"]) for one in carried[: 2 * len(LOSSES)]]
    assert sorted(first) == sorted(SMALL.cells())


def test_what_fails_again_and_again_is_given_up_and_is_no_success(carried, monkeypatch, tmp_path):
    run = desktop.subprocess.run

    def fails(command, **options):
        if json.loads(command[-1])["protocol"] == "rtp":
            raise subprocess.TimeoutExpired(command, options["timeout"])
        return run(command, **options)

    monkeypatch.setattr(desktop.subprocess, "run", fails)
    path = tmp_path / "pieces.jsonl"
    with pytest.raises(Unavailable, match=r"5 of 10 were given up: rtp at .* within 1080 s"):
        desktop.session(path, SMALL)
    pieces = desktop.read(path)
    assert sum(bool(one["failed"]) for one in pieces) == 3 * len(LOSSES)
    assert sum(len(one["updates"]) for one in pieces) == 20, "the other protocol is measured"


def test_a_program_that_is_missing_is_told_first(monkeypatch, tmp_path):
    monkeypatch.setattr(desktop.lossy, "missing", lambda protocol: f"no {protocol}")
    with pytest.raises(Unsupported, match="no vnc"):
        desktop.session(tmp_path / "pieces.jsonl", SMALL)


def test_the_environment_says_how_much(monkeypatch):
    assert desktop.sizes() == Sizes()
    assert len(Sizes().cells()) * Sizes().each() == 3000
    monkeypatch.setenv("WEIR_BENCH_DESKTOP", "rtp,vnc")
    monkeypatch.setenv("WEIR_BENCH_DESKTOP_UPDATES", "50")
    monkeypatch.setenv("WEIR_BENCH_DESKTOP_LIMIT", "60")
    assert desktop.sizes() == Sizes(("rtp", "vnc"), 50, 67, 60)
    monkeypatch.setenv("WEIR_BENCH_DESKTOP_PIECE", "0")
    with pytest.raises(BadInput, match="PIECE=0"):
        desktop.sizes()
    monkeypatch.setenv("WEIR_BENCH_DESKTOP", "pcoip")
    with pytest.raises(BadInput, match="'pcoip' is none of vnc, rdp, rtp"):
        desktop.sizes()


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "pieces.jsonl"
    path.write_text("{}\n")
    with pytest.raises(BadInput, match="line 1 is no piece"):
        desktop.read(path)
    assert desktop.read(tmp_path / "none.jsonl") == []


def test_the_table_and_the_rows_have_each_loss_and_all_together():
    pieces = [
        made("vnc", 0.0, [update()] * 3),
        made("vnc", 10.0, [update(0.01)]),
        made("rtp", 0.0, [update(dut=None)]),
        made("rdp", 0.0, [], "it broke off"),
    ]
    found = {one["metric"]: one for one in harness.validate(desktop.rows(pieces), "desktop")}
    assert found["VNC, all: updates within 5 ms of the pixels"]["ours"] == 75
    assert found["VNC, 10 % loss: updates within a refresh of the pixels"]["ours"] == 100
    assert found["RTP, all: updates within a refresh of the pixels"]["ours"] == 0
    assert not [one for one in found if one.startswith(("RDP", "RTP, all: packets"))]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(desktop.table(pieces))
    lines = [line.split("│") for line in console.export_text().splitlines() if "│" in line]
    assert [[cell.strip() for cell in line[1:5]] for line in lines] == [
        ["vnc", "0 %", "3", ""],
        ["vnc", "10 %", "1", ""],
        ["vnc", "all", "4", ""],
        ["rtp", "0 %", "1", "1"],
        ["rtp", "all", "1", "1"],
    ]


@pytest.mark.alone
@pytest.mark.skipif(lab_lacks() is not None, reason=str(lab_lacks()))
@pytest.mark.skipif(lossy.missing() is not None, reason=str(lossy.missing()))
def test_no_update_begins_behind_the_limit():
    done = []
    found = lossy.carry_out("iii", Line(), 1, done.append, name="bench-desktop", limit_s=0.0)
    assert (len(found), done) == (1, ["i"])
    assert abs(found[0].error_s) < 1 / 60
