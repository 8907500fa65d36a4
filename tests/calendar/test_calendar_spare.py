"""What a calendar says about sending beside the promise, and what agents make of it."""

from pathlib import Path

import pytest

from weir.calendar.agent import MoverOptions, _spare
from weir.cli import main
from weir.congestion.options import AUTO
from weir.transfer import Spare


@pytest.mark.parametrize("service", ["le", "cs1"])
def test_an_agent_sends_beside_the_promise_what_it_is_told(service):
    options = MoverOptions(Path("/"), None, congestion="reno")
    assert _spare({"spare": service}, options) == Spare(service, congestion="reno")


def test_an_agent_sends_nothing_beside_the_promise_unless_it_is_told():
    options = MoverOptions(Path("/"), None)
    assert _spare({"spare": None}, options) is None
    # As an older calendar says it.
    assert _spare({}, options) is None
    # A path is probed in silence.
    assert _spare({"spare": "le"}, MoverOptions(Path("/"), None, congestion=AUTO)) is None


def test_a_class_that_is_none_is_refused(tmp_path, capsys):
    network = tmp_path / "network.toml"
    network.write_text("")
    assert main(["calendar", "serve", "--network", str(network), "--spare", "ef"]) == 2
    assert "off, le or cs1" in capsys.readouterr().err
