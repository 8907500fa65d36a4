"""`weir run` as a person calls it: wrong calls get one clear line and leave nothing behind."""

import fcntl
import subprocess
from pathlib import Path

import pytest
from rig import WEIR

# Other runs leave working folders where these tests look for such.
pytestmark = pytest.mark.alone


def weir(*arguments, **options):
    return subprocess.run(
        [WEIR, "run", *arguments], capture_output=True, text=True, timeout=120, **options
    )


def folders():
    """The working folders of runs that are over; that of a living one is locked."""
    found = [path for place in ("/dev/shm", "/tmp") for path in Path(place).glob("weir-run-*")]
    return {path for path in found if abandoned(path / "lock")}


def abandoned(lock):
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gone.toml"], ["gone.toml", "is not a file, nor one of"]),
        (["--seed", "-1"], ["--seed -1"]),
        (["--out", "/proc/nowhere"], ["--out /proc/nowhere"]),
        (["--out", "/dev/null/x"], ["--out /dev/null/x", "Not a directory"]),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(arguments, words, tmp_path):
    before = folders()
    done = weir(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("weir: ")
    for word in words:
        assert word in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert folders() <= before


def test_help_names_the_exit_codes():
    done = weir("--help")
    assert done.returncode == 0
    for word in ("--out", "--seed", "--json", "Exit code 0"):
        assert word in done.stdout


# Inside its own user namespace a process may forbid itself further ones, and drop what it has.
LOCKED_DOWN = (
    "echo 0 > /proc/sys/user/max_user_namespaces && "
    'exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"'
)


def test_without_privileges_it_says_so_and_leaves_nothing(tmp_path):
    before = folders()
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", LOCKED_DOWN, "sh", WEIR, "run", "--out", "out"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.returncode == 3, done.stderr
    assert "weir doctor" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert folders() <= before
