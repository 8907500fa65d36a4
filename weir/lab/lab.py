"""A lab in a person's or a program's hands: bring it up, run things inside, look, take it down."""

import contextlib
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from weir import errors, python
from weir.errors import BadInput, Unavailable, WeirError
from weir.lab import ending, rundir
from weir.lab.addressing import Port
from weir.lab.launch import TAKEN, Launch
from weir.lab.media import require_live
from weir.lab.namespaces import Room
from weir.lab.reading import load, read_name
from weir.lab.scenario import Scenario
from weir.lab.switches.bridge import Bridge
from weir.lab.switching import read_controller
from weir.run_folder import run_folder

_UP_TIMEOUT_S = 60.0
_REPLY_TIMEOUT_S = 10.0
_DOWN_TIMEOUT_S = 15.0
_LOOK_S = 0.2


class Lab:
    """A lab that is up. Make one with `Lab.up` or `Lab.attach`.

    As a context manager it goes down at the end of the block.

    Attributes:
        name: what `weir lab --lab` calls it.
        hosts: the names of its hosts.
        routers: the names of its routers; `switches` tells of those.
        links: the two ends of every link by the link's name; the first end sends forward.
        directory: where the lab keeps its state, its log and its traffic's results while up.
    """

    def __init__(
        self, directory: Path, supervisor: "subprocess.Popen[bytes] | None" = None
    ) -> None:
        self.directory = directory
        self.name = directory.name
        self._supervisor = supervisor
        state = _state(directory)
        self._pid: int = state["pid"]
        self._identity: str = state["id"]
        self._nodes: dict[str, Any] = state["nodes"]
        self.hosts, self.routers = (
            [name for name, node in self._nodes.items() if node["kind"] == kind]
            for kind in ("host", "router")
        )
        bridges = [Bridge.from_json(bridge) for bridge in state["switches"]]
        self._switches = {bridge.name: bridge for bridge in bridges}
        self.links: dict[str, tuple[Port, Port]] = {
            name: (Port(**first), Port(**second))
            for name, (first, second) in state["links"].items()
        }

    @classmethod
    def up(
        cls,
        scenario: Scenario | str | Path,
        *,
        name: str | None = None,
        detached: bool = False,
        controller: str | None = None,
    ) -> Self:
        """Brings a lab up.

        Args:
            scenario: a scenario, or the path of its file.
            name: the lab's name, which must be free; by default the scenario's, with a number
                behind it when that lab is up already.
            detached: whether the lab outlives this process. Otherwise it goes down with it,
                however this process ends.
            controller: where the controller of its switches listens, instead of what the scenario
                says: `HOST:PORT` or `unix:PATH`.

        Raises:
            BadInput: the scenario is wrong or for the simulator only, or the name is taken.
            Unsupported: this machine or user cannot have such a lab.
            Unavailable: this process is ending (`weir.lab.ending`).
        """
        if not isinstance(scenario, Scenario):
            scenario = load(scenario)
        require_live(scenario)
        if controller is not None:
            scenario = _controlled(scenario, read_controller(controller))
        called = scenario.name if name is None else read_name(name)
        launch = Launch(scenario, called, name is not None, detached)
        supervisor = subprocess.Popen(
            python.program("weir.lab.supervisor"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            answer = _answer(supervisor, pickle.dumps(launch))
        except BaseException:  # Ctrl-C, most likely
            _abandon(supervisor)
            raise
        if detached or "error" in answer:
            _reap(supervisor)
        if "error" in answer:
            raise getattr(errors, answer["kind"])(answer["error"])
        lab = cls(run_folder() / answer["name"], None if detached else supervisor)
        if not detached:
            ending.enrol(lab)
        return lab

    @classmethod
    def attach(cls, name: str | None = None) -> Self:
        """A lab that is up already: `name`, or the only one.

        Raises:
            BadInput: there is no such lab, or several and no name was given.
        """
        live = rundir.live()
        if name is None and len(live) != 1:
            raise BadInput(f"{_are_up(live)}; choose one with --lab" if live else _are_up(live))
        if name is not None and name not in live:
            raise BadInput(f"no lab called {name} is up; {_are_up(live)}")
        return cls(run_folder() / (name or live[0]))

    def command(self, node: str, argv: Sequence[str | os.PathLike[str]]) -> list[str]:
        """The command line that runs `argv` inside `node`, in the caller's working directory.

        The command replaces itself by `argv`: process id, signals and exit code are `argv`'s own.

        Raises:
            BadInput: the lab has no such node, or the working directory has been removed.
        """
        room = Room(**self._node(node)["room"])
        return room.command(self._pid, [os.fspath(item) for item in argv], _here())

    def run(
        self,
        node: str,
        argv: Sequence[str | os.PathLike[str]],
        *,
        check: bool = True,
        **options: Any,
    ) -> "subprocess.CompletedProcess[Any]":
        """Runs `argv` inside `node` to its end; `options` are those of `subprocess.run`."""
        return subprocess.run(self.command(node, argv), check=check, **options)

    def popen(
        self, node: str, argv: Sequence[str | os.PathLike[str]], **options: Any
    ) -> "subprocess.Popen[Any]":
        """Starts `argv` inside `node`; it is killed when the lab goes down."""
        return subprocess.Popen(self.command(node, argv), **options)

    def address(self, node: str) -> str:
        """The address of `node`, the same on all its links.

        Raises:
            BadInput: there is no such node, or it is a switch, which has none.
        """
        if node in self._switches:
            raise BadInput(f"{node} is a switch of lab {self.name}, and has no address")
        return str(self._node(node)["address"])

    def address6(self, node: str) -> str | None:
        """The IPv6 address of `node`, if it has one; BadInput when there is no such node."""
        address: str | None = self._node(node).get("address6")
        return address

    def switches(self) -> dict[str, Bridge]:
        """Its switches by name: datapath, port numbers and neighbours, sockets."""
        return dict(self._switches)

    def device(self, node: str, link: str) -> str:
        """The network device by which `node` sends into `link`.

        Raises:
            BadInput: there is no such link, or it does not end at `node`.
        """
        if link not in self.links:
            raise BadInput(f"{link} is not a link of lab {self.name}: {', '.join(self.links)}")
        for port in self.links[link]:
            if port.node == node:
                return port.device
        ends = " and ".join(port.node for port in self.links[link])
        raise BadInput(f"link {link} joins {ends}, not {node}")

    def status(self) -> dict[str, Any]:
        """Links with their counters, the emulator's head-room, traffic: as `status --json`.

        Raises:
            Unavailable: the lab has gone down.
        """
        return self._request({"do": "status"})

    def network(self, share: float = 1.0) -> dict[str, Any]:
        """Its nodes and links as a calendar's network file has them (docs/calendar.md).

        Args:
            share: of each link's rate that is the calendar's.

        Raises:
            BadInput: a share that is not one; a link has no rate of its own.
            Unavailable: the lab has gone down.
        """
        if not 0 < share <= 1:
            raise BadInput(f"a share of {share:g}: more than 0, at most 1")
        nodes = {name: {"address": self.address(name)} for name in (*self.hosts, *self.routers)}
        for name, node in nodes.items():
            node |= {"address6": sixth} if (sixth := self.address6(name)) else {}
        nodes |= {name: {"datapath": one.datapath_id} for name, one in self._switches.items()}
        links = [link for one in self.status()["links"] for link in self._directions(one, share)]
        return {"nodes": nodes, "links": links}

    def _directions(self, link: dict[str, Any], share: float) -> Iterator[dict[str, Any]]:
        """A link as one entry, or as two where its directions differ."""
        forward, backward = link["forward"], link["backward"]
        if link["channel"] is not None:
            raise BadInput(
                f"link {link['name']} shares channel {link['channel']}, so nothing of it can be "
                f"promised"
            )
        if forward["rate_bps"] is None or backward["rate_bps"] is None:
            raise BadInput(f"link {link['name']} has no rate, so nothing of it can be promised")
        # A host's port is its own affair.
        ports = [
            port.device if port.node in self._switches else "" for port in self.links[link["name"]]
        ]
        ends = [forward["from"], forward["to"]]
        capacities = [int(one["rate_bps"] * share) for one in (forward, backward)]
        if capacities[0] == capacities[1]:
            joined = {"name": link["name"], "ends": ends, "capacity_bps": capacities[0]}
            yield joined | ({"ports": ports} if any(ports) else {})
            return
        for way, capacity in zip(("forward", "backward"), capacities, strict=True):
            one = {"name": f"{link['name']}.{way}", "from": ends[0], "to": ends[1]}
            yield one | {"capacity_bps": capacity} | ({"ports": ports} if any(ports) else {})
            ends, ports = ends[::-1], ports[::-1]

    def restart(self, switch: str) -> None:
        """Kills the daemons of a switch and starts new ones, as after a loss of power.

        Its rules are lost, but where no controller gives them; its ports' classes stay.

        Raises:
            BadInput: the lab has no such switch.
            Unavailable: the lab has gone down.
        """
        if switch not in self._switches:
            names = ", ".join(self._switches) or "none"
            raise BadInput(f"{switch} is not a switch of lab {self.name}; its switches are {names}")
        self._request({"do": "restart", "switch": switch})

    def cut(self, link: str) -> None:
        """Cuts the cable of a link: its devices lose their carrier, what is under way is lost.

        A wireless one has none: its station leaves, or loses sight of the other one.

        Raises:
            BadInput: the lab has no such link.
            Unavailable: the lab has gone down.
        """
        self._set_carrier(link, False)

    def mend(self, link: str) -> None:
        """Puts the cable of a link in again; raises as `cut` does."""
        self._set_carrier(link, True)

    def _set_carrier(self, link: str, carrier: bool) -> None:
        if link not in self.links:
            raise BadInput(f"{link} is not a link of lab {self.name}: {', '.join(self.links)}")
        self._request({"do": "carrier", "link": link, "carrier": carrier})

    def finish(self) -> dict[str, Any]:
        """Waits until all of its traffic has ended or failed; the status then.

        Raises:
            Unavailable: the lab has gone down.
        """
        status = self.status()
        while not all(flow["state"] in ("done", "failed") for flow in status["traffic"]):
            time.sleep(_LOOK_S)
            status = self.status()
        return status

    def requests(self, traffic: str) -> list[tuple[int, int, int]]:
        """Each request of web load that was answered; of a traffic with a stop that has ended.

        Returns:
            When it began after the traffic's start, in ns; the size of its object in bytes; how
            long it took, in ns.
        """
        results = self.directory / "traffic" / f"{traffic}.json"
        answered = json.loads(results.read_text().splitlines()[-1]).get("requests", [])
        return [(begun, size, took) for begun, size, took in answered]

    def down(self) -> None:
        """Ends everything inside and takes the lab down; nothing is left. Twice is once."""
        # Not answering, it is down or dying already, and what is left is cleared below.
        with contextlib.suppress(Unavailable):
            self._request({"do": "down"})
        if self._supervisor:
            _reap(self._supervisor)
        if not rundir.wait_until_dead(self.name, _DOWN_TIMEOUT_S, self._identity):
            # The lock shows that the process is alive and so that the number is still its own.
            os.kill(self._pid, signal.SIGKILL)
            rundir.wait_until_dead(self.name, _DOWN_TIMEOUT_S, self._identity)

    def _node(self, name: str) -> dict[str, Any]:
        if name not in self._nodes:
            nodes = ", ".join(self._nodes)
            raise BadInput(f"{name} is not a node of lab {self.name}; its nodes are {nodes}")
        node: dict[str, Any] = self._nodes[name]
        return node

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        if not rundir.is_there(self.name, self._identity):
            raise Unavailable(f"lab {self.name} is down")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
                control.settimeout(_REPLY_TIMEOUT_S)
                control.connect(str(self.directory / "control"))
                with control.makefile("rw") as lines:
                    lines.write(json.dumps(request) + "\n")
                    lines.flush()
                    line = lines.readline()
        except OSError as error:
            raise Unavailable(f"lab {self.name} does not answer: {error}") from None
        if not line.endswith("\n"):
            raise Unavailable(f"lab {self.name} went down before it had answered")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise WeirError(f"lab {self.name}: {reply['error']}")
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()


def _controlled(scenario: Scenario, controller: str) -> Scenario:
    if not any(node.switch for node in scenario.nodes):
        raise BadInput(f"lab {scenario.name} has no switch that {controller} could control")
    return replace(scenario, switching=replace(scenario.switching, controller=controller))


def _answer(supervisor: "subprocess.Popen[bytes]", launch: bytes) -> dict[str, Any]:
    assert supervisor.stdin and supervisor.stdout, "both are pipes"
    ready: list[Any] = [supervisor.stdout]
    try:
        supervisor.stdin.write(launch)
        supervisor.stdin.flush()
        ready, _, _ = select.select([supervisor.stdout], [], [], _UP_TIMEOUT_S)
        line = supervisor.stdout.readline() if ready else b""
    except BrokenPipeError:
        line = b""
    if line:
        answer: dict[str, Any] = json.loads(line)
        with contextlib.suppress(BrokenPipeError):  # it could not come up, and has said so
            supervisor.stdin.write(TAKEN)
            supervisor.stdin.flush()
        return answer
    supervisor.kill()
    why = "ended without a word" if ready else f"was not ready within {_UP_TIMEOUT_S:g} s"
    return {"error": f"the lab's supervisor {why}", "kind": WeirError.__name__}


def _abandon(supervisor: "subprocess.Popen[bytes]") -> None:
    """Sees that a lab is gone for which nobody waits any more.

    Its supervisor, which may be another process by now, goes down when it cannot say that it is up,
    and holds its end of the pipe until then.
    """
    assert supervisor.stdin and supervisor.stdout, "both are pipes"
    supervisor.stdin.close()
    end_s = time.monotonic() + _DOWN_TIMEOUT_S
    while (left_s := end_s - time.monotonic()) > 0:
        ready, _, _ = select.select([supervisor.stdout], [], [], left_s)
        if not ready or not os.read(supervisor.stdout.fileno(), 4096):
            break
    _reap(supervisor)


def _reap(supervisor: "subprocess.Popen[bytes]") -> None:
    for pipe in (supervisor.stdin, supervisor.stdout):
        if pipe:
            pipe.close()
    supervisor.wait()


def _state(directory: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads((directory / "state.json").read_text())
    except (OSError, ValueError):
        raise Unavailable(f"lab {directory.name} is down or going down") from None
    return state


def _here() -> str:
    try:
        here = Path.cwd()
        here.stat()
    except OSError:
        raise BadInput("the folder that you are in is gone; change to another") from None
    return str(here)


def _are_up(names: Sequence[str]) -> str:
    if not names:
        return "no lab is up; start one with weir lab up FILE"
    return f"the labs that are up: {', '.join(names)}"
