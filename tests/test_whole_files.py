"""A file has its name when it is whole: until then the old one has it, or none."""

import resource
import subprocess

import pytest
from rig import WEIR

from weir import files

RESULT = """{"links": [], "flows": [{"name": "a", "goodput_bps": 1}]}"""
PLOTS = {
    "compare": ["compare", "result.json", "result.json", "--plot", "picture"],
    "migrate": ["migrate", "plan", "migration", "--planner", "greedy", "--plot", "picture"],
    "fabric": ["observe", "fabric", "plan", "--small", "--out", "picture"],
}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def drawn(place, words, most_bytes):
    """What a command says that may write so many bytes into a file."""
    return subprocess.run(
        [WEIR, *words],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes,) * 2),
    )


@pytest.mark.parametrize("before", [None, "of before"])
@pytest.mark.parametrize("words", PLOTS.values(), ids=PLOTS)
def test_what_a_full_disk_cuts_has_no_name(tmp_path, words, before):
    (tmp_path / "result.json").write_text(RESULT)
    if before:
        (tmp_path / "picture").write_text(before)
    there = names(tmp_path)
    done = drawn(tmp_path, words, 200)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("weir: ") and "picture: " in done.stderr
    assert names(tmp_path) == there
    assert before is None or (tmp_path / "picture").read_text() == before
    assert drawn(tmp_path, words, 1 << 20).returncode == 0
    assert len((tmp_path / "picture").read_text()) > 200
    assert names(tmp_path) == sorted({*there, "picture"})


def test_who_writes_over_a_file_keeps_its_rights_and_where_a_link_leads(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    with files.whole(tmp_path / "link") as partial:
        partial.write_text("new")
        assert (tmp_path / "file").read_text() == "old"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_an_interruption_leaves_the_old_file_alone(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(KeyboardInterrupt), files.whole(tmp_path / "file") as partial:
        partial.write_text("ne")
        raise KeyboardInterrupt
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("file", "old")]


def test_a_device_is_written_itself(tmp_path):
    (tmp_path / "result.json").write_text(RESULT)
    words = ["compare", "result.json", "result.json", "--plot"]
    assert "<svg" in drawn(tmp_path, [*words, "/dev/stdout"], 1 << 20).stdout
    line = 'exec "$@" --plot /dev/stdout >printed'
    subprocess.run(["bash", "-c", line, "bash", WEIR, *words[:3]], cwd=tmp_path, check=True)
    assert "goodput" in (tmp_path / "printed").read_text()
    full = drawn(tmp_path, [*words, "/dev/full"], 1 << 20)
    assert full.returncode == 2 and "/dev/full: No space left" in full.stderr


@pytest.mark.parametrize("place", ["none/file", "folder", "plain/file"])
def test_a_place_where_nothing_can_be_is_named(tmp_path, place):
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("")
    with pytest.raises(OSError, match=place), files.whole(tmp_path / place) as partial:
        partial.write_text("x")


def test_a_name_may_be_as_long_as_names_are_and_two_may_write_at_once(tmp_path):
    path = tmp_path / ("é" * 127)
    with files.whole(path) as first, files.whole(path) as second:
        first.write_text("first")
        second.write_text("second")
        assert first != second
    assert path.read_text() == "first"
    assert names(tmp_path) == [path.name]
