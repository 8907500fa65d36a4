"""Points for the tests; in a module of its own because workers import it."""

import hashlib
import os
import signal

from weir.reproduce import Point


def digest(seed, rounds=200_000):
    """Some work, and in which process it was done."""
    value = str(seed).encode()
    for _ in range(rounds):
        value = hashlib.sha256(value).digest()
    return {"digest": value.hex(), "pid": os.getpid()}


def same(value):
    return value


def deadly():
    os.kill(os.getpid(), signal.SIGKILL)


def digests(count, rounds=200_000):
    return [Point(digest, {"seed": seed, "rounds": rounds}) for seed in range(count)]
