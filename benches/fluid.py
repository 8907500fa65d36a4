"""The fluid simulator beside SimGrid on the same flows, and how its cost grows.

Both programs read one file of links, routes and flows, and share links by max-min fairness: no
latency, and SimGrid's corrections for TCP off (`benches/peers/simgrid_flows.cpp` says how). They
take turns. Speed is flows per second of processor time, reading the file not counted. Every
completion time of the one is compared with the other's, and more than 1 % apart fails the
benchmark.

    python -m benches.fluid [--part peers|growth]
"""

import argparse
import math
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches import cargo, harness
from benches.harness import row
from benches.harness_machine import load_average, package_versions
from weir.errors import Unsupported, WeirError

PEERS = Path("out/peers")
EXAMPLES = Path("target/release/examples")
PACKAGE = "libsimgrid-dev"
GBIT_PER_S = 10
DIFFERENCE_MAX = 0.01


@dataclass(frozen=True)
class Ring:
    """Sites on a ring, 10 Gbit/s each way between neighbours; flows between random sites.

    The workload with which SimGrid was first measured: arrivals uniform over the horizon, sizes
    uniform between 0.1 and 1.9 of their mean, the shorter side of the ring.
    """

    name: str
    sites: int
    flows: int
    horizon_s: float
    mean_bytes: float

    def smaller(self, factor: int) -> "Ring":
        """The same load for a shorter time."""
        flows, horizon_s = self.flows // factor, self.horizon_s / factor
        return Ring(self.name, self.sites, flows, horizon_s, self.mean_bytes)

    def trace(self) -> str:
        """The file that both programs read."""
        sites, draw = self.sites, random.Random(1)
        pairs = [(a, b) for a in range(sites) for b in range(sites) if a != b]
        routes = {pair: number for number, pair in enumerate(pairs)}
        ends = [(a, (a + 1) % sites) for a in range(sites)]
        ends += [(b, a) for a, b in ends]
        lines = [f"link n{a} n{b} {GBIT_PER_S * 10**9}" for a, b in ends]
        lines += [f"route {' '.join(map(str, self._links(a, b)))}" for a, b in pairs]
        flows = []
        for _ in range(self.flows):
            at_ns = int(draw.random() * self.horizon_s * 1e9)
            size = int(self.mean_bytes * (0.1 + 1.8 * draw.random()))
            flows.append((at_ns, routes[draw.choice(pairs)], size))
        lines += [f"flow {at_ns} {route} {size}" for at_ns, route, size in sorted(flows)]
        return "\n".join(lines) + "\n"

    def _links(self, a: int, b: int) -> list[int]:
        clockwise = (b - a) % self.sites
        if clockwise <= self.sites - clockwise:
            return [(a + hop) % self.sites for hop in range(clockwise)]
        # The link from i + 1 back to i is number `sites` + i.
        hops = range(self.sites - clockwise)
        return [self.sites + (a - 1 - hop) % self.sites for hop in hops]


RINGS = [
    Ring("20 sites, light load", 20, 20_000, 2_000, 1e8),
    Ring("20 sites, links at about 0.8", 20, 20_000, 1_000, 4e8),
    Ring("50 sites, overload", 50, 5_000, 50, 4e8),
]

GROWTH = [
    *(("wan", 50, flows, 0.8) for flows in (10**3, 10**4, 10**5, 10**6)),
    *(("wan", nodes, 10**5, 0.8) for nodes in (9, 200, 754)),
    *(("fat-tree", k, 10**5, load) for k in (8, 16) for load in (0.5,)),
    *(("fat-tree", 24, flows, 0.5) for flows in (10**3, 10**4, 10**5, 10**6)),
    ("fat-tree", 24, 10**5, 0.8),
]
"""Network, its size, flows, load; see `crates/fluid/examples/fluid_growth.rs`."""


@dataclass(frozen=True)
class Program:
    """One of the programs that run a trace."""

    name: str
    argv: tuple[str, ...]


def run() -> list[dict[str, Any]]:
    """The rows of `out/bench/fluid.json`."""
    return peer_rows() + growth_rows()


def notes() -> dict[str, Any]:
    """The peer's version."""
    return {"packages": package_versions([PACKAGE])}


def peer_rows() -> list[dict[str, Any]]:
    """Weir and SimGrid on the same flows, in turns."""
    cargo.build_examples("weir-fluid")
    simgrid = str(_simgrid())
    programs = [
        Program("weir", (str(EXAMPLES / "fluid_trace"),)),
        Program("SimGrid, lazy updates", (simgrid, "--cfg=network/optim:Lazy")),
        Program("SimGrid, full updates", (simgrid, "--cfg=network/optim:Full")),
    ]
    rows = []
    for ring in RINGS:
        rows += _ring_rows(ring.smaller(10) if harness.quick() else ring, programs)
    return rows


def _ring_rows(ring: Ring, programs: list[Program]) -> list[dict[str, Any]]:
    rounds = 1 if harness.quick() else 3
    speeds: dict[str, list[float]] = {program.name: [] for program in programs}
    ends: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        trace, completions = Path(folder, "trace"), Path(folder, "completions")
        trace.write_text(ring.trace())
        for number in range(rounds):
            for at in range(len(programs)):
                program = programs[(at + number) % len(programs)]
                answer = cargo.answer(
                    [program.argv[0], str(trace), str(completions), *program.argv[1:]]
                )
                speeds[program.name].append(answer["flows_per_cpu_s"])
                ends[program.name] = [float(line) for line in completions.read_text().split()]
                print(f"{ring.name}, {program.name}: {speeds[program.name][-1]:,.0f} flows/s")
        arrivals = _arrivals(trace)
    ours = speeds.pop("weir")
    under_way = _most_under_way(arrivals, ends["weir"])
    setting = f"ring of {ring.name} (at most {under_way:,} flows under way)"
    metric = f"flows per processor second, {setting}"
    rows = []
    for peer, theirs in speeds.items():
        compared = (statistics.median(ours), peer, statistics.median(theirs))
        rows.append(row(metric, "1/s", *compared, ours))
    for peer in list(speeds)[:1]:
        apart = _difference(arrivals, ends["weir"], ends[peer])
        metric = f"largest difference of a completion time from {peer.split(',')[0]}'s, {setting}"
        rows.append(row(metric, "%", 100 * apart, None, None, 1))
    return rows


def _arrivals(trace: Path) -> list[float]:
    lines = trace.read_text().splitlines()
    return [int(line.split()[1]) * 1e-9 for line in lines if line.startswith("flow")]


def _most_under_way(arrivals: list[float], ends: list[float]) -> int:
    steps = sorted([(at, 1) for at in arrivals] + [(at, -1) for at in ends])
    now = most = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def _difference(arrivals: list[float], ours: list[float], theirs: list[float]) -> float:
    """The largest relative difference of the times from arrival to end."""
    if not len(arrivals) == len(ours) == len(theirs):
        raise WeirError(f"{len(arrivals)} flows, {len(ours)} ended here, {len(theirs)} there")
    triples = zip(arrivals, ours, theirs, strict=True)
    apart = max(abs(a - b) / (b - at) for at, a, b in triples)
    if not math.isfinite(apart) or apart > DIFFERENCE_MAX:
        raise WeirError(f"completion times differ by up to {apart:.2%}: not the same model")
    return apart


def growth_rows() -> list[dict[str, Any]]:
    """Speed and memory over the number of flows and links."""
    cargo.build_examples("weir-fluid")
    rows = []
    for kind, size, flows, load in GROWTH:
        if harness.quick() and flows > 10**4:
            continue
        words = [kind, str(size), str(flows), str(load)]
        rounds = 1 if harness.quick() or flows == 10**6 else 3
        answers = [cargo.answer([str(EXAMPLES / "fluid_growth"), *words]) for _ in range(rounds)]
        answer = answers[0]
        name = f"fat-tree, k = {size}" if kind == "fat-tree" else f"WAN of {size} nodes"
        setting = (
            f"{name} ({answer['links']:,} links), {flows:,} flows at load {load:g} "
            f"(at most {answer['most_under_way']:,} under way)"
        )
        speeds = [answer["flows_per_cpu_s"] for answer in answers]
        print(f"{setting}: {speeds[0]:,.0f} flows/s")
        metric = f"growth, flows per processor second, {setting}"
        rows.append(row(metric, "1/s", statistics.median(speeds), None, None, speeds))
        memory = [answer["bytes_per_flow"] for answer in answers]
        metric = f"growth, memory of the simulation over the number of flows, {setting}"
        rows.append(row(metric, "B", statistics.median(memory), None, None, memory))
    return rows


def _simgrid() -> Path:
    """The peer's program, compiled if its source is newer."""
    source, program = Path(__file__).parent / "peers/simgrid_flows.cpp", PEERS / "simgrid_flows"
    if program.exists() and program.stat().st_mtime >= source.stat().st_mtime:
        return program
    PEERS.mkdir(parents=True, exist_ok=True)
    words = ["g++", "-O2", "-std=c++17", "-o", str(program), str(source), "-lsimgrid"]
    try:
        built = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Unsupported("the benchmark needs g++: run scripts/setup bench") from error
    if built.returncode != 0:
        raise Unsupported(f"the SimGrid peer does not build (needs {PACKAGE}): {built.stderr}")
    return program


PARTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "peers": peer_rows,
    "growth": growth_rows,
}


def main(argv: Sequence[str]) -> int:
    """Runs one part, keeps it as `out/bench/fluid.json`; returns the exit code of `weir.errors`."""
    parser = argparse.ArgumentParser(prog="benches.fluid", description=__doc__)
    parser.add_argument("--part", choices=sorted(PARTS), required=True)
    part = PARTS[parser.parse_args(argv).part]
    before = load_average()
    try:
        rows = harness.validate(part(), "fluid")
    except WeirError as error:
        print(f"benches.fluid: {error}", file=sys.stderr)
        return error.exit_code
    harness.write("fluid", rows, {"load_before": before} | notes(), harness.OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
