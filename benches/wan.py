"""Weir's mover beside the movers people use, over long paths: the lab's links, the kernel's TCP.

One file, many small files and a mixed tree over five paths, from memory to memory, each file
compared. A copy that takes longer than its limit is stopped, and its speed is that of the path
until then. `python -m benches.wan --help` runs parts of it.
"""

import argparse
import contextlib
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benches import harness
from benches.account import Cgroups, Command, expect_success, started, tail, wait_exit
from benches.compare import difference
from benches.harness_machine import package_versions
from benches.peers.gridftp import GridFtp
from benches.peers.mover import MANY, ONE, Job, Mover
from benches.peers.rclone import RcloneHttp
from benches.peers.rsync import RsyncDaemon
from benches.peers.weir import WeirSend
from benches.peers.xrootd import Xrdcp
from benches.testbed import FILES
from weir.errors import BadInput, TransferFailed, Unavailable, WeirError
from weir.lab import Lab, parse

ROUNDS = 2
OURS = WeirSend()
PACKAGES = [
    *("globus-gridftp-server-progs", "globus-gass-copy-progs", "rsync", "rclone"),
    *("xrootd-server", "xrootd-client"),
]
_WARM_UP_S = 5.0
_EDGE = "edge"
"""The sender's own link, where others share the path."""

PATHS = {
    "1 Gbit/s, 10 ms": ("1 Gbit/s", 10, "", False),
    "500 Mbit/s, 65 ms": ("500 Mbit/s", 65, "", False),
    "500 Mbit/s, 65 ms, 0.01 % loss": ("500 Mbit/s", 65, "0.01 %", False),
    "200 Mbit/s, 150 ms, 0.1 % loss": ("200 Mbit/s", 150, "0.1 %", False),
    "500 Mbit/s, 65 ms, beside four CUBIC": ("500 Mbit/s", 65, "", True),
}
"""By name: rate, round trip in ms, loss, whether four streams of CUBIC are there."""


@dataclass(frozen=True)
class Sizes:
    """How much is moved, and for how long at most."""

    file_bytes: int
    files: int
    mixed_files: int
    limit_s: float

    def titles(self) -> dict[str, str]:
        """Each set of files as a reader names it, by its folder."""
        return {
            "one": f"one file of {self.file_bytes / 1e6:,.0f} MB",
            "small": f"{self.files:,} files of 20 kB",
            "mixed": f"a mixed tree of {self.mixed_files:,} files",
        }


FULL = Sizes(10**9, 2_000, 5_000, limit_s=60.0)
QUICK = Sizes(40 * 10**6, 200, 300, limit_s=15.0)


@dataclass(frozen=True)
class Run:
    """One copy as it was measured."""

    data: str
    path: str
    mover: str
    mbit_per_s: float
    outcome: str
    """`intact`, `stopped` at its limit, or what went wrong."""


def movers() -> list[Mover]:
    """All of them, as their users run them on long paths; Weir first."""
    return [
        OURS,
        WeirSend("--cca", "cubic"),
        RsyncDaemon(),
        GridFtp(),
        GridFtp(parallel=4),
        GridFtp(parallel=8),
        RcloneHttp(streams=8),
        Xrdcp(streams=8),
    ]


def scenario(path: str) -> str:
    """A path as a scenario of the lab; other streams have hosts of their own."""
    rate, round_trip_ms, loss, is_shared = PATHS[path]
    ends = ("west", "east") if is_shared else ("near", "far")
    lines = ['[lab]\nname = "wan-bench"\n[hosts]\nnear = {}\nfar = {}']
    if is_shared:
        lines += ["here = {}\nthere = {}\n[routers]\nwest = {}\neast = {}"]
    lines += [f'[[link]]\nname = "path"\nends = ["{ends[0]}", "{ends[1]}"]']
    lines += [f'rate = "{rate}"\ndelay = "{round_trip_ms / 2} ms"']
    lines += ['queue = { discipline = "fifo", limit = "6 MiB" }']
    lines += [f'loss = "{loss}"'] if loss else []
    if is_shared:
        lines += [f'[[link]]\nname = "{_EDGE}"\nends = ["near", "west"]']
        lines += [
            f'[[link]]\nends = ["{a}", "{b}"]'
            for a, b in (("east", "far"), ("here", "west"), ("east", "there"))
        ]
        lines += ['[[traffic]]\nkind = "iperf3"\nfrom = "here"\nto = "there"\nstreams = 4']
        lines += ['congestion = "cubic"']
    return "\n".join(lines)


class Bench:
    """Two hosts at the ends of a path, with their files, ready for one copy after the other.

    Attributes:
        folder: of all files, below what the movers see as theirs.
    """

    def __init__(self, lab: Lab, path: str, cgroups: Cgroups, folder: Path, sizes: Sizes) -> None:
        self._lab, self._path, self._cgroups = lab, path, cgroups
        self._folder, self._sizes = folder, sizes

    def measure(self, mover: Mover, data: str) -> Run:
        """One copy, measured, compared and removed again."""
        target, source = self._folder / "in" / data, self._folder / "out" / data
        shutil.rmtree(target.parent, ignore_errors=True)
        target.parent.mkdir()
        target.parent.chmod(0o777)  # xrootd refuses to be root
        server, client = ("near", "far") if mover.pull else ("far", "near")
        kind, size = ONE if data == "one" else MANY, _content(source)
        job = Job(kind, source, target, self._lab.address(server), size)
        log = self._folder / "log"
        log.write_bytes(b"")
        try:
            took_s, carried = self._copy(mover, job, server, client, log)
        except WeirError as error:
            return Run(data, self._path, mover.name, 0.0, f"failed: {error}")
        if took_s is None:
            mbit_per_s = carried * harness.PAYLOAD * 8 / self._sizes.limit_s / 1e6
            return Run(data, self._path, mover.name, mbit_per_s, "stopped")
        found = difference(source, target)
        mbit_per_s = size * 8 / took_s / 1e6
        return Run(data, self._path, mover.name, mbit_per_s, found or "intact")

    def _copy(
        self, mover: Mover, job: Job, server: str, client: str, log: Path
    ) -> tuple[float | None, float]:
        """Seconds, None if it was stopped; and bytes that the path carried for it until then."""
        with (
            self._cgroups.group("server") as server_group,
            self._cgroups.group("client") as client_group,
            started(self._inside(server, mover.server(job)), _stay, server_group, log) as serving,
        ):
            self._await_listening(server, mover, serving, log)
            before, begin_s = self._carried(), time.perf_counter()
            copy = self._inside(client, mover.client(job))
            with started(copy, _stay, client_group, log) as copying:
                try:
                    status = wait_exit(copying, self._sizes.limit_s, log)
                except Unavailable:
                    return None, self._carried() - before
                expect_success(status, copy, log)
            return time.perf_counter() - begin_s, 0.0

    def _inside(self, node: str, command: Command) -> Command:
        return Command(self._lab.command(node, command.argv), environment=command.environment)

    def _await_listening(
        self, node: str, mover: Mover, serving: "subprocess.Popen[bytes]", log: Path
    ) -> None:
        ask = ["ss", "-Hltn", f"sport = :{mover.port}"]
        deadline = time.monotonic() + 60
        while not self._lab.run(node, ask, capture_output=True, check=True).stdout:
            if serving.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"the server of {mover.name} does not listen; {tail(log)}")
            time.sleep(0.05)

    def _carried(self) -> float:
        """Bytes that have left the sender."""
        name = _EDGE if PATHS[self._path][3] else "path"
        links = self._lab.status()["links"]
        return next(float(x["forward"]["bytes_out"]) for x in links if x["name"] == name)


def _stay() -> None:
    """The command goes into the lab by itself."""


def _content(top: Path) -> int:
    if top.is_file():
        return top.stat().st_size
    return sum(file.stat().st_size for file in top.rglob("*") if file.is_file())


@contextlib.contextmanager
def files(sizes: Sizes) -> Iterator[Path]:
    """A folder with all that is sent, incompressible and the same in every session."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-wan-", dir=FILES) as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "peers").mkdir()
        top, draw = folder / "out", random.Random("wan")
        top.mkdir()
        with (top / "one").open("wb") as file:
            for at in range(0, sizes.file_bytes, 1 << 24):
                file.write(draw.randbytes(min(1 << 24, sizes.file_bytes - at)))
        lengths = {
            "small": [20_000] * sizes.files,
            "mixed": [round(draw.lognormvariate(9.9, 1.5)) for _ in range(sizes.mixed_files)],
        }
        for kind, each in lengths.items():
            for number, length in enumerate(each):
                path = top / kind / f"{number // 100:03}" / f"{number:05}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(draw.randbytes(length))
        yield folder


def session(
    sizes: Sizes, chosen: Sequence[Mover], paths: Sequence[str], data: Sequence[str], rounds: int
) -> list[Run]:
    """Every chosen mover in every cell, taking turns: A B C, then B C A, and so on."""
    runs = []
    with Cgroups() as cgroups, files(sizes) as folder:
        for mover in chosen:
            mover.prepare(folder / "peers")
        for path in paths:
            with Lab.up(parse(scenario(path))) as lab:
                if PATHS[path][3]:
                    time.sleep(_WARM_UP_S)
                bench = Bench(lab, path, cgroups, folder, sizes)
                for kind in data:
                    able = [x for x in chosen if (ONE if kind == "one" else MANY) in x.data]
                    for turn in range(rounds):
                        shift = turn % len(able)
                        for mover in able[shift:] + able[:shift]:
                            run = bench.measure(mover, kind)
                            words = f"{path}, {kind}: {run.mover}"
                            print(
                                f"{words}: {run.mbit_per_s:.1f} Mbit/s, {run.outcome}", flush=True
                            )
                            runs.append(run)
    return runs


def rows(runs: Sequence[Run], sizes: Sizes) -> list[dict[str, Any]]:
    """What is chosen against every other way, cell by cell."""
    result = []
    for path, data in dict.fromkeys((run.path, run.data) for run in runs):
        cell = [run for run in runs if (run.path, run.data) == (path, data)]
        own = [run for run in cell if run.mover == OURS.name]
        if broken := [run for run in own if run.outcome not in ("intact", "stopped")]:
            raise TransferFailed(f"{OURS.name} over {path}: {broken[0].outcome}")
        for name in dict.fromkeys(run.mover for run in cell if own and run.mover != OURS.name):
            others = [run for run in cell if run.mover == name]
            marks = {_mark(run.outcome) for run in others} - {""}
            result.append(
                harness.row(
                    f"{sizes.titles()[data]}, {path}",
                    "Mbit/s",
                    statistics.median(run.mbit_per_s for run in own),
                    name + "".join(f" ({mark})" for mark in sorted(marks)),
                    statistics.median(run.mbit_per_s for run in others),
                    len(own),
                )
            )
    return result


def _mark(outcome: str) -> str:
    if outcome in ("intact", "stopped"):
        return "" if outcome == "intact" else "stopped at the limit"
    return "failed" if outcome.startswith("failed") else "not intact"


def notes() -> dict[str, Any]:
    """For the machine notes: the versions of the peers."""
    return {"packages": package_versions(PACKAGES)}


def run() -> list[dict[str, Any]]:
    """The whole benchmark; a small one when WEIR_BENCH_QUICK=1."""
    sizes, rounds = (QUICK, 1) if harness.quick() else (FULL, ROUNDS)
    runs = session(sizes, movers(), [*PATHS], [*sizes.titles()], rounds)
    keep = harness.OUT / "wan-runs.json"
    keep.parent.mkdir(parents=True, exist_ok=True)
    keep.write_text(json.dumps([asdict(one) for one in runs], indent=1) + "\n")
    return rows(runs, sizes)


def main(argv: Sequence[str]) -> int:
    """Runs a part of the benchmark and prints each copy; keeps nothing."""
    sizes = QUICK if harness.quick() else FULL
    parser = argparse.ArgumentParser(prog="benches.wan", description="a part of the benchmark")
    parser.add_argument("--mover", action="append", help="part of a mover's name; repeatable")
    parser.add_argument("--path", action="append", help="part of a path's name; repeatable")
    parser.add_argument("--data", choices=[*sizes.titles()], action="append")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args(argv)
    wanted = [word.lower() for word in args.mover or [""]]
    chosen = [mover for mover in movers() if any(word in mover.name.lower() for word in wanted)]
    paths = [path for path in PATHS if any(word in path for word in args.path or [""])]
    try:
        if not chosen or not paths or args.rounds < 1:
            raise BadInput("nothing to run: no such mover, no such path, or no rounds")
        session(sizes, chosen, paths, args.data or [*sizes.titles()], args.rounds)
    except WeirError as error:
        print(f"benches.wan: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
