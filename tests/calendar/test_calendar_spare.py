"""What a calendar says about sending beside the promise, and what agents make of it."""

import json
from pathlib import Path

import httpx
import pytest
from calendar_lab import CalendarProcess, headers, request

from weir import Bytes
from weir.calendar.agents.agent import PACE_FLOOR_BPS, MoverOptions, _rate, _spare
from weir.cli import main
from weir.congestion.options import AUTO
from weir.transfer import YIELDING, Spare


@pytest.mark.parametrize("service", ["le", "cs1"])
def test_an_agent_sends_beside_the_promise_what_it_is_told(service):
    options = MoverOptions(Path("/"), None, congestion="reno")
    assert _spare({"spare": service}, options) == Spare(service, congestion="reno")
    yields = MoverOptions(Path("/"), None, congestion="reno", spare_congestion=YIELDING)
    assert _spare({"spare": service}, yields) == Spare(service, congestion=YIELDING)
    short = MoverOptions(Path("/"), None, spare_packet=Bytes("1500 B"))
    assert _spare({"spare": service}, short) == Spare(service, packet=Bytes("1500 B"))


def test_an_agent_sends_nothing_beside_the_promise_unless_it_is_told():
    options = MoverOptions(Path("/"), None)
    assert _spare({"spare": None}, options) is None
    # As an older calendar says it.
    assert _spare({}, options) is None
    # A path is probed in silence.
    assert _spare({"spare": "le"}, MoverOptions(Path("/"), None, congestion=AUTO)) is None


def test_who_is_promised_nothing_now_leaves_all_to_what_it_sends_beside():
    options = MoverOptions(Path("/"), None)
    assert _rate({"rate_bps": 0, "spare": "le"}, options).bit_per_s == 0
    # Where nothing goes beside, it goes on slowly; so does whoever is promised next to nothing.
    assert _rate({"rate_bps": 0, "spare": None}, options).bit_per_s == PACE_FLOOR_BPS
    assert _rate({"rate_bps": 1, "spare": "le"}, options).bit_per_s == PACE_FLOOR_BPS


@pytest.mark.parametrize(("options", "told"), [(["--spare", "cs1"], "cs1"), ([], None)])
def test_the_service_tells_agents_the_class_that_it_was_given(tmp_path, options, told):
    calendar = CalendarProcess(tmp_path, options=options).start()
    try:
        with calendar.client() as client:
            client.submit(request())
        url = f"{calendar.url}/v1/agents/dtn1/assignments"
        with httpx.stream("GET", url, headers=headers(calendar.token), timeout=120) as response:
            lines = response.iter_lines()
            said = next(line for line in lines if line.startswith("data: "))
        snapshot = json.loads(said.removeprefix("data: "))
        assert [assignment["spare"] for assignment in snapshot["assign"]] == [told]
    finally:
        calendar.stop()


def test_a_class_that_is_none_is_refused(tmp_path, capsys):
    network = tmp_path / "network.toml"
    network.write_text("")
    assert main(["calendar", "serve", "--network", str(network), "--spare", "ef"]) == 2
    assert "off, le or cs1" in capsys.readouterr().err
