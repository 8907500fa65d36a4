"""A transfer, a selection beside it, and recognisers that say what they are told."""

import io
import json
import threading
import weakref
from collections import deque
from types import SimpleNamespace

import pytest
from rig import told_by_ss, until

from weir import kernel_controls
from weir._core import Rate, Time
from weir.congestion.choice import Interaction, Meeting
from weir.congestion.cycle.cycle import Selection
from weir.congestion.cycle.settings import Settings
from weir.transfer import Server, Transfer

MIB = 1 << 20
# What is left of a file once all that there was to see has been seen.
FAST = Rate("400 Mbit/s")
TABLE = Interaction(
    [
        Meeting("B", "bbr", 1e8, 0.1, 1.0, 0.5, (0.5,)),
        Meeting("B", "cubic", 1e8, 0.1, 1.0, 0.1, (0.9,)),
        Meeting("C", "bbr", 1e8, 0.1, 1.0, 0.9, (0.1,)),
        Meeting("C", "cubic", 1e8, 0.1, 1.0, 0.5, (0.5,)),
    ],
    {},
)
needs_bbr = pytest.mark.skipif(
    not {"bbr", "cubic"} <= set(kernel_controls.offered()),
    reason="the kernel offers no BBR, or no CUBIC",
)


class Told:
    """Says of each probing what comes next in a list, and notes what it was shown."""

    rate_hz = 20.0
    requests = 1

    def __init__(self, *labels, seconds=(0.5,), sure=1.0):
        self.seconds = seconds
        self.labels = list(labels)
        self.sure = sure
        self.shown = []
        self.durable = []
        self.moved = 0
        self.transfer = None

    def recognise(self, samples):
        self.shown.append(list(samples))
        self.durable.append(self.transfer.progress().bytes_durable.count)
        threading.Event().wait(0.1)
        self.moved += self.transfer.progress().bytes_durable.count - self.durable[-1]
        label = self.labels.pop(0) if len(self.labels) > 1 else self.labels[0]
        sure = self.sure if len(self.shown) < len(self.seconds) else 1.0
        likely = {"B": 1 - sure, "C": 1 - sure} | {label: sure}
        return SimpleNamespace(
            probabilities=likely, bbr=likely["B"], known=label != "?", why=f"it is {label}"
        )


class Sending:
    """A paced transfer over the loopback interface with a selection beside it."""

    def __init__(self, tmp_path, recogniser, size, kind=Selection, streams=1, **settings):
        source = tmp_path / "source"
        source.write_bytes(b"x" * size)
        (tmp_path / "root").mkdir()
        self.server = Server([tmp_path / "root"], listen="127.0.0.1:0", keys=None)
        place = "{}:{}/copy".format(*self.server.address)
        silent = {"rate": Rate.from_bit_per_s(0), "congestion": settings.get("fallback")}
        self.transfer = Transfer.send([source], place, keys=None, streams=streams, **silent)
        if isinstance(recogniser, Told):
            recogniser.transfer = self.transfer
            make = lambda: recogniser  # noqa: E731
        else:
            make = recogniser
        self.log = io.StringIO()
        chosen = Settings(**{"interaction": TABLE, "log": self.log} | settings)
        self.selection = kind(self.transfer, make, chosen)

    def __enter__(self):
        self.server.__enter__()
        self.transfer.start()
        self.selection.start()
        return self

    def __exit__(self, *raised):
        self.transfer.cancel()
        self.selection.stop()
        self.server.stop()

    def finish(self):
        assert self.transfer.wait(Time("60 s"))
        assert self.transfer.progress().bytes_durable == self.transfer.progress().bytes_total
        self.selection.stop()
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def control(self):
        """What the kernel says the data connection's control is."""
        ports = self.transfer.ports()
        assert len(ports) == 1
        address, port, peer, peers_port = ports[0]
        told = told_by_ss((address, port), (peer, peers_port))
        return next(name for name in kernel_controls.offered() if f" {name} " in told)


UNREAD = weakref.WeakKeyDictionary()


def news(selection, event):
    """The next news of this kind; what came with it is read the next time."""
    unread = UNREAD.setdefault(selection, deque())

    def found():
        unread.extend(selection.take_news())
        while unread:
            if (one := unread.popleft()).event == event:
                return one
        return None

    return until(found)


class Hearing(Told):
    """Hears others beside the transfer, and says whose they are."""

    def __init__(self, *labels, beside):
        super().__init__(*labels)
        self.told_beside = beside
        self.listened = []
        self.beside_streams = []
        self.counts = []

    def beside(self, samples, own, streams=1, counts=()):
        self.counts = list(counts)
        self.listened.append(own)
        self.beside_streams.append(streams)
        label = self.told_beside[own]
        bbr = float(label == "B")
        return SimpleNamespace(
            probabilities={label: 1.0}, bbr=bbr, known=True, why=f"it is {label} by now"
        )
