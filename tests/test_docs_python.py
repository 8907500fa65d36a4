"""The Python of the documentation runs as it stands there, from the checkout's root."""

import ast
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from rig import lab_lacks

from weir import Time
from weir.lab import load
from weir.sim import Run
from weir.sim.run import run

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

# What stands for something of the reader's, or takes minutes: the same in small.
INSTEAD: Mapping[str, Mapping[str, str]] = {
    "fluid.md": {"100_000": "500"},
    "headroom.md": {"100_000": "500"},
    "packet.md": {"'DIR/": "'{kept}/"},
    "recognition-appendix.md": {"30, 300, seed=1": "5, 45, seed=1"},
}
# Pages whose blocks need more than a checkout: only their imports are tried.
IMPORTS_ONLY = {
    "desktop.md": "needs root and a server of VNC",
    "probe.md": "asks a host until it is interrupted",
    "recognition.md": "has the samples of a path",
    "transfer.md": "sends to another host",
}


def blocks(page):
    return BLOCK.findall(page.read_text())


WITH_PYTHON = [page.name for page in PAGES if blocks(page)]


def imports(code):
    return [node for node in ast.parse(code).body if isinstance(node, ast.Import | ast.ImportFrom)]


@pytest.fixture
def kept(tmp_path):
    """What `weir sim --out` keeps."""
    run(Run(load(ROOT / "scenarios/background.toml"), Time("1 s"), out=tmp_path / "kept"))
    return tmp_path / "kept"


def test_there_are_such_pages():
    assert {"packet.md", "lab.md", "fluid.md", "headroom.md"} <= set(WITH_PYTHON)
    assert set(IMPORTS_ONLY) | set(INSTEAD) <= set(WITH_PYTHON)


@pytest.mark.parametrize("name", WITH_PYTHON)
def test_the_python_of_a_page_runs(name, kept, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    names = {}
    for code in blocks(next(page for page in PAGES if page.name == name)):
        tried = ast.Module(imports(code), type_ignores=[])
        if name not in IMPORTS_ONLY and not (name == "lab.md" and lab_lacks()):
            for there, here in INSTEAD.get(name, {}).items():
                code = code.replace(there, here.format(kept=kept))
            tried = ast.parse(code)
        exec(compile(tried, name, "exec"), names)
    assert names.keys() > {"__builtins__"}, "it names what it imports or makes"
    for left in names.values():
        if isinstance(left, subprocess.Popen):
            left.wait(timeout=30)  # what was started in a lab ends with it
