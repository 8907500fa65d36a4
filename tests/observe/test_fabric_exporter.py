"""What Prometheus is told: a port that says nothing has no gauge, and is counted by its reason."""

import json
import math
import re
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from weir.cli import main
from weir.observe.infiniband import exporter
from weir.observe.infiniband.asking import Port
from weir.observe.infiniband.report import Waited

BOARD = Path(exporter.__file__).parent / "board.json"


@pytest.fixture
def told():
    """The text that Prometheus gets after a sweep of three ports."""
    nothing = (math.nan, math.nan, math.nan)
    shown = exporter.Exporter(lambda port: f"leaf-{port.lid}[{port.number}]")
    registry = CollectorRegistry()
    registry.register(shown)
    shown.show(
        [
            Waited(Port(1, 2), "Leaf", "up", 0.25, 1e10, 7.0, ""),
            Waited(Port(1, 3), "Leaf", "up", 0.0, 0.0, 0.0, ""),
            Waited(Port(1, 4), "Leaf", "up", *nothing, "clamped"),
        ],
        0.5,
    )
    return generate_latest(registry).decode()


def test_a_stuck_counter_does_not_look_like_a_calm_port(told):
    assert 'weir_fabric_waited_ratio{kind="Leaf",port="leaf-1[2]",way="up"} 0.25' in told
    assert 'weir_fabric_waited_ratio{kind="Leaf",port="leaf-1[3]",way="up"} 0.0' in told
    assert "leaf-1[4]" not in told
    assert 'weir_fabric_ports_without_value{reason="clamped"} 1.0' in told
    assert "weir_fabric_sweep_seconds 0.5" in told
    at_s = float(re.search(r"^weir_fabric_swept_timestamp_seconds (\S+)$", told, re.M)[1])
    assert 0 <= time.time() - at_s < 600, "a sweep that hangs is told from one that is new"


def test_the_board_asks_for_what_there_is(told):
    board = json.loads(BOARD.read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"weir_fabric_\w+", target["expr"])
    }
    assert len(asked) == 4
    assert [name for name in asked if f"# TYPE {name} gauge" not in told] == []


def test_a_wrong_address_is_refused_before_the_fabric_is_asked(capsys):
    assert main(["observe", "fabric", "serve", "--listen", "9418"]) == 2
    assert "is not ADDR:PORT" in capsys.readouterr().err
