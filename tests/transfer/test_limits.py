"""What limits a transfer: told from the kernel's counts, made up here and taken from a real one."""

import json
import os
import struct
import subprocess

import pytest
from rig import WEIR, lab_lacks, until

from weir.lab import Lab, parse
from weir.transfer.limits import Limits

MIB = 2**20


def told(busy_s, peer_s=0.0, buffer_s=0.0, acked=0, pace=2**64 - 1, window=6 * MIB):
    """A `struct tcp_info` with these values at the places of <linux/tcp.h>."""
    info = bytearray(248)
    struct.pack_into("=QQ", info, 112, pace, acked)
    spans = (round(span * 1e6) for span in (busy_s, peer_s, buffer_s))
    struct.pack_into("=QQQ", info, 168, *spans)
    struct.pack_into("=I", info, 228, window)
    return bytes(info)


def limit(*looks, seconds=10.0, file_bytes=MIB):
    """What is found after looks that are so far apart in all."""
    limits = Limits()
    for number, look in enumerate(looks):
        limits.look(seconds * number / (len(looks) - 1), [look])
    return limits.found(file_bytes)


BEGIN = told(0.1)


@pytest.mark.parametrize(
    ("last", "by", "share"),
    [
        (told(10.0), "path", 0.99),
        (told(10.0, peer_s=8.0), "receiver window", 0.8),
        (told(10.0, buffer_s=7.0), "send buffer", 0.7),
        (told(2.1), "sender's disk", 0.8),
    ],
)
def test_the_limit_is_what_took_most_of_the_time(last, by, share):
    found = limit(BEGIN, last)
    assert found.by == by
    assert found.share == pytest.approx(share, abs=0.01)


def test_a_window_that_is_closed_while_it_was_wide_is_the_receivers_disk():
    closed = [told(3.0 * n, peer_s=2.8 * n, window=200_000) for n in (1, 2, 3)]
    assert limit(BEGIN, told(0.5), *closed).by == "receiver's disk"


def test_where_nothing_is_under_way_small_files_are_the_reason_if_they_are_small():
    assert limit(BEGIN, told(2.1), file_bytes=20_000).by == "small files"
    assert limit(BEGIN, told(9.0), file_bytes=20_000).by == "path"


def test_a_kernels_limit_comes_with_the_command_that_raises_it():
    window = limit(BEGIN, told(10.0, peer_s=9.0)).remedy
    assert window == f'at the receiver: sysctl -w net.ipv4.tcp_rmem="4096 131072 {24 * MIB}"'
    assert limit(BEGIN, told(10.0, buffer_s=9.0)).remedy.startswith(
        "here: sysctl -w net.ipv4.tcp_w"
    )
    assert limit(BEGIN, told(10.0)).remedy == ""


def test_a_pace_that_is_kept_is_the_limit():
    # 10 s at 10^6 bytes per second.
    assert limit(told(0.1, pace=10**6), told(10.0, acked=9_500_000, pace=10**6)).by == "rate"
    assert limit(told(0.1, pace=10**6), told(10.0, acked=5_000_000, pace=10**6)).by == "path"


def test_nothing_is_said_of_a_moment_an_even_mix_or_an_older_kernel():
    assert limit(BEGIN, told(0.6), seconds=0.5) is None
    assert limit(BEGIN, told(7.0, peer_s=3.3)) is None
    assert limit(BEGIN[:160], told(10.0)[:160]) is None
    assert Limits().found(MIB) is None


def test_connections_of_another_attempt_begin_anew():
    limits = Limits()
    for at_s, look in [(0.0, told(5.0)), (5.0, told(9.9)), (30.0, told(0.1)), (34.0, told(4.0))]:
        limits.look(at_s, [look])
    assert limits.found(MIB).by == "path"


PAIR = '[hosts]\na = {}\nb = {}\n[[link]]\nends = ["a", "b"]\nrate = "30 Mbit/s"\ndelay = "20 ms"\n'


@pytest.mark.skipif(lab_lacks() is not None, reason=f"no lab: {lab_lacks()}")
@pytest.mark.parametrize(("window", "by"), [(None, "path"), (2**17, "receiver window")])
def test_a_real_path_and_a_real_window_are_told_apart(window, by, tmp_path, monkeypatch):
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    source = tmp_path / "source"
    # The window is 64 KiB of these, which 40 ms let through at 13 Mbit/s.
    source.write_bytes(os.urandom(8 * MIB if window is None else 4 * MIB))
    (tmp_path / "root").mkdir()
    with Lab.up(parse(PAIR)) as lab:
        if window:
            change = f"echo 4096 {window} {window} > /proc/sys/net/ipv4/tcp_rmem"
            lab.run("b", ["sh", "-c", change])
        listen = f"{lab.address('b')}:7411"
        command = [WEIR, "serve", "--root", str(tmp_path / "root"), "--listen", listen]
        with (tmp_path / "log").open("wb") as log:
            server = lab.popen("b", [*command, "--insecure"], stdout=log)
        with server:
            until(lambda: (tmp_path / "log").read_bytes())
            send = [WEIR, "send", str(source), f"{listen}/copy", "--insecure", "--json"]
            done = lab.run("a", send, stdout=subprocess.PIPE, text=True, timeout=120)
            server.kill()
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["event"] == "done"
    assert last["limited_by"] == by, last
    assert ("tcp_rmem" in (last["remedy"] or "")) == (window is not None)
