"""The ports of this host's adapters, by the files in which the kernel shows their counters.

They need neither rights nor a library, but tell of this host alone, and cannot be reset.
"""

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.errors import Unsupported
from weir.observe.infiniband.asking import Answer, Port, tick_ns
from weir.observe.infiniband.dump import Speed
from weir.observe.infiniband.records import CLAMPED, Flag
from weir.printable import printable

ROOT = Path("/sys/class/infiniband")
_COUNTER = "counters/port_xmit_wait"
_RATE = re.compile(r"\((1|2|4|8|12)X ([A-Z]+\d*)\)")
_MOST_BYTES = 4096
"""What the kernel says in one file."""
_LID_MAX = 0xFFFF
_ACTIVE = "4:"


@dataclass(frozen=True, slots=True)
class _Place:
    name: str
    folder: Path


class CounterFiles:
    """This host's ports; `ports` numbers them, `name` says which each is.

    Args:
        root: the folder with one of each adapter; None for the kernel's.

    Raises:
        Unsupported: there is no such folder, or no port in it.
    """

    def __init__(self, root: Path | None = None) -> None:
        root = root or ROOT
        folders = sorted(root.glob("*/ports/*"))
        if not folders:
            raise Unsupported(f"{root}: this host has no InfiniBand adapter, or no driver for it")
        named = ((f"{one.parent.parent.name}/{one.name}", one) for one in folders)
        self._places = {number: _Place(*one) for number, one in enumerate(named, 1)}

    def ports(self) -> list[Port]:
        """Every port; those of no LID, or of one adapter with it, are told apart by number."""
        return [
            Port(_number(self._text(number, "lid")), number, self._speed(number))
            for number in self._places
        ]

    def name(self, port: Port) -> str:
        """The adapter and the number of a port: mlx5_0/1."""
        return printable(self._places[port.number].name)

    def now_ns(self) -> int:
        """Nanoseconds of Unix time."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Sleeps."""
        time.sleep(seconds)

    def ask(self, ports: Sequence[Port]) -> list[Answer]:
        """Reads the counter of each."""
        return [self._answer(port) for port in ports]

    def reset(self, port: Port) -> bool:
        """False: the kernel's files cannot be reset."""
        return False

    def _answer(self, port: Port) -> Answer:
        begin = time.time_ns()
        text = self._text(port.number, _COUNTER)
        took = time.time_ns() - begin
        flags = {Flag.TICK_ASSUMED}
        if self._text(port.number, "link_layer").startswith("Ethernet"):
            flags.add(Flag.ETHERNET)
        elif not self._text(port.number, "state").startswith(_ACTIVE):
            flags.add(Flag.DOWN)
        if not text:
            flags.add(Flag.MISSING)
        elif not text.isdecimal():  # "N/A (no PMA)", as the kernel has it
            flags.add(Flag.UNSUPPORTED)
        wait = int(text) if text.isdecimal() else 0
        if wait >= CLAMPED:
            flags.add(Flag.CLAMPED)
        tick = tick_ns(None, self._speed(port.number))
        return Answer(begin, took, min(wait, CLAMPED), tick, frozenset(flags))

    def _speed(self, number: int) -> Speed | None:
        found = _RATE.search(self._text(number, "rate"))
        return Speed(int(found[1]), found[2]) if found else None

    def _text(self, number: int, name: str) -> str:
        """What a file says; nothing where there is none, or none that can be read."""
        try:
            # What stands here on another system's word may be a FIFO, or have no end.
            place = self._places[number].folder / name
            descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                text = os.read(descriptor, _MOST_BYTES).decode("ascii")
            finally:
                os.close(descriptor)
        except (OSError, UnicodeDecodeError):
            return ""
        return printable(text.strip())


def _number(text: str) -> int:
    try:
        found = int(text, 0)
    except ValueError:
        return 0
    return found if 0 <= found <= _LID_MAX else 0
