"""Weir's relay beside HAProxy, a plain copy loop and no proxy, over three hosts in a row.

What one connection and eight carry, and with how much of the relay's processor; by how much a byte
is later there and back; what 10 000 idle connections and 1 000 busy ones cost. All ways take turns.

    python -m benches.relay --part all|carried       the second: what they carry alone, 5 minutes
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benches import harness
from benches.account import Command, Group, started, tail
from benches.harness import quick, row
from benches.harness_machine import load_average, package_versions
from benches.peers.relays import Running, Way, ways
from benches.relay_hosts import SERVER, Hosts, hosts, pairs_max
from weir.errors import TransferFailed, Unavailable, WeirError

ECHO_PORT, IPERF_PORT = 7_000, 5_201
LOAD = str(Path(__file__).parent / "peers" / "relay_load.py")
PATIENCE_S = 300.0
ROUNDS = 5


@dataclass(frozen=True)
class Sizes:
    """How much is measured; nothing of what is 0."""

    seconds: int = 5
    streams: tuple[int, ...] = (1, 8)
    pings: int = 5_000
    idle: int = 10_000
    busy: int = 1_000
    rest_s: float = 2.0


FULL = Sizes()
QUICK = Sizes(seconds=1, streams=(8,), pings=300, idle=500, busy=100, rest_s=0.5)
PARTS = {"all": FULL, "carried": Sizes(pings=0, idle=0, busy=0)}


@dataclass
class Found:
    """What was measured of one way, a value a round: by metric and unit."""

    values: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def add(self, metric: str, unit: str, value: float) -> None:
        """One more."""
        self.values.setdefault((metric, unit), []).append(value)


def notes() -> dict[str, Any]:
    """For the machine notes: the versions of the peers."""
    return {"packages": package_versions(["haproxy", "iperf3"])}


def run() -> list[dict[str, Any]]:
    """The whole benchmark; a small one when WEIR_BENCH_QUICK=1."""
    return run_part("all")


def run_part(part: str) -> list[dict[str, Any]]:
    """One of `PARTS`; a small run when WEIR_BENCH_QUICK=1."""
    sizes, rounds = (QUICK, 1) if quick() else (PARTS[part], ROUNDS)
    sizes = replace(sizes, idle=min(sizes.idle, pairs_max()))
    return rows(session(ways(), sizes, rounds))


def session(chosen: Sequence[Way], sizes: Sizes, rounds: int) -> dict[str, Found]:
    """Every way in turns, so many times."""
    found = {way.name: Found() for way in chosen}
    with hosts() as built, tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        folder = Path(name)
        with _servers(built, folder):
            for turn in range(rounds):
                shift = turn % len(chosen)
                for way in [*chosen[shift:], *chosen[:shift]]:
                    _measure(way, built, folder, sizes, found[way.name])
                    print(f"round {turn + 1}: {way.name}", flush=True)
    return found


def _measure(way: Way, built: Hosts, folder: Path, sizes: Sizes, found: Found) -> None:
    with way.running(built, folder, IPERF_PORT) as running:
        for streams in sizes.streams:
            mbit_per_s, cpu_s = _carried(running, built, folder, streams, sizes.seconds)
            metric = f"{streams} connection{'s' if streams > 1 else ''}"
            found.add(metric, "Mbit/s", mbit_per_s)
            if way.name != Way.name:
                found.add(metric, "CPU s/GB", cpu_s / (mbit_per_s * sizes.seconds / 8e3))
    if sizes.pings:
        with way.running(built, folder, ECHO_PORT) as running:
            told = _client(built, folder, running, "ping", sizes.pings)
            found.add("a byte there and back, median", "ms", told["p50_ms"])
            found.add("a byte there and back, 99th percentile", "ms", told["p99_ms"])
    if sizes.idle:
        with way.running(built, folder, ECHO_PORT) as running:
            _crowd(way, running, built, folder, sizes, found)
    if sizes.busy:
        with way.running(built, folder, ECHO_PORT) as running:
            _hurry(way, running, built, folder, sizes, found)


def _carried(
    running: Running, built: Hosts, folder: Path, streams: int, seconds: int
) -> tuple[float, float]:
    """Mbit/s from the client to the server, and seconds of the relay's processor meanwhile."""
    ends = ["-c", running.address, "-p", str(running.port), "-P", str(streams)]
    command = Command(["iperf3", *ends, "-t", str(seconds), "-J", "-Z"], stdout=folder / "told")
    before_s = running.cpu_s()
    _ended(command, built, folder)
    cpu_s = running.cpu_s() - before_s
    told = json.loads((folder / "told").read_text())
    if "error" in told:
        raise TransferFailed(f"iperf3: {told['error']}")
    return told["end"]["sum_received"]["bits_per_second"] / 1e6, cpu_s


def _crowd(
    way: Way, running: Running, built: Hosts, folder: Path, sizes: Sizes, found: Found
) -> None:
    """What connections cost over which nothing goes."""
    if way.name == Way.name:
        return
    before = running.memory_bytes()
    words = ["idle", running.address, str(running.port), str(sizes.idle)]
    with _loading(built, folder, words, "held") as process:
        metric = f"{sizes.idle:,} idle connections"
        memory = (running.memory_bytes() - before) / sizes.idle / 1024
        found.add(f"{metric}, memory of each", "KiB", max(0.0, memory))
        cpu_before_s = running.cpu_s()
        time.sleep(sizes.rest_s)
        rest = (running.cpu_s() - cpu_before_s) / sizes.rest_s
        found.add(f"{metric}, of a processor", "%", 100 * rest)
        assert process.stdin
        process.stdin.close()
        process.wait(PATIENCE_S)


def _hurry(
    way: Way, running: Running, built: Hosts, folder: Path, sizes: Sizes, found: Found
) -> None:
    """What connections cost over which something goes all the time, and how much it is."""
    before, cpu_before_s = running.memory_bytes(), running.cpu_s()
    words = ["busy", running.address, str(running.port), str(sizes.busy), str(sizes.seconds)]
    with _loading(built, folder, words, "begun") as process:
        time.sleep(sizes.seconds / 2)
        memory = (running.memory_bytes() - before) / sizes.busy / 1024
        assert process.stdout
        told = json.loads(process.stdout.readline() or b"{}")
        cpu_s = running.cpu_s() - cpu_before_s
        process.wait(PATIENCE_S)
    if "exchanges_per_s" not in told:
        raise TransferFailed(f"{way.name}: {tail(folder / 'log')}")
    metric = f"{sizes.busy:,} busy connections"
    found.add(f"{metric}, blocks there and back", "1/s", told["exchanges_per_s"])
    if way.name != Way.name:
        exchanges = told["exchanges_per_s"] * sizes.seconds
        found.add(f"{metric}, blocks there and back", "CPU us", cpu_s * 1e6 / exchanges)
        found.add(f"{metric}, memory of each", "KiB", max(0.0, memory))


def _client(
    built: Hosts, folder: Path, running: Running, what: str, count: int
) -> dict[str, float]:
    words = [sys.executable, LOAD, what, running.address, str(running.port), str(count)]
    _ended(Command(words, stdout=folder / "told"), built, folder)
    told: dict[str, float] = json.loads((folder / "told").read_text())
    return told


def _ended(command: Command, built: Hosts, folder: Path) -> None:
    """Runs a program of the client's to its end."""
    log = folder / "log"
    with (
        built.cgroups.group("client") as group,
        started(command, built.client.enter, group, log) as process,
    ):
        if process.wait(PATIENCE_S) != 0:
            said = command.stdout.read_text() if command.stdout else ""
            raise TransferFailed(f"{command.argv}: {said[-400:]} {tail(log)}")


@contextlib.contextmanager
def _loading(
    built: Hosts, folder: Path, words: list[str], begun: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """A client's program that has begun."""
    with built.cgroups.group("client") as group:

        def enter() -> None:
            group.enter()
            built.client.enter()

        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, LOAD, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=enter,
            )
        with process:
            try:
                assert process.stdout
                if process.stdout.readline().strip() != begun.encode():
                    raise TransferFailed(f"{words}: {tail(folder / 'log')}")
                yield process
            finally:
                process.kill()


@contextlib.contextmanager
def _servers(built: Hosts, folder: Path) -> Iterator[Group]:
    """What listens on the server's host: iperf3, and who sends everything back."""
    log = folder / "servers.log"
    iperf3 = Command(["iperf3", "-s", "-p", str(IPERF_PORT)])
    echo = Command([sys.executable, LOAD, "serve", str(ECHO_PORT)])
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(built.cgroups.group("server"))
        for command, port in ((iperf3, IPERF_PORT), (echo, ECHO_PORT)):
            stack.enter_context(started(command, built.server.enter, group, log))
            deadline = time.monotonic() + PATIENCE_S
            while not built.server.listens(port):
                if time.monotonic() > deadline:
                    raise Unavailable(f"no server at {SERVER}:{port}; {tail(log)}")
                time.sleep(0.01)
        yield group


def rows(found: dict[str, Found]) -> list[dict[str, Any]]:
    """Each of Weir's ways against every other, metric by metric; added delay beside no proxy."""
    found = {name: _with_delay(one, found) for name, one in found.items()}
    own = [way.name for way in ways() if way.is_ours and way.name in found]
    table = []
    for name in own:
        for (metric, unit), values in found[name].values.items():
            ours = statistics.median(values)
            others = [x for x in found if x != name and (metric, unit) in found[x].values]
            # The simplest of Weir's is what joining is measured by, too.
            peers = [x for x in others if x not in own or (name != own[0] and x == own[0])]
            for peer in peers or [None]:
                theirs = statistics.median(found[peer].values[metric, unit]) if peer else None
                table.append(row(f"{name}, {metric}", unit, ours, peer, theirs, values))
    return table


def _with_delay(one: Found, found: dict[str, Found]) -> Found:
    """The same, with what a way adds to a byte's time there and back in each round."""
    direct = found.get(Way.name)
    more = Found(dict(one.values))
    if direct is None or one is direct:
        return more
    for (metric, unit), values in one.values.items():
        alone = direct.values.get((metric, unit))
        if metric.startswith("a byte") and alone:
            added = [x - y for x, y in zip(values, alone, strict=True)]
            more.values[f"{metric}, added", unit] = added
    return more


def main(argv: Sequence[str]) -> int:
    """Runs one part, keeps it as `out/bench/relay.json`; returns the exit code of `weir.errors`."""
    parser = argparse.ArgumentParser(prog="benches.relay", description=__doc__)
    parser.add_argument("--part", choices=sorted(PARTS), required=True)
    part = parser.parse_args(argv).part
    before = load_average()
    try:
        rows = harness.validate(run_part(part), "relay")
    except WeirError as error:
        print(f"benches.relay: {error}", file=sys.stderr)
        return error.exit_code
    harness.write("relay", rows, {"load_before": before} | notes(), harness.OUT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
