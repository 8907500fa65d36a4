"""A path that loses packets at random: of itself `weir send` takes the kernel's control for it."""

import json
import os

import pytest
from rig import WEIR, until

from weir import kernel_controls

# By its response function CUBIC carries 3.5 Mbit/s there.
LOSSY = """
[lab]
name = "lossy"
seed = 7
[hosts]
a = {}
b = {}
[[link]]
ends = ["a", "b"]
rate = "20 Mbit/s"
delay = "15 ms"
queue = { discipline = "fifo", limit = "100 ms" }
forward = { loss = "2 %" }
"""


@pytest.mark.skipif("bbr" not in kernel_controls.available(), reason="the kernel has no BBR")
def test_a_file_goes_on_under_what_takes_no_loss_for_congestion(lab_of, tmp_path):
    source, root = tmp_path / "source", tmp_path / "root"
    source.write_bytes(os.urandom(8_000_000))
    root.mkdir()
    lab = lab_of(LOSSY)
    place = f"{lab.address('b')}:7411"
    serve = [WEIR, "serve", "--root", str(root), "--listen", place, "--insecure"]
    command = [WEIR, "send", source, f"{place}/copy", "--insecure", "--json"]
    with (tmp_path / "served").open("wb") as log, lab.popen("b", serve, stdout=log) as server:
        try:
            until(lambda: (tmp_path / "served").read_bytes())
            sent = lab.run("a", command, capture_output=True, text=True, timeout=120)
        finally:
            server.terminate()
    assert sent.returncode == 0, sent.stderr
    events = [json.loads(line) for line in sent.stdout.splitlines()]
    choices = [event for event in events if event["event"] == "choice"]
    # On a busy machine the path may look like somebody, or like nothing that is known.
    is_nobody = choices[0]["known"] and choices[0]["probabilities"].get("B0-C0", 0) >= 0.5
    assert not is_nobody or "bbr" in [choice["control"] for choice in choices], choices
    assert (root / "copy").read_bytes() == source.read_bytes()
