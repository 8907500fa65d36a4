"""What agents are told about transfers, as JSON: most of it is written once for each transfer.

A request may change the rates of a hundred others, and all of these are told.
"""

from collections.abc import Callable, Sequence

from weir.calendar.compact import compact_json
from weir.calendar.network import Network
from weir.calendar.records import Transfer
from weir.calendar.service.models import lanes_text
from weir.calendar.service.registry import Reach


class Orders:
    """The assignments of transfers. `reach` says where the agent of a host was last reached."""

    def __init__(self, network: Network, reach: Callable[[str], Reach], spare: str | None) -> None:
        self._network = network
        self._reach = reach
        self._spare = spare
        # What does not change with the rate, without the brace at its end, and what it is made of.
        self._written: dict[str, tuple[tuple[object, ...], str]] = {}

    def text(self, transfer: Transfer, rate_bps: int, lanes_bps: Sequence[int] | None) -> str:
        """What an agent is told about a transfer; `lanes_bps` is of those with several paths."""
        rate_bps, lanes = lanes_text(transfer, rate_bps, lanes_bps)
        return f'{self._fixed(transfer)},"rate_bps":{rate_bps},"lanes":[{lanes}]}}'

    def forget(self, identifier: str) -> None:
        """Drops what is kept of a transfer that is over."""
        self._written.pop(identifier, None)

    def clear(self) -> None:
        """Drops what is kept of all."""
        self._written.clear()

    def _fixed(self, transfer: Transfer) -> str:
        source, destination = self._reach(transfer.source), self._reach(transfer.destination)
        made_of = (transfer.size_bytes, transfer.path, source, destination)
        known = self._written.get(transfer.id)
        if known is not None and known[0] == made_of:
            return known[1]
        nodes, addresses6 = self._network.nodes, self._network.addresses6
        told = {
            "id": transfer.id,
            "source": transfer.source,
            "source_path": transfer.source_path,
            "source_address": nodes.get(transfer.source) or source.address,
            "source_address6": addresses6.get(transfer.source),
            "destination": transfer.destination,
            "destination_path": transfer.destination_path,
            "destination_address": nodes.get(transfer.destination) or destination.address,
            "destination_address6": addresses6.get(transfer.destination),
            "data_address": destination.data_address,
            "data_ports": destination.data_ports,
            "size_bytes": transfer.size_bytes,
            "deadline_ns": transfer.deadline_ns,
            "path": transfer.path,
            "spare": self._spare,
        }
        text = compact_json(told)[:-1]
        self._written[transfer.id] = made_of, text
        return text
