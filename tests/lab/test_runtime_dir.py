"""What clears up after dead labs and runs touches nothing but what Weir made and marked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lab_rig import LINE, alive, supervisor_of
from rig import WEIR, lab_lacks, until

from studies.rig import workspace
from weir.errors import BadInput
from weir.lab import Lab, parse, rundir

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")


@pytest.fixture
def home(runtime_dir):
    """A folder that its owner keeps other things in and gives to labs, too."""
    runtime_dir.mkdir()
    (runtime_dir / "thesis/chapters").mkdir(parents=True)
    (runtime_dir / "thesis/chapters/one.tex").write_text("five years")
    (runtime_dir / "empty").mkdir()
    # As a lab's folder is, but for the mark.
    (runtime_dir / "line").mkdir()
    (runtime_dir / "line/state.json").write_text("{}")
    (runtime_dir / "line/lock").touch()
    (runtime_dir / "line/weir-hosts-").touch()
    (runtime_dir / "forged").mkdir()
    (runtime_dir / "forged/.made-by-weir").write_text("not by weir")
    (runtime_dir / "linked").mkdir()
    (runtime_dir / "linked/.made-by-weir").symlink_to(runtime_dir / "mark")
    (runtime_dir / "mark").write_text("weir lab\n")
    (runtime_dir / "odd").mkdir()
    os.mkfifo(runtime_dir / "odd/.made-by-weir")
    return runtime_dir


def listing(folder):
    """Everything in a folder, with what the files hold."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path != folder / "lock":
            kept = path.read_bytes() if path.is_file() else path.lstat().st_mode
            found[str(path.relative_to(folder))] = (kept, path.lstat().st_ino)
    return found


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["status", "--lab", "thesis"],
        ["down", "--lab", "line"],
        ["exec", "--lab", "line", "a", "--", "true"],
        ["exec", "a"],
        ["up", "none.toml"],
        ["run", "none.toml"],
    ],
)
def test_no_command_touches_or_lists_what_is_no_lab(weir, home, words):
    before = listing(home)
    done = weir("lab", *words)
    assert done.returncode == 2
    assert "the labs that are up" not in done.stderr and "Traceback" not in done.stderr
    assert listing(home) == before


def test_labs_live_beside_what_is_none_and_leave_it(home, weir):
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    before = listing(home)
    with Lab.up(parse(LINE)) as lab:
        assert lab.name == "line-2", "a folder that is not a lab's has the name line"
        with pytest.raises(BadInput, match="line is there and is not a lab's"):
            Lab.up(parse(LINE), name="line")
        os.kill(supervisor_of(lab), 9)
        until(lambda: not alive(supervisor_of(lab)))
        assert weir("lab", "status").returncode == 2
        assert not lab.directory.exists(), "a dead lab's own folder goes"
    assert listing(home) == before


def test_a_marked_folder_that_is_a_link_is_no_lab(home, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".made-by-weir").write_text("weir lab\n")
    (elsewhere / "precious").touch()
    (home / "link").symlink_to(elsewhere)
    assert rundir.sweep() == []
    assert (elsewhere / "precious").exists()


@needs_root
def test_a_marked_folder_of_another_user_is_no_lab(home):
    (home / "theirs").mkdir()
    (home / "theirs/.made-by-weir").write_text("weir lab\n")
    os.chown(home / "theirs", 12345, 12345)
    assert rundir.sweep() == [] and rundir.claim("theirs") is None
    os.chown(home / "theirs", 0, 0)
    os.chown(home / "theirs/.made-by-weir", 12345, 12345)
    assert rundir.sweep() == [] and (home / "theirs").exists()


def test_a_lab_is_not_down_before_its_folder_is_gone(runtime_dir, monkeypatch):
    ending, waited = rundir.claim("ending"), []
    ending.hosts_path("0" * 16).touch()
    ending.clear()  # the hosts file goes first, by which a lab is known

    def meanwhile(_s):
        waited.append(True)
        ending.release()

    monkeypatch.setattr(rundir.time, "sleep", meanwhile)
    assert rundir.wait_until_dead("ending", 5, "0" * 16)
    assert waited
    assert not (runtime_dir / "ending").exists()


def test_a_lab_that_goes_while_it_is_looked_at_is_gone(runtime_dir, monkeypatch):
    ending, looks = rundir.claim("ending"), []
    is_marked = rundir.marked.is_marked

    def goes(folder, kind):
        found = is_marked(folder, kind)
        looks.append(found)
        if len(looks) == 2:
            ending.release()
        return found

    monkeypatch.setattr(rundir.marked, "is_marked", goes)
    assert rundir.wait_until_dead("ending", 5, "0" * 16)
    assert looks[:2] == [True, True]


def test_a_maker_that_was_killed_half_way_is_cleared(home):
    stage = home / ".weir-lab-stage"
    stage.mkdir()
    claimed = rundir.claim("new")
    claimed.release()
    (stage).mkdir()
    (stage / ".made-by-weir").write_text("weir lab\n")
    (stage / "lock").touch()
    rundir.claim("new").release()
    assert not (home / "new").exists() and not stage.exists()
    stage.mkdir()
    (stage / "precious").touch()
    with pytest.raises(BadInput, match="in the way"):
        rundir.claim("new")
    assert (stage / "precious").exists()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_is_refused(weir, runtime_dir, mode):
    runtime_dir.mkdir()
    runtime_dir.chmod(mode)
    done = weir("lab", "status")
    assert done.returncode == 2
    assert done.stderr.startswith(f"weir: {runtime_dir} may be written by others (mode {mode:04o}")
    assert list(runtime_dir.iterdir()) == []


def test_a_folder_that_is_a_link_is_refused(weir, runtime_dir, tmp_path):
    (tmp_path / "victim").mkdir()
    runtime_dir.symlink_to(tmp_path / "victim")
    done = weir("lab", "status")
    assert done.returncode == 2 and f"{runtime_dir} is a link" in done.stderr
    assert list((tmp_path / "victim").iterdir()) == []


@needs_root
@pytest.mark.parametrize("planted", ["link", "theirs", "writable"])
def test_what_others_planted_in_tmp_is_refused(planted, tmp_path):
    """The place of a user without a session, /tmp/weir-UID, made beforehand by somebody else."""
    user = 61_234
    path = Path(f"/tmp/weir-{user}")
    victim = tmp_path / "victim"
    victim.mkdir()
    if planted == "link":
        path.symlink_to(victim)
        os.chown(path, user, user, follow_symlinks=False)
    else:
        path.mkdir()
        os.chown(path, user if planted == "writable" else user + 1, user)
        path.chmod(0o777 if planted == "writable" else 0o755)
    program = (
        "import os; from weir.lab import rundir; from weir.errors import BadInput;"
        f"os.setgroups([]); os.setgid({user}); os.setuid({user});"
        "os.environ.pop('WEIR_RUNTIME_DIR'); os.environ.pop('XDG_RUNTIME_DIR', None)\n"
        "try: rundir.sweep()\nexcept BadInput as error: print(error)"
    )
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        words = {"link": "is a link", "theirs": "somebody else", "writable": "written by others"}
        assert words[planted] in done.stdout, done
        assert list(victim.iterdir()) == []
    finally:
        path.unlink() if planted == "link" else path.rmdir()


def test_a_lock_that_cannot_be_is_named(weir, runtime_dir, tmp_path):
    runtime_dir.mkdir()
    (runtime_dir / "lock").mkdir()
    file = tmp_path / "line.toml"
    file.write_text(LINE)
    done = weir("lab", "up", file)
    assert done.returncode == 2 and f"{runtime_dir / 'lock'}: Is a directory" in done.stderr


def test_a_command_in_a_folder_that_is_gone_says_so(runtime_dir, tmp_path):
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    gone = tmp_path / "gone"
    gone.mkdir()
    with Lab.up(parse(LINE)):
        script = f'cd {gone} && rmdir {gone} && exec "$@"'
        words = ["sh", "-c", script, "sh", WEIR, "lab", "exec", "a", "--", "true"]
        done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "weir: the folder that you are in is gone; change to another\n"


def test_a_run_clears_no_folder_but_a_runs(tmp_path, monkeypatch):
    """The workspaces of runs lie in /dev/shm and /tmp, where everybody's folders lie."""
    monkeypatch.setattr(workspace, "_MEMORY", tmp_path)
    monkeypatch.setattr(workspace.tempfile, "gettempdir", lambda: str(tmp_path))
    results = tmp_path / "weir-run-results"
    results.mkdir()
    (results / "lock").touch()
    (results / "table.csv").write_text("kept by hand")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (tmp_path / "weir-run-link").symlink_to(elsewhere)
    before = listing(tmp_path)
    with workspace.open_workspace(1):
        pass
    assert listing(tmp_path) == before


def test_a_place_too_long_for_a_socket_is_named_and_left_empty(weir, tmp_path, monkeypatch):
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    place = tmp_path / ("d" * 200)
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(place))
    file = tmp_path / "line.toml"
    file.write_text(LINE)
    done = weir("lab", "up", file)
    assert done.returncode == 2 and "shorter path" in done.stderr, done.stderr
    assert [path.name for path in place.iterdir()] == ["lock"]


def test_without_nsenter_exec_says_so(runtime_dir):
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    with Lab.up(parse(LINE)):
        words = [WEIR, "lab", "exec", "a", "--", "true"]
        bare = os.environ | {"PATH": "/nowhere"}
        done = subprocess.run(words, capture_output=True, text=True, env=bare)
    assert done.returncode == 3 and done.stderr.startswith("weir: cannot run nsenter"), done
