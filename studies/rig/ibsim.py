"""A fabric by ibsim, which answers management datagrams as switches would, and its subnet manager.

What is run within it is an ordinary program: ibsim's library stands before libibumad's devices.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.errors import Unavailable, Unsupported
from weir.observe.infiniband import dump
from weir.observe.infiniband.dump import HOST, Fabric

PROGRAMS = {
    "ibsim": "ibsim-utils",
    "opensm": "opensm",
    "perfquery": "infiniband-diags",
    "ibnetdiscover": "infiniband-diags",
}
"""What is needed, and the Debian packages that have it."""
_LIBRARY = "umad2sim/libumad2sim.so"
_READY_S, _MANAGED_S = 20.0, 120.0
# When its console has gone ibsim reads on from it without end, and takes a processor for itself.
_UNTIL_WE_DIE = ("setpriv", "--pdeathsig", "KILL")


def lacking() -> str | None:
    """What this machine lacks for it, in words; None if nothing."""
    missing = sorted({package for name, package in PROGRAMS.items() if not _path(name)})
    if not missing and _library() is None:
        missing = ["ibsim-utils"]
    return f"not installed: {' '.join(missing)} (Debian)" if missing else None


def _path(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _library() -> Path | None:
    found = list(Path("/usr/lib").glob(f"*/{_LIBRARY}"))
    found += [one for one in (Path("/usr/lib") / _LIBRARY,) if one.exists()]
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Simulated:
    """A fabric that runs.

    Attributes:
        fabric: what it is made of.
        folder: where its files are, and where programs run.
        environment: what a program needs to be within it.
        process: ibsim itself; its standard input takes its commands.
    """

    fabric: Fabric
    folder: Path
    environment: Mapping[str, str]
    process: subprocess.Popen[str]

    def run(self, command: Sequence[str], timeout_s: float = 120) -> str:
        """What a program prints within the fabric.

        Raises:
            Unavailable: it failed, with what it said last.
        """
        done = subprocess.run(
            [_path(command[0]) or command[0], *command[1:]],
            cwd=self.folder, env={**os.environ, **self.environment}, text=True,
            capture_output=True, timeout=timeout_s, check=False,
        )  # fmt: skip
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise Unavailable(f"{command[0]}: {' '.join(said) or done.returncode}")
        return done.stdout

    def tell(self, *commands: str) -> None:
        """Gives ibsim commands of its console; they act before this returns."""
        pipe = self.process.stdin
        assert pipe is not None
        log = self.folder / "ibsim.log"
        mark = f"mark{time.monotonic_ns()}"
        pipe.write("".join(f"{one}\n" for one in (*commands, mark)))
        pipe.flush()
        # Its answer to what it does not know says that it has come so far.
        _wait(lambda: mark in log.read_text(errors="replace"), _READY_S, "ibsim does not answer")

    def count(self, *counters: tuple[str, int, int]) -> None:
        """Sets counters of waiting: the name of a switch, the number of its port, ticks.

        By name, for ibsim gives every device an id of its own.
        """
        ids = {node.name: node.id for node in self.fabric.values()}
        self.tell(
            *(
                f'PerformanceSet "{ids[name]}"[{port}] PortCounters.PortXmitWait={ticks}'
                for name, port, ticks in counters
            )
        )


@contextlib.contextmanager
def running(fabric: Fabric, folder: Path) -> Iterator[Simulated]:
    """A fabric that has been through its subnet manager, so that every switch has LID and routes.

    Raises:
        Unsupported: a program is missing.
        Unavailable: it did not come up.
    """
    if missing := lacking():
        raise Unsupported(missing)
    (folder / "fabric.net").write_text(dump.text_of(fabric))
    host = next(node.id for node in fabric.values() if node.kind == HOST)
    environment = {
        "IBSIM_SOCKNAME": f"weir-{os.getpid()}-{time.monotonic_ns()}",
        "SIM_HOST": host,
        "LD_PRELOAD": str(_library()),
        "OSM_CACHE_DIR": str(folder),
        "OSM_TMP_DIR": str(folder),
    }
    own = {name: value for name, value in environment.items() if name != "LD_PRELOAD"}
    count = len(fabric)
    ports = sum(node.ports + 1 for node in fabric.values())
    sizes = ["-N", str(count + 1), "-S", str(count + 1), "-P", str(ports + 1)]
    with (folder / "ibsim.log").open("w") as log:
        process = subprocess.Popen(
            [*_UNTIL_WE_DIE, _path("ibsim") or "ibsim", "-s", *sizes, "fabric.net"],
            cwd=folder, env={**os.environ, **own}, text=True, stdin=subprocess.PIPE, stdout=log,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    simulated = Simulated(fabric, folder, environment, process)
    try:
        simulated.tell()
        _manage(simulated)
        yield simulated
    finally:
        process.terminate()
        process.communicate()


def _manage(simulated: Simulated) -> None:
    """Lets a subnet manager sweep once."""
    command = ["opensm", "-o", "-f", str(simulated.folder / "opensm.log")]
    simulated.run(command, _MANAGED_S)


def _wait(state: Callable[[], bool], seconds: float, message: str) -> None:
    end = time.monotonic() + seconds
    while not state():
        if time.monotonic() > end:
            raise Unavailable(message)
        time.sleep(0.02)
