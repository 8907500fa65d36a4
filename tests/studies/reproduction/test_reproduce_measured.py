"""A study of real hosts goes on where it was cut off."""

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from reproduce_points import had, met, same

from studies.reproduction.obtain import obtain
from studies.works.measured import Measured
from studies.works.row import Outcome, Row, Verdict
from weir.errors import Unavailable, Unsupported
from weir.runs.cache import Cache, Result
from weir.runs.point import Point
from weir.runs.version import code_version

COUNT = 3
LINE = "reproduce_points.same.jsonl"


def a_row(run=same, values=range(COUNT), live=1):
    def points(quick):
        return [Point(run, {"value": value}) for value in (values[:1] if quick else values)]

    def judge(results):
        return Outcome(f"{sum(results)}", Verdict.DIFFERS)

    return Row("001-fig-9", "t", "p", points, judge, live=live)


def obtained(row, tmp_path, quick=False):
    measured = Measured(tmp_path / "live")
    ((_, got),) = obtain([row], quick=quick, cache=Cache(tmp_path / "cache"), measured=measured)
    return got


def entries(tmp_path):
    return [json.loads(line) for line in (tmp_path / "live" / LINE).read_text().splitlines()]


def test_a_study_goes_on_where_it_was_killed(tmp_path):
    program = f"""
        import os, pathlib, signal, sys
        sys.path[:0] = {sys.path!r}
        import reproduce_points
        from weir.runs.point import Point
        from weir.runs.cache import Result
        from studies.works.measured import Measured
        measured = Measured(pathlib.Path({str(tmp_path / "live")!r}))
        for value in range(2):
            measured.put(Point(reproduce_points.same, dict(value=value)), Result(10 + value, 5.0))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode == -signal.SIGKILL
    got = obtained(a_row(), tmp_path)
    # What was measured before is told apart from what a run gives now, which is its value.
    assert got.record.ours == str(10 + 11 + 2)
    assert [entry["arguments"]["value"] for entry in entries(tmp_path)] == [0, 1, 2]
    assert got.record.seconds >= 10


def test_as_many_are_measured_at_a_time_as_the_row_says(tmp_path):
    assert obtained(a_row(met, [0, 1], live=2), tmp_path).record.ours == "1"


def test_what_ran_beside_one_that_failed_is_kept(tmp_path):
    got = obtained(a_row(met, [1, 7], live=2), tmp_path)
    assert isinstance(got, Unavailable)
    kept = (tmp_path / "live" / "reproduce_points.met.jsonl").read_text().splitlines()
    assert [json.loads(line)["arguments"]["value"] for line in kept] == [1]


def test_after_one_that_failed_no_other_begins(tmp_path):
    got = obtained(a_row(had, [0, 7, 1]), tmp_path)
    assert "7 is not to be had" in str(got)
    kept = (tmp_path / "live" / "reproduce_points.had.jsonl").read_text().splitlines()
    assert [json.loads(line)["arguments"]["value"] for line in kept] == [0]


def test_what_an_earlier_version_measured_is_taken_and_named(tmp_path):
    own = obtained(a_row(), tmp_path).record.code
    kept = [entry | {"code": "0ld"} if n else entry for n, entry in enumerate(entries(tmp_path))]
    (tmp_path / "live" / LINE).write_text("".join(json.dumps(one) + "\n" for one in kept))
    assert set(obtained(a_row(), tmp_path).record.code.split()) == {"0ld", own}
    assert len(entries(tmp_path)) == COUNT


def test_a_line_cut_off_anywhere_is_measured_again(tmp_path):
    obtained(a_row(), tmp_path)
    path = tmp_path / "live" / LINE
    whole = path.read_bytes()
    last = whole[:-1].rindex(b"\n") + 1
    for length in range(last, len(whole)):
        path.write_bytes(whole[:length])
        assert obtained(a_row(), tmp_path).record.ours == "3", length
        assert Measured(path.parent).get(Point(same, {"value": COUNT - 1})), length


NO_ENTRIES = ["[]", "{}", "7", "\x00", "[" * 10**5, '{"arguments": {"value": 0}}']


@pytest.mark.parametrize(("code", "simulated"), [("before", "now"), ("", "then")])
def test_only_what_another_version_simulated_is_simulated_again(tmp_path, code, simulated):
    measured = Measured(tmp_path / "live")
    point = Point(same, {"value": {"lab": {"simulated": "now"}}})
    kept = {"lab": {"live": "then", "simulated": "then", "flaws": []}}
    measured.put(point, Result(kept, 1.0))
    if code:
        path = tmp_path / "live" / LINE
        path.write_text(path.read_text().replace(code_version(same.__module__), code))
    judged = []

    def judge(results):
        judged.extend(results)
        return Outcome("", Verdict.MATCHES)

    obtained(Row("001-fig-9", "t", "p", lambda quick: [point], judge, live=1), tmp_path)
    assert judged == [{"lab": {"live": "then", "simulated": simulated, "flaws": []}}]


@pytest.mark.parametrize("line", NO_ENTRIES)
def test_a_line_that_is_no_entry_serves_nothing(tmp_path, line):
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / LINE).write_text(f"{line}\n")
    assert obtained(a_row(), tmp_path).record.ours == "3"


def test_the_reduced_size_leaves_them_as_they_are(tmp_path):
    obtained(a_row(), tmp_path, quick=True)
    assert not (tmp_path / "live").exists()


def test_other_arguments_are_other_runs(tmp_path):
    measured = Measured(tmp_path)
    measured.put(Point(same, {"value": [1, 2], "seed": 7}), Result("r", 1.0))
    assert measured.get(Point(same, {"seed": 7, "value": (1, 2)})).value == "r"
    assert measured.get(Point(same, {"value": [1, 2], "seed": 8})) is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_said(tmp_path):
    (tmp_path / LINE).symlink_to("/dev/full")
    with pytest.raises(Unsupported, match=r"cannot keep a result in .*: No space left"):
        Measured(tmp_path).put(Point(same, {"value": 1}), Result(1, 1.0))
