"""A lower class that an HTB starves for long, over the kernel's own TCP: no file waits for it."""

import json
import os
import subprocess
import sys

from rig import WEIR, until

# Others send more than the line carries, so that nothing is left for the lower class but the
# 8 kbit/s that HTB gives each class: a chunk of 1 MiB would take a quarter of an hour.
LINE = """
[lab]
name = "starved"
[hosts]
a = {}
b = {}
[routers]
west = {}
east = {}
[[link]]
ends = ["a", "west"]
[[link]]
name = "line"
ends = ["west", "east"]
delay = "5 ms"
[[link]]
ends = ["east", "b"]
[[traffic]]
kind = "udp"
from = "a"
to = "b"
rate = "20 Mbit/s"
"""
SHAPED = """
from weir.calendar.agents.enforcer import Allotment, Pair
from weir.calendar.agents.htb import Device, Shaper
shaper = Shaper([Device({device!r}, 16_000_000)])
shaper.install()
shaper.apply({{Pair({source!r}, {destination!r}, 7411): Allotment(10_000_000)}})
"""
# The promise alone takes 7 s.
SIZE = 7 * 2**20
# Where nothing that is stuck is raised, the last chunk is still on its way by then.
PATIENCE_S = 90.0


def events(text):
    return [json.loads(line) for line in text.splitlines()]


def test_a_file_is_not_late_because_its_lower_class_is_starved(lab_of, tmp_path):
    (tmp_path / "source").write_bytes(os.urandom(SIZE))
    (tmp_path / "root").mkdir()
    lab = lab_of(LINE)
    source, destination = lab.address("a"), lab.address("b")
    device = lab.device("west", "line")
    shaped = SHAPED.format(device=device, source=source, destination=destination)
    lab.run("west", [sys.executable, "-c", shaped], check=True)
    listen = f"{destination}:7411"
    send = [WEIR, "send", "--insecure", str(tmp_path / "source"), f"{listen}/copy"]
    command = [WEIR, "serve", "--root", str(tmp_path / "root"), "--listen", listen, "--insecure"]
    with (tmp_path / "served").open("wb") as log, lab.popen("b", command, stdout=log) as server:
        try:
            until(lambda: (tmp_path / "served").read_bytes())
            sent = lab.run(
                "a",
                [*send, "--rate", "8 Mbit/s", "--spare", "le", "--json"],
                stdout=subprocess.PIPE,
                text=True,
                timeout=PATIENCE_S,
            )
        finally:
            server.terminate()
    assert sent.returncode == 0
    assert (tmp_path / "root" / "copy").read_bytes() == (tmp_path / "source").read_bytes()
    # It did try.
    assert max(event.get("bytes_spare", 0) for event in events(sent.stdout)) > 0
