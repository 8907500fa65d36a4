"""Open vSwitch for benchmarks of controllers: its dummy datapath, whose packets we make."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from weir.errors import Unavailable, Unsupported

_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
PATIENCE_S = 60.0
HOST, CABLE, SPARE = "h", "a", "b"
"""Names of ports: toward a host, and of two cables between two switches."""
NUMBERS = {HOST: 1, CABLE: 2, SPARE: 3, "h2": 4}


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a switch: to a host, or to a port of the same kind of another switch."""

    switch: str
    kind: str
    peer: str | None = None

    @property
    def name(self) -> str:
        """As Open vSwitch has it, where names are the machine's."""
        return f"{self.switch}-{self.kind}"

    def words(self, folder: Path) -> list[str]:
        """What adds it."""
        added = ["--", "add-port", self.switch, self.name, "--", "set", "Interface", self.name]
        added.append(f"ofport_request={NUMBERS[self.kind]}")
        if self.peer:
            return [*added, "type=patch", f"options:peer={self.peer}-{self.kind}"]
        return [*added, "type=dummy", f"options:tx_pcap={folder / self.name}.pcap"]


class Fabric:
    """Switches that end with the block, and what can be asked of them.

    Args:
        folder: for their files; its path must be short, since it has sockets.
        ports: of all switches, whose datapath ids are 1, 2, ...
        controller: `tcp:HOST:PORT`.
    """

    def __init__(self, folder: Path, ports: Sequence[Port], controller: str) -> None:
        self.folder, self.ports, self.controller = folder, ports, controller
        self.switches = list(dict.fromkeys(port.switch for port in ports))
        names = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        self._env = os.environ | {"PATH": path} | dict.fromkeys(names, str(folder))
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        if not _SCHEMA.exists():
            raise Unsupported("the benchmark needs the Debian package openvswitch-switch")
        try:
            self._build()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._control.close()
        self._end()

    @property
    def pid(self) -> int:
        """The number of the process that the switches are."""
        return self._daemons[-1].pid

    def restart(self) -> None:
        """The switches forget everything at once, and are there again."""
        self._control.close()
        switches = self._daemons.pop()
        switches.kill()
        switches.wait()
        (self.folder / "ctl").unlink()
        self._start()
        await_that(self._answers, "switch")

    def adding(self, port: Port) -> list[str]:
        """The words of `configure` that add a port."""
        return port.words(self.folder)

    def configure(self, *words: str) -> None:
        """Changes them, and waits until it is done."""
        self.run("ovs-vsctl", f"--db=unix:{self.folder}/db.sock", *words)

    def changing(self, *words: str) -> "subprocess.Popen[bytes]":
        """The same without waiting."""
        argv = ["ovs-vsctl", f"--db=unix:{self.folder}/db.sock", *words]
        return subprocess.Popen(argv, env=self._env)

    def run(self, *argv: str) -> str:
        """What a command says; raises `Unavailable` if it fails."""
        done = subprocess.run(argv, env=self._env, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Unavailable(f"{argv[0]}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def count(self) -> int:
        """How many rules there are in all switches."""
        found = 0
        for switch in self.switches:
            said = self.run("ovs-ofctl", "-O", "OpenFlow13", "dump-aggregate", switch)
            found += int(said.split("flow_count=")[1].split()[0])
        return found

    def connected(self) -> bool:
        """Whether every switch has its controller."""
        database = f"--db=unix:{self.folder}/db.sock"
        said = self.run("ovs-vsctl", database, "--columns=is_connected", "list", "Controller")
        return said.count("true") == len(self.switches)

    def receive(self, port: Port, packet: str) -> None:
        """A packet, as Open vSwitch writes it, comes in by a host's port."""
        self._ask("netdev-dummy/receive", port.name, packet)

    def sent(self, port: Port) -> int:
        """How many bytes of packets have gone out by a host's port."""
        path = self.folder / f"{port.name}.pcap"
        return path.stat().st_size if path.exists() else 0

    def sent_bytes(self, port: Port, begin: int) -> bytes:
        """What has gone out by a host's port, as a capture has it, from some byte on."""
        with (self.folder / f"{port.name}.pcap").open("rb") as capture:
            capture.seek(begin)
            return capture.read()

    def _ask(self, method: str, *params: str) -> Any:
        """Over the daemon's own socket: a program for each packet would take longer than it."""
        message = {"id": 0, "method": method, "params": params}
        self._control.sendall(json.dumps(message).encode())
        said = b""
        while True:
            said += self._control.recv(65536)
            try:
                return json.loads(said)["result"]
            except ValueError:
                continue

    def _bridges(self) -> list[str]:
        words = []
        for number, switch in enumerate(self.switches, 1):
            words += ["--", "add-br", switch, "--", "set", "Bridge", switch, "datapath_type=dummy"]
            words += ["fail_mode=secure", "protocols=OpenFlow13"]
            words += [f"other-config:datapath-id={number:016x}"]
            words += ["--", "set-controller", switch, self.controller]
            words += ["--", "set", "Controller", switch, "max_backoff=1000"]
            # Open vSwitch holds back what is sent to a controller, unless it is told not to.
            words += ["controller_rate_limit=1000000", "controller_burst_limit=1000000"]
        return words

    def _build(self) -> None:
        database = self.folder / "db.sock"
        self.run("ovsdb-tool", "create", f"{self.folder}/conf.db", str(_SCHEMA))
        self._spawn("ovsdb-server", f"{self.folder}/conf.db", f"--remote=punix:{database}")
        await_that(database.exists, "a database of Open vSwitch")
        self._start()
        self.configure(*self._bridges(), *(x for port in self.ports for x in self.adding(port)))

    def _end(self) -> None:
        for daemon in self._daemons:
            daemon.kill()
            daemon.wait()

    def _answers(self) -> bool:
        try:
            return self.count() >= 0
        except Unavailable:
            return False

    def _start(self) -> None:
        control = self.folder / "ctl"
        words = ("--enable-dummy=override", "--disable-system", f"--unixctl={control}")
        self._spawn("ovs-vswitchd", f"unix:{self.folder / 'db.sock'}", *words)
        self._control = socket.socket(socket.AF_UNIX)
        await_that(lambda: self._control.connect_ex(str(control)) == 0, "Open vSwitch")

    def _spawn(self, *argv: str) -> None:
        silent = [*argv, "-vconsole:off"]
        self._daemons.append(subprocess.Popen(silent, env=self._env, stdout=subprocess.DEVNULL))


def mac(number: int) -> str:
    """The address of a host by its number."""
    return ":".join(f"{byte:02x}" for byte in (0x0A, *number.to_bytes(5)))


def packet(source: int, target: int) -> str:
    """A packet of TCP to port 7411 between two hosts, as Open vSwitch writes it.

    The first two have the addresses 10.0.0.1 and 10.0.0.2.
    """
    return (
        f"in_port(1),eth(src={mac(source)},dst={mac(target)}),eth_type(0x0800),"
        f"ipv4(src=10.0.0.{min(source, 254)},dst=10.0.0.{target},proto=6,tos=0,ttl=64,frag=no),"
        "tcp(src=9,dst=7411),tcp_flags(ack)"
    )


def await_that(holds: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Waits until something holds; raises `Unavailable`, with what there is not."""
    deadline_s = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > deadline_s:
            raise Unavailable(f"there is no {what} after {patience_s:.0f} s")
        time.sleep(0.01)
