"""A row's id gives the file that it stands in: studies/works/wNNN/chM_*.py."""

import importlib
import pkgutil
import re

import studies.works
from studies.reproduction.catalogue import ROWS


def modules_with_rows():
    for found in pkgutil.walk_packages(studies.works.__path__, "studies.works."):
        module = importlib.import_module(found.name)
        if hasattr(module, "ROWS"):
            yield module


def test_every_row_stands_in_a_file_of_its_work_and_chapter():
    places = [(row.id, module.__name__) for module in modules_with_rows() for row in module.ROWS]
    for id_, place in places:
        work, chapter = re.match(r"(\d+)-[a-z]+-(\d+)", id_).groups()
        assert place.startswith(f"studies.works.w{work}.ch{chapter}_"), id_
    assert sorted(id_ for id_, _ in places) == sorted(row.id for row in ROWS)
