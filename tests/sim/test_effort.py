"""Loads that would run until memory or patience ends are refused; what people simulate is not."""

from pathlib import Path

import pytest

from weir import Time
from weir.cli import main
from weir.errors import BadInput
from weir.lab import load, parse
from weir.sim.effort import bounded

LINE = 'rate = "10 Mbit/s"\ndelay = "5 ms"'
FOLDER = Path(__file__).parents[2] / "scenarios"


def scenario(traffic, link=LINE):
    return f"""[hosts]
A = {{}}
B = {{}}
[[link]]
ends = ["A", "B"]
{link}
[[traffic]]
from = "A"
to = "B"
{traffic}
"""


@pytest.mark.parametrize(
    ("traffic", "part"),
    [
        (
            'kind = "pages"\ninterval = "1 ns"',
            "'pages-1': 30 s of it would take about 6.3e+11 steps",
        ),
        ('kind = "pages"\ninterval = "1 us"', "about 3.0e+07 requests would wait"),
        ('kind = "web"\ninterval = "2 us"', "requests would wait"),
        ('kind = "messages"\nsize = "1 MB"\ninterval = "10 us"', "requests would wait"),
        ('kind = "messages"\nsize = "100 B"\ninterval = "1 ns"', "steps"),
        ('kind = "game"\nclients = 10000\nthink = "1 ns"\nstop = "10 h"', "steps"),
        ('kind = "piv"\ncommand_interval = "1 ns"', "steps"),
        ('kind = "udp"\nrate = "1000000 Gbit/s"', "steps"),
        ('kind = "udp"\nrate = "1 Mbit/s"\non = "1 ns"\noff = "1 ns"', "steps"),
        ('kind = "ppbp"\nburst_rate = "1 Mbit/s"\nburst_interval = "1 us"', "steps"),
        ('kind = "udp"\nrate = "1 kbit/s"\nstop = "1000000000 s"', "1e+09 s of it"),
        ('kind = "iperf3"\nstop = "100000000 s"', "steps"),
    ],
)
def test_what_would_not_end_in_time_or_memory_is_refused(tmp_path, capsys, traffic, part):
    file = tmp_path / "absurd.toml"
    file.write_text(scenario(traffic))
    assert main(["sim", str(file)]) == 2
    said = capsys.readouterr().err
    assert part in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("traffic", ['kind = "rpc"', 'kind = "iperf3"'])
def test_what_takes_no_time_at_all_is_refused(traffic):
    with pytest.raises(BadInput, match="a link needs a rate or a delay"):
        bounded(parse(scenario(traffic, ""), "a lab"), Time("1 ms"))


@pytest.mark.parametrize(
    ("traffic", "link"),
    [
        ('kind = "iperf3"\nrate = "1 Gbit/s"', ""),
        ('kind = "iperf3"', 'rate = "1 Gbit/s"'),
        ('kind = "rpc"\nconcurrency = 100', 'rate = "10 Gbit/s"'),
        ('kind = "messages"\nsize = "1 kB"\ninterval = "1 ns"\nfrom_end = true', LINE),
        ('kind = "web"\ninterval = "5 ms"', LINE),
        ('kind = "pages"\ninterval = "100 ms"', LINE),
        ('kind = "ppbp"\nburst_rate = "10 Mbit/s"\nburst_interval = "10 ms"', LINE),
        ('kind = "video"', ""),
        # A hundred times what the link carries, dropped by its queue.
        ('kind = "udp"\nrate = "1 Gbit/s"', LINE),
    ],
)
def test_an_hour_of_what_people_simulate_is_allowed(traffic, link):
    parsed = parse(scenario(traffic, link), "a lab")
    bounded(parsed, Time("1 h"))
    with pytest.raises(BadInput):
        bounded(parsed, Time("1000000 h"))


def test_a_minute_of_each_shipped_scenario_is_allowed():
    files = sorted(FOLDER.glob("*.toml"))
    loaded = [load(file) for file in files if "[[link]]" in file.read_text()]
    assert any(one.traffic for one in loaded)
    for one in loaded:
        bounded(one, Time("60 s"))


def test_many_traffics_are_bounded_together():
    one = 'kind = "udp"\nrate = "10 Gbit/s"\nstop = "1 h"\n'
    link = 'rate = "10 Gbit/s"'
    bounded(parse(scenario(one, link), "a lab"), Time("30 min"))
    both = scenario(one + '[[traffic]]\nfrom = "B"\nto = "A"\n' + one, link)
    many = both + ('[[traffic]]\nfrom = "B"\nto = "A"\n' + one) * 4
    with pytest.raises(BadInput, match="lab: 1800 s of it"):
        bounded(parse(many, "a lab"), Time("30 min"))
