"""Background traffic of a lab that is up: starts, stops and reports each flow of the scenario.

Greedy TCP is iperf3, a one-off server per flow. All else is `weir.lab.player`, a process per flow:
both ends of an application over TCP, the sending end of UDP. UDP goes to a socket whose filter
refuses every packet, so that the kernel counts them and nobody copies them.
"""

import contextlib
import ctypes
import hashlib
import json
import math
import signal
import socket
import struct
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from weir import python
from weir.errors import Unsupported
from weir.lab import applications
from weir.lab.canonical import kind_of
from weir.lab.scenario import (
    CODEPOINTS,
    ECN_FIELDS,
    ApplicationTraffic,
    Iperf3Traffic,
    PpbpTraffic,
    Traffic,
    UdpTraffic,
)

FIRST_PORT = 20_001
"""The first traffic of a scenario has this port, the next one the next."""
_READY_TIMEOUT_S = 30.0
_REPORT_S = 3.0
_CONNECT_S = 1.0  # of one stream over a long path
_SO_ATTACH_FILTER = 26
_SO_MEMINFO, _MEMINFO_DROPS = 55, 8


class Spawn(Protocol):
    """Starts a command inside a node; it dies with the supervisor."""

    def __call__(self, node: str, argv: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
        """`options` are those of `subprocess.Popen`."""
        ...


SocketIn = Callable[[str], socket.socket]
"""Makes a UDP socket inside a node."""

NetOf = Callable[[str], str]
"""The file of a node's network namespace."""


class Flow(ABC):
    """One flow of the scenario; a subclass says what runs.

    Attributes:
        traffic: what the scenario says of it.
        state: "waiting", "running", "done" or "failed".
    """

    _stop_signal = signal.SIGTERM

    def __init__(self, traffic: Traffic, port: int, directory: Path, spawn: Spawn) -> None:
        self.traffic = traffic
        self.state = "waiting"
        self._port = port
        self._spawn = spawn
        self._output = directory / f"{traffic.name}.json"
        self._process: subprocess.Popen[bytes] | None = None
        self._told_to_stop = False

    @abstractmethod
    def prepare(self, address: str) -> None:
        """Begins to ready both ends, the receiving one at `address`."""

    @abstractmethod
    def await_ready(self) -> None:
        """Waits until what `prepare` began is there."""

    @abstractmethod
    def start(self, start_s: float) -> None:
        """Begins to send, at `start_s` on CLOCK_MONOTONIC or at once."""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """What the flow has achieved so far."""

    def stop_s(self, up_s: float) -> float | None:
        """When to tell the sender to stop, if the lab came up at `up_s`; None for never.

        Senders know their end; they are told only when they are well past it.
        """
        if self.traffic.stop is None or self._told_to_stop:
            return None
        return up_s + self.traffic.stop.ns / 1e9 + self._grace_s()

    def stop(self) -> None:
        """Tells the sender to end and report."""
        if self._process:
            self._told_to_stop = True
            self._told_s = time.monotonic()
            self._process.send_signal(self._stop_signal)

    def poll(self) -> None:
        """Notices that the sender has ended."""
        if self.state != "running" or self._process is None:
            return
        status = self._process.poll()
        if status is not None:
            self.state = "done" if status == 0 or self._told_to_stop else "failed"

    def report(self) -> dict[str, Any]:
        """The flow's line in `weir lab status`."""
        self.poll()
        return {
            "name": self.traffic.name,
            "kind": self.kind(),
            "from": self.traffic.source,
            "to": self.traffic.destination,
            "state": self.state,
            **self.summary(),
        }

    def kind(self) -> str:
        """What the scenario calls it."""
        return kind_of(self.traffic)

    def _grace_s(self) -> float:
        """How long after its end the sender may take to report."""
        return _REPORT_S

    def _results(self) -> dict[str, Any]:
        """What the sender wrote; empty until it has ended."""
        if self.state not in ("done", "failed"):
            return {}
        try:
            content: dict[str, Any] = json.loads(self._result_text())
        except ValueError:
            return {"error": f"it wrote no result; see {self._output}"}
        return content

    def _result_text(self) -> str:
        return self._output.read_text()


class Iperf3Flow(Flow):
    """TCP by iperf3, paced by the kernel when the scenario gives a rate."""

    traffic: Iperf3Traffic
    _stop_signal = signal.SIGINT  # on which iperf3 reports what it did

    def prepare(self, address: str) -> None:
        """Starts the one-off server."""
        self._address = address
        argv = ["iperf3", "-4", "-s", "-1", "--json", "-p", str(self._port)]
        self._server_output = self._output.with_name(f"{self.traffic.name}.server.json")
        with self._server_output.open("wb") as output:
            self._server = self._spawn(self.traffic.destination, argv, stdout=output)

    def await_ready(self) -> None:
        """Waits until the server listens."""
        _await(lambda: _listens(self._server.pid, self._port), self._server, self.traffic.name)

    def start(self, start_s: float) -> None:
        """Starts the client."""
        with self._output.open("wb") as output:
            argv = self._client_command()
            self._process = self._spawn(self.traffic.source, argv, stdout=output)
        self.state = "running"

    def poll(self) -> None:
        """Notices that the sender has ended."""
        # One that is told to stop leaves the count to its server, which writes it a moment later.
        counting = self._told_to_stop and self._server.poll() is None
        if not counting or time.monotonic() > self._told_s + _REPORT_S:
            super().poll()
        # A client whose server is gone may say so in its report alone, and exit with 0.
        if self.state == "done" and not self._told_to_stop and "error" in self._results():
            self.state = "failed"

    def _client_command(self) -> list[str]:
        flow = self.traffic
        seconds = math.ceil((flow.stop.ns - flow.start.ns) / 1e9) if flow.stop else 0
        argv = ["iperf3", "-4", "-c", self._address, "-p", str(self._port), "--json"]
        argv += ["-t", str(seconds), "-P", str(flow.streams), "--dscp", str(CODEPOINTS[flow.dscp])]
        if flow.congestion:
            argv += ["-C", flow.congestion]
        if flow.rate:
            argv += ["--fq-rate", str(flow.rate.bit_per_s // flow.streams)]
        return argv

    def summary(self) -> dict[str, Any]:
        """Received rate and retransmissions, once it has ended."""
        results = self._results()
        end = results.get("end", {})
        summary: dict[str, Any] = {}
        if "sum_received" in end:
            received = end["sum_received"]["bytes"] or self._received_before_interrupt()
            seconds = end["sum_sent"]["seconds"]
            summary["received_rate_bps"] = round(received * 8 / seconds) if seconds else 0
            summary["received_bytes"] = received
            summary["retransmits"] = end["sum_sent"].get("retransmits")
        if self.state == "failed" and "error" in results:
            summary["error"] = results["error"]
        return summary

    def _received_before_interrupt(self) -> int:
        """The server's own count: a client that is told to stop does not hear it."""
        try:
            server = json.loads(self._server_output.read_text())
        except ValueError:
            return 0  # still being written
        return int(server["end"].get("sum_received", {}).get("bytes", 0))

    def _grace_s(self) -> float:
        # iperf3 counts whole seconds only; any other end it has to be told. It counts from when all
        # streams are connected, and connects one after the other.
        stop = self.traffic.stop
        whole = stop is not None and (stop.ns - self.traffic.start.ns) % 10**9 == 0
        return _REPORT_S + _CONNECT_S * self.traffic.streams if whole else 0.0


class OrderedFlow(Flow):
    """A program of ours that takes an order, says that it is ready and waits for its moment."""

    def _order(self, node: str, order: dict[str, Any]) -> None:
        """Starts the program in `node`."""
        argv = python.program("weir.lab.player", json.dumps(order))
        with self._output.open("wb") as output:
            self._process = self._spawn(node, argv, stdin=subprocess.PIPE, stdout=output)

    def await_ready(self) -> None:
        """Waits until the program waits."""
        assert self._process, "prepare comes first"
        _await(lambda: self._output.stat().st_size > 0, self._process, self.traffic.name)

    def start(self, start_s: float) -> None:
        """Tells the program its moment."""
        assert self._process and self._process.stdin, "prepare comes first"
        with contextlib.suppress(BrokenPipeError), self._process.stdin as told:
            told.write(f"{start_s}\n".encode())
        self.state = "running"

    def _length_s(self) -> float | None:
        start, stop = self.traffic.start, self.traffic.stop
        return (stop.ns - start.ns) / 1e9 if stop else None

    def _result_text(self) -> str:
        return super()._result_text().removeprefix("ready\n")


class ApplicationFlow(OrderedFlow):
    """An application over TCP by `weir.lab.player`."""

    traffic: ApplicationTraffic

    def __init__(
        self,
        traffic: ApplicationTraffic,
        port: int,
        directory: Path,
        spawn: Spawn,
        net_of: NetOf,
        seed: int,
    ) -> None:
        super().__init__(traffic, port, directory, spawn)
        self._net_of = net_of
        self._seed = seed

    def kind(self) -> str:
        """What the scenario calls it."""
        return self.traffic.kind

    def prepare(self, address: str) -> None:
        """Starts the program; `address` is where the traffic's connections are accepted."""
        config = {
            "seed": self._seed,
            "name": self.traffic.draws or self.traffic.name,
            "address": address,
            "port": self._port,
            "dscp": CODEPOINTS[self.traffic.dscp],
            "congestion": self.traffic.congestion,
            "keep_requests": self.traffic.stop is not None,
            "application": applications.config(self.traffic),
        }
        order = {
            "config": config,
            "accepting_net": self._net_of(applications.acceptor(self.traffic)),
            "length_s": self._length_s(),
        }
        self._order(applications.opener(self.traffic), order)

    def summary(self) -> dict[str, Any]:
        """What arrived and what the application measured, once it has ended."""
        results = self._results()
        summary: dict[str, Any] = {}
        if "delivered_bytes" in results:
            seconds = results["elapsed_ns"] / 1e9
            received = results["delivered_bytes"]
            summary["received_bytes"] = received
            summary["received_rate_bps"] = round(received * 8 / seconds) if seconds else 0
            summary["failed_connections"] = results["failed_connections"]
            summary["application"] = results["application"]
        if results.get("error"):
            summary["error"] = results["error"]
        return summary


class UdpFlow(OrderedFlow):
    """UDP: constant, on and off, or bursts."""

    def __init__(
        self,
        traffic: UdpTraffic | PpbpTraffic,
        port: int,
        directory: Path,
        spawn: Spawn,
        socket_in: SocketIn,
        seed: int,
    ) -> None:
        super().__init__(traffic, port, directory, spawn)
        self._payload_bytes = traffic.payload.count
        self._source = source_config(traffic, seed)
        self._socket_in = socket_in

    def prepare(self, address: str) -> None:
        """Opens the receiving socket and starts the sender, which waits for its moment."""
        self._sink = self._socket_in(self.traffic.destination)
        refuse_every_packet(self._sink)
        self._sink.bind((address, self._port))
        datagrams = {
            "address": address,
            "port": self._port,
            "dscp": CODEPOINTS[self.traffic.dscp],
            "ecn": ECN_FIELDS[self.traffic.ecn] if self.traffic.ecn else 0,
            "source": self._source,
        }
        order = {"datagrams": datagrams, "length_s": self._length_s()}
        self._order(self.traffic.source, order)

    def summary(self) -> dict[str, Any]:
        """Packets received so far, and sent once it has ended."""
        received = packets_refused(self._sink)
        summary = {
            "received_packets": received,
            "received_bytes": received * self._payload_bytes,
        }
        results = self._results()
        if "packets" in results:
            summary["sent_packets"] = results["packets"]
            summary["stalled_s"] = results["stalled_s"]
        if results.get("error"):
            summary["error"] = results["error"]
        return summary


def source_config(traffic: UdpTraffic | PpbpTraffic, seed: int) -> dict[str, Any]:
    """The source as the core reads it; every random choice follows from what is in it."""
    payload_bytes = traffic.payload.count
    if isinstance(traffic, PpbpTraffic):
        bursts = {
            "seed": _derived(seed, traffic.draws or traffic.name),
            "rate_bps": traffic.burst_rate.bit_per_s,
            "interval_ns": traffic.burst_interval.ns,
            "mean_ns": traffic.burst_mean.ns,
            "hurst": traffic.hurst,
        }
        return {"kind": "udp-rates", "bursts": bursts, "payload_bytes": payload_bytes}
    return {
        "kind": "udp",
        "rate_bps": traffic.rate.bit_per_s,
        "payload_bytes": payload_bytes,
        "on_ns": traffic.on.ns if traffic.on else None,
        "off_ns": traffic.off.ns if traffic.off else None,
    }


def _derived(seed: int, name: str) -> int:
    """A seed of its own for each source, so that another source disturbs none."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8])


def accepting_host(traffic: Traffic) -> str:
    """The host at whose address a traffic arrives, or its connections are accepted."""
    if isinstance(traffic, ApplicationTraffic):
        return applications.acceptor(traffic)
    return traffic.destination


def make_flow(
    traffic: Traffic,
    index: int,
    directory: Path,
    spawn: Spawn,
    socket_in: SocketIn,
    net_of: NetOf,
    seed: int,
) -> Flow:
    """The running side of one `[[traffic]]` of the scenario."""
    port = FIRST_PORT + index
    if isinstance(traffic, UdpTraffic | PpbpTraffic):
        return UdpFlow(traffic, port, directory, spawn, socket_in, seed)
    if isinstance(traffic, ApplicationTraffic):
        return ApplicationFlow(traffic, port, directory, spawn, net_of, seed)
    return Iperf3Flow(traffic, port, directory, spawn)


def _await(condition: Callable[[], bool], process: "subprocess.Popen[bytes]", name: str) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline or process.poll() is not None:
            raise Unsupported(f"traffic {name} was not ready within {_READY_TIMEOUT_S:g} s")
        time.sleep(0.005)


def _listens(pid: int, port: int) -> bool:
    process = Path(f"/proc/{pid}")
    if (process / "ns/net").readlink() == Path("/proc/self/ns/net").readlink():
        return False  # still on its way in: what listens there is not our process
    # Second column local address:port in hexadecimal, fourth the state; 0A is LISTEN.
    rows = [line.split() for line in (process / "net/tcp").read_text().splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def refuse_every_packet(sink: socket.socket) -> None:
    """Makes the kernel drop, and count, each packet that reaches this socket."""
    # A classic BPF program of one instruction, `ret #0`: keep no byte of any packet.
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HP", 1, ctypes.addressof(instruction))
    sink.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def packets_refused(sink: socket.socket) -> int:
    """How many packets have reached a socket that refuses them."""
    counters = sink.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 64)
    return int(struct.unpack_from("I", counters, 4 * _MEMINFO_DROPS)[0])
