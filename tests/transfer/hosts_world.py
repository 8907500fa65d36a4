"""Servers over directories that they share, for tests of several hosts in one transfer."""

import contextlib
import os

from rig import until

from weir import Rate, Time
from weir.transfer import Server

MIB = 1 << 20
SLOW = Rate("100 Mbit/s")

IMPOSSIBLE = [
    ("a:1,a:1/f", {}, "it is there twice"),
    ("a:1,b:1/f", {"hash": "none"}, "checked by its hash"),
    (",".join(f"a:{port}" for port in range(1, 10)) + "/f", {}, "8 are allowed"),
    ("a:1,/f", {}, "no port"),
]
"""Places on several hosts that cannot be: each with a transfer's choices, and why not."""


class Log:
    """What servers tell of what they were asked for."""

    def __init__(self) -> None:
        self.told = []

    def __call__(self, _line, facts) -> None:
        self.told.append(facts)

    def of(self, request):
        return [one for one in self.told if one.get("request") == request]


@contextlib.contextmanager
def servers(*roots, keys=None, log=None, **choices):
    """A server for each root; the first is the one that has the outcome."""
    with contextlib.ExitStack() as opened:
        yield [
            opened.enter_context(
                Server([root], listen="127.0.0.1:0", keys=keys, on_entry=log, **choices)
            )
            for root in roots
        ]


def together(running, path="copy"):
    return ",".join("{}:{}".format(*server.address) for server in running) + f"/{path}"


def finish(transfer):
    """Lets it go on unpaced to its end; what was told until then."""
    transfer.set_rate(None)
    assert transfer.wait(Time("60 s"))
    return transfer.take_notices()


def half_way(transfer, share=0.4):
    def is_there():
        now = transfer.progress()
        return now.bytes_durable.count > share * now.bytes_total.count > 0

    until(is_there)


def holed(path, chunks=24):
    """A file of content and holes by turns, with a chunk that is a hole but for its beginning."""
    with path.open("wb") as file:
        for chunk in range(0, chunks, 4):
            os.pwrite(file.fileno(), os.urandom(2 * MIB), chunk * MIB)
        os.pwrite(file.fileno(), b"begins", (chunks + 5) * MIB)
        file.truncate((chunks + 9) * MIB + 77)


def data_and_holes(path):
    """Where content begins and ends, as the file system tells."""
    edges, place = [], 0
    with path.open("rb") as file, contextlib.suppress(OSError):  # there is no more content
        while True:
            begins = os.lseek(file.fileno(), place, os.SEEK_DATA)
            place = os.lseek(file.fileno(), begins, os.SEEK_HOLE)
            edges.append((begins, place))
    return edges
