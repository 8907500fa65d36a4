"""A lab that nobody waits for any more when it is up: it goes, and leaves nothing."""

import contextlib
import signal
import subprocess

import pytest
from lab_rig import LINE
from rig import WEIR, lab_lacks, until

# It takes long enough to come up that somebody can be in the middle of it.
NODES = "".join(f"n{number} = {{}}\n" for number in range(1, 8))
LINKS = "".join(f'[[link]]\nends = ["hub", "n{number}"]\n' for number in range(1, 8))
TRAFFIC = '[[traffic]]\nkind = "udp"\nrate = "1 Mbit/s"\nfrom = "n2"\nto = "n1"\nstop = "600 s"\n'


def left(folder):
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "kill"])
@pytest.mark.parametrize("command", ["up", "run"])
def test_it_is_not_left_behind(tmp_path, runtime_dir, command, number):
    """Its supervisor broke over the answer, on the terminal, and left the lab's folder."""
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    (tmp_path / "star.toml").write_text(f"[hosts]\n{NODES}[routers]\nhub = {{}}\n{LINKS}{TRAFFIC}")
    with subprocess.Popen(
        [WEIR, "lab", command, tmp_path / "star.toml", "--name", "star"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            until((runtime_dir / "star").exists, timeout_s=20)
            process.send_signal(number)
            told, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, told, said) == (128 + number, "", "")
    assert left(runtime_dir) == ["lock"]


def test_an_answer_that_was_sent_and_not_taken_is_none(runtime_dir, lab_of, monkeypatch):
    """Interrupted between the answer and its reading, a lab was up that nobody knew of."""

    def interrupted(supervisor, launch):
        supervisor.stdin.write(launch)
        supervisor.stdin.flush()
        assert supervisor.stdout.readline().startswith(b'{"name"')
        raise KeyboardInterrupt

    monkeypatch.setattr("weir.lab.lab._answer", interrupted)
    for detached in (True, False):
        with contextlib.suppress(KeyboardInterrupt):
            lab_of(LINE, detached=detached)
        assert left(runtime_dir) == ["lock"]
