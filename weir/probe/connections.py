"""A transfer's connections as its kernel sees them, counted through breakdowns."""

from weir.probe.tcp_info import TcpInfo, parse_tcp_info
from weir.transfer import Transfer


class Connections:
    """Looks at them, and adds up what they carry.

    Connections that take the place of others count anew; the sum goes on. What they carry until
    they are looked at first is lost to it.

    Args:
        transfer: that this host sends.

    Attributes:
        left_bytes: of the sum, of connections that are no more.
    """

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer
        self._acked = 0
        self.left_bytes = 0

    def look(self) -> list[TcpInfo]:
        """The connections as they are now; empty while none is open."""
        found = [parse_tcp_info(told) for told in self._transfer.tcp_info()]
        acked = sum(one.acked_bytes or 0 for one in found)
        self.left_bytes += max(0, self._acked - acked)
        self._acked = acked
        return found

    @property
    def acked_bytes(self) -> int:
        """Acknowledged by the receiving host, as of the latest look."""
        return self.left_bytes + self._acked
