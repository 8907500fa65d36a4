"""Weir's emulated link beside rattan's and a bare veth: throughput, added RTT, CPU per gigabyte.

Each round runs the same two programs (ping, then one CUBIC flow of iperf3) over each link in
turn, between two namespaces. CPU time is that of everything: both ends and whatever carries the
packets between them. RTT added is a link's RTT less the bare veth's in the same round.
"""

import contextlib
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches import harness
from benches.account import (
    Cgroups,
    Command,
    Group,
    die_with_parent,
    expect_success,
    started,
    wait_exit,
)
from weir.errors import TransferFailed, Unavailable, Unsupported

PEERS = Path("out/peers")
RATTAN_VERSION = "0.1.1"
_SYSCTLS = "net.ipv4.tcp_rmem='4096 131072 67108864' net.ipv4.tcp_wmem='4096 65536 67108864'"


@dataclass(frozen=True)
class Setting:
    """What a link does, each way."""

    name: str
    rate_bps: int | None = None
    delay_ms: int = 0
    queue_packets: int | None = None


CEILING = Setting("no rate, no delay")
GIGABIT = Setting("1 Gbit/s, 10 ms each way", 10**9, 10, 1667)


@dataclass(frozen=True)
class Outcome:
    """What the two programs found over one link."""

    mbit_per_s: float
    cpu_s_per_gb: float
    rtt_p50_ms: float
    rtt_p99_ms: float


@dataclass(frozen=True)
class Place:
    """Where one run keeps its files and is accounted."""

    group: Group
    folder: Path
    seconds: int

    def client(self, address: str) -> Path:
        """A script for the left end: ping, then iperf3, with the group's CPU time around it."""
        cpu = f"cat {self.group.folder}/cpu.stat"
        script = self.folder / "client.sh"
        script.write_text(
            "#!/bin/bash\nset -e\n"
            f"sysctl -qw {_SYSCTLS}\n"
            f"for try in $(seq 100); do ping -c 1 -W 0.2 {address} >/dev/null && break; done\n"
            f"ping -c 400 -i 0.01 {address} > {self.folder}/ping\n"
            f"{cpu} > {self.folder}/before\n"
            f"iperf3 -c {address} -C cubic -t {self.seconds} -O 1 -J > {self.folder}/iperf3\n"
            f"{cpu} > {self.folder}/after\n"
        )
        script.chmod(0o755)
        return script

    def outcome(self) -> Outcome:
        """What the script left behind."""
        end = json.loads((self.folder / "iperf3").read_text())["end"]
        before, after = (
            int((self.folder / name).read_text().split("usage_usec")[1].split()[0])
            for name in ("before", "after")
        )
        # CPU time includes the omitted first second: scale the bytes to the whole run.
        gigabytes = end["sum_received"]["bits_per_second"] * (self.seconds + 1) / 8e9
        lines = (self.folder / "ping").read_text().splitlines()
        rtts = sorted(float(x.split("time=")[1].split()[0]) for x in lines if "time=" in x)
        return Outcome(
            mbit_per_s=end["sum_received"]["bits_per_second"] / 1e6,
            cpu_s_per_gb=(after - before) / 1e6 / gigabytes,
            rtt_p50_ms=statistics.median(rtts),
            rtt_p99_ms=rtts[int(0.99 * len(rtts))],
        )

    @property
    def log(self) -> Path:
        """Where programs complain."""
        return self.folder / "log"

    def start(self, argv: list[str]) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        """Starts a program in the group; it ends with the context."""
        return started(Command(argv), lambda: None, self.group, self.log)

    def finish(self, argv: list[str]) -> None:
        """Runs a program in the group to its end; raises TransferFailed if it failed."""
        with self.start(argv) as process:
            expect_success(wait_exit(process, self.seconds + 60, self.log), Command(argv), self.log)


@contextlib.contextmanager
def _namespaces() -> Iterator[list[str]]:
    """Two network namespaces, as paths; they go with this process, however it ends."""
    with contextlib.ExitStack() as stack:
        paths = []
        for _ in range(2):
            argv = ["unshare", "--net", "sleep", "infinity"]
            holder = subprocess.Popen(argv, preexec_fn=die_with_parent)
            stack.callback(holder.wait)
            stack.callback(holder.kill)
            comm = Path(f"/proc/{holder.pid}/comm")
            _poll(functools.partial(_says, comm, "sleep\n"))
            paths.append(f"/proc/{holder.pid}/ns/net")
        yield paths


def _says(path: Path, text: str) -> bool:
    return path.read_text() == text


def _poll(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            raise Unavailable("a namespace or a server did not come up within 10 s")
        time.sleep(0.005)


def _inside(netns: str, *words: str) -> list[str]:
    return ["nsenter", f"--net={netns}", *words]


def _configure(netns: str, device: str, ours: str, theirs: str) -> None:
    script = (
        f"sysctl -qw {_SYSCTLS} && ip link set lo up && "
        f"ip address add {ours} peer {theirs} dev {device} && ip link set {device} up"
    )
    subprocess.run(_inside(netns, "sh", "-c", script), check=True)


def _flow(place: Place, netns: list[str], devices: list[str]) -> Outcome:
    """Addresses both ends and runs the two programs between them."""
    _configure(netns[0], devices[0], "10.98.0.1", "10.98.0.2")
    _configure(netns[1], devices[1], "10.98.0.2", "10.98.0.1")
    server = _inside(netns[1], "iperf3", "-s", "-1")
    listening = _inside(netns[1], "ss", "-Hltn", "sport", "=", ":5201")
    with place.start(server):
        _poll(lambda: subprocess.check_output(listening) != b"")
        place.finish(_inside(netns[0], str(place.client("10.98.0.2"))))
    return place.outcome()


def over_weir(place: Place, setting: Setting) -> Outcome:
    """Over Weir's emulator."""
    with _namespaces() as netns:
        ends = [
            {"netns": path, "device": device, "mtu": 1500}
            for path, device in zip(netns, ["weir-a", "weir-b"], strict=True)
        ]
        limit = {"limit": {"packets": setting.queue_packets}} if setting.queue_packets else {}
        direction = {
            "rate_bps": setting.rate_bps,
            "delay_ns": setting.delay_ms * 1_000_000,
            "queue": {"discipline": "fifo"} | limit,
        }
        link = {"name": "link", "a": ends[0], "b": ends[1]}
        link |= {"forward": direction, "backward": direction}
        config = json.dumps({"seed": 1, "links": [link]})
        argv = [sys.executable, "-m", "benches.emulator_link", config]
        with _holding(place, argv):
            return _flow(place, netns, ["weir-a", "weir-b"])


@contextlib.contextmanager
def _holding(place: Place, argv: list[str]) -> Iterator[None]:
    """A process of ours that says when it is up, in the group."""

    def enter() -> None:
        die_with_parent()
        place.group.enter()

    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=enter,
    ) as process:
        try:
            if process.stdout is None or process.stdout.readline() != b"up\n":
                raise TransferFailed("the emulator did not start")
            yield
        finally:
            process.kill()


def over_veth(place: Place, _: Setting) -> Outcome:
    """Over a bare veth: what the two ends cost by themselves."""
    with _namespaces() as netns:
        pids = [path.split("/")[2] for path in netns]
        words = ["ip", "link", "add", "bench-a", "netns", pids[0], "type", "veth"]
        subprocess.run([*words, "peer", "name", "bench-b", "netns", pids[1]], check=True)
        return _flow(place, netns, ["bench-a", "bench-b"])


def over_rattan(place: Place, setting: Setting) -> Outcome:
    """Over rattan, which makes its own namespaces; its right end is 10.2.1.1."""
    config = place.folder / "rattan.toml"
    config.write_text(_rattan_config(setting, place.client("10.2.1.1"), place.folder))
    place.finish([str(rattan()), "run", "--config", str(config)])
    return place.outcome()


def _rattan_config(setting: Setting, client: Path, folder: Path) -> str:
    # It has no "unlimited": 40 Gbit/s is beyond what it can carry.
    rate = f"{(setting.rate_bps or 40 * 10**9) // 10**6}Mbps"
    limit = setting.queue_packets
    queue = (
        f'queue = "DropTail"\nqueue_config = {{ packet_limit = {limit} }}\n'
        if limit
        else 'queue = "Infinite"\n'
    )
    server = folder / "server.sh"
    server.write_text(f"#!/bin/bash\nsysctl -qw {_SYSCTLS}\nexec iperf3 -s -1 >/dev/null\n")
    server.chmod(0o755)
    bandwidth = f'type = "Bw"\nbw_type = "NetworkLayer"\nbandwidth = "{rate}"\n{queue}'
    delay = f'type = "Delay"\ndelay = "{setting.delay_ms}ms"\n'
    return (
        '[env]\nmode = "Isolated"\n[http]\nenable = false\n'
        f"[cells.up_bw]\n{bandwidth}[cells.up_delay]\n{delay}"
        f"[cells.down_bw]\n{bandwidth}[cells.down_delay]\n{delay}"
        '[links]\nleft = "up_bw"\nup_bw = "up_delay"\nup_delay = "right"\n'
        'right = "down_bw"\ndown_bw = "down_delay"\ndown_delay = "left"\n'
        f"[resource]\ncores = {json.dumps(sorted(os.sched_getaffinity(0)))}\n"
        f'[commands]\nleft = ["bash", "{client}"]\nright = ["bash", "{server}"]\n'
        'shell = "Default"\n'
    )


def rattan() -> Path:
    """The peer's program: on the path, in cargo's folder, or installed under out/peers."""
    places = [shutil.which("rattan"), Path.home() / ".cargo/bin/rattan", PEERS / "bin/rattan"]
    for place in places:
        if place and Path(place).exists():
            return Path(place).resolve()
    print(f"building rattan {RATTAN_VERSION} into {PEERS} (minutes, once)")
    words = ["cargo", "install", "--quiet", "--locked", "--root", str(PEERS)]
    if subprocess.run([*words, "--version", RATTAN_VERSION, "rattan"], check=False).returncode:
        raise Unsupported("rattan could not be installed: cargo install failed")
    return (PEERS / "bin/rattan").resolve()


LINKS: dict[str, Callable[[Place, Setting], Outcome]] = {
    "weir": over_weir,
    "rattan": over_rattan,
    "bare veth": over_veth,
}


def run() -> list[dict[str, Any]]:
    """The rows of `out/bench/emulator.json`."""
    if os.geteuid() != 0:
        raise Unsupported("this benchmark makes network namespaces and cgroups: run it as root")
    rounds, seconds = (1, 3) if harness.quick() else (5, 8)
    rattan()
    ceiling = _rounds(CEILING, list(LINKS), rounds, seconds)
    gigabit = _rounds(GIGABIT, ["weir", "rattan"], rounds, seconds)
    return [*_ceiling_rows(ceiling), *_gigabit_rows(gigabit)]


def _rounds(
    setting: Setting, names: list[str], rounds: int, seconds: int
) -> dict[str, list[Outcome]]:
    """Every link once per round, in turns."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in names}
    with Cgroups() as cgroups:
        for number in range(rounds):
            for name in names:
                label = f"{name.replace(' ', '-')}-{setting.delay_ms}-{number}"
                with tempfile.TemporaryDirectory() as folder, cgroups.group(label) as group:
                    place = Place(group, Path(folder), seconds)
                    outcomes[name].append(LINKS[name](place, setting))
                    print(f"{setting.name}, {name}: {outcomes[name][-1]}")
    return outcomes


def _compared(
    metric: str, unit: str, ours: list[float], peer: str, theirs: list[float]
) -> dict[str, Any]:
    return harness.row(metric, unit, statistics.median(ours), peer, statistics.median(theirs), ours)


def _ceiling_rows(found: dict[str, list[Outcome]]) -> list[dict[str, Any]]:
    rows = []
    for peer in ("rattan", "bare veth"):
        for metric, unit, key in [
            ("throughput, one CUBIC flow, no rate limit", "Mbit/s", "mbit_per_s"),
            ("CPU of both ends and the link", "s/GB", "cpu_s_per_gb"),
        ]:
            series = [[getattr(o, key) for o in found[name]] for name in ("weir", peer)]
            rows.append(_compared(metric, unit, series[0], peer, series[1]))
    for metric, key in [("RTT added, p50", "rtt_p50_ms"), ("RTT added, p99", "rtt_p99_ms")]:
        bare = [getattr(o, key) for o in found["bare veth"]]
        added = [
            [getattr(o, key) - b for o, b in zip(found[name], bare, strict=True)]
            for name in ("weir", "rattan")
        ]
        rows.append(_compared(metric, "ms", added[0], "rattan", added[1]))
    return rows


def _gigabit_rows(found: dict[str, list[Outcome]]) -> list[dict[str, Any]]:
    rows = []
    for metric, unit, key in [
        (f"throughput, one CUBIC flow, {GIGABIT.name}", "Mbit/s", "mbit_per_s"),
        (f"CPU of both ends and the link, {GIGABIT.name}", "s/GB", "cpu_s_per_gb"),
        (f"RTT, p50, {GIGABIT.name}", "ms", "rtt_p50_ms"),
    ]:
        series = [[getattr(o, key) for o in found[name]] for name in ("weir", "rattan")]
        rows.append(_compared(metric, unit, series[0], "rattan", series[1]))
    return rows
