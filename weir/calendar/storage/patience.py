"""How long a store's sessions wait for its database server."""

from collections.abc import Iterator
from contextlib import contextmanager

# After so long without a word a session is given up, and what it was asked for has failed. Slow
# disks, and replicas that are away for a moment, take less.
SILENCE_S = 10.0


class Patience:
    """What the sessions of one store share: they wait for `SILENCE_S`, without end, or no more."""

    def __init__(self) -> None:
        self._is_endless = False
        self.is_over = False

    @contextmanager
    def endless(self) -> Iterator[None]:
        """Waits for what may take any time, such as changes of tables with all that they hold."""
        self._is_endless = True
        try:
            yield
        finally:
            self._is_endless = False

    def end(self) -> None:
        """Has every thread that waits give up, now and from now on."""
        self.is_over = True

    def lasts(self, silent_s: float) -> bool:
        """Whether to go on waiting for a server that has been silent for so long."""
        return not self.is_over and (self._is_endless or silent_s < SILENCE_S)
