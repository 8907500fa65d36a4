"""The list of old faults stays one that can be put back."""

import shutil

import pytest
from old_faults import FAULTS, SOURCES, put_back


@pytest.mark.parametrize("name", FAULTS)
def test_every_old_fault_can_still_be_put_back(name, tmp_path):
    sources = tmp_path / "src"
    shutil.copytree(SOURCES, sources)
    put_back(FAULTS[name], sources)
    assert any(
        (sources / one.file).read_text() != (SOURCES / one.file).read_text()
        for one in FAULTS[name].edits
    )
