"""Constructive active probing: a pattern's bursts are a transfer's own bytes (001-spec 6.4).

Nothing is sent for the sake of probing: a burst sends on where the one before has ended, and the
transfer goes on where the pattern ends.
"""

from weir._core import Bytes, Rate
from weir.probe.carrier import UNSENT_MAX_BYTES
from weir.probe.connections import Connections
from weir.probe.tcp_info import TcpInfo
from weir.transfer import PAUSED, Transfer


class TransferCarrier:
    """Lets a pattern drive a transfer that this host sends; the connections stay.

    Bytes are those of the connections, headers and TLS included: what the receiving host has
    acknowledged is confirmed. Which bytes of which file these were the transfer knows.

    Args:
        transfer: that runs.
        rate: its pace in a burst, None is unpaced.
    """

    def __init__(self, transfer: Transfer, rate: Rate | None) -> None:
        self._transfer = transfer
        self._rate = rate
        self._connections = Connections(transfer)

    def __enter__(self) -> "TransferCarrier":
        self._transfer.set_unsent_max(Bytes.from_count(UNSENT_MAX_BYTES))
        return self

    def __exit__(self, *_: object) -> None:
        self._transfer.set_unsent_max(None)

    @property
    def next_offset(self) -> int:
        """Where all the sources together go on: as many bytes survive a crash of the receiver."""
        return self._transfer.progress().bytes_durable.count

    @property
    def sent_bytes(self) -> int:
        """Given to the kernel so far."""
        return self._count()[0]

    @property
    def confirmed_bytes(self) -> int:
        """Acknowledged by the receiving host."""
        return self._count()[1]

    @property
    def finished(self) -> bool:
        """Whether the transfer is over, well or not."""
        return self._transfer.is_over

    def carry(self, congestion: str) -> None:
        """Sends on, under this congestion control, set in place.

        Raises:
            BadInput: the kernel does not let this user have it.
        """
        self._transfer.set_congestion(congestion)
        self._transfer.set_rate(self._rate)

    def pause(self) -> None:
        """Gives the kernel nothing more; about `UNSENT_MAX_BYTES` a connection are unsent."""
        self._transfer.set_rate(PAUSED)

    def fileno(self) -> None:
        """None: there may be several connections, and others after a breakdown."""
        return None

    def tcp_info(self) -> TcpInfo | None:
        """The first of its connections, None without one."""
        return next(iter(self._connections.look()), None)

    def check(self) -> None:
        """Does nothing: a transfer that failed is over, and tells its owner why."""

    def _count(self) -> tuple[int, int]:
        """Bytes that were given to the kernel, and that were acknowledged."""
        found = self._connections.look()
        once = sum((one.sent_bytes or 0) - (one.retransmitted_bytes or 0) for one in found)
        given = once + sum(one.unsent_bytes or 0 for one in found)
        return self._connections.left_bytes + given, self._connections.acked_bytes
