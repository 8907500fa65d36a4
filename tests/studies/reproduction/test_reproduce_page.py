"""The page says what the records beside it say, and the catalogue is whole."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from studies.reproduction import page
from studies.reproduction.catalogue import ROWS, catalogue, find
from studies.reproduction.obtain import Obtained, Record
from studies.works.row import Row, Verdict
from weir.errors import BadInput
from weir.runs.cache import identity

DOCS = page.committed()


def test_the_committed_page_is_current():
    written = (DOCS / "reproduction.md").read_text()
    current = page.render(page.load(DOCS), DOCS / "reproduction")
    assert written == current, "run `make reproduce`"


def test_every_committed_record_and_plot_is_of_a_row():
    rows = {row.id for row in ROWS}
    assert page.load(DOCS).keys() <= rows
    assert {path.stem for path in (DOCS / "reproduction").glob("*.svg")} <= rows


def as_whatever_was_learned(arguments):
    """A choice was made from what had been learned by then, and is the page's until made again."""
    arguments = json.loads(json.dumps(arguments))
    return arguments | ({"learned": "it has"} if arguments.get("learned") else {})


def test_every_run_that_was_measured_live_is_of_a_live_row():
    wanted = [point for row in ROWS if row.live for point in row.points(False)]
    of_rows = {
        f"{point.run.__module__.rpartition('.')[2]}.{point.run.__qualname__}.jsonl"
        for point in wanted
    }
    kept = list((DOCS / "reproduction/live").iterdir())
    assert kept
    assert {path.name for path in kept} <= of_rows
    arguments = [as_whatever_was_learned(point.arguments) for point in wanted]
    for path in kept:
        for line in path.read_text().splitlines():
            assert as_whatever_was_learned(json.loads(line)["arguments"]) in arguments


def test_every_entry_is_named_by_its_place_and_says_something():
    for entry in catalogue():
        assert re.fullmatch(r"00[0-4]-(fig|tab|sec|ch|own)-[\w.-]+", entry.id)
        assert entry.work in page.WORKS
        assert entry.title
        assert entry.published
    assert {entry.work for entry in catalogue()} == page.WORKS.keys()


def test_what_is_listed_as_not_yet_built_is_no_row():
    folder = Path(page.__file__).parent / "published"
    listed = {id_ for file in folder.glob("*.toml") for id_ in tomllib.loads(file.read_text())}
    assert len(listed) > 1
    assert not listed & {row.id for row in ROWS}


def test_every_row_is_in_the_catalogue_once():
    assert len({entry.id for entry in catalogue()}) == len(catalogue())
    assert all(isinstance(entry, Row) for entry in find([row.id for row in ROWS]))


def test_who_asks_for_a_drawing_is_told_that_it_shows_no_result():
    with pytest.raises(BadInput, match=r"no table or figure '001-tab-1\.1'.*tables 1\.1, 4\.1"):
        find(["001-tab-1.1"])
    with pytest.raises(BadInput) as caught:
        find(["nothing"])
    assert "result" not in str(caught.value)


def test_the_order_is_that_of_the_chapters():
    ids = [entry.id for entry in catalogue()]
    assert ids.index("002-fig-3.9") < ids.index("002-fig-3.10")
    assert ids.index("003-tab-2.1") < ids.index("003-tab-4.1") < ids.index("003-fig-5.4")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
@pytest.mark.parametrize("quick", [True, False])
def test_points_have_the_same_identity_every_time(row, quick):
    first, second = ([identity(point) for point in row.points(quick)] for _ in range(2))
    assert first == second
    assert first


@pytest.mark.parametrize("text", ["", "[1]", '[{"id": "x"}]', "{", "null"])
def test_what_holds_no_records_is_named(tmp_path, text):
    (tmp_path / "reproduction.json").write_text(text)
    with pytest.raises(BadInput, match=r"reproduction\.json does not hold records"):
        page.load(tmp_path)


def test_what_is_of_full_size_stays_until_it_is_run_so_again(tmp_path):
    row = next(row for row in ROWS if row.plot is None)

    def take(ours, quick):
        record = Record(row.id, ours, "", Verdict.MATCHES, "", 1.0, quick, "1", "code")
        page.update(tmp_path, [Obtained(row, record, [], [])])
        return page.load(tmp_path)[row.id].ours

    assert take("first", quick=True) == "first"
    assert take("second", quick=True) == "second"
    assert take("five seeds", quick=False) == "five seeds"
    assert take("third", quick=True) == "five seeds"
    assert take("five others", quick=False) == "five others"
