"""`weir reproduce` as its users call it."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rig import WEIR

from studies.reproduction.catalogue import catalogue
from studies.reproduction.obtain import obtain
from studies.works.row import Outcome, Row, Verdict
from weir import cli
from weir.errors import Unsupported
from weir.runs.cache import Cache
from weir.runs.point import Point

# Nobody listens there: a run that needs a cluster fails, and says so within seconds.
NOWHERE = "tcp://127.0.0.1:1"
DOCS = Path(__file__).parents[3] / "docs"
KEYS = {"id", "work", "title", "published", "ours", "interval", "verdict", "seconds"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduce")


@pytest.fixture(scope="module")
def weir(place):
    """Runs `weir reproduce …` with a cache and an output folder of its own."""

    def run(*arguments, path=""):
        command = [WEIR, "reproduce", *arguments]
        command += ["--cache", str(place / "cache"), "--out", str(place / "out")]
        python_path = os.pathsep.join(filter(None, [path, *sys.path]))
        environment = os.environ | {"PYTHONPATH": python_path}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)

    return run


@pytest.fixture(scope="module")
def first(weir):
    """Two rows, run for the first time on a local cluster."""
    return weir("--quick", "--json", "002-fig-3.5", "003-tab-5.2", "--workers", "2")


def test_a_row_is_run_compared_and_drawn(first, place):
    assert first.returncode == 0, first.stderr
    figure, table = json.loads(first.stdout)
    assert figure.keys() >= KEYS
    assert (figure["id"], figure["verdict"]) == ("002-fig-3.5", "trend holds")
    assert "±" in figure["interval"]
    assert (table["verdict"], table["published"]) == ("matches", "220, finishes 3, 7, 12")
    kept = json.loads((place / "out/002-fig-3.5.json").read_text())
    assert kept["version"]
    assert kept["runs"][0]["arguments"]["seeds"]
    picture = ET.parse(place / "out/002-fig-3.5.svg")
    assert len(picture.findall(".//{*}polyline")) == 6


def test_a_second_run_starts_no_cluster_and_says_the_same(weir, first):
    again = weir("--quick", "--json", "002-fig-3.5", "003-tab-5.2", "--scheduler", NOWHERE)
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout


def test_full_size_is_not_answered_with_reduced_results(weir, first):
    assert weir("002-fig-3.5", "--scheduler", NOWHERE).returncode == 6


def test_a_damaged_entry_is_computed_again(weir, first, place):
    for file in (place / "cache").rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:-1])
    assert weir("--quick", "003-tab-5.2", "--scheduler", NOWHERE).returncode == 6
    again = weir("--quick", "--json", "002-fig-3.5", "003-tab-5.2", "--workers", "1")

    def without_time(text):
        return [{**facts, "seconds": None} for facts in json.loads(text)]

    assert without_time(again.stdout) == without_time(first.stdout)


def test_the_list_shows_everything_and_runs_nothing(weir, first):
    listed = weir("--list", "--json", "--scheduler", NOWHERE)
    assert listed.returncode == 0, listed.stderr
    entries = {facts["id"]: facts for facts in json.loads(listed.stdout)}
    assert list(entries) == [entry.id for entry in catalogue()]
    assert all(facts.keys() >= KEYS for facts in entries.values())
    # What was run here is taken before what is committed.
    assert entries["002-fig-3.5"] == json.loads(first.stdout)[0] | {
        "seconds": entries["002-fig-3.5"]["seconds"]
    }
    assert entries["004-fig-4.10"]["verdict"] == "not yet built"
    assert entries["004-fig-4.10"]["ours"] is None
    # In words it says the same.
    words = weir("--list").stdout
    assert all(id_ in words for id_ in entries)
    assert words.count("not yet built") == sum(
        facts["verdict"] == "not yet built" for facts in entries.values()
    )


def test_a_page_is_written_with_what_was_run_and_nothing_else(weir, first, place):
    (place / "page/reproduction").mkdir(parents=True)
    (place / "page/reproduction/000-fig-0.0.svg").write_text("of a row that is gone")
    (place / "page/reproduction/holiday.svg").write_text("of somebody who keeps images there")
    recorded = json.loads((DOCS / "reproduction.json").read_text())[0]
    gone = json.dumps([recorded | {"id": "000-fig-0.0"}])
    (place / "page/reproduction.json").write_text(gone)
    done = weir("--quick", "002-fig-3.5", "--page", str(place / "page"), "--scheduler", NOWHERE)
    assert done.returncode == 0, done.stderr
    page = (place / "page/reproduction.md").read_text()
    assert "![40 servers, deadlines from tight to relaxed](reproduction/002-fig-3.5.svg)" in page
    kept = {path.stem for path in (place / "page/reproduction").iterdir()}
    assert kept == {"002-fig-3.5", "holiday"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["002-fig-3.55"], 2, "no table or figure '002-fig-3.55'; see 002-fig-3.5"),
        (["--list", "x"], 2, "no table or figure 'x'"),
        (["004-fig-4.10"], 2, "004-fig-4.10 is not yet built"),
        (["--scheduler", NOWHERE, "003-tab-5.1"], 6, f"cannot reach the scheduler {NOWHERE}"),
        (["--scheduler", "here", "003-tab-5.1"], 2, "'here' is not a scheduler's address"),
        (["--workers", "0", "003-tab-5.1"], 2, "--workers 0"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(weir, arguments, code, words):
    done = weir(*arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_dask_it_says_what_to_install(weir, tmp_path):
    (tmp_path / "distributed.py").write_text("raise ModuleNotFoundError(name='distributed')\n")
    done = weir("003-tab-5.1", path=str(tmp_path))
    assert done.returncode == 3
    assert "needs the Python package distributed: scripts/setup reproduce" in done.stderr


def given(value):
    return value


def live_row(verdict, run=given):
    def points(quick):
        return [Point(run, {"value": 1})]

    return Row("001-fig-9", "t", "p", points, lambda results: Outcome("o", verdict), live=1)


def test_a_live_row_that_differs_is_measured_again(tmp_path):
    cache = Cache(tmp_path)
    for verdict, kept in ((Verdict.DIFFERS, False), (Verdict.MATCHES, True)):
        row = live_row(verdict)
        list(obtain([row], quick=False, cache=cache))
        assert (cache.get(row.points(False)[0]) is not None) == kept


def without_permission(value):
    raise Unsupported("needs root")


def test_a_live_row_that_cannot_run_here_stops_no_other(tmp_path):
    rows = [live_row(Verdict.MATCHES, without_permission), live_row(Verdict.MATCHES)]
    (_, error), (_, obtained) = obtain(rows, quick=False, cache=Cache(tmp_path))
    assert str(error) == "needs root"
    assert obtained.record.verdict == Verdict.MATCHES


def test_a_result_that_differs_ends_in_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "studies.reproduction.command.rows", lambda ids: [live_row(Verdict.DIFFERS)]
    )
    where = ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    assert cli.main(["reproduce", *where]) == 1
    assert "differs" in capsys.readouterr().out
