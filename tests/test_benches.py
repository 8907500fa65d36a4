"""The benchmark harness: shape of the results, refusals, what it keeps."""

import json
import types
from pathlib import Path

import pytest

from benches import harness, report
from benches.compare import difference
from benches.mover import FULL, Run, Sizes
from benches.mover import rows as mover_rows
from benches.mover_targets import targets
from benches.peers.gridftp import GridFtp
from benches.peers.iperf3 import Iperf3File
from benches.peers.mover import Protection
from benches.peers.ssh import Scp
from benches.peers.weir import Weir
from benches.testbed import BARE
from weir.errors import BadInput, TransferFailed


def good_row(**changes):
    return harness.row("copy, throughput", "Mbit/s", 20.0, "tortoise", 10.0, 3) | changes


def test_a_row_carries_the_ratio_of_ours_to_the_peer():
    assert good_row()["ratio"] == 2.0
    assert harness.row("m", "u", 1.0, None, None, 1)["ratio"] is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"metric": ""}, "metric"),
        ({"unit": None}, "unit"),
        ({"ours": "fast"}, "ours"),
        ({"ours": float("nan")}, "ours"),
        ({"ours": True}, "ours"),
        ({"peer": ""}, "peer"),
        ({"peer": None}, "peer_value"),
        ({"peer_value": None}, "peer_value"),
        ({"ratio": 3.0}, "ratio"),
        ({"runs": 0}, "runs"),
        ({"runs": []}, "runs"),
        ({"runs": ["a"]}, "runs"),
        ({"surplus": 1}, "surplus"),
    ],
)
def test_a_row_of_the_wrong_shape_is_refused_by_name(changes, named):
    with pytest.raises(BadInput, match=rf"benches\.demo: row 1: .*{named}"):
        harness.validate([good_row(), good_row(**changes)], "demo")


def test_a_missing_key_and_an_empty_result_are_refused():
    row = good_row()
    del row["runs"]
    with pytest.raises(BadInput, match="keys are"):
        harness.validate([row], "demo")
    with pytest.raises(BadInput, match="non-empty"):
        harness.validate([], "demo")


def test_running_a_benchmark_keeps_rows_and_machine_notes(tmp_path, monkeypatch):
    rows = [good_row(), harness.row("alone", "ms", 4.0, None, None, [3.0, 4.0, 5.0])]
    peers = {"packages": {"tortoise": "1.0-2"}}
    module = types.SimpleNamespace(run=lambda: rows, notes=lambda: peers)
    monkeypatch.setattr(harness.importlib, "import_module", lambda name: module)
    (tmp_path / "machine.json").write_text('{"earlier": {"cores": 64}}')
    harness.run_one("demo", tmp_path)
    assert json.loads((tmp_path / "demo.json").read_text()) == rows
    notes = json.loads((tmp_path / "machine.json").read_text())
    assert notes["earlier"] == {"cores": 64}
    assert notes["demo"]["cores"] >= 1
    assert notes["demo"]["kernel"]
    assert len(notes["demo"]["load_before"]) == 2
    assert notes["demo"]["packages"] == {"tortoise": "1.0-2"}


def test_an_unknown_benchmark_is_one_message_and_exit_2(capsys):
    assert harness.main(["no-such"]) == 2
    assert "no benchmark 'no-such'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (18234.4, "18,234"), (0.8312, "0.831"), (12.0, "12")]
)
def test_figures_are_printed_with_three_digits(value, text):
    assert harness.figure(value) == text


def test_a_received_tree_is_compared_by_names_lengths_and_bytes(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    for top in (source, target):
        (top / "folder").mkdir(parents=True)
        (top / "folder" / "a").write_bytes(b"same bytes")
        (top / "empty").write_bytes(b"")
    assert difference(source, target) is None
    (target / "folder" / "a").write_bytes(b"same bytfs")
    assert "a: differs" in difference(source, target)
    (target / "folder" / "a").write_bytes(b"same byte")
    assert difference(source, target) == "a: -1 bytes"
    (target / "folder" / "a").unlink()
    (target / "b").touch()
    (target / "c").touch()
    assert difference(source, target) == "1 files missing, 2 files too many"
    assert difference(source / "empty", target / "nowhere") == "nowhere: not there"


def mover_run(mover, wall_s, cpu_s, lost=None):
    return Run("one", BARE, mover.name, 10**9, wall_s, cpu_s / 4, cpu_s * 3 / 4, lost)


def test_weir_is_compared_by_medians_with_movers_of_its_kind():
    weir, gridftp, scp = Weir(Protection.NONE), GridFtp(), Scp()
    chosen = [weir, gridftp, scp, iperf3 := Iperf3File()]
    runs = [
        *(mover_run(weir, wall_s, 2.0) for wall_s in (1.0, 0.5, 9.0)),
        *(mover_run(gridftp, 2.0, cpu_s) for cpu_s in (4.0, 1.0, 9.0)),
        mover_run(scp, 4.0, 8.0),
        *(mover_run(iperf3, 0.5, 1.0, lost) for lost in (None, "one: -5 bytes")),
    ]
    rows = harness.validate(mover_rows(runs, chosen, Sizes(2**30, 1)), "mover")
    assert {row["metric"] for row in rows} == {"one file of 1 GiB, bare veth, hashing off"}
    found = {(row["peer"], row["unit"]): row["ratio"] for row in rows}
    assert found == {
        ("GridFTP", "Mbit/s"): pytest.approx(2.0),
        ("GridFTP", "CPU s/GB"): pytest.approx(0.5),
        ("iperf3 -F (not intact)", "Mbit/s"): pytest.approx(0.5),
        ("iperf3 -F (not intact)", "CPU s/GB"): pytest.approx(2.0),
    }


def test_encrypting_weir_is_compared_with_movers_that_encrypt():
    weir = Weir(Protection.ENCRYPTED)
    chosen = [weir, GridFtp(), Scp()]
    runs = [mover_run(mover, 1.0, 1.0) for mover in chosen]
    assert {row["peer"] for row in mover_rows(runs, chosen, FULL)} == {"scp"}


def test_weir_losing_a_byte_fails_the_benchmark():
    weir = Weir(Protection.CHECKSUM)
    runs = [mover_run(weir, 1.0, 1.0, "one: -1 bytes"), mover_run(GridFtp(), 1.0, 1.0)]
    with pytest.raises(TransferFailed, match="BLAKE3 lost bytes"):
        mover_rows(runs, [weir, GridFtp()], FULL)


def test_the_page_holds_a_line_for_each_peer_and_keeps_its_other_text(tmp_path):
    rows = [
        harness.row("copy", "Mbit/s", 20.0, "tortoise", 10.0, 3),
        harness.row("copy", "s/GB", 1.0, "tortoise", 4.0, 3),
        harness.row("copy", "Mbit/s", 20.0, "hare", 5.0, 3),
        harness.row("answers", "1/s", 1234.0, None, None, [1234.0]),
    ]
    notes = harness.machine_notes() | {"quick": False, "load_before": [1, 2], "load_after": [3, 4]}
    notes["packages"] = {"tortoise": "1.0-2"}
    (tmp_path / "demo.json").write_text(json.dumps(rows))
    (tmp_path / "machine.json").write_text(json.dumps({"demo": notes}))
    report.keep("demo", tmp_path, tmp_path / "kept")
    text = "before\n<!-- results: demo -->\nold\n<!-- end of results -->\nafter\n"
    page = report.page(text, tmp_path / "kept")
    assert page.startswith("before\n") and page.endswith("after\n") and "old" not in page
    assert "**copy**: 20 Mbit/s, 1 s/GB (median of 3)" in page
    assert "| tortoise | 10 | 2 | 4 | 0.25 |" in page
    assert "| hare | 5 | 4 |  |  |" in page
    assert "| answers | 1/s | 1,234 | 1 |" in page
    assert "load before and after 1 and 3. Peers: tortoise 1.0-2.\n" in page
    assert report.page(page, tmp_path / "kept") == page


def test_a_quick_result_is_not_kept(tmp_path):
    (tmp_path / "demo.json").write_text(json.dumps([good_row()]))
    (tmp_path / "machine.json").write_text(json.dumps({"demo": {"quick": True}}))
    with pytest.raises(BadInput, match="quick"):
        report.keep("demo", tmp_path, tmp_path)
    with pytest.raises(BadInput, match="make bench NAME=other"):
        report.keep("other", tmp_path, tmp_path)


def test_the_page_says_what_the_kept_results_say():
    page = Path(__file__).parent.parent / report.PAGE
    assert page.read_text() == report.page(page.read_text(), page.parent / "performance")


def target_rows(off_ratio, cost_ratio):
    bare, shaped = "one file of 2 GiB, bare veth, ", "one file of 2 GiB, 1 Gbit/s, "
    return [
        harness.row(f"{bare}hashing off", "Mbit/s", off_ratio * 10, "GridFTP", 10.0, 3),
        harness.row(f"{bare}hashing off", "Mbit/s", off_ratio * 10, "nuttcp", 5.0, 3),
        harness.row(f"{bare}hashing off", "Mbit/s", 1.0, "iperf3 -F (not intact)", 99.0, 3),
        harness.row(f"{shaped}BLAKE3", "CPU s/GB", cost_ratio, "xrdcp", 1.0, 3),
        harness.row(f"{shaped}BLAKE3", "CPU s/GB", 50.0, "GridFTP", 1.0, 3),
    ]


@pytest.mark.parametrize(("off_ratio", "cost_ratio", "holds"), [(0.9, 0.9, True), (0.8, 1, False)])
def test_targets_are_decided_by_the_worst_intact_peer_of_the_kind(off_ratio, cost_ratio, holds):
    rows = target_rows(off_ratio, cost_ratio)
    decided = {target.words: target.worst(rows) for target in targets()}
    found = [words for words, row in decided.items() if row]
    assert [words.split(":")[0] for words in found] == ["hashing off", "BLAKE3"]
    assert [decided[words]["peer"] for words in found] == ["GridFTP", "xrdcp"]
    by_words = {target.words: target for target in targets()}
    assert [by_words[words].holds(decided[words]) for words in found] == [holds, holds]
    table = report.mover_targets_table(rows)
    assert table.count("**no**") == (0 if holds else 2)
