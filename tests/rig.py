"""What the tests of several parts share beside their fixtures."""

import asyncio
import contextlib
import hashlib
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from weir.lab import switches

WEIR = str(Path(sys.executable).with_name("weir"))
"""The command, as it is installed beside the interpreter that runs the tests."""


needs_ovs = pytest.mark.skipif(switches.missing() is not None, reason=f"{switches.missing()}")
"""Marks a test that has switches: Open vSwitch's programs are not on every machine."""


PATIENCE_S = 120.0
"""However many others use the machine, what is waited for has come by then, or never will."""


def until(condition, what=None, *, timeout_s=PATIENCE_S, every_s=0.02):
    """Polls until `condition()` is true, and returns what it gave; fails after `timeout_s`.

    `what` says what has not come then.
    """
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what or condition}"
        time.sleep(every_s)
    return value


async def until_async(condition, what=None, *, timeout_s=PATIENCE_S):
    """As `until`, and others run meanwhile."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what or condition}"
        await asyncio.sleep(0.02)
    return value


def sha256(path):
    """The hash of a file's content, as `sha256sum` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def free_port():
    """A port of 127.0.0.1 that a program may be told to listen on, now and after its death.

    It lies below those that the kernel gives to connections: one of them could hold it by then,
    or a client that tries again while nobody listens could meet itself (a simultaneous open).
    """
    # The tests run side by side, and some seed the generator that all of a process share.
    candidates = random.SystemRandom()
    # Each worker has ports of its own: nobody else takes one before the program listens there.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 16
    while True:
        port = candidates.randrange(10_000 + worker, 32_000, 16)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def told_by_ss(here, there, *options):
    """What iproute2 tells of the connection between two (address, port), this end's first.

    Both are asked for: the kernel gives one local port to connections with several peers.
    """
    ends = [
        f"{side} {f'[{address}]' if ':' in address else address}:{port}"
        for side, (address, port, *_) in (("src", here), ("dst", there))
    ]
    command = ["ss", "-tinH", *options, " and ".join(ends)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def opened_by(process="self"):
    """The paths that a process has open, a number or our own; what it closes meanwhile is not."""
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield descriptor.readlink()


def lab_lacks():
    """Why this machine can have no lab, None if it can."""
    if os.geteuid() != 0:
        return "root"
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        return f"/dev/net/tun: {error.strerror}"
    return None
