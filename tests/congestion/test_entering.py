"""Entering among streams of CUBIC: phases by worked examples, in virtual time."""

from types import SimpleNamespace

import pytest

from weir.congestion.cycle.entering import Entry

LINK_BPS = 100e6
STEP_S = 0.05


def look(delivered_bits, srtt_s, window_bps=0.0, starting=True):
    return SimpleNamespace(
        srtt_ns=round(srtt_s * 1e9),
        delivered_packets=round(delivered_bits / 8000),
        mss_bytes=1000,
        cwnd_packets=round(window_bps * srtt_s / 8000),
        starting=starting,
    )


class Path:
    """A link of 100 Mbit/s and 30 ms where others give way, and come back, in seconds.

    Args:
        room_s: how long the others take to come back to half of it.
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

    def step(self, entry):
        """What the kernel says after one more step of sending as the entry wants it."""
        self.at_s += STEP_S
        if entry.phase == "running":
            self.own_bps = min(0.9 * LINK_BPS if self.others else LINK_BPS, 1.2 * self.own_bps)
            queue_s = 0.03
        else:
            self.held_s += STEP_S
            self.own_bps = min(LINK_BPS, entry.pace_bps)
            queue_s = 0.03 if self.others and self.held_s >= self.room_s else 0.0
        self.bits += self.own_bps * STEP_S
        return look(self.bits, 0.03 + queue_s, *self.window(entry))

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


def test_it_runs_until_it_grows_no_more_and_is_held_at_its_share_until_the_others_are_back():
    entry, path = Entry(0.5, 20e6), Path(room_s=4.0)
    paces = []
    phases = entered(entry, path)
    assert [phase for phase, _ in phases] == ["running", "holding", "settling", "over"]
    assert 0.4 < phases[1][1] < 1.5
    assert phases[2][1] - phases[1][1] == pytest.approx(4.0, abs=0.2)
    paces.append(path.own_bps)
    assert paces == [pytest.approx(0.5 * LINK_BPS, rel=0.03)]


def test_where_nobody_gives_way_nobody_was_there():
    assert [phase for phase, _ in entered(Entry(0.5, LINK_BPS), Path(others=False))] == [
        "running",
        "over",
    ]


def test_others_that_do_not_come_back_are_waited_for_no_longer_than_twelve_seconds():
    entry, path = Entry(0.5, 20e6), Path(room_s=1000.0)
    (_, _), (_, held_s), (_, settling_s), _ = entered(entry, path)
    assert settling_s - held_s == pytest.approx(12.0, abs=0.2)


def test_it_stays_paced_until_losses_have_made_its_window_that_of_its_share():
    """CUBIC after BBR starts slowly: a window of 2, 1.4 and then 0.98 of its share."""
    entry, path = Entry(0.5, 20e6), Path(loss_s=3.0)
    phases = dict(entered(entry, path))
    assert path.losses == 2
    assert phases["over"] - phases["settling"] == pytest.approx(6.0, abs=0.2)
    assert path.own_bps == pytest.approx(0.5 * LINK_BPS, rel=0.03)
    assert entry.pace_bps is None


def test_losses_that_do_not_come_are_waited_for_no_longer_than_twenty_seconds():
    phases = dict(entered(Entry(0.5, 20e6), Path(loss_s=None)))
    assert phases["over"] - phases["settling"] == pytest.approx(20.0, abs=0.2)


def test_what_has_more_than_its_share_is_held_at_once():
    entry = Entry(1 / 3, 90e6, is_over=True)
    assert entry.phase == "holding"
    assert entry.pace_bps == pytest.approx(LINK_BPS / 3)


def test_a_rate_that_grows_for_ever_ends_the_run_after_four_seconds():
    entry, bits = Entry(0.5, 1e6), 0.0
    entry.sees(0.0, [look(0.0, 0.06)])
    rate_bps, at_s = 1e6, 0.0
    while entry.phase == "running":
        at_s, rate_bps = at_s + STEP_S, 1.1 * rate_bps
        bits += rate_bps * STEP_S
        entry.sees(at_s, [look(bits, 0.06)])
    assert at_s == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize("then", [[], [look(1e6, 0.06)] * 2, [look(0.0, 0.06)]])
def test_other_connections_end_it(then):
    entry = Entry(0.5, 20e6)
    entry.sees(0.0, [look(1e6, 0.06)])
    entry.sees(0.1, then)
    assert entry.phase == "over"
    assert entry.pace_bps is None
