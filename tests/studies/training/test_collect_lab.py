"""Collecting in labs, from the kernel's own TCP: small paths whose truth is known.

100 packets of 1500 B wait 60 ms at 20 Mbit/s; the path itself takes 20 ms.
"""

import itertools
import json
import os
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from rig import PATIENCE_S, WEIR, lab_lacks

from studies.training.collecting import Setting, capture
from weir.congestion.recordings import NetworkPath, load_whole
from weir.lab import parse, rundir
from weir.probe import Pattern, Plan

PATH = NetworkPath(20_000_000, 20_000_000, 150_000, "fifo")
IDLE_MS, FULL_MS = 20, 80
SHORT = Plan(Fraction(20), 1, Fraction(2))
PAYLOAD_SHARE = 1448 / 1500


@pytest.fixture(autouse=True)
def _labs(tmp_path, monkeypatch):
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))


def command(file, *words):
    path = ["--path", str(PATH), "--seconds", "2", "--warmup", "1"]
    return [WEIR, "ops", "collect", "--out", str(file), "--json", *path, *words]


def test_an_idle_path_and_one_that_cubic_fills_are_told_apart(tmp_path, measured):
    numbers = itertools.count()

    def check():
        file = tmp_path / f"{next(numbers)}.npz"
        # From loss to loss takes CUBIC 5 s here (RFC 9438 section 4.2, K): a brim is among these.
        words = command(file, "--classes", "B0-C0,B0-C1", "--seconds", "7")
        done = subprocess.run(words, timeout=300, check=False)
        assert done.returncode in (0, 1)  # a busy machine is a flaw, which is told
        (idle, filled), _ = load_whole(file)
        for one in (idle, filled):
            assert (one.source, one.path, one.pattern, one.requests) == ("kernel", PATH, None, 1)
            assert len(one.rtt_ms) == len(one.lost) == 140
            assert one.made["kernel"] == os.uname().release
            assert f'rate = "{PATH.rate_bps} bit/s"' in one.made["scenario"]
        assert (idle.label, filled.label) == ("B0-C0", "B0-C1")
        # The path's own times are the least that there can be, and others on the machine add some.
        assert IDLE_MS - 0.1 < np.nanmedian(idle.rtt_ms) < 1.5 * IDLE_MS
        assert idle.background_bps == ()
        print(filled.rtt_ms.round(1), filled.background_bps)
        # CUBIC fills the queue to the brim and takes 30 % off (RFC 9438, section 4.6).
        assert np.nanmax(filled.rtt_ms) > FULL_MS - 3
        assert 0.65 * FULL_MS < np.nanmedian(filled.rtt_ms) < 1.5 * FULL_MS
        assert 0.6 < filled.background_bps[0] / (20e6 * PAYLOAD_SHARE) < 1.1

    measured(check)


def test_a_collection_that_is_killed_goes_on_where_it_was(tmp_path):
    file = tmp_path / "a.npz"
    words = command(file, "--classes", "B0-C0,R1")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as first:
        told = json.loads(first.stdout.readline())
        first.kill()
    kept, _ = load_whole(file)
    assert [one.label for one in kept] == ["B0-C0"] == [told["label"]]
    # The lab of the second recording ends with the process that it was made for.
    assert rundir.wait_until_dead("collect", PATIENCE_S)
    again = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=300, check=False)
    events = [json.loads(line) for line in again.stdout.splitlines()]
    assert [event["label"] for event in events] == ["B0-C0", "R1"]
    (idle, reno), _ = load_whole(file)
    if not told["flaws"]:
        assert [event["is_new"] for event in events] == [False, True]
        np.testing.assert_array_equal(idle.rtt_ms, kept[0].rtt_ms)
    assert 'congestion = "reno"' in reno.made["scenario"]
    # The kernel named another control than Reno's otherwise.
    assert not [flaw for flaw in reno.flaws if " was under " in flaw]


class Ending(Setting):
    """A setting whose streams stop when they are to be looked at."""

    def scenario(self):
        return super().scenario().replace("\nstart =", '\nstop = "2 s"\nstart =')


def test_a_background_that_ends_is_marked():
    ended = capture(Ending("R1", PATH, SHORT, 1.0))
    assert any(flaw.startswith("stream 0 (reno) had no connection") for flaw in ended.flaws)


def test_bursts_of_our_own_are_seen_beside_an_idle_background(measured):
    def check():
        one = capture(Setting("B0-C0", PATH, SHORT, 0.0, Pattern.parse("C1-S1")))
        assert one.pattern == "C1-S1"
        burst, silence = one.rtt_ms[10:20], one.rtt_ms[30:]
        print(one.rtt_ms.round(1))
        # Half a second after the burst the queue of 60 ms has drained.
        assert np.nanmedian(burst) > 2 * IDLE_MS
        assert IDLE_MS - 0.1 < np.nanmedian(silence) < 1.5 * IDLE_MS

    measured(check)


def test_datagrams_are_counted_where_they_arrive(measured):
    def check():
        setting = Setting("udp", PATH, SHORT, 1.0, seed=33)
        (traffic,) = parse(setting.scenario(), "made").traffic
        one = capture(setting)
        print(one.rtt_ms.round(1), one.background_bps)
        assert np.nanmax(one.rtt_ms) > FULL_MS - 3
        # While it is on, and until the queue has drained, the link carries what it can.
        on_s, period_s = traffic.on.ns / 1e9, (traffic.on.ns + traffic.off.ns) / 1e9
        share = (on_s + (FULL_MS - IDLE_MS) / 1e3) / period_s
        assert 0.5 < one.background_bps[0] / (share * 20e6 * 1470 / 1498) < 1.3

    measured(check)
