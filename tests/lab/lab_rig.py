"""What the lab's tests share beside their fixtures."""

import json
from pathlib import Path

LINE = """
[lab]
name = "line"
[hosts]
a = {}
b = {}
[[link]]
ends = ["a", "b"]
"""


def alive(pid):
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def supervisor_of(lab):
    """The process that is the lab."""
    return json.loads((lab.directory / "state.json").read_text())["pid"]
