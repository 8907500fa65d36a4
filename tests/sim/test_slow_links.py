"""Links so slow that one packet takes longer than what a queue aims at still carry their rate."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir import Time
from weir.errors import BadInput
from weir.lab import parse
from weir.lab.queues import DISCIPLINES
from weir.sim import Run
from weir.sim.run import run

# Contracts have their own terms, and a phantom queue leaves capacity free on purpose.
KEEPING = sorted(set(DISCIPLINES) - {"token-bucket", "policer", "phantom"})


def scenario(rate, queue, delay="10 ms", mtu=1500, ecn="false"):
    return parse(
        f"[hosts]\na = {{ ecn = {ecn} }}\nb = {{}}\n"
        f'[[link]]\nends = ["a", "b"]\nrate = "{rate}"\ndelay = "{delay}"\nmtu = {mtu}\n{queue}\n'
        '[[traffic]]\nkind = "iperf3"\nfrom = "a"\nto = "b"\nstop = "60 s"\n'
    )


def utilisation(described):
    result = run(Run(described, warmup=Time("10 s")))
    return result["links"][0]["forward"]["utilisation"]


@pytest.mark.parametrize("discipline", KEEPING)
def test_one_cubic_flow_fills_a_slow_line_under_every_discipline(discipline):
    queue = f'queue = {{ discipline = "{discipline}" }}'
    for rate in ("64 kbit/s", "128 kbit/s"):
        for delay in ("10 ms", "50 ms"):
            for ecn in ("false", "true"):
                used = utilisation(scenario(rate, queue, delay, ecn=ecn))
                assert used >= 0.95, f"{used:.3f} of {rate} over {delay}, ECN {ecn}"


@pytest.mark.parametrize("discipline", KEEPING)
def test_one_cubic_flow_fills_a_slow_line_whose_queue_was_made_small(discipline):
    """RED's thresholds of 20 and 70 ms were less than a packet there: 3 % of 8 kbit/s were used."""
    for rate in ("16 kbit/s", "64 kbit/s"):
        for limit in ("2 packets", "5 packets", "10 packets"):
            queue = f'queue = {{ discipline = "{discipline}", limit = "{limit}" }}'
            used = utilisation(scenario(rate, queue))
            assert used >= 0.95, f"{used:.3f} of {rate} with {limit}"


@pytest.mark.parametrize("variant", ["linux", "linux-3.18"])
def test_pie_as_linux_has_it_fills_a_slow_line(variant):
    queue = f'queue = {{ discipline = "pie", variant = "{variant}" }}'
    assert utilisation(scenario("64 kbit/s", queue)) >= 0.95


def test_dual_pi2_as_linux_configures_it_fills_a_slow_line():
    queue = (
        'queue = { discipline = "dual-pi2", min_threshold = "1 ms", ramp = "0 ms", '
        "derandomize = false, classic_weight = 0.1 }"
    )
    assert utilisation(scenario("128 kbit/s", queue)) >= 0.95


@settings(max_examples=150, deadline=None)
@given(
    bit_per_s=st.integers(8_000, 10_000_000),
    mtu=st.integers(576, 9216),
    discipline=st.sampled_from([None, *KEEPING]),
)
def test_a_queue_that_nobody_limited_is_never_refused_over_its_limit(bit_per_s, mtu, discipline):
    queue = f'queue = {{ discipline = "{discipline}" }}' if discipline else ""
    described = scenario(f"{bit_per_s} bit/s", queue, mtu=mtu)
    packet_s = mtu * 8 / bit_per_s
    result = run(Run(described, duration=Time(f"{round(1 + 20 * packet_s, 3)} s")))
    assert result["flows"][0]["delivered_bytes"] > 0


@pytest.mark.parametrize(
    ("queue", "says"),
    [
        ('{ limit = "1499 B" }', "limit of fifo: 1499 bytes do not hold one packet of 1500 bytes"),
        ('{ limit = "1 ms" }', "limit of fifo: 125 bytes do not hold one packet"),
        ('{ discipline = "drr", limit = "1 packet" }', "no room for one packet in each of the 2"),
        ('{ discipline = "priority", limit = "2 kB" }', "1000 bytes in each of the 2 classes"),
        (
            '{ discipline = "policer", rate = "1 Mbit/s", burst = "1499 B" }',
            "burst of policer: no packet of 1500 bytes",
        ),
        (
            '{ discipline = "token-bucket", rate = "1 Mbit/s", burst = "9 kB", '
            'peak_rate = "2 Mbit/s", peak_burst = "1 kB" }',
            "peak_burst of token-bucket: no packet of 1500 bytes",
        ),
    ],
)
def test_a_limit_that_was_given_and_holds_nothing_is_refused_at_its_line(queue, says):
    with pytest.raises(BadInput, match=f"^scenario:9: .*{says}"):
        scenario("1 Mbit/s", f"queue = {queue}")
