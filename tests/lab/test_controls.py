"""A lab gives the kernel what it lacks, DCTCP as in RFC 8257, and takes it back when it ends."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab_rig import LINE, supervisor_of
from rig import lab_lacks, until

from weir.errors import Unsupported
from weir.lab import load, parse
from weir.lab.controls import Given, between

# What the kernel has is the same for every lab of the machine.
pytestmark = pytest.mark.alone

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
BTF = Path("/sys/kernel/btf/vmlinux")
DCTCP = LINE.replace("a = {}", 'a = { congestion = "dctcp" }')
# A round trip of 20 ms is 250 kB. The queue marks what finds more than 60 kB in it: above the
# seventh of the product from which DCTCP leaves no gap, and far below the whole that Reno takes.
STEP = """
[hosts]
a = { ecn = true }
b = {}
[[link]]
ends = ["a", "b"]
rate = "100 Mbit/s"
delay = "10 ms"
[link.forward.queue]
discipline = "red"
limit = "500 kB"
min_threshold = "60000 B"
max_threshold = "60001 B"
weight = 1.0
ecn = true
[[traffic]]
kind = "iperf3"
from = "a"
to = "b"
"""


def given():
    """The names by which the kernel has DCTCP from labs."""
    return set(re.findall(r"\bdctcp_[0-9a-f]{8}\b", AVAILABLE.read_text()))


@pytest.fixture
def before():
    """The names that were there before; skips where none can be given."""
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    if not BTF.exists():
        pytest.skip(f"BPF programs need {BTF}")
    return given()


def connection(lab):
    """What the kernels of `a` and `b` say that a connection from one to the other has."""
    probe = (
        "import socket; s = {}; "
        "print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b'\\0').decode())"
    )
    listening = "socket.create_server(('', 7000)); print(flush=True); s = s.accept()[0]"
    python, b = [sys.executable, "-c"], lab.address("b")
    server = [*python, probe.format(listening)]
    with lab.popen("b", server, stdout=subprocess.PIPE, text=True) as accepting:
        assert accepting.stdout.readline() == "\n"
        client = [*python, probe.format(f"socket.create_connection(('{b}', 7000))")]
        opened = lab.run("a", client, capture_output=True, text=True).stdout
        return opened.strip(), accepting.stdout.readline().strip()


def test_both_ends_have_it_while_the_lab_is_up(before, lab_of):
    lab = lab_of(DCTCP)
    (name,) = given() - before
    assert connection(lab) == (name, name)
    lab.down()
    assert given() == before


def test_two_labs_have_one_each(before, lab_of):
    one, other = lab_of(DCTCP), lab_of(DCTCP)
    assert len(given() - before) == 2
    one.down()
    (name,) = given() - before
    assert connection(other) == (name, name)


def test_the_kernel_forgets_it_when_the_lab_is_killed(before, lab_of):
    lab = lab_of(DCTCP)
    os.kill(supervisor_of(lab), signal.SIGKILL)
    until(lambda: given() == before)


def test_a_peer_that_refuses_ecn_gets_reno(before, lab_of):
    """Where a control is named the lab gives no other, and CUBIC does not agree to marked SYNs."""
    lab = lab_of(DCTCP.replace("b = {}", 'b = { congestion = "cubic" }'))
    assert connection(lab) == ("reno", "cubic")


@pytest.mark.parametrize(("control", "least", "most"), [("dctcp", 0.97, 1.01), ("reno", 0.4, 0.94)])
def test_marks_above_a_seventh_of_the_product_leave_no_gap(
    before, lab_of, measured, control, least, most
):
    """Alizadeh et al., SIGCOMM 2010, equation 13; Reno's window falls to 155 kB of 250 here."""
    lab = lab_of(f'{STEP}congestion = "{control}"\n')

    def check():
        first, then = (after(lab, passed) for passed in (45_000_000, 70_000_000))
        rate = 8 * (then["bytes_out"] - first["bytes_out"]) / (then["at_s"] - first["at_s"])
        assert least < rate / 100e6 < most
        assert then["classes"][0]["marked"] > first["classes"][0]["marked"]
        assert then["dropped_queue"] == first["dropped_queue"]

    measured(check)


def test_each_mark_is_echoed_once(before, lab_of):
    """RFC 8257 section 3.2, with acknowledgements delayed; that of RFC 3168 tells thousands."""
    lab = lab_of(f'{STEP}congestion = "dctcp"\n')
    sockets = ["ss", "-Htin", "dst", lab.address("b")]

    def echoed():
        told = lab.run("a", sockets, capture_output=True, text=True).stdout
        return sum(map(int, re.findall(r"delivered_ce:(\d+)", told)))

    earlier = after(lab, 90_000_000)["classes"][0]["marked"]
    assert earlier > 100
    told = until(lambda: (now := echoed()) >= earlier and now)
    later = after(lab, 0)["classes"][0]["marked"]
    # On a busy machine segments share acknowledgements: four of a hundred too many were seen.
    assert told <= 1.5 * later


def test_the_kernels_dctcp_and_cubic_share_a_line_by_dual_pi2(before, lab_of, measured):
    """RFC 9332: about equal rates, the one without a queue to speak of, the other with PI2's."""
    lab = lab_of(load("scenarios/dualq.toml"))

    def check():
        first, then = (after(lab, passed) for passed in (25_000_000, 40_000_000))
        l4s, classic = (
            new | {key: new[key] - old[key] for key in ("bytes_out", "marked")}
            for old, new in zip(first["classes"], then["classes"], strict=True)
        )
        assert 0.4 < l4s["bytes_out"] / classic["bytes_out"] < 2.5
        assert l4s["marked"] > 0 == classic["marked"]
        assert l4s["sojourn"]["p50_ns"] < 2e6 < 8e6 < classic["sojourn"]["p50_ns"] < 30e6

    measured(check)


def after(lab, passed):
    """The last link's counters once some bytes more have passed, and when."""

    def counted():
        return lab.status()["links"][-1]["forward"]

    until_bytes = counted()["bytes_out"] + passed
    enough = until(lambda: (now := counted())["bytes_out"] >= until_bytes and now)
    return enough | {"at_s": time.monotonic()}


@pytest.mark.parametrize(
    ("node", "peer", "control"),
    [("a", "b", "dctcp"), ("b", "a", "dctcp"), ("c", "a", "bbr"), ("a", "c", "dctcp")],
)
def test_hosts_without_a_control_of_their_own_speak_dctcp_to_one_that_does(node, peer, control):
    star = """
[hosts]
a = { congestion = "dctcp" }
b = {}
c = { congestion = "bbr" }
[routers]
r = {}
"""
    links = (f'[[link]]\nends = ["{end}", "r"]\n' for end in "abc")
    assert between(parse(star + "".join(links)), node, peer) == control


def test_hosts_speak_dctcp_to_those_with_which_they_share_traffic_of_it():
    scenario = parse(STEP + 'congestion = "dctcp"\n')
    assert between(scenario, "a", "b") == between(scenario, "b", "a") == "dctcp"
    assert between(parse(STEP + 'congestion = "reno"\n'), "a", "b") == "cubic"


def test_a_machine_without_a_compiler_is_told_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="clang is not installed"):
        Given().give("dctcp")


def test_a_program_that_does_not_compile_is_told(monkeypatch, tmp_path):
    false = tmp_path / "clang"
    false.write_text("#!/bin/sh\necho no such target >&2\nexit 1\n")
    false.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="clang: no such target"):
        Given().give("dctcp")


def test_whoever_may_not_is_told_that_root_is_needed(before):
    program = (
        "from weir.lab.controls import Given\n"
        "try: Given().give('dctcp')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    without = ["setpriv", "--bounding-set", "-bpf,-sys_admin", "--", sys.executable, "-c", program]
    said = subprocess.run(without, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.startswith("Unsupported")
    assert "root is needed" in said
    assert given() == before


def test_a_fixed_window_is_two_segments_from_the_first_connection_on(before, lab_of):
    line = LINE.replace("a = {}", 'a = { congestion = "fixed2" }')
    lab = lab_of(line + 'rate = "10 Mbit/s"\ndelay = "5 ms"\n')
    python, b = [sys.executable, "-c"], lab.address("b")
    sink = "import socket; s = socket.create_server(('', 7000)); print(flush=True)\n"
    sink += "s = s.accept()[0]\nwhile s.recv(65536): pass"
    source = f"import socket; socket.create_connection(('{b}', 7000)).sendall(bytes(500_000))"
    ss = ["ss", "-tinHO", "state", "established", "dport", "=", ":7000"]
    with lab.popen("b", [*python, sink], stdout=subprocess.PIPE, text=True) as receiving:
        assert receiving.stdout.readline() == "\n"
        windows, begin_s = [], time.monotonic()
        with lab.popen("a", [*python, source]) as sending:
            while sending.poll() is None:
                told = lab.run("a", ss, capture_output=True, text=True).stdout
                windows += re.findall(r"\bcwnd:(\d+)", told)
        span_s = time.monotonic() - begin_s
    assert windows and set(windows) == {"2"}
    # 173 turns of two segments, a round trip of 10 ms each.
    assert span_s > 1.5
