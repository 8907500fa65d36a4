"""Open vSwitch's daemons: a database and a datapath for each switch, in the switch's own room.

Each switch has its own pair, so that one can be killed, restarted or busy without the others, and
its ports are devices of its own namespace: whatever a killed daemon leaves there goes with it.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weir.errors import Unsupported
from weir.lab.switches import buffers
from weir.lab.switches.bridge import Bridge
from weir.lab.traffic import Spawn

_PROGRAMS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl")
_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_READY_S = 30.0
_LOOK_S = 0.002
_ANSWER_S = 3
_BACKOFF_MS = 1000  # between attempts to reach the controller, at most


def missing() -> str | None:
    """What a machine lacks to have switches; None where it has everything."""
    lacks = [name for name in _PROGRAMS if not shutil.which(name, path=_PATH)]
    if lacks or not _SCHEMA.exists():
        what = ", ".join(lacks) or str(_SCHEMA)
        return f"{what}: install the Debian package openvswitch-switch"
    return None


class Daemons:
    """The daemons of all switches of a lab.

    Args:
        bridges: the switches.
        spawn: starts a command in a switch's room.
        controller: where the scenario says that their controller listens.
    """

    def __init__(self, bridges: Sequence[Bridge], spawn: Spawn, controller: str | None) -> None:
        self._bridges = bridges
        self._spawn = spawn
        self._controller = controller
        self._processes: dict[str, list[subprocess.Popen[bytes]]] = {}

    def start(self, rules: Mapping[str, str], way: Path | None) -> None:
        """Brings every switch up.

        Args:
            rules: what each forwards by as long as no controller tells it, as `ovs-ofctl` reads it.
            way: the socket by which they reach the controller.

        Raises:
            Unsupported: Open vSwitch is not here, or a switch did not come up.
        """
        if lacking := missing():
            raise Unsupported(f"a switch needs {lacking}")
        for bridge in self._bridges:
            bridge.folder.mkdir(parents=True)
            if way:
                # Open vSwitch connects to no socket outside the folder of its own.
                (bridge.folder / "controller").symlink_to(way)
        self._for_each(lambda bridge: self._ovs(bridge, _created(bridge)))
        for bridge in self._bridges:
            self._processes[bridge.name] = [self._ovs(bridge, _database(bridge))]
        for bridge in self._bridges:
            self._await_socket(bridge, bridge.database)
            self._processes[bridge.name].append(self._ovs(bridge, _datapath(bridge)))
        self._for_each(lambda bridge: self._ovs(bridge, _bridge(bridge, way is not None)))
        self._for_each(lambda bridge: self._install(bridge, rules.get(bridge.name, "")))
        for _, datapath in self._processes.values():
            buffers.widen(datapath.pid)
            _hurry(datapath.pid)

    def status(self) -> list[dict[str, Any]]:
        """What `weir lab status` says of each switch."""
        return [
            {
                "name": bridge.name,
                "datapath_id": bridge.datapath_id,
                "up": all(process.poll() is None for process in self._processes[bridge.name]),
                "controller": self._controller,
                "connected": self._is_connected(bridge) if self._controller else None,
                "ports": [
                    {"number": number, "to": port.peer, "link": port.link, "device": port.device}
                    for number, port in bridge.ports.items()
                ],
            }
            for bridge in self._bridges
        ]

    def _is_connected(self, bridge: Bridge) -> bool:
        words = ["ovs-vsctl", f"--db=unix:{bridge.database}", f"--timeout={_ANSWER_S}"]
        asked = [*words, "get", "Controller", bridge.device, "is_connected"]
        done = subprocess.run(
            asked, capture_output=True, text=True, check=False, env=dict(os.environ, PATH=_PATH)
        )
        return done.stdout.strip() == "true"

    def _install(self, bridge: Bridge, rules: str) -> "subprocess.Popen[bytes]":
        path = bridge.folder / "rules"
        path.write_text(rules)
        words = ["ovs-ofctl", "-O", "OpenFlow13", "--bundle", "add-flows"]
        return self._ovs(bridge, [*words, str(bridge.management), str(path)])

    def _ovs(self, bridge: Bridge, argv: Sequence[str]) -> "subprocess.Popen[bytes]":
        folders = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
        environment = dict(os.environ, PATH=_PATH, **dict.fromkeys(folders, str(bridge.folder)))
        return self._spawn(bridge.name, argv, env=environment, stdout=subprocess.DEVNULL)

    def _for_each(self, start: Callable[[Bridge], "subprocess.Popen[bytes]"]) -> None:
        """Runs a command for every switch, all at once, to its end."""
        running = [(bridge, start(bridge)) for bridge in self._bridges]
        deadline = time.monotonic() + _READY_S
        for bridge, process in running:
            try:
                code = process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                raise self._failed(bridge, "it does not answer") from None
            if code != 0:
                raise self._failed(bridge, f"exit code {code} of a command")

    def _await_socket(self, bridge: Bridge, path: Path) -> None:
        deadline = time.monotonic() + _READY_S
        while not path.exists():
            ended = any(process.poll() is not None for process in self._processes[bridge.name])
            if ended or time.monotonic() > deadline:
                raise self._failed(bridge, f"no {path.name}")
            time.sleep(_LOOK_S)

    def _failed(self, bridge: Bridge, what: str) -> Unsupported:
        said = [path.read_text().strip() for path in sorted(bridge.folder.glob("*.log"))]
        last = "; ".join(text.splitlines()[-1] for text in said if text)
        return Unsupported(f"switch {bridge.name} did not come up: {what}; its logs end: {last}")


def _hurry(pid: int) -> None:
    """Lets a datapath's thread, the first, run before ordinary programs, as the links' threads."""
    with contextlib.suppress(PermissionError):  # then it is as punctual as the machine is idle
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(pid, policy, os.sched_param(1))


def _created(bridge: Bridge) -> list[str]:
    return ["ovsdb-tool", "create", str(bridge.folder / "conf.db"), str(_SCHEMA)]


def _database(bridge: Bridge) -> list[str]:
    return [
        "ovsdb-server",
        str(bridge.folder / "conf.db"),
        f"--remote=punix:{bridge.database}",
        f"--unixctl={bridge.folder / 'ovsdb.ctl'}",
        f"--log-file={bridge.folder / 'ovsdb.log'}",
        "-vconsole:off",
    ]


def _datapath(bridge: Bridge) -> list[str]:
    return [
        "ovs-vswitchd",
        f"unix:{bridge.database}",
        f"--unixctl={bridge.control}",
        f"--log-file={bridge.folder / 'vswitchd.log'}",
        "-vconsole:off",
    ]


def _bridge(bridge: Bridge, controlled: bool) -> list[str]:
    """The command that makes the bridge, and returns when the daemon has made it."""
    name = bridge.device
    # Handlers serve the kernel's datapath, which there is none of here.
    threads = ["other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1"]
    settings = [
        "datapath_type=netdev",
        "fail_mode=secure",
        "protocols=OpenFlow13,OpenFlow14,OpenFlow15",
        f"other-config:datapath-id={bridge.datapath_id}",
        "other-config:disable-in-band=true",
    ]
    words = ["ovs-vsctl", f"--db=unix:{bridge.database}", f"--timeout={_READY_S:.0f}"]
    words += ["--", "set", "Open_vSwitch", ".", *threads]
    words += ["--", "add-br", name, "--", "set", "Bridge", name, *settings]
    for number, port in bridge.ports.items():
        words += ["--", "add-port", name, port.device]
        words += ["--", "set", "Interface", port.device, f"ofport_request={number}"]
    if controlled:
        words += ["--", "set-controller", name, f"unix:{bridge.folder / 'controller'}"]
        words += ["--", "set", "Controller", name, f"max_backoff={_BACKOFF_MS}"]
        words += ["connection_mode=out-of-band"]
    return words
