"""`weir demo desktop`: what is made of measured pictures, and what it says when it cannot run."""

import pytest

from studies.demonstration.desktop import LOSSES, Desktop
from studies.rig.desktop import lossy
from studies.rig.desktop.lossy import Measured
from weir.cli import main


def measured(dut, screen, server=0.02):
    return Measured("i", dut, dut, dut, server, server, screen, 0.0, 1, 10**6, 700, 10**6, "")


def shown(times, error=0.001, server=0.02):
    demo = Desktop(seed=1, updates=2)
    for at, one in zip(demo._all, times, strict=True):
        at.found = [measured(one + error, one, server)] * 2
        at.done = 2
    return demo


RISING = (0.1, 0.12, 0.2, 0.3, 0.5)


def test_figures_are_growth_and_distance():
    demo = shown(RISING)
    figures = demo.figures()
    assert figures["updates"] == 2 * len(LOSSES)
    assert figures["dut_error_p95_ms"] == pytest.approx(1)
    assert figures["screen_growth_percent"] == pytest.approx(400)
    assert figures["dut_growth_percent"] == pytest.approx(396.0)
    assert figures["server_timer_growth_percent"] == 0
    assert demo.holds()
    assert "400.0 %" in str(next(iter(demo.notes())))
    assert "VD-DUT" in demo.picture()
    assert len(demo.facts()) == 2 * len(LOSSES)


@pytest.mark.parametrize(
    ("times", "error"), [((0.1,) * 5, 0.001), (RISING, 0.03)], ids=["flat", "far off"]
)
def test_it_does_not_hold_where_loss_changes_nothing_or_packets_are_wrong(times, error):
    assert not shown(times, error).holds()


def test_it_does_not_hold_where_the_servers_timer_sees_the_loss():
    demo = shown(RISING)
    demo._all[-1].found = [measured(0.5, 0.5, server=0.2)]
    assert demo.figures()["server_timer_growth_percent"] == pytest.approx(900)
    assert not demo.holds()


def test_nothing_measured_yet_is_no_figure():
    demo = Desktop(seed=1)
    assert demo.figures()["dut_error_p95_ms"] is None
    assert not demo.holds()
    demo.table()


def test_what_is_missing_is_named_with_the_way_to_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(lossy.shutil, "which", lambda program: None)
    assert main(["demo", "desktop", "--out", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert "apt-get install tigervnc-standalone-server" in said
