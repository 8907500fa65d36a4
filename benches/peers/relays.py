"""Relays between a client and a server, each as it is run on a host between the two."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benches.account import Command, Group, started, tail
from benches.relay_hosts import CLIENT_SIDE, SERVER, Hosts, pairs_max
from benches.testbed import CONGESTION
from weir.errors import Unavailable

WEIR = str(Path(sys.executable).with_name("weir"))
PORT, SPLIT_PORT = 9_000, 9_100
"""Where relays listen, and where the far end of a pair of them does."""
PATIENCE_S = 30.0
HAPROXY = """\
global
    no strict-limits
    maxconn {most}
{threads}
defaults
    mode tcp
    maxconn {most}
    option splice-request
    option splice-response
    timeout connect 20s
    timeout client 1h
    timeout server 1h
listen relay
    bind {listen}
    server one {server}
"""


@dataclass(frozen=True)
class Running:
    """A relay that runs: where clients connect, and what it runs in (None where there is none)."""

    address: str
    port: int
    group: Group | None

    def cpu_s(self) -> float:
        """Seconds of processor that it has used."""
        return self.group.cpu_s() if self.group else 0.0

    def memory_bytes(self) -> int:
        """What its processes have for themselves alone."""
        return sum(map(own_bytes, self.group.processes())) if self.group else 0


def own_bytes(process: int) -> int:
    """Memory that one process has and no other; sockets' and pipes' buffers are the kernel's."""
    told = Path(f"/proc/{process}/smaps_rollup").read_text()
    lines = [line.split() for line in told.splitlines() if line.startswith("Private_")]
    return 1024 * sum(int(words[1]) for words in lines)


class Way:
    """A way from the client to the server.

    Attributes:
        name: as tables have it.
        is_ours: whether it is Weir's.
    """

    name = "no proxy"
    is_ours = False

    def commands(self, folder: Path, port: int) -> list[tuple[Command, int]]:
        """The programs on the host between, towards the server's port, and where each listens."""
        del folder, port
        return []

    @contextlib.contextmanager
    def running(self, hosts: Hosts, folder: Path, port: int) -> Iterator[Running]:
        """Runs it, until the block is left."""
        commands = self.commands(folder, port)
        if not commands:
            yield Running(SERVER, port, None)
            return
        log = folder / "relay.log"
        log.write_bytes(b"")
        with contextlib.ExitStack() as stack:
            group = stack.enter_context(hosts.cgroups.group("relay"))
            for command, listens in commands:
                process = stack.enter_context(started(command, hosts.between.enter, group, log))
                # In order, so that nothing of it is left in the kernel.
                stack.callback(_end, process)
                deadline = time.monotonic() + PATIENCE_S
                while not hosts.between.listens(listens):
                    if time.monotonic() > deadline:
                        raise Unavailable(f"{self.name} does not listen; {tail(log)}")
                    time.sleep(0.01)
            yield Running(CLIENT_SIDE, PORT, group)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE_S)


class HaProxy(Way):
    """HAProxy in TCP mode with splice, with as many threads as it takes by itself, or one."""

    def __init__(self, threads: int | None = None) -> None:
        self.name = "HAProxy" if threads is None else f"HAProxy, {threads} thread"
        self._threads = threads

    def commands(self, folder: Path, port: int) -> list[tuple[Command, int]]:
        """One process, in the foreground."""
        threads = "" if self._threads is None else f"    nbthread {self._threads}"
        ends = {"listen": f"{CLIENT_SIDE}:{PORT}", "server": f"{SERVER}:{port}"}
        file = folder / "haproxy.cfg"
        file.write_text(HAPROXY.format(threads=threads, most=pairs_max(), **ends))
        return [(Command(["haproxy", "-db", "-f", str(file)]), PORT)]


class CopyLoop(Way):
    """`copy_loop.py`."""

    name = "copy loop"

    def commands(self, folder: Path, port: int) -> list[tuple[Command, int]]:
        """One process of one thread."""
        del folder
        program = Path(__file__).with_name("copy_loop.py")
        words = [sys.executable, str(program), str(PORT), SERVER, str(port)]
        return [(Command(words), PORT)]


class Proxy(Way):
    """`weir relay proxy`."""

    name = "weir relay proxy"
    is_ours = True

    def commands(self, folder: Path, port: int) -> list[tuple[Command, int]]:
        """One process, of which one thread relays."""
        del folder
        words = ["proxy", "--listen", f"{CLIENT_SIDE}:{PORT}", "--server", f"{SERVER}:{port}"]
        return [(Command([WEIR, "relay", *words]), PORT)]


class Joined(Way):
    """`weir relay join` and `split`, both on the host between, joined by its loopback device."""

    is_ours = True

    def __init__(self, linked: str | None = None) -> None:
        self.name = "weir relay join" + (f", --linked-ack {linked}" if linked else "")
        self._linked = linked

    def commands(self, folder: Path, port: int) -> list[tuple[Command, int]]:
        """Both ends."""
        del folder
        to, far = f"{SERVER}:{port}", f"127.0.0.1:{SPLIT_PORT}"
        split = ["split", "--listen", far, "--from", "127.0.0.1", "--to", to]
        join = ["join", "--listen", f"{CLIENT_SIDE}:{PORT}", "--split", far, "--server", to]
        join += ["--linked-ack", self._linked] if self._linked else []
        # No route says so for the loopback device.
        join += ["--cca", CONGESTION]
        split += ["--cca", CONGESTION]
        ends = ((split, SPLIT_PORT), (join, PORT))
        return [(Command([WEIR, "relay", *words]), listens) for words, listens in ends]


def ways() -> list[Way]:
    """All of them, Weir's first."""
    weirs: list[Way] = [Proxy(), Joined(), Joined("strict")]
    return [*weirs, HaProxy(), HaProxy(1), CopyLoop(), Way()]
