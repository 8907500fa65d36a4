"""The cast of the plain half: a server at each destination, an unpaced sender at each source."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from studies.demonstration.by_itself import PlainCarrier
from studies.demonstration.paths import Stage
from studies.demonstration.processes import Crew, weir_command

_PORT = 7400


@contextmanager
def plain_carrier(stage: Stage) -> Iterator[PlainCarrier]:
    """Starts servers and senders; ends them on leaving."""
    with Crew(stage.lab, stage.folder / "logs") as crew:
        for host in stage.destinations:
            _start_server(crew, stage, host)
        senders = {host: _start_sender(crew, stage, host) for host in stage.sources}
        for host in stage.destinations:
            crew.wait_until_said("server", host, "listening on")

        def route(id: str) -> tuple[Path, str]:
            transfer = stage.transfer(id)
            address = stage.lab.address(transfer.destination)
            return stage.outgoing(transfer), f"{address}:{_PORT}/plain/{id}.bin"

        yield PlainCarrier(senders, route)


def _start_server(crew: Crew, stage: Stage, host: str) -> None:
    root = stage.root(host)
    (root / "plain").mkdir(parents=True, exist_ok=True)
    listen = f"{stage.lab.address(host)}:{_PORT}"
    crew.start(
        "server",
        host,
        weir_command("serve", "--root", root, "--listen", listen, "--keys", stage.keys),
    )


def _start_sender(crew: Crew, stage: Stage, host: str) -> "subprocess.Popen[str]":
    module = [sys.executable, "-m", "studies.demonstration.plain_sender"]
    argv = [*module, "--keys", str(stage.keys), "--congestion", stage.plan.congestion]
    pipe = subprocess.PIPE
    return crew.start("sender", host, argv, stdin=pipe, stdout=pipe, text=True)
