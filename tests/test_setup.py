"""`scripts/setup` puts in place the build of the core that its purpose is for, when that is due."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Stand for what takes minutes. The "core" tells by which profile it was built.
PROGRAMS = {
    "dpkg-query": 'echo "install ok installed"',
    "cargo": "true",
    ".venv/bin/pip": "true",
    ".venv/bin/maturin": 'for word; do [ "$last" != --profile ] || echo "$word" '
    ">weir/_core.abi3.so; last=$word; done; echo built >>builds",
}


@pytest.fixture
def checkout(tmp_path):
    """A folder with what scripts/setup looks at."""
    for folder in ("scripts", "crates/python", "weir", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "scripts/setup", tmp_path / "scripts")
    for name in ("pyproject.toml", "constraints.txt", "Cargo.toml", "Cargo.lock"):
        (tmp_path / name).touch()
    for name, does in PROGRAMS.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
    (tmp_path / ".venv/bin/python").symlink_to(shutil.which("true"))
    return tmp_path


def core(checkout, purpose):
    """The profile of the core that is there after set-up for a purpose, and how many were built."""
    path = f"{checkout}:{os.environ['PATH']}"
    subprocess.run(
        ["scripts/setup", purpose],
        cwd=checkout,
        env=os.environ | {"PATH": path},
        check=True,
        capture_output=True,
        timeout=60,
    )
    builds = (checkout / "builds").read_text().count("built")
    return (checkout / "weir/_core.abi3.so").read_text().strip(), builds


def test_tests_have_their_build_and_everything_else_the_release(checkout):
    assert core(checkout, "dev") == ("tests", 1)
    assert core(checkout, "dev") == ("tests", 1)
    assert core(checkout, "run") == ("release", 2)
    assert core(checkout, "run") == ("release", 2)
    assert core(checkout, "dev") == ("tests", 3)
    assert core(checkout, "bench") == ("release", 4)
    assert core(checkout, "reproduce") == ("release", 5)  # installs what it needs beside


@pytest.mark.parametrize("purpose", ["dev", "bench"])
def test_a_core_that_is_older_than_its_sources_or_made_by_hand_is_built_again(checkout, purpose):
    profile, _ = core(checkout, purpose)
    built = checkout / "weir/_core.abi3.so"
    for path in (built, checkout / f".venv/.core-{profile}"):
        set_age_s(path, 60)
    assert core(checkout, purpose) == (profile, 2)
    built.write_text("by hand")
    set_age_s(built, -60)
    assert core(checkout, purpose) == (profile, 3)


def set_age_s(path, age_s):
    now_s = time.time()
    os.utime(path, (now_s - age_s, now_s - age_s))
