"""Sends one file at the rates it is told on standard input, a line each; `unpaced` lifts the rate.

    python -m studies.rig.paced_sender SOURCE HOST:PORT/PATH

It says `ready` when it can start, which the first line makes it do, and `delivered` when all is
there and verified. Congestion control is CUBIC, the mover's connections are plain.
"""

import sys
import threading

from studies.rig.output import write_line
from weir import Rate
from weir.transfer import Transfer


def main() -> None:
    """Runs until the file is delivered, whatever standard input does."""
    source, destination = sys.argv[1:]
    transfer = Transfer.send([source], destination, keys=None, congestion="cubic")
    write_line("ready")
    _pace(transfer, sys.stdin.readline())
    transfer.start()
    threading.Thread(target=_follow, args=[transfer], daemon=True).start()
    transfer.wait()
    write_line("delivered")


def _follow(transfer: Transfer) -> None:
    for line in sys.stdin:
        _pace(transfer, line)


def _pace(transfer: Transfer, line: str) -> None:
    word = line.strip()
    transfer.set_rate(None if word == "unpaced" else Rate(word))


if __name__ == "__main__":
    main()
