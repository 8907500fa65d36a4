"""Elephants from the calendar into the switches, and what switches see of them back to it."""

from collections.abc import Callable, Mapping
from typing import Any

from weir.control.core import Core
from weir.control.headroom.book import Book
from weir.control.headroom.flow import Told


class Marker:
    """Keeps a core at the elephants of a book.

    Args:
        core: the switches'.
        book: the elephants.
        tell: is given what operators should know, a line at a time.
    """

    def __init__(self, core: Core, book: Book, tell: Callable[[str], None]) -> None:
        self._core, self._book, self._tell = core, book, tell
        self._unknown: set[str] = set()

    def hear(self, message: Mapping[str, Any]) -> None:
        """Takes a message of the calendar, about elephants or not."""
        if message["kind"] == "snapshot":
            # A calendar older than the controller knows of no elephants.
            self._book.begin(self._known(message.get("elephants", ())))
        elif message["kind"] == "elephants":
            self._book.end(message["remove"])
            for identifier, told in self._known(message["add"]).items():
                self._book.tell(identifier, told)
        else:
            return
        self.mark()

    def mark(self) -> None:
        """Has the switches mark what is to be marked now; sent with the core's next `poll`."""
        self._core.mark(dict.fromkeys(self._book.marks(), ()))

    def look(self) -> None:
        """Takes what switches have counted since the last call."""
        self._book.count(self._core.counted())
        self.mark()

    def reports(self) -> list[dict[str, Any]]:
        """What to tell the calendar: hosts by their names, paths where they were chosen."""
        names = {address: name for name, address in self._core.topology.hosts.items()}
        chosen = self._core.marked()
        found = []
        for flow, report in self._book.reports():
            if flow is not None:
                ends = {"source": names[flow.source], "destination": names[flow.target]}
                report |= flow.to_json() | ends | {"path": chosen.get(flow, [])}
            found.append(report)
        return found

    def _known(self, told: Any) -> dict[str, Told]:
        """Those between hosts of the network, by their ids; others are named, once each."""
        hosts = self._core.topology.hosts
        known = {}
        for one in told:
            ends = one["source"], one["destination"]
            strange = {name for name in ends if name not in hosts}
            for name in sorted(strange - self._unknown):
                self._tell(f'elephants of "{name}" are not marked: it is no host of the file')
            self._unknown |= strange
            if not strange:
                known[one["id"]] = Told.from_json(one, hosts[ends[0]], hosts[ends[1]])
        return known
