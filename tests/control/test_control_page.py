"""An operator's first hour with switches: docs/control.md, typed as it stands there."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from rig import WEIR, lab_lacks, needs_ovs

ROOT = Path(__file__).parents[2]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Types lines in an empty folder, with a place of their own for labs."""
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("PATH", f"{Path(WEIR).parent}:{os.environ['PATH']}")
    folder = tmp_path / "folder"
    folder.mkdir()

    def typed(lines):
        with (tmp_path / "said").open("w+") as said:  # a pipe would be held by what goes on
            done = subprocess.run(
                ["bash", "-e", "-c", lines], cwd=folder, stdout=said, stderr=said, timeout=240
            )
            said.seek(0)
            return done.returncode, said.read()

    yield typed
    subprocess.run([WEIR, "lab", "down"], check=False, stdout=subprocess.DEVNULL)


@needs_ovs
def test_the_lab_of_the_page_carries_a_promise(shell):
    section = (ROOT / "docs/control.md").read_text(encoding="utf-8").split("## In a lab")[1]
    code, said = shell(re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1])
    assert code == 0, said
    assert re.search(r"completed \w+: 20 MB at \S+, on time", said), said
    for port in ("s1 → s2", "s2 → dtn2"):
        # 20 MB are 13 800 packets and more.
        sent = re.search(rf"{port} +promised +(\d+)", said)
        assert sent and int(sent[1]) > 13_000, said


@needs_ovs
def test_the_lab_of_the_page_joins_connections(shell):
    section = (ROOT / "docs/control.md").read_text(encoding="utf-8").split("## Joined conn")[1]
    code, said = shell(re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1])
    assert code == 0, said
    # The server has seen the client, by both IPs.
    assert re.search(r'^::ffff:10\.77\.0\.1 .*"GET / HTTP', said, re.MULTILINE), said
    assert re.search(r'^fd77::1 .*"GET / HTTP', said, re.MULTILINE), said
    assert re.search(r"relay: connected, .* [2-9]\d* ended", said), said
