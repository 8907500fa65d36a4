"""The cast of Weir's half: the calendar service, an agent per host, and one at the edge."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from studies.demonstration.by_calendar import CalendarCarrier
from studies.demonstration.paths import RunPaths
from studies.demonstration.report import Decision
from studies.rig.processes import Processes, module_command, weir_command
from weir.calendar.client import TOKEN_VARIABLE, URL_VARIABLE, CalendarClient
from weir.calendar.rest.tokens import TokenFile
from weir.errors import Unavailable

_PORT = 8470
_DATA_PORT = 7411

Client = Callable[[], CalendarClient]


@contextmanager
def calendar_carrier(paths: RunPaths, decisions: list[Decision]) -> Iterator[CalendarCarrier]:
    """Starts service and agents; ends them on leaving. `decisions` gets the calendar's."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        processes = stack.enter_context(Processes(paths.lab, paths.folder / "logs"))
        token, agent_tokens = _start_service(processes, paths)
        _start_relay(processes, paths, listener)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def client() -> CalendarClient:
            return CalendarClient(url, token)

        _start_agents(processes, paths, agent_tokens)
        processes.wait_until("the calendar with its agents", lambda: _is_complete(client, paths))
        yield stack.enter_context(CalendarCarrier(client, _relative(paths), decisions))


def _relative(paths: RunPaths) -> Callable[[str], tuple[str, str]]:
    def relative(id: str) -> tuple[str, str]:
        transfer = paths.transfer(id)
        source = paths.outgoing(transfer).relative_to(paths.root(transfer.source))
        there = paths.incoming("weir", transfer).relative_to(paths.root(transfer.destination))
        return str(source), str(there)

    return relative


def network(paths: RunPaths) -> dict[str, object]:
    """The network as the calendar reads it: its share of every link of the lab."""
    plan = paths.plan
    links = [
        {
            "name": link.name,
            "ends": list(link.ends),
            "capacity_bps": round(plan.calendar_share * link.forward.rate.bit_per_s),
        }
        for link in plan.lab.links
        if link.forward.rate
    ]
    return {
        "nodes": {node.name: {"address": paths.lab.address(node.name)} for node in plan.lab.nodes},
        "links": links,
    }


def _start_service(processes: Processes, paths: RunPaths) -> tuple[str, dict[str, str]]:
    """Starts it; returns the submitter's token, and one for the agent of each node."""
    folder = paths.folder / "calendar"
    folder.mkdir()
    (folder / "network.json").write_text(json.dumps(network(paths)))
    tokens = TokenFile(folder / "tokens.json")
    token = tokens.create("demonstration", "submit")
    agents = {
        host: tokens.create(f"agent on {host}", "agent", host)
        for host in (*paths.lab.hosts, *paths.lab.routers)
    }
    processes.start(
        "calendar",
        paths.plan.calendar_host,
        weir_command(
            *("calendar", "serve", "--network", folder / "network.json"),
            *("--tokens", folder / "tokens.json", "--store", f"sqlite:///{folder}/calendar.db"),
            *("--listen", f"{paths.lab.address(paths.plan.calendar_host)}:{_PORT}"),
            *("--policy", paths.plan.policy, "--epoch", f"{paths.plan.epoch.ns} ns"),
            *("--spare", "le"),
            # Who is refused here asks again at once, and the whole takes a minute.
            *("--offer", "1 s", "--hold", "0 s"),
        ),
    )
    return token, agents


def _start_relay(processes: Processes, paths: RunPaths, listener: socket.socket) -> None:
    host, descriptor = paths.plan.calendar_host, listener.fileno()
    target = (str(descriptor), paths.lab.address(host), str(_PORT))
    command = module_command("studies.rig.relay", *target)
    processes.start("relay", host, command, pass_fds=[descriptor])


def _is_complete(client: Client, paths: RunPaths) -> bool:
    """Whether the calendar answers and hears an agent on every host that it needs."""
    needed = {*paths.sources, *paths.destinations}
    try:
        with client() as asking:
            nodes = asking.network()["nodes"]
    except Unavailable:
        return False
    return needed <= {node["name"] for node in nodes if node["agent"] == "alive"}


def _start_agents(processes: Processes, paths: RunPaths, tokens: dict[str, str]) -> None:
    """On every host with files, and where rates are enforced at the bottleneck, at its near end."""
    for host in dict.fromkeys([*paths.sources, *paths.destinations]):
        address = f"{paths.lab.address(host)}:{_DATA_PORT}"
        paths.root(host).mkdir(parents=True, exist_ok=True)
        files = ("--root", paths.root(host), "--keys", paths.keys, "--data-listen", address)
        controls = ["--cca", paths.plan.congestion]
        if paths.plan.routers == "plain":
            controls += ["--spare-cca", "ledbat"]
        _start_agent(processes, paths, host, tokens[host], *files, *controls)
    if paths.plan.routers == "classes":
        _start_edge(processes, paths, tokens)


def _start_edge(processes: Processes, paths: RunPaths, tokens: dict[str, str]) -> None:
    """At the bottleneck's near end."""
    bottleneck = paths.plan.bottleneck
    rate = bottleneck.forward.rate
    assert rate is not None, "a plan's bottleneck has a rate"
    # What the calendar does not plan may take what the calendar does not own.
    others_bps = round((1 - paths.plan.calendar_share) * rate.bit_per_s)
    device = paths.lab.device(bottleneck.ends[0], bottleneck.name)
    limits = f"{device}={rate.bit_per_s} bit/s,{others_bps} bit/s"
    near = bottleneck.ends[0]
    _start_agent(processes, paths, near, tokens[near], "--edge", "--device", limits)


def _start_agent(
    processes: Processes, paths: RunPaths, host: str, token: str, *arguments: str | Path
) -> None:
    url = f"http://{paths.lab.address(paths.plan.calendar_host)}:{_PORT}"
    environment = os.environ | {URL_VARIABLE: url, TOKEN_VARIABLE: token}
    command = weir_command("agent", "--host", host, *arguments)
    processes.start("agent", host, command, env=environment)
