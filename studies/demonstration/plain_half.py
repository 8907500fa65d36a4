"""The cast of the plain half: a server at each destination, an unpaced sender at each source."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from studies.demonstration.by_itself import PlainCarrier
from studies.demonstration.paths import Stage
from studies.rig.processes import Processes, module_command, weir_command

_PORT = 7400


@contextmanager
def plain_carrier(stage: Stage) -> Iterator[PlainCarrier]:
    """Starts servers and senders; ends them on leaving."""
    with Processes(stage.lab, stage.folder / "logs") as processes:
        for host in stage.destinations:
            _start_server(processes, stage, host)
        senders = {host: _start_sender(processes, stage, host) for host in stage.sources}
        for host in stage.destinations:
            processes.wait_until_said("server", host, "listening on")

        def route(id: str) -> tuple[Path, str]:
            transfer = stage.transfer(id)
            address = stage.lab.address(transfer.destination)
            return stage.outgoing(transfer), f"{address}:{_PORT}/plain/{id}.bin"

        yield PlainCarrier(senders, route)


def _start_server(processes: Processes, stage: Stage, host: str) -> None:
    root = stage.root(host)
    (root / "plain").mkdir(parents=True, exist_ok=True)
    listen = f"{stage.lab.address(host)}:{_PORT}"
    processes.start(
        "server",
        host,
        weir_command("serve", "--root", root, "--listen", listen, "--keys", stage.keys),
    )


def _start_sender(processes: Processes, stage: Stage, host: str) -> "subprocess.Popen[str]":
    arguments = ("--keys", stage.keys, "--congestion", stage.plan.congestion)
    command = module_command("studies.demonstration.plain_sender", *arguments)
    pipe = subprocess.PIPE
    return processes.start("sender", host, command, stdin=pipe, stdout=pipe, text=True)
