"""`weir demo fabric` without ibsim: the worked example and the victim."""

import json

from studies.demonstration import fabric
from studies.demonstration.fabric import StalledFabric
from studies.rig import ibsim
from weir.cli import main


def test_the_demonstration_finds_the_victim_and_says_what_it_left_out(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(ibsim, "lacking", lambda: "not installed: ibsim-utils (Debian)")
    assert main(["demo", "fabric", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "left out: not installed: ibsim-utils" in printed
    figures = json.loads((tmp_path / "fabric.json").read_text())
    assert round(figures["fitf_golden"], 3) == 1.179
    # A third of 8 Gbit/s (000-spec 2.9), and all of it before and after.
    assert abs(figures["victim_during_bps"] / (8e9 / 3) - 1) < 0.01
    assert min(figures["victim_before_bps"], figures["victim_after_bps"]) > 7.9e9
    assert abs(figures["victim_port_waited_share"] - 1 / 3) < 0.01
    assert figures["sweep_s"] is None
    assert figures["left_out"] == "not installed: ibsim-utils (Debian)"
    assert (tmp_path / "fabric.svg").read_text().startswith("<svg")


def test_what_is_left_out_is_told_in_json_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ibsim, "lacking", lambda: "not installed: ibsim-utils (Debian)")
    assert main(["demo", "fabric", "--out", str(tmp_path), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    states = [line["state"] for line in lines if "part" in line]
    assert states == ["done", "done", "left out: not installed: ibsim-utils (Debian)"]


def test_what_does_not_show_its_point_does_not_hold():
    shown = StalledFabric(1)
    assert not shown.holds()
    shown._golden = 1.179
    shown._victim = fabric._Victim([], [], 8e9, 2.7e9, 0.33, 8e9)
    assert shown.holds()
    shown._asked = fabric._Asked(10, 0.1, 0.2, 0.3, 5.0, 1.0, agree=False)
    assert not shown.holds()
