"""Wireless and lossless links in scenario files: what the simulator finds, what is refused."""

from pathlib import Path

import pytest

from weir.cli import main
from weir.errors import BadInput
from weir.lab import Lab, load, parse
from weir.sim import simulate
from weir.sim.compare import compare

SCENARIOS = Path(__file__).parents[2] / "scenarios"

CELL = """\
[hosts]
phone = {}
laptop = {}
[routers]
ap = {}
[channels]
six = { standard = "802.11b", retry_limit = 4 }
[[link]]
kind = "wlan"
channel = "six"
ends = ["phone", "ap"]
rate = "11 Mbit/s"
backward = { rate = "2 Mbit/s", queue = { discipline = "fq-codel" } }
[[link]]
kind = "wlan"
channel = "six"
ends = ["laptop", "ap"]
rate = "11 Mbit/s"
[[traffic]]
kind = "udp"
name = "up"
from = "laptop"
to = "phone"
rate = "6 Mbit/s"
stop = "2 s"
"""

FABRIC = """\
[hosts]
a = {}
b = {}
[[link]]
kind = "credits"
ends = ["a", "b"]
rate = "1 Gbit/s"
delay = "50 us"
buffer = "3000 B"
[[traffic]]
kind = "udp"
from = "a"
to = "b"
rate = "1 Gbit/s"
payload = "1472 B"
stop = "100 ms"
"""


def flows(result):
    return {flow["name"]: flow["goodput_bps"] / 1e6 for flow in result["flows"]}


def test_a_slow_station_slows_the_fast_and_airtime_fairness_frees_downloads():
    result = simulate(load(SCENARIOS / "wlan.toml"))
    rates = flows(result)
    # Alone at 54 Mbit/s: frame 254 us, SIFS 10, ACK 34, DIFS 28, 7.5 slots in the mean; 1498 B.
    assert rates["near-alone"] == pytest.approx(8 * 1498 / (254 + 10 + 34 + 28 + 67.5), rel=0.02)
    # With the far one, frames take turns: what it can send at 6 Mbit/s is what both get.
    assert rates["near-with-far"] < 6
    assert rates["near-with-far"] == pytest.approx(rates["far"], rel=0.15)
    # Down, the access point gives each the same airtime.
    assert rates["download-near"] > 3 * rates["download-far"]
    unfair = (SCENARIOS / "wlan.toml").read_text().replace("fairness = true", "fairness = false")
    rates = flows(simulate(parse(unfair)))
    assert rates["download-near"] < 1.5 * rates["download-far"]


def test_a_congested_port_slows_a_victim_that_does_not_use_it():
    result = simulate(load(SCENARIOS / "credits.toml"))
    rates = flows(result)
    assert rates["victim-before"] == pytest.approx(8000, rel=0.01)
    for name in ("victim", "reading", "writing1", "writing2"):
        assert rates[name] == pytest.approx(8000 / 3, rel=0.02), name
    assert not any(flow["lost_packets"] for flow in result["flows"])
    shared = next(link for link in result["links"] if link["name"] == "r-s")["forward"]
    # In the second half a third of r-s's time is lost to waiting.
    assert shared["credits"]["stalled_share"] == pytest.approx(1 / 6, abs=0.01)


def test_a_manager_that_has_ports_mark_frees_the_victim():
    text = (SCENARIOS / "credits.toml").read_text()
    result = simulate(parse(text.replace('kind = "credits"', 'kind = "credits"\nmanager = "5 ms"')))
    rates = flows(result)
    # Max-min fair: a third of the port for each that wants it, the rest of r-s for the victim.
    assert rates["victim"] == pytest.approx(8000 * 2 / 3, rel=0.08)
    assert sum(rates[name] for name in ("reading", "writing1", "writing2")) > 0.85 * 8000
    port = next(link for link in result["links"] if link["name"] == "s-disk")["forward"]["credits"]
    assert port["marked_packets"] > port["marks_told"] == 0


def test_where_packets_are_dropped_instead_there_is_no_victim():
    text = (SCENARIOS / "credits.toml").read_text().replace('kind = "credits"', 'kind = "wired"')
    fair = 'queue = { discipline = "fq-codel" }'
    result = simulate(parse(text.replace('buffer = "64 KiB"', fair)))
    # It shares r-s with the reader, and that is all.
    assert flows(result)["victim"] == pytest.approx(4000, rel=0.01)
    port = next(link for link in result["links"] if link["name"] == "s-disk")["forward"]
    assert port["dropped_queue"] > 0


def test_throughput_is_the_credits_over_the_round_trip():
    result = simulate(parse(FABRIC))
    [flow] = result["flows"]
    # One packet of 1500 B fits (24 of 46 blocks): 12 us to send it and 100 us until word is back.
    assert flow["goodput_bps"] == pytest.approx(1e9 * 12 / 112, rel=0.01)
    forward = result["links"][0]["forward"]
    assert forward["credits"]["stalled_share"] == pytest.approx(100 / 112, rel=0.01)


def test_two_results_of_such_links_are_compared():
    wireless, lossless = simulate(parse(CELL)), simulate(parse(FABRIC))
    quantities = {figure.quantity for figure in compare(wireless, lossless)}
    assert {"airtime, %", "stalled, %"} <= quantities


def test_the_command_line_shows_airtime_and_stalls(tmp_path, capsys):
    file = tmp_path / "cell.toml"
    for text, words in ((CELL, "airtime"), (FABRIC, "stalled")):
        file.write_text(text)
        assert main(["sim", str(file)]) == 0
        assert words in capsys.readouterr().out


def test_a_lab_has_no_lossless_links(tmp_path, capsys):
    with pytest.raises(BadInput, match='link a-b: kind = "credits" exists in the simulator only'):
        Lab.up(parse(FABRIC))
    file = tmp_path / "fabric.toml"
    file.write_text(FABRIC)
    assert main(["lab", "run", str(file)]) == 2
    assert "weir sim" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "right", "wrong", "words"),
    [
        (CELL, 'rate = "2 M', 'rate = "7 M', r":13: .*rate: 802.11b sends at 1, 2, 5.5, 11 Mbit"),
        (CELL, '"802.11b"', '"802.11q"', ":7: .*allowed are 802.11b, 802.11a, 802.11g"),
        (CELL, "retry_limit = 4", "retry_limit = 0", ":7: .*retry_limit: 1 to 255"),
        (CELL, "retry_limit = 4", "cw_max = 30", ":7: .*cw_max: a window from cw_min = 31"),
        (CELL, 'channel = "six"', 'channel = "ten"', ":10: .*allowed are six"),
        (CELL, 'channel = "six"\n', "", ":8: .*channel is missing"),
        (CELL, 'rate = "11 M', 'delay = "1 ms"\nrate = "11 M', ":12: .*no delay but that of its"),
        (CELL, 'six = { standard = "802.11b", retry_limit = 4 }\n', "", "no .channels. for it"),
        (CELL, 'channel = "six"', 'channel = "six"\nmtu = 9000', ":11: .*up to 2296 bytes"),
        (
            FABRIC,
            'kind = "credits"',
            'kind = "credits"\nmarking = -1',
            ":6: .*= -1: a whole",
        ),
        (FABRIC, 'kind = "credits"', 'kind = "credits"\nmanager = "0 s"', ":6: .*of more than 0"),
        (FABRIC, 'kind = "credits"', 'kind = "magic"', ":5: .*allowed are wired, wlan, credits"),
        (FABRIC, '"3000 B"', '"0 B"', ":9: .*a size of more than 0 is allowed"),
        (FABRIC, '"3000 B"', '"1499 B"', ":9: .*do not hold one packet of 1500 bytes"),
        (FABRIC, 'rate = "1 Gbit/s"\ndelay', "delay", ":4: .*a link with credits has a rate"),
        (FABRIC, 'buffer = "3000 B"', 'buffer = "3000 B"\nloss = 0.1', ":10: .*loses nothing"),
        (FABRIC, 'buffer = "3000 B"\n', "", ":4: .*buffer is missing"),
        (FABRIC, 'buffer = "3000 B"', 'buffer = "3000 B"\ninput = "lifo"', "allowed are voq, fifo"),
    ],
)
def test_what_cannot_be_is_refused_at_its_line(text, right, wrong, words):
    assert right in text
    with pytest.raises(BadInput, match=words):
        parse(text.replace(right, wrong, 1))


def test_a_channel_without_stations_is_refused():
    with pytest.raises(BadInput, match=r":5: .channels.idle.: it has no stations"):
        parse("[hosts]\na = {}\nb = {}\n[channels]\nidle = { standard = '802.11g' }\n[[link]]\n"
              "ends = ['a', 'b']\n")  # fmt: skip
