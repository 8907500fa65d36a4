"""Controllers of switches, each as a process: Weir's, a learning switch on os-ken, and Faucet."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from benches.control_fabric import CABLE, HOST, NUMBERS, SPARE, Fabric, Port, packet
from benches.environment import python_of

FAUCET = "1.10.12"
_HERE = Path(__file__).parent
# One switch with two hosts, and two switches with a host each, joined by two cables.
ONE = [Port("s1", HOST), Port("s1", "h2")]
TWO = [Port("s1", HOST), Port("s2", HOST)]
CABLES = [Port("s1", kind, "s2") for kind in (CABLE, SPARE)]
CABLES += [Port("s2", kind, "s1") for kind in (CABLE, SPARE)]


class Controller(Protocol):
    """One that is measured.

    Attributes:
        name: as tables have it.
        has_spare: whether it may have two cables between two switches at the same time.
        knows_all: whether it knows what rules there are to be without seeing packets.
        rules_per_step: how many rules one pair or host brings at one switch.
    """

    name: str
    has_spare: bool
    knows_all: bool
    rules_per_step: int

    def run(self, folder: Path, switches: int) -> "contextlib.AbstractContextManager[Running]":
        """Starts it for one switch or for two."""


class Running:
    """A controller that runs: its process, where it listens, and what makes it install rules."""

    def __init__(self, process: "subprocess.Popen[str]", port: int, is_told: bool) -> None:
        self.process, self.port, self._is_told = process, port, is_told

    def install(self, fabric: Fabric, first: int, last: int) -> None:
        """Gives it reason to install rules: pairs are allotted, or hosts appear, from one on."""
        if self._is_told:
            self.tell(last - first)
            return
        for number in range(3 + first, 3 + last):
            fabric.receive(ONE[0], packet(number, 2))

    def tell(self, pairs: int) -> None:
        """Allots so many pairs; only Weir's is told."""
        if self._is_told and self.process.stdin:
            self.process.stdin.write(f"{pairs}\n")
            self.process.stdin.flush()


class Weir:
    """`weir.control`, with a program in the calendar's place that says what pairs are allotted."""

    name = "Weir"
    has_spare = True
    knows_all = True
    # TCP with a promise, LE and CS1 of it, and UDP; two meters come with them.
    rules_per_step = 4

    @contextlib.contextmanager
    def run(self, folder: Path, switches: int) -> Iterator[Running]:
        """A network file for one switch or two, and the controller."""
        path = folder / "network.json"
        path.write_text(json.dumps(_network(switches)))
        port = free_port()
        words = [sys.executable, "-m", "benches.peers.weir_controller", str(path), str(port)]
        with _process(words, folder, stdin=subprocess.PIPE) as process:
            yield Running(process, port, True)


class LearningSwitch:
    """The way of os-ken's and Ryu's simple_switch_13, on the os-ken that Weir has, too."""

    name = "os-ken learning switch"
    has_spare = False
    knows_all = False
    rules_per_step = 1

    @contextlib.contextmanager
    def run(self, folder: Path, switches: int) -> Iterator[Running]:
        """Its app, started as os-ken's documents have it."""
        port = free_port()
        words = [sys.executable, str(_HERE / "learning_switch.py"), str(port)]
        with _process(words, folder) as process:
            yield Running(process, port, False)


class Faucet:
    """Faucet, in an environment of its own: it needs an older os-ken than Weir."""

    name = f"Faucet {FAUCET}"
    has_spare = True
    knows_all = False
    # One for what comes from a host, one for what goes to it.
    rules_per_step = 2

    @contextlib.contextmanager
    def run(self, folder: Path, switches: int) -> Iterator[Running]:
        """Its configuration, JSON as YAML's subset, and the controller."""
        python = python_of("faucet", FAUCET, ["setuptools<70", "wheel"])
        config = folder / "faucet.yaml"
        config.write_text(json.dumps(_faucet(switches)))
        port = free_port()
        env = os.environ | {
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "FAUCET_CONFIG": str(config),
            "FAUCET_LOG": str(folder / "faucet.log"),
            "FAUCET_EXCEPTION_LOG": str(folder / "faucet_exception.log"),
            "FAUCET_PROMETHEUS_PORT": str(free_port()),
            "FAUCET_PROMETHEUS_ADDR": "127.0.0.1",
        }
        words = [str(python.parent / "faucet"), "--ryu-ofp-listen-host=127.0.0.1"]
        words.append(f"--ryu-ofp-tcp-listen-port={port}")
        with _process(words, folder, env=env) as process:
            yield Running(process, port, False)


def controllers() -> list[Controller]:
    """All of them, Weir first."""
    return [Weir(), LearningSwitch(), Faucet()]


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _network(switches: int) -> dict[str, object]:
    nodes: dict[str, dict[str, str]] = {
        f"s{x}": {"datapath": str(x)} for x in range(1, switches + 1)
    }
    nodes |= {"h1": {"address": "10.0.0.1"}, "h2": {"address": "10.0.0.2"}}
    ends = [
        ("h1", "", "s1", "s1-h"),
        ("h2", "", f"s{switches}", "s1-h2" if switches == 1 else "s2-h"),
    ]
    if switches == 2:
        ends += [("s1", f"s1-{kind}", "s2", f"s2-{kind}") for kind in (CABLE, SPARE)]
    links = [
        {"name": f"{a}{b}{x}", "ends": [a, b], "ports": [at, to], "capacity": "10 Gbit/s"}
        for x, (a, at, b, to) in enumerate(ends)
    ]
    return {"nodes": nodes, "links": links}


def _faucet(switches: int) -> dict[str, object]:
    # Hosts are learned however many there are, and at once.
    host = {"native_vlan": "hosts", "max_hosts": 1_000_000}
    dps: dict[str, object] = {}
    for number in range(1, switches + 1):
        # By name: numbers are not what keys are in JSON.
        interfaces: dict[str, object] = {HOST: host | {"number": NUMBERS[HOST]}}
        if switches == 1:
            interfaces["h2"] = host | {"number": NUMBERS["h2"]}
        else:
            for kind in (CABLE, SPARE):
                other = {"dp": f"s{3 - number}", "port": kind}
                interfaces[kind] = {"number": NUMBERS[kind], "stack": other}
        dp: dict[str, object] = {
            "dp_id": number,
            "hardware": "Open vSwitch",
            "ignore_learn_ins": 0,
            "interfaces": interfaces,
        }
        if switches == 2 and number == 1:
            dp["stack"] = {"priority": 1}
        dps[f"s{number}"] = dp
    return {"vlans": {"hosts": {"vid": 100, "max_hosts": 1_000_000}}, "dps": dps}


@contextlib.contextmanager
def _process(
    words: list[str], folder: Path, env: dict[str, str] | None = None, stdin: int | None = None
) -> Iterator["subprocess.Popen[str]"]:
    with (folder / "controller.log").open("w") as log:
        process = subprocess.Popen(
            words, env=env, stdin=stdin or subprocess.DEVNULL, stdout=log, stderr=log, text=True
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
