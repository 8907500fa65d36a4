"""What Weir starts beside itself takes no module from the directory that it is started in."""

import subprocess
from pathlib import Path

import pytest

import weir
from weir import python


@pytest.fixture
def hostile(tmp_path):
    """A directory whose files have the names of modules that every program here imports."""
    for name in ("json", "socket", "weir"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a stranger ran')\n")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        python.program("weir.cli", "--version"),
        python.script("import sys; from weir.cli import main; sys.exit(main())", "--version"),
    ],
)
def test_a_directory_full_of_modules_plays_no_part(hostile, command):
    run = subprocess.run(command, cwd=hostile, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert weir.__version__ in run.stdout


def test_nothing_in_weir_starts_python_in_another_way():
    package = Path(weir.__file__).parent
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "sys.executable" in path.read_text()
    }
    assert found == {"python.py"}
