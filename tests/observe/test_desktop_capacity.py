"""How many desktops a server and a line carry: beside the machine repairman and a Markov chain."""

import itertools
import json

import numpy as np
import pytest

from weir.cli import main
from weir.errors import BadInput
from weir.observe.desktop.capacity import Demand, loads, most


def first(demand, count):
    return list(itertools.islice(loads(demand), count))


def test_one_station_is_the_machine_repairman():
    need, think = 0.2, 3.0
    for load in first(Demand(0.0, need, 0.0, think), 40):
        terms, term = [1.0], 1.0
        for k in range(load.desktops):
            term *= (load.desktops - k) * need / think
            terms.append(term)
        busy = 1 - 1 / sum(terms)
        assert load.line == pytest.approx(busy)
        assert load.dut == pytest.approx(load.desktops * need / busy - think)


def chain(demand, desktops):
    """Mean time of an update by the balance of a Markov chain with exponential times."""
    states = [
        (server, line) for server in range(desktops + 1) for line in range(desktops + 1 - server)
    ]
    index = {state: at for at, state in enumerate(states)}
    rates = np.zeros((len(states), len(states)))

    def flow(state, other, rate):
        if rate:
            rates[index[state], index[other]] += rate
            rates[index[state], index[state]] -= rate

    for server, line in states:
        thinking = desktops - server - line
        if thinking:
            flow((server, line), (server + 1, line), thinking / demand.think)
        if server:
            busy = min(server, demand.processors)
            flow((server, line), (server - 1, line + 1), busy / demand.server)
        if line:
            flow((server, line), (server, line - 1), 1 / demand.line)
    balance = np.vstack([rates.T, np.ones(len(states))])
    shares = np.linalg.lstsq(balance, np.append(np.zeros(len(states)), 1), rcond=None)[0]
    waiting = sum(share * sum(state) for share, state in zip(shares, states, strict=True))
    done = sum(share / demand.line for share, (_, line) in zip(shares, states, strict=True) if line)
    return waiting / done


@pytest.mark.parametrize("processors", [1, 2, 4])
def test_two_stations_are_as_a_markov_chain_has_them(processors):
    demand = Demand(0.3, 0.1, 0.0, 1.5, processors)
    for load in first(demand, 14):
        assert load.dut == pytest.approx(chain(demand, load.desktops), rel=1e-6)


def test_many_are_as_slow_as_the_narrowest_part():
    demand = Demand(0.05, 0.2, 0.1, 2.0, 4)
    *_, load = first(demand, 500)
    assert load.line == pytest.approx(1)
    assert load.dut == pytest.approx(500 * 0.2 - 2.0, rel=1e-3)
    alone = first(demand, 1)[0]
    assert alone.dut == pytest.approx(0.05 + 0.2 + 0.1)


def test_most_is_the_last_within_the_limit():
    demand = Demand(0.05, 0.2, 0.1, 2.0)
    count = most(demand, 1.0)
    found = first(demand, count + 1)
    assert found[-2].dut <= 1.0 < found[-1].dut
    assert most(demand, 0.1) == 0
    assert most(demand, 1e9, at_most=10) == 10


@pytest.mark.parametrize(
    "wrong", [(-1, 1, 0, 1, 1), (0, 0, 0, 1, 1), (1, 1, 0, 1, 0)], ids=["time", "none", "cores"]
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(BadInput):
        Demand(*wrong)


COMMAND = [
    "observe",
    "desktop",
    "capacity",
    "--server",
    "0.03",
    "--think",
    "20",
    "--processors",
    "4",
    "--bytes",
]
COMMAND.append("250 kB")


def test_the_command_says_how_many(capsys):
    assert main([*COMMAND, "--line", "100 Mbit/s", "--limit", "0.5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    demand = Demand(0.03, 0.02, 0.0, 20.0, 4)
    assert told["most_desktops"] == most(demand, 0.5)
    assert told["loads"][0]["dut_s"] == pytest.approx(0.05)
    assert main([*COMMAND, "--line", "100 Mbit/s"]) == 0
    said = capsys.readouterr().out
    assert "1.000 s" in said


def test_the_command_refuses_a_line_without_rate(capsys):
    assert main([*COMMAND, "--line", "fast"]) == 2
    assert "fast" in capsys.readouterr().err
