"""Labs for tests, apart from the machine's other labs; skipped where there can be none."""

import subprocess

import pytest
from rig import WEIR, lab_lacks

from weir.lab import Lab, parse


@pytest.fixture(autouse=True)
def runtime_dir(tmp_path, monkeypatch):
    """A folder of its own for the labs of one test."""
    path = tmp_path / "run"
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(path))
    return path


@pytest.fixture
def lab_of(runtime_dir):
    """A function that brings up labs from scenarios or their text, down again after the test."""
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    labs = []

    def up(scenario, **options):
        lab = Lab.up(parse(scenario) if isinstance(scenario, str) else scenario, **options)
        labs.append(lab)
        return lab

    yield up
    for lab in labs:
        lab.down()
    assert [path.name for path in runtime_dir.iterdir()] == ["lock"]


@pytest.fixture
def weir(runtime_dir):
    """Runs `weir` as a person would."""

    def run(*words, **options):
        return subprocess.run(
            [WEIR, *map(str, words)], capture_output=True, text=True, timeout=120, **options
        )

    return run
