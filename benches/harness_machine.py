"""What a reader must know about the machine behind a figure."""

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import weir


def machine_notes() -> dict[str, Any]:
    """Processor, memory, kernel, default congestion control, Weir's version, and when."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "version": weir.__version__,
        "commit": _commit(),
        "system": _system(),
        "kernel": platform.release(),
        "processor": _first_match("/proc/cpuinfo", r"model name\s*: (.*)") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": 1024 * int(_first_match("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0),
        "default_congestion_control": Path("/proc/sys/net/ipv4/tcp_congestion_control")
        .read_text()
        .strip(),
    }


def load_average() -> list[float]:
    """Load over the last 1 and 5 minutes, to tell a quiet machine from a busy one."""
    return [round(value, 2) for value in os.getloadavg()[:2]]


def package_versions(packages: list[str]) -> dict[str, str]:
    """Versions of installed Debian packages by name."""
    answer = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package} ${Version}\n", *packages],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return dict(line.split(" ", 1) for line in answer.stdout.splitlines())


def _commit() -> str | None:
    """Abbreviated commit of the checkout, with "+" if it has changes; None outside git."""
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return answer.stdout.strip() or None


def _system() -> str:
    return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())


def _first_match(path: str, pattern: str) -> str | None:
    found = re.search(pattern, Path(path).read_text())
    return found.group(1).strip() if found else None
