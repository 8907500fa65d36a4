"""Points for the tests; in a module of its own because workers import it."""

import hashlib
import os
import signal
import threading
import time

from weir.errors import Unavailable
from weir.runs.point import Point

PAIR = threading.Barrier(2)


def digest(seed, rounds=200_000):
    """Some work, and in which process it was done."""
    value = str(seed).encode()
    for _ in range(rounds):
        value = hashlib.sha256(value).digest()
    return {"digest": value.hex(), "pid": os.getpid()}


def same(value):
    return value


def met(value):
    """Only where another point runs at the same time."""
    PAIR.wait(30)
    return had(value)


def had(value):
    if value > 1:
        raise Unavailable(f"{value} is not to be had")
    return value


def deadly():
    os.kill(os.getpid(), signal.SIGKILL)


def digests(count, rounds=200_000):
    return [Point(digest, {"seed": seed, "rounds": rounds}) for seed in range(count)]


def idle(*, seconds):
    """Waits, and says how long it took."""
    begin = time.monotonic()
    threading.Event().wait(seconds)
    return {"took_s": time.monotonic() - begin}
