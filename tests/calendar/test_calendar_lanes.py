"""Several paths of one transfer, as an agent sends, receives and tells of them."""

import asyncio
from pathlib import Path

import pytest

from weir import Rate
from weir.calendar.agents.agent import HostAgent, MoverOptions, pace, routes
from weir.calendar.lanes import Lane, lanes
from weir.calendar.service.models import AgentReport
from weir.cli import main
from weir.congestion.options import AUTO
from weir.errors import Unavailable
from weir.transfer import PAUSED, Route

ONE = {"id": "a", "data_address": "10.0.0.3:7411", "rate_bps": 4_000_000}


def told(*rates_bps, ports=(7411, 7412)):
    each = [{"path": [f"p{at}"], "rate_bps": one} for at, one in enumerate(rates_bps)]
    return ONE | {"lanes": each, "data_ports": list(ports), "rate_bps": sum(rates_bps)}


def test_an_assignment_has_a_lane_for_each_path():
    assert lanes(told(3, 0)) == [Lane(7411, ("p0",), 3), Lane(7412, ("p1",), 0)]
    # As an older calendar says it, and before the receiver is known.
    assert lanes(ONE | {"path": ["x"]}) == [Lane(7411, ("x",), 4_000_000)]
    assert lanes(ONE) == [Lane(7411, (), 4_000_000)]
    assert lanes(told(3, 1) | {"data_address": None}) == []


def test_an_agent_paces_each_lane_at_its_rate():
    idle = Rate("256 kbit/s")
    both = [Route(7411, pace(3_000_000)), Route(7412, pace(1_000_000))]
    assert routes(told(3_000_000, 1_000_000), idle) == both
    assert routes(told(0, 1_000_000), idle)[0] == Route(7411, PAUSED)
    # What waits goes on as one over a single path does.
    assert routes(told(0, 0), idle) == [Route(7411, idle), Route(7412, PAUSED)]
    assert routes(told(3_000_000), idle) == routes(ONE, idle) == []
    assert routes(told(3, 1, ports=(7411,)), idle) == []


class Line:
    """A calendar that takes reports, or is older than lanes."""

    def __init__(self, *, is_old=False):
        self.is_old = is_old
        self.posted = []

    async def post(self, _, body):
        self.posted.append(body)
        if self.is_old and "lanes_max" in body:
            raise Unavailable("422: extra inputs are not permitted")
        return {"stop": []}


def reported(line, control=None):
    options = MoverOptions(Path("/nowhere"), None, congestion=control)
    agent = HostAgent(line, options, "10.0.0.3:7411", [7411, 7412])

    async def twice():
        await agent._report()
        await agent._report()

    asyncio.run(twice())
    return line.posted


def test_an_agent_tells_its_ports_and_how_many_lanes_it_can_send():
    first, _ = reported(Line())
    assert (first["data_ports"], first["lanes_max"]) == ([7411, 7412], 8)
    assert AgentReport(**first).lanes_max == 8
    # Where the control is chosen by the path, there is one path.
    first, _ = reported(Line(), AUTO)
    assert AgentReport(**first).lanes_max == 1


def test_a_calendar_older_than_lanes_is_told_what_it_knows():
    _, second = reported(Line(is_old=True))
    assert second == {"transfers": [], "data_address": "10.0.0.3:7411"}


@pytest.mark.parametrize(
    ("listen", "ports", "why"),
    [("10.0.0.3:7411", "9", "1 to 8"), ("10.0.0.3:65535", "2", "not so many above")],
)
def test_ports_that_make_no_sense_are_refused(tmp_path, capsys, listen, ports, why):
    command = ["agent", "--calendar", "http://127.0.0.1:9", "--token", "x", "--host", "dtn1"]
    command += ["--root", str(tmp_path), "--insecure", "--data-listen", listen]
    assert main([*command, "--data-ports", ports]) == 2
    assert why in capsys.readouterr().err
