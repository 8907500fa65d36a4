"""Sends one traffic of the lab over real sockets: a process each, which an order tells what to do.

Started inside a host with one JSON argument, its order. Of an application it runs both ends: that
host opens the connections, and it listens in the network namespace of the other. Of UDP it is the
sending end. It prints `ready`, reads from standard input the moment to begin (seconds of
CLOCK_MONOTONIC), and prints what was measured or sent as JSON when it ends, by its time or by
SIGTERM.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from weir import descriptors
from weir._core import LiveApplication, LiveDatagrams
from weir.errors import WeirError
from weir.lab.namespaces import enter

_FOR_EVER_NS = 2**63

Run = Callable[[float, int], None]
"""Runs from a moment, in seconds, until another, in nanoseconds."""


class Stopped(Exception):
    """SIGTERM came."""


def play(order: dict[str, Any]) -> str:
    """Runs an application: when told to begin, for its `length_s` (None: until stopped)."""
    live = LiveApplication(json.dumps(order["config"]))
    _listen(live, order["accepting_net"])

    def run(begin_s: float, until_ns: int) -> None:
        time.sleep(max(0.0, begin_s - time.monotonic()))
        live.run(until_ns)

    _run_when_told(run, order["length_s"])
    return live.finish()


def send(order: dict[str, Any]) -> str:
    """Sends UDP, likewise; what was sent tells the error that ended it, too."""
    live = LiveDatagrams(json.dumps(order["datagrams"]))
    error = None
    try:
        _run_when_told(lambda begin_s, until: live.run(_ns(begin_s), until), order["length_s"])
    except WeirError as failure:
        error = str(failure)
    return json.dumps({**json.loads(live.sent()), "error": error})


def _run_when_told(run: Run, length_s: float | None) -> None:
    _say("ready")
    with contextlib.suppress(Stopped):
        begin_s = float(sys.stdin.readline())
        run(begin_s, _ns(begin_s + length_s) if length_s else _FOR_EVER_NS)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


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
    descriptors.raise_limit()  # Open-loop requests may be many at once, with two sockets each.
    order = json.loads(sys.argv[1])
    try:
        found = send(order) if "datagrams" in order else play(order)
    except (WeirError, OSError) as error:
        found = json.dumps({"error": str(error)})
    _say(found)
    return 1 if json.loads(found).get("error") else 0


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise Stopped


def _say(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(1)  # whoever started it has gone, and this one goes without a word


if __name__ == "__main__":
    sys.exit(main())
