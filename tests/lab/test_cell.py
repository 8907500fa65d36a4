"""A wireless cell in a lab: the kernel's packets contend as those of the simulator do."""

import math
import os
import signal

import pytest
from lab_rig import alive, supervisor_of
from rig import until

from weir.errors import BadInput
from weir.lab import Lab, parse
from weir.sim import simulate

SECONDS = 3
CELL = """\
[lab]
name = "cell"
[hosts]
c1 = {}
c2 = {}
c3 = {}
[routers]
ap = {}
[channels]
air = { standard = "802.11b" }
"""
STATION = """\
[[link]]
kind = "wlan"
channel = "air"
ends = ["NAME", "ap"]
rate = "11 Mbit/s"
queue = { limit = "10 packets" }
"""
UPLOAD = f"""\
[[traffic]]
kind = "udp"
name = "from-NAME"
from = "NAME"
to = "TO"
rate = "8 Mbit/s"
stop = "{SECONDS} s"
"""


def cell(*stations, to=None):
    """Stations of 11 Mbit/s; those after the first send more than they can to it."""
    links = "".join(STATION.replace("NAME", name) for name in stations)
    receiver = to or stations[0]
    senders = [name for name in stations if name != receiver]
    sent = "".join(UPLOAD.replace("NAME", name).replace("TO", receiver) for name in senders)
    hosts = CELL
    for name in ("c1", "c2", "c3"):
        hosts = hosts if name in stations else hosts.replace(f"{name} = {{}}\n", "")
    return hosts + links, sent


def wlan(status):
    return {
        (link[way]["from"], link[way]["to"]): link[way]["wlan"]
        for link in status["links"]
        for way in ("forward", "backward")
    }


def reaches(lab, node, other):
    command = ["ping", "-c", "1", "-W", "1", other]
    return lab.run(node, command, check=False, capture_output=True).returncode == 0


def collided(ways):
    """The share of all transmissions that collided, and how many transmissions there were."""
    sent = sum(way["transmissions"] for way in ways.values())
    return sum(way["collisions"] for way in ways.values()) / sent, sent


def test_a_cell_carries_of_saturating_stations_what_the_simulated_one_does(lab_of, measured):
    text = "".join(cell("c1", "c2", "c3"))
    simulated = simulate(parse(text))
    expected = {flow["name"]: flow["goodput_bps"] for flow in simulated["flows"]}

    def check():
        lab = lab_of(text)
        status = lab.finish()
        for link in status["links"]:
            for way in ("forward", "backward"):
                passed = link[way]
                left = ("packets_out", "dropped_queue", "dropped_loss", "queue_packets")
                left_packets = sum(passed[key] for key in (*left, "delayed_packets"))
                assert passed["packets_in"] == left_packets
        lab.down()
        carried = {}
        for flow in status["traffic"]:
            carried[flow["name"]] = flow["received_packets"] * 1498 * 8 / SECONDS
        # All of it goes down to the receiver by the access point, which has one turn of three.
        assert sum(carried.values()) == pytest.approx(sum(expected.values()), rel=0.1)
        # The draws are others, since packets come at other instants: four standard deviations.
        (share, count), (expected_share, _) = collided(wlan(status)), collided(wlan(simulated))
        deviation = math.sqrt(2 * expected_share * (1 - expected_share) / count)
        assert share == pytest.approx(expected_share, abs=4 * deviation)

    measured(check)


def test_a_station_that_leaves_is_not_reached_and_comes_back(lab_of):
    links, _ = cell("c1", "c2")
    lab = lab_of(links)
    assert reaches(lab, "c1", "c2")
    lab.cut("c2-ap")
    carriers = {link["name"]: link["carrier"] for link in lab.status()["links"]}
    assert carriers == {"c1-ap": True, "c2-ap": False}
    assert not reaches(lab, "c1", "c2") and reaches(lab, "c1", "ap")
    lab.mend("c2-ap")
    assert reaches(lab, "c1", "c2")


def test_a_cell_of_one_station_collides_only_with_its_access_point(lab_of):
    links, _ = cell("c1")
    lab = lab_of(links)
    assert reaches(lab, "c1", "ap")
    status = lab.status()
    assert [link["channel"] for link in status["links"]] == ["air"]
    met = wlan(status)
    assert met["c1", "ap"]["transmissions"] == met["ap", "c1"]["transmissions"] == 1
    # Both frames: 98 + ICMP and IP headers, at 11 Mbit/s with the long preamble, and their answers.
    airtime_ns = (192 + -(-(84 + 36) * 8 // 11) + 10 + 192 + 56) * 1000
    assert met["c1", "ap"]["airtime_ns"] == met["ap", "c1"]["airtime_ns"] == airtime_ns
    with pytest.raises(BadInput, match="link c1-ap shares channel air, so nothing of it can be"):
        lab.network()


def test_a_cell_whose_emulator_is_killed_leaves_nothing(lab_of, weir):
    links, sent = cell("c1", "c2")
    lab = lab_of(links + sent)
    supervisor = supervisor_of(lab)
    until(lambda: any(flow["state"] == "running" for flow in lab.status()["traffic"]))
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not alive(supervisor))
    assert "no lab is up" in weir("lab", "status").stderr


def test_the_status_shows_what_frames_met(lab_of, weir):
    links, _ = cell("c1")
    lab = lab_of(links)
    assert reaches(lab, "c1", "ap")
    shown = weir("lab", "status", "--lab", lab.name).stdout
    assert "airtime" in shown and "c1 → ap" in shown


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("ap = {}", 'ap = { kind = "switch" }', "link c1-ap: .* ends at switch ap, which has no"),
        ('"802.11b"', '"802.11ax"', ":9: .*allowed are 802.11b"),
    ],
)
def test_a_cell_that_no_lab_has_is_refused(right, wrong, words):
    links, _ = cell("c1", "c2")
    with pytest.raises(BadInput, match=words):
        Lab.up(parse(links.replace(right, wrong)))
