"""Counters become the right series, and the loop that both halves run through is fair."""

import io
import time
from pathlib import Path

import pytest

from studies.demonstration import delivery_plan, measure, submit_loop, view
from studies.demonstration.run_state import RunState
from weir import Bytes, Time

SHIPPED = Path(__file__).parents[3] / "scenarios" / "deadlines.toml"


def test_a_counter_is_read_between_its_samples():
    samples = [(1.0, 100), (2.0, 300), (2.0, 300), (4.0, 300)]
    read = [measure.value_at(samples, at) for at in (0.0, 1.0, 1.5, 2.0, 3.0, 9.0)]
    assert read == [100, 100, 200, 300, 300, 300]
    assert measure.value_at([], 1.0) == 0


def test_rates_hold_every_bit_that_was_counted():
    samples = [(0.1, 0), (0.9, 1_000_000), (1.3, 1_500_000), (2.7, 9_000_000)]
    rates = measure.rates_bps(samples, 12)
    assert sum(rates) * measure.STEP_S == pytest.approx(72e6)
    assert rates[-1] == 0
    assert rates[2] == pytest.approx(10e6)


def test_utilisation_is_bits_over_what_could_have_been():
    meter = measure.LinkMeter("core", 80_000_000)
    for second in range(11):
        meter.note(second, 1_000_000_000 + second * 5_000_000)
    assert meter.utilisation(10.0) == pytest.approx(0.5)
    assert meter.lately_bps() == pytest.approx(40e6)
    assert meter.utilisation(0.0) == 0


def test_smoothing_keeps_the_sum_and_flattens_a_spike():
    series = [0.0, 0.0, 0.0, 50.0, 0.0, 0.0, 0.0, 20.0, 20.0, 0.0, 0.0]
    flat = measure.smoothed(series)
    assert sum(flat) == pytest.approx(sum(series))
    assert max(flat) < 15
    assert measure.smoothed([8.0] * 9) == [8.0] * 9
    edges = [40.0, 10.0, 0.0, 0.0, 0.0, 0.0, 30.0]
    assert sum(measure.smoothed(edges)) == pytest.approx(sum(edges))


class Carrier:
    """Delivers what is named, some polls after it was asked for, by writing the file."""

    def __init__(self, arrivals, delivers):
        self.arrivals, self.delivers, self.asked = arrivals, delivers, {}

    def submit(self, state, flow):
        flow.state = "sending"
        self.asked[flow.transfer.id] = 3

    def poll(self, state):
        for id in [*self.asked]:
            self.asked[id] -= 1
            if self.asked[id] == 0 and id in self.delivers:
                self.arrivals[id].write_bytes(bytes(state.flows[id].transfer.size.count))


@pytest.fixture
def small(tmp_path):
    """Two small transfers, a second apart."""
    shipped = delivery_plan.load(SHIPPED)
    pair = [
        delivery_plan.Transfer(
            id=name, what="", source="hinxton", destination="bologna", size=Bytes("1 kB"),
            at=Time(at), deadline=Time("1 s"), takes_earliest=False,
        )
        for name, at in (("a", "0 s"), ("b", "1 s"))
    ]  # fmt: skip
    fields = vars(shipped) | {"transfers": tuple(pair)}
    return RunState.of("weir", delivery_plan.Plan(**fields)), {x.id: tmp_path / x.id for x in pair}


def go(state, arrivals, delivers, limit_s=100.0, carrier=Carrier):
    meters = [measure.LinkMeter("paris-milan", 400_000_000)]
    count = iter(range(0, 10**9, 1000))
    lines = view.Lines(io.StringIO())

    def counters():
        return time.monotonic() + 100, {"paris-milan": next(count)}

    submit_loop.run_submit_loop(
        state, carrier(arrivals, delivers), arrivals, meters, counters, lines, limit_s
    )
    return meters[0]


def test_each_transfer_is_asked_for_at_its_time_and_seen_to_arrive(small):
    state, arrivals = small
    meter = go(state, arrivals, {"a", "b"})
    a, b = state.flows.values()
    assert 0 <= a.submitted_s < b.submitted_s
    assert b.submitted_s >= 1.0
    assert a.state == b.state == "delivered"
    assert 0 < a.finish_s < 20.0
    assert a.bytes_done == 1000
    assert len(meter.samples) >= 3
    times = [at for at, _ in meter.samples]
    assert times == sorted(times)
    # The counters' own clock, which is a hundred seconds ahead, put on the half's time.
    assert 0 <= times[0] < 50


def test_the_arrival_is_when_the_file_was_renamed_not_when_it_was_noticed(small):
    state, arrivals = small

    class Busy(Carrier):
        def poll(self, state):
            super().poll(state)
            if arrivals["b"].exists() and not self.dozed:
                self.dozed = True
                end = time.monotonic() + 3
                while time.monotonic() < end:
                    time.sleep(0.1)

    Busy.dozed = False
    go(state, arrivals, {"a", "b"}, carrier=Busy)
    flow = state.flows["b"]
    # It dozed for three seconds between the two.
    assert state.now_s > flow.submitted_s + flow.finish_s + 2.9


def test_what_does_not_come_is_given_up_and_the_half_ends(small):
    state, arrivals = small
    go(state, arrivals, {"b"}, limit_s=6.0)
    assert state.flows["a"].state == "failed"
    assert state.flows["a"].finish_s is None
    assert state.flows["b"].state == "delivered"


def test_a_file_that_is_not_whole_has_not_arrived(small):
    state, arrivals = small
    arrivals["a"].write_bytes(bytes(999))
    go(state, arrivals, {"b"}, limit_s=3.0)
    assert state.flows["a"].finish_s is None
