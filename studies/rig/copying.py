"""One file from host to host of a lab, by a program with a server of its own: how long it takes."""

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from studies.rig.processes import Processes, json_lines, weir_command
from weir import kernel_controls
from weir.errors import TransferFailed, Unavailable
from weir.lab import Lab

_PORT = 7411
_STEP_S = 0.1
LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Hosts:
    """Where a file goes.

    Attributes:
        lab: of both.
        near: the host that sends.
        far: the host that receives.
        link: the name of the link between them, whose bytes are counted.
    """

    lab: Lab
    near: str
    far: str
    link: str


class Copier(Protocol):
    """A program that copies a file.

    Attributes:
        name: as people call it on a command line.
    """

    name: str

    def missing(self) -> str | None:
        """What this machine lacks for it; None if nothing."""

    def serve(self, hosts: Hosts, root: Path, folder: Path) -> Sequence[str | Path]:
        """The server's command; `root` is what arrives in, `folder` takes what it needs."""

    def send(self, hosts: Hosts, source: Path) -> Sequence[str | Path]:
        """The client's, which ends when the file has arrived under its own name."""


class WeirSend:
    """`weir send` with these options to `weir serve`, without TLS."""

    def __init__(self, *options: str, needs: str | None = None) -> None:
        self.name = " ".join(("weir send", *options))
        self._options, self._needs = options, needs

    def missing(self) -> str | None:
        """The congestion control that it needs, where the kernel does not offer it."""
        if self._needs is None or self._needs in kernel_controls.offered():
            return None
        return f"this kernel offers no {self._needs}"

    def serve(self, hosts: Hosts, root: Path, folder: Path) -> Sequence[str | Path]:
        """One root without a name."""
        del folder
        listen = f"{hosts.lab.address(hosts.far)}:{_PORT}"
        return weir_command("serve", "--root", root, "--listen", listen, "--insecure")

    def send(self, hosts: Hosts, source: Path) -> Sequence[str | Path]:
        """As a person would, but for events instead of a line."""
        place = f"{hosts.lab.address(hosts.far)}:{_PORT}/"
        return weir_command("send", source, place, "--insecure", "--json", *self._options)


class Rsync:
    """`rsync -W --inplace` to `rsync --daemon`."""

    name = "rsync"

    def missing(self) -> str | None:
        """The program, where it is not installed."""
        return None if shutil.which("rsync") else "rsync is not installed"

    def serve(self, hosts: Hosts, root: Path, folder: Path) -> Sequence[str | Path]:
        """A daemon of one module, in the foreground."""
        config = folder / "rsyncd.conf"
        config.write_text(
            f"use chroot = no\nuid = 0\ngid = 0\n[files]\npath = {root}\nread only = no\n"
        )
        listen = ("--address", hosts.lab.address(hosts.far), "--port", str(_PORT))
        return ["rsync", "--daemon", "--no-detach", f"--config={config}", *listen]

    def send(self, hosts: Hosts, source: Path) -> Sequence[str | Path]:
        """The whole file, in place, as for speed."""
        place = f"rsync://{hosts.lab.address(hosts.far)}:{_PORT}/files/"
        return ["rsync", "-W", "--inplace", str(source), place]


@dataclass(frozen=True, slots=True)
class Copied:
    """A file that was copied.

    Attributes:
        seconds: from the client's start to its end.
        events: what the client told, where it is Weir's.
    """

    seconds: float
    events: Sequence[Mapping[str, Any]]


def copy(
    copier: Copier,
    hosts: Hosts,
    source: Path,
    folder: Path,
    seen: Callable[[float, int], None],
    limit_s: float = LIMIT_S,
) -> Copied:
    """Copies a file, and compares what arrived with it.

    Args:
        copier: by which program.
        hosts: from where to where.
        source: the file.
        folder: an empty one, for what arrives and what the programs need.
        seen: is told the time since the client's start and the bytes that the link has carried.
        limit_s: how long it may take.

    Raises:
        TransferFailed: the client failed, or what arrived is another content.
        Unavailable: the server does not listen, or the copy takes longer than it may.
    """
    root = folder / "root"
    root.mkdir()
    said = folder / "said"
    with Processes(hosts.lab, folder / "logs") as processes:
        processes.start("server", hosts.far, copier.serve(hosts, root, folder))
        processes.wait_until("the server", lambda: _listens(hosts))
        before = _carried(hosts)
        begin_s = time.monotonic()
        with said.open("wb") as out:
            client = hosts.lab.popen(
                hosts.near, copier.send(hosts, source), stdout=out, stderr=subprocess.STDOUT
            )
        status = _watch(client, lambda at_s: seen(at_s, _carried(hosts) - before), begin_s, limit_s)
        seconds = time.monotonic() - begin_s
    if status != 0:
        words = said.read_text(errors="replace").strip().splitlines()[-1:]
        raise TransferFailed(f"{copier.name} ended with {status}: {' '.join(words)}")
    if (root / source.name).read_bytes() != source.read_bytes():
        raise TransferFailed(f"{copier.name}: what arrived is not what was sent")
    with said.open() as lines:
        return Copied(seconds, list(json_lines(lines)))


def _watch(
    client: "subprocess.Popen[bytes]", seen: Callable[[float], None], begin_s: float, limit_s: float
) -> int:
    """Looks now and then until the client ends; returns its status."""
    with client:
        try:
            while (left_s := begin_s + limit_s - time.monotonic()) > 0:
                try:
                    return client.wait(min(_STEP_S, left_s))
                except subprocess.TimeoutExpired:
                    seen(time.monotonic() - begin_s)
        finally:
            client.kill()
    raise Unavailable(f"the file took longer than {limit_s:.1f} s")


def _listens(hosts: Hosts) -> bool:
    told = hosts.lab.run(
        hosts.far, ["ss", "-Hltn", f"sport = :{_PORT}"], capture_output=True, text=True, check=True
    )
    return bool(told.stdout.strip())


def _carried(hosts: Hosts) -> int:
    """Bytes that have left the link's queue forward."""
    links = hosts.lab.status()["links"]
    count: int = next(x["forward"]["bytes_out"] for x in links if x["name"] == hosts.link)
    return count
