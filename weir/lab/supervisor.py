"""The process that is a lab: it makes the namespaces, runs the emulator and the traffic.

`Lab.up` starts `python -m weir.lab.supervisor` and writes a `Launch` to its standard input. The
answer on its standard output is one line of JSON: the lab's name, or why it could not come up.
Whoever has that says so (`TAKEN`); one who is gone before, by Ctrl-C, has no lab left behind.
From then on it serves requests on the socket `control` in the lab's directory, one JSON line
each way, until it is asked to go down, gets SIGTERM, or (unless detached) standard input closes,
which is how it learns that the process it was made for has died.
"""

import json
import os
import pickle
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from weir._core import Emulator
from weir.errors import BadInput, Unsupported, WeirError
from weir.lab import controls, rundir, wiring
from weir.lab.addressing import plan
from weir.lab.asking import Asker, Askers
from weir.lab.launch import TAKEN, Launch
from weir.lab.namespaces import Builder, Room, enter, node_sysctls
from weir.lab.scenario import Wlan
from weir.lab.switches import Switches, relaying
from weir.lab.traffic import Flow, accepting_host, make_flow

_SAMPLE_S = 1.0
# A datapath opens the socket that it sends by with its first packet: that is looked for so often,
# for so long after traffic has begun.
_LOOK_S, _LOOKING_S = 0.02, 1.0


class Supervisor:
    """A lab that is up. Building one makes everything; an error leaves nothing behind.

    Attributes:
        name: the name it got.
        control: the listening socket that requests come in by.
    """

    def __init__(self, launch: Launch) -> None:
        self._scenario = launch.scenario
        self._claim = _claim(launch)
        self.name = self._claim.name
        self._log = (self._claim.path / "log").open("ab")
        self._flows: list[Flow] = []
        self._looking_until_s = 0.0
        self._emulator: Emulator | None = None
        self._given = controls.Given()
        self._rooms: dict[str, Room] = {}
        self._user: int | None = None
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        self._up_s = time.monotonic()
        first = (self._up_s, {link["name"]: link for link in self._emulator_stats()["links"]})
        self._samples = (first, first)

    def _build(self) -> None:
        names = {name: self._given.give(name) for name in controls.lacking(self._scenario)}
        self._scenario = controls.renamed(self._scenario, names)
        self._plan = plan(self._scenario)
        self._identity = secrets.token_hex(8)
        hosts = self._claim.hosts_path(self._identity)
        hosts.write_text(self._plan.hosts_file())
        # Before this process leaves the machine's network, where the controller is.
        controller = relaying.open_way(self._scenario.switching.controller, self._claim.path)
        builder = Builder(hosts)
        self._user = builder.user
        self._rooms = {
            node.name: builder.room(
                node.name,
                node_sysctls(
                    node.forwards and not node.switch,
                    node.ecn,
                    self._scenario.ipv6 and not node.switch,
                ),
            )
            for node in self._scenario.nodes
        }
        self._own_net = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        config = wiring.emulator_config(self._scenario, self._plan, self._rooms, os.getpid())
        self._emulator = Emulator(config)
        self._emulator.start()
        wiring.configure(self._scenario, self._plan, self._rooms, os.getpid())
        self._switches = Switches(self._scenario, self._plan, self._claim.path, self._spawn)
        self._switches.start(controller)
        self._prepare_traffic()
        self.control = self._listen()
        self._write_state()

    def _listen(self) -> socket.socket:
        path = self._claim.path / "control"
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            control.bind(str(path))
        except OSError as error:
            control.close()
            raise BadInput(
                f"{path}: {error}; set WEIR_RUNTIME_DIR to another, shorter path"
            ) from None
        control.listen()
        return control

    def _prepare_traffic(self) -> None:
        directory = self._claim.path / "traffic"
        directory.mkdir()
        for index, traffic in enumerate(self._scenario.traffic):
            seed = self._scenario.seed
            flow = make_flow(
                traffic, index, directory, self._spawn, self._socket_in, self._net_of, seed
            )
            flow.prepare(self._plan.addresses[accepting_host(traffic)])
            self._flows.append(flow)
        for flow in self._flows:
            flow.await_ready()

    def _spawn(self, node: str, argv: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
        # setpriv runs after nsenter, whose change of user namespace would clear the signal.
        guarded = ["setpriv", "--pdeathsig", "KILL", "--", *argv]
        command = self._rooms[node].command(os.getpid(), guarded, "/")
        streams = {"stdin": subprocess.DEVNULL, "stderr": self._log, **options}
        return subprocess.Popen(command, **streams)

    def _socket_in(self, node: str) -> socket.socket:
        enter(self._rooms[node].net)
        try:
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        finally:
            enter(self._own_net)

    def _net_of(self, node: str) -> str:
        return f"/proc/{os.getpid()}/fd/{self._rooms[node].net}"

    def _write_state(self) -> None:
        state = {
            "name": self.name,
            "pid": os.getpid(),
            "id": self._identity,
            "nodes": {
                node.name: {
                    "address": self._plan.addresses.get(node.name),
                    "address6": self._plan.addresses6.get(node.name),
                    "kind": "switch" if node.switch else "router" if node.forwards else "host",
                    "room": replace(self._rooms[node.name], user=self._user).to_json(),
                }
                for node in self._scenario.nodes
            },
            "links": {
                name: [asdict(port) for port in pair] for name, pair in self._plan.ports.items()
            },
            "switches": [bridge.to_json() for bridge in self._switches.bridges],
        }
        partial = self._claim.path / "state.json.partial"
        partial.write_text(json.dumps(state))
        partial.rename(self._claim.path / "state.json")

    def run_traffic(self) -> float | None:
        """Starts and stops what is due; returns when it should be called again (monotonic)."""
        now_s = time.monotonic()
        due: list[float] = []
        for flow in self._flows:
            flow.poll()
            start_s = self._up_s + flow.traffic.start.ns / 1e9
            if flow.state == "waiting":
                if start_s > now_s:
                    due.append(start_s)
                    continue
                flow.start(start_s)
                self._looking_until_s = now_s + _LOOKING_S
            stop_s = flow.stop_s(self._up_s)
            if flow.state == "running" and stop_s is not None:
                if stop_s > now_s:
                    due.append(stop_s)
                else:
                    flow.stop()
        if now_s < self._looking_until_s and not self._switches.tend(is_quick=True):
            due.append(now_s + _LOOK_S)
        return min(due, default=None)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request."""
        if request.get("do") == "status":
            return self.status()
        if request.get("do") == "restart":
            self._switches.restart(request["switch"])
            return {}
        if request.get("do") == "carrier":
            assert self._emulator, "a lab that is up has one"
            self._emulator.set_carrier(request["link"], request["carrier"])
            return {}
        raise BadInput(f"unknown request {request}")

    def status(self) -> dict[str, Any]:
        """What `weir lab status --json` prints."""
        emulator = self._emulator_stats()
        return {
            "name": self.name,
            "up_s": round(time.monotonic() - self._up_s, 3),
            "addresses": dict(self._plan.addresses),
            "links": [self._link_status(link) for link in emulator["links"]],
            "headroom": emulator["headroom"],
            "switches": self._switches.status(),
            "traffic": [flow.report() for flow in self._flows],
        }

    def sample(self) -> None:
        """Notes the counters, from which `status` tells the rates of the last second or so."""
        self._switches.tend()
        counters = {link["name"]: link for link in self._emulator_stats()["links"]}
        self._samples = (self._samples[-1], (time.monotonic(), counters))

    def _emulator_stats(self) -> dict[str, Any]:
        assert self._emulator, "a lab that is up has one"
        stats: dict[str, Any] = json.loads(self._emulator.stats())
        return stats

    def _link_status(self, counters: dict[str, Any]) -> dict[str, Any]:
        name = counters["name"]
        link = next(link for link in self._scenario.links if link.name == name)
        (old_s, old), (new_s, new) = self._samples
        for way, direction, ends in (
            ("forward", link.forward, link.ends),
            ("backward", link.backward, link.ends[::-1]),
        ):
            sent = new[name][way]["bytes_out"] - old[name][way]["bytes_out"]
            counters[way] |= {
                "from": ends[0],
                "to": ends[1],
                "rate_bps": direction.rate.bit_per_s if direction.rate else None,
                "delay_ns": direction.delay.ns,
                "discipline": direction.queue.discipline if direction.rate else None,
                "rate_now_bps": round(sent * 8 / (new_s - old_s)) if new_s > old_s else 0,
            }
        counters["channel"] = link.medium.channel if isinstance(link.medium, Wlan) else None
        return counters

    def log_errors(self) -> None:
        """Sends whatever goes wrong from now on to the lab's log, not to whoever asked for it."""
        os.dup2(self._log.fileno(), sys.stderr.fileno())

    def close(self) -> None:
        """Ends every process inside and the emulator; gives the name back."""
        for room in self._rooms.values():
            room.close()
        if self._user is not None:
            os.close(self._user)
        self._claim.clear()
        if self._emulator:
            self._emulator.stop()
        self._given.close()
        self._log.close()
        self._claim.release()


def _claim(launch: Launch) -> rundir.Claim:
    rundir.sweep()
    if not launch.exact:
        return rundir.claim_free(launch.name)
    taken = rundir.claim(launch.name)
    if taken is None:
        up = rundir.is_there(launch.name)
        what = f"a lab called {launch.name} is already up" if up else rundir.in_the_way(launch.name)
        raise BadInput(f"{what}; choose another --name")
    return taken


def serve(supervisor: Supervisor, detached: bool) -> None:
    """Runs the lab until it is to go down."""
    wake, waker = os.pipe()
    for descriptor in (wake, waker):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    control = supervisor.control
    with selectors.DefaultSelector() as selector:
        askers = Askers(selector, lambda line: _answer(supervisor, line, ended))
        selector.register(control, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        if not detached:
            selector.register(0, selectors.EVENT_READ)
        sample_s = time.monotonic() + _SAMPLE_S
        while not ended.is_set():
            now_s = time.monotonic()
            if now_s >= sample_s:
                supervisor.sample()
                sample_s = now_s + _SAMPLE_S
            next_s = min(sample_s, supervisor.run_traffic() or sample_s)
            wait_s = max(0.0, next_s - time.monotonic())
            for key, _ in selector.select(wait_s):
                if key.fileobj is control:
                    askers.accept(control)
                elif key.fd == wake:
                    os.read(wake, 4096)
                elif isinstance(key.data, Asker):
                    askers.hear(key.data)
                else:
                    ended.set()
            askers.cut_off()


def _answer(supervisor: Supervisor, line: bytes, ended: threading.Event) -> dict[str, Any] | None:
    """The reply to a request; nothing once the lab is to go down: its end is the answer."""
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            raise BadInput("a request is a JSON object")
        if request.get("do") == "down":
            ended.set()
            return None
        return supervisor.answer(request)
    except (OSError, ValueError, LookupError, TypeError, RecursionError, WeirError) as error:
        return {"error": str(error)}


def main() -> int:
    """Takes the launch from standard input, brings the lab up, answers, serves, goes down."""
    launch: Launch = pickle.load(sys.stdin.buffer)
    if launch.detached and os.fork():
        os._exit(0)  # the lab is nobody's child, so that nobody has to wait for it
    try:
        supervisor = Supervisor(launch)
    except WeirError as error:
        _is_told({"error": str(error), "kind": type(error).__name__})
        return error.exit_code
    except OSError as error:
        why = f"the lab could not be made: {error}"
        _is_told({"error": why, "kind": Unsupported.__name__})
        return Unsupported.exit_code
    try:
        if _is_told({"name": supervisor.name}):
            _let_go()
            supervisor.log_errors()
            serve(supervisor, launch.detached)
    finally:
        supervisor.close()
    return 0


def _is_told(line: dict[str, Any]) -> bool:
    """Answers whoever asked for the lab; whether they are there and have the answer."""
    try:
        os.write(sys.stdout.fileno(), json.dumps(line).encode() + b"\n")
    except BrokenPipeError:
        return False
    return bool(sys.stdin.buffer.readline() == TAKEN)


def _let_go() -> None:
    """Lets go of the pipe to whoever asked for the lab."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
