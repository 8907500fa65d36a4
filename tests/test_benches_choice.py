"""The grid of what is chosen: which fixed setting is best, and which are not tried."""

from xml.etree import ElementTree

import pytest

from benches import choice, choice_grid
from benches.harness import row
from weir import kernel_controls
from weir.errors import TransferFailed, Unavailable
from weir.lab import parse


class Timed:
    """A path on which each way to send takes what it is told, and is stopped at its limit."""

    def __init__(self, seconds_of, least_s=0.0):
        self._seconds_of = seconds_of
        self._least_s = least_s
        self.tried = []
        self.share = 0.0

    def least_s(self):
        return self._least_s

    def seconds(self, *options, limit_s=300.0):
        self.tried.append(options)
        took_s = self._seconds_of(dict(zip(options[::2], options[1::2], strict=True)))
        if took_s > limit_s:
            self.share = limit_s / took_s
            raise Unavailable("the file took too long")
        return took_s


@pytest.fixture(autouse=True)
def offered(monkeypatch):
    monkeypatch.setattr(kernel_controls, "offered", lambda: ["bbr", "cubic"])


def test_the_best_fixed_setting_is_the_peer():
    def seconds_of(chosen):
        if chosen["--cca"] == "auto":
            return 9.0
        if chosen["--cca"] == "bbr":
            return 6.0 + abs(int(chosen["--streams"]) - 4)
        return 60.0 / int(chosen["--streams"])

    setting = choice.Setting(100, 65, "0.01 %")
    path = Timed(seconds_of)
    (best,) = choice.rows(setting, path)
    assert best["metric"] == "choice, 100 Mbit/s, 65 ms, 0.01 %: auto"
    assert (best["ours"], best["peer"], best["peer_value"]) == (
        9,
        "best fixed: cubic, 16 streams",
        3.75,
    )
    assert [words[3] for words in path.tried if "bbr" in words[:2]] == ["16", "8", "4", "2", "1"]
    # When the best time is over eight streams have half of the file, four a quarter.
    assert [words[3] for words in path.tried if "cubic" in words[:2]] == ["16", "8", "4"]


def test_nothing_is_tried_where_no_setting_can_be_a_tenth_faster():
    setting = choice.Setting(100, 65, "no loss")
    path = Timed(lambda _: 8.8, least_s=8.0)
    (found,) = choice.rows(setting, path)
    assert (found["ours"], found["peer"], found["peer_value"]) == (8.8, choice.LEAST, 8.0)
    assert len(path.tried) == 1
    path = Timed(lambda _: 8.81, least_s=8.0)
    (found,) = choice.rows(setting, path)
    assert found["peer"].startswith("best fixed: ")


def test_the_least_time_is_that_of_one_byte_and_of_full_packets(tmp_path, monkeypatch):
    setting = choice.Setting(12, 65, "no loss")
    # 1 000 packets of 1 500 bytes a second, each with 1 448 of the file.
    path = choice._Path(setting, 1, tmp_path, 1_448_000)
    took_s = {1: 0.25}
    monkeypatch.setattr(path, "_seconds", lambda source, _: took_s[source.stat().st_size])
    assert path.least_s() == pytest.approx(1.25)


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


def test_a_file_of_a_pair_takes_plain_sending_six_seconds_at_most(monkeypatch):
    monkeypatch.setenv("WEIR_BENCH_GRID", "1")
    for setting in choice.settings():
        at_most = 6 * setting.rate_mbit_s * 1e6 / 8
        count = choice.pair_bytes(setting)
        assert 0 < count <= at_most
        if setting.loss == "no loss":
            assert count == at_most
    # RFC 9438, section 5.1: 187 packets in flight at 0.1 s and a loss in 10^4 packets.
    wide = choice.Setting(10_000, 100, "0.01 %")
    assert choice.pair_bytes(wide) == pytest.approx(6 * 187 * 1448 / 0.1, rel=0.01)


def test_pairs_take_turns_and_one_that_fails_does_not_end_them(monkeypatch, capsys):
    sent = []

    class Path:
        def __init__(self, setting, seed, _folder, count):
            self.setting, self.seed = setting, seed
            assert count == choice.pair_bytes(setting)

        def seconds(self, *options):
            if self.setting.rtt_ms == 65:
                raise TransferFailed("it broke off")
            way = options[1]
            sent.append((self.setting.rtt_ms, way, self.seed))
            return 5.2 + self.seed / 1e5 if way == "auto" and self.setting.rtt_ms == 30 else 5.0

    monkeypatch.setattr(choice, "_Path", Path)
    grid = [choice.Setting(50, rtt_ms, "no loss") for rtt_ms in (5, 30, 65, 150)]
    *table, last = choice.pairs(grid)
    assert sent == [
        (5, "cubic", 1),
        (5, "auto", 1),
        (30, "auto", 2),
        (30, "cubic", 2),
        (30, "cubic", 1002),
        (30, "auto", 1002),
        (30, "auto", 2002),
        (30, "cubic", 2002),
        (150, "auto", 4),
        (150, "cubic", 4),
    ]
    assert [one["ratio"] for one in table] == pytest.approx([1.0, 5.21002 / 5, 1.0])
    assert [len(one["runs"]) for one in table] == [1, 3, 1]
    assert (last["metric"], last["ours"]) == (
        "choice: settings of 3 where auto takes over 1.02 of plain's time",
        1,
    )
    assert "50 Mbit/s, 65 ms, no loss: it broke off" in capsys.readouterr().err
    monkeypatch.setenv("WEIR_BENCH_PAIRS", "50")
    monkeypatch.setattr(choice, "_grid", lambda rates: [list(rates)])
    monkeypatch.setattr(choice, "pairs", lambda grid: grid)
    assert choice.run() == [[50]]
    monkeypatch.delenv("WEIR_BENCH_PAIRS")
    monkeypatch.setenv("WEIR_BENCH_GRID", "50,200")
    assert choice.settings() == [[50, 200]]


def test_the_picture_has_a_cell_for_each_pair_and_its_colour():
    def paired(metric, auto_s):
        return row(f"choice, {metric}: auto", "s", auto_s, "plain", 10.0, 1)

    found = choice_grid.shares(
        [
            paired("50 Mbit/s, 5 ms, no loss", 10.1),
            paired("50 Mbit/s, 5 ms, 1 %", 2.0),
            paired("200 Mbit/s, 30 ms, 0.1 % in bursts of 10", 10.7),
            row("choice, 50 Mbit/s, 5 ms, 1 %: auto", "s", 2.0, "best fixed: bbr", 2.0, 1),
            row("choice: settings of 3 where auto takes over", "settings", 1, None, None, 1),
        ]
    )
    assert found == {
        (50, 5.0, "no loss"): 1.01,
        (50, 5.0, "1 %"): 0.2,
        (200, 30.0, "0.1 % in bursts of 10"): pytest.approx(1.07),
    }
    drawn = ElementTree.fromstring(choice_grid.picture(found))
    shapes = [(one.tag.rpartition("}")[2], one) for one in drawn]
    colours = [one.get("fill") for tag, one in shapes if tag == "rect"]
    assert colours == ["#fff", "#f2f2f2", "#0072b2", "#d55e00"]
    texts = [one.text for tag, one in shapes if tag == "text"]
    assert [x for x in texts if x.count(".") == 1 and x[0] in "01" and "%" not in x] == [
        "1.01",
        "0.20",
        "1.07",
    ]
