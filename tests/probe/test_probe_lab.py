"""Probing over emulated links with the kernel's own TCP: what is measured is what the link does.

The oracles are the scenario's figures and the emulator's counters.
"""

import contextlib
import os
import re
import statistics
import sys

import pytest
from probe_rig import PORT, Pair, pair
from rig import WEIR, lab_lacks

from weir.probe.carrier import HELLO, UNSENT_MAX_BYTES

# Full packets carry 1448 B of payload in 1500 B, and the link's rate counts the whole packet.
PAYLOAD_SHARE = 1448 / 1500


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Brings up labs that last for the module."""
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    before = os.environ.get("WEIR_RUNTIME_DIR")
    os.environ["WEIR_RUNTIME_DIR"] = str(tmp_path_factory.mktemp("probe") / "run")
    with contextlib.ExitStack() as stack:
        yield lambda scenario, **options: Pair(stack, scenario, **options)
    if before is None:
        del os.environ["WEIR_RUNTIME_DIR"]
    else:
        os.environ["WEIR_RUNTIME_DIR"] = before


@pytest.fixture(scope="module")
def wan(pairs):
    """100 Mbit/s, 20 ms round trip, 40 ms of queue."""
    keys = {"rate": '"100 Mbit/s"', "delay": '"10 ms"', "queue": '{ limit = "40 ms" }'}
    return pairs(pair("wan", **keys), serve=True)


@pytest.mark.alone
@pytest.mark.parametrize("words", [[], ["--udp", PORT]], ids=["icmp", "udp"])
def test_the_idle_round_trip_is_the_links(wan, measured, words):
    def check():
        samples, done = wan.probe("--rate", 100, "--seconds", 1, *words)
        assert len(samples) == 100
        rtt = done["rtt_ms"]
        print(rtt)
        # The lab's own promise (docs/lab.md) is 0.3 ms.
        assert rtt["p50"] == pytest.approx(20, abs=0.3)
        assert rtt["min"] >= 20
        assert done["replies"] == done["requests"] == done["kernel_stamped"]

    measured(check)


def test_ping_sockets_need_no_privilege(wan, measured):
    command = ["sh", "-c", 'echo "0 2147483647" > /proc/sys/net/ipv4/ping_group_range']
    wan.lab.run("a", command)
    unprivileged = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
    open_one = (
        "from weir.probe import IcmpEcho, Target; "
        "echo = IcmpEcho(Target.resolve('b')); echo.send(0); print(echo.how)"
    )
    python = [sys.executable, "-c", open_one]
    done = wan.lab.run("a", [*unprivileged, *python], check=False, capture_output=True, text=True)
    assert done.stdout == "ICMP, ping socket\n", done.stderr

    def check():
        _, done = wan.probe("--rate", 10, "--seconds", 0.5, "--timeout", 5)
        assert 20 <= done["rtt_ms"]["p50"] < 200
        # A machine that is late by more than a period misses samples.
        assert 0 < done["replies"] == done["requests"] <= 50

    measured(check)
    wan.lab.run("a", ["sh", "-c", 'echo "1 0" > /proc/sys/net/ipv4/ping_group_range'])


@pytest.mark.alone
def test_a_queue_that_cubic_fills_shows_its_delay(pairs, measured):
    # 4 ms of propagation and up to 40 ms of queue: at most 73 packets under way. After a drop 22
    # less, and 0.53 more with every round trip of 38 ms (RFC 9438, section 4.3): the queue
    # overflows every 1.6 s.
    keys = {"rate": '"20 Mbit/s"', "delay": '"2 ms"', "queue": '{ limit = "40 ms" }'}
    filled = pairs(pair("filled", **keys))

    def check():
        with filled.cubic_background():
            _, done = filled.probe("--rate", 20, "--seconds", 3)
        rtt = done["rtt_ms"]
        print(rtt)
        assert rtt["max"] == pytest.approx(44, abs=1.5)
        # Between 0.7 x 44 and 44 ms; less only while many losses of slow start are mended.
        assert 28 < rtt["p50"] < 44

    measured(check)


def test_every_lost_packet_is_counted_and_no_other(pairs):
    lossy = pairs(pair("lossy", delay='"1 ms"', forward='{ loss = "5 %" }'))
    before = lossy.forward()["dropped_loss"]
    # What is late on a busy machine is not lost.
    samples, done = lossy.probe("--rate", 100, "--seconds", 2, "--timeout", 4)
    lost = done["requests"] - done["replies"]
    assert lost == lossy.forward()["dropped_loss"] - before
    assert lost == sum(sample["requests"] - sample["replies"] for sample in samples)
    # Binomial, four standard deviations.
    share, count = 0.05, done["requests"]
    assert lost == pytest.approx(share * count, abs=4 * (share * (1 - share) * count) ** 0.5)
    assert done["loss"] == pytest.approx(lost / count)


def test_a_path_that_answers_nothing_is_told_with_the_time(pairs):
    deaf = pairs(pair("deaf", forward='{ loss = "100 %" }'))
    words = ["probe", "b", "--rate", "20", "--seconds", "0.5", "--timeout", "0.3"]
    done = deaf.lab.run("a", [WEIR, *words], check=False, capture_output=True, text=True)
    assert done.returncode == 6
    # It would be 100, less what a late machine missed.
    said = r"b \(10\.77\.0\.2\) answered none of [1-9]\d* echo requests in \d+\.\d s"
    assert re.search(said, done.stderr), done.stderr
    assert "--udp PORT" in done.stderr
    assert done.stdout == ""


@pytest.mark.alone
def test_bursts_follow_the_pattern_and_tcp_info_tells_the_links_rate(wan, measured):
    def check():
        before = wan.forward()
        samples, done = wan.probe("--rate", 20, "--active", "B2-S1-C1", "--sink", PORT)
        bbr, silence, cubic = done["turns"]
        assert len(samples) == 80
        print(done["turns"])
        assert [turn["begin_s"] for turn in done["turns"]] == [0, 2, 3]
        assert max(turn["late_ms"] for turn in done["turns"]) < 50
        # BBR has found the rate after its first second, and bursts are the link's rate wide.
        late = [each for each in samples if 1 <= each["t_s"] < 2]
        rates = [each["delivery_rate_bps"] for each in late]
        assert statistics.median(rates) == pytest.approx(100e6 * PAYLOAD_SHARE, rel=0.05)
        assert 0.5 * 200e6 < bbr["confirmed_bytes"] * 8 <= 200e6
        assert 0.5 * 100e6 < cubic["confirmed_bytes"] * 8 <= 100e6
        # Section 8.5: a burst ends when it is told to. At most 256 KiB (22 ms here) are unsent;
        # the last of them takes a round trip (60 ms), another if it is lost, and 15 ms to notice.
        for burst in (bbr, cubic):
            assert 20 < burst["drain_ms"] < 22 + 2 * 60 + 15
        assert silence["confirmed_bytes"] * 8 <= 100e6 * 0.101
        still = [each for each in samples if 2.2 <= each["t_s"] < 3]
        assert {each["segment"] for each in still} == {"S1"}
        assert len({each["acked_bytes"] for each in still}) == 1
        assert statistics.median(each["rtt_ms"] for each in still) == pytest.approx(20, abs=0.5)
        assert max(each["unsent_bytes"] for each in samples) <= UNSENT_MAX_BYTES + 64 * 1024
        # Linux begins anew with CUBIC after silence, unless told otherwise.
        assert done["slow_start_after_idle"] is True
        # What the sink has confirmed in the end is what the kernel saw acknowledged, less our
        # greeting and the SYN, and no more than the link has carried.
        assert done["next_offset"] == done["tcp"]["acked_bytes"] - len(HELLO) - 1
        assert done["next_offset"] <= wan.forward()["bytes_out"] - before["bytes_out"]

    measured(check)


def test_a_file_goes_with_the_bursts_and_ends_them(wan, tmp_path):
    size, offset = 3_000_000, 1_234
    (tmp_path / "file").write_bytes(os.urandom(size))
    words = ["--active", "B1-C40", "--sink", PORT, "--file", tmp_path / "file", "--offset", offset]
    samples, done = wan.probe("--rate", 20, *words)
    # 3 MB take less than a second of the forty-one, and the probing ends with them.
    assert done["next_offset"] == size
    assert sum(turn["confirmed_bytes"] for turn in done["turns"]) == size - offset
    assert samples[-1]["t_s"] < 30
