"""Every queue discipline in the lab: read from scenarios, at work on real packets, seen live."""

import json
import re
import subprocess
from collections import Counter

import pytest
from rig import PATIENCE_S, WEIR, until

from weir import Bytes, Rate, Time
from weir.lab import parse, queues
from weir.lab.scenario import Queue
from weir.lab.tables import _class, quantile

LINK = """
[hosts]
a = {{ ecn = true }}
b = {{}}
[[link]]
ends = ["a", "b"]
delay = "5 ms"
rate = "{rate}"
forward = {{ queue = {queue} }}
"""
TCP = """
[[traffic]]
kind = "iperf3"
from = "a"
to = "b"
congestion = "reno"
stop = "{stop}"
"""
GIVEN = {"rate": "8 Mbit/s", "burst": "10 kB"}


def minimal(discipline):
    """A queue of the discipline with what it cannot do without."""
    known = queues.DISCIPLINES[discipline]
    needed = {key: known[key].read(GIVEN[key]) for key in GIVEN if key in known}
    return Queue(discipline, None, needed)


@pytest.mark.parametrize("discipline", queues.DISCIPLINES)
def test_the_core_knows_every_discipline_and_parameter_by_its_key(discipline):
    rate = Rate("10 Mbit/s")
    assert queues.refusal(minimal(discipline), rate) is None
    # A key that the core does not know would be refused as such.
    examples = ("20 ms", "20000 B", "9 Mbit/s", "50 packets", 1, 0.5, True)
    for name, parameter in queues.DISCIPLINES[discipline].items():
        if name == "classes":
            continue
        for example in (*examples, "l4s", "strict", "max", "linux", "timestamp"):
            try:
                value = parameter.read(example)
            except queues.BadInput:
                continue
            queue = minimal(discipline)
            queues.refusal(Queue(discipline, None, {**queue.parameters, name: value}), rate)
            break
        else:
            pytest.fail(f"no example fits {name}")


def test_parameters_are_read_in_the_units_of_their_names():
    text = LINK.format(
        rate="10 Mbit/s",
        queue='{ discipline = "dual-pi2", target = "12 ms", alpha = 0.2, limit = "200 packets" }',
    )
    queue = parse(text).links[0].forward.queue
    assert queues.config(queue) == {
        "discipline": "dual-pi2",
        "target_ns": 12_000_000,
        "alpha_per_s": 0.2,
        "limit": {"packets": 200},
    }


def test_a_direction_adds_to_the_links_queue_or_replaces_it():
    text = """
[hosts]
a = {}
b = {}
[[link]]
ends = ["a", "b"]
rate = "10 Mbit/s"
queue = { discipline = "pie", target = "9 ms", limit = "1 MB" }
forward = { queue = { ecn = false } }
backward = { queue = { discipline = "codel" } }
"""
    link = parse(text).links[0]
    assert link.forward.queue.parameters == {"target": Time("9 ms").ns, "ecn": False}
    assert link.backward.queue == Queue("codel", Bytes("1 MB"), {})


def test_quantiles_of_counts():
    counts = {10: 50, 20: 49, 70: 1}
    assert [quantile(counts, fraction) for fraction in (0.5, 0.51, 0.99, 1.0)] == [10, 20, 20, 70]
    assert quantile({}, 0.5) == 0


def test_no_wait_is_shown_above_the_longest():
    """Counts are by the end of a bucket, which lies above all that was counted there."""
    counted = {
        "name": "all",
        "packets_out": 3,
        "marked": 0,
        **{f"dropped_{cause}": 0 for cause in ("overflow", "aqm", "policed", "overload")},
        "queue_bytes": 0,
        "sojourn": {"max_ns": 4_100_000},
        "sojourn_histogram": [[1_015_807, 1], [4_194_303, 2]],
    }
    before = counted | {"packets_out": 1, "sojourn_histogram": [[1_015_807, 1]]}
    assert _class(counted, None)[-3:] == ["4.10 ms", "4.10 ms", "4.10 ms"]
    assert _class(counted, before)[-3:] == ["4.10 ms", "4.10 ms", "4.10 ms"]
    assert _class(counted, counted)[-3:] == ["", "", ""], "nothing waited since"


def classes(lab):
    found = lab.status()["links"][0]["forward"]["classes"]
    return {one["name"]: one for one in found}


def ended(lab):
    until(lambda: all(flow["state"] == "done" for flow in lab.status()["traffic"]), timeout_s=60)
    return classes(lab)


def count(lab, node, name):
    printed = lab.run(node, ["nstat", "-asz", name], capture_output=True, text=True).stdout
    return int(re.search(rf"{name} +(\d+)", printed)[1])


@pytest.mark.parametrize(
    ("queue", "only_marks"),
    [
        ('{ discipline = "red", min_threshold = "3 ms", max_threshold = "30 ms" }', False),
        ('{ discipline = "ared" }', True),
        ('{ discipline = "pie", target = "5 ms", max_burst = "20 ms" }', False),
        ('{ discipline = "codel", interval = "30 ms" }', True),
        ('{ discipline = "fq-codel", interval = "30 ms" }', True),
        ('{ discipline = "curvy-red" }', False),
        ('{ discipline = "dual-pi2" }', False),
        ('{ discipline = "dual-curvy-red", classifier = "any-ect" }', False),
        ('{ discipline = "phantom", threshold = "20 kB" }', True),
    ],
)
def test_an_aqm_marks_the_kernels_own_tcp(lab_of, queue, only_marks):
    lab = lab_of(LINK.format(rate="20 Mbit/s", queue=queue) + TCP.format(stop="3 s"))
    seen = ended(lab).values()
    marked = sum(one["marked"] for one in seen)
    assert marked > 0
    # The receiver's kernel counts a super-packet once, so it sees at most as many.
    assert 0 < count(lab, "b", "IpExtInCEPkts") <= marked
    # And its echoes reached the sender, which had marked its data as ECN-capable.
    assert count(lab, "a", "TcpExtTCPDeliveredCE") > 0
    if only_marks:
        # Only the SYN and what is sent again are not ECN-capable; these queues do not overflow.
        # A busy machine makes TCP send again what was not lost.
        dropped = sum(one["dropped_aqm"] + one["dropped_overload"] for one in seen)
        assert dropped <= 1 or 10 * dropped < marked


def test_marks_leave_every_checksum_right(lab_of):
    """A wrong checksum would be counted by the kernel and the packet dropped."""
    queue = '{ discipline = "phantom", threshold = "2 kB" }'
    flow = """
[[traffic]]
kind = "udp"
from = "a"
to = "b"
rate = "5 Mbit/s"
ecn = "ect1"
stop = "1 s"
"""
    lab = lab_of(LINK.format(rate="4 Mbit/s", queue=queue) + flow)
    seen = ended(lab)["all"]
    until(lambda: classes(lab)["all"]["queue_packets"] == 0)
    assert seen["marked"] > 0
    assert count(lab, "b", "IpExtInCEPkts") > 0
    assert count(lab, "b", "IpExtInCsumErrors") == count(lab, "b", "UdpInCsumErrors") == 0


@pytest.mark.alone
def test_dual_pi2_keeps_l4s_packets_out_of_the_queue_that_tcp_fills(lab_of, measured):
    flow = """
[[traffic]]
kind = "udp"
from = "a"
to = "b"
rate = "4 Mbit/s"
ecn = "ect1"
start = "500 ms"
stop = "3500 ms"
"""
    queue = '{ discipline = "dual-pi2" }'
    text = LINK.format(rate="100 Mbit/s", queue=queue) + TCP.format(stop="4 s") + flow

    def check():
        lab = lab_of(text)
        seen, status = ended(lab), lab.status()
        lab.down()
        l4s, classic = seen["l4s"], seen["classic"]
        sent = next(one for one in status["traffic"] if one["kind"] == "udp")["sent_packets"]
        assert l4s["packets_in"] == sent
        assert l4s["packets_out"] + l4s["dropped_overload"] == sent
        # What waits for the L4S head is a packet or two of the Classic queue: 0.12 ms each.
        assert l4s["sojourn"]["p99_ns"] < 2_000_000
        assert classic["sojourn"]["p99_ns"] > 2 * l4s["sojourn"]["p99_ns"]
        # How late the emulator itself was stands apart.
        assert status["links"][0]["forward"]["lateness"]["p99_ns"] > 0
        assert sum(count for _, count in l4s["sojourn_histogram"]) == l4s["packets_out"]

    measured(check)


@pytest.mark.alone
def test_the_kernels_own_ecn_senders_wait_less_than_2_ms_in_the_l4s_queue(lab_of, measured):
    """Four CUBIC flows that heed marks as losses, once slow start is over."""
    queue = '{ discipline = "dual-pi2", classifier = "any-ect" }'
    flows = TCP.format(stop="8 s").replace("reno", "cubic") + "streams = 4\n"

    def check():
        lab = lab_of(LINK.format(rate="100 Mbit/s", queue=queue) + flows)
        until(lambda: classes(lab)["l4s"]["packets_in"] > 10_000)
        begin = Counter(dict(classes(lab)["l4s"]["sojourn_histogram"]))
        l4s = ended(lab)["l4s"]
        lab.down()
        waits = Counter(dict(l4s["sojourn_histogram"])) - begin
        assert waits.total() > 25_000, "half of the link or more is used"
        assert l4s["marked"] > 0 and l4s["packets_out"] == l4s["packets_in"]
        assert quantile(waits, 0.99) < 2_000_000

    measured(check)


@pytest.mark.parametrize("discipline", queues.DISCIPLINES)
def test_every_discipline_carries_a_ping(lab_of, discipline):
    required = "".join(
        f', {key} = "{GIVEN[key]}"' for key in GIVEN if key in queues.DISCIPLINES[discipline]
    )
    queue = f'{{ discipline = "{discipline}"{required} }}'
    lab = lab_of(LINK.format(rate="10 Mbit/s", queue=queue))
    lab.run("a", ["ping", "-c", "2", "-i", "0.05", "b"], capture_output=True)
    assert sum(one["packets_out"] for one in classes(lab).values()) == 2
    assert lab.status()["links"][0]["forward"]["discipline"] == discipline


def test_status_is_watched_until_the_lab_is_down(lab_of, weir):
    queue = '{ discipline = "dual-pi2" }'
    lab = lab_of(LINK.format(rate="10 Mbit/s", queue=queue))
    shown = weir("lab", "status").stdout
    assert "dual-pi2" in shown and "classic" in shown and "overload" in shown
    watch = [WEIR, "lab", "status", "--watch"]
    with (
        subprocess.Popen([*watch, "--json"], stdout=subprocess.PIPE, text=True) as lines,
        subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as tables,
    ):
        first, second = (json.loads(lines.stdout.readline()) for _ in range(2))
        assert second["up_s"] > first["up_s"]
        until(lambda: "l4s" in tables.stdout.readline())
        lab.down()
        lines.communicate(timeout=PATIENCE_S)
        tables.communicate(timeout=PATIENCE_S)
        assert lines.returncode == tables.returncode == 0
