"""Open vSwitch's daemons: a database and a datapath for each switch, in the switch's own room.

Each switch has its own pair, so that one can be killed, restarted or busy without the others, and
its ports are devices of its own namespace: whatever a killed daemon leaves there goes with it.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

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
    """

    def __init__(self, bridges: Sequence[Bridge], spawn: Spawn) -> None:
        self._bridges = {bridge.name: bridge for bridge in bridges}
        self._spawn = spawn
        self._processes: dict[str, list[subprocess.Popen[bytes]]] = {}
        # How many descriptors a datapath had when it had no socket yet to send by.
        self._narrow: dict[str, int] = {}

    def start(self, way: Path | None, shaped: Mapping[str, Sequence[str]]) -> None:
        """Brings every switch up.

        Args:
            way: the socket by which they reach their controller.
            shaped: by switch, the devices whose queues are not Open vSwitch's business.

        Raises:
            Unsupported: a switch did not come up.
        """
        bridges = self._bridges.values()
        for bridge in bridges:
            bridge.folder.mkdir(parents=True)
            if way:
                # Open vSwitch connects to no socket outside the folder of its own.
                (bridge.folder / "controller").symlink_to(way)
        self.for_each(bridges, _created)
        self._run(bridges)
        self.for_each(
            bridges,
            lambda bridge: _bridge(bridge, way is not None, shaped.get(bridge.name, ())),
        )
        self._hurry(bridges)

    def restart(self, name: str) -> None:
        """Kills the daemons of a switch and starts new ones, which know no rules."""
        bridge = self._bridges[name]
        for process in self._processes[name]:
            process.kill()
            process.wait()
        bridge.database.unlink(missing_ok=True)
        self._run([bridge])
        # Returns when the new daemon has made of its bridge what the database says.
        self.for_each(
            [bridge],
            lambda one: [*_vsctl(one), "set", "Bridge", one.device, "external_ids:restarted=yes"],
        )
        self._hurry([bridge])

    def install(self, rules: Mapping[str, str]) -> None:
        """Adds rules, as `ovs-ofctl add-flows` reads them, to switches by name."""
        bridges = [self._bridges[name] for name in rules]
        for bridge in bridges:
            (bridge.folder / "rules").write_text(rules[bridge.name])
        self.for_each(bridges, _rules)

    def are_up(self, name: str) -> bool:
        """Whether no daemon of a switch has ended."""
        return all(process.poll() is None for process in self._processes[name])

    def dropped(self, name: str) -> int:
        """Packets that a switch was too slow to take; none if it is down."""
        return buffers.dropped(self._processes[name][1].pid) if self.are_up(name) else 0

    def tend(self, is_quick: bool = False) -> bool:
        """Widens what opens late: a datapath has its socket to send by from its first packet on.

        Args:
            is_quick: looks only at those that have more or fewer descriptors than before.

        Returns:
            Whether every datapath has that socket.
        """
        for name in filter(self.are_up, list(self._narrow)):
            pid = self._processes[name][1].pid
            descriptors = buffers.descriptors(pid)
            if is_quick and descriptors == self._narrow[name]:
                continue
            self._narrow[name] = descriptors
            if buffers.widen(pid) > len(self._bridges[name].ports):
                del self._narrow[name]
        return not self._narrow

    def asked(self, name: str, argv: Sequence[str]) -> str:
        """What a command in a switch's room prints; nothing if it fails."""
        process = self._ovs(self._bridges[name], argv, stdout=subprocess.PIPE)
        try:
            said, _ = process.communicate(timeout=_ANSWER_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return ""
        return said.decode() if process.returncode == 0 else ""

    def is_connected(self, name: str) -> bool:
        """Whether a switch has its controller, as its database has it: some seconds old."""
        bridge = self._bridges[name]
        words = [*_vsctl(bridge, _ANSWER_S), "get", "Controller", bridge.device, "is_connected"]
        return self.asked(name, words).strip() == "true"

    def for_each(
        self,
        bridges: Iterable[Bridge],
        command: Callable[[Bridge], Sequence[str]],
        given: Mapping[str, str] | None = None,
    ) -> None:
        """Runs a command in the room of each switch, all at once, to its end.

        Args:
            bridges: of the switches.
            command: with its arguments.
            given: its standard input, by switch; nothing if absent.

        Raises:
            Unsupported: it failed, or does not end.
        """
        running = []
        for bridge in bridges:
            stdin = subprocess.PIPE if given else subprocess.DEVNULL
            process = self._ovs(bridge, command(bridge), stdin=stdin)
            running.append((bridge, process, given[bridge.name].encode() if given else None))
        for bridge, process, text in running:
            try:
                process.communicate(text, timeout=_READY_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise self._failed(bridge, "it does not answer") from None
            if process.returncode != 0:
                raise self._failed(bridge, f"{command(bridge)[0]} failed")

    def _run(self, bridges: Collection[Bridge]) -> None:
        """Starts a database and a datapath for each, which need not have looked at it yet."""
        for bridge in bridges:
            self._processes[bridge.name] = [self._ovs(bridge, _database(bridge))]
        for bridge in bridges:
            self._await_socket(bridge, bridge.database)
            self._processes[bridge.name].append(self._ovs(bridge, _datapath(bridge)))

    def _hurry(self, bridges: Iterable[Bridge]) -> None:
        for bridge in bridges:
            self._narrow[bridge.name] = 0
            _hurry(self._processes[bridge.name][1].pid)
        self.tend()

    def _ovs(
        self, bridge: Bridge, argv: Sequence[str], **streams: int
    ) -> "subprocess.Popen[bytes]":
        folders = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
        environment = dict(os.environ, PATH=_PATH, **dict.fromkeys(folders, str(bridge.folder)))
        streams = {"stdout": subprocess.DEVNULL, **streams}
        return self._spawn(bridge.name, argv, env=environment, **streams)

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


def _rules(bridge: Bridge) -> list[str]:
    words = ["ovs-ofctl", "-O", "OpenFlow13", "--bundle", "add-flows"]
    return [*words, str(bridge.management), str(bridge.folder / "rules")]


def _vsctl(bridge: Bridge, timeout_s: float = _READY_S) -> list[str]:
    return ["ovs-vsctl", f"--db=unix:{bridge.database}", f"--timeout={timeout_s:.0f}"]


def _bridge(bridge: Bridge, controlled: bool, shaped: Sequence[str]) -> list[str]:
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
    words = [*_vsctl(bridge), "--", "set", "Open_vSwitch", ".", *threads]
    words += ["--", "add-br", name, "--", "set", "Bridge", name, *settings]
    for number, port in bridge.ports.items():
        words += ["--", "add-port", name, port.device]
        words += ["--", "set", "Interface", port.device, f"ofport_request={number}"]
    for device in shaped:
        words += ["--", "set", "Port", device, "qos=@as-it-is"]
    if shaped:
        words += ["--", "--id=@as-it-is", "create", "QoS", "type=linux-noop"]
    if controlled:
        words += ["--", "set-controller", name, f"unix:{bridge.folder / 'controller'}"]
        words += ["--", "set", "Controller", name, f"max_backoff={_BACKOFF_MS}"]
        words += ["connection_mode=out-of-band"]
    return words
