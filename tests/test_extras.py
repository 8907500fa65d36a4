"""What an installation without any of the extras can do, and what it says of the rest."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from weir.cli import COMMANDS, doctor, main, plugins

ROOT = Path(__file__).parent.parent
# What a package is imported as, where that is not its name.
IMPORTED = {"os-ken": "os_ken", "python-xlib": "Xlib", "scikit-learn": "sklearn"}
WITHOUT = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {hidden}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
from weir.cli import build_parser, main
{then}
"""


def extras() -> set[str]:
    """The names by which the packages of all extras but `dev` are imported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["optional-dependencies"]
    names = {
        re.split(r"[><=\[]", one)[0] for extra in wanted.keys() - {"dev"} for one in wanted[extra]
    }
    return {IMPORTED.get(name, name) for name in names}


def without_extras(then: str) -> "subprocess.CompletedProcess[str]":
    code = WITHOUT.format(hidden=sorted(extras()), then=then)
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_the_extras_are_known():
    assert {"scipy", "os_ken", "distributed", "statsmodels"} <= extras()


@pytest.mark.parametrize("words", [("reproduce", "--list"), ("calendar", "study", "--help")])
def test_what_needs_no_extra_works_without(words):
    done = without_extras(f"sys.exit(main({list(words)}))")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_every_command_loads_without_extras():
    names = [*COMMANDS, *plugins.found("weir.commands")]
    done = without_extras(f"[build_parser(name) for name in {names}]")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_package_that_is_missing_is_named(monkeypatch, capsys):
    def run(_args: object) -> int:
        raise ModuleNotFoundError("No module named 'scipy.stats'", name="scipy.stats")

    monkeypatch.setattr(doctor, "run", run)
    assert main(["doctor"]) == 3
    told = capsys.readouterr().err
    assert told.startswith("weir: this needs the Python package scipy: ")
    assert told.count("\n") == 1


def test_a_module_of_our_own_that_is_missing_is_a_fault_of_ours(monkeypatch):
    def run(_args: object) -> int:
        raise ModuleNotFoundError("No module named 'weir.nothing'", name="weir.nothing")

    monkeypatch.setattr(doctor, "run", run)
    with pytest.raises(ModuleNotFoundError):
        main(["doctor"])
