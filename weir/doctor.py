"""What this machine allows, found by trying, and what each missing thing disables.

Every probe does the thing it asks about, on a small scale and in namespaces of its own, instead
of inferring it from versions; none leaves anything behind.
"""

import errno
import math
import os
import re
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from weir import kernel_controls
from weir.errors import WeirError
from weir.lab import Lab, parse, switches
from weir.lab.controls import PROVIDED, Given
from weir.observe.infiniband import counter_files, discovery, umad
from weir.probe.echo import icmp_socket

_CPU_SAMPLE_S = 0.5
_SCHED = Path("/proc/sys/kernel")
_RT_FILES = ("runtime", "period")
_GROUPS = Path("/sys/fs/cgroup")
_UMAD = Path("/dev/infiniband")
_PROBE_TIMEOUT_S = 10
_PAIR = """
[lab]
name = "doctor"
[hosts]
a = {}
b = {}
[[link]]
ends = ["a", "b"]
rate = "1 Gbit/s"
"""
_SWITCHED = """
[lab]
name = "doctor"
[hosts]
a = {}
b = {}
[routers]
s = { kind = "switch" }
[[link]]
ends = ["a", "s"]
[[link]]
ends = ["s", "b"]
"""


@dataclass(frozen=True)
class Finding:
    """The outcome of one probe.

    Attributes:
        name: what was asked about.
        ok: whether everything that needs it works.
        found: what the probe saw.
        disables: what does not work when `ok` is false.
    """

    name: str
    ok: bool
    found: str
    disables: str


def examine() -> Iterator[Finding]:
    """Every finding, in an order that a reader can follow; takes a few seconds."""
    for name, probe, disables in _PROBES:
        ok, found = probe()
        yield Finding(name, ok, found, disables)


def _namespaces() -> tuple[bool, str]:
    as_whom = "as root" if os.geteuid() == 0 else "in a user namespace"
    error = _fails([*_unshare(), "--mount", "--uts", "true"])
    return (False, f"{as_whom}: {error}") if error else (True, f"can be made {as_whom}")


def _tun() -> tuple[bool, str]:
    error = _fails([*_unshare(), "ip", "tuntap", "add", "dev", "probe", "mode", "tun"])
    return (False, error) if error else (True, "/dev/net/tun makes devices")


def _lab() -> tuple[bool, str]:
    try:
        with Lab.up(parse(_PAIR)) as lab:
            ping = ["ping", "-c", "40", "-i", "0.01", "b"]
            done = lab.run("a", ping, check=False, capture_output=True, text=True)
            headroom = lab.status()["headroom"]
    except WeirError as error:
        return False, str(error)
    times = [float(value) for value in re.findall(r"time=([\d.]+)", done.stdout)]
    if not times:
        return False, f"a packet did not cross: {(done.stderr or done.stdout).strip()}"
    how = "real-time" if headroom["realtime"] else "ordinary"
    sleep = "stay awake" if headroom["awake"] else "may sleep, and wake late"
    found = f"a 0 ms link has {statistics.median(times):.3f} ms RTT"
    return True, f"{found}, {how} threads; processors {sleep} while packets flow"


def _congestion() -> tuple[bool, str]:
    usable = kernel_controls.offered()
    kept = [name for name in kernel_controls.available() if name not in usable]
    found = f"{', '.join(usable)}; the default is {kernel_controls.default()}"
    if kept:
        found += f"; {', '.join(kept)} only for root (or by route: ip route ... congctl)"
    return "cubic" in usable and "bbr" in usable, found


def _icmp() -> tuple[bool, str]:
    try:
        endpoint, raw = icmp_socket(socket.AF_INET)
    except WeirError as error:
        return False, str(error)
    endpoint.close()
    return True, "a raw socket can be opened" if raw else "a ping socket can be opened"


def _given_controls() -> tuple[bool, str]:
    given = Given()
    try:
        for name in PROVIDED:
            given.give(name)
    except WeirError as error:
        return False, str(error)
    finally:
        given.close()
    return True, f"the kernel takes {', '.join(PROVIDED)}"


def _switches() -> tuple[bool, str]:
    if lacking := switches.missing():
        return False, lacking
    try:
        with Lab.up(parse(_SWITCHED)) as lab:
            ping = ["ping", "-c", "1", "-W", "2", "b"]
            done = lab.run("a", ping, check=False, capture_output=True, text=True)
            number = lab.switches()["s"].datapath_id
    except WeirError as error:
        return False, str(error)
    if done.returncode:
        return False, f"a packet did not cross: {(done.stderr or done.stdout).strip()}"
    return True, f"Open vSwitch carries packets in userspace, as datapath {number}"


def _htb() -> tuple[bool, str]:
    error = _fails([*_unshare(), "tc", "qdisc", "add", "dev", "lo", "root", "htb"])
    return (False, error) if error else (True, "the kernel makes the queueing discipline")


def _programs() -> tuple[bool, str]:
    wanted = ("ip", "tc", "iperf3", "ping", "nsenter", "setpriv")
    missing = [name for name in wanted if not _path(name)]
    if missing:
        return False, f"not installed: {', '.join(missing)} (Debian: iproute2 iperf3 iputils-ping)"
    return True, f"{', '.join(wanted)}"


def _infiniband() -> tuple[bool, str]:
    missing = [umad.lacking()]
    if not discovery.program():
        missing.append(f"ibnetdiscover is not installed (Debian: {discovery.DEBIAN_PACKAGE})")
    if any(missing):
        return False, "; ".join(one for one in missing if one)
    # Adapters of Ethernet stand there, too.
    layers = sorted(counter_files.ROOT.glob("*/ports/*/link_layer"))
    ports = [one.parent for one in layers if _text(one).strip() == "InfiniBand"]
    if not ports:
        found = "libibumad and ibnetdiscover are here, and no adapter that they could ask"
        return False, found
    named = ", ".join(f"{one.parent.parent.name}/{one.name}" for one in ports)
    if not any(os.access(one, os.R_OK | os.W_OK) for one in _UMAD.glob("umad*")):
        return False, f"{named}: no {_UMAD}/umad* that this user may open (module ib_umad)"
    return True, f"libibumad and ibnetdiscover; ports: {named}"


def _realtime() -> tuple[bool, str]:
    try:
        policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return False, "SCHED_FIFO: not permitted (root, CAP_SYS_NICE or ulimit -r)"
    except OSError as error:
        return False, f"SCHED_FIFO: {error.strerror}"
    os.sched_setscheduler(0, policy, parameters)
    runtime_us, period_us = (_number(_SCHED / f"sched_rt_{one}_us") for one in _RT_FILES)
    if runtime_us == 0:
        return False, "SCHED_FIFO is permitted, for none of the time (kernel.sched_rt_runtime_us)"
    if runtime_us is None or not period_us:
        return True, "SCHED_FIFO is permitted"
    share = "all" if runtime_us < 0 else f"{runtime_us / period_us:.0%}".replace("%", " %")
    return True, f"SCHED_FIFO is permitted, for {share} of the time"


def _number(file: Path) -> int | None:
    try:
        return int(_text(file))
    except ValueError:
        return None


def _cpu() -> tuple[bool, str]:
    present = len(os.sched_getaffinity(0))
    cores = min(present, _processors_allowed())
    idle_before, all_before = _cpu_ticks()
    time.sleep(_CPU_SAMPLE_S)
    idle_after, all_after = _cpu_ticks()
    idle = (idle_after - idle_before) / max(1, all_after - all_before) * cores
    found = f"{present} cores, {idle:.1f} of them idle just now"
    if cores < present:
        found += f"; this control group may use {cores:.1f} (cpu.max)"
    return idle >= 1, found


def _processors_allowed() -> float:
    """What the control group that this process is in, and those above it, may use."""
    allowed = math.inf
    lines = (line.split(":", 2) for line in _text(Path("/proc/self/cgroup")).splitlines())
    for below in (path.lstrip("/") for number, _, path in lines if number == "0"):
        folder = _GROUPS / below
        while folder.is_relative_to(_GROUPS):
            quota, _, period = _text(folder / "cpu.max").strip().partition(" ")
            if quota.isdecimal() and period.isdecimal():
                allowed = min(allowed, int(quota) / int(period))
            folder = folder.parent
    return allowed


def _text(file: Path) -> str:
    """What stands in a file of the kernel's; nothing if there is none."""
    try:
        return file.read_text()
    except OSError:
        return ""


def _cpu_ticks() -> tuple[int, int]:
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return fields[3] + fields[4], sum(fields[:8])


def _unshare() -> list[str]:
    return ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net"]


def _fails(command: list[str]) -> str | None:
    """Why the command failed; None when it did not."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
    except OSError as error:
        return f"{command[0]}: {os.strerror(error.errno or errno.ENOENT)}"
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not end within {_PROBE_TIMEOUT_S} s"
    said = done.stderr.strip().split("\n")[-1]
    return (said or f"exit code {done.returncode}") if done.returncode else None


def _path(program: str) -> str | None:
    # Administrators' programs are not on everybody's PATH.
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


_PROBES: tuple[tuple[str, Callable[[], tuple[bool, str]], str], ...] = (
    ("programs", _programs, "weir lab, and background traffic by iperf3"),
    ("namespaces", _namespaces, "weir lab, weir run"),
    ("TUN devices", _tun, "the links of weir lab, weir run"),
    ("emulated links", _lab, "weir lab, weir run"),
    (
        "congestion controls",
        _congestion,
        "--cca and congestion = with a control that is not listed as usable",
    ),
    ("ICMP echo", _icmp, "weir probe but by --udp"),
    (
        "HTB",
        _htb,
        "rate enforcement at the network edge: a sender that ignores its rate is not held",
    ),
    (
        "BPF struct_ops",
        _given_controls,
        f"in a lab, congestion controls that the kernel lacks ({', '.join(PROVIDED)})",
    ),
    ("Open vSwitch", _switches, "switches in weir lab (Debian: openvswitch-switch)"),
    ("InfiniBand", _infiniband, "weir observe fabric but for --files, classify and analyse"),
    (
        "real-time priority",
        _realtime,
        "punctual links and probes while other programs keep the processors busy",
    ),
    ("CPU head-room", _cpu, "links of hundreds of Mbit/s at their full rate while that lasts"),
)
