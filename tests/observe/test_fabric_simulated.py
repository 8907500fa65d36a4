"""The collector on Weir's own fabric, against what the simulator counted itself."""

import numpy as np
import pytest

from weir import Rate, Time
from weir.observe.infiniband import asking, collect, plan, report, roles, simulated, statistics
from weir.sim.traffic import UdpRates, between

LINE = 54_500_000_000
MS = 1_000_000


def sending(*pairs, rate=LINE):
    """Traffic from 1 ms on."""
    return [
        between(pair, ">".join(pair), UdpRates([(MS, rate)], simulated.PAYLOAD), 0, 10 * MS)
        for pair in pairs
    ]


@pytest.fixture(scope="module")
def victim():
    """Figure 2.1 of work 000: switches r and s; three hosts send to disk, one beside the victim."""
    build = plan.Builder()
    r, s = build.switch("r", 3), build.switch("s", 5)
    build.cable(r, s)
    for name, at in {"reader": r, "bystander": r, "writer1": s, "writer2": s, "disk": s,
                     "peer": s}.items():  # fmt: skip
        build.host(name, at)
    fabric = build.fabric
    traffic = sending(
        ("bystander", "peer"), ("reader", "disk"), ("writer1", "disk"), ("writer2", "disk")
    )
    made = simulated.scenario(fabric, traffic)
    return fabric, simulated.run(fabric, made, Time.from_ns(10 * MS), Time.from_ns(MS // 10))


def test_a_victims_port_waits_and_the_congested_one_does_not(victim):
    fabric, run = victim
    ports = asking.ports_of(fabric)
    backend = simulated.SimulatedFabric(run, 2 * MS)
    swept = list(collect.sweeps(backend, ports, 8, 0.001))
    found = report.waited(swept, ports)
    waited = {(one.port.lid, one.port.number): one.fitf for one in found}
    # r's port to s has credits for a third of the time for each of its two flows (000-spec 2.9).
    assert waited[1, 1] == pytest.approx(1 / 3, abs=0.01)
    assert all(share == 0 for place, share in waited.items() if place != (1, 1))
    (first, *_) = found
    assert first.lost_bps == pytest.approx(54.545e9 / 3, rel=0.03)


def test_what_the_counter_says_was_lost_is_what_the_simulator_counted(victim):
    fabric, run = victim
    port = asking.Port(1, 1, fabric["S-0002c90300000001"].cables[1].speed)
    backend = simulated.SimulatedFabric(run)
    (before,) = backend.ask([port])
    backend.sleep(0.01)
    (after,) = backend.ask([port])
    told = (after.wait_ticks - before.wait_ticks) * after.tick_ns
    assert told == pytest.approx(float(run.ports[1, 1].waited[-1]), rel=0.01)


def test_lost_bandwidth_is_what_a_port_that_always_had_data_did_not_send(victim):
    fabric, run = victim
    ports = [port for port in asking.ports_of(fabric) if port.is_up]
    backend = simulated.SimulatedFabric(run, 2 * MS)
    swept = list(collect.sweeps(backend, ports, 2, 0.008))
    lost = {(one.port.lid, one.port.number): one.lost_bps for one in report.waited(swept, ports)}
    counted = run.ports[1, 1]
    sent = np.interp([2 * MS, 10 * MS], run.times_ns, counted.sent_bytes)
    idle_bps = ports[0].speed.rate_bps - (sent[1] - sent[0]) * 8e9 / (8 * MS)
    assert lost[1, 1] == pytest.approx(idle_bps, rel=0.01)
    for port in ports:
        waited = run.ports[port.lid, port.number].waited
        grew = np.diff(np.interp([2 * MS, 10 * MS], run.times_ns, waited))[0]
        expected = port.speed.rate_bps * grew / (8 * MS)
        assert lost[port.lid, port.number] == pytest.approx(expected, rel=0.01, abs=1e6)


def test_who_waits_waits_for_congestion_but_not_all_congestion_is_seen(victim):
    _, run = victim
    waited, disk = run.ports[1, 1], run.ports[2, 4]
    assert waited.waited[-1] == waited.waited_at_congestion[-1] > 0
    assert 0 < disk.congested_and_seen[-1] < disk.congested[-1]


def test_a_slow_host_holds_up_the_port_that_leads_to_it():
    fabric = plan.fat_tree(1, 1, 2)
    made = simulated.scenario(
        fabric,
        sending(("host-1-1", "host-1-2")),
        lambda node: Rate.from_bit_per_s(LINE // 2 if node.name == "host-1-2" else LINE),
    )
    run = simulated.run(fabric, made, Time.from_ns(10 * MS), Time.from_ns(MS))
    growth = np.diff(run.ports[1, 2].waited[-3:]) / MS
    assert growth == pytest.approx([0.5, 0.5], abs=0.01)
    assert run.ports[1, 1].waited[-1] == 0


def test_rounds_with_slow_answers_give_values_above_one(victim):
    fabric, run = victim
    names = asking.Names(fabric, roles.classified(fabric))
    port = asking.Port(1, 1, fabric["S-0002c90300000001"].cables[1].speed)
    slow = simulated.SimulatedFabric(run, 2 * MS, 1, (0, MS // 10))
    how = collect.Rounds(50, 0.0001, 1e-9)
    (rows,) = collect.random_rounds(slow, [port], 1, how, names)
    tally = statistics.tallied([rows])["Switch", "down"]
    assert tally.waiting == 49
    assert tally.means[0] == pytest.approx(1 / 3, abs=0.03)
    assert tally.maxima[0] > tally.means[0] + 0.05, "when a counter was read is not known exactly"
    assert tally.beyond == 0
