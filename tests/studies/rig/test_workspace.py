"""The run's files follow from its seed, and its folder goes whatever happens."""

import hashlib
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from studies.rig import workspace
from weir.errors import Unsupported


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Both places that a workspace may lie in, empty."""
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    monkeypatch.setattr(workspace, "_MEMORY", memory)
    monkeypatch.setattr(workspace.tempfile, "gettempdir", lambda: str(disk))
    return memory, disk


def test_files_follow_from_seed_and_name_alone(tmp_path):
    sizes = {tmp_path / "a": 5_000_000, tmp_path / "b": 1}
    first = workspace.make_files(sizes, seed=7)
    alone = workspace.make_files({tmp_path / "other" / "a": 5_000_000}, seed=7)
    assert list(alone.values()) == [first[tmp_path / "a"]]
    assert workspace.make_files(sizes, seed=8) != first
    assert (tmp_path / "a").stat().st_size == 5_000_000


def test_the_digest_is_that_of_what_lies_on_disk(tmp_path):
    made = workspace.make_files({tmp_path / "a": 5_000_001}, seed=1)
    content = (tmp_path / "a").read_bytes()
    assert made[tmp_path / "a"] == hashlib.sha256(content).hexdigest()
    assert workspace.hash_files([tmp_path / "a", tmp_path / "none"]) == [
        hashlib.sha256(content).hexdigest(),
        None,
    ]
    (tmp_path / "a").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert workspace.hash_files([tmp_path / "a"]) != list(made.values())


def test_the_folder_goes_on_success_and_on_failure(elsewhere):
    memory, disk = elsewhere
    with workspace.open_workspace(1) as folder:
        (folder / "deep" / "er").mkdir(parents=True)
    with pytest.raises(ZeroDivisionError), workspace.open_workspace(1):
        raise ZeroDivisionError
    assert [*memory.iterdir(), *disk.iterdir()] == []


def test_the_disk_is_taken_when_memory_is_short(elsewhere, monkeypatch):
    _, disk = elsewhere
    monkeypatch.setattr(workspace, "_memory_available", lambda: 0)
    with workspace.open_workspace(1) as folder:
        assert folder.parent == disk


def test_memory_is_not_promised_twice(elsewhere, monkeypatch):
    memory, disk = elsewhere
    monkeypatch.setattr(workspace, "_memory_available", lambda: 2 * 1000)
    with workspace.open_workspace(600) as first, workspace.open_workspace(600) as second:
        assert (first.parent, second.parent) == (memory, disk)
        with workspace.open_workspace(400) as third:
            assert third.parent == memory
    with workspace.open_workspace(1000) as folder:
        assert folder.parent == memory


def test_no_room_anywhere_is_said(elsewhere):
    with (
        pytest.raises(Unsupported, match=r"4.61 EB.*TMPDIR"),
        workspace.open_workspace(1 << 62),
    ):
        pass


def test_what_a_killed_run_left_is_cleared_and_a_living_one_kept(elsewhere):
    memory, _ = elsewhere
    script = textwrap.dedent(f"""
        import sys
        from pathlib import Path
        from studies.rig import workspace
        workspace._MEMORY = Path({str(memory)!r})
        with workspace.open_workspace(1) as folder:
            print(folder, flush=True)
            sys.stdin.read()
    """)
    killed, living = (
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    )
    try:
        left, kept = (Path(x.stdout.readline().strip()).name for x in (killed, living))
        killed.send_signal(signal.SIGKILL)
        killed.wait(timeout=60)
        assert {path.name for path in memory.iterdir()} == {left, kept}
        with workspace.open_workspace(1) as mine:
            assert {path.name for path in memory.iterdir()} == {kept, mine.name}
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate()
