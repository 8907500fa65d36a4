"""The cast of the plain half: a server at each destination, an unpaced sender at each source."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from studies.demonstration.by_itself import PlainCarrier
from studies.demonstration.paths import RunPaths
from studies.rig.processes import Processes, module_command, weir_command

_PORT = 7400


@contextmanager
def plain_carrier(paths: RunPaths) -> Iterator[PlainCarrier]:
    """Starts servers and senders; ends them on leaving."""
    with Processes(paths.lab, paths.folder / "logs") as processes:
        for host in paths.destinations:
            _start_server(processes, paths, host)
        senders = {host: _start_sender(processes, paths, host) for host in paths.sources}
        for host in paths.destinations:
            processes.wait_until_said("server", host, "listening on")

        def route(id: str) -> tuple[Path, str]:
            transfer = paths.transfer(id)
            address = paths.lab.address(transfer.destination)
            return paths.outgoing(transfer), f"{address}:{_PORT}/plain/{id}.bin"

        yield PlainCarrier(senders, route)


def _start_server(processes: Processes, paths: RunPaths, host: str) -> None:
    root = paths.root(host)
    (root / "plain").mkdir(parents=True, exist_ok=True)
    listen = f"{paths.lab.address(host)}:{_PORT}"
    processes.start(
        "server",
        host,
        weir_command("serve", "--root", root, "--listen", listen, "--keys", paths.keys),
    )


def _start_sender(processes: Processes, paths: RunPaths, host: str) -> "subprocess.Popen[str]":
    arguments = ("--keys", paths.keys, "--congestion", paths.plan.congestion)
    command = module_command("studies.demonstration.plain_sender", *arguments)
    pipe = subprocess.PIPE
    return processes.start("sender", host, command, stdin=pipe, stdout=pipe, text=True)
