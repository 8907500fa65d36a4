"""The grid of what is chosen: which fixed setting is best, and which are not tried."""

import pytest

from benches import choice
from weir import kernel_controls
from weir.lab import parse


class Timed:
    """A path on which each way to send takes what it is told."""

    def __init__(self, seconds_of):
        self._seconds_of = seconds_of
        self.tried = []

    def seconds(self, *options):
        self.tried.append(options)
        return self._seconds_of(dict(zip(options[::2], options[1::2], strict=True)))


@pytest.fixture(autouse=True)
def offered(monkeypatch):
    monkeypatch.setattr(kernel_controls, "offered", lambda: ["bbr", "cubic"])


def test_the_best_fixed_setting_is_the_peer_and_so_is_the_plain_one():
    def seconds_of(chosen):
        if chosen.get("--cca") == "auto":
            return 9.0
        if chosen.get("--cca") == "bbr":
            return 6.0 + abs(int(chosen["--streams"]) - 4)
        return 60.0 / int(chosen.get("--streams", 1))

    setting = choice.Setting(100, 65, "0.01 %")
    path = Timed(seconds_of)
    best, plain = choice.rows(setting, path)
    assert best["metric"] == "choice, 100 Mbit/s, 65 ms, 0.01 %: auto"
    assert (best["ours"], best["peer"], best["peer_value"]) == (
        9,
        "best fixed: cubic, 16 streams",
        3.75,
    )
    assert (plain["peer"], plain["peer_value"]) == ("plain", 60)
    # Eight streams take twice the best by then, four more than that.
    assert [words[3] for words in path.tried if "cubic" in words[:2]] == ["16", "8", "4"]


def test_every_setting_of_the_grid_is_a_lab(monkeypatch):
    monkeypatch.delenv("WEIR_BENCH_QUICK", raising=False)
    monkeypatch.delenv("WEIR_BENCH_GRID", raising=False)
    assert {setting.loss for setting in choice.settings()} == set(choice.LOSSES)
    monkeypatch.setenv("WEIR_BENCH_GRID", "1")
    grid = choice.settings()
    assert len(grid) == 3 * 4 * 6
    for setting in grid:
        (link,) = parse(setting.scenario(1), "the path").links
        assert link.forward.rate.bit_per_s == setting.rate_mbit_s * 10**6
    monkeypatch.setenv("WEIR_BENCH_QUICK", "1")
    assert len(choice.settings()) == 2
