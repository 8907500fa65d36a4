"""Sends files as they are named, each at once and unpaced: one process on a source host.

It speaks JSON lines. In: {"id", "path", "to"}. Out, several times a second for each file under
way: {"id", "state", "bytes", "error"}; and {"ready": true} once, when it listens. It is started
before the half begins, as the agents are, so that neither half pays for starting an interpreter.
"""

import argparse
import contextlib
import json
import queue
import sys
import threading
from typing import Any

from studies.rig.output import write_json
from weir.transfer import Transfer

_REPORT_S = 0.2
_ENDED = ("done", "failed", "cancelled")


def main() -> None:
    """Runs until its input ends and everything asked for has ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", required=True)
    parser.add_argument("--congestion", required=True)
    args = parser.parse_args()
    orders: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    write_json({"ready": True})
    under_way: dict[str, Transfer] = {}
    listening = True
    while listening or under_way:
        with contextlib.suppress(queue.Empty):
            order = orders.get(timeout=_REPORT_S)
            if order is None:
                listening = False
            else:
                _begin(under_way, order, args)
        _report(under_way)


def _listen(orders: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    orders.put(None)


def _begin(under_way: dict[str, Transfer], order: dict[str, Any], args: argparse.Namespace) -> None:
    transfer = Transfer.send(
        sources=[order["path"]],
        destination=order["to"],
        keys=args.keys,
        congestion=args.congestion,
    )
    transfer.start()
    under_way[order["id"]] = transfer


def _report(under_way: dict[str, Transfer]) -> None:
    for id, transfer in list(under_way.items()):
        progress = transfer.progress()
        error = str(progress.error) if progress.error else None
        write_json(
            {
                "id": id,
                "state": progress.state,
                "bytes": progress.bytes_durable.count,
                "error": error,
            }
        )
        if progress.state in _ENDED:
            del under_way[id]


if __name__ == "__main__":
    main()
