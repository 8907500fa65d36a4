"""Runs an application over real sockets, both its ends: one process per traffic of the lab.

Started inside the host that opens the connections, with one JSON argument, its order; it listens
in the network namespace of the other. It prints `ready`, reads from standard input the moment to
begin (seconds of CLOCK_MONOTONIC), and prints what the application measured as JSON when it ends,
by its time or by SIGTERM.
"""

import contextlib
import json
import os
import resource
import signal
import sys
import time
from types import FrameType
from typing import Any

from weir._core import LiveApplication
from weir.errors import WeirError
from weir.lab.namespaces import enter

_FOR_EVER_NS = 2**63


class Stopped(Exception):
    """SIGTERM came."""


def play(order: dict[str, Any]) -> str:
    """Carries out an order: when told to begin, for its `length_s` (None: until stopped)."""
    live = LiveApplication(json.dumps(order["config"]))
    _listen(live, order["accepting_net"])
    _say("ready")
    with contextlib.suppress(Stopped):
        begin_s = float(sys.stdin.readline())
        time.sleep(max(0.0, begin_s - time.monotonic()))
        length_s = order["length_s"]
        live.run(round((begin_s + length_s) * 1e9) if length_s else _FOR_EVER_NS)
    return live.finish()


def _listen(live: LiveApplication, accepting_net: str) -> None:
    """Makes the listening socket where connections are accepted, and comes back."""
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(accepting_net, os.O_RDONLY)
    enter(there)
    try:
        live.listen()
    finally:
        enter(here)
        os.close(here)
        os.close(there)


def main() -> int:
    """Plays by the order in the first argument; 0 when it was played to its end."""
    signal.signal(signal.SIGTERM, _stop)
    # Open-loop requests may be many at once, with two sockets each.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        _say(play(json.loads(sys.argv[1])))
    except (WeirError, OSError) as error:
        _say(json.dumps({"error": str(error)}))
        return 1
    return 0


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise Stopped


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
