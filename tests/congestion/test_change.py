"""Whether a background has changed, told from made-up counters in virtual time."""

import math
import random
import re

import pytest

from weir.congestion.cycle.change import BLOCK_S, EARLIEST_S, SETTLE_S, ChangeDetector
from weir.probe.tcp_info import parse_tcp_info

EMPTY = parse_tcp_info(b"")
STEP_S = 0.25


def info(acked, srtt_ms):
    changed = {"acked_bytes": int(acked), "srtt_ns": int(srtt_ms * 1e6)}
    return type(EMPTY)(**{name: changed.get(name) for name in EMPTY.__slots__})


def first_change(
    rate, srtt_ms=lambda at_s: 80.0, until_s=600.0, reset_s=math.inf, looks=lambda step: True
):
    """When a change is seen of a goodput `rate(at_s)` in bit/s, and what is said; or None.

    The clock of who looks, at the steps that `looks` says, began long before.
    """
    detector, acked = ChangeDetector(), 0.0
    for step in range(int(until_s / STEP_S)):
        at_s = step * STEP_S
        acked = 0.0 if abs(at_s - reset_s) < STEP_S / 2 else acked + rate(at_s) / 8 * STEP_S
        if not looks(step):
            continue
        if said := detector.sees(7000.0 + at_s, [info(acked, srtt_ms(at_s))]):
            return at_s, said
    return None


def test_a_steady_path_has_not_changed():
    noise = random.Random(1)
    assert first_change(lambda at_s: 250e6 * noise.uniform(0.6, 1.4)) is None


def test_a_sawtooth_is_no_change():
    """CUBIC between 0.7 and 1 of a mean over 20 s."""
    assert first_change(lambda at_s: 250e6 * (0.7 + 0.3 * (at_s % 20) / 20)) is None


def test_growth_towards_a_share_is_no_change():
    assert first_change(lambda at_s: 250e6 * (1 - 0.8 * math.exp(-at_s / 60))) is None


@pytest.mark.parametrize("factor", [0.2, 0.6, 1.6, 4.0])
def test_a_jump_is_seen_within_three_blocks(factor):
    at_s, said = first_change(lambda at_s: 250e6 * (factor if at_s >= 100 else 1))
    assert 100 + BLOCK_S < at_s <= 100 + 3 * BLOCK_S
    told = float(re.fullmatch(r"goodput is (\S+) times what it was", said)[1])
    assert told == pytest.approx(factor, rel=0.05)


def test_one_odd_block_is_no_change():
    """BBR's probing for the least round-trip time, or one loss."""
    assert first_change(lambda at_s: 250e6 * (0.1 if at_s % 60 < 4 else 1)) is None


def test_two_blocks_in_a_row_are_a_change_and_no_earlier_ones():
    at_s, _ = first_change(lambda at_s: 250e6 * (2 if at_s >= 100 else 1))
    assert at_s == 100 + 2 * BLOCK_S
    at_s, _ = first_change(lambda at_s: 250e6 * (2 if at_s >= EARLIEST_S - 2 * BLOCK_S else 1))
    assert at_s == EARLIEST_S


def test_what_goes_up_and_down_by_turns_is_no_change():
    def swinging(at_s):
        return 250e6 * (1 if at_s < 100 else 3 if (at_s - 100) % (2 * BLOCK_S) < BLOCK_S else 0.3)

    assert first_change(swinging) is None


def test_how_often_one_looks_changes_nothing():
    """Forty looks in a block and then one, in blocks that last nearly twice as long."""
    seldom = round((2 * BLOCK_S - 1) / STEP_S)
    looks = {step for step in range(2400) if step < 400 or not step % seldom}
    assert first_change(lambda at_s: 250e6, looks=looks.__contains__) is None


def test_a_queue_that_fills_is_a_change():
    at_s, said = first_change(lambda at_s: 250e6, lambda at_s: 160.0 if at_s >= 100 else 80.0)
    assert at_s <= 100 + 3 * BLOCK_S
    assert said == "round-trip time is 2 times what it was"


def test_nothing_is_compared_before_the_control_has_settled():
    assert first_change(lambda at_s: 1e6 if at_s < SETTLE_S else 250e6) is None


def test_new_connections_count_anew():
    assert first_change(lambda at_s: 250e6, reset_s=100.0) is None


def test_no_connection_tells_nothing():
    detector = ChangeDetector()
    assert all(detector.sees(float(at_s), []) is None for at_s in range(100))
