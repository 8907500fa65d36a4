"""Weir's mover beside the movers people use: throughput, CPU time of both ends, integrity.

One 2 GiB file and 10 000 files of 100 KiB, from a tmpfs to a tmpfs, between two namespaces, over
a bare veth (the processor is the limit) and over 1 Gbit/s (CPU per gigabyte is the measure).
`python -m benches.mover --help` runs parts of it. The whole: docs/performance-appendix.md.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benches import harness
from benches.account import PREFIX, Cgroups, Command, expect_success, started, tail, wait_exit
from benches.compare import difference
from benches.harness_machine import package_versions
from benches.memory import warm_memory
from benches.peers.gridftp import GridFtp
from benches.peers.iperf3 import Iperf3File
from benches.peers.mover import MANY, ONE, Job, Mover, Protection, seen_from_outside
from benches.peers.nuttcp import Nuttcp
from benches.peers.rclone import RcloneHttp, RcloneSftp
from benches.peers.rsync import RsyncDaemon
from benches.peers.ssh import Scp
from benches.peers.weir import Weir
from benches.peers.xrootd import Xrdcp
from benches.testbed import BARE, FILES, SHAPED, Testbed, testbed
from weir.errors import BadInput, TransferFailed, Unavailable, WeirError

ROUNDS = 3
TIMEOUT_S = 240.0
PACKAGES = [
    *("globus-gridftp-server-progs", "globus-gass-copy-progs", "rsync", "nuttcp", "iperf3"),
    *("xrootd-server", "xrootd-client", "rclone", "openssh-server", "openssh-client"),
]


@dataclass(frozen=True)
class Sizes:
    """How much is moved."""

    file_bytes: int
    files: int
    file_of_many_bytes: int = 100 * 1024

    def total(self, data: str) -> int:
        """Bytes of content in one job."""
        return self.file_bytes if data == ONE else self.files * self.file_of_many_bytes

    def title(self, data: str) -> str:
        """The data as a reader names it."""
        if data == MANY:
            return f"{self.files:,} files of 100 KiB".replace(",", " ")
        gib = self.file_bytes / 2**30
        return f"one file of {gib:g} GiB"


FULL = Sizes(2 * 2**30, 10_000)
QUICK = Sizes(2**28, 1_000)


@dataclass(frozen=True)
class Run:
    """One transfer as it was measured."""

    data: str
    link: str
    mover: str
    bytes: int
    wall_s: float
    client_cpu_s: float
    server_cpu_s: float
    difference: str | None
    """How the received differs from the sent; None when it does not."""

    @property
    def mbit_per_s(self) -> float:
        """Content over wall time, from the client's start to its end."""
        return self.bytes * 8 / self.wall_s / 1e6

    @property
    def cpu_s_per_gb(self) -> float:
        """User and system seconds of both ends for 10^9 bytes of content."""
        return (self.client_cpu_s + self.server_cpu_s) / (self.bytes / 1e9)


def movers() -> list[Mover]:
    """All of them, Weir first."""
    return [
        *(Weir(protection) for protection in Protection),
        GridFtp(),
        GridFtp(parallel=4),
        Nuttcp(),
        RsyncDaemon(),
        RcloneHttp(streams=4),
        RcloneHttp(streams=1),
        Xrdcp(),
        Scp(),
        Scp("aes128-gcm@openssh.com"),
        RcloneSftp(),
        Iperf3File(),
    ]


class Bench:
    """The hosts with their files, ready for one transfer after the other."""

    def __init__(self, bed: Testbed, cgroups: Cgroups, sizes: Sizes, scratch: Path) -> None:
        self._bed, self._cgroups, self._sizes, self._scratch = bed, cgroups, sizes, scratch
        self._count = 0

    def measure(self, mover: Mover, data: str, link: str) -> Run:
        """One transfer of `data` over `link`, measured, compared and removed again."""
        at_server, at_client = self._bed.receiver, self._bed.sender
        if mover.pull:
            at_server, at_client = at_client, at_server
        job = self._job(data, at_server.addresses[link])
        self._count += 1
        log = self._scratch / f"{self._count}.log"
        with (
            self._cgroups.group("server") as server_group,
            self._cgroups.group("client") as client_group,
        ):
            serve, copy = self._outside(mover.server(job)), self._outside(mover.client(job))
            with started(serve, at_server.enter, server_group, log) as server:
                _await_listening(mover, at_server.listens, server.poll, log)
                server_before = server_group.settled_cpu_s()
                start = time.perf_counter()
                with started(copy, at_client.enter, client_group, log) as client:
                    status = wait_exit(client, TIMEOUT_S, log)
                expect_success(status, copy, log)
                if mover.ends_with_server:
                    expect_success(wait_exit(server, TIMEOUT_S, log), serve, log)
                wall_s = time.perf_counter() - start
                server_cpu_s = server_group.settled_cpu_s() - server_before
                client_cpu_s = client_group.cpu_s()
        found = difference(self._seen(job.source), self._seen(job.target))
        return Run(data, link, mover.name, job.bytes, wall_s, client_cpu_s, server_cpu_s, found)

    def _job(self, data: str, address: str) -> Job:
        """The job, with an empty folder for its target."""
        folder = self._seen(FILES / "in")
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        # xrootd refuses to be root.
        folder.chmod(0o777)
        return Job(
            data, FILES / "out" / data, FILES / "in" / data, address, self._sizes.total(data)
        )

    def _outside(self, command: Command) -> Command:
        """Redirections are opened by this process, which sees the files elsewhere."""
        return replace(
            command,
            stdin=command.stdin and self._seen(command.stdin),
            stdout=command.stdout and self._seen(command.stdout),
        )

    def _seen(self, path: Path) -> Path:
        return seen_from_outside(path, self._bed.files)


def _await_listening(mover: Mover, listens: Any, exited: Any, log: Path) -> None:
    deadline = time.monotonic() + 30
    while not listens(mover.port):
        if exited() is not None:
            raise TransferFailed(f"the server of {mover.name} ended; {tail(log)}")
        if time.monotonic() > deadline:
            raise Unavailable(f"the server of {mover.name} does not listen; {tail(log)}")
        time.sleep(0.01)


@contextlib.contextmanager
def bench(sizes: Sizes, data: list[str], chosen: list[Mover]) -> Iterator[Bench]:
    """Everything that one session needs, and gone after it."""
    content = sum(sizes.total(kind) for kind in data)
    room = content + max(sizes.total(kind) for kind in data) + 2**28
    with (
        Cgroups() as cgroups,
        testbed(room) as bed,
        warm_memory(room),
        _scratch() as scratch,
    ):
        for note in bed.notes:
            print(note)
        for kind in data:
            _make_files(bed.files / "out", kind, sizes)
        for mover in chosen:
            mover.prepare(scratch)
        yield Bench(bed, cgroups, sizes, scratch)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for keys, configurations and logs; those of killed benchmarks are removed."""
    top = Path(tempfile.gettempdir())
    for stale in top.glob(f"{PREFIX}*-*"):
        if not Path("/proc", stale.name.removeprefix(PREFIX).split("-")[0]).exists():
            shutil.rmtree(stale)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as name:
        # xrootd runs as nobody and reads its configuration here.
        Path(name).chmod(0o755)
        yield Path(name)


def _make_files(top: Path, data: str, sizes: Sizes) -> None:
    """Incompressible content; the same in every session."""
    top.mkdir(exist_ok=True)
    source = random.Random(data)
    if data == ONE:
        with (top / data).open("wb") as file:
            for _ in range(sizes.file_bytes >> 24):
                file.write(source.randbytes(1 << 24))
        return
    for number in range(sizes.files):
        folder = top / data / f"{number // 100:03}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:05}").write_bytes(source.randbytes(sizes.file_of_many_bytes))


def session(
    sizes: Sizes, chosen: list[Mover], links: list[str], data: list[str], rounds: int
) -> list[Run]:
    """Every chosen mover in every setting, taking turns: A B C, then B C A, and so on."""
    runs = []
    with bench(sizes, data, chosen) as ready:
        for link in links:
            for kind in data:
                able = [mover for mover in chosen if kind in mover.data]
                for turn in range(rounds):
                    # Nobody always runs after the same neighbour or always first.
                    shift = turn % len(able)
                    for mover in able[shift:] + able[:shift]:
                        run = ready.measure(mover, kind, link)
                        print(_line(run), flush=True)
                        runs.append(run)
    return runs


def _line(run: Run) -> str:
    intact = "intact" if run.difference is None else f"NOT INTACT: {run.difference}"
    return (
        f"{run.link}, {run.data:4} {run.mover:22} {run.mbit_per_s:8,.0f} Mbit/s "
        f"{run.client_cpu_s:6.2f} + {run.server_cpu_s:6.2f} CPU s  {intact}"
    )


@dataclass(frozen=True)
class Median:
    """One mover's medians in one setting."""

    mover: Mover
    mbit_per_s: float
    cpu_s_per_gb: float
    intact: bool
    rounds: int

    @property
    def title(self) -> str:
        """The mover's name, marked when it loses bytes."""
        return self.mover.name + ("" if self.intact else " (not intact)")


def medians(runs: list[Run], chosen: list[Mover], data: str, link: str) -> list[Median]:
    """Medians of the movers that ran in a setting, fastest first."""
    found = []
    for mover in chosen:
        own = [run for run in runs if (run.mover, run.data, run.link) == (mover.name, data, link)]
        if own:
            found.append(
                Median(
                    mover,
                    statistics.median(run.mbit_per_s for run in own),
                    statistics.median(run.cpu_s_per_gb for run in own),
                    all(run.difference is None for run in own),
                    len(own),
                )
            )
    return sorted(found, key=lambda median: -median.mbit_per_s)


def is_peer_of(mover: Mover, ours: Weir) -> bool:
    """Whom a variant of Weir is compared with.

    With movers of the same protection; and, unless Weir encrypts, with all that do not encrypt:
    what people give up by asking for a checksum, or gain by not asking, is a fair question.
    """
    if isinstance(mover, Weir):
        return False
    encrypted = Protection.ENCRYPTED
    return (mover.protection is encrypted) == (ours.protection is encrypted)


def rows(runs: list[Run], chosen: list[Mover], sizes: Sizes) -> list[dict[str, Any]]:
    """Weir's variants against their peers, in each setting: speed, then CPU time."""
    result = []
    for link, data in dict.fromkeys((run.link, run.data) for run in runs):
        found = medians(runs, chosen, data, link)
        for ours in found:
            if not isinstance(ours.mover, Weir):
                continue
            if not ours.intact:
                raise TransferFailed(f"{ours.mover.name} lost bytes over {link}: a defect")
            peers = [entry for entry in found if is_peer_of(entry.mover, ours.mover)]
            setting = f"{sizes.title(data)}, {link}, {ours.mover.name.removeprefix('Weir, ')}"
            for measure, unit in (("mbit_per_s", "Mbit/s"), ("cpu_s_per_gb", "CPU s/GB")):
                for peer in peers:
                    mine, theirs = getattr(ours, measure), getattr(peer, measure)
                    result.append(harness.row(setting, unit, mine, peer.title, theirs, ours.rounds))
    return result


def print_medians(runs: list[Run], chosen: list[Mover], sizes: Sizes) -> None:
    """One table for each setting, fastest first."""
    for link, data in dict.fromkeys((run.link, run.data) for run in runs):
        result = Table(title=f"{sizes.title(data)}, {link}")
        for header in ("mover", "protection", "Mbit/s", "CPU s/GB", "intact", "rounds"):
            result.add_column(header, justify="left" if header == "mover" else "right")
        for entry in medians(runs, chosen, data, link):
            result.add_row(
                entry.mover.name,
                entry.mover.protection.value,
                harness.figure(entry.mbit_per_s),
                harness.figure(entry.cpu_s_per_gb),
                "yes" if entry.intact else "NO",
                str(entry.rounds),
            )
        Console().print(result)


def keep_raw(runs: list[Run], path: Path) -> None:
    """Every single run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n")


def notes() -> dict[str, Any]:
    """For the machine notes: the versions of the peers."""
    return {"packages": package_versions(PACKAGES)}


def run() -> list[dict[str, Any]]:
    """The whole benchmark; a small one when WEIR_BENCH_QUICK=1."""
    sizes, rounds = (QUICK, 1) if harness.quick() else (FULL, ROUNDS)
    chosen = movers()
    runs = session(sizes, chosen, [BARE, SHAPED], [ONE, MANY], rounds)
    keep_raw(runs, harness.OUT / "mover-runs.json")
    print_medians(runs, chosen, sizes)
    return rows(runs, chosen, sizes)


def main(argv: list[str]) -> int:
    """Runs a part of the benchmark and prints its medians; keeps nothing."""
    parser = argparse.ArgumentParser(prog="benches.mover", description="a part of the benchmark")
    parser.add_argument("--mover", action="append", help="part of a mover's name; repeatable")
    parser.add_argument("--link", choices=[BARE, SHAPED], action="append")
    parser.add_argument("--data", choices=[ONE, MANY], action="append")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args(argv)
    sizes = QUICK if harness.quick() else FULL
    wanted = [word.lower() for word in args.mover or [""]]
    chosen = [mover for mover in movers() if any(word in mover.name.lower() for word in wanted)]
    try:
        if not chosen or args.rounds < 1:
            raise BadInput(f"nothing to run: {args.mover} for {args.rounds} rounds")
        links, data = args.link or [BARE, SHAPED], args.data or [ONE, MANY]
        runs = session(sizes, chosen, links, data, args.rounds)
    except WeirError as error:
        print(f"benches.mover: {error}", file=sys.stderr)
        return error.exit_code
    print_medians(runs, chosen, sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
