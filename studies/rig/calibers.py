"""Calibers as built (000-spec section 4.2): calendar, controller and agents over OpenFlow switches.

A lab of any network: a switch for each node, with a host that has an agent, and one more host with
the calendar and the controller. The controller shapes what enters at a transfer's first switch, the
source's agent paces it, and the switches' counters tell what was carried of each promise.
"""

import contextlib
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from studies.rig.processes import Processes, module_command, weir_command
from weir.calendar.client import TOKEN_VARIABLE, URL_VARIABLE, CalendarClient, RefusedTransfer
from weir.calendar.rest.tokens import TokenFile
from weir.errors import Unavailable
from weir.lab import Lab, Scenario, load, parse
from weir.shipped import scenario

SHARE = 0.9
"""What the calendar may promise of a link's rate, as packets."""
_PORT, _DATA_PORT = 8470, 7411
_CENTRE = "centre"
_OVER = ("completed", "failed", "cancelled")
_GRACE_S = 60.0
"""How long after the last deadline transfers may still go on before the run is given up."""
_LOOK_S = 0.5
_ANSWER_S = 1.0
"""Later than this, and the machine has too much to do for promises of a few seconds."""
_PATIENCE_S = 60.0
"""An answer on a machine that is busy; a request is as late as it was asked for."""

Client = Callable[[], CalendarClient]


@dataclass(frozen=True)
class Request:
    """A transfer that is asked for so long after the first moment, between two nodes."""

    at_s: float
    source: str
    destination: str
    size_bytes: int
    within_s: float


def host(node: str) -> str:
    """The host at a node's switch."""
    return f"h-{node}".lower()


def _switch(node: str) -> str:
    return f"s-{node}".lower()


def lab_of(network: Mapping[str, Any]) -> Scenario:
    """The lab of a network in the simulator's form, its links with their rates both ways.

    Ports have the classes of the scenario `promise`: promises first, then all others.
    """
    lines = ["[lab]", 'name = "calibers"', "[hosts]", f"{_CENTRE} = {{}}"]
    lines += [f'"{host(node)}" = {{}}' for node in network["nodes"]]
    lines.append("[routers]")
    lines += [f'"{_switch(node)}" = {{ kind = "switch" }}' for node in network["nodes"]]
    fastest = max(link["capacity_bps"] for link in network["links"])
    for link in network["links"]:
        if link["from"] < link["to"]:
            lines += _link(_switch(link["from"]), _switch(link["to"]), link["capacity_bps"], "2 ms")
    for node in network["nodes"]:
        # Ends are no bottleneck (000-spec section 4.2).
        lines += _link(host(node), _switch(node), 5 * fastest, "0 ms")
    lines += _link(_CENTRE, _switch(network["nodes"][0]), 5 * fastest, "0 ms")
    parsed = parse("\n".join(lines), "the network of a calendar")
    return _with_classes(parsed)


def _link(first: str, second: str, rate_bps: int, delay: str) -> list[str]:
    return [
        "[[link]]",
        f'ends = ["{first}", "{second}"]',
        f'rate = "{rate_bps} bit/s"',
        f'delay = "{delay}"',
        'queue = { limit = "200 ms" }',
    ]


def _with_classes(parsed: Scenario) -> Scenario:
    return replace(parsed, switching=load(scenario("promise")).switching)


def carry_out(
    network: Mapping[str, Any], policy: str, epoch_s: float, requests: Sequence[Request]
) -> dict[str, Any]:
    """Asks for all of them at their times, waits until what was admitted is over.

    Returns:
        `transfers`: for each request `admitted`, `on_time`, `size_bytes`, and of those admitted
        `promised_bytes` and `carried_bytes`, on the wire by the switches' counters; `seconds`;
        `carried_bytes` by directed link between switches; `flaws`.

    Raises:
        Unsupported: this machine has no labs or no switches.
        Unavailable: a program ended early, or transfers did not end.
    """
    with tempfile.TemporaryDirectory(prefix="weir-") as scratch:
        folder = Path(scratch)
        where = f"unix:{folder}/c"
        with Lab.up(lab_of(network), controller=where) as lab:
            with _running(lab, network, folder, policy, epoch_s, where) as client:
                before = _counts(lab, network)
                found = _asked(client, folder, requests)
            after = _counts(lab, network)
            found["carried_bytes"] = {name: after[name] - before[name] for name in after}
            found["flaws"] += _flaws(lab.status())
    return found


@contextlib.contextmanager
def _running(
    lab: Lab,
    network: Mapping[str, Any],
    folder: Path,
    policy: str,
    epoch_s: float,
    where: str,
) -> Iterator[CalendarClient]:
    """Calendar, controller and agents, until the end; a client once all of them are there."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        (folder / "network.json").write_text(json.dumps(lab.network(SHARE)))
        tokens = TokenFile(folder / "tokens.json")
        token = tokens.create("study", "admin")
        processes = stack.enter_context(Processes(lab, folder / "logs"))
        environment = os.environ | {
            URL_VARIABLE: f"http://{lab.address(_CENTRE)}:{_PORT}",
            TOKEN_VARIABLE: token,
        }
        _start_centre(processes, lab, folder, policy, epoch_s, where, environment)
        relay = (str(listener.fileno()), lab.address(_CENTRE), str(_PORT))
        command = module_command("studies.rig.relay", *relay)
        processes.start("relay", _CENTRE, command, pass_fds=[listener.fileno()])
        for node in network["nodes"]:
            _start_agent(processes, lab, folder, host(node), environment)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        client = stack.enter_context(CalendarClient(url, token, _PATIENCE_S))
        hosts = {host(node) for node in network["nodes"]}
        processes.wait_until("the calendar and its agents", lambda: _has(client, hosts), 180.0)
        for node in network["nodes"]:
            # What no switch obeys is neither held nor counted.
            said = f"switch {_switch(node)} is connected"
            processes.wait_until_said("controller", _CENTRE, said)
        yield client


def _start_centre(
    processes: Processes,
    lab: Lab,
    folder: Path,
    policy: str,
    epoch_s: float,
    where: str,
    environment: Mapping[str, str],
) -> None:
    file = folder / "network.json"
    processes.start(
        "calendar",
        _CENTRE,
        weir_command(
            *("calendar", "serve", "--network", file, "--tokens", folder / "tokens.json"),
            *("--store", f"sqlite:///{folder}/calendar.db", "--policy", policy),
            *("--listen", f"{lab.address(_CENTRE)}:{_PORT}"),
            *("--epoch", f"{round(1e9 * epoch_s)} ns", "--offer", "1 s", "--hold", "0 s"),
        ),
    )
    command = weir_command("control", "serve", "--network", file, "--listen", where)
    processes.start("controller", _CENTRE, command, env=environment)


def _start_agent(
    processes: Processes, lab: Lab, folder: Path, name: str, environment: Mapping[str, str]
) -> None:
    root = folder / name
    root.mkdir()
    address = f"{lab.address(name)}:{_DATA_PORT}"
    files = ("--root", root, "--insecure", "--data-listen", address)
    command = weir_command("agent", "--host", name, *files)
    processes.start("agent", name, command, env=environment)


def _has(client: CalendarClient, hosts: set[str]) -> bool:
    """Whether the calendar answers and hears an agent on every host."""
    try:
        nodes = client.network()["nodes"]
    except Unavailable:
        return False
    return hosts <= {node["name"] for node in nodes if node["agent"] == "alive"}


def _asked(client: CalendarClient, folder: Path, requests: Sequence[Request]) -> dict[str, Any]:
    for at, one in enumerate(requests):
        _fill(folder / host(one.source) / f"file-{at}", one.size_bytes)
    begin_s, slowest_s, admitted = time.monotonic(), 0.0, {}
    for at, one in enumerate(requests):
        time.sleep(max(0.0, begin_s + one.at_s - time.monotonic()))
        with contextlib.suppress(RefusedTransfer):
            admitted[at] = _submit(client, at, one)
        # A request is late, too, because the one before it was not answered.
        slowest_s = max(slowest_s, time.monotonic() - begin_s - one.at_s)
    last_s = max(one.at_s + one.within_s for one in requests)
    views = _ended(client, [*admitted.values()], begin_s + last_s + _GRACE_S)
    seconds = time.monotonic() - begin_s
    transfers = []
    for at, one in enumerate(requests):
        seen: dict[str, Any] = {
            "admitted": at in admitted,
            "on_time": False,
            "size_bytes": one.size_bytes,
        }
        if at in admitted:
            view = views[admitted[at]]
            seen["on_time"] = bool(view["on_time"])
            promise = view["promise"] or {}
            seen |= {x: promise.get(x) for x in ("promised_bytes", "carried_bytes")}
        transfers.append(seen)
    flaws = ["the calendar was late to answer"] if slowest_s > _ANSWER_S else []
    return {"transfers": transfers, "seconds": seconds, "flaws": flaws}


def _fill(path: Path, size_bytes: int) -> None:
    """A file of that size; zeros would not be sent, as there are none on the disk."""
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        for at in range(0, size_bytes, len(block)):
            file.write(block[: size_bytes - at])


def _submit(client: CalendarClient, at: int, one: Request) -> str:
    answer = client.submit(
        {
            "source": host(one.source),
            "source_path": f"file-{at}",
            "destination": host(one.destination),
            "destination_path": f"came-{at}",
            "size_bytes": one.size_bytes,
            "deadline_s": one.within_s,
        }
    )
    return str(answer["id"])


def _ended(client: CalendarClient, ids: Sequence[str], end_s: float) -> dict[str, dict[str, Any]]:
    """The views of these transfers when all are over."""
    views: dict[str, dict[str, Any]] = {}
    while True:
        for identifier in ids:
            if identifier not in views or views[identifier]["state"] not in _OVER:
                views[identifier] = client.show(identifier)
        if all(view["state"] in _OVER for view in views.values()):
            return views
        if time.monotonic() > end_s:
            left = [x for x, view in views.items() if view["state"] not in _OVER]
            raise Unavailable(f"{len(left)} transfers are not over: {left}")
        time.sleep(_LOOK_S)


def _counts(lab: Lab, network: Mapping[str, Any]) -> dict[str, int]:
    """What each direction of a link between switches has carried, in bytes."""
    counts: dict[str, int] = {}
    nodes = {_switch(node): node for node in network["nodes"]}
    for link in lab.status()["links"]:
        for way in ("forward", "backward"):
            ends = [nodes.get(link[way][end]) for end in ("from", "to")]
            if None not in ends:
                counts["-".join(map(str, ends))] = link[way]["bytes_out"]
    return counts


def _flaws(status: Mapping[str, Any]) -> Iterator[str]:
    """Why the lab should not be believed."""
    if status["headroom"]["bottleneck"]:
        yield "the emulator was late"
    if any(one["dropped"] for one in status["switches"]):
        yield "a switch was too slow"
