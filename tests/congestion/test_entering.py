"""Entering among streams of CUBIC: phases by worked examples, in virtual time."""

from types import SimpleNamespace

import pytest

from weir.congestion.cycle.entering import Entry

LINK_BPS = 100e6
STEP_S = 0.05


def look(
    delivered_bits, srtt_s, window_bps=0.0, starting=True, recovering=False, threshold_bps=0.0
):
    return SimpleNamespace(
        srtt_ns=round(srtt_s * 1e9),
        delivered_packets=round(delivered_bits / 8000),
        mss_bytes=1000,
        cwnd_packets=round(window_bps * srtt_s / 8000),
        threshold_packets=None if starting else round(threshold_bps * srtt_s / 8000),
        starting=starting,
        recovering=recovering,
    )


class Path:
    """A link of 100 Mbit/s and 30 ms where others give way, and come back, in seconds.

    Args:
        room_s: how long the others take to fill what we leave.
        others: whether there are any.
        loss_s: so often the queue overflows while it settles; never if it is None.
    """

    def __init__(self, room_s=4.0, others=True, loss_s=3.0):
        self.room_s = room_s
        self.loss_s = loss_s
        self.settling_s = 0.0
        self.losses = 0
        self.others = others
        self.at_s = self.bits = 0.0
        self.own_bps = 20e6 if others else LINK_BPS
        self.held_s = 0.0
        self.paces = []

    def step(self, entry):
        """What the kernel says after one more step of sending as the entry wants it."""
        self.at_s += STEP_S
        if entry.phase == "running":
            self.own_bps = min(0.9 * LINK_BPS if self.others else LINK_BPS, 1.2 * self.own_bps)
            queue_s = 0.03
        else:
            self.held_s += STEP_S
            self.own_bps = min(LINK_BPS, entry.pace_bps)
            self.paces.append(entry.pace_bps)
            queue_s = 0.03 if self.others and self.held_s >= self.room_s else 0.0
        self.bits += self.own_bps * STEP_S
        window_bps, starting = self.window(entry)
        if entry.phase == "holding":
            window_bps *= 0.03 / (0.03 + queue_s)  # BBR's is of the empty path
        return look(self.bits, 0.03 + queue_s, window_bps, starting)

    def window(self, entry):
        """CUBIC's from its share on: twice what it sends, and seven tenths with each loss."""
        if entry.phase != "settling":
            return 2 * self.own_bps, True
        self.settling_s += STEP_S
        if self.loss_s:
            self.losses = int(self.settling_s / self.loss_s + 1e-9)
        return 2 * entry.pace_bps * 0.7**self.losses, not self.losses


def entered(entry, path, most_s=60.0):
    """The phases in order, each with the seconds in which it began."""
    phases = [(entry.phase, 0.0)]
    entry.sees(0.0, [look(0.0, 0.06)])
    while entry.phase != "over" and path.at_s < most_s:
        entry.sees(path.at_s, [path.step(entry)])
        if entry.phase != phases[-1][0]:
            phases.append((entry.phase, path.at_s))
    return phases


def test_it_runs_until_it_grows_no_more_and_is_held_until_the_others_are_back():
    entry, path = Entry(5e6), Path(room_s=4.0)
    phases = entered(entry, path)
    assert [phase for phase, _ in phases] == ["running", "holding", "settling", "over"]
    assert 0.4 < phases[1][1] < 3.0
    assert phases[2][1] - phases[1][1] == pytest.approx(4.1, abs=0.2)


def test_the_longer_the_others_take_the_fewer_they_are_and_the_faster_it_is_paced():
    """400 packets fill the path, 170 were left; RFC 9438 has each regain 18 a second."""
    counts = {}
    for room_s in (0.5, 2.0, 4.0, 12.0):
        entry, path = Entry(5e6), Path(room_s=room_s)
        entered(entry, path)
        counts[room_s] = entry.others
        held = [pace for pace in path.paces if pace]
        assert held == sorted(held)
        assert held[0] == pytest.approx(LINK_BPS / 9, rel=0.05)
        assert path.own_bps >= 0.95 * LINK_BPS / (1 + entry.others)
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    assert counts[0.5] > 5
    assert 3.5 < counts[2.0] < 6
    assert counts[12.0] == 1.0


def test_it_is_never_held_below_what_it_had():
    entry, path = Entry(20e6), Path(room_s=0.5)
    entered(entry, path)
    assert min(path.paces) == pytest.approx(20e6)


def test_where_nobody_gives_way_nobody_was_there():
    assert [phase for phase, _ in entered(Entry(LINK_BPS), Path(others=False))] == [
        "running",
        "over",
    ]


def test_others_that_do_not_come_back_are_waited_for_no_longer_than_fourteen_seconds():
    entry, path = Entry(20e6), Path(room_s=1000.0)
    (_, _), (_, held_s), (_, settling_s), _ = entered(entry, path)
    assert settling_s - held_s == pytest.approx(14.0, abs=0.2)


def test_it_stays_paced_until_losses_have_made_its_window_that_of_its_share():
    """CUBIC after BBR starts slowly: a window of 2, 1.4 and then 0.98 of its share."""
    entry, path = Entry(20e6), Path(loss_s=3.0)
    phases = dict(entered(entry, path))
    assert path.losses == 2
    assert phases["over"] - phases["settling"] == pytest.approx(6.0, abs=0.2)
    assert path.own_bps == pytest.approx(0.5 * LINK_BPS, rel=0.03)
    assert entry.pace_bps is None


def test_while_no_loss_comes_the_pace_grows_and_it_is_not_left_to_slow_start():
    """By a twentieth a second, after eight seconds; four times the pace takes 28."""
    entry, path = Entry(20e6), Path(room_s=13.0, loss_s=None)
    phases = dict(entered(entry, path))
    assert phases["over"] - phases["settling"] == pytest.approx(8 + 27.7, abs=0.3)
    assert max(path.paces) == pytest.approx(4 * 0.5 * LINK_BPS, rel=0.05)


def test_what_is_less_while_a_loss_is_repaired_is_no_window():
    entry, path = Entry(20e6), Path(loss_s=3.0)
    while entry.phase != "settling":
        entry.sees(path.at_s, [path.step(entry)])
    small = look(path.bits + 1e9, 0.06, 0.5 * entry.pace_bps, False, True)
    assert entry.sees(path.at_s + STEP_S, [small]) == "settling"
    small.recovering = False
    assert entry.sees(path.at_s + 2 * STEP_S, [small]) == "over"


def test_a_small_window_that_slow_start_would_make_large_is_not_let_loose():
    """BBR leaves a threshold of all that the path carries; HyStart sees it is too much, later."""
    entry, path = Entry(20e6), Path(loss_s=3.0)
    while entry.phase != "settling":
        entry.sees(path.at_s, [path.step(entry)])
    small = entry.pace_bps
    for then, phase in ((3 * small, "settling"), (small, "over")):
        path.at_s, path.bits = path.at_s + STEP_S, path.bits + 1e6
        told = look(path.bits, 0.06, small, starting=False, threshold_bps=then)
        assert entry.sees(path.at_s, [told]) == phase


def test_what_has_more_than_its_share_is_held_at_once():
    entry = Entry(90e6, is_over=True)
    assert entry.phase == "holding"
    assert entry.pace_bps == pytest.approx(LINK_BPS / 3)


def test_a_rate_that_grows_for_ever_ends_the_run_after_four_seconds():
    entry, bits = Entry(1e6), 0.0
    entry.sees(0.0, [look(0.0, 0.06)])
    rate_bps, at_s = 1e6, 0.0
    while entry.phase == "running":
        at_s, rate_bps = at_s + STEP_S, 1.1 * rate_bps
        bits += rate_bps * STEP_S
        entry.sees(at_s, [look(bits, 0.06)])
    assert at_s == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize("then", [[], [look(1e6, 0.06)] * 2, [look(0.0, 0.06)]])
def test_other_connections_end_it(then):
    entry = Entry(20e6)
    entry.sees(0.0, [look(1e6, 0.06)])
    entry.sees(0.1, then)
    assert entry.phase == "over"
    assert entry.pace_bps is None
