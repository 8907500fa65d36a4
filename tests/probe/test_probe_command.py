"""`weir probe` as a person runs it: files, figures, curve, and what it says to bad input."""

import csv
import json
import os
import re
import resource
import signal
import statistics
import subprocess

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rig import WEIR

from weir import _core
from weir.cli import main
from weir.errors import BadInput
from weir.probe.active import TurnReport
from weir.probe.format import words
from weir.probe.record import COLUMNS, Record
from weir.probe.responder import Responder
from weir.probe.sample import Sample
from weir.probe.summary import Summary
from weir.probe.tcp_info import parse_tcp_info
from weir.probe.view import curve, page

MS = 1_000_000


def weir(*arguments):
    command = [WEIR, "probe", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def samples():
    tcp = parse_tcp_info((3).to_bytes(4, "little") * 62)
    return [
        Sample(0, 5_000 * MS, 0, (None, None), None, "S1"),
        Sample(1, 5_010 * MS, 70_000, (20 * MS, 22 * MS), None, "C1", tcp),
        Sample(2, 5_020 * MS, 2 * MS, (25 * MS + 1, None), 21 * MS, "C1", tcp),
        Sample(3, 5_030 * MS, 0, (), 25 * MS, None),
    ]


@pytest.fixture(scope="module")
def port():
    with Responder(0) as responder:
        yield responder.port


def test_a_disk_that_is_full_is_named(tmp_path, port):
    out = tmp_path / "out.csv"
    out.symlink_to("/dev/full")
    # Few samples are written at the end alone.
    words = ["probe", "127.0.0.1", "--udp", str(port), "--seconds", "0.2", "--out", str(out)]
    done = subprocess.run([WEIR, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == f"weir: {out}: No space left on device\n"


def test_csv_and_parquet_hold_the_same_samples(tmp_path):
    for name in ("out.csv", "out.parquet"):
        with Record(tmp_path / name) as record:
            for sample in samples():
                record.append(sample, 5_000 * MS)
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = ["t_s", *(name for name, _, _ in COLUMNS)]
    assert list(rows[0]) == names
    assert [row["rtt_ms"] for row in rows] == ["", "21.0", "25.000001", "25.0"]
    assert [row["rtts_ms"] for row in rows] == ["- -", "20.000000 22.000000", "25.000001 -", ""]
    assert [row["replies"] for row in rows] == ["0", "2", "1", "0"]
    assert [row["late_ms"] for row in rows] == ["0.0", "0.07", "2.0", "0.0"]
    assert [row["t_s"] for row in rows] == ["0.0", "0.01", "0.02", "0.03"]
    assert [row["cwnd_packets"] != "" for row in rows] == [False, True, True, False]
    read = duckdb.read_parquet(str(tmp_path / "out.parquet"))
    assert read.columns == names
    types = {"count": "BIGINT", "real": "DOUBLE", "text": "VARCHAR"}
    assert list(map(str, read.types)) == ["DOUBLE", *(types[kind] for _, kind, _ in COLUMNS)]
    for row, values in zip(rows, read.fetchall(), strict=True):
        texts = ["" if value is None else str(value) for value in values]
        # An absent text and an empty one are the same in CSV.
        assert texts == list(row.values())


def test_a_parquet_row_is_taken_whole_or_not_at_all(tmp_path):
    table = _core.ParquetTable(tmp_path / "t.parquet", [("n", "count"), ("w", "text")])
    table.append([1, "one"])
    for wrong, error in (([2], BadInput), ([2, 3], TypeError), (["2", "two"], TypeError)):
        with pytest.raises(error):
            table.append(wrong)
    table.append([None, None])
    table.close()
    table.close()
    with pytest.raises(BadInput, match="closed"):
        table.append([3, "three"])
    assert duckdb.read_parquet(str(tmp_path / "t.parquet")).fetchall() == [(1, "one"), (None, None)]
    with pytest.raises(BadInput, match="column n: number is not a kind"):
        _core.ParquetTable(tmp_path / "u.parquet", [("n", "number")])


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=300))
@example([260_919_473, 260_919_474])  # a mean of half a ns, beside which a double has an error
def test_the_figures_are_those_of_the_replies(rtts):
    summary = Summary()
    for index, rtt in enumerate(rtts):
        summary.add(Sample(index, index, index, (rtt, None)))
    facts = summary.facts(len(rtts))
    assert facts["loss"] == 0.5
    found = {name: value * 1e6 for name, value in facts["rtt_ms"].items()}
    near = {"abs": 0.5 + 1e-6}  # rounded to a ns
    assert found["min"] == pytest.approx(min(rtts), **near)
    assert found["max"] == pytest.approx(max(rtts), **near)
    assert found["mean"] == pytest.approx(statistics.fmean(rtts), **near)
    assert found["p50"] == pytest.approx(statistics.median_low(rtts), **near)
    assert sum(rtt <= found["p99"] + 0.5 for rtt in rtts) >= 0.99 * len(rtts)
    assert sum(rtt < found["p99"] - 0.5 for rtt in rtts) < 0.99 * len(rtts)


def test_percentiles_are_by_nearest_rank():
    summary = Summary()
    summary.add(Sample(0, 0, 0, tuple(n * MS for n in range(200, 0, -1))))
    rtt = summary.facts(200)["rtt_ms"]
    assert rtt == {"min": 1, "p50": 100, "mean": 100.5, "p99": 198, "max": 200}


def test_the_probers_own_lateness_is_told_apart():
    summary = Summary()
    for sample in samples():
        summary.add(sample)
    turn = TurnReport(0, "C5", 0.0, 5.0, 30_000, 10, 5_000_000, 123 * MS)
    facts = summary.facts(3, [turn])
    assert facts["samples"] == 4
    assert (facts["requests"], facts["replies"]) == (6, 3)
    prober = facts["prober"]
    assert (prober["missed_samples"], prober["late_samples"]) == (1, 1)
    assert prober["late_ms"]["max"] == 2
    assert facts["turns"][0]["rate_bps"] == 8_000_000
    text = "\n".join(words(facts))
    assert "6 requests, 3 replies (50.00% lost)" in text
    assert "late by over 1 ms in 1 samples and missed 1" in text
    assert "real-time priority would help" in text
    assert "real-time" not in "\n".join(words(summary.facts(3, [turn], is_realtime=True)))
    assert "0 s C5: 5000000 B confirmed, 8.0 Mbit/s, cwnd 10 at its beginning" in text
    assert "confirmed 123 ms after its end" in text


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-50, 50)), min_size=1, max_size=60))
def test_the_curve_has_a_dot_for_every_point_and_no_other(points):
    low, high = min(y for _, y in points), max(y for _, y in points)
    lines = curve(points, low, high, 10, 4)
    assert [len(line) for line in lines] == [10] * 4
    # Unicode's own names of the dots: BRAILLE PATTERN DOTS-1 is the upper left one.
    places = {
        0: (0, 0),
        1: (0, 1),
        2: (0, 2),
        3: (1, 0),
        4: (1, 1),
        5: (1, 2),
        6: (0, 3),
        7: (1, 3),
    }
    dots = set()
    for row, line in enumerate(lines):
        for column, letter in enumerate(line):
            for bit, (x, y) in places.items():
                if ord(letter) - 0x2800 >> bit & 1:
                    dots.add((column * 2 + x, row * 4 + y))
    expected = set()
    for x, y in points:
        share = (y - low) / (high - low) if high > low else 0
        expected.add((min(int(x * 20), 19), round((1 - share) * 15)))
    assert dots == expected


def test_the_page_shows_the_scale_and_the_latest():
    lines = page(samples()[:3], 20, 4)
    assert lines[0].startswith("   25.000 ms")
    assert lines[3].startswith("   21.000 ms")
    assert "RTT 25.000 ms  3 lost in the last minute  C1  delivers" in lines[4]
    assert "no reply: as before" in page(samples(), 20, 4)[4]
    assert "no reply" in page(samples()[:1], 20, 4)[4]


def test_a_probing_prints_its_summary_and_no_curve_where_there_is_no_terminal(
    port, tmp_path, measured
):
    out = tmp_path / "samples.csv"

    def check():
        out.unlink(missing_ok=True)
        done = weir("localhost", "--udp", port, "--rate", 50, "--seconds", 0.4, "--out", out)
        assert done.returncode == 0, done.stderr
        # A machine that is late by more than a period misses samples.
        assert "20 samples, 200 requests, 200 replies (0.00% lost)\n" in done.stdout
        return done

    done = measured(check)
    first, _, rtt, *_ = done.stdout.splitlines()
    assert "UDP port" in first
    assert rtt.startswith("RTT min ")
    assert "\x1b" not in done.stdout
    assert len(out.read_text().splitlines()) == 21


def test_on_a_terminal_the_last_minute_is_drawn(port):
    inner = " ".join([WEIR, "probe localhost --rate 20 --seconds 0.6 --udp", str(port)])
    done = subprocess.run(
        ["script", "-qec", f"stty cols 80 rows 24; {inner}", "/dev/null"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        env={"TERM": "xterm", "PATH": "/usr/bin:/bin", **_python_path()},
    )
    assert done.returncode == 0, done.stdout
    assert any(0x2800 < ord(letter) < 0x2900 for letter in done.stdout)
    # A machine that is late by more than a period misses samples.
    assert re.search(r"12 samples, [1-9]\d* requests, [1-9]\d* replies", done.stdout)


def _python_path():
    return {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_probing_leaves_a_whole_file_and_its_summary(port, tmp_path, number):
    out = tmp_path / "samples.parquet"
    words = ["localhost", "--udp", port, "--rate", 50, "--seconds", 0, "--out", out, "--json"]
    command = [WEIR, "probe", *map(str, words), "--active", "S90"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as probing:
        events = [json.loads(probing.stdout.readline()) for _ in range(11)]
        # `timeout` sends its signal to the process and to its group.
        probing.send_signal(number)
        probing.send_signal(number)
        events += [json.loads(line) for line in probing.stdout]
    assert probing.returncode == 130
    assert events[-1]["event"] == "done"
    assert events[-1]["turns"][0]["end_s"] < 60
    kept = duckdb.read_parquet(str(out)).fetchall()
    assert len(kept) == events[-1]["samples"] == len(events) - 2 >= 10


def test_a_probing_that_is_killed_leaves_the_table_of_before(port, tmp_path):
    """A table is none until it is whole: what had the name was lost, and nothing read the rest."""
    out = tmp_path / "samples.parquet"
    out.write_text("of before")
    words = ["localhost", "--udp", port, "--rate", 50, "--seconds", 0, "--out", out, "--json"]
    command = [WEIR, "probe", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as probing:
        for _ in range(5):
            probing.stdout.readline()
        probing.kill()
    assert out.read_text() == "of before"


def test_a_table_that_cannot_be_written_is_named_as_it_was_given(tmp_path):
    for name, why in (("none/x.parquet", "No such file"), ("x.parquet", "Is a directory")):
        (tmp_path / "x.parquet").mkdir(exist_ok=True)
        with pytest.raises(BadInput, match=f"{name}: .*{why}"):
            Record(tmp_path / name)
    assert [one.name for one in tmp_path.iterdir()] == ["x.parquet"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    record = Record(tmp_path / "y.parquet")
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(BadInput, match=r"/y\.parquet: File too large"):
            record.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [one.name for one in tmp_path.iterdir()] == ["x.parquet"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 2, "whom to probe?"),
        (["localhost", "--serve", "7412"], 2, "either HOST"),
        (["localhost", "--rate", "101"], 2, "a rate of 101 Hz: 1/60 to 100"),
        (["localhost", "--rate", "fast"], 2, "--rate fast: a number is needed"),
        (["localhost", "--rate", "1/0"], 2, "--rate 1/0: a number is needed"),
        (["localhost", "--rate", "100", "--requests", "11"], 2, "at this rate 10 do"),
        (["localhost", "--seconds", "-1"], 2, "-1 seconds: above 0"),
        (["localhost", "--active", "C5-X5"], 2, "segment 2 'X5': X is not a code"),
        (["localhost", "--sink", "7412"], 2, "--sink is for bursts: give --active"),
        (["localhost", "--udp", "0"], 2, "--udp 0: 1 to 65535"),
        (["localhost", "--active", "C1", "--offset", "5"], 2, "--offset 5: a place in the --file"),
        (["localhost", "--active", "C1", "--file", "/none"], 2, "/none: No such file"),
        (["no such host"], 2, "unknown host 'no such host'"),
        (
            ["localhost", "--udp", "1", "--out", "x.txt"],
            2,
            "x.txt ends with .txt; .csv and .parquet",
        ),
        (["localhost", "--udp", "1", "--out", "/none/x.csv"], 2, "/none/x.csv: No such file"),
        (["localhost", "--active", "C1", "--sink", "1"], 6, "Connection refused; start it there"),
        (["--serve", "70000"], 2, "port 70000: 1 to 65535"),
    ],
)
def test_bad_input_is_one_message_and_a_code(words, code, told, capsys):
    assert main(["probe", *words]) == code
    assert told in capsys.readouterr().err


def test_a_port_where_nothing_answers_is_told_with_the_networks_word():
    done = weir("127.0.0.1", "--udp", 1, "--rate", 50, "--seconds", 0.2, "--timeout", 0.1, "--json")
    assert done.returncode == 6
    # It would be 100, less what a late machine missed.
    said = r"answered none of (100|[1-9]\d?) echo requests in \d+\.\d s \(UDP port 1\)"
    assert re.search(said, done.stderr), done.stderr
    assert "Connection refused; is weir probe --serve 1 running there" in done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["exit_code"] for one in events if one["event"] == "error"] == [6]
    assert events[-1]["event"] == "error"


def test_serving_ends_in_order_when_it_is_told_to():
    command = [WEIR, "probe", "--serve", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout.readline().startswith("answering probes on port ")
        serving.terminate()
    assert serving.returncode == 0
