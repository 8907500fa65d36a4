"""Elephants from the calendar into the switches, and what switches see of them back to it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from weir.calendar.agents.enforcer import Pair
from weir.control.core import Core
from weir.control.elephant import TCP, Flow, Told
from weir.control.headroom.book import FOUND_MAX, Book
from weir.control.headroom.detector import Detector
from weir.control.headroom.paths import Paths
from weir.control.headroom.sflow import samples


class Marker:
    """Keeps a core at the elephants of a book.

    Args:
        core: the switches'.
        book: the elephants.
        tell: is given what operators should know, a line at a time.
        detector: finds elephants in samples; None where nobody samples.
        paths: chooses their ways; None where they go as everything else.
    """

    def __init__(
        self,
        core: Core,
        book: Book,
        tell: Callable[[str], None],
        detector: Detector | None = None,
        paths: Paths | None = None,
    ) -> None:
        self._core, self._book, self._tell = core, book, tell
        self._detector, self._paths = detector, paths
        self._unknown: set[str] = set()
        self._is_full = False

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

    def sampled(self, datagram: bytes, sender: str, now_s: float) -> bool:
        """Takes what a switch has sampled; whether an elephant was found in it.

        Raises:
            ValueError: it is not of sFlow version 5.
        """
        has_found = False
        for sample in samples(datagram, sender):
            if self._detector is None or self._is_known(sample.flow):
                continue
            told = replace(sample, flow=self._core.topology.as_told(sample.flow))
            if self._detector.take(told, now_s):
                has_found |= self._find(told.flow)
        if has_found:
            self.mark()
        return has_found

    def mark(self) -> None:
        """Has the switches mark what is to be marked now; sent with the core's next `poll`."""
        marks = self._book.marks()
        if self._paths is None:
            self._core.mark(dict.fromkeys(marks, ()))
        else:
            self._core.mark(self._paths.choose(marks, self._core.view()))

    def look(self) -> None:
        """Takes what switches have counted, and which links are up, since the last call."""
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

    def _is_known(self, flow: Flow) -> bool:
        """Whether nothing is to be found: it is marked, promised, or none of this network's."""
        hosts = self._core.topology
        if hosts.host(flow.source) is None or hosts.host(flow.target) is None:
            return True
        return self._is_promised(flow) or self._book.is_marked(hosts.as_told(flow))

    def _is_promised(self, flow: Flow) -> bool:
        """Whether a flow is a booking's, or answers it: acknowledgements that wait slow it down."""
        there = Pair(flow.source, flow.target, flow.port)
        back = Pair(flow.target, flow.source, flow.source_port)
        return flow.protocol == TCP and any(map(self._core.is_allotted, (there, back)))

    def _find(self, flow: Flow) -> bool:
        is_marked = self._book.find(flow)
        if not is_marked and not self._is_full:
            self._tell(f"{FOUND_MAX} elephants were found and are not over: no more are marked")
        self._is_full = not is_marked
        return is_marked

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
