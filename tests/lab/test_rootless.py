"""An ordinary user has a lab in a user namespace, or is told that /dev/net/tun is closed.

Each test runs as user 65534 behind a private mount namespace, so that nothing on the machine
changes: there the folders that Python and Weir live in are made reachable, and /dev/net holds a
device node of its own.
"""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from weir.lab import switches

NOBODY = 65534

PROGRAM = """
import json, os, sys
from weir.errors import WeirError
from weir.lab import Lab, parse
from weir.run_folder import run_folder
try:
    with Lab.up(parse(sys.argv[1])) as lab:
        ping = lab.run("a", ["ping", "-c", "1", "b"], check=False, capture_output=True, text=True)
        cubic = lab.run("a", [sys.executable, "-c", sys.argv[2]], capture_output=True, text=True)
        outside = os.geteuid()
        inside = lab.run("a", ["id", "-u"], capture_output=True, text=True).stdout.strip()
        answer = {"ping": ping.stdout + ping.stderr, "user": [outside, inside],
                  "traffic": lab.status()["traffic"], "cubic": cubic.stdout.strip()}
    answer["left"] = [path.name for path in run_folder().iterdir()]
except WeirError as error:
    answer = {"error": str(error), "kind": type(error).__name__,
              "left": [path.name for path in run_folder().iterdir()]}
print(json.dumps(answer))
"""

CUBIC = (
    "import socket; s = socket.socket();"
    "s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'cubic'); print('taken')"
)

SCENARIO = """
[hosts]
a = { congestion = "cubic" }
b = {}
[[link]]
ends = ["a", "b"]
rate = "10 Mbit/s"
delay = "1 ms"
[[traffic]]
kind = "iperf3"
from = "a"
to = "b"
[[traffic]]
kind = "udp"
from = "b"
to = "a"
rate = "1 Mbit/s"
[[traffic]]
kind = "rpc"
from = "a"
to = "b"
"""


SWITCHED = """
[hosts]
a = {}
b = {}
[routers]
s = { kind = "switch" }
[[link]]
ends = ["a", "s"]
[[link]]
ends = ["s", "b"]
"""


def as_nobody(tmp_path, tun_mode, scenario=SCENARIO):
    """Runs PROGRAM as an ordinary user to whom /dev/net/tun has this mode; its answer."""
    if os.geteuid() != 0:
        pytest.skip("changing to another user needs root")
    folder = tmp_path / "nobody"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    lines = ["set -eu", "mount -t tmpfs -o mode=755 none /dev/net", "mknod /dev/net/tun c 10 200"]
    lines += [f"chmod {tun_mode:o} /dev/net/tun"]
    lines += _reachable([sys.prefix, sys.base_prefix, Path(__file__).parents[2], folder])
    lines += ['exec setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"']
    python = [sys.executable, "-c", PROGRAM, scenario, CUBIC]
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", "\n".join(lines), "bash", *python],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(folder)},
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _reachable(needed):
    """Shell lines that make folders reachable for everybody although one above them is not."""
    needed = {Path(path).resolve() for path in needed}
    closed = {above for path in needed for above in path.parents if not _passable(above)}
    tops = [path for path in closed if not closed & set(path.parents)]
    inside = sorted(path for path in needed if set(tops) & set(path.parents))
    lines = [f"exec {number}<{path}" for number, path in enumerate(inside, start=10)]
    lines += [f"mount -t tmpfs -o mode=755 none {top}" for top in tops]
    for number, path in enumerate(inside, start=10):
        lines += [
            f"mkdir -p {path}",
            f"mount --no-canonicalize --bind /proc/self/fd/{number} {path}",
        ]
    return lines


def _passable(path):
    return bool(path.stat().st_mode & stat.S_IXOTH)


def test_an_ordinary_user_has_a_lab_where_tun_is_open_to_all(tmp_path):
    answer = as_nobody(tmp_path, 0o666)
    assert "error" not in answer, answer
    assert "1 received" in answer["ping"]
    assert answer["user"] == [NOBODY, "0"]  # root inside, nobody outside
    assert answer["cubic"] == "taken"
    assert {flow["state"] for flow in answer["traffic"]} == {"running"}
    assert answer["left"] == ["lock"]


@pytest.mark.skipif(switches.missing() is not None, reason=f"{switches.missing()}")
def test_an_ordinary_user_has_switches_too(tmp_path):
    answer = as_nobody(tmp_path, 0o666, SWITCHED)
    assert "error" not in answer, answer
    assert "1 received" in answer["ping"]
    assert answer["left"] == ["lock"]


def test_an_ordinary_user_is_told_that_tun_is_closed(tmp_path):
    answer = as_nobody(tmp_path, 0o600)
    assert answer["kind"] == "Unsupported"
    assert "/dev/net/tun" in answer["error"] and "ermission denied" in answer["error"]
    assert answer["left"] == ["lock"]
