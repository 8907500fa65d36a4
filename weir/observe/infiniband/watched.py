"""Ports that are asked again and again, while the fabric that they belong to may change."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weir.errors import Unavailable, WeirError
from weir.observe.infiniband import discovery
from weir.observe.infiniband.asking import Backend, Names, Port, ports_of
from weir.observe.infiniband.counter_files import CounterFiles
from weir.observe.infiniband.roles import classified
from weir.observe.infiniband.umad import Umad
from weir.printable import printable

_LOOK_AGAIN_NS = 60_000_000_000
"""From the end of a look at the fabric to the next; as long as a look takes, if that is longer."""


@dataclass
class Watched:
    """Whom to ask, and what is known of the ports.

    Attributes:
        backend: who carries the questions.
        ports: those that are asked; others once the fabric was looked at again.
        names: their kinds, directions and names; None where they are this host's.
        label: what people call a port.
        kept: the file that has the fabric's dump, and gets a new one; None for none.
        subsystems: names of the trees beside the main one, nearest first.
        changed: whether there is word of a change since it was asked last.
        lanes: by how much each virtual lane of a port waits; None where that is not told.
        say: is told, in a line, why the fabric is looked at again, and when that failed.
    """

    backend: Backend
    ports: Sequence[Port]
    names: Names | None
    label: Callable[[Port], str]
    kept: Path | None = None
    subsystems: Sequence[str] = ()
    changed: Callable[[], bool] = bool
    lanes: Callable[[Port], tuple[int, ...] | None] | None = None
    say: Callable[[str], None] = lambda _: None
    _looked_ns: int | None = field(default=None, init=False)
    _rest_ns: int = field(default=_LOOK_AGAIN_NS, init=False)
    _is_stale: bool = field(default=False, init=False)

    def renewed(self, is_missing: bool) -> Sequence[Port] | None:
        """The ports of a fabric that is walked again, for it has changed; not too often.

        Any number of changes meanwhile are found by one walk.

        Args:
            is_missing: whether ports did not answer.
        """
        begin_ns = self.backend.now_ns()
        # A clock that was set back says nothing of how long ago that was.
        is_recent = self._looked_ns is not None and 0 <= begin_ns - self._looked_ns < self._rest_ns
        self._is_stale |= self.changed() or is_missing
        if self.names is None or is_recent or not self._is_stale:
            return None
        why = "some ports do not answer" if is_missing else "there is word of a change"
        self.say(f"{why}: looking at the fabric again")
        found = self._walked(self.names)
        self._looked_ns = self.backend.now_ns()
        self._rest_ns = max(_LOOK_AGAIN_NS, self._looked_ns - begin_ns)
        return found

    def _walked(self, names: Names) -> Sequence[Port] | None:
        """The ports that a walk has found; None if it failed, which is said."""
        try:
            fabric = discovery.discovered(self.kept, again=True)
            roles = classified(fabric, self.subsystems)
            ports = _some(ports_of(fabric))
        except WeirError as error:
            # A fabric that changes while it is looked at contradicts itself, for a while.
            self.say(f"{error}; going on with what was known before")
            return None
        self._is_stale = False
        names.learn(fabric, roles)
        self.ports = ports
        return ports


def this_host() -> Watched:
    """This host's ports, by the kernel's counter files.

    Raises:
        Unsupported: it has none.
    """
    files = CounterFiles()
    return Watched(files, files.ports(), None, files.name)


@contextlib.contextmanager
def whole_fabric(
    device: str | None,
    device_port: int,
    kept: Path | None,
    subsystems: Sequence[str],
    say: Callable[[str], None],
) -> Iterator[Watched]:
    """Every port of the fabric that an adapter of this host is in.

    Args:
        device: the adapter, such as mlx5_0; None for the first with an active port.
        device_port: of it; 0 for the first active one.
        kept: as in `Watched`.
        subsystems: as in `Watched`.
        say: as in `Watched`.

    Raises:
        Unsupported: this machine lacks what it takes to ask.
        Unavailable: the adapter cannot be used, or no switch has a LID.
        BadInput: the file cannot be read or written, or holds no dump.
    """
    with Umad(device, device_port) as umad:
        fabric = discovery.discovered(kept)
        ports = _some(ports_of(fabric))
        names = Names(fabric, classified(fabric, subsystems))

        def label(port: Port) -> str:
            return f"{printable(names.name(port.lid))}[{port.number}]"

        yield Watched(umad, ports, names, label, kept, subsystems, umad.changed, umad.lanes, say)


def _some(ports: Sequence[Port]) -> Sequence[Port]:
    """The same.

    Raises:
        Unavailable: there are none, as before a subnet manager has given LIDs.
    """
    if not ports:
        raise Unavailable("no switch of this fabric has a LID: does a subnet manager run?")
    return ports
